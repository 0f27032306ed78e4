"""Check the calls of users, and convert them to the form that all other modules use.

The names, the shapes of weights and the meaning of every option are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.errors import UserError
from ...core.padding import PYTORCH_WORDS, is_int, padding_of
from ...core.precision import PRECISIONS
from ...core.text import quantity
from ...core.windows import extents, padded, reach_beyond
from ...runtime.argument_checks import flag
from .call import OPERATORS, CallOptions, Operator, is_left_out
from .problem import AVG_POOL, CONV, POOLS, TRANSPOSES, WEIGHT_GRADIENT, Problem

FLOATS = ("float16", "bfloat16", "float32", "float64")
ACTIVATIONS = (
    *("relu", "relu6", "silu", "gelu", "gelu_tanh", "sigmoid", "hardswish"),
    *("tanh", "leaky_relu", "elu", "mish", "hardtanh", "softplus"),
)
"""Names of activations, each with PyTorch's default parameters."""
GRADIENT = "_gradient"
"""The suffix of an activation's name for its backward step, which reads the gradient as the residual."""


_WIDEST_PADDING = 2**30
"""The most zeros on one side: kernels compute sizes as 32-bit integers."""


class ArrayProperties(NamedTuple):
    """The properties of an array that a call needs: shape, type and device.

    With `channels_last`, an array of shape NCHW, NCW, CHW or CW has the channels after the spatial dimensions in
    memory. For the input, this applies to the result.
    """

    shape: tuple[int, ...]
    dtype: str
    device: tuple[str, int]
    channels_last: bool = False


class Arrays(NamedTuple):
    """The properties of a call's arrays; None for an array that is not given.

    For a weight gradient, `weight` describes the gradient of the layer's result.
    """

    x: ArrayProperties
    weight: ArrayProperties | None = None
    bias: ArrayProperties | None = None
    residual: ArrayProperties | None = None
    out: ArrayProperties | None = None


class Signature(NamedTuple):
    """A checked call: the problem, and the shape of the result in the layout of the call."""

    problem: Problem
    shape: tuple[int, ...]
    order: tuple[int, ...]
    """The memory order of the result's dimensions, outermost first; () for the order of the shape."""
    images: tuple[int, ...]
    """The order in memory of the input, of a residual, and of the gradient of a layer's result.

    It may be () for another `order` of the result if both orders have the same memory: if only strides of extents of 1
    differ.
    """


def channels_last_order(dims: int, rank: int) -> tuple[int, ...]:
    """Return the memory order, channels last, of an array with `rank` spatial dimensions after the channels."""
    channels = dims - rank - 1
    return (*range(channels), *range(channels + 1, dims), channels)


def signature(name: str, arrays: Arrays, options: CallOptions, activation: str = "") -> Signature:
    """Check a call and infer the shape of its result.

    Parameters
    ----------
    name : str
        The public function, such as "conv2d".
    arrays : Arrays
        The properties of its arrays.
    options : CallOptions
        Its options as given.
    activation : str
        The activation in the form of `Problem.activation`.

    Raises
    ------
    UserError
        If an argument does not fit; the message names it.
    """
    return _Reader(OPERATORS[name], arrays, options, activation).read()


class _Reader:
    """Checks and converts one call."""

    def __init__(self, operator: Operator, arrays: Arrays, options: CallOptions, activation: str) -> None:
        self.operator = operator
        self.name = operator.name
        self.arrays = arrays
        self.options = options
        self.activation = activation
        self.order = self._layout()

    def wrong(self, message: str, fix: str) -> UserError:
        return UserError(message, primitive=self.name, fix=fix)

    def read(self) -> Signature:
        x = self.arrays.x
        if x.dtype not in FLOATS:
            raise self.wrong(f"x has the type {x.dtype}", f"convert it to one of {', '.join(FLOATS)}")
        rank = self.operator.rank
        batched = len(x.shape) == rank + 2
        if not batched and len(x.shape) != rank + 1:
            raise self.wrong(
                f"x has {quantity(len(x.shape), 'dimension')}: its shape is {x.shape}",
                f"give it {rank + 2} dimensions, in the order {self.order}",
            )
        shape = self._canonical(x.shape if batched else (1, *x.shape))
        if any(size < 1 for size in shape[1:]):  # not `min(...) < 1`: a trace would record which size is the smallest
            raise self.wrong(
                f"x has the shape {x.shape}; only the batch may be empty",
                "give every other dimension at least one element",
            )
        problem = self._problem(shape)
        places = problem.places
        if any(place < 1 for place in places):
            if problem.op in TRANSPOSES:
                raise self.wrong(f"the result would have the size {_by(places[-rank:])}", "give a smaller padding")
            raise self.wrong(
                f"a window of {_by(problem.covered)} is larger than the padded input, "
                f"{_by(padded(shape[2:], problem.padding))}",
                "pad more, or use a smaller kernel or dilation",
            )
        out = self._in_order(problem.out_shape)
        out = out if batched else out[1:]
        order = channels_last_order(len(out), rank) if self._turns else ()
        images = order if problem.layout == "NHWC" else ()
        if self.operator.op == WEIGHT_GRADIENT:
            assert self.arrays.weight is not None
            self._same(self.arrays.weight, "the gradient of the result", out)
            filters, per_group, *taps = problem.weights_shape
            made = problem.made_shape if problem.bias else (filters, per_group, *taps[-rank:])
            return Signature(problem, made, (), images)
        if self.arrays.residual is not None:
            self._same(self.arrays.residual, "residual", out)
        elif self.activation.endswith(GRADIENT):
            raise self.wrong(f"{self.activation} needs a residual", "give the gradient of the result as the residual")
        if self.arrays.out is not None:
            self._same(self.arrays.out, "out", out)
        return Signature(problem, out, order, images)

    # Layouts

    @property
    def _turns(self) -> bool:
        """Whether the channels lie behind the spatial dimensions in memory, and in front of them in the shape."""
        return self.arrays.x.channels_last and not self.order.endswith("C")

    def _layout(self) -> str:
        usual = "NCHW" if self.operator.rank == 2 else "NCW"
        known = ("NCHW", "NHWC") if self.operator.rank == 2 else ("NCW", "NWC")
        given = self.options.layout
        if given is None:
            return usual
        if given not in known:
            raise self.wrong(f"layout is {given!r}", f"give {known[0]!r} or {known[1]!r}")
        return str(given)

    def _canonical(self, shape: Sequence[int]) -> tuple[int, int, int, int]:
        """Return batch, channels, height and width of a shape in the call's layout."""
        sizes = dict(zip(self.order, shape, strict=True))
        return sizes["N"], sizes["C"], sizes.get("H", 1), sizes["W"]

    def _in_order(self, shape: Sequence[int]) -> tuple[int, ...]:
        sizes = dict(zip("NCHW", shape, strict=True))
        return tuple(sizes[letter] for letter in self.order)

    # Options

    def _problem(self, shape: tuple[int, int, int, int]) -> Problem:
        given, operator = self.options, self.operator
        by_size = operator.op in POOLS or operator.op == WEIGHT_GRADIENT
        filters, kernel, groups = self._window(shape[1]) if by_size else self._weights(shape[1])
        stride = self._pair("stride", kernel if operator.op in POOLS and is_left_out(given.stride) else given.stride, 1)
        dilation = self._pair("dilation", given.dilation, 1)
        covered = extents(kernel, dilation)
        padding = self._padding(covered, stride)
        reach = self._reach(shape, kernel, covered, stride, padding) if operator.op in POOLS else (0, 0)
        more = self._pair("output_padding", given.output_padding, 0) if operator.op in TRANSPOSES else (0, 0)
        if any(m >= max(s, d) for m, s, d in zip(more, stride, dilation, strict=True)):
            raise self.wrong(
                f"output_padding {_by(more)} reaches the stride {_by(stride)} and the dilation {_by(dilation)}",
                "give a smaller output_padding",
            )
        last = self._turns or self.order.endswith("C")
        whole = (*padding[:2], padding[2] + reach[0], padding[3] + reach[1])
        made = Problem(
            operator.op, shape, filters, kernel, stride, whole, dilation, groups, self.arrays.x.dtype,
            "NHWC" if last else "NCHW", self.arrays.bias is not None or given.biased, self.arrays.residual is not None,
            self.activation, more, precision=self._precision(), wide=given.wide,
        )  # fmt: skip
        if operator.op == AVG_POOL:
            made = made._replace(**self._divisor(reach))
        if self._turns and all(1 in (shape[1], shape[2] * shape[3]) for shape in (made.shape, made.out_shape)):
            made = made._replace(layout="NCHW")
        weight, on_gpu = self.arrays.weight, self.arrays.x.device[0] == "cuda"
        return made.with_filters_last if on_gpu and weight is not None and weight.channels_last else made

    def _divisor(self, reach: tuple[int, int]) -> dict[str, Any]:
        """Return the fields of the problem that define an average's divisor."""
        counts, divisor = self._flag("count_include_pad"), self.options.divisor_override
        if divisor is not None and (not is_int(divisor) or divisor == 0):
            raise self.wrong(f"divisor_override is {divisor!r}", "give an int other than 0, or None")
        if divisor is not None:
            return {"divisor": int(divisor)}
        return {"count_border": counts, "beyond": reach if counts else (0, 0)}

    def _precision(self) -> str:
        """Return the requested precision, which applies to float32 only."""
        given = self.options.precision
        if not isinstance(given, str) or given not in PRECISIONS:
            raise self.wrong(f"precision is {given!r}", f"give one of {', '.join(map(repr, PRECISIONS))}")
        return given if self.arrays.x.dtype == "float32" else "fp32"

    def _weights(self, channels: int) -> tuple[int, tuple[int, int], int]:
        """Return filters, kernel and groups from the weight, after checks of weight and bias."""
        weight, rank = self.arrays.weight, self.operator.rank
        if weight is None or len(weight.shape) != rank + 2:
            got = "not given" if weight is None else f"of shape {weight.shape}"
            raise self.wrong(f"the weight is {got}", f"give it {rank + 2} dimensions, as PyTorch has it")
        self._agrees(weight, "weight")
        first, second, *taps = weight.shape
        kernel = (1, taps[0]) if rank == 1 else (taps[0], taps[1])
        sides = "length" if rank == 1 else "rows, columns"
        if any(size < 1 for size in weight.shape):
            raise self.wrong(f"the weight has the shape {weight.shape}", "give at least one element in each dimension")
        groups = self._groups(channels)
        if self.operator.op in TRANSPOSES:
            filters, fits = second * groups, first == channels and channels % groups == 0
            want = f"({channels}, filters{'' if groups == 1 else f' / {groups}'}, {sides})"
        elif self.operator.depthwise:
            filters = first * second
            fits = filters % channels == 0 and (second == 1 or first == channels)
            want = f"({channels} x multiplier, 1, {sides})"
        else:
            filters, fits = first, channels % groups == 0 and first % groups == 0 and second * groups == channels
            want = f"(filters, {channels // groups}, {sides})"
            want += "" if groups == 1 else f", with filters a multiple of {groups}"
        if channels % groups:
            raise self.wrong(
                f"groups is {groups}, which does not divide the {quantity(channels, 'channel')} of x",
                f"give a divisor of {channels}",
            )
        if not fits:
            raise self.wrong(
                f"a weight of shape {weight.shape} does not fit {quantity(channels, 'channel')} in "
                f"{quantity(groups, 'group')}",
                self._other_reading(weight.shape, channels, groups, want),
            )
        if self.arrays.bias is not None:
            self._same(self.arrays.bias, "bias", (filters,))
        return filters, kernel, groups

    def _groups(self, channels: int) -> int:
        """Return the number of groups; a depthwise convolution has as many as channels."""
        given = self.options.groups
        if not self.operator.depthwise:
            return self._count("groups", given)
        if given is not None and (not is_int(given) or given != channels):
            raise self.wrong(
                f"groups is {given!r}, and x has {quantity(channels, 'channel')}",
                f"leave groups out, or give {channels}; tilewright.conv2d computes other groups",
            )
        return channels

    def _other_reading(self, shape: tuple[int, ...], channels: int, groups: int, want: str) -> str:
        """Return the fix for a weight of a wrong shape: a number of groups, or an order, that would fit."""
        first, second, *_ = shape
        if self.operator.op == CONV and not self.operator.depthwise:
            if channels % second == 0 and first % (channels // second) == 0:
                return f"pass groups={channels // second}, which this weight fits, or a weight of shape {want}"
            if groups == 1 and second != channels == first:
                return "exchange its first two dimensions: PyTorch's order is (filters, channels, ...)"
        theirs = shape[-2] * groups == channels and first <= shape[-1]  # rows are fewer than filters
        if theirs or (shape[-2], shape[-1]) == (channels, 1):
            return "transpose it: PyTorch's order is (filters, channels, ...), and this looks like TensorFlow's"
        return f"give a weight of shape {want}"

    def _window(self, channels: int) -> tuple[int, tuple[int, int], int]:
        if self.options.kernel_size is None:
            raise self.wrong("there is no kernel_size", "give one, such as 2")
        check_no_indices(self.name, self.options)
        kernel = self._pair("kernel_size", self.options.kernel_size, 1)
        if self.operator.op in POOLS:
            return channels, kernel, channels
        grad = self.arrays.weight
        assert grad is not None
        batched = len(grad.shape) == len(self.order)
        return self._canonical(grad.shape if batched else (1, *grad.shape))[1], kernel, self._groups(channels)

    def _padding(self, covered: tuple[int, ...], stride: tuple[int, int]) -> tuple[int, int, int, int]:
        given, rank = self.options.padding, self.operator.rank
        words = PYTORCH_WORDS if self.operator.op == CONV else ("valid",)
        each = padding_of(self.name, given, covered[-rank:], stride, words)
        if any(p > _WIDEST_PADDING for p in each):
            raise self.wrong(f"padding is {given!r}", f"give at most {_WIDEST_PADDING:,} on a side")
        return (each[0], each[1], each[2], each[3]) if rank == 2 else (0, each[0], 0, each[1])

    def _reach(
        self,
        shape: tuple[int, ...],
        kernel: tuple[int, int],
        covered: tuple[int, ...],
        stride: tuple[int, int],
        padding: tuple[int, ...],
    ) -> tuple[int, int]:
        """Check the padding of a pooling; return the rows and columns that `ceil_mode` needs beyond the padding."""
        if any(2 * p > k for p, k in zip(padding, (*kernel, *kernel), strict=True)):
            raise self.wrong(
                f"padding {_by(padding)} is more than half of the kernel {_by(kernel)}",
                "give less: a window must see the input",
            )
        if not self._flag("ceil_mode"):
            return 0, 0
        sides = zip(shape[2:], padding[:2], padding[2:], covered, stride, strict=True)
        below, behind = (reach_beyond(*side) for side in sides)
        return below, behind

    def _flag(self, option: str) -> bool:
        return flag(getattr(self.options, option), option, self.name, optional=False)

    def _pair(self, option: str, value: Any, least: int) -> tuple[int, int]:
        rank = self.operator.rank
        each = (value,) * rank if is_int(value) else tuple(value) if isinstance(value, (tuple, list)) else ()
        if len(each) == 1 and rank == 2:
            each *= 2
        if len(each) != rank or not all(is_int(v) and v >= least for v in each):
            what = "an int" if rank == 1 else "an int or a pair"
            raise self.wrong(f"{option} is {value!r}", f"give {what} of at least {least}")
        if rank == 1:
            return ({"output_padding": 0}.get(option, 1), int(each[0]))
        return int(each[0]), int(each[1])

    def _count(self, option: str, value: Any) -> int:
        if not is_int(value) or value < 1:
            raise self.wrong(f"{option} is {value!r}", "give an int of at least 1")
        return int(value)

    def _same(self, array: ArrayProperties, what: str, shape: tuple[int, ...]) -> None:
        self._agrees(array, what)
        if tuple(array.shape) != shape:
            raise self.wrong(f"{what} has the shape {tuple(array.shape)}", f"give it the shape {shape}")

    def _agrees(self, array: ArrayProperties, what: str) -> None:
        x = self.arrays.x
        if array.dtype != x.dtype:
            raise self.wrong(f"{what} has the type {array.dtype}, and x has {x.dtype}", f"convert {what} to {x.dtype}")
        if array.device != x.device:
            raise self.wrong(
                f"{what} is on {_place(array.device)}, and x is on {_place(x.device)}",
                f"move {what} to the device of x",
            )


def check_no_indices(name: str, options: CallOptions) -> None:
    """Raise UserError for a pooling with `return_indices`."""
    if flag(options.return_indices, "return_indices", name, optional=False):
        raise UserError(
            "return_indices is True, and no indices are computed",
            primitive=name,
            fix="call torch.nn.functional.max_pool2d for them",
        )


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _place(device: tuple[str, int]) -> str:
    return device[0] if device[0] == "cpu" or device[1] < 0 else f"{device[0]}:{device[1]}"
