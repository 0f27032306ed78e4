"""The work of a kernel, counted over a sample of its warps: accesses, sectors, bank conflicts, operations, guards.

The kernel is the finished one, in the form of its source. A load that is invariant in the innermost loops around it
counts once for all of their iterations, since compilers hoist it. An element that a loop keeps in a register is loaded
before the loop, unless it has just been stored, and stored after it. Loads of neighbours in shared memory by the copies
of an unrolled loop count as one vector load.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..arith.simplify import simplify
from ..codegen.kernel import root
from ..codegen.matrix_fragments import FragmentLoads, fragment_loads
from ..codegen.vectors import contiguous, flat_index, known_divisor, lane_of
from ..core.hardware import MemoryScope
from ..core.target import Target
from ..core.warp_access import conflict_free, distinct, sectors, wavefronts
from ..expr import nodes as n
from ..expr import operators as op
from ..expr.nodes import Expr, Load, Var
from ..expr.traverse import post_order, substitute, variables
from ..loops.nodes import (
    Allocate,
    Barrier,
    Buffer,
    Evaluate,
    For,
    If,
    Launch,
    Let,
    LoopKind,
    Seq,
    Stmt,
    Store,
    Tensorized,
    While,
)
from ..loops.walk import substatements
from ..passes.register_prefetch import AHEAD
from .points import Points
from .promotion import RegisterPlace, place_of, promoted

WIDEST = 16
"""Most bytes of one access of a lane."""


@dataclass
class AccessCount:
    """All loads, or all stores, of one width that a kernel makes to one buffer.

    Counts are of the whole grid. `units` are sectors for global memory and wavefronts for shared memory. `least` is how
    many of them there would be if neighbouring lanes accessed neighbouring elements. `unknown` accesses have indices
    that are read from memory; they count as requests only.
    """

    buffer: str
    scope: MemoryScope
    stores: bool
    width: int
    lanes: float = 0.0
    requests: float = 0.0
    units: float = 0.0
    least: float = 0.0
    unknown: float = 0.0
    sample: tuple[tuple[int, int], ...] = ()
    """One request of the costliest kind that was seen: each lane that takes part, and the byte at which it begins.

    Bytes count from the first that the request touches.
    """
    sample_units: int = 0

    def note(self, at: np.ndarray, active: np.ndarray, units: np.ndarray) -> None:
        """Keep a request as the sample if it costs more than the present sample, or as much with more lanes."""
        row = int(np.lexsort((active.sum(axis=1), units))[-1])
        if units[row] > self.sample_units:
            self.sample_units = int(units[row])
            lanes = np.flatnonzero(active[row])
            least = int(at[row].min())
            self.sample = tuple((int(lane), int(at[row, lane]) - least) for lane in lanes)

    @property
    def per_request(self) -> float:
        """Sectors, or wavefronts, of one request of a warp."""
        known = self.requests - self.unknown
        return self.units / known if known else 0.0

    @property
    def best(self) -> float:
        """The least number of them that a request could take."""
        known = self.requests - self.unknown
        return self.least / known if known else 0.0

    @property
    def conflict_degree(self) -> float:
        """The factor by which bank conflicts lengthen an access of shared memory."""
        return self.units / self.least if self.least else 1.0


class Origin(enum.Enum):
    """The origin of a condition: a split or a tile, the expression of a stage, or a tile that is loaded ahead."""

    LOOPS = "loops"
    DECLARED = "declared"
    AHEAD = "ahead"


@dataclass
class Guard:
    """A condition that a kernel tests: the number of tests in the whole grid, and of tests in which it holds."""

    condition: str
    stages: tuple[str, ...]
    origin: Origin
    tested: float = 0.0
    passed: float = 0.0


@dataclass
class Counts:
    """The work of all threads of one kernel."""

    accesses: dict[tuple[str, MemoryScope, bool, int], AccessCount] = field(default_factory=dict)
    guards: dict[tuple[str, tuple[str, ...]], Guard] = field(default_factory=dict)
    operations: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    operations_of_type: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Arithmetic on elements, by the name of the stage and by the type of the result."""
    matrix_operations: float = 0.0
    matrix_instructions: float = 0.0
    barriers: float = 0.0

    @property
    def all_operations(self) -> float:
        """Arithmetic on elements, that of matrix instructions included."""
        return sum(self.operations.values()) + self.matrix_operations


@dataclass(frozen=True)
class _Around:
    """A loop during the walk: its variable, its number of entries at each point, the buffers stored inside, and the
    elements held in registers.
    """

    var: Var
    weights: np.ndarray
    stored: frozenset[Buffer]
    promoted: frozenset[RegisterPlace]
    copies: int
    """Iterations of an unrolled loop; else 1."""


@dataclass(frozen=True)
class _Evaluated:
    """The lanes that evaluate a part of an expression, the part's stage ("" for an index or a condition), and the
    variables of its conditions.
    """

    lanes: np.ndarray
    stage: str
    tested: frozenset[Var]

    def joined(self, other: _Evaluated) -> _Evaluated:
        """The lanes in which one of two expressions has the part."""
        lanes = self.lanes if self.lanes is other.lanes else self.lanes | other.lanes
        return _Evaluated(lanes, self.stage or other.stage, self.tested & other.tested)


class Counter:
    """Walks a kernel once, at all of its points together."""

    def __init__(self, points: Points, target: Target) -> None:
        self.points = points
        self.has_warps = target.has_warps
        self.memory = target.hardware.warp_memory
        self.counts = Counts()
        self._around: list[_Around] = []
        self._tested: frozenset[Var] = frozenset()
        """The variables of the conditions around."""
        self._stored: dict[Buffer, tuple[Expr, ...]] = {}
        """The element of each array in global memory that this thread has stored last, if that is certain."""

    def walk(self, stmt: Stmt) -> None:
        """Count a statement."""
        if isinstance(stmt, Seq):
            for part in stmt.stmts:
                self.walk(part)
        elif isinstance(stmt, For):
            self._loop(stmt)
        elif isinstance(stmt, If):
            self._branch(stmt)
        elif isinstance(stmt, Let):
            self._value(stmt.value, "")
            self.points.define(stmt.var, self.points.value(stmt.value))
            self.walk(stmt.body)
        elif isinstance(stmt, (Allocate, Launch)):
            self.walk(stmt.body)
        elif isinstance(stmt, Store):
            self._store(stmt)
        elif isinstance(stmt, Evaluate):
            self._value(stmt.value, "")
        elif isinstance(stmt, Tensorized) and stmt.atom.by_thread:
            self.walk(stmt.body)
        elif isinstance(stmt, Tensorized):
            self._matrix(stmt)
        elif isinstance(stmt, While):  # the number of runs is unknown: count one
            self._value(stmt.condition, "")
            self.walk(stmt.body)
        elif isinstance(stmt, Barrier):
            self._stored.clear()
            self.counts.barriers += float((self.points.weights * self.points.active.any(axis=1)).sum())

    def _loop(self, stmt: For) -> None:
        before = self.points.weights
        self.points.loop(stmt.var, stmt.min, stmt.extent)
        stored = frozenset(root(part.buffer) for part in _stores(stmt.body))
        unrolled = stmt.kind is LoopKind.UNROLLED and isinstance(stmt.extent, n.IntImm)
        copies = stmt.extent.value if unrolled else 1  # type: ignore[attr-defined]
        self._around.append(_Around(stmt.var, before, stored, promoted(stmt), copies))
        self.walk(stmt.body)
        self._around.pop()
        self.points.weights = before

    def _branch(self, stmt: If) -> None:
        before, tested = self.points.active, self._tested
        self._value(stmt.condition, "")
        passed = self.points.where(stmt.condition)
        rest = self.points.where(stmt.condition, holds=False)
        likely = isinstance(stmt.condition, n.Call) and stmt.condition.name == "likely"
        shown = stmt.condition.args[0] if isinstance(stmt.condition, n.Call) and likely else stmt.condition
        stored = {part.buffer for part in _stores(stmt.then)}
        origin = Origin.LOOPS if likely else Origin.DECLARED
        if not likely and all(buffer.name.endswith(AHEAD) for buffer in stored):
            origin = Origin.AHEAD
        self._guard(shown, stored, origin, passed)
        self._tested = tested | {*variables(stmt.condition)}
        for mask, part in ((passed, stmt.then), (rest, stmt.orelse)):
            if part is not None:
                self.points.active = mask
                self.walk(part)
                for buffer in {root(each.buffer) for each in _stores(part)}:
                    self._stored.pop(buffer, None)
        self.points.active = before
        self._tested = tested

    def _guard(self, condition: Expr, buffers: set[Buffer], origin: Origin, passed: np.ndarray) -> None:
        stages = tuple(sorted({(buffer.note or buffer.name).removesuffix(AHEAD) for buffer in buffers}))
        key = (str(condition), stages)
        found = self.counts.guards.setdefault(key, Guard(*key, origin))
        found.tested += self._lanes(self.points.active)
        found.passed += self._lanes(passed)

    def _lanes(self, mask: np.ndarray, weights: np.ndarray | None = None) -> float:
        """Count executions by single threads."""
        weights = self.points.weights if weights is None else weights
        return float((weights * np.broadcast_to(mask, self.points.active.shape).sum(axis=1)).sum())

    # Accesses and arithmetic

    def _store(self, stmt: Store) -> None:
        self._value(stmt.value, stmt.buffer.note or stmt.buffer.name, stmt.buffer)
        for index in stmt.indices:
            self._value(index, "")
        self._access(stmt.buffer, stmt.indices, True)

    def _value(self, e: Expr, stage: str, into: Buffer | None = None) -> None:
        """Count the evaluation of an expression; arithmetic counts only if it is that of a stage.

        A subexpression that several parts share is evaluated once, in all lanes in which one of these is.
        """
        before, around, nodes = self.points.active, self._tested, list(post_order(e))
        found: dict[Any, _Evaluated] = {e: _Evaluated(before, stage, around)}
        for at in reversed(nodes):  # after all nodes that contain it
            for part, reached in self._parts(at, found[at]):
                found[part] = found[part].joined(reached) if part in found else reached
        if into is not None:
            for at in _choices(e):
                self.points.active = found[at].lanes
                self._guard(at.condition, {into}, Origin.DECLARED, self.points.where(at.condition))
        for at in nodes:
            self.points.active, self._tested = found[at].lanes, found[at].tested
            self._evaluation(at, found[at].stage)
        self.points.active, self._tested = before, around

    def _parts(self, at: Any, by: _Evaluated) -> Iterator[tuple[Expr, _Evaluated]]:
        """The parts of a node, and the lanes in which the node evaluates each part."""
        if isinstance(at, (n.Select, n.IfThenElse)):
            self.points.active, tested = by.lanes, by.tested | {*variables(at.condition)}
            yield at.condition, replace(by, stage="")
            yield at.true_value, replace(by, lanes=self.points.where(at.condition), tested=tested)
            yield at.false_value, replace(by, lanes=self.points.where(at.condition, holds=False), tested=tested)
            return
        for part in at.children():
            yield part, replace(by, stage="") if isinstance(at, Load) else by

    def _evaluation(self, at: Any, stage: str) -> None:
        """Count a node of an expression."""
        if isinstance(at, Load):
            self._access(at.source, at.indices, False)
        elif stage and (isinstance(at, (n.Arithmetic, n.Min, n.Max)) or _is_function(at)):
            done = self._lanes(self.points.active) * at.dtype.lanes
            self.counts.operations[stage] += done
            self.counts.operations_of_type[str(at.dtype.scalar)] += done

    def _access(self, source: Any, indices: tuple[Expr, ...], stores: bool) -> None:
        if not isinstance(source, Buffer) or source.scope is MemoryScope.LOCAL:
            return
        index = flat_index(source, indices)
        weights = self.points.weights if stores else self._hoisted(source, index)
        place = place_of(source, indices)
        if place is not None:
            known = self._stored.get(place[0]) == indices
            self._stored.update([place] if stores else [])
            if known and not stores:
                return  # still in a register
            weights = next((loop.weights for loop in self._around if place in loop.promoted), weights)
        ramp = contiguous(index)
        size = source.dtype.scalar.bytes
        if isinstance(index, n.Ramp) and ramp is None:
            for lane in range(index.lanes):
                self._piece(source, self.points.value(lane_of(index, lane, {})), size, stores, weights)
            return
        first = self.points.value(index if ramp is None else ramp.base)
        together = 1 if stores or ramp is not None or first is None else self._loaded_together(source, index)
        if together > 1 and first is not None:
            self._piece(source, first // together * together, size * together, stores, weights / together)
            return
        whole = size * (1 if ramp is None else ramp.lanes)
        width = min(whole, WIDEST)
        if first is not None and (first * size % width).any():
            width = size
        for offset in range(0, whole, width):
            self._piece(source, None if first is None else first + offset // size, width, stores, weights)

    def _loaded_together(self, source: Buffer, index: Expr) -> int:
        """Return the number of iterations of an unrolled loop that share a vector load of shared memory, by its known
        alignment."""
        if source.scope is not MemoryScope.SHARED or not self._around or self._around[-1].copies == 1:
            return 1
        loop = self._around[-1]
        start = simplify(substitute(index, {loop.var: op.const(0, loop.var.dtype)}))
        if root(source) in loop.stored or not op.is_const(
            simplify(op.subtract(op.subtract(index, start), loop.var)), 0
        ):
            return 1
        most = WIDEST // source.dtype.scalar.bytes
        fitting = (k for k in (8, 4, 2) if k <= most and loop.copies % k == 0 and known_divisor(start) % k == 0)
        return next(fitting, 1)

    def _hoisted(self, source: Buffer, index: Expr) -> np.ndarray:
        """The executions of a load, once for all iterations of the innermost loops that it does not depend on."""
        used = {*variables(index), *self._tested}
        weights = self.points.weights
        for loop in reversed(self._around):
            if loop.var in used or root(source) in loop.stored:
                break
            weights = loop.weights
        return weights

    def _piece(self, buffer: Buffer, first: np.ndarray | None, width: int, stores: bool, weights: np.ndarray) -> None:
        """One instruction of a warp: `first` is the element at which each lane's `width` bytes begin."""
        key = (buffer.note or buffer.name, buffer.scope, stores, width)
        found = self.counts.accesses.setdefault(key, AccessCount(*key))
        active = self.points.active
        rows = active.any(axis=1) & (weights > 0)
        if not rows.any():
            return
        requests = float(weights[rows].sum())
        found.lanes += self._lanes(active, weights)
        found.requests += requests
        if first is None or not self.has_warps:
            found.unknown += requests
            return
        at = np.broadcast_to(first * buffer.dtype.scalar.bytes + (buffer.byte_offset or 0), active.shape)[rows]
        on = active[rows]
        # A lane that takes no part repeats one that does.
        at = np.where(on, at, np.take_along_axis(at, on.argmax(axis=1)[:, None], axis=1))
        if buffer.scope is MemoryScope.SHARED:
            units, least = wavefronts(at, width, self.memory), conflict_free(at, width, self.memory)
        else:
            units, least = sectors(at, width, self.memory), -(-distinct(at) * width // self.memory.sector)
        found.units += float((weights[rows] * units).sum())
        found.note(at, on, units)
        found.least += float((weights[rows] * least).sum())

    # Matrix instructions

    def _matrix(self, stmt: Tensorized) -> None:
        atom = stmt.atom
        rows, columns, depth = stmt.extents
        done = float((self.points.weights * self.points.active.any(axis=1)).sum())
        self.counts.matrix_operations += done * 2 * rows * columns * depth
        width = atom.width(columns) if atom.by_warpgroup else atom.n
        pieces = (rows // atom.m) * (columns // width) * (depth // atom.k)
        self.counts.matrix_instructions += done * pieces * atom.products
        if atom.by_warpgroup:  # the hardware reads the operands of warpgroups itself
            return
        for operand, line, lines in ((stmt.a, stmt.row, rows), (stmt.b, stmt.column, columns)):
            if isinstance(operand, Load) and isinstance(operand.source, Buffer):
                self._fragments(stmt, operand.source, operand.indices, line, lines)

    def _fragments(self, stmt: Tensorized, source: Buffer, indices: tuple[Expr, ...], line: Var, lines: int) -> None:
        """The loads of an operand, in the way in which its code loads it."""
        lane, size = np.arange(self.points.lanes)[None, :], source.dtype.bytes
        low, high, top = lane % 8, lane // 8 % 2, lane // 16
        index = flat_index(source, indices)
        way, width = fragment_loads(stmt, index, line, size), 16
        if way is FragmentLoads.ALONG:
            line_at, depth_at = low + 8 * high, top * (16 // size)
        elif way is FragmentLoads.ACROSS:
            line_at, depth_at = 8 * top, low + 8 * high
        else:
            width, line_at, depth_at = size, lane // 4, lane % 4 * stmt.atom.per_word
        self.points.define(stmt.column if line is stmt.row else stmt.row, np.zeros((1, 1), np.int64))
        self.points.define(line, line_at)
        self.points.define(stmt.depth, depth_at)
        times = lines * stmt.extents[2] * size / (width * self.points.lanes)
        self._piece(source, self.points.value(index), width, False, self.points.weights * times)


def _choices(e: Expr) -> Iterator[Any]:
    """The choices in an expression, outer choices first."""
    pending, seen = [e], set[Expr]()
    while pending:
        at = pending.pop()
        if at not in seen:
            seen.add(at)
            if isinstance(at, (n.Select, n.IfThenElse)):
                yield at
            pending += reversed([*at.children()])


def _is_function(e: Any) -> bool:
    return isinstance(e, n.Call) and e.name != "likely" and not e.dtype.is_bool


def _stores(stmt: Stmt) -> list[Store]:
    """The stores in a statement, including stores of matrix instructions."""
    if isinstance(stmt, Store):
        return [stmt]
    return [store for child in substatements(stmt) for store in _stores(child)]
