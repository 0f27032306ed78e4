"""The loops of a function on a processor: vectors, orders of accesses, and the memory each loop touches."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from ..arith.coefficients import coefficients
from ..arith.simplify import simplify
from ..codegen.kernel import root
from ..codegen.vectors import flat_index, lane_offsets
from ..core.hardware import Cache, Hardware
from ..expr import nodes as n
from ..expr import operators as op
from ..expr.evaluate import evaluate
from ..expr.nodes import Expr, Load, Var
from ..expr.traverse import post_order, reads_memory, substitute, variables
from ..loops.nodes import Allocate, Buffer, For, Function, If, Let, LoopKind, Stmt, Store
from .footprint import Touched, bytes_of


class AccessPattern(enum.Enum):
    """How the lanes of a vector, or the iterations of the innermost loop, move through memory."""

    SAME = "the same element"
    CONTIGUOUS = "contiguous"
    STRIDED = "strided"
    DATA = "by data"


@dataclass(frozen=True)
class ProcessorAccess:
    """A load or a store of a stage: `lanes` is 1 for a scalar, which has the pattern of the innermost loop, `loop`.

    `element` is the bytes of an element, `stride` the distance in bytes of neighbouring lanes or iterations. A scalar
    serves all lanes of the vector that its statement computes, `shared` of them.
    """

    stage: str
    loop: str
    buffer: str
    stores: bool
    dtype: str
    element: int
    lanes: int
    pattern: AccessPattern
    stride: int = 0
    shared: int = 1


@dataclass(frozen=True)
class LoopFootprint:
    """All iterations of a loop, for one iteration of the loops around it: the bytes that they touch, and the
    operations.

    `cache` is the smallest cache that holds these bytes; None if none does.
    """

    loop: str
    depth: int
    extent: int
    kind: str
    bytes: Mapping[str, int]
    operations: float
    cache: Cache | None

    @property
    def all_bytes(self) -> int:
        """Bytes of all buffers together."""
        return sum(self.bytes.values())


@dataclass(frozen=True)
class ProcessorUse:
    """The loops of a function on a processor, in their order in the program."""

    hardware: Hardware
    loops: tuple[LoopFootprint, ...]
    accesses: tuple[ProcessorAccess, ...]

    @property
    def parallel(self) -> tuple[LoopFootprint, ...]:
        """The loops with iterations distributed over threads."""
        return tuple(loop for loop in self.loops if loop.kind == LoopKind.PARALLEL.value)


def processor_use(function: Function, hardware: Hardware, sizes: Mapping[Var, int]) -> ProcessorUse:
    """Return the analysis of a finished function on a processor; `sizes` are the values of its parameters."""
    walk = _Walk(hardware, sizes)
    walk.statement(function.body, 0)
    return ProcessorUse(hardware, tuple(walk.loops), tuple(dict.fromkeys(walk.accesses)))


@dataclass(frozen=True)
class _Access:
    """An access inside the loops of the walk: its position in elements, as far as it depends on these loops."""

    touched: Touched
    index: Expr | None
    element: int


@dataclass
class _Body:
    """The work of one execution of a statement."""

    accesses: list[_Access]
    operations: float = 0.0

    def joined(self, other: _Body) -> _Body:
        """This and another statement."""
        return _Body([*self.accesses, *other.accesses], self.operations + other.operations)


class _Walk:
    """Walks a function from the inside out."""

    def __init__(self, hardware: Hardware, sizes: Mapping[Var, int]) -> None:
        self.hardware = hardware
        self.known: dict[Var, Expr] = {var: op.const(value, var.dtype) for var, value in sizes.items()}
        self.loops: list[LoopFootprint] = []
        self.accesses: list[ProcessorAccess] = []
        self._around: list[For] = []
        self._width = 1
        """Lanes of the statement that is being walked."""
        self._sizes: dict[Buffer, int] = {}

    def statement(self, stmt: Stmt, depth: int) -> _Body:
        """Return the work of one execution of a statement, and note its loops."""
        if isinstance(stmt, For):
            return self._loop(stmt, depth)
        if isinstance(stmt, Let):
            self.known[stmt.var] = self._seen(stmt.value)
            return self._expression(stmt.value, "").joined(self.statement(stmt.body, depth))
        if isinstance(stmt, Store):
            return self._store(stmt)
        body = self._expression(stmt.condition, "") if isinstance(stmt, If) else _Body([])
        parts = [stmt.body] if isinstance(stmt, Allocate) else stmt.children()
        for part in parts:
            if isinstance(part, Stmt):
                body = body.joined(self.statement(part, depth))
        return body

    def _seen(self, e: Expr) -> Expr:
        """An expression in terms of loop variables."""
        return simplify(substitute(e, self.known)) if self.known else e

    def _number(self, e: Expr) -> int | None:
        """The value of an expression; None if it depends on a loop or on data."""
        e = self._seen(e)
        if isinstance(e, n.IntImm):
            return e.value
        return None if variables(e) or reads_memory(e) else int(evaluate(e, {}))

    def _loop(self, stmt: For, depth: int) -> _Body:
        extent = self._number(stmt.extent)
        many = 1 if extent is None else max(0, extent)
        place = len(self.loops)
        self._around.append(stmt)
        inside = self.statement(stmt.body, depth + 1)
        self._around.pop()
        accesses = [self._within(access, stmt.var, many) for access in inside.accesses]
        whole = _Body(accesses, inside.operations * many)
        touched = bytes_of((a.touched for a in accesses), self.hardware.cache_line, self._sizes)
        by_name: dict[str, int] = {}
        for buffer, size in touched.items():
            name = buffer.note or buffer.name
            by_name[name] = by_name.get(name, 0) + size
        total = sum(by_name.values())
        cache = next((one for one in self.hardware.caches if total <= one.bytes), None)
        found = LoopFootprint(stmt.var.name, depth, many, stmt.kind.value, by_name, whole.operations, cache)
        self.loops.insert(place, found)
        return whole

    def _within(self, access: _Access, var: Var, extent: int) -> _Access:
        step = 0 if access.index is None else self._step(access.index, var)
        stride = None if step is None else step * access.element
        return replace(access, touched=access.touched.within(stride, extent))

    def _step(self, index: Expr, var: Var) -> int | None:
        """The elements by which an index moves from one value of a variable to the next; None if that differs."""
        found = coefficients(index, [var])
        if found is None:
            return None
        return self._number(found[0].get(var, op.const(0, "int32")))

    def _store(self, stmt: Store) -> _Body:
        stage = stmt.buffer.note or stmt.buffer.name
        self._width = stmt.value.dtype.lanes
        body = self._expression(stmt.value, stage).joined(self._access(stmt.buffer, stmt.indices, stage, True))
        self._width = 1
        return body

    def _expression(self, e: Expr, stage: str) -> _Body:
        """The loads of an expression, and its arithmetic if it is the value of a stage."""
        body = _Body([])
        for at in post_order(e):
            if isinstance(at, Load) and isinstance(at.source, Buffer):
                body = body.joined(self._access(at.source, at.indices, stage, False))
        if stage:
            body.operations = float(sum(at.dtype.lanes for at in _values(e) if _is_arithmetic(at)))
        return body

    def _access(self, buffer: Buffer, indices: tuple[Expr, ...], stage: str, stores: bool) -> _Body:
        memory, element = root(buffer), buffer.dtype.scalar.bytes
        shape = [self._number(extent) or 1 for extent in memory.shape]
        self._sizes[memory] = prod(shape) * memory.dtype.bytes
        index = self._seen(flat_index(buffer, indices))
        base, step = self._lanes(index)
        lanes = index.dtype.lanes
        of_loop = lanes == 1 and bool(self._around)
        moved = self._step(base, self._around[-1].var) if of_loop and base is not None else step
        pattern, stride = _pattern(moved, element)
        loop = self._around[-1].var.name if of_loop else ""
        name, dtype = buffer.note or buffer.name, str(buffer.dtype.scalar)
        shared = self._width if lanes == 1 else 1
        self.accesses.append(ProcessorAccess(stage, loop, name, stores, dtype, element, lanes, pattern, stride, shared))
        if base is None or step is None:
            return _Body([_Access(Touched(memory, element, None), None, element)])
        touched = Touched(memory, element, (), self._constant(base) * element).within(step * element, lanes)
        return _Body([_Access(touched, base, element)])

    def _lanes(self, index: Expr) -> tuple[Expr | None, int | None]:
        """The position of the first lane, and the distance of lanes; None if they depend on data or are uneven."""
        if reads_memory(index):
            return None, None
        if index.dtype.lanes == 1:
            return index, 0
        found = lane_offsets(index)
        if found is None:
            return None, None
        base, offsets = found
        even = len({later - earlier for earlier, later in pairwise(offsets)}) == 1
        return base, offsets[1] - offsets[0] if even else None

    def _constant(self, index: Expr) -> int:
        """The part of an index that does not depend on loops."""
        found = coefficients(index, [loop.var for loop in self._around])
        return 0 if found is None else self._number(found[1]) or 0


def _is_arithmetic(e: Expr) -> bool:
    if isinstance(e, n.Call):
        return e.name != "likely" and not e.dtype.is_bool
    return isinstance(e, (n.Arithmetic, n.Min, n.Max))


def _pattern(step: int | None, element: int) -> tuple[AccessPattern, int]:
    if step is None:
        return AccessPattern.DATA, 0
    if not step:
        return AccessPattern.SAME, 0
    return (AccessPattern.CONTIGUOUS, element) if step == 1 else (AccessPattern.STRIDED, abs(step) * element)


def _values(e: Expr) -> set[Expr]:
    """The parts of an expression outside of indices."""
    found, pending = set[Expr](), [e]
    while pending:
        at = pending.pop()
        if at not in found:
            found.add(at)
            pending += [] if isinstance(at, Load) else [child for child in at.children() if isinstance(child, Expr)]
    return found
