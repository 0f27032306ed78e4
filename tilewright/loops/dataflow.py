"""What a statement reads and writes, and which accesses must not change places: dependences, as data.

An `Access` is a set of elements of one buffer that the threads of a block read or write. Two accesses *depend* on each
other where both may go to the same element and one of them writes: in one thread, or between different threads, which
only a barrier orders; in one iteration of the loops around both, or carried by one of them. The answer is "they do"
unless it is proven that they do not.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..arith.affine import Affine
from ..arith.facts import Facts
from ..core.hardware import LoopKind, MemoryScope
from ..core.node import Node
from ..expr.nodes import Expr, IntImm, Load, Ramp, Var
from ..expr.operators import const, logical_not
from ..expr.traverse import conjuncts, post_order, substitute, variables
from . import uses
from .nodes import NOTHING, Buffer, Copy, Evaluate, For, If, Let, Stmt, Store, Tensorized
from .overlap import Meeting, Region, Step, involves, meeting


class Proxy(enum.Enum):
    """The way by which an access goes to memory; what went one way is seen by the other only after a fence."""

    GENERIC = "generic"
    ASYNCHRONOUS = "asynchronous"


class Completion(enum.Enum):
    """When an access has been made: before the next statement of its thread, or when something has been awaited."""

    IN_ORDER = "in order"
    AWAITED = "awaited"


@dataclass(frozen=True)
class Access:
    """Elements of a buffer that are read or written; without a region: any of them.

    Its actors are the threads of the block for which the conditions of the region hold. What runs inside a loop over
    one of the region's variables makes the access in every iteration.
    """

    buffer: Buffer
    writes: bool
    region: Region | None
    proxy: Proxy = Proxy.GENERIC
    completion: Completion = Completion.IN_ORDER

    def in_loop(self, loop: For) -> Access:
        """The access as made by all iterations of a loop."""
        if self.region is None or not self.region.uses(loop.var):
            return self
        ranges = ((loop.var, loop.min, loop.extent), *self.region.ranges)
        return replace(self, region=replace(self.region, ranges=ranges))


class Actors(enum.Enum):
    """Who makes the two accesses of a dependence."""

    ONE_THREAD = "one thread"
    SEVERAL_THREADS = "several threads"


@dataclass(frozen=True)
class Dependence:
    """`sink` must stay after `source`: made by which threads, and carried by which loop, if by any."""

    source: Access
    sink: Access
    actors: Actors
    carried_by: Var | None = None


@dataclass(frozen=True)
class Scene:
    """Where accesses are compared: the variables that tell the threads of a block apart, and what is known of all."""

    threads: frozenset[Var]
    facts: Facts

    def inside(self, loop: For) -> Scene:
        """The scene within the body of a loop."""
        return Scene(self.threads, self.facts.bind(loop.var, loop.min, loop.extent))


def dependence(source: Access, sink: Access, scene: Scene, step: Step | None = None) -> Dependence | None:
    """How `sink`, made later (with `step`: in a later iteration), depends on `source`; None where it does not."""
    if not (source.writes or sink.writes) or not source.buffer.overlaps(sink.buffer):
        return None
    carried = None if step is None else step.var
    if source.buffer is not sink.buffer or source.region is None or sink.region is None:
        return Dependence(source, sink, Actors.SEVERAL_THREADS, carried)
    met = meeting(source.region, sink.region, scene.threads, scene.facts, step)
    if met is Meeting.NEVER:
        return None
    actors = Actors.ONE_THREAD if met is Meeting.IN_ONE_THREAD else Actors.SEVERAL_THREADS
    return Dependence(source, sink, actors, carried)


MANY = 48
"""Accesses of one kind to one buffer that are told apart; more become one to any of its elements."""


class Accesses:
    """A set of accesses. Those that differ only by a constant are one."""

    __slots__ = ("_held",)

    def __init__(self, held: Iterable[Access] = ()) -> None:
        self._held: dict[object, Access] = {}
        for access in held:
            self._add(access)

    def __iter__(self) -> Iterator[Access]:
        return iter(self._held.values())

    def __bool__(self) -> bool:
        return bool(self._held)

    def __or__(self, other: Accesses) -> Accesses:
        if not other or self is other:
            return self
        if not self:
            return other
        return Accesses((*self, *other))

    def in_loop(self, loop: For) -> Accesses:
        """The accesses as made by all iterations of a loop."""
        return Accesses(access.in_loop(loop) for access in self)

    def _add(self, access: Access) -> None:
        key = _key(access)
        before = self._held.get(key)
        self._held[key] = access if before is None else _joined(before, access)
        if before is None and len(self._held) > MANY:
            alike = [k for k, a in self._held.items() if (a.buffer, a.writes) == (access.buffer, access.writes)]
            if len(alike) > MANY:
                for one in alike:
                    del self._held[one]
                anywhere = replace(access, region=None)
                self._held[_key(anywhere)] = anywhere


NONE = Accesses()


def _key(access: Access) -> object:
    region = access.region
    how = access.buffer, access.writes, access.completion
    if region is None:
        return how
    return *how, frozenset(region.form.terms.items()), region.ranges, region.conditions


def _joined(a: Access, b: Access) -> Access:
    """One access for two that have a key in common."""
    if a is b or a.region is None or b.region is None:
        return a
    return replace(a, region=a.region.joined(b.region))


def first_dependence(
    before: Accesses, after: Accesses, scene: Scene, actors: Actors, step: Step | None = None
) -> Dependence | None:
    """A dependence of the accesses `after` on those `before` that is made by such actors; None where there is none."""
    for source in before:
        for sink in after:
            if source.writes or sink.writes:
                found = dependence(source, sink, scene, step)
                if found is not None and found.actors is actors:
                    return found
    return None


def accesses(
    stmt: Node,
    scopes: Collection[MemoryScope],
    conditions: tuple[Expr, ...] = (),
    named: Mapping[Var, Expr] = MappingProxyType({}),
) -> Accesses:
    """The accesses of a statement, or of an expression, to memory of the given scopes.

    `conditions` hold around it, and `named` says what the variables of each `Let` around it stand for.
    """
    found = _Found(frozenset(scopes))
    found.node(stmt, conditions, (), dict(named))
    return Accesses(found.made) if found.made else NONE


class _Found:
    """Collects accesses on the way through a statement."""

    def __init__(self, scopes: frozenset[MemoryScope]) -> None:
        self.scopes = scopes
        self.made: list[Access] = []

    def node(self, node: Node, conditions: tuple[Expr, ...], loops: tuple[For, ...], named: dict[Var, Expr]) -> None:
        """All that happens below a node."""
        if not any(buffer.scope in self.scopes for buffer in uses.read(node) | uses.written(node)):
            return
        if isinstance(node, For):
            self.reads((node.min, node.extent), conditions, loops, named)
            self.node(node.body, conditions, (*loops, node), named)
        elif isinstance(node, If):
            self.reads((node.condition,), conditions, loops, named)
            holds = substitute(node.condition, named)
            self.node(node.then, (*conditions, *conjuncts(holds)), loops, named)
            if node.orelse is not None:
                self.node(node.orelse, (*conditions, logical_not(holds)), loops, named)
        elif isinstance(node, Let):
            self.reads((node.value,), conditions, loops, named)
            self.node(node.body, conditions, loops, {**named, node.var: substitute(node.value, named)})
        elif isinstance(node, Store):
            self.reads((*node.indices, node.value), conditions, loops, named)
            done = Completion.AWAITED if isinstance(node, Copy) else Completion.IN_ORDER
            self.access(node.buffer, True, node.indices, conditions, loops, named, done)
        elif isinstance(node, Tensorized):
            self.tensorized(node, conditions, loops, named)
        elif isinstance(node, Evaluate) or not isinstance(node, Stmt):
            self.reads(node.children() if isinstance(node, Stmt) else (node,), conditions, loops, named)
        else:
            for child in node.children():
                self.node(child, conditions, loops, named)

    def tensorized(
        self, node: Tensorized, conditions: tuple[Expr, ...], loops: tuple[For, ...], named: dict[Var, Expr]
    ) -> None:
        """A matrix instruction: every lane may read any element of the tiles, whoever computes with it."""
        over = zip((node.row, node.column, node.depth), node.extents, strict=True)
        inside = tuple(
            For(var, const(0, var.dtype), const(size, var.dtype), LoopKind.SERIAL, None, (), NOTHING)
            for var, size in over
        )
        self.reads((node.a, node.b, node.sums), conditions, (*loops, *inside), named)
        for buffer in uses.written(node):
            if buffer.scope in self.scopes:
                self.made.append(Access(buffer, True, None))

    def reads(
        self, roots: Iterable[Node], conditions: tuple[Expr, ...], loops: tuple[For, ...], named: dict[Var, Expr]
    ) -> None:
        """The reads of expressions."""
        for root in roots:
            if not any(buffer.scope in self.scopes for buffer in uses.read(root)):
                continue
            for node in post_order(root):
                if isinstance(node, Load) and isinstance(node.source, Buffer):
                    self.access(node.source, False, node.indices, conditions, loops, named)

    def access(
        self,
        buffer: Buffer,
        writes: bool,
        indices: tuple[Expr, ...],
        conditions: tuple[Expr, ...],
        loops: tuple[For, ...],
        named: dict[Var, Expr],
        completion: Completion = Completion.IN_ORDER,
    ) -> None:
        """One access, in all iterations of the loops around it."""
        if buffer.scope not in self.scopes:
            return
        region = _region(substitute(indices[0], named), conditions) if len(indices) == 1 else None
        access = Access(buffer, writes, region, completion=completion)
        for loop in reversed(loops):
            access = access.in_loop(loop)
        self.made.append(access)


def _region(index: Expr, conditions: tuple[Expr, ...]) -> Region | None:
    """The elements at an index; None where it depends on memory, or is a vector of no constant stride."""
    if any(isinstance(node, Load) for node in post_order(index)):
        return None
    if not isinstance(index, Ramp):
        return Region(Affine.of(index), 1, 1, (), conditions) if index.dtype.lanes == 1 else None
    if not isinstance(index.stride, IntImm):
        return None
    step, form = index.stride.value, Affine.of(index.base)
    if step < 0:
        form, step = form.shift(step * (index.lanes - 1)), -step
    return Region(form, max(step, 1), index.lanes if step else 1, (), conditions)


def feeds(source: Node, sink: Node) -> bool:
    """Whether a statement may read what another one stores, by whatever name and in whatever iteration."""
    stored = uses.written(source)
    return bool(stored) and any(buffer.overlaps(other) for buffer in uses.read(sink) for other in stored)


def index_variables(stmt: Node, scope: MemoryScope) -> frozenset[Var]:
    """The variables that say which elements of memory of one scope a statement accesses."""
    found: set[Var] = set()
    for node in post_order(stmt):
        buffer = node.source if isinstance(node, Load) else node.buffer if isinstance(node, Store) else None
        if isinstance(buffer, Buffer) and buffer.scope is scope:
            found.update(variables(*(index for index in node.indices if not isinstance(index, IntImm))))
    return frozenset(found)


def depends_on_threads(e: Expr, scene: Scene) -> bool:
    """Whether the value of `e` may differ between the threads of a block; what is in memory may."""
    return involves(e, scene.threads) or any(isinstance(node, Load) for node in post_order(e))
