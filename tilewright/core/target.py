"""Targets: what a program is compiled for, and that hardware's limits as data.

`Target("cuda -arch=sm_86")` is an immutable value. Its limits come from the tables below; options in its
spelling may override some of them. `with Target(...):` makes it the current one; only the faces ask for that.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from .errors import UserError
from .refusals import missing


class TargetKind(str):
    """`"cuda"`, `"opencl"` or `"llvm"`; `.name` is the same text, as the legacy API has it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name of the kind."""
        return str(self)


# Shared memory that one block can opt in to, and resident threads of one multiprocessor, by architecture.
_ARCHITECTURES: dict[int, tuple[int, int]] = {
    50: (48, 2048), 52: (48, 2048), 53: (48, 2048), 60: (48, 2048), 61: (48, 2048), 62: (48, 2048),
    70: (96, 2048), 72: (96, 2048), 75: (64, 1024), 80: (163, 2048), 86: (99, 1536), 87: (163, 1536),
    89: (99, 1536), 90: (227, 2048), 100: (227, 2048), 103: (227, 2048), 110: (227, 1536), 120: (99, 1536),
    121: (99, 1536),
}  # fmt: skip
_DEFAULT_ARCH = "sm_90"
_LARGEST = 2**31 - 1

# Accepted options: those that set a field (option -> field), and those that are only kept in the spelling.
_FIELDS: dict[str, dict[str, str]] = {
    "cuda": {
        "arch": "arch",
        "max_threads_per_block": "max_threads_per_block",
        "max_num_threads": "max_threads_per_block",
        "max_shared_memory_per_block": "shared_bytes",
        "registers_per_block": "registers_per_block",
        "thread_warp_size": "warp_size",
    },
    "opencl": {
        "max_threads_per_block": "max_threads_per_block",
        "max_num_threads": "max_threads_per_block",
        "max_shared_memory_per_block": "shared_bytes",
        "thread_warp_size": "warp_size",
    },
    "llvm": {},
}
_LABELS: dict[str, tuple[str, ...]] = {
    "cuda": ("keys", "model", "tag", "libs"),
    # The last four, and the last two of llvm, stand in the targets of the legacy system's logs.
    "opencl": (
        "keys", "model", "tag", "device",
        "texture_spatial_limit", "texture_depth_limit", "max_function_args", "image_base_address_alignment",
    ),
    "llvm": (
        "keys", "model", "tag", "mcpu", "mtriple", "mattr", "num-cores", "opt-level", "fp-contract",
        "libs", "link-params",
    ),
}  # fmt: skip
KINDS = tuple(_FIELDS)


@dataclass(frozen=True, init=False, repr=False)
class Target:
    """One kind of hardware and its limits; equal where kind, limits and labels are."""

    kind: TargetKind
    arch: str
    max_threads_per_block: int
    max_block_dims: tuple[int, int, int]
    max_grid_dims: tuple[int, int, int]
    shared_bytes: int
    """Bytes of shared memory that a block has without asking."""
    max_shared_bytes: int
    """Bytes that it can have when a kernel opts in."""
    registers_per_thread: int
    registers_per_block: int
    threads_per_multiprocessor: int
    warp_size: int
    labels: tuple[tuple[str, str], ...]
    """Further options of the spelling, which set no limit."""
    arch_given: bool
    """Whether the spelling names the architecture; where not, a device that is there may set it."""

    def __init__(self, target: str | Mapping[str, Any] | Target, host: Any = None) -> None:
        """`target`: "cuda -arch=sm_80", a mapping with a "kind", or a target; `host` is not used."""
        values = vars(target) if isinstance(target, Target) else _limits(*_split(target))
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def parse(cls, given: str | Mapping[str, Any] | Target) -> Target:
        """`given` as a target."""
        return given if isinstance(given, Target) else cls(given)

    def with_arch(self, arch: str) -> Target:
        """This target for another architecture, limits included."""
        options = {**dict(self._options()), "arch": arch}
        return Target({"kind": str(self.kind), **options})

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost target of the `with` statements around the caller, or None."""
        stack = _stack()
        if not stack and not allow_none:
            raise UserError(
                "no current target", primitive="Target.current", fix='pass one, or work inside `with Target("cuda"):`'
            )
        return stack[-1] if stack else None

    def __enter__(self) -> Target:
        _stack().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _stack().pop()

    @property
    def is_gpu(self) -> bool:
        """Whether programs run as kernels over a grid of blocks."""
        return self.kind in ("cuda", "opencl")

    @property
    def has_warps(self) -> bool:
        """Whether threads run in warps, whose loads of neighbouring elements go to memory together.

        OpenCL also runs on CPUs, where the threads of a block are loops and the opposite is fast: it counts where the
        spelling says what it is for, as in "opencl -device=gpu".
        """
        return self.kind == "cuda" or (self.kind == "opencl" and dict(self.labels).get("device", "cpu") != "cpu")

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
        given = dict(self.labels).get("keys")
        default = ("cpu",) if self.kind == "llvm" else (str(self.kind), "gpu")
        return tuple(given.split(",")) if given else default

    def _options(self) -> list[tuple[str, str]]:
        """What the spelling needs to say: the options that differ from the defaults, in a fixed order."""
        arch = {"arch": self.arch} if self.arch_given else {}
        plain = _limits(str(self.kind), arch)
        shown: dict[str, str] = {}
        for option, field in _FIELDS[self.kind].items():
            if field not in shown and ((field == "arch" and arch) or vars(self)[field] != plain[field]):
                shown[field] = option
        values = [(option, str(vars(self)[field])) for field, option in shown.items()]
        return values + list(self.labels)

    def __getattr__(self, name: str) -> NoReturn:
        raise missing("the target", name, dir(type(self)), self)

    def __str__(self) -> str:
        return " ".join([str(self.kind), *(f"-{name}={value}" for name, value in self._options())])

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Target, (str(self),)


_local = threading.local()


def _stack() -> list[Target]:
    stack: list[Target] | None = getattr(_local, "stack", None)
    if stack is None:
        stack = _local.stack = []
    return stack


def _split(spelling: Any) -> tuple[str, dict[str, str]]:
    """The kind and the options of a spelling."""
    if isinstance(spelling, Mapping):
        options = {str(k): _option_text(v) for k, v in spelling.items() if k not in ("kind", "host")}
        return str(spelling.get("kind", "")), options
    if not isinstance(spelling, str):
        raise UserError(
            f"cannot make a target from {spelling!r}", primitive="Target", fix='give its name, such as Target("cuda")'
        )
    kind, *rest = spelling.split() or [""]
    options = {}
    for word in rest:
        match = re.fullmatch(r"--?([\w-]+)=(.+)", word)
        if match is None:
            raise UserError(
                f"target {spelling!r}: {word!r} is not an option",
                primitive="Target",
                fix="write options as -name=value",
            )
        options[match[1]] = match[2]
    return kind, options


def _option_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _limits(kind: str, options: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a target of that kind with those options."""
    if kind not in _FIELDS:
        raise UserError(f"unknown target kind {kind!r}", primitive="Target", fix=f"use one of {', '.join(KINDS)}")
    accepted = _FIELDS[kind]
    values = _cuda(options.get("arch")) if kind == "cuda" else _plain(kind)
    labels: dict[str, str] = {}
    for option, text in options.items():
        if option in _LABELS[kind]:
            labels[option] = text
        elif option not in accepted:
            names = ", ".join(f"-{name}" for name in (*accepted, *_LABELS[kind]))
            raise UserError(
                f"target {kind!r} has no option -{option}", primitive="Target", fix=f"its options are {names}"
            )
        elif option != "arch":
            values[accepted[option]] = _whole(kind, option, text)
    values["max_shared_bytes"] = max(values["max_shared_bytes"], values["shared_bytes"])
    made = {**values, "kind": TargetKind(kind), "labels": tuple(labels.items())}
    return {field.name: made[field.name] for field in fields(Target)}


def _whole(kind: str, option: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise UserError(
            f"target {kind!r}: -{option}={text} is not a positive whole number",
            primitive="Target",
            fix=f"give a number: -{option}=1024",
        )
    return int(text)


def _cuda(arch: str | None) -> dict[str, Any]:
    name = arch or _DEFAULT_ARCH
    match = re.fullmatch(r"sm_(\d+)[af]?", name)
    if match is None or int(match[1]) not in _ARCHITECTURES:
        known = ", ".join(f"sm_{number}" for number in _ARCHITECTURES)
        raise UserError(f"unknown CUDA architecture {name!r}", primitive="Target", fix=f"use one of {known}")
    shared, threads = _ARCHITECTURES[int(match[1])]
    return {
        "arch": name,
        "arch_given": arch is not None,
        "max_threads_per_block": 1024,
        "max_block_dims": (1024, 1024, 64),
        "max_grid_dims": (_LARGEST, 65535, 65535),
        "shared_bytes": 48 * 1024,
        "max_shared_bytes": shared * 1024,
        "registers_per_thread": 255,
        "registers_per_block": 65536,
        "threads_per_multiprocessor": threads,
        "warp_size": 32,
    }


def _plain(kind: str) -> dict[str, Any]:
    """OpenCL limits that every current device meets; the CPU has none of a GPU's."""
    gpu = kind == "opencl"
    return {
        "arch": "",
        "arch_given": False,
        "max_threads_per_block": 1024 if gpu else 1,
        "max_block_dims": (1024, 1024, 1024) if gpu else (1, 1, 1),
        "max_grid_dims": (_LARGEST, _LARGEST, _LARGEST),
        "shared_bytes": 48 * 1024,
        "max_shared_bytes": 48 * 1024,
        "registers_per_thread": 255,
        "registers_per_block": 65536,
        "threads_per_multiprocessor": 2048,
        "warp_size": 32 if gpu else 1,
    }
