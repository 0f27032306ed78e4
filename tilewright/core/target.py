"""Targets of compilation, and the rules of their hardware.

`Target("cuda -arch=sm_86")` is an immutable value. Its hardware is a row of `architectures.py`; options in its
spelling may change some limits. `with Target(...):` makes it the current one; only the faces ask for that.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

from .architectures import NVIDIA, opencl_hardware, processor_hardware
from .errors import UserError, UserValueError
from .hardware import Extents, Hardware, MemoryScope
from .refusals import missing
from .target_tags import TAGS
from .target_view import TargetView


class TargetKind(str):
    """`"cuda"`, `"opencl"`, `"llvm"` or `"c"`; `.name` is the same text, as the legacy API has it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name of the kind."""
        return str(self)


_DEFAULT_ARCH = "sm_90"

Setter = Callable[[Hardware, int], Hardware]


def _with_shared(hardware: Hardware, size: int) -> Hardware:
    most = max(size, hardware.memory(MemoryScope.SHARED).most)
    return hardware.with_memory(MemoryScope.SHARED, capacity=size, most=most)


def _with_threads(hardware: Hardware, count: int) -> Hardware:
    return hardware.with_level("block", threads=count)


def _with_registers(hardware: Hardware, count: int) -> Hardware:
    return hardware.with_multiprocessor(registers=count)


# Options that set a limit: the property of a target that shows it, and the hardware with another one.
_LIMITS: dict[str, dict[str, tuple[str, Setter]]] = {
    "cuda": {
        "max_threads_per_block": ("max_threads_per_block", _with_threads),
        "max_num_threads": ("max_threads_per_block", _with_threads),
        "max_shared_memory_per_block": ("shared_bytes", _with_shared),
        "registers_per_block": ("registers_per_block", _with_registers),
        "thread_warp_size": ("warp_size", Hardware.with_warp),
    },
    "opencl": {
        "max_threads_per_block": ("max_threads_per_block", _with_threads),
        "max_num_threads": ("max_threads_per_block", _with_threads),
        "max_shared_memory_per_block": ("shared_bytes", _with_shared),
        "thread_warp_size": ("warp_size", Hardware.with_warp),
    },
    "llvm": {},
    "c": {},
}
# Options that are only kept in the spelling, or choose the row.
_LIBRARIES = ("system-lib", "runtime")
"""Options of the legacy API. `runtime.system_lib()` finds functions built with the first; the second has no effect."""
_FLAGS = ("system-lib", "link-params")
"""Options that may stand without a value."""
_LABELS: dict[str, tuple[str, ...]] = {
    "cuda": ("keys", "model", "tag", "device", "libs"),
    # The last four, and the last two of llvm, stand in the targets of the legacy system's logs.
    "opencl": (
        "keys", "model", "tag", "device",
        "texture_spatial_limit", "texture_depth_limit", "max_function_args", "image_base_address_alignment",
    ),
    "llvm": (
        "keys", "model", "tag", "device", "mcpu", "mtriple", "mattr", "num-cores", "opt-level", "fp-contract",
        "libs", "link-params", *_LIBRARIES,
    ),
    "c": ("keys", "model", "tag", "device", "num-cores", *_LIBRARIES),
}  # fmt: skip
KINDS = tuple(_LIMITS)
_MEANT = {
    **dict.fromkeys(("gpu", "nvidia", "nvptx"), "cuda"),
    **dict.fromkeys(("cpu", "host", "x86", "stackvm"), "llvm"),
    **dict.fromkeys(("rocm", "hip", "amd", "metal", "vulkan", "sycl", "intel", "cl"), "opencl"),
}
"""Aliases of hardware names."""


@dataclass(frozen=True, init=False, repr=False)
class Target(TargetView):
    """A kind of hardware and its limits. Targets are equal if kind, limits and labels are."""

    kind: TargetKind
    arch: str
    limits: tuple[tuple[str, int], ...]
    """Options of the spelling that give the hardware another limit than its architecture's."""
    labels: tuple[tuple[str, str], ...]
    """Further options of the spelling, which set no limit."""
    arch_given: bool
    """Whether the spelling names the architecture; if not, a present device may set it."""
    hardware: Hardware = field(compare=False)
    """The hardware that programs run on: the row of the architecture, under the target's limits."""
    host: Target | None = field(compare=False)
    """The target of host code, if the caller gave one; Tilewright's host code is Python."""

    def __init__(self, target: str | Mapping[str, Any] | Target, host: Any = None) -> None:
        """`target`: "cuda -arch=sm_80", a mapping with a "kind", a tag or a target; `host` is only stored."""
        values = vars(target) if isinstance(target, Target) else _fields(*_split(target))
        for name, value in values.items():
            object.__setattr__(self, name, value)
        host = target.get("host") if host is None and isinstance(target, Mapping) else host
        if host is not None or not isinstance(target, Target):
            object.__setattr__(self, "host", None if host is None else Target.parse(host))

    @classmethod
    def parse(cls, given: str | Mapping[str, Any] | Target) -> Target:
        """`given` as a target."""
        return given if isinstance(given, Target) else cls(given)

    def with_host(self, host: str | Mapping[str, Any] | Target) -> Target:
        """This target with another host."""
        return Target(self, host)

    @staticmethod
    def list_kinds() -> list[str]:
        """The kinds of targets."""
        return list(KINDS)

    def with_arch(self, arch: str) -> Target:
        """This target for another architecture, limits included."""
        options = {**dict(self._options()), "arch": arch}
        return Target({"kind": str(self.kind), **options})

    def with_model(self, board: str) -> Target:
        """Return the target for a board by its driver's name, such as "NVIDIA L4": models use the board's rates."""
        return Target({"kind": str(self.kind), **dict(self._options()), "model": board})

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost target of the `with` statements around the caller, or None."""
        stack = _entered.get()
        if not stack and allow_none is False:
            raise UserError(
                "no current target", primitive="Target.current", fix='pass one, or work inside `with Target("cuda"):`'
            )
        return stack[-1] if stack else None

    def __enter__(self) -> Target:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _entered.set(_entered.get()[:-1])

    @property
    def is_gpu(self) -> bool:
        """Whether programs run as kernels over a grid of blocks."""
        return self.hardware.launches_grids

    @property
    def has_warps(self) -> bool:
        """Whether threads run in warps, with loads of neighbouring elements in one transaction.

        OpenCL also runs on CPUs, where the threads of a block are loops and the opposite is fast. It counts if the
        spelling names the device, as in "opencl -device=gpu".
        """
        return self.warp_size > 1

    @property
    def max_threads_per_block(self) -> int:
        """Threads of the largest block."""
        return self.hardware.block.threads

    @property
    def max_block_dims(self) -> Extents:
        """The largest extents of `threadIdx.x`, `.y` and `.z`."""
        return self.hardware.block.extents

    @property
    def max_grid_dims(self) -> Extents:
        """The largest extents of `blockIdx.x`, `.y` and `.z`."""
        return self.hardware.grid.extents

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a block has without asking."""
        return self.hardware.memory(MemoryScope.SHARED).capacity

    @property
    def max_shared_bytes(self) -> int:
        """Bytes that it can have when a kernel opts in."""
        return self.hardware.memory(MemoryScope.SHARED).most

    @property
    def registers_per_thread(self) -> int:
        """Registers of 32 bits that one thread can have."""
        return self.hardware.registers_per_thread

    @property
    def registers_per_block(self) -> int:
        """Registers of 32 bits that the threads of one block share."""
        return self.hardware.multiprocessor.registers

    @property
    def threads_per_multiprocessor(self) -> int:
        """Threads that can be resident on one multiprocessor."""
        return self.hardware.multiprocessor.warps * self.warp_size

    @property
    def warp_size(self) -> int:
        """Threads of a warp; 1 if there are none."""
        return self.hardware.warp

    @property
    def max_num_threads(self) -> int:
        """The legacy name of `max_threads_per_block`."""
        return self.max_threads_per_block

    @property
    def max_shared_memory_per_block(self) -> int:
        """The legacy name of `shared_bytes`."""
        return self.shared_bytes

    @property
    def thread_warp_size(self) -> int:
        """The legacy name of `warp_size`."""
        return self.warp_size

    @property
    def keys(self) -> tuple[str, ...]:
        """The names under which operator schedules for this target are filed."""
        labels = dict(self.labels)
        given, device = labels.get("keys"), labels.get("device")
        default = ("cpu",) if self.kind in ("llvm", "c") else (str(self.kind), "gpu")
        listed = tuple(given.split(",")) if given else default
        return (device, *listed) if device and device not in listed else listed

    def _options(self) -> list[tuple[str, str]]:
        """The options of the spelling: those that differ from the defaults, in a fixed order."""
        arch = [("arch", self.arch)] if self.arch_given else []
        return [*arch, *((option, str(value)) for option, value in self.limits), *self.labels]

    def __getattr__(self, name: str) -> NoReturn:
        raise missing("the target", name, dir(type(self)), self)

    @functools.cached_property
    def _spelling(self) -> str:
        return " ".join([str(self.kind), *(f"-{name}={_quoted(value)}" for name, value in self._options())])

    def __str__(self) -> str:
        return self._spelling

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Target, (str(self),)


_entered: ContextVar[tuple[Target, ...]] = ContextVar("Target", default=())
"""Targets of the `with` statements around the caller, the innermost last."""


_WORD = re.compile(r'(?:[^\s"]|"[^"]*"|")+')
"""A word of a spelling: double quotes keep spaces in a value, as in `-model="NVIDIA L4"`."""


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value


def _split(spelling: Any) -> tuple[str, dict[str, str]]:
    """The kind and the options of a spelling."""
    if isinstance(spelling, str) and spelling.lstrip().startswith("{"):
        spelling = _read(spelling)
    if isinstance(spelling, Mapping):
        options = {str(k): _option_text(v) for k, v in spelling.items() if k not in ("kind", "host")}
        return str(spelling.get("kind", "")), options
    if not isinstance(spelling, str):
        raise UserError(
            f"cannot make a target from {spelling!r}", primitive="Target", fix='give its name, such as Target("cuda")'
        )
    words = _WORD.findall(" ".join(TAGS.get(word, word) for word in spelling.split()))
    kind, *rest = (word.replace('"', "") for word in words) if words else ("",)
    options = {}
    for word in rest:
        match = re.fullmatch(r"--?([\w-]+)=(.+)", f"{word}=1" if word.lstrip("-") in _FLAGS else word)
        if match is None:
            raise UserError(
                f"target {spelling!r}: {word!r} is not an option",
                primitive="Target",
                fix="write options as -name=value",
            )
        options[match[1]] = match[2]
    return kind, options


def _read(spelling: str) -> Any:
    """The mapping that a text in JSON spells."""
    try:
        return json.loads(spelling)
    except ValueError as error:
        raise UserValueError(
            f"target {spelling!r} is not JSON ({error})", primitive="Target", fix='write {"kind": "cuda", ...}'
        ) from None


def _option_text(value: Any) -> str:
    if isinstance(value, Mapping):
        raise UserValueError(
            f"an option of a target is {value!r}", primitive="Target", fix="give a text, a number or a list of these"
        )
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _fields(kind: str, options: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a target of that kind with those options."""
    if kind not in _LIMITS:
        meant = _MEANT.get(kind.lower())
        fix = f"write {meant!r}; the kinds are {', '.join(KINDS)}" if meant else f"use one of {', '.join(KINDS)}"
        raise UserError(f"unknown target kind {kind!r}", primitive="Target", fix=fix)
    settable, row = _LIMITS[kind], _row(kind, options)
    accepted = (*(("arch",) if kind == "cuda" else ()), *settable)
    labels: dict[str, str] = {}
    limits: dict[str, int] = {}  # under the first of the names of a limit, in the order of the table
    first = {shown: option for option, (shown, _) in reversed(settable.items())}
    hardware = row
    for option, text in options.items():
        if option in _LABELS[kind]:
            labels[option] = text
        elif option not in accepted:
            names = ", ".join(f"-{name}" for name in (*accepted, *_LABELS[kind]))
            raise UserError(
                f"target {kind!r} has no option -{option}", primitive="Target", fix=f"its options are {names}"
            )
        elif option != "arch":
            shown, change = settable[option]
            value = _whole(kind, option, text)
            changed = change(row, value)
            hardware = change(hardware, value)
            limits.pop(first[shown], None)
            if changed != row:
                limits[first[shown]] = value
    return {
        "kind": TargetKind(kind),
        "arch": (options.get("arch") or _DEFAULT_ARCH) if kind == "cuda" else "",
        "limits": tuple((option, limits[option]) for option in settable if option in limits),
        "labels": tuple(labels.items()),
        "arch_given": kind == "cuda" and "arch" in options,
        "hardware": hardware,
    }


def _whole(kind: str, option: str, text: str) -> int:
    if re.fullmatch("[0-9]{1,18}", text) is None or int(text) < 1:
        raise UserError(
            f"target {kind!r}: -{option}={text} is not a positive whole number",
            primitive="Target",
            fix=f"give a number: -{option}=1024",
        )
    return int(text)


def _row(kind: str, options: Mapping[str, str]) -> Hardware:
    """The hardware that a spelling names, before its options change limits."""
    if kind == "opencl":
        return opencl_hardware(options.get("device", "cpu"))
    if kind == "c":
        return processor_hardware("generic", "")
    if kind == "llvm":
        return processor_hardware(options.get("mcpu"), options.get("mattr", ""), options.get("mtriple", ""))
    name = options.get("arch") or _DEFAULT_ARCH
    found = NVIDIA.get(name) or NVIDIA.get(re.sub(r"(?<=\d)[af]$", "", name))
    if found is None:
        raise UserError(
            f"unknown CUDA architecture {name!r}", primitive="Target", fix=f"use one of {', '.join(NVIDIA)}"
        )
    return found
