"""OpenCL devices through pyopencl; without a GPU, PoCL makes the CPU a device."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ..core.errors import InternalError, UserError
from ..core.forking import keep_from_forks, new_lock, new_reentrant_lock, not_while_forking
from ..core.text import quantity
from .driver import DeviceAttributes, DeviceError, Driver, Handle, Launcher, elsewhere
from .pocl_declarations import WITHOUT_HEADER, declarations
from .pocl_processor import POCL, REFUSAL, name_processor

if TYPE_CHECKING:
    from ..codegen.abi import CompiledProgram, KernelAbi

T = TypeVar("T")

_building, _opening = new_lock(), new_reentrant_lock()
_QUIET = ["-w"]
"""The options that suppress warnings about generated code: PoCL prints their number on stderr."""
OPTIONS = "TILEWRIGHT_OPENCL_OPTIONS"
"""The environment variable with more options for the device's compiler, such as -cl-opt-disable."""
_MOST_OPTIMISED = 66_000
"""The largest number of characters without a brace that PoCL optimises. With twice as many, PoCL needed more than a
minute; without optimisation, it needs a second."""
_DOUBLES = "cl_khr_fp64"
_AFTER_A_FAULT = "a kernel may have left its arrays before this call; TILEWRIGHT_DEBUG=1 names the one that fails"
_NOTHING = "__kernel void nothing(__global int* a) { a[0] = 0; }"


@cache
def load_pyopencl() -> Any:
    """The package; PoCL's cache of compiled kernels goes to a temporary folder if the home cannot be written."""
    there = os.path.abspath(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    while not os.path.exists(there) and there != os.path.dirname(there):
        there = os.path.dirname(there)
    if not _takes_files(there):
        if "POCL_CACHE_DIR" not in os.environ:
            from .temporary_cache import temporary_cache  # imported here, because few processes need it

            os.environ["POCL_CACHE_DIR"] = temporary_cache()
        os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    import pyopencl

    return pyopencl


def _takes_files(folder: str) -> bool:
    """Whether a folder accepts files. For the superuser, `os.access` is also true on file systems that refuse files."""
    probe = os.path.join(folder, f".tilewright-{os.getpid()}")
    try:
        os.mkdir(probe)
    except FileExistsError:  # another thread checks at the same time, or was killed during its check
        return True
    except OSError:
        return False
    with suppress(OSError):
        os.rmdir(probe)
    return True


class _Once(Generic[T]):
    """A property that the first thread computes for all; with `cached_property`, each thread may compute it."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__

    def __get__(self, instance: Any, owner: type) -> T:
        with _opening:
            if self._name not in vars(instance):  # the place that Python searches first from now on
                vars(instance)[self._name] = self._make(instance)
            found: T = vars(instance)[self._name]
            return found


class _Device:
    """A device with its context and its queue, which are created at the first use."""

    def __init__(self, cl: Any, device: Any) -> None:
        self.cl = cl
        self.device = device
        self.events: list[Any] | None = None
        self.used_by = 0
        """The process that opened the device: a fork lacks the threads of OpenCL, and would wait for them forever."""

    @_Once
    def context(self) -> Any:
        self.used_by = os.getpid()
        keep_from_forks()
        name_processor(self.device)
        with _failures(self, f"{self.device.name.strip()} does not open"):
            return self.cl.Context([self.device])

    @_Once
    def declares_all(self) -> bool:
        """Whether its compiler reads declarations of all built-in functions first, as PoCL's does."""
        platform, language = str(self.device.platform.name), str(self.device.opencl_c_version)
        return platform.strip() == POCL and language.startswith("OpenCL C 1.2")

    def check_process(self) -> None:
        """UserError in a fork of the process that uses the device."""
        if self.used_by and self.used_by != os.getpid():
            raise UserError(
                "OpenCL was used before this process was forked, and does not work in a fork",
                fix='start processes afresh, multiprocessing.get_context("spawn"), or use OpenCL in the children only',
            )

    @_Once
    def queue(self) -> Any:
        with _failures(self, f"{self.device.name.strip()} opens no queue"):
            return self.cl.CommandQueue(self.context, properties=self.cl.command_queue_properties.PROFILING_ENABLE)


class OpenClDriver(Driver):
    """All devices of all platforms: GPUs and accelerators first, then CPUs."""

    kind = "opencl"

    @_Once
    def _found(self) -> tuple[list[_Device], str]:
        fix = "pip install 'tilewright[opencl]', which brings one that is the CPU"
        try:
            cl = load_pyopencl()
        except ImportError:
            return [], f"no OpenCL: pyopencl is not installed ({fix})"
        try:
            devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
        except cl.Error as error:
            return [], f"no OpenCL device: {error} ({fix})"
        devices.sort(key=lambda device: bool(device.type & cl.device_type.CPU))
        return [_Device(cl, device) for device in devices], "" if devices else f"no OpenCL device ({fix})"

    def why_not(self) -> str:
        return self._found[1]

    def count(self) -> int:
        return len(self._found[0])

    def _at(self, index: int) -> _Device:
        devices, reason = self._found
        if reason:
            raise UserError(reason, fix=elsewhere(self.kind))
        if not 0 <= index < len(devices):
            raise UserError(
                f"there is no opencl({index}): this machine has {quantity(len(devices), 'OpenCL device')}",
                fix=f"give a number from 0 to {len(devices) - 1}",
            )
        devices[index].check_process()
        return devices[index]

    def attributes(self, index: int) -> DeviceAttributes:
        device = self._at(index).device
        sizes = tuple(device.max_work_item_sizes)
        return DeviceAttributes(
            name=device.name.strip(),
            compute_version=device.version.strip(),
            max_threads_per_block=device.max_work_group_size,
            max_shared_memory_per_block=device.local_mem_size,
            max_shared_memory_opt_in=device.local_mem_size,
            multi_processor_count=device.max_compute_units,
            max_clock_rate=device.max_clock_frequency * 1000,
            max_thread_dimensions=(sizes[0], sizes[1], sizes[2]),
            total_global_memory=device.global_mem_size,
            l2_cache_bytes=device.global_mem_cache_size,
            driver_version=device.driver_version,
            on_host=bool(device.type & self._at(index).cl.device_type.CPU),
        )

    def allocate(self, index: int, size: int) -> Handle:
        at = self._at(index)
        if size > at.device.global_mem_size:  # some drivers look for memory only when it is written to
            raise DeviceError(f"opencl({index}) cannot allocate {size:,} bytes: it has {at.device.global_mem_size:,}")
        try:
            return at.cl.Buffer(at.context, at.cl.mem_flags.READ_WRITE, max(1, size))
        except at.cl.Error as error:
            raise DeviceError(f"opencl({index}) cannot allocate {size:,} bytes: {error}", _code(error)) from error

    def free(self, index: int, handle: Any) -> None:
        """Released with its last reference."""

    def write(self, index: int, handle: Any, data: np.ndarray) -> None:
        at = self._at(index)
        if data.nbytes:
            with _failures(at, f"opencl({index}) cannot be written to"):
                at.cl.enqueue_copy(at.queue, handle, data, is_blocking=True)

    def read(self, index: int, handle: Any, data: np.ndarray) -> None:
        at = self._at(index)
        if data.nbytes:
            with _failures(at, f"opencl({index}) cannot be read"):
                at.cl.enqueue_copy(at.queue, data, handle, is_blocking=True)

    def copy(self, index: int, source: Any, target: Any, size: int) -> None:
        at = self._at(index)
        if size:
            with _failures(at, f"opencl({index}) cannot copy"):
                at.cl.enqueue_copy(at.queue, target, source, byte_count=size)

    def span(self, handle: Any, size: int) -> tuple[int, int]:
        """Return the identity of a memory object instead of addresses: arrays with the same object share memory."""
        number = int(handle.int_ptr)
        return number, number + 1

    def part(self, handle: Any, offset: int) -> tuple[Any, int]:
        return handle, offset

    def sync(self, index: int) -> None:
        at = self._at(index)
        with _failures(at, f"opencl({index}) does not finish"):
            at.queue.finish()

    @not_while_forking
    def load(self, program: CompiledProgram, index: int) -> dict[str, Launcher]:
        at = self._at(index)
        if _DOUBLES in program.source and _DOUBLES not in at.device.extensions:
            raise UserError(
                f"opencl({index}), {at.device.name.strip()}, has no float64, which this program computes with",
                fix="declare the tensors as float32, or build for another device",
            )
        options = os.environ.get(OPTIONS, "").split()
        with _building, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a compiler's remarks about generated code are no news to the caller
            try:
                built = _built(at, program.source, options)
            except at.cl.Error as error:
                if REFUSAL in str(error):
                    raise UserError(
                        f"the compiler of opencl({index}), {_compiler(at)}, does not know this processor",
                        fix="install a newer one (conda install -c conda-forge pocl, or the package pocl-opencl-icd of "
                        "the system), or build for the target llvm",
                    ) from error
                if options and not _takes(at, options):
                    raise UserError(
                        f"OpenCL refuses the options {' '.join(options)!r}", fix=f"change the variable {OPTIONS}"
                    ) from error
                refused = InternalError(f"OpenCL refuses generated code: {error}\n\n{program.source}")
                from ..codegen.abi import unknown_functions  # not for a process that only starts known kernels

                raise unknown_functions(program, refused) or refused from error
            return {abi.name: _launcher(at, at.cl.Kernel(built, abi.name), abi) for abi in program.kernels}

    def timer(
        self, index: int, run: Callable[[], None], before: Callable[[], None] | None = None
    ) -> Callable[[int], float]:
        """The time that the kernels themselves take, by the device's own clock."""
        at = self._at(index)

        def seconds(number: int) -> float:
            events: list[Any] = []
            try:
                for _ in range(number):
                    if before is not None:
                        before()
                    at.events = events
                    run()
                    at.events = None
                self.sync(index)
            finally:
                at.events = None
            with _failures(at, f"opencl({index}) has no times of its kernels"):
                return math.fsum(event.profile.end - event.profile.start for event in events) * 1e-9

        return seconds


@contextmanager
def _failures(at: _Device, what: str) -> Iterator[None]:
    """Raise the driver's errors, from this call or from a kernel started before it, as DeviceError."""
    try:
        yield
    except at.cl.Error as error:
        status = at.cl.status_code
        lost = getattr(error, "code", None) in (status.OUT_OF_RESOURCES, status.INVALID_COMMAND_QUEUE)
        hint = f"\n  fix: {_AFTER_A_FAULT}" if lost else ""
        raise DeviceError(f"{what}: {error}{hint}", _code(error)) from error


def _built(at: _Device, source: str, options: list[str]) -> Any:
    """A program, compiled; for PoCL, with declarations of the called functions only."""
    if at.declares_all and max(map(len, re.split("[{}]", source))) > _MOST_OPTIMISED:
        options = [*options, "-cl-opt-disable"]
    declared = declarations(source) if at.declares_all else None
    if declared is not None and not any(option.startswith("-cl-std") for option in options):
        try:
            return at.cl.Program(at.context, declared + source).build(options=[*_QUIET, WITHOUT_HEADER, *options])
        except at.cl.Error:  # errors are reported for the unchanged source, below
            pass
    return at.cl.Program(at.context, source).build(options=[*_QUIET, *options])


def _compiler(at: _Device) -> str:
    """The driver with its version."""
    return f"{str(at.device.platform.name).strip()} {str(at.device.driver_version).strip()}"


def _takes(at: _Device, options: list[str]) -> bool:
    """Whether the device's compiler accepts the options. Few compilers return the error code that OpenCL defines."""
    try:
        at.cl.Program(at.context, _NOTHING).build(options=[*_QUIET, *options])
    except at.cl.Error:
        return False
    return True


def _launcher(at: _Device, kernel: Any, abi: KernelAbi) -> Launcher:
    passed = {"bool": "uint8", "float16": "float32", "bfloat16": "float32"}
    scalars = [None if kind == "buffer" else np.dtype(passed.get(kind, kind)) for kind in abi.params]
    kernel.set_scalar_arg_dtypes(scalars)
    enqueue, queue, set_args = at.cl.enqueue_nd_range_kernel, at.queue, kernel.set_args
    owner, process = os.getpid(), os.getpid
    failure = at.cl.Error

    def launch(gx: int, gy: int, gz: int, bx: int, by: int, bz: int, *args: Any) -> None:
        if process() != owner:
            at.check_process()
        try:
            set_args(*args)
            event = enqueue(queue, kernel, (gx * bx, gy * by, gz * bz), (bx, by, bz))
        except failure as error:
            asked = f"launch of {abi.name} with grid ({gx}, {gy}, {gz}) and block ({bx}, {by}, {bz})"
            fix = "".join(f"\n  fix: {limit}" for limit in _broken_limits(at, kernel, (bx, by, bz)))
            raise DeviceError(f"{asked}: {error}{fix}", _code(error)) from error
        if at.events is not None:
            at.events.append(event)

    return launch


def _broken_limits(at: _Device, kernel: Any, block: tuple[int, int, int]) -> Iterator[str]:
    """This device's limit that a launch exceeded; targets only know the limits of most devices."""
    info = at.cl.kernel_work_group_info
    threads = kernel.get_work_group_info(info.WORK_GROUP_SIZE, at.device)
    if math.prod(block) > threads:
        yield f"bind fewer threads: here a block of this kernel has at most {threads:,} of them"
    for letter, extent, most in zip("xyz", block, at.device.max_work_item_sizes, strict=False):
        if extent > most:
            yield f"bind a longer axis to threadIdx.x: here threadIdx.{letter} is below {most:,}"
    held, most = kernel.get_work_group_info(info.LOCAL_MEM_SIZE, at.device), at.device.local_mem_size
    if held > most:
        yield f"use less shared memory: here a block has {most:,} bytes, and this one takes {held:,}"


def _code(error: Any) -> str:
    return str(getattr(error, "code", ""))
