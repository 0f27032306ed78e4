"""Dependence analysis: the accesses of a statement, and the pairs that must keep their order, as data.

An `Access` is a set of elements of one buffer that the threads of a block read or write. Two accesses *depend* on each
other if both may go to the same element and one of them writes. They are in one thread, or in different threads, which
only a barrier orders. They are in one iteration of the loops around both, or carried by one of these loops. The answer
is "they do" unless it is proven that they do not.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ..arith.affine import Affine
from ..arith.facts import Facts
from ..core.hardware import LoopKind, MemoryScope
from ..core.node import Node
from ..expr.effects import ATOMICS
from ..expr.nodes import Call, Expr, IntImm, Load, Ramp, Var
from ..expr.operators import const, logical_not
from ..expr.traverse import conjuncts, substitute, variables
from . import uses
from .calls import addresses
from .nodes import NOTHING, AddressOf, Buffer, Copy, Evaluate, For, If, Let, Stmt, Store, Tensorized
from .overlap import AccessRegion, LoopDistance, Meeting, meeting
from .walk import statements


class Proxy(enum.Enum):
    """The path of an access to memory; data written on one path are visible on the other path only after a fence."""

    GENERIC = "generic"
    ASYNCHRONOUS = "asynchronous"


class Completion(enum.Enum):
    """The completion of an access: before the next statement of its thread, or at an await."""

    IN_ORDER = "in order"
    AWAITED = "awaited"


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """Elements of a buffer that are read or written; without a region: any of them.

    Its actors are the threads of the block for which the conditions of the region hold. Code inside a loop over one of
    the region's variables makes the access in every iteration.
    """

    buffer: Buffer
    writes: bool
    region: AccessRegion | None
    proxy: Proxy = Proxy.GENERIC
    completion: Completion = Completion.IN_ORDER
    atomic: bool = False
    """Whether threads may make the access concurrently, and in any order."""
    kind: object = field(init=False, repr=False)
    """The common key of accesses that differ only by a constant."""

    def __post_init__(self) -> None:
        region = self.region
        where = (frozenset(region.form.terms.items()), region.ranges, region.conditions) if region else None
        object.__setattr__(self, "kind", (self.buffer, self.writes, self.completion, self.atomic, where))

    def resembles(self, other: Access) -> bool:
        """Whether two accesses do the same to one buffer, at any place."""
        mine, theirs = (self.buffer, self.writes, self.atomic), (other.buffer, other.writes, other.atomic)
        return mine == theirs

    def in_loop(self, loop: For) -> Access:
        """The access as made by all iterations of a loop."""
        if self.region is None or not self.region.uses(loop.var):
            return self
        ranges = ((loop.var, loop.min, loop.extent), *self.region.ranges)
        return replace(self, region=replace(self.region, ranges=ranges))


class Actors(enum.Enum):
    """The threads that make the two accesses of a dependence."""

    ONE_THREAD = "one thread"
    SEVERAL_THREADS = "several threads"


@dataclass(frozen=True)
class Dependence:
    """`sink` must stay after `source`. `actors` makes the two accesses; the loop `carried_by`, if any, carries the
    dependence.
    """

    source: Access
    sink: Access
    actors: Actors
    carried_by: Var | None = None


@dataclass(frozen=True)
class Scene:
    """The context of a comparison of accesses: the variables that distinguish the threads of a block, and facts about
    all variables."""

    threads: frozenset[Var]
    facts: Facts

    def inside(self, loop: For) -> Scene:
        """The scene within the body of a loop."""
        return Scene(self.threads, self.facts.bind(loop.var, loop.min, loop.extent))


def dependence(source: Access, sink: Access, scene: Scene, step: LoopDistance | None = None) -> Dependence | None:
    """How `sink`, made later (with `step`: in a later iteration), depends on `source`; None if it does not."""
    if not (source.writes or sink.writes) or not source.buffer.overlaps(sink.buffer):
        return None
    carried = None if step is None else step.var
    if source.atomic and sink.atomic:
        return Dependence(source, sink, Actors.ONE_THREAD, carried)
    if source.buffer is not sink.buffer or source.region is None or sink.region is None:
        return Dependence(source, sink, Actors.SEVERAL_THREADS, carried)
    met = meeting(source.region, sink.region, scene.threads, scene.facts, step)
    if met is Meeting.NEVER:
        return None
    actors = Actors.ONE_THREAD if met is Meeting.IN_ONE_THREAD else Actors.SEVERAL_THREADS
    return Dependence(source, sink, actors, carried)


MANY = 48
"""The most distinct accesses of one kind to one buffer; more become one access to any element."""


class Accesses:
    """A set of accesses. Accesses that differ only by a constant are merged."""

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
        if not other or self is other or all(self._covers(access) for access in other):
            return self
        if not self:
            return other
        made = Accesses()
        made._held.update(self._held)
        for access in other:
            made._add(access)
        return made

    def in_loop(self, loop: For) -> Accesses:
        """The accesses as made by all iterations of a loop."""
        return Accesses(access.in_loop(loop) for access in self)

    def _covers(self, access: Access) -> bool:
        before = self._held.get(access.kind)
        return before is not None and _joined(before, access) is before

    def _add(self, access: Access) -> None:
        before = self._held.get(access.kind)
        if before is not None:
            self._held[access.kind] = _joined(before, access)
            return
        anywhere = (access.buffer, access.writes, access.completion, access.atomic, None)
        if anywhere in self._held:
            return
        self._held[access.kind] = access
        if len(self._held) > MANY:
            alike = [k for k, a in self._held.items() if a.resembles(access)]
            if len(alike) > MANY:
                for one in alike:
                    del self._held[one]
                self._held[anywhere] = replace(access, region=None)


NONE = Accesses()


def _joined(a: Access, b: Access) -> Access:
    """Join two accesses of one kind; `a` if it covers both."""
    if a is b or a.region is None or b.region is None:
        return a
    region = a.region.joined(b.region)
    return a if region is a.region else replace(a, region=region)


def first_dependence(
    before: Accesses, after: Accesses, scene: Scene, actors: Actors, step: LoopDistance | None = None
) -> Dependence | None:
    """A dependence by `actors` of the accesses `after` on the accesses `before`; None if there is none."""
    if not any(access.writes for access in (*before, *after)):
        return None
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

    `conditions` hold around it, and `named` has the values of the variables of each `Let` around it.
    """
    return AccessFinder(scopes, conditions, named).of(stmt)


class AccessFinder:
    """Finds the accesses to memory of some scopes that are made under some conditions, each place of memory once.

    If buffers are given, `only` they count.
    """

    def __init__(
        self,
        scopes: Collection[MemoryScope],
        conditions: tuple[Expr, ...] = (),
        named: Mapping[Var, Expr] = MappingProxyType({}),
        only: Collection[Buffer] | None = None,
    ) -> None:
        self.scopes = scopes
        self.conditions = conditions
        self.named = named
        self.only = only
        self._touching: dict[uses.Sources, bool] = {}
        self._made: dict[Node, Access] = {}

    def where(self, condition: Expr) -> AccessFinder:
        """A finder for code under a further condition."""
        holds = substitute(condition, self.named)
        return AccessFinder(self.scopes, (*self.conditions, *conjuncts(holds)), self.named, self.only)

    def naming(self, var: Var, value: Expr) -> AccessFinder:
        """A finder for code in which a name stands for a value."""
        named = {**self.named, var: substitute(value, self.named)}
        return AccessFinder(self.scopes, self.conditions, named, self.only)

    def touches(self, node: Node) -> bool:
        """Whether anything below a node accesses memory of the scopes."""
        return self._any(uses.read(node)) or self._any(uses.written(node))

    def _any(self, buffers: uses.Sources) -> bool:
        found = self._touching.get(buffers)
        if found is None:
            found = self._touching[buffers] = any(map(self.counts, buffers))
        return found

    def counts(self, buffer: Any) -> bool:
        """Whether accesses to a buffer are looked for."""
        return buffer.scope in self.scopes and (self.only is None or buffer in self.only)

    def of(self, *nodes: Node) -> Accesses:
        """All accesses that are made below the nodes."""
        found: dict[Access, None] = {}
        for node in nodes:
            self._collect(node, found)
        return Accesses(found) if found else NONE

    def _collect(self, node: Node, found: dict[Access, None]) -> None:
        if not isinstance(node, Stmt):
            self._reads(node, found)
        elif isinstance(node, Store):
            self._reads(node, found)
            self._given(node, found)
            if self.counts(node.buffer):
                found[self._access(node, node.buffer, node.indices)] = None
        elif not self.touches(node):
            return
        elif isinstance(node, Tensorized):
            self._tensorized(node, found)
        elif isinstance(node, For):
            found.update(dict.fromkeys(self.of(node.min, node.extent)))
            found.update(dict.fromkeys(self.of(node.body).in_loop(node)))
        elif isinstance(node, If):
            self._reads(node.condition, found)
            self.where(node.condition)._collect(node.then, found)
            if node.orelse is not None:
                self.where(logical_not(node.condition))._collect(node.orelse, found)
        elif isinstance(node, Evaluate):
            self._reads(node.value, found)
            self._given(node, found)
        elif isinstance(node, Let):
            self._reads(node.value, found)
            self._given(node, found)
            self.naming(node.var, node.value)._collect(node.body, found)
        else:
            for child in node.children():
                self._collect(child, found)

    def _given(self, node: Evaluate | Store | Let, found: dict[Access, None]) -> None:
        """The possible writes of a function that the statement calls: any element of its argument buffers."""
        if not uses.given_to_write(node):
            return
        atomic = isinstance(node.value, Call) and node.value.name in ATOMICS
        for address in addresses(node.value):
            if address.writes and self.counts(address.buffer):
                found[Access(address.buffer, True, None, atomic=atomic)] = None

    def _tensorized(self, node: Tensorized, found: dict[Access, None]) -> None:
        """A matrix instruction: every lane may read any element of the tiles, whoever computes with it."""
        reads: dict[Access, None] = {}
        for part in (node.a, node.b, node.sums):
            self._reads(part, reads)
        made = Accesses(reads)
        for var, size in reversed(list(zip((node.row, node.column, node.depth), node.extents, strict=True))):
            over = For(var, const(0, var.dtype), const(size, var.dtype), LoopKind.SERIAL, None, (), NOTHING)
            made = made.in_loop(over)
        found.update(dict.fromkeys(made))
        for buffer in uses.written(node):
            if self.counts(buffer):
                found[Access(buffer, True, None)] = None

    def _reads(self, root: Node, found: dict[Access, None]) -> None:
        """The reads of an expression, or of a store's expressions."""
        stack = [root]
        while stack:
            node = stack.pop()
            if type(node) in uses.LEAVES or not self._any(uses.read(node)):
                continue
            if isinstance(node, Call) and node.name in ATOMICS:
                stack += [*node.args[1:], *(e for address in addresses(node) for e in address.place.children())]
                continue
            if isinstance(node, AddressOf):
                if self.counts(node.buffer):
                    found[Access(node.buffer, False, None)] = None
                stack += node.place.children()
                continue
            if isinstance(node, Load):
                if isinstance(node.source, Buffer) and self.counts(node.source):
                    found[self._access(node, node.source, node.indices)] = None
                if not any(map(uses.read, node.indices)):
                    continue
            stack += node.children()

    def _access(self, node: Node, buffer: Any, indices: tuple[Expr, ...]) -> Access:
        """The access of a load or store itself."""
        made = self._made.get(node)
        if made is None:
            region = _region(substitute(indices[0], self.named), self.conditions) if len(indices) == 1 else None
            done = Completion.AWAITED if isinstance(node, Copy) else Completion.IN_ORDER
            made = self._made[node] = Access(buffer, isinstance(node, Store), region, completion=done)
        return made


def _region(index: Expr, conditions: tuple[Expr, ...]) -> AccessRegion | None:
    """The elements at an index; None if it depends on memory, or is a vector of no constant stride."""
    if uses.read(index):
        return None
    if not isinstance(index, Ramp):
        return AccessRegion(Affine.of(index), 1, 1, (), conditions) if index.dtype.lanes == 1 else None
    if not isinstance(index.stride, IntImm):
        return None
    step, form = index.stride.value, Affine.of(index.base)
    if step < 0:
        form, step = form.shift(step * (index.lanes - 1)), -step
    return AccessRegion(form, max(step, 1), index.lanes if step else 1, (), conditions)


def feeds(source: Node, sink: Node) -> bool:
    """Whether a statement may read the stores of another statement, by any name and in any iteration."""
    stored = uses.written(source)
    return bool(stored) and any(buffer.overlaps(other) for buffer in uses.read(sink) for other in stored)


def index_variables(stmt: Stmt, scope: MemoryScope) -> frozenset[Var]:
    """The variables that say which elements of memory of one scope a statement accesses."""
    indices: dict[Expr, None] = {}
    seen: set[Node] = set()
    for part in statements(stmt):
        if isinstance(part, Store) and part.buffer.scope is scope:
            indices.update(dict.fromkeys(part.indices))
        stack = [child for child in part.children() if not isinstance(child, Stmt)]
        while stack:
            node = stack.pop()
            if node in seen or not any([buffer.scope is scope for buffer in uses.read(node)]):
                continue
            seen.add(node)
            stack += node.children()
            if isinstance(node, Load) and isinstance(node.source, Buffer) and node.source.scope is scope:
                indices.update(dict.fromkeys(node.indices))
    return frozenset(variables(*indices))
