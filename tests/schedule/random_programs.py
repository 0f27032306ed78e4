"""Random programs as text, drawn one line at a time: a graph of tensors (`random_graphs.py`) and a schedule of it.

Every line is executed as it is drawn, in the names `te`, `tir` and those that earlier lines have made, so a failing
program prints as a script that reproduces it. Values are small whole numbers, exact in the program's type in any order.
"""

from __future__ import annotations

import functools
import math
import re
import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tests.schedule import random_externs
from tests.schedule.choosers import Chooser
from tilewright import auto_schedule, te, tir
from tilewright.core.errors import UserError
from tilewright.expr import nodes as n
from tilewright.tensor.reduction import Reduce
from tilewright.tensor.reference import reference
from tilewright.tensor.tensor import PlaceholderOp, Tensor

T = TypeVar("T")
EXACT = {
    "float32": 2**24, "float16": 2**11, "bfloat16": 2**8, "float64": 2**53,
    "bool": 1, "uint8": 255, "int8": 127, "int32": 2**31 - 1, "int64": 2**53,
}  # fmt: skip
"""The largest whole number below which each type holds all of them."""
MOST = 2  # of an input
LARGEST_INDEX = 3  # of those that are values, too


class RandomProgram:
    """Lines of a program, and what they have made."""

    def __init__(self, chooser: Chooser) -> None:
        self.chooser = chooser
        self.pick, self.between, self.permuted = chooser.pick, chooser.between, chooser.permuted
        self.names: dict[str, Any] = {
            "te": te,
            "tir": tir,
            "auto_schedule": auto_schedule,
            "externs": random_externs,
            "meanings": {},
            "limits": {},
        }
        self.lines: list[str] = []
        self.refused: list[str] = []
        self.attempt = ""
        """The line that is being executed, which stays here where it fails as none may."""
        self.tensors: list[str] = []
        self.extents: dict[str, tuple[int, ...]] = {}
        self.count = 0
        self.dtype = "float32"
        self.on_gpu: bool | None = None
        """Whether the schedule binds threads, where that is known before the graph is drawn."""

    # Drawing.

    def chance(self, percent: int) -> bool:
        """True in about so many of a hundred programs."""
        return self.between(0, 99) >= 100 - percent

    def fresh(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def do(self, line: str) -> bool:
        """Execute a line and keep it; a line that is refused is dropped."""
        if "int" in self.dtype:
            line = re.sub(r"\b(\d+)\.0\b", r"\1", line)
        self.attempt = line
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(line, self.names)
        except UserError as error:
            self.refused.append(f"{line}  # {error}")
            self.attempt = ""
            return False
        self.attempt = ""
        self.lines.append(line)
        return True

    # What there is.

    @property
    def schedule(self) -> Any:
        return self.names["s"]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def outputs(self) -> list[Tensor]:
        return [self.names[name] for name in self.names["outputs"]]

    @property
    def arguments(self) -> list[Tensor]:
        """Inputs, results on the way that are to be kept, outputs."""
        found = [self.names[name] for name in self.tensors if isinstance(self.names[name].op, PlaceholderOp)]
        return found + [self.names[name] for name in self.names["kept"]] + self.outputs

    def inputs(self) -> dict[Tensor, np.ndarray]:
        """Whole numbers from -MOST to MOST for each input."""
        rng = np.random.default_rng(len(self.text))
        given = [t for t in self.arguments if isinstance(t.op, PlaceholderOp)]
        return {t: self.values(rng, t, [int(e) for e in t.shape]) for t in given}

    def values(
        self, rng: np.random.Generator, tensor: Tensor, shape: Sequence[int], sizes: Mapping[Any, int] = {}
    ) -> np.ndarray:
        """Random values of an input; indices stay below the `limits` of their names."""
        low, end = (0 if str(tensor.dtype) in ("bool", "uint8") else -MOST), MOST + 1
        if (limit := self.names["limits"].get(tensor.name)) is not None:
            low, end = 0, max(1, min(127, int(sizes.get(limit, limit))))
        return rng.integers(low, end, shape).astype(tensor.dtype.numpy)

    def expected(self) -> list[np.ndarray]:
        """The values of the outputs by the NumPy reference, and by the meanings of external operations."""
        known: dict[Any, Any] = {**self.inputs()}
        for name, (source, meaning) in self.names["meanings"].items():
            values = random_externs.MEANINGS[meaning](reference(self.names[source], known)[0])
            known.update(zip(self.names[name].op.outputs, values, strict=True))
        return reference(self.outputs, known)


def poison(tensor: Tensor) -> np.ndarray:
    """What no program here computes, in the place of a result."""
    return np.full([int(e) for e in tensor.shape], np.nan if tensor.dtype.is_float else 113, tensor.dtype.numpy)


def placeholder(program: RandomProgram, shape: tuple[int, ...]) -> str:
    name = program.fresh("A")
    program.do(f"{name} = te.placeholder({shape}, {program.dtype!r}, {name!r})")
    return keep(program, name, shape)


def keep(program: RandomProgram, name: str, shape: tuple[int, ...]) -> str:
    program.tensors.append(name)
    program.extents[name] = shape
    return name


def compute(program: RandomProgram, shape: tuple[int, ...], body: str) -> str:
    """A computation; `body` is in terms of i0, i1 ..."""
    name = program.fresh("T")
    params = "".join(f" i{i}," for i in range(len(shape))).rstrip(",")
    program.do(f"{name} = te.compute({shape}, lambda{params}: {body}, name={name!r})")
    return keep(program, name, shape)


def at(shape: Sequence[Any], **changed: str) -> str:
    """`i0, i1, ...`, with some of them changed: at(shape, i1="i1 + 1")."""
    return ", ".join(changed.get(f"i{i}", f"i{i}") for i in range(len(shape))) or "()"


def dimension(program: RandomProgram, shape: tuple[int, ...], at_least: int = 0) -> int:
    return program.pick([i for i, n in enumerate(shape) if n >= at_least])


def with_extent(shape: tuple[int, ...], d: int, extent: int) -> tuple[int, ...]:
    return (*shape[:d], extent, *shape[d + 1 :])


def draw_type(program: RandomProgram) -> None:
    """The type of all tensors of the program."""
    program.dtype = program.pick(["float32", "float32", "float32", "float16", "bfloat16", "int32", "int8"])


def is_exact(program: RandomProgram, name: str) -> bool:
    """Whether every value on the way to a tensor's elements is a whole number that its type holds."""
    op = program.names[name].op
    return bool(largest_of(op) <= EXACT[program.dtype])


BOUNDS: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
"""Bounds of what operations without a body compute: scans and external ones."""


def largest_of(op: Any) -> float:
    """A bound for the absolute value of what an operation computes, and of all parts of it."""
    if op in BOUNDS:
        return BOUNDS[op]
    return max((largest(value) for value in getattr(op, "body", ())), default=MOST)


@functools.cache
def largest(e: Any) -> float:
    """A bound for the absolute value of an expression and of all parts of it that are of its type."""
    if isinstance(e, (n.IntImm, n.FloatImm)):
        return abs(e.value)
    if isinstance(e, n.Load):
        return largest_of(e.source.op)
    if isinstance(e, n.Var):
        return LARGEST_INDEX
    if isinstance(e, Reduce):  # of those drawn here, a sum is the largest
        count = math.prod(int(axis.dom.extent) for axis in e.axes)
        start = [value for value in map(largest, e.combiner.identity) if value < 127]  # a maximum's is never left
        return max(count * max(map(largest, e.source)), *start, 0)
    if isinstance(e, n.Mul):
        return largest(e.a) * largest(e.b)
    if isinstance(e, (n.Add, n.Sub)):
        return largest(e.a) + largest(e.b)
    values = e.children()[1:] if isinstance(e, (n.Select, n.Call)) else e.children()
    return max(map(largest, values))
