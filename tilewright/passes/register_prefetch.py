"""register_prefetch: software prefetching. A loop loads the tiles of its next iteration into registers.

A load from global memory takes hundreds of cycles, and behind a barrier its block has nothing else to do meanwhile. So
the loads of iteration i + 1 are issued before the work of iteration i. Their registers are stored to shared memory when
their turn comes:

    for i: shared = global[i]        held = global[0]
           barrier; use shared   ->  for i: shared = held
                                            if i + 1 < n: held = global[i + 1]
                                            barrier; use shared

Loops with nothing between them become one first, so that the last load of an inner loop is not waited for either.

A ring of several stages has room for later iterations already. Data without an asynchronous copy are loaded before the
work of an iteration and stored after it:

    for i: ring[(i + 1) % 2] = global[i + 1]        for i: held = global[i + 1]
           use ring[i % 2]                      ->         use ring[i % 2]
                                                           ring[(i + 1) % 2] = held
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, prod

from ..arith.facts import EMPTY, Facts
from ..core.hardware import Hardware, LoopKind, MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..core.vectorized import Number, least
from ..expr.nodes import Expr, IntImm, Load, Ramp, Var
from ..expr.operators import add, const, less, multiply, subtract
from ..expr.traverse import substitute
from ..loops import uses
from ..loops.dataflow import Scene, accesses, dependence, feeds
from ..loops.nodes import Allocate, Buffer, For, Function, If, Launch, Seq, Stmt, Store, While, map_statements, seq
from ..loops.walk import map_kernels, statements
from .asynchronous_copies import is_fill
from .loop_nests import digits, is_constant, iterations, joint_variable, serial_nest
from .simplify_program import simplify_statement

AHEAD = ".next"
"""Suffix of the name of a tile of the next iteration."""
MAX_HELD = 32
"""32-bit registers per thread that the prefetched elements of one loop may occupy."""
_SHARE = Fraction(3, 4)
"""Share of a thread's registers that may be in use with the prefetched elements; the compiler needs the rest."""
_OVERHEAD = 40
"""Registers for addresses and loop variables."""
_SHARED = frozenset({MemoryScope.SHARED})
UNKNOWN = 1 << 20
"""Registers that an array of unknown size counts for: too many."""


def register_prefetch(function: Function, target: Target, options: Options) -> Function:
    """Prefetch the fills of shared memory of every serial loop in a kernel, as far as registers allow."""
    return map_kernels(function, lambda kernel: _in_kernel(kernel, target.hardware))


def _in_kernel(stmt: Launch, hardware: Hardware) -> Launch:
    facts = EMPTY.bind_all({var: (const(0, var.dtype), extent) for _, var, extent in stmt.threads})
    scene = Scene(frozenset(var for tag, var, _ in stmt.threads if tag.is_thread), facts)
    return stmt.with_body(_visit(stmt.body, scene, _spare_registers(stmt, hardware)))


def _spare_registers(kernel: Launch, hardware: Hardware) -> int:
    largest = hardware.block.threads
    threads = prod(e.value if isinstance(e, IntImm) else largest for tag, _, e in kernel.threads if tag.is_thread)
    local = [stmt.buffer for stmt in statements(kernel.body) if isinstance(stmt, Allocate)]
    used = sum(_words(buffer) for buffer in local if buffer.scope is MemoryScope.LOCAL)
    return int(spare_registers(hardware, threads, used))


def spare_registers(hardware: Hardware, threads: Number, local_words: Number) -> Number:
    """The registers that a thread can use for prefetching, from its block's threads and its arrays' words."""
    usable = least(ceil(_SHARE * hardware.registers_per_thread), hardware.registers_at(threads))
    return least(MAX_HELD, usable - local_words - _OVERHEAD)


def _words(buffer: Buffer) -> int:
    size = buffer.shape[0]
    return size.value * max(1, buffer.dtype.bits // 32) if isinstance(size, IntImm) else UNKNOWN


def _visit(stmt: Stmt, scene: Scene, spare: int) -> Stmt:
    inside = scene
    if isinstance(stmt, While):
        return stmt
    if isinstance(stmt, For):
        inside = scene.inside(stmt)
        made = _prefetched(serial_nest(stmt), scene.facts, spare) or _stored_late(stmt, inside, spare)
        if made is not None:
            return made
    return map_statements(stmt, lambda child: _visit(child, inside, spare))


def _prefetched(loops: list[For], facts: Facts, spare: int) -> Stmt | None:
    """Join a nest to one loop with its fills an iteration ahead; None if it has no fills, or too large fills."""
    if not loops:
        return None
    body = loops[-1].body
    parts = body.stmts if isinstance(body, Seq) else (body,)
    fills = [i for i, part in enumerate(parts) if _is_prefetchable(part, body, ring=False)]
    held = _Held([parts[i] for i in fills])
    extent = iterations(loops)
    if extent < 2 or not fills or fills[-1] + 1 == len(parts) or held.registers > spare:
        return None
    var = loops[0].var if len(loops) == 1 else joint_variable(loops)
    if var is None:
        return None
    start = loops[0].min if len(loops) == 1 else const(0, "int32")
    inside = facts.bind(var, start, const(extent, var.dtype))

    def at(step: Expr) -> dict[Var, Expr]:
        """Return the values of all loop variables in one iteration of the nest."""
        return digits(loops, step) if len(loops) > 1 else {var: step}

    loads = [held.loads(parts[i], at(start)) for i in fills]
    made = [simplify_statement(substitute(part, at(var)), inside) if len(loops) > 1 else part for part in parts]
    for i in fills:
        made[i] = simplify_statement(held.stores(parts[i], at(var)), inside)
    following = [held.loads(parts[i], at(add(var, 1))) for i in fills]
    ahead = If(less(var, add(start, extent - 1)), seq(*following), None)
    made.insert(fills[-1] + 1, simplify_statement(ahead, inside))
    pragmas = tuple(pragma for loop in loops for pragma in loop.pragmas)
    loop = For(var, start, const(extent, var.dtype), LoopKind.SERIAL, None, pragmas, seq(*made))
    return held.allocated(seq(simplify_statement(seq(*loads), facts), loop))


def _stored_late(loop: For, scene: Scene, spare: int) -> Stmt | None:
    """The loop, with its loads for rings stored after its other work; None if it loads nothing, or too much."""
    parts = loop.body.stmts if isinstance(loop.body, Seq) else ()
    fills = [part for part in parts if _is_prefetchable(part, loop.body, ring=True)]
    others = [part for part in parts if part not in fills]
    held = _Held(fills)
    if loop.kind is not LoopKind.SERIAL or not fills or not any(map(uses.written, others)) or held.registers > spare:
        return None
    passed = accesses(seq(*others), _SHARED)
    stored = [access for fill in fills for access in accesses(fill, _SHARED)]
    if any(dependence(source, sink, scene) is not None for source in passed for sink in stored):
        return None
    made = [held.loads(part, {}) if part in fills else part for part in parts]
    body = seq(*made, *(held.stores(fill, {}) for fill in fills))
    return held.allocated(For(loop.var, loop.min, loop.extent, loop.kind, None, loop.pragmas, body))


def _is_prefetchable(stmt: Stmt, body: Stmt, ring: bool) -> bool:
    """Whether a statement is a fill from global memory that stays the same.

    `ring`: whether the filled buffers must have several stages, or one.
    """
    sources = uses.read(stmt)
    return (
        bool(sources)
        and is_fill(stmt)
        and all((buffer.stages > 1) is ring for buffer in uses.written(stmt))
        and all(source.scope is MemoryScope.GLOBAL for source in sources)
        and not feeds(body, stmt)
        and all(
            type(part) in (If, Seq, Store) or (isinstance(part, For) and is_constant(part.min, part.extent))
            for part in statements(stmt)
        )
    )


class _Held:
    """The registers for the values that `fills` will store: an array for each buffer, a place for each store."""

    def __init__(self, fills: Sequence[Stmt]) -> None:
        self._places: dict[Store, Expr] = {}
        sizes: dict[Buffer, int] = {}
        for fill in fills:
            self._place(fill, [], sizes)
        self._arrays = {
            target: Buffer(f"{target.name}{AHEAD}", str(target.dtype), (const(size, "int32"),), MemoryScope.LOCAL)
            for target, size in sizes.items()
        }
        self.registers = sum(_words(array) for array in self._arrays.values())

    def _place(self, stmt: Stmt, loops: list[For], sizes: dict[Buffer, int]) -> None:
        if isinstance(stmt, For):
            loops = [*loops, stmt]
        if isinstance(stmt, Store):
            lanes, count = stmt.value.dtype.lanes, 1
            place: Expr = const(0, "int32")
            for loop in loops:
                place = add(multiply(place, loop.extent), subtract(loop.var, loop.min))
                count *= int(loop.extent)  # a constant, as of all fills
            start = sizes.get(stmt.buffer, 0)
            place = add(multiply(place, lanes), start)
            self._places[stmt] = place if lanes == 1 else Ramp(place, const(1, place.dtype), lanes)
            sizes[stmt.buffer] = start + count * lanes
        for child in stmt.children():
            if isinstance(child, Stmt):
                self._place(child, loops, sizes)

    def loads(self, fill: Stmt, values: Mapping[Var, Expr]) -> Stmt:
        """The fill into registers, for `values` of the variables of the loops around it."""

        def visit(stmt: Stmt) -> Stmt:
            if isinstance(stmt, Store):
                return Store(self._arrays[stmt.buffer], (self._places[stmt],), stmt.value)
            return map_statements(stmt, visit)

        made: Stmt = substitute(_renamed(visit(fill)), values)
        return made

    def stores(self, fill: Stmt, values: Mapping[Var, Expr]) -> Stmt:
        """The fill from registers, for `values` of the variables of the loops around it."""

        def visit(stmt: Stmt) -> Stmt:
            if isinstance(stmt, Store):
                return Store(stmt.buffer, stmt.indices, Load(self._arrays[stmt.buffer], (self._places[stmt],)))
            return map_statements(stmt, visit)

        made: Stmt = substitute(visit(fill), values)
        return made

    def allocated(self, body: Stmt) -> Stmt:
        """`body` within the allocations of the registers."""
        for array in self._arrays.values():
            body = Allocate(array, body)
        return body


def _renamed(stmt: Stmt) -> Stmt:
    """A copy with new loop variables."""
    loops = [part.var for part in statements(stmt) if isinstance(part, For)]
    fresh = {var: Var(var.name, var.dtype) for var in loops}

    def visit(node: Stmt) -> Stmt:
        made = map_statements(node, visit)
        if isinstance(made, For):
            return For(fresh[made.var], made.min, made.extent, made.kind, made.thread, made.pragmas, made.body)
        return made

    made: Stmt = substitute(visit(stmt), fresh)
    return made
