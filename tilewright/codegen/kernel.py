"""A kernel on its way to being compiled: its parameters, grid and memory, read off a finished function.

`c_family.py` writes it as source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.dtype import INT32
from ..core.errors import InternalError, UserError
from ..core.hardware import BLOCK_TAGS, THREAD_TAGS, MemoryScope
from ..expr import nodes as n
from ..expr.traverse import constant_value, post_order
from ..loops.calls import FOREIGN, called_function
from ..loops.nodes import AddressOf, Allocate, Buffer, For, Function, Launch, Let, Stmt, Store, Tensorized
from .names import Names

Param = Buffer | n.Var
ONE = n.IntImm(1, INT32)


@dataclass(frozen=True)
class Kernel:
    """A kernel: parameters in the order of the launch, and the memory of each buffer."""

    name: str
    params: tuple[Param, ...]
    written: frozenset[Buffer]
    grid: tuple[n.Expr, n.Expr, n.Expr]
    block: tuple[n.Expr, n.Expr, n.Expr]
    shared: tuple[Buffer, ...]
    local: tuple[Buffer, ...]
    launch: Launch
    used: frozenset[n.Var]
    """The variables that occur in the body."""
    called: frozenset[str] = frozenset()
    """The functions that the body calls, which somebody else defines."""
    dynamic_shared_bytes: int = 0
    read: frozenset[Buffer] = frozenset()
    warpgroups: bool = False
    """Whether it has instructions of a warpgroup."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its parameters: "buffer", or the type of a scalar."""
        return tuple("buffer" if isinstance(p, Buffer) else str(p.dtype) for p in self.params)

    @property
    def threads(self) -> int | None:
        """Threads of one block, if known at compile time."""
        return product(self.block)


def not_in_kernels(buffer: Buffer) -> UserError:
    """The error for global memory that a kernel allocates."""
    return UserError(
        f"{buffer.name!r} is allocated within a kernel, but in global memory, which the host allocates",
        primitive="build",
        fix='allocate it in "local" or "shared" memory, or outside of the kernel',
    )


def root(buffer: Any) -> Buffer:
    """The buffer that owns the memory of `buffer`."""
    if not isinstance(buffer, Buffer):
        raise InternalError(f"a load from {buffer!r} after the loops were built")
    return buffer.memory


def product(extents: tuple[n.Expr, ...]) -> int | None:
    """The product of constant extents; None if an extent is not constant."""
    total = 1
    for extent in extents:
        value = constant_value(extent)
        if value is None:
            return None
        total *= value
    return total


def launches(stmt: Stmt) -> Iterator[Launch]:
    """The launches in a function's body, in order."""
    if isinstance(stmt, Launch):
        yield stmt
    else:
        for child in stmt.children():
            if isinstance(child, Stmt):
                yield from launches(child)


def kernels_of(function: Function, names: Names) -> tuple[Kernel, ...]:
    """The kernels of a finished function, one per launch, with unique names."""
    distinct = dict.fromkeys(launches(function.body))
    places = {p: i for i, p in enumerate(function.params)}
    return tuple(_describe(launch, names.fresh(launch.name), places) for launch in distinct)


def called_in(functions: tuple[Function, ...]) -> frozenset[str]:
    """The names of the functions that programs call and do not define."""
    found = (at for f in functions for at in post_order(f.body) if isinstance(at, n.Call) and at.name in FOREIGN)
    return frozenset(called_function(call) for call in found)


def _describe(launch: Launch, name: str, places: Mapping[Param, int]) -> Kernel:
    loaded: dict[Buffer, None] = {}
    stored: dict[Buffer, None] = {}
    allocated: dict[Buffer, None] = {}
    used: dict[n.Var, None] = {}
    called: set[str] = set()
    warpgroups = False
    bound: set[n.Var] = {var for _, var, _ in launch.threads}
    for at in post_order(launch.body):
        if isinstance(at, n.Var):
            used[at] = None
        elif isinstance(at, n.Load):
            _touch(at.source, at.indices, loaded, used)
        elif isinstance(at, Store):
            _touch(at.buffer, at.indices, stored, used)
        elif isinstance(at, AddressOf) and at.writes:
            _touch(at.buffer, (), stored, used)
        elif isinstance(at, n.Call) and at.name in FOREIGN:
            called.add(called_function(at))
        elif isinstance(at, Allocate):
            allocated[at.buffer] = None
        elif isinstance(at, (For, Let)):
            bound.add(at.var)
        elif isinstance(at, Tensorized):
            bound |= {at.row, at.column, at.depth}
            warpgroups |= at.atom.by_warpgroup
    outside = {b: None for b in {**loaded, **stored} if b not in allocated}
    scalars = {v: None for v in used if v not in bound}
    params: dict[Param, None] = {}
    for group in (outside, scalars):  # the function's parameters in its order, then others
        params |= dict.fromkeys(sorted((p for p in group if p in places), key=places.__getitem__))
        params |= dict.fromkeys(group)
    extents = {tag: extent for tag, _, extent in launch.threads}
    return Kernel(
        name,
        tuple(params),
        frozenset(stored),
        tuple(extents.get(tag, ONE) for tag in BLOCK_TAGS),  # type: ignore[arg-type]
        tuple(extents.get(tag, ONE) for tag in THREAD_TAGS),  # type: ignore[arg-type]
        tuple(b for b in allocated if b.scope is MemoryScope.SHARED),
        tuple(b for b in allocated if b.scope is MemoryScope.LOCAL),
        launch,
        frozenset(used),
        frozenset(called),
        read=frozenset(loaded),
        warpgroups=warpgroups,
    )


def _touch(source: Any, indices: tuple[n.Expr, ...], into: dict[Buffer, None], used: dict[n.Var, None]) -> None:
    into[root(source)] = None
    if len(indices) > 1:  # a flat index needs the extents
        for extent in source.shape:
            used.update((v, None) for v in post_order(extent) if isinstance(v, n.Var))
