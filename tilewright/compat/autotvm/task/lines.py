"""The template of the legacy task "conv1d_ncw.cuda": one-dimensional convolutions of channels, on grids of threads."""

from __future__ import annotations

from typing import Any

from ....core.errors import UserError
from ....schedule.handle import create_schedule
from ....tensor.tensor import Tensor
from ....topi.argument_checks import sizes
from ....topi.nn.conv1d import conv1d_ncw
from ....topi.templates.schedule_helpers import bind_all, fetch_together, set_unrolling
from ....tune.space.config import Config
from ....tune.space.knobs import split_knob, value_knob
from ....tune.space.space import Space
from ....tune.task import Program, PureTemplate

_NAME = "conv1d_ncw.cuda"


def _declared(
    data: Any, kernel: Any, strides: Any = 1, padding: Any = "VALID", dilation: Any = 1, out_dtype: Any = None
) -> Tensor:
    """The convolution of a task's arguments."""
    if not isinstance(data, Tensor) or not isinstance(kernel, Tensor):
        raise UserError(
            f"{data!r} and {kernel!r} are not tensors",
            primitive="task.create",
            fix="give args=(data, kernel, strides, padding, dilation, out_dtype)",
        )
    return conv1d_ncw(data, kernel, strides, padding, dilation, out_dtype)


def space(*args: Any) -> Space:
    """The knobs: tiles of filters and of places, and how many channels are fetched at a time."""
    out = _declared(*args)
    _, filters, places = sizes(out, [0, 1, 2], "task.create")
    (channels,) = sizes(args[1], [1], "task.create")
    return Space(
        [
            split_knob("tile_f", filters, num_outputs=4),
            split_knob("tile_x", places, num_outputs=4),
            split_knob("tile_rc", channels, num_outputs=2),
            value_knob("auto_unroll_max_step", [64, 512, 1500]),
            value_knob("unroll_explicit", [0, 1]),
        ]
    )


def build(config: Config, *args: Any) -> Program:
    """Blocks of filters and places; their sums in registers, their tiles of data and kernels in shared memory."""
    out = _declared(*args)
    s = create_schedule(out.op)
    padded, kernel = out.op.input_tensors
    s[padded].compute_inline()
    sums = s.cache_write(out, "local")
    tiles = [s.cache_read(t, "shared", [sums]) for t in (padded, kernel)]

    n, f, x = s[out].op.axis
    root, n = s[out].split(n, nparts=1)
    bf, vf, tf, fi = config["tile_f"].apply(s, out, f)
    bx, vx, tx, xi = config["tile_x"].apply(s, out, x)
    s[out].reorder(n, bf, bx, vf, vx, tf, tx, fi, xi)
    bind_all(s, out, (n, bf, bx), ("blockIdx.z", "blockIdx.y", "blockIdx.x"))
    bind_all(s, out, (vf, vx, tf, tx), ("vthread", "vthread", "threadIdx.y", "threadIdx.x"))
    set_unrolling(s, out, root, config["auto_unroll_max_step"].val, config["unroll_explicit"].val)

    s[sums].compute_at(s[out], tx)
    rc, rx = s[sums].op.reduce_axis
    rco, rci = config["tile_rc"].apply(s, sums, rc)
    s[sums].reorder(rco, rci, rx, *s[sums].op.axis)
    for tile in tiles:
        s[tile].compute_at(s[sums], rco)
        threads = [("threadIdx.y", config["tile_f"].size[2]), ("threadIdx.x", config["tile_x"].size[2])]
        fetch_together(s, tile, threads)
    return s, [*args[:2], out]


LINES = PureTemplate(_NAME, space, build)
