"""The interface of every kind of device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.dtype import DType
from ..core.errors import TVMError, UserError

if TYPE_CHECKING:
    from ..codegen.abi import CompiledProgram
    from ..core.target import Target

Handle = Any
"""Memory of a device: an address, or the driver's own object."""
Launcher = Callable[..., None]
"""`launcher(gx, gy, gz, bx, by, bz, *arguments)` starts a kernel."""


_PLACES = {"cpu": 'target "llvm" with tw.cpu()', "opencl": '"opencl" with tw.opencl()', "cuda": '"cuda" with tw.cuda()'}


COUNTS: dict[str, Callable[[], int]] = {}
"""The number of devices of each kind; `device.py` fills it in."""


def elsewhere(kind: str) -> str:
    """The fix if no device of that kind is present: the kinds that this machine has."""
    here = (place for other, place in _PLACES.items() if other != kind and COUNTS[other]())
    return "run elsewhere: " + ", or ".join(here)


class DeviceError(TVMError):
    """The driver or the device failed; `code` is its own name for the error."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceError, (str(self), self.code)


class DeviceAttributes(NamedTuple):
    """The name and the sizes of a device; 0 or "" for attributes without meaning for it."""

    name: str
    compute_version: str = ""
    max_threads_per_block: int = 1
    warp_size: int = 1
    max_shared_memory_per_block: int = 0
    max_shared_memory_opt_in: int = 0
    multi_processor_count: int = 0
    max_clock_rate: int = 0
    max_thread_dimensions: tuple[int, int, int] = (1, 1, 1)
    total_global_memory: int = 0
    l2_cache_bytes: int = 0
    driver_version: str = ""
    last_cache_bytes: int = 0
    """The largest cache of a CPU, the last before memory."""
    on_host: bool = False
    """Whether the device computes on the cores that run this process."""

    @property
    def architecture(self) -> str:
        """The architecture of an NVIDIA GPU, such as "sm_90"."""
        return f"sm_{self.compute_version.replace('.', '')}"


def target_for(target: Target, attributes: Callable[[], DeviceAttributes]) -> Target:
    """Return a target; a CUDA target without an architecture gets the one of the device that `attributes` describes."""
    if target.kind == "cuda" and not target.arch_given:
        return target.with_arch(attributes().architecture)
    return target


class Driver(ABC):
    """One kind of device."""

    kind: str

    @abstractmethod
    def why_not(self) -> str:
        """Return why no device of this kind is usable here, and the fix; empty if a device is usable."""

    @abstractmethod
    def count(self) -> int:
        """The number of devices (0 if the driver is missing)."""

    @abstractmethod
    def attributes(self, index: int) -> DeviceAttributes:
        """The attributes of the device."""

    def current(self, index: int) -> AbstractContextManager[Any]:
        """Make a device current within the `with` statement, for libraries that ask the thread for its current
        device."""
        return nullcontext()

    @abstractmethod
    def allocate(self, index: int, size: int) -> Handle:
        """Memory of `size` bytes."""

    @abstractmethod
    def free(self, index: int, handle: Handle) -> None:
        """Give memory back."""

    @abstractmethod
    def write(self, index: int, handle: Handle, data: np.ndarray) -> None:
        """Copy bytes of the host to the device."""

    @abstractmethod
    def read(self, index: int, handle: Handle, data: np.ndarray) -> None:
        """Copy device memory to bytes of the host; waits for earlier work."""

    @abstractmethod
    def copy(self, index: int, source: Handle, target: Handle, size: int) -> None:
        """Copy within the device."""

    def span(self, handle: Handle, size: int) -> tuple[int, int]:
        """The bounds of an array's memory: arrays overlap if their bounds do."""
        return handle, handle + size

    def adopt(self, address: int, size: int) -> Handle:
        """The handle of memory that somebody else keeps alive."""
        return address

    def part(self, handle: Handle, offset: int) -> tuple[Handle, int]:
        """The memory from byte `offset` on: its handle, and the bytes that the handle itself cannot express."""
        return handle + offset, 0

    def hand_over(self, index: int, stream: int | None) -> None:  # noqa: B027  # nothing to do without streams
        """Let work that another library puts into `stream` wait for all that was started here."""

    def consumer_stream(self, index: int) -> int | None:
        """Our stream, in DLPack's numbering, for a producer to order its work before; None if there is none."""
        return None

    def await_stream(self, index: int, stream: int) -> None:  # noqa: B027  # nothing to do without streams
        """Let work that is started here wait for all that another library has put into `stream`."""

    def owner(self, address: int) -> int:
        """Return the index of the device that owns an address; 0 if unknown."""
        return 0

    @abstractmethod
    def sync(self, index: int) -> None:
        """Wait until the device has finished all of its work."""

    def set_stream(self, index: int, stream: int) -> int:
        """Send this thread's work to a stream from now on, and return the previous stream; 0 is the default stream."""
        raise UserError(
            f"{self.kind}({index}) has no streams to choose from", fix="choose streams of cuda devices only"
        )

    def recording(self, index: int) -> bool:
        """Whether launches are being recorded for later, so that no call may wait for them."""
        return False

    @abstractmethod
    def load(self, program: CompiledProgram, index: int) -> dict[str, Launcher]:
        """The kernels of a program, ready to launch on a device."""

    @abstractmethod
    def timer(
        self, index: int, run: Callable[[], None], before: Callable[[], None] | None = None
    ) -> Callable[[int], float]:
        """A function from a number of runs to the seconds that they take on the device, together.

        `run` has run at least once already. `before` is done ahead of every single run, and not timed.
        """


def scalar_type(dtype: DType) -> str:
    """The `struct` letter under which the runtime packs a scalar argument."""
    letters = {"int": "bhiq", "uint": "BHIQ"}
    if dtype.kind in letters:
        return letters[dtype.kind][dtype.bits.bit_length() - 4]
    return {"float16": "f", "bfloat16": "f", "float32": "f", "float64": "d", "bool": "?"}[dtype]
