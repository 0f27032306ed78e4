"""How kernels are called: their parameters, grids and memory, read off a finished function.

`Kernel` describes one `Launch` to the code generator. `KernelAbi`, `ArrayArgument`, `ScalarArgument` and
`CompiledProgram` are plain data: what the runtime needs to call the compiled code, and all that a saved
module or another process gets to see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.dtype import INT32, DType
from ..core.errors import InternalError
from ..core.hardware import MemoryScope, ThreadTag
from ..expr import nodes as n
from ..expr.traverse import post_order
from ..loops.nodes import Allocate, Buffer, For, Function, Launch, Let, Stmt, Store
from .names import Names

Param = Buffer | n.Var
ONE = n.IntImm(1, INT32)


@dataclass(frozen=True)
class Kernel:
    """One kernel: parameters in the order in which the launch passes them, and where each buffer lives."""

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
    dynamic_shared_bytes: int = 0

    @property
    def threads(self) -> int | None:
        """Threads of one block, where known at compile time."""
        return product(self.block)


@dataclass(frozen=True)
class KernelAbi:
    """What a launch needs: for each parameter "buffer" or its scalar type."""

    name: str
    params: tuple[str, ...]
    dynamic_shared_bytes: int = 0


@dataclass(frozen=True)
class ArrayArgument:
    """A parameter that takes an array; extents are numbers, or text where they depend on other arguments."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    align: int = 1
    """Bytes that the code relies on the address being a multiple of."""


@dataclass(frozen=True)
class ScalarArgument:
    """A parameter that takes a number."""

    name: str
    dtype: str


@dataclass(frozen=True)
class EntryPoint:
    """One function that can be called, and its host code: Python that checks, binds sizes and launches."""

    name: str
    arguments: tuple[ArrayArgument | ScalarArgument, ...]
    source: str
    symbol: str
    """What the function is called in its source."""


@dataclass(frozen=True)
class Resources:
    """What the compiler says that a kernel takes of the hardware."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int
    constant_bytes: int


@dataclass(frozen=True)
class CompiledProgram:
    """A compiled module as plain data: it can be pickled, saved, and run without the compiler."""

    target: str
    entries: tuple[EntryPoint, ...]
    kernels: tuple[KernelAbi, ...]
    source: str
    binary: bytes | None = field(repr=False, default=None)
    resources: Mapping[str, Resources] = field(default_factory=dict)
    log: str = field(repr=False, default="")
    compile_seconds: float = 0.0


def root(buffer: Any) -> Buffer:
    """The buffer whose memory this one is."""
    while buffer.alias_of is not None:
        buffer = buffer.alias_of
    if not isinstance(buffer, Buffer):
        raise InternalError(f"a load from {buffer!r} after the loops were built")
    return buffer


def constant(e: n.Expr) -> int | None:
    """The value of an integer constant, else None."""
    return e.value if isinstance(e, n.IntImm) else None


def product(extents: tuple[n.Expr, ...]) -> int | None:
    """The product of constant extents; None where one is not known."""
    total = 1
    for extent in extents:
        value = constant(extent)
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
    """The kernels of a finished function, one for each launch, under names that nobody else has."""
    distinct = dict.fromkeys(launches(function.body))
    return tuple(_describe(launch, names.fresh(launch.name), function) for launch in distinct)


def _describe(launch: Launch, name: str, function: Function) -> Kernel:
    loaded: dict[Buffer, None] = {}
    stored: dict[Buffer, None] = {}
    allocated: dict[Buffer, None] = {}
    used: dict[n.Var, None] = {}
    bound: set[n.Var] = {var for _, var, _ in launch.threads}
    for at in post_order(launch.body):
        if isinstance(at, n.Var):
            used[at] = None
        elif isinstance(at, n.Load):
            _touch(at.source, at.indices, loaded, used)
        elif isinstance(at, Store):
            _touch(at.buffer, at.indices, stored, used)
        elif isinstance(at, Allocate):
            allocated[at.buffer] = None
        elif isinstance(at, (For, Let)):
            bound.add(at.var)
    outside = {b: None for b in {**loaded, **stored} if b not in allocated}
    scalars = {v: None for v in used if v not in bound}
    params: dict[Param, None] = {p: None for p in function.params if p in outside}
    params.update((b, None) for b in outside)
    params.update((p, None) for p in function.params if p in scalars)
    params.update((v, None) for v in scalars)
    extents = {tag: extent for tag, _, extent in launch.threads}
    return Kernel(
        name,
        tuple(params),
        frozenset(stored),
        tuple(extents.get(tag, ONE) for tag in _BLOCK_TAGS),  # type: ignore[arg-type]
        tuple(extents.get(tag, ONE) for tag in _THREAD_TAGS),  # type: ignore[arg-type]
        tuple(b for b in allocated if b.scope is MemoryScope.SHARED),
        tuple(b for b in allocated if b.scope is MemoryScope.LOCAL),
        launch,
        frozenset(used),
    )


_BLOCK_TAGS = (ThreadTag.BLOCK_X, ThreadTag.BLOCK_Y, ThreadTag.BLOCK_Z)
_THREAD_TAGS = (ThreadTag.THREAD_X, ThreadTag.THREAD_Y, ThreadTag.THREAD_Z)


def _touch(source: Any, indices: tuple[n.Expr, ...], into: dict[Buffer, None], used: dict[n.Var, None]) -> None:
    into[root(source)] = None
    if len(indices) > 1:  # flattening them needs the extents
        for extent in source.shape:
            used.update((v, None) for v in post_order(extent) if isinstance(v, n.Var))


def scalar_type(dtype: DType) -> str:
    """The `struct` letter under which the runtime packs a scalar argument."""
    letters = {"int": "bhiq", "uint": "BHIQ"}
    if dtype.kind in letters:
        return letters[dtype.kind][dtype.bits.bit_length() - 4]
    return {"float16": "f", "bfloat16": "f", "float32": "f", "float64": "d", "bool": "?"}[dtype]
