"""The backward pass of a depthwise layer along lines, by statements: every thread keeps all its windows in registers.

With channels last, a thread walks along a stretch of a line with a few neighbouring channels: each input and each
gradient is loaded once. Otherwise neighbouring threads have neighbouring tiles of a line, and a thread computes its
tile for several images. Every thread has sums of its own for the weights and the bias; a second kernel adds them in a
fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, gcd, prod
from typing import Any

from ...core.divisors import divisors
from ...core.target import Target
from ...core.windows import is_short
from ...expr.convert import cast, const
from ...expr.operators import all_of, floordiv, floormod, if_then_else, logical_and, select
from ...schedule.handle import ScheduleHandle, create_schedule
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ...tune.model.machine import REFERENCE, Machine
from ...tune.space.config import Config
from ...tune.space.knobs import value_knob
from ...tune.space.space import Space
from ...tune.task import Program
from ..statements import StatementBuilder, computed_by
from .backward import Backward
from .epilogue import GRADIENTS, NO_EPILOGUE, Epilogue, finish
from .layouts import LAYOUTS
from .needs import Needs
from .schedule_helpers import add_parts, bind_all, widest_vector
from .strategy import ScheduleStrategy
from .template import PackagedTemplate
from .tensors import Tensors
from .thread_tiles import BYTES
from .workload import DTYPES, sum_dtype

_STRETCH_POSITIONS = (32, 64, 128, 256, 512)
"""Candidate numbers of positions per thread, with channels last."""
_CHANNELS = (1, 2, 4)
"""Candidate numbers of channels per thread, with channels last."""
_UNROLLED_POSITIONS = (4, 8, 16, 32)
"""Candidate numbers of positions per iteration of the unrolled code."""
_WARP = REFERENCE.hardware.warp
_ADDING_THREADS = 8
"""Threads that add the parts of one sum."""
_MOST_FEW_TAPS = 4
_BLOCK_THREADS = 128
_RESIDENT_THREADS = 1024
"""The number of threads of a multiprocessor for which the registers of a walk suffice."""


def computes(of: Backward, machine: Any) -> bool:
    """Return whether images are lines, windows are short, and no window lies wholly in the border."""
    return of.shape[2] == 1 and is_short(of.kernel, of.dilation, of.padding) and prod(of.shape) < 1 << 31


def space(of: Backward) -> Space:
    """The knobs.

    `times`: positions per iteration of the unrolled code. With channels last, `channels` is the number of neighbouring
    channels and `stretch` the number of positions per thread. Otherwise, `images` is the number of images per thread.
    """
    times = value_knob("times", [*_UNROLLED_POSITIONS])
    if of.layout == "NHWC":
        channels = [n for n in _CHANNELS if of.shape[1] % n == 0]
        return Space([times, value_knob("channels", channels), value_knob("stretch", [*_STRETCH_POSITIONS])])
    return Space([times, value_knob("images", divisors(of.shape[0]))])


def default(of: Backward, machine: Machine) -> dict[str, Any]:
    """Choose the longest stretches, or the most images, that leave enough threads; longer windows get longer tiles.
    With channels first, a thread loads one vector for its tile, or two vectors of 16-bit values for short windows.
    """
    wanted = machine.multiprocessors * _RESIDENT_THREADS * 7 // 8
    few, width = of.covered[1] <= _MOST_FEW_TAPS, widest_vector(of.dtype)
    if of.layout == "NHWC":
        channels = 2 if of.shape[1] % 2 == 0 else 1
        lines = of.shape[0] * of.shape[1] // channels
        fit = [n for n in _STRETCH_POSITIONS if lines * ceil(of.shape[3] / n) >= wanted]
        return {"times": 4 if few else 8, "channels": channels, "stretch": max(fit, default=_STRETCH_POSITIONS[0])}
    times = 2 * width if few and BYTES[of.dtype] == 2 else width
    threads = of.shape[1] * _tiles(of, times)
    fit = [n for n in divisors(of.shape[0]) if threads * of.shape[0] // n >= 2 * wanted]
    return {"times": times, "images": max(fit, default=1)}


def _tiles(of: Backward, times: int) -> int:
    """The number of tiles that cover the inputs and the results of a line."""
    return ceil(max(of.shape[3], of.places[1]) / times)


def declare(of: Backward, data: Tensor, weights: Tensor, config: Config, *more: Tensor) -> Tensor:
    """Declare the sums of each thread, then their total. The gradient of the input is the statement's first result."""
    wide = of.layout == "NHWC"
    walk = _lines(of, config)
    kind, taps = sum_dtype(of.dtype), of.taps
    parts = (walk.parts, taps, of.shape[1]) if wide else (of.shape[1], taps, walk.parts)
    outputs = [(tuple(int(str(n)) for n in data.shape), of.dtype), (parts, kind)]
    _, partial = computed_by("backward", [data, weights, *more], outputs, walk.write)
    part = reduce_axis((0, walk.parts), name="part")
    first = of.shape[1] * of.kernel[1]

    def total(e: Any) -> Any:
        channel, tap = floordiv(e, of.kernel[1]), floormod(e, of.kernel[1])
        if of.bias:
            of_bias = e >= first
            channel, tap = select(of_bias, e - first, channel), select(of_bias, of.kernel[1], tap)
        return reduce_sum(partial(*((part, tap, channel) if wide else (channel, tap, part))), [part])

    made: Tensor = compute((of.shape[1] * taps,), total, "sums", "backward")
    return made


def _lines(of: Backward, config: Config) -> _Lines:
    """Return the statement of a configuration."""
    choices = {name: int(config[name].val) for name in config}
    return _Walk(of, choices) if of.layout == "NHWC" else _Tiles(of, choices)


class _Lines:
    """The statement of a thread.

    `xs` holds inputs; `zs` holds gradients with respect to the sums before the activation.
    """

    def __init__(self, of: Backward, choices: dict[str, int]) -> None:
        self.of, self.times, self.width = of, choices["times"], choices.get("channels", 1)
        self.kind, self.reach, self.left = sum_dtype(of.dtype), of.covered[1] - 1, of.padding[1]
        self.length, self.results = of.shape[3], of.places[1]

    parts: int
    """The number of partial sums per weight."""
    threads: int
    shift = 0
    """The index in `above_in` of the gradient of the first sum."""

    def write(self, statement: StatementBuilder, ins: list[Any], outs: list[Any]) -> None:
        """Write the statement."""
        self.ib, self.on_grid = statement.ib, statement.on_grid
        self.x, self.weights, *bias, self.above = ins
        self.bias_in = bias[0] if bias else None
        self.of_x, self.partial = outs
        statement.each(self.threads, self.thread, _BLOCK_THREADS)

    def thread(self, index: Any) -> None:
        """Write the statement of a thread."""
        raise NotImplementedError

    def unrolled(self, count: int, name: str) -> Any:
        """An unrolled loop."""
        return self.ib.for_range(0, count, name, kind="unrolled")

    def lanes(self) -> Any:
        """A loop over the channels of a thread: in the registers of a GPU, in vectors on a CPU."""
        return self.ib.for_range(0, self.width, "v", kind="unrolled" if self.on_grid else "vectorized")

    def registers(self, kind: str, count: int, name: str) -> Any:
        """Allocate registers for `count` values of each channel."""
        return self.ib.allocate(kind, (count, self.width), name, scope="local")

    def begin(self, channel: Any, seen: int, sloped: int, loaded: tuple[int, int]) -> None:
        """Load weights and bias, clear the sums, and allocate the windows of the input and of the gradient."""
        of, kind, taps = self.of, self.kind, self.of.kernel[1]
        self.taps, self.sums = self.registers(kind, taps, "taps"), self.registers(kind, of.taps, "sums")
        self.start, self.summed = self.registers(kind, 1, "start"), self.registers(kind, 1, "summed")
        self.xs, self.zs = self.registers(kind, seen, "xs"), self.registers(kind, sloped, "zs")
        self.x_in, self.above_in = (
            self.registers(of.dtype, count, name) for count, name in zip(loaded, ("x_in", "above_in"), strict=True)
        )
        self.x_out = self.registers(of.dtype, self.times, "x_out")
        with self.lanes() as v:
            with self.unrolled(taps, "r") as r:
                self.taps[r, v] = cast(kind, self.weights[channel + v, 0, 0, r])
            with self.unrolled(of.taps, "r") as r:
                self.sums[r, v] = const(0.0, kind)
            self.start[0, v] = const(0.0, kind) if self.bias_in is None else cast(kind, self.bias_in[channel + v])

    def steps(self, first: int, last: int, shift: int, owned: bool, results: bool, inside: Any = None) -> None:
        """Compute the gradient of sums `first` to `last`, and add it to the thread's sums if they are `owned`.

        The gradient of sum j lies in `zs[j + shift]`; the sum sees `xs[j]` and the next ones. With `results`, the
        gradients of the inputs that it completes are computed. `inside(j)` is the condition that sum j exists; None if
        it always does.
        """
        if first >= last:
            return
        of, kind, apart = self.of, self.kind, self.of.dilation[1]
        with self.ib.for_range(first, last, "j", kind="unrolled") as j, self.lanes() as v:
            gradient = cast(kind, self.above_in[j + self.shift, v])
            if of.activation:
                value = self.start[0, v]
                for r in range(of.kernel[1]):
                    value = value + self.xs[j + r * apart, v] * self.taps[r, v]
                self.summed[0, v] = value
                gradient = GRADIENTS[f"{of.activation}_gradient"](gradient, self.summed[0, v])
                if inside is not None:
                    gradient = select(inside(j), gradient, const(0.0, kind))
            self.zs[j + shift, v] = gradient
            if owned:
                for r in range(of.kernel[1]):
                    self.sums[r, v] = self.sums[r, v] + self.zs[j + shift, v] * self.xs[j + r * apart, v]
                if of.bias:
                    self.sums[of.kernel[1], v] = self.sums[of.kernel[1], v] + self.zs[j + shift, v]
            if results:
                value = self.zs[j + shift, v] * self.taps[0, v]
                for r in range(1, of.kernel[1]):
                    value = value + self.zs[j + shift - r * apart, v] * self.taps[r, v]
                self.x_out[j + shift - self.reach, v] = cast(of.dtype, value)


class _Walk(_Lines):
    """Channels last: a thread walks along a stretch; windows move through its registers."""

    def __init__(self, of: Backward, choices: dict[str, int]) -> None:
        super().__init__(of, choices)
        self.stretch = max(self.times, choices["stretch"])
        self.stretches = ceil(self.length / self.stretch)
        self.parts = of.shape[0] * self.stretches
        self.lines = of.shape[1] // self.width
        self.threads = self.parts * self.lines

    def thread(self, index: Any) -> None:
        ib, reach, times = self.ib, self.reach, self.times
        part = ib.let("part", floordiv(index, self.lines))
        channel = ib.let("lane", floormod(index, self.lines)) * self.width  # multiples show that vectors are aligned
        image = ib.let("image", floordiv(part, self.stretches))
        begin = ib.let("stretch", floormod(part, self.stretches)) * self.stretch
        self.at = image, channel
        room = max(times, reach)
        self.begin(channel, reach + room, reach + times, (room, room))
        if reach:
            self._enter(begin)
        with ib.for_range(0, self.stretch // times, "tile") as tile:
            place = begin + tile * times
            whole = min(self.length - reach, self.results - self.left, self.length) - times
            if whole >= 0:
                with ib.if_scope(place <= whole):
                    self._tile(place, False)
                with ib.else_scope():
                    self._tile(place, True)
            else:
                self._tile(place, True)
        with self.unrolled(self.of.taps, "r") as r, ib.for_range(0, self.width, "v", kind="vectorized") as v:
            self.partial[part, r, channel + v] = self.sums[r, v]

    def _enter(self, begin: Any) -> None:
        """Compute the gradients of the sums that read both the first input of the stretch and inputs before it."""
        reach, left = self.reach, self.left
        self._load(self.x, self.x_in, begin - reach, reach, self.length, True)
        self._widen(0, reach)
        self._load(self.x, self.x_in, begin, reach, self.length, True)
        self._widen(reach, reach)
        self._load(self.above, self.above_in, begin + left - reach, reach, self.results, True)

        def inside(j: Any) -> Any:
            place = begin + left - reach + j
            return logical_and(place >= 0, place < self.results)

        self.steps(0, reach, 0, False, False, inside)
        if left:  # nobody else has the sums of the first stretch
            with self.ib.if_scope(begin.equal(0)):
                self._add(reach)
        self._move(self.xs, reach)

    def _add(self, count: int) -> None:
        """Add the gradients in `zs` to the thread's sums."""
        of, apart = self.of, self.of.dilation[1]
        with self.unrolled(count, "j") as j, self.lanes() as v:
            for r in range(of.kernel[1]):
                self.sums[r, v] = self.sums[r, v] + self.zs[j, v] * self.xs[j + r * apart, v]
            if of.bias:
                self.sums[of.kernel[1], v] = self.sums[of.kernel[1], v] + self.zs[j, v]

    def _tile(self, place: Any, guarded: bool) -> None:
        """Compute the positions of a tile. Windows begin with the last values of the previous tile."""
        reach, times = self.reach, self.times
        self._load(self.x, self.x_in, place + reach, times, self.length, guarded)
        self._load(self.above, self.above_in, place + self.left, times, self.results, guarded)
        self._widen(reach, times)
        inside = (lambda j: place + self.left + j < self.results) if guarded else None
        self.steps(0, times, reach, True, True, inside)
        image, channel = self.at
        with self.unrolled(times, "j") as j:
            if guarded:
                with self.ib.if_scope(place + j < self.length):
                    self._store(image, place + j, channel, j)
            else:
                self._store(image, place + j, channel, j)
        for window in (self.xs, self.zs):
            self._move(window, times)

    def _store(self, image: Any, place: Any, channel: Any, j: Any) -> None:
        with self.ib.for_range(0, self.width, "v", kind="vectorized") as v:
            self.of_x[image, 0, place, channel + v] = self.x_out[j, v]

    def _load(self, source: Any, into: Any, place: Any, count: int, end: int, guarded: bool) -> None:
        image, channel = self.at
        with self.unrolled(count, "j") as j, self.ib.for_range(0, self.width, "v", kind="vectorized") as v:
            value = source[image, 0, place + j, channel + v]
            if guarded:
                inside = all_of(place + j >= 0, place + j < end)
                value = if_then_else(inside, value, const(0.0, self.of.dtype))
            into[j, v] = value

    def _widen(self, first: int, count: int) -> None:
        with self.unrolled(count, "j") as j, self.lanes() as v:
            self.xs[first + j, v] = cast(self.kind, self.x_in[j, v])

    def _move(self, window: Any, count: int) -> None:
        """Move the last values of a window to its beginning."""
        with self.unrolled(self.reach, "j") as j, self.lanes() as v:
            window[j, v] = window[count + j, v]


class _Tiles(_Lines):
    """Channels first: a thread computes the same tile of a line in several images, with the windows on both sides."""

    def __init__(self, of: Backward, choices: dict[str, int]) -> None:
        super().__init__(of, choices)
        self.images, self.tiles = choices["images"], _tiles(of, self.times)
        self.parts = of.shape[0] // self.images * self.tiles
        self.threads = of.shape[1] * self.parts
        self.before = self.reach - self.left
        """The number of sums before the first position of a tile. The tile does not add them to the gradients of the
        weights."""

    def thread(self, index: Any) -> None:
        ib, reach, times = self.ib, self.reach, self.times
        channel = ib.let("channel", floordiv(index, self.parts))
        part = ib.let("part", floormod(index, self.parts))
        self.place = ib.let("tile", floormod(part, self.tiles)) * times  # multiples show that vectors are aligned
        image = ib.let("share", floordiv(part, self.tiles)) * self.images
        seen, above = (-reach, times + 2 * reach, self.length), (-self.before, times + reach, self.results)
        rooms = tuple(self._loaded(*each)[1] for each in (seen, above))
        self.begin(channel, times + 2 * reach, times + reach, (rooms[0], rooms[1]))
        with ib.for_range(0, self.images, "i") as i:
            shift = self._load(self.x, self.x_in, (image + i, channel, 0), seen)
            with self.unrolled(times + 2 * reach, "j") as j:
                self.xs[j, 0] = cast(self.kind, self.x_in[j + shift, 0])
            self.shift = self._load(self.above, self.above_in, (image + i, channel, 0), above)
            after = self.results - (self.tiles - 1) * times + self.before
            cuts = {0, self.before, reach, self.before + times, min(max(after, 0), times + reach), times + reach}
            for begin, end in pairwise(sorted(cuts)):
                certain = self._is_inside(begin - self.before, end - begin, self.results)
                owned = self.before <= begin < self.before + times
                self.steps(begin, end, 0, owned, begin >= reach, None if certain else self._inside)
            self._store(image + i, channel)
        with self.unrolled(self.of.taps, "r") as r:
            self.partial[channel, r, part] = self.sums[r, 0]

    def _inside(self, j: Any) -> Any:
        place = self.place + j - self.before
        return logical_and(place >= 0, place < self.results)

    def _is_inside(self, first: int, count: int, end: int) -> bool:
        """Return whether `count` positions from `first` on lie inside the line for every tile."""
        return first >= 0 and (self.tiles - 1) * self.times + first + count <= end

    def _loaded(self, first: int, count: int, end: int) -> tuple[int, int, int]:
        """Return the first loaded position relative to the tile's first one, the number of loaded positions, and the
        chunk's length."""
        chunk = gcd(end, self.times, widest_vector(self.of.dtype))
        begin = first // chunk * chunk
        return begin, ceil((first + count - begin) / chunk) * chunk, chunk

    def _load(self, source: Any, into: Any, at: tuple[Any, ...], wanted: tuple[int, int, int]) -> int:
        """Load whole chunks; returns the index of the first wanted value."""
        end = wanted[2]
        begin, count, chunk = self._loaded(*wanted)
        for first in range(0, count, chunk):
            place = self.place + (begin + first)
            with self.ib.for_range(0, chunk, "u", kind="vectorized") as u:
                value = source[(*at, place + u)]
                if not self._is_inside(begin + first, chunk, end):
                    value = if_then_else(all_of(place >= 0, place < end), value, const(0.0, self.of.dtype))
                into[first + u, 0] = value
        return wanted[0] - begin

    def _store(self, image: Any, channel: Any) -> None:
        chunk = self._loaded(0, self.times, self.length)[2]
        for first in range(0, self.times, chunk):
            if self._is_inside(first, chunk, self.length):
                self._store_chunk(image, channel, first, chunk)
            else:
                with self.ib.if_scope(self.place + first < self.length):
                    self._store_chunk(image, channel, first, chunk)

    def _store_chunk(self, image: Any, channel: Any, first: int, chunk: int) -> None:
        with self.ib.for_range(0, chunk, "u", kind="vectorized") as u:
            self.of_x[image, channel, 0, self.place + (first + u)] = self.x_out[first + u, 0]


def schedule(of: Backward, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Have several threads of a block add the partial sums; these threads are neighbours if the partial sums are
    contiguous."""
    (e,), wide = t.out.op.axis, of.layout == "NHWC"
    block, other = s[t.out].split(e, factor=_WARP if wide else _ADDING_THREADS)
    own, beside = ("threadIdx.x", "threadIdx.y") if wide else ("threadIdx.y", "threadIdx.x")
    bind_all(s, t.out, (block, other), ("blockIdx.x", own))
    add_parts(s, t, _lines(of, config).parts, _ADDING_THREADS if wide else _WARP, beside, other)


@dataclass(frozen=True)
class SeveralResults(PackagedTemplate[Backward]):
    """A strategy of kernels with several results."""

    def program(
        self, config: Config, workload: Backward, target: Target | None, epilogue: Epilogue = NO_EPILOGUE
    ) -> Program:
        """Return the schedule of a configuration and the arguments of its kernel: the tensors read, then results."""
        self._check(workload, target)
        data, weights, *more = workload.placeholders()
        with target or Target("cuda"):
            sums = self.strategy(target).sums(workload, data, weights, config, *more)
        out = finish(sums, workload.result, None)
        (partial,) = sums.op.input_tensors
        s = create_schedule([partial.op.outputs[0].op, out.op])
        self.strategy(target).schedule(workload, config, s, Tensors(data, weights, tuple(more), sums, out))
        return s, [data, weights, *more, partial.op.outputs[0], out]


ON_GPU: ScheduleStrategy[Any] = ScheduleStrategy(
    space,
    schedule,
    default,
    Needs(types=DTYPES, layouts=LAYOUTS, scope="lines and short windows"),
    computes=computes,
    declare_for=declare,
)
