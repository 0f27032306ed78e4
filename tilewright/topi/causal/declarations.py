"""Declarations of causal convolutions and their gradients, for a batch and a length that are known at the call.

`i` counts rows of the batch, `c` channels, `t` times. Times before the first are in the states, or zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.causal import DATA_GRADIENT, FORWARD, Causal
from ...expr.convert import cast, const
from ...expr.intrinsics import TABLE
from ...expr.operators import all_of, any_of, floordiv, floormod, if_then_else, minimum
from ...expr.variables import size_var
from ...loops.declare import decl_buffer
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute, placeholder

At = Callable[[Any, Any, Any], Any]
"""A value of a row, a channel and a time."""
_sigmoid = TABLE["sigmoid"]


class CausalDeclaration:
    """The tensors of a causal convolution: arguments in order, stages that threads keep to themselves, and the result.

    Parameters
    ----------
    of : Causal
    part : tuple of int
        The times of a part of a gradient of the weights: lanes, rounds, and neighbouring times of a lane in a round.
        Lanes have separate sums, and take turns in each round.

    Attributes
    ----------
    arguments : list of Tensor
        The result is the last one.
    binds : dict
        The buffers of arguments with rows that lie apart.
    sizes : dict
        The size variables by name, which follow the tensors among the arguments: in the unit of a vector if rows
        begin at multiples of one.
    windows : list of Tensor
        Copies of elements as threads load them, in the order in which they are needed.
    sums : list of Tensor
        Values that threads compute from the windows.
    parts : Tensor, optional
        Sums of a part of all times each; the result is their sum.
    """

    def __init__(self, of: Causal, part: tuple[int, int, int] = (1, 1, 1)) -> None:
        self.of, self.part = of, part
        self.arguments: list[Tensor] = []
        self.binds: dict[Tensor, Any] = {}
        self.windows: list[Tensor] = []
        self.sums: list[Tensor] = []
        self.parts: Tensor | None = None
        self.sizes: dict[str, Any] = {}
        self.batch = self._size("batch")
        self.length = self._size("length", 1 if of.last else of.together)
        plain = self._plain
        self._grad: Any = self._rows("grad") if of.step != FORWARD else None
        self._x: Any = self._rows("x") if of.reads_x else None
        self._weights = plain((of.channels, of.width), of.weights, "weight") if of.reads_weights else None
        self._bias = plain((of.channels,), of.weights, "bias") if of.bias and of.reads_weights else None
        self._numbers = plain((self.batch, self.length), "int32", "seq_idx") if of.packed else None
        self._states = self._strided((self.batch, of.channels, of.width - 1), "states") if of.states else None
        weights = self._weights
        if weights is not None:
            self._taps = self._sum((of.channels, of.width), lambda c, k: self._as_sum(weights[c, k]), "taps")
        passes = {FORWARD: self._forward, DATA_GRADIENT: self._data_gradient}
        self.result = passes.get(of.step, self._weight_gradient)()
        self.arguments.append(self.result)

    # Arguments

    def _size(self, name: str, multiple: int = 1) -> Any:
        """A number that is known at the call: a multiple of `multiple`."""
        made = self.sizes[name] = size_var(name)
        return made if multiple == 1 else made * multiple

    def _plain(self, shape: Any, dtype: str, name: str) -> Tensor:
        made = placeholder(shape, dtype, name)
        self.arguments.append(made)
        return made

    def _rows(self, name: str) -> Tensor:
        """An argument with the result's shape; its rows begin at multiples of the elements per load."""
        made = self._plain(self._shape(), self.of.dtype, name)
        strides = [self._size(f"{name}_{step}", self.of.together) for step in ("batch", "row")]
        self.binds[made] = decl_buffer(made.shape, made.dtype, name, strides=[*strides, 1])
        return made

    def _strided(self, shape: Any, name: str) -> Tensor:
        made = self._plain(shape, self.of.dtype, name)
        strides = [self._size(f"{name}_{step}") for step in ("batch", "channel", "time")]
        self.binds[made] = decl_buffer(made.shape, made.dtype, name, strides=strides)
        return made

    def _shape(self, more: int = 0) -> tuple[Any, ...]:
        times = self.length + more
        return (self.batch, times, self.of.channels) if self.of.last else (self.batch, self.of.channels, times)

    # Stages

    def _as_sum(self, value: Any) -> Any:
        return cast(self.of.sums, value)

    @property
    def _zero(self) -> Any:
        return const(0.0, self.of.sums)

    def _sum(self, shape: Any, value: Callable[..., Any], name: str) -> Tensor:
        made: Tensor = compute(shape, value, name=name)
        self.sums.append(made)
        return made

    def _over(self, name: str, more: int, value: At) -> At:
        """Values of all channels at all times, and at `more` times behind the last."""
        made = self._sum(self._shape(more), self._in_order(value), name)
        return (lambda i, c, t: made[i, t, c]) if self.of.last else (lambda i, c, t: made[i, c, t])

    def _in_order(self, value: At) -> Callable[..., Any]:
        return (lambda i, t, c: value(i, c, t)) if self.of.last else value

    def _elements(self, name: str, tensor: Tensor, before: int, after: int) -> At:
        """Elements of an argument, in vectors as they lie in memory; `before` them states or zeros, `after` zeros.

        Elements of 16 bits are loaded first and converted then, so that all loads of a thread are under way at once.
        """
        size, of = self.of.together, self.of
        states = self._states if before and tensor is self._x else None
        if of.last:
            shape: tuple[Any, ...] = (self.batch, self.length + (before + after), of.channels)
            value = self._element(tensor, before, after)

            def element(i: Any, t: Any, c: Any) -> Any:
                return value(i, c, t - before, t >= before, t < self.length + before)

            made = self._converted(name, shape, element, lambda i, t, c: (i, c, t - before), states)
            return lambda i, c, t: made[i, t + before, c]
        # A vector is wholly inside or outside, which its conditions show.
        first, end, blocks = -(-before // size), -(-after // size), floordiv(self.length, size)
        shape = (self.batch, of.channels, blocks + (first + end), size)
        value = self._element(tensor, first, end)

        def element_of_block(i: Any, c: Any, q: Any, v: Any) -> Any:
            return value(i, c, (q - first) * size + v, q >= first, q < blocks + first)

        made = self._converted(name, shape, element_of_block, lambda i, c, q, v: (i, c, (q - first) * size + v), states)
        return lambda i, c, t: made[i, c, floordiv(t + first * size, size), floormod(t + first * size, size)]

    def _converted(
        self, name: str, shape: Any, element: Callable[..., Any], place: Callable[..., Any], states: Tensor | None
    ) -> Tensor:
        """A stage of elements in the type of the sums, with states that `place` finds by row, channel and time."""
        raw: Callable[..., Any] = element
        if self.of.dtype in ("float16", "bfloat16"):
            loaded = compute(shape, element, name=f"{name}_loaded")
            self.windows.append(loaded)
            raw = loaded

        def value(*indices: Any) -> Any:
            found = self._as_sum(raw(*indices))
            if states is not None:
                i, c, t = place(*indices)
                row = t + (self.of.width - 1)
                earlier = if_then_else(all_of(row >= 0, t < 0), states[i, c, row], const(0.0, self.of.dtype))
                found += self._as_sum(earlier)
            return found

        made: Tensor = compute(shape, value, name=name)
        self.windows.append(made)
        return made

    def _element(self, tensor: Tensor, before: int, after: int) -> Callable[..., Any]:
        """An element of an argument, or zero; the choice between the two is one that is loaded as a vector."""

        def value(i: Any, c: Any, t: Any, begun: Any, unfinished: Any) -> Any:
            inside = [begun] * bool(before) + [unfinished] * bool(after)
            found = tensor[i, t, c] if self.of.last else tensor[i, c, t]
            return if_then_else(all_of(*inside), found, const(0.0, self.of.dtype)) if inside else found

        return value

    def _sequences(self, before: int, after: int) -> Callable[[Any, Any], Any] | None:
        """The number of the sequence at a time, -1 outside; None if all times are of one sequence."""
        numbers = self._numbers
        if numbers is None:
            return None

        def value(i: Any, t: Any) -> Any:
            inside = all_of(t >= before, t < self.length + before)
            return if_then_else(inside, numbers[i, t - before], const(-1, "int32"))

        made = compute((self.batch, self.length + (before + after)), value, name="numbers")
        self.windows.append(made)
        return lambda i, t: made[i, t + before]

    # Values

    def _sums_before(self, more: int) -> At:
        """The sums before the activation."""
        width, last = self.of.width, self.of.width - 1
        k = reduce_axis((0, width), name="k")
        x, number = self._x_at, self._number

        def products(i: Any, c: Any, t: Any) -> Any:
            product = x(i, c, t + k - last) * self._taps[c, k]
            if number is not None:
                product = if_then_else(number(i, t + k - last).equal(number(i, t)), product, self._zero)
            return reduce_sum(product, axis=k)

        return self._over("products", more, products)

    def _biased(self, sums: At) -> At:
        bias = self._bias
        if bias is None:
            return sums
        offsets = self._sum((self.of.channels,), lambda c: self._as_sum(bias[c]), "offsets")
        return lambda i, c, t: sums(i, c, t) + offsets[c]

    def _forward(self) -> Tensor:
        before = self.of.width - 1
        self._number = self._sequences(before, 0)
        self._x_at = self._elements("window", self._x, before, 0)
        sums = self._biased(self._sums_before(0))

        def value(i: Any, c: Any, t: Any) -> Any:
            found = sums(i, c, t)
            found = found * _sigmoid(found) if self.of.activation else found
            if self._number is not None:
                found = if_then_else(self._number(i, t) >= 0, found, self._zero)
            return cast(self.of.dtype, found)

        made: Tensor = compute(self._shape(), self._in_order(value), name="out")
        return made

    def _gradient_before(self, more: int) -> At:
        """The gradient of the sums before the activation; 0 at `more` times behind the last, and in no sequence."""
        before = self.of.width - 1
        self._number = self._sequences(before, more)
        if self.of.reads_x:
            self._x_at = self._elements("window", self._x, before, more)
        grad = self._elements("gradient", self._grad, 0, more)
        sums = self._biased(self._sums_before(more)) if self.of.activation else None
        if sums is None and self._number is None:
            return grad

        def value(i: Any, c: Any, t: Any) -> Any:
            found = grad(i, c, t)
            if sums is not None:
                part = _sigmoid(sums(i, c, t))
                found = found * part * (1 + sums(i, c, t) * (1 - part))
            if self._number is not None:
                found = if_then_else(self._number(i, t) >= 0, found, self._zero)
            return found

        return self._over("gradient_before", more, value)

    def _data_gradient(self) -> Tensor:
        width, last = self.of.width, self.of.width - 1
        grad = self._gradient_before(last)
        k = reduce_axis((0, width), name="k")

        def products(i: Any, c: Any, t: Any) -> Any:
            product = grad(i, c, t + k) * self._taps[c, last - k]
            if self._number is not None:
                product = if_then_else(self._number(i, t + k).equal(self._number(i, t)), product, self._zero)
            return reduce_sum(product, axis=k)

        sums = self._over("sums", 0, products)
        made: Tensor = compute(
            self._shape(), self._in_order(lambda i, c, t: cast(self.of.dtype, sums(i, c, t))), name="out"
        )
        return made

    def _weight_gradient(self) -> Tensor:
        """Gradients of the weights, and of the bias behind them, as (channels, width + 1).

        They are sums of sums of parts of the times.
        """
        of, (lanes, rounds, run) = self.of, self.part
        grad = self._gradient_before(0)
        times = rounds * lanes * run
        parts = floordiv(self.length + (times - 1), times)
        r, u = reduce_axis((0, rounds), name="r"), reduce_axis((0, run), name="u")

        def products(i: Any, q: Any, k: Any, c: Any, v: Any) -> Any:
            t = q * times + (r * lanes + v) * run + u
            source = t + minimum(k, of.width - 1) - (of.width - 1)
            product = grad(i, c, t) * if_then_else(k < of.width, self._x_at(i, c, source), const(1.0, of.sums))
            if self._number is not None:
                same = any_of(k == of.width, self._number(i, source).equal(self._number(i, t)))
                product = if_then_else(same, product, self._zero)
            return reduce_sum(if_then_else(t < self.length, product, self._zero), axis=[r, u])

        shape = (self.batch, parts, of.width + 1, of.channels, lanes)
        self.parts = made = compute(shape, products, name="parts")
        every = [
            reduce_axis((0, extent), name=name) for extent, name in ((self.batch, "i"), (parts, "q"), (lanes, "v"))
        ]
        i, q, v = every
        total: Tensor = compute(
            (of.channels, of.width + 1), lambda c, k: reduce_sum(made[i, q, k, c, v], axis=every), name="out"
        )
        return total
