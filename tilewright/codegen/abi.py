"""How compiled code is called, as plain data: all that the runtime needs, and all that a saved module contains.

Nothing here knows the compiler: a saved module is loaded without it. A kernel during compilation is described in
`kernel.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core.errors import UserError
from ..core.launches import FixedLaunches


@dataclass(frozen=True)
class KernelAbi:
    """The signature of a launch: for each parameter "buffer" or its scalar type."""

    name: str
    params: tuple[str, ...]
    dynamic_shared_bytes: int = 0


@dataclass(frozen=True)
class ArrayArgument:
    """A parameter that takes an array; extents are numbers, or text if they depend on other arguments."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    align: int = 1
    """Bytes that the code relies on the address being a multiple of."""
    strided: bool = False
    """Whether the elements may have gaps between them: strides are then read from the array."""
    written: bool = field(default=True, compare=False)
    """Whether the code may write to it. Saved modules do not hold that."""


@dataclass(frozen=True)
class ScalarArgument:
    """A parameter that takes a number."""

    name: str
    dtype: str


@dataclass(frozen=True)
class SizeFact:
    """The declaration of a size, and the origin of its value; for the error of a call that violates it."""

    name: str
    known: str
    place: str


@dataclass(frozen=True)
class ReadFact:
    """An index that some arguments move out of its tensor, as text for the error of such a call.

    `names`: the axes that have values at the point in question, then the arguments that the index depends on.
    """

    stage: str
    tensor: str
    read: str
    dimension: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class IndexFact:
    """An index that is checked at its access: the text of the access, the buffer, and the buffer's last index."""

    access: str
    buffer: str
    dimension: int
    last: str


@dataclass(frozen=True)
class AssertionFact:
    """An assertion of a script that is checked as it runs: its message, and the line of the text."""

    message: str
    where: str


@dataclass(frozen=True)
class LaunchFact:
    """A limit of a launch with extents known only at the call, under the `name` that host code compares with.

    `what` names the limited quantity; `stages` are the stages that the kernel computes, for the error of a call beyond
    the limit. `registers` is the registers of a thread, if they set the limit.
    """

    name: str
    kernel: str
    what: str
    allowed: int
    stages: tuple[str, ...]
    registers: int = 0


@dataclass(frozen=True)
class EntryPoint:
    """A callable function and its host code: Python that checks arguments, binds sizes and launches."""

    name: str
    arguments: tuple[ArrayArgument | ScalarArgument, ...]
    source: str
    symbol: str
    """The name of the function in its source."""
    facts: tuple[SizeFact, ...] = ()
    reads: tuple[ReadFact, ...] = ()
    indices: tuple[IndexFact | AssertionFact, ...] = ()
    limits: tuple[LaunchFact, ...] = ()
    fixed: FixedLaunches | None = field(repr=False, compare=False, default=None)
    """The launches, if all sizes are numbers and the host code does nothing else. Saved modules do not hold them."""


@dataclass(frozen=True)
class Resources:
    """The resources that a kernel uses, as the compiler reports them."""

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
    objects: tuple[bytes, ...] = field(repr=False, default=())
    """Object files of functions that the CPU's code calls."""
    called: tuple[str, ...] = ()
    """User-named functions that the source calls, for the error if it does not compile."""


_LONGEST_LOG = 1_000


def unknown_functions(program: CompiledProgram, error: Exception) -> UserError | None:
    """The error for source that calls the user's functions and does not compile; None for other source."""
    if not program.called:
        return None
    said = str(error).partition("\n\n")[0]
    return UserError(
        f"the compiler of {program.target} refuses source that calls {', '.join(map(repr, program.called))}: "
        f"{said[:_LONGEST_LOG]}",
        primitive="call_extern",
        fix='call functions that the language has, or define them: s[stage].pragma(axis, "import_c", source)',
    )
