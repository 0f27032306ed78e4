"""The workloads of packaged templates: convolutions of one size, with checks, declarations, and results by NumPy.

Options accept short forms: an int stands for every side, and `padding` may be a word. Fields are canonical, so that two
spellings of the same options are one workload in a log.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from difflib import get_close_matches
from math import prod
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from ...core.dtype import DType
from ...core.errors import UserError
from ...core.padding import TEMPLATE_WORDS, centred, padding_of
from ...core.windows import padded
from ...tensor.tensor import Tensor
from .epilogue import Expression, finish
from .layouts import LAYOUTS

DTYPES = ("float32", "float64", "float16", "bfloat16")
_DEFAULT_OPTIONS = {
    "dilation": (1, 1), "groups": 1, "multiplier": 1, "layout": LAYOUTS[0], "weights": "OIHW", "output_padding": (0, 0),
    "beyond": (0, 0), "divisor": 0, "bias": False, "wide": False, "activation": "",
}  # fmt: skip
"""Values of options that descriptions leave out: the defaults of all workloads."""
INTEGERS = ("int8", "uint8")
"""Element types with int32 sums and results, in convolutions and matrix products."""


@dataclass(frozen=True)
class Convolution(ABC):
    """One convolution: `shape` of the input, `kernel` sizes of the window, `padding` with the zeros before, then
    after."""

    name: ClassVar[str]
    """The operator's name for users."""

    shape: tuple[int, ...]

    @property
    def args(self) -> tuple[Any, ...]:
        """The fields in order, which are the arguments of the template in logs.

        The default layout is left out, since the first logs had no other; `backwards` is always left out.
        """
        given = tuple(getattr(self, field.name) for field in fields(self) if field.name != "backwards")
        return given[:-1] if given[-1] == LAYOUTS[0] else given

    @classmethod
    @abstractmethod
    def of(cls, *args: Any, **options: Any) -> Self:
        """The workload of the options; raises UserError if they are invalid."""

    def declare(self) -> tuple[Tensor, Tensor, Tensor]:
        """Fresh tensors: data, weights, result."""
        data, weights = self.placeholders()
        return data, weights, finish(self.sums(data, self.kernels_in(weights)), self.result, self.expression)

    @abstractmethod
    def placeholders(self) -> tuple[Tensor, Tensor]:
        """Fresh tensors: data and weights."""

    def kernels_in(self, weights: Tensor) -> Tensor:
        """Return the weights that `sums` multiplies by: a view of the given weights, or the weights themselves."""
        return weights

    @abstractmethod
    def sums(self, data: Tensor, weights: Tensor) -> Tensor:
        """Return the plain declaration of the convolution, in the type of the sums."""

    @property
    def expression(self) -> Expression | None:
        """The expression that computes a result from its sum; None if the result is the sum."""
        return None

    @property
    def options(self) -> dict[str, Any]:
        """The options of `of` that create the workload, in short forms and without default values."""
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "backwards"}
        found = {
            name: value
            for name, value in given.items()
            if name not in _DEFAULT_OPTIONS or value != _DEFAULT_OPTIONS[name]
        }
        return found | ({"padding": short_padding(found["padding"])} if "padding" in found else {})

    @property
    @abstractmethod
    def terms(self) -> int:
        """The number of products per sum."""

    @property
    @abstractmethod
    def out_shape(self) -> tuple[int, ...]:
        """The shape of the result."""

    @property
    @abstractmethod
    def element(self) -> str:
        """The type of data and weights."""

    @property
    def result(self) -> str:
        """The type of the result: that of data and weights, or int32 for integers."""
        return "int32" if self.element in INTEGERS else self.element

    @property
    def accumulator(self) -> str:
        """The type in which products are summed."""
        return sum_dtype(self.element)

    @property
    def channels(self) -> int:
        """The number of channels of the result."""
        return 1

    @property
    def channel_axis(self) -> int | None:
        """The result's dimension of channels; None if there is one channel and no such dimension."""
        return None

    def inputs(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Data and weights of both signs, so that a wrong sign or a lost term cannot hide."""
        shapes = [[int(str(extent)) for extent in tensor.shape] for tensor in self.placeholders()]
        if self.element in INTEGERS:
            limits = np.iinfo(self.element)
            data, weights = (rng.integers(limits.min, limits.max + 1, s).astype(self.element) for s in shapes)
        else:
            data, weights = (rng.uniform(-1, 1, s).astype(DType(self.element).numpy) for s in shapes)
        return data, weights

    @abstractmethod
    def numpy(self, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The result by NumPy, in the type of the data."""

    def sample(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Random data and weights, and the result in float64: the reference of candidates."""
        given = self.inputs(np.random.default_rng())
        return [*given], [self.numpy(*(values.astype(np.float64) for values in given))]

    def torch(self, data: Any, weights: Any) -> list[tuple[str, Callable[[], Any]]]:
        """Return PyTorch's implementations on two tensors, which benchmarks time: pairs of a name and a call."""
        return []

    @property
    def flop(self) -> float:
        """Floating-point operations of one run: a product and a sum per term."""
        return 2.0 * self.terms * prod(self.out_shape)

    @property
    def shortest(self) -> dict[str, Any]:
        """The options that identify the workload. A single int stands for equal sides."""
        found = {
            name: value[0]
            if isinstance(value, tuple) and (name != "shape" or len(value) == 1) and len(set(value)) == 1
            else value
            for name, value in self.options.items()
        }
        for name in [name for name in found if name != "shape"]:
            fewer = {key: value for key, value in found.items() if key != name}
            with suppress(UserError):  # without it, the window may not fit
                found = fewer if type(self).of(**fewer) == self else found
        return found

    @property
    def title(self) -> str:
        """The workload in a line: "conv2d  shape 1x512x7x7  filters 512  kernel 3x3 ..."."""
        return "  ".join([self.name, *(f"{key} {written(value)}" for key, value in self.options.items())])


def written(value: Any) -> str:
    """Return an option's value as written on the command line: 3x3 for a pair."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


# Checking, on the way to canonical values. Every message begins with the option at fault; `who` is the operator.


def sizes(who: str, option: str, value: Any, count: int, least: int = 1) -> tuple[int, ...]:
    """Return `value` as `count` ints; a single int stands for all of them. UserError for anything else."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if len(given) != count or not _all_ints(given, least):
        what = "a whole number" if count == 1 else f"a whole number, or {count} of them,"
        raise UserError(
            f"{option} {written(value)} is not {what} of at least {least}",
            primitive=who,
            fix="say 3" if count == 1 else f"say 3, for all {count} sides, or {written((3, 5, 3, 5)[:count])}",
        )
    return given


def shape_of(who: str, value: Any, letters: str) -> tuple[int, ...]:
    """Return the input's shape, one size per letter."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(given) != len(letters) or not _all_ints(given, 1):
        meaning = {"NCHW": "batch x channels x height x width: say 1x64x56x56", "M": "one length: say 16384",
                   "MK": "rows x depth: say 64x1024", "BMK": "batch x rows x depth: say 12x197x64"}  # fmt: skip
        what = "x".join(letters) if len(letters) > 1 else "a length"
        raise UserError(
            f"shape {written(value)} is not {what}", primitive=who, fix=f"give {meaning[letters]} (each at least 1)"
        )
    return given


def _all_ints(given: tuple[Any, ...], least: int) -> bool:
    return all(isinstance(v, int) and not isinstance(v, bool) and v >= least for v in given)


def border(who: str, padding: Any, covered: tuple[int, ...], stride: tuple[int, ...]) -> tuple[int, ...]:
    """Return the zeros before each side and then after each; by default, the zeros of "same" at stride 1."""
    return centred(covered) if padding is None else padding_of(who, padding, covered, stride, TEMPLATE_WORDS)


def check_fits(who: str, sizes: tuple[int, ...], covered: tuple[int, ...], padding: tuple[int, ...]) -> None:
    """Raise UserError if the window does not fit into the padded input."""
    whole = padded(sizes, padding)
    if any(c > p for c, p in zip(covered, whole, strict=True)):
        raise UserError(
            f"kernel {written(covered)} is larger than the padded input, {written(whole)}",
            primitive=who,
            fix="give a smaller kernel (or dilation), or more padding",
        )


def dtype_of(who: str, dtype: str, further: tuple[str, ...] = ()) -> str:
    """Return the element type, one of `DTYPES` and `further`; raises UserError if templates do not cover it."""
    if dtype not in (*DTYPES, *further):
        known = ", ".join((*DTYPES, *further))
        raise UserError(f"dtype {dtype} is not covered", primitive=who, fix=f"give {known}")
    return dtype


def sum_dtype(dtype: str) -> str:
    """Return the type of sums of products: float32 for 16-bit floats, int32 for integers."""
    if dtype in INTEGERS:
        return "int32"
    return "float64" if dtype == "float64" else "float32"


def short_padding(padding: tuple[int, ...]) -> tuple[int, ...]:
    """Return a padding without its second half if both halves are equal."""
    half = len(padding) // 2
    return padding[:half] if padding[:half] == padding[half:] else padding


W = TypeVar("W", bound=Convolution)


def of_options(kind: type[W], options: Mapping[str, Any]) -> W:
    """Return the workload of `options`; raise UserError for an unknown option or a wrong value."""
    make: Any = kind.of  # each kind has its own options
    known = list(inspect.signature(make).parameters)
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None or "shape" not in options:
        near = get_close_matches(unknown or "", known, 1)
        raise UserError(
            "the option shape is missing" if unknown is None else f"there is no option {unknown!r}",
            primitive=kind.name,
            fix=f"did you mean {near[0]}?" if near else f"the options are {', '.join(known)}",
        )
    made: W = make(**options)
    return made
