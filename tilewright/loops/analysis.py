"""Questions about programs under the legacy API's names: `tir.analysis`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import UserError
from ..core.hardware import LoopKind, MemoryScope, ThreadTag
from ..core.recursion import deep
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Load, Var
from ..expr.operators import as_expr
from ..expr.traverse import post_order, reads_memory
from ..tensor.axis import IterVar
from ..tensor.reduction import Reduce
from .nodes import Allocate, Buffer, For, Function, Launch, Let, Program, Seq, Stmt, Store, Tensorized
from .thread_extents import is_kernel


def expr_deep_equal(lhs: Any, rhs: Any) -> bool:
    """Return whether two expressions are the same in every part, variables included."""
    return as_expr(lhs) is as_expr(rhs)


def _functions(given: Any, primitive: str) -> tuple[Function, ...]:
    if isinstance(given, Function):
        return (given,)
    if isinstance(given, Program):
        return given.functions
    raise UserError(
        f"{given!r} is not a function",
        primitive=primitive,
        fix='give one: tw.lower(s, args)["main"], or the module that tw.lower returns',
    )


def _defined_by(node: Any) -> tuple[Var, ...]:
    if isinstance(node, (For, Let)):
        return (node.var,)
    if isinstance(node, Launch):
        return tuple(var for _, var, _ in node.threads)
    if isinstance(node, Tensorized):
        return node.row, node.column, node.depth
    return tuple(axis.var for axis in node.axes) if isinstance(node, Reduce) else ()


@deep
def verify_ssa(func: Any) -> bool:
    """Return whether every variable of a function is defined once, and used only in its scope."""
    return all(_is_ssa(function) for function in _functions(func, "verify_ssa"))


def _is_ssa(function: Function) -> bool:
    known = {p for p in function.params if isinstance(p, Var)}
    for buffer in function.buffers:
        known.update(e for e in post_order(*buffer.shape, *(buffer.layout.given or ())) if isinstance(e, Var))
        known.update(e for e in post_order(buffer.layout.start) if isinstance(e, Var))
    defined = [var for stmt in _every(function.body) for var in _defined_by(stmt)]
    once = len(defined) == len(set(defined)) and known.isdisjoint(defined)
    return once and not [var for var in undefined_vars(function.body) if var not in known]


def _every(stmt: Stmt) -> Iterator[Stmt]:
    """A statement and all below it; one that occurs twice is yielded twice."""
    yield stmt
    for child in stmt.children():
        if isinstance(child, Stmt):
            yield from _every(child)


@deep
def undefined_vars(node: Any, defs: Any = ()) -> list[Var]:
    """Return the variables that a statement or expression uses and does not define, in order of appearance.

    Parameters
    ----------
    node
        A statement or an expression.
    defs
        Variables that count as defined.
    """
    found: dict[Var, None] = {}
    seen: set[tuple[Any, frozenset[Var]]] = set()

    def visit(at: Any, known: frozenset[Var]) -> None:
        if isinstance(at, Var):
            if at not in known:
                found[at] = None
            return
        if (at, known) in seen:
            return
        seen.add((at, known))
        defined = _defined_by(at)
        inside = known.union(defined) if defined else known
        outside = _outside(at)
        for child in at.children():
            visit(child, known if any(child is part for part in outside) else inside)

    if not isinstance(defs, (list, tuple)):
        raise UserError(f"defs are {defs!r}", primitive="undefined_vars", fix="give a list of variables")
    visit(
        node if isinstance(node, Stmt) else as_expr(node),
        frozenset(axis.var if isinstance(axis, IterVar) else axis for axis in defs),
    )
    return list(found)


def _outside(node: Any) -> tuple[Any, ...]:
    """The parts of a node outside the scope of its definitions."""
    if isinstance(node, For):
        return node.min, node.extent
    if isinstance(node, Let):
        return (node.value,)
    return tuple(extent for _, _, extent in node.threads) if isinstance(node, Launch) else ()


@deep
def verify_memory(func: Any, target: Any = None) -> bool:
    """Return whether a function reads and writes its arguments only in kernels, if its target is a GPU.

    Parameters
    ----------
    func
        A lowered function or module.
    target
        The target it is compiled for; else its attribute "target", else the current target. On a CPU every access is
        right.
    """
    for function in _functions(func, "verify_memory"):
        named = target if target is not None else getattr(function, "attrs", {}).get("target", Target.current())
        if named is None or not Target.parse(named).is_gpu:
            continue
        if _outside_of_kernels(function.body):
            return False
    return True


def _outside_of_kernels(stmt: Stmt) -> bool:
    if isinstance(stmt, Launch) or is_kernel(stmt):
        return False
    for child in stmt.children():
        if isinstance(child, Stmt):
            if _outside_of_kernels(child):
                return True
        elif reads_memory(child):
            return True
    return isinstance(stmt, Store)


@dataclass
class _Use:
    """The resources of a block of one kernel."""

    extents: dict[ThreadTag, int] = field(default_factory=dict)
    vthreads: int = 1
    held: dict[MemoryScope, int] = field(default_factory=dict)
    widest: int = 0
    is_clear: bool = True
    """Whether each hardware index has a single, known extent."""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        total = 1
        for tag, extent in self.extents.items():
            total *= 1 if tag.is_block else extent
        return total


def _thread(tag: ThreadTag) -> Callable[[_Use], int]:
    return lambda use: use.extents.get(tag, 1)


_LIMITS: dict[str, Callable[[_Use], int]] = {
    "max_local_memory_per_block": lambda use: use.held.get(MemoryScope.LOCAL, 0),
    "max_shared_memory_per_block": lambda use: use.held.get(MemoryScope.SHARED, 0),
    "max_threads_per_block": lambda use: use.threads,
    "max_thread_x": _thread(ThreadTag.THREAD_X),
    "max_thread_y": _thread(ThreadTag.THREAD_Y),
    "max_thread_z": _thread(ThreadTag.THREAD_Z),
    "max_vthread": lambda use: use.vthreads,
    "max_vector_bytes": lambda use: use.widest,
}


@deep
def verify_gpu_code(func: Any, constraints: Mapping[str, Any]) -> bool:
    """Return whether every kernel of a lowered function keeps to limits.

    Parameters
    ----------
    func
        A lowered function or module.
    constraints
        The most of each: "max_shared_memory_per_block" and "max_local_memory_per_block" (bytes),
        "max_threads_per_block", "max_thread_x", "max_thread_y", "max_thread_z", "max_vthread",
        "max_vector_bytes" (of one access), "max_kernels".

    Raises
    ------
    UserError
        For another name.
    """
    if not isinstance(constraints, Mapping) or not all(isinstance(name, str) for name in constraints):
        raise UserError(
            f"constraints are {constraints!r}",
            primitive="verify_gpu_code",
            fix='give a dict: {"max_threads_per_block": 1024}',
        )
    unknown = sorted(set(constraints) - {*_LIMITS, "max_kernels"})
    if unknown:
        raise UserError(
            f"there is no constraint {unknown[0]!r}",
            primitive="verify_gpu_code",
            fix=f"use {', '.join([*_LIMITS, 'max_kernels'])}",
        )
    for function in _functions(func, "verify_gpu_code"):
        uses: list[_Use] = []
        _collect(function.body, None, [], uses)
        if len(uses) > int(constraints.get("max_kernels", len(uses))):
            return False
        for use in uses:
            if not use.is_clear or any(_LIMITS[n](use) > int(constraints[n]) for n in constraints if n in _LIMITS):
                return False
    return True


def _collect(stmt: Any, use: _Use | None, around: list[Buffer], uses: list[_Use]) -> None:
    """Add up the resources of the kernels below `stmt`; `around` are allocations outside of any kernel."""
    if use is None and (is_kernel(stmt) or isinstance(stmt, Launch)):
        use = _Use()
        uses.append(use)
        for buffer in around:
            _hold(use, buffer)
    if isinstance(stmt, Launch) and use is not None:
        for tag, _, extent in stmt.threads:
            _bind(use, tag, extent)
    elif isinstance(stmt, For) and stmt.kind is LoopKind.THREAD and stmt.thread is not None and use is not None:
        _bind(use, stmt.thread, stmt.extent)
    if isinstance(stmt, Allocate):
        if use is None:
            around = [*around, stmt.buffer]
        else:
            _hold(use, stmt.buffer)
    if isinstance(stmt, Store) and use is not None:
        use.widest = max(use.widest, stmt.value.dtype.bytes)
    for child in stmt.children():
        if isinstance(child, Stmt):
            _collect(child, use, around, uses)
        elif use is not None:
            widths = [e.dtype.bytes for e in post_order(child) if isinstance(e, Load)]
            use.widest = max([use.widest, *widths])


def _bind(use: _Use, tag: ThreadTag, extent: Expr) -> None:
    if not isinstance(extent, IntImm):
        use.is_clear = use.is_clear and tag.is_block
    elif tag is ThreadTag.VTHREAD:
        use.vthreads *= extent.value
    else:
        use.is_clear = use.is_clear and use.extents.get(tag, extent.value) == extent.value
        use.extents[tag] = extent.value


def _hold(use: _Use, buffer: Buffer) -> None:
    size = buffer.constant_bytes
    use.is_clear = use.is_clear and size is not None
    use.held[buffer.scope] = use.held.get(buffer.scope, 0) + (size or 0)


@deep
def calculate_workspace_bytes(func: Any, workspace_byte_alignment: int = 1) -> int:
    """Return the most bytes of global memory that a function allocates at one time.

    Parameters
    ----------
    func
        A lowered function.
    workspace_byte_alignment
        Each allocation counts as the next multiple of this many bytes.

    Raises
    ------
    UserError
        If the size of an allocation depends on the arguments.
    """
    if isinstance(workspace_byte_alignment, bool) or not isinstance(workspace_byte_alignment, int):
        raise UserError(
            f"workspace_byte_alignment={workspace_byte_alignment!r} is not a number of bytes",
            primitive="calculate_workspace_bytes",
            fix="give an int: 64",
        )
    step = max(1, workspace_byte_alignment)
    return max(_most_held(function.body, step) for function in _functions(func, "calculate_workspace_bytes"))


def _most_held(stmt: Stmt, step: int) -> int:
    most = 0
    for child in stmt.stmts if isinstance(stmt, Seq) else stmt.children():
        if isinstance(child, Stmt):
            most = max(most, _most_held(child, step))
    if isinstance(stmt, Allocate) and stmt.buffer.scope is MemoryScope.GLOBAL:
        size = stmt.buffer.constant_bytes
        if size is None:
            raise UserError(
                f"the size of {stmt.buffer.name!r} depends on the arguments of the call",
                primitive="calculate_workspace_bytes",
                fix="give the tensors constant extents",
            )
        most += -(-size // step) * step
    return most
