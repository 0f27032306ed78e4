"""Transposed convolutions on a CPU: results of one phase in vectors, sums in registers.

Results at positions that differ by a multiple of the stride form a phase: they use the same taps of the window. So the
loop over columns is split into phases, which are unrolled. The tap is then a constant, and a vector reads neighbours.
The padded input is stored first, and so is the window, with zeros if a phase has fewer taps. No sum then has a
condition.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ...expr.operators import floordiv, floormod
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import reduce_axis
from ...tensor.tensor import Tensor, compute
from ...tune.space.config import Config
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from . import elementwise
from .cpu_channels_last import MANY_WEIGHTS, lanes_of_one_group
from .declarations import image_tensor, or_zero, padded_view, same_shape, sum_of_products, within
from .layouts import in_layout
from .processor import VectorRegisters
from .strategy import ScheduleStrategy, plain
from .tensors import Tensors
from .transposed import Transposed, border_of, has_phases, tap_and_place, taps_of
from .workload import sum_dtype

_LANES = (4, 8, 16, 32)
_COLUMNS = (1, 2, 4, 8)
_FILTERS = (1, 2, 4, 8)
"""Candidate lanes per vector, columns and filters, computed together."""
_DEFAULT_LANES = 16
"""Lanes per vector in the default configuration."""
_DEFAULT_SUM_VECTORS = 8
"""Vectors of sums per tile in the default configuration."""


def space(of: Transposed) -> Space:
    """The knobs: columns of a phase, and channels, that are computed together."""
    if not has_phases(of):
        return elementwise.cpu_space(of)
    if of.layout == "NCHW":
        together = [[-1, n] for n in _FILTERS if of.shared_filters % n == 0]
        return Space(
            [value_knob("columns", [*_LANES]), split_knob("tile_f", of.filters, "candidate", candidate=together)]
        )
    fit = {n for n in (*_LANES, lanes_of_one_group(of)) if n <= of.filters} or {of.filters}
    lanes = [[-1, n] for n in sorted(fit)]
    return Space([value_knob("columns", [*_COLUMNS]), split_knob("tile_f", of.filters, "candidate", candidate=lanes)])


def default_choices(of: Transposed, registers: VectorRegisters) -> dict[str, Any]:
    """Choose eight vectors of sums, each of 16 columns of a phase (NCHW) or of 16 channels; fewer if registers are
    few."""
    if not has_phases(of):
        return elementwise.cpu_default_choices(of, registers)
    most = min(_DEFAULT_SUM_VECTORS, registers.room(of.dtype) // _DEFAULT_LANES)
    phases, per_phase = of.stride[1], -(-of.places[1] // of.stride[1])
    if of.layout == "NCHW":
        lanes = next((n for n in _LANES if n >= per_phase), _DEFAULT_LANES)
        filters = next(n for n in reversed(_FILTERS) if of.shared_filters % n == 0 and (n * phases <= most or n == 1))
        return {"columns": min(lanes, _DEFAULT_LANES), "tile_f": [filters]}
    columns = next((n for n in reversed(_COLUMNS) if n * phases <= most and n < 2 * per_phase), 1)
    return {"columns": columns, "tile_f": [lanes_of_one_group(of)]}


def declare(of: Transposed, data: Tensor, weights: Tensor) -> Tensor:
    """Declare the sums without conditions; in NCHW by phases, which the result interleaves."""
    if not has_phases(of):
        return plain(of, data, weights)
    step, per_group, kind = of.stride[1], of.per_group, sum_dtype(of.dtype)
    columns = of.places[1] if of.layout == "NHWC" else -(-of.places[1] // step) * step
    (top, bottom), (left, right) = border_of(of, 0, of.places[0]), border_of(of, 1, columns)
    seen, taps = padded_view(of, data, (top, left, bottom, right), of.dtype, name="bordered"), taps_of(of)
    window = _window(of, weights, taps)
    rc = [reduce_axis((0, per_group), name="rc")] if per_group > 1 else []
    ry, rx = reduce_axis((0, taps[0]), name="ry"), reduce_axis((0, taps[1]), name="rx")

    def term(n: Any, f: Any, y: Any, x: Any) -> Any:
        channel = of.group_of(f)[0] * per_group + (rc[0] if rc else 0)
        down, row = tap_and_place(of, 0, y, ry)
        across, column = tap_and_place(of, 1, x, rx)
        weight = window(f, rc[0] if rc else 0, down, across)
        return sum_of_products(kind, seen(n, channel, row, column), weight, [*rc, ry, rx])

    batch, rows = of.shape[0], of.places[0]
    if of.layout == "NHWC":
        return image_tensor(of.layout, (batch, of.filters, rows, columns), term, "sums", "conv_transpose")
    phases = compute(
        (batch, of.filters, rows, step, columns // step),
        lambda n, f, y, phase, place: term(n, f, y, place * step + phase),
        "phases",
        "conv_transpose",
    )
    beside: Tensor = compute(
        of.out_shape, lambda n, f, y, x: phases(n, f, y, floormod(x, step), floordiv(x, step)), "sums", "conv_transpose"
    )
    return beside


def _window(of: Transposed, weights: Tensor, taps: tuple[int, int]) -> Any:
    """Return a function that reads the window at (filter, channel of a group, row, column), and zero beyond its last
    tap."""
    per_group, last = of.per_group, of.layout == "NHWC"
    rows, columns = (count * step for count, step in zip(taps, of.stride, strict=True))

    def value(f: Any, rc: Any, ry: Any, rx: Any) -> Any:
        group, of_group = of.group_of(f)
        inside = within((ry, 0, of.kernel[0], rows), (rx, 0, of.kernel[1], columns))
        return or_zero(inside, weights(group * per_group + rc, of_group, ry, rx), of.dtype)

    if last:
        turned = compute((per_group, rows, columns, of.filters), lambda rc, ry, rx, f: value(f, rc, ry, rx), "turned")
        return lambda f, rc, ry, rx: turned(rc, ry, rx, f)
    if (rows, columns) == of.kernel:
        return value
    whole = compute((of.filters, per_group, rows, columns), value, "turned")
    return lambda f, rc, ry, rx: whole(f, rc, ry, rx)


def schedule(of: Transposed, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Compute tiles of columns and channels in registers, and rows on all processors."""
    if not has_phases(of):
        elementwise.cpu_schedule(of, config, s, t)
    elif of.layout == "NHWC":
        _channels_last(of, config, s, t)
    else:
        _phases_apart(of, config, s, t)


def _prepared(of: Transposed, s: ScheduleHandle, sums: Tensor, lanes: int) -> None:
    """Store the padded input, if there is a border, and the window."""
    for tensor in sums.op.input_tensors:
        if tensor.op.name == "bordered" and same_shape(s[tensor].op.output(0), in_layout(of.layout, of.shape)):
            s[tensor].compute_inline()
        elif tensor.op.name == "bordered":
            outer = list(s[tensor].op.axis)[:2]
            s[tensor].parallel(s[tensor].fuse(*outer))
        elif tensor.op.name == "turned":
            *outer, inner = tensor.op.axis
            if prod(of.weights_shape) > MANY_WEIGHTS:
                s[tensor].parallel(s[tensor].fuse(*outer))
            if lanes:
                s[tensor].vectorize(s[tensor].split(inner, factor=lanes)[1])


def _channels_last(of: Transposed, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    out, sums, columns = t.out, t.in_registers(s), config["columns"].val * of.stride[1]
    s[sums].round_up((s[sums].op.axis[2], columns))
    _prepared(of, s, t.sums, config["tile_f"].size[-1])
    n, y, x, c = out.op.axis
    xo, xi = s[out].split(x, factor=columns)
    co, ci = config["tile_f"].apply(s, out, c)
    s[out].reorder(n, y, xo, co, xi, ci)
    s[out].vectorize(ci)
    s[out].parallel(s[out].fuse(n, y))
    s[sums].compute_at(s[out], co)
    n, y, x, c = s[sums].op.axis
    s[sums].reorder(*s[sums].op.reduce_axis, n, y, x, c)
    s[sums].unroll(x)
    s[sums].vectorize(c)


def _phases_apart(of: Transposed, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    phases = t.sums.op.input_tensors[0]
    s[phases].round_up((phases.op.axis[-1], config["columns"].val))
    _prepared(of, s, phases, 0)
    if t.sums is not t.out:
        s[t.sums].compute_inline()
    s[phases].set_scope("local")
    out = t.out
    n, f, y, x = out.op.axis
    fo, fi = config["tile_f"].apply(s, out, f)
    xo, xi = s[out].split(x, factor=config["columns"].val * of.stride[1])
    s[out].reorder(n, fo, y, xo, fi, xi)
    s[out].vectorize(xi)
    s[out].parallel(s[out].fuse(n, fo, y))
    s[phases].compute_at(s[out], xo)
    n, f, y, phase, place = s[phases].op.axis
    s[phases].reorder(*s[phases].op.reduce_axis, n, y, f, phase, place)
    for axis in (f, phase):
        s[phases].unroll(axis)
    s[phases].vectorize(place)


ON_CPU: ScheduleStrategy[Any] = ScheduleStrategy(space, schedule, default_choices, declare=declare)
