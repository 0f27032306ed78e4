"""The tile of a thread of a convolution: its registers, its loads, and the products that its code writes out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod

from .images import Images

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
REGISTERS = 272
"""That a thread's inputs and sums may fill: more than there are, as the last inputs are loaded when first ones are
used."""
STEPS = 4096
"""Products that a thread's code may write out: beyond it, compiling takes seconds."""
ACCESS = 16
"""Bytes of the widest access."""
SHARED_BYTES = 40_960
"""Of a block's weights; more of them would leave few blocks on a multiprocessor."""


class Window(Enum):
    """The part of its window that a thread holds at a time.

    ALL: all rows that its results need. ROW: for each of its rows, one row of the window. SLIDING and ROLLED: one row
    of the input, for all of its rows that need it. The steps from row to row are written out, or rolled into a loop.
    NONE: nothing, if rows exceed the registers of a thread; each product reads its input.
    """

    ALL = "all"
    ROW = "row"
    SLIDING = "sliding"
    ROLLED = "rolled"
    NONE = "none"

    @property
    def slides(self) -> bool:
        """Whether each row of the input is loaded once, and used for all rows of results that need it."""
        return self in (Window.SLIDING, Window.ROLLED)


class Weights(Enum):
    """The place of a thread's weights: global memory, registers, or transposed in shared memory."""

    GLOBAL = "global"
    REGISTERS = "registers"
    SHARED = "shared"


def widest(of: Images) -> int:
    """How many neighbours of the input can be loaded at once, so that every row begins at a multiple of them."""
    extent = of.shape[1] if of.layout == "NHWC" else of.shape[3]
    if of.layout == "NHWC" and of.groups != of.shape[1]:
        extent //= of.groups
    elif of.layout == "NHWC" and of.filters != of.shape[1]:
        return 1  # neighbouring results do not read neighbouring channels
    width = ACCESS // BYTES[of.dtype]
    while extent % width:
        width //= 2
    return width


def own_channels(of: Images) -> list[int]:
    """How many groups of channels (in NHWC filters) a thread may compute: there, whole or within one group."""
    if of.layout == "NCHW":
        return [1, 2, 4]
    per_group = of.shared_filters
    return [i for i in (1, 2, 4, 8) if of.filters % i == 0 and (per_group % i == 0 or per_group == 1)]


def even_threads(channels: int, own: int) -> list[int]:
    """Return the numbers of threads up to 96 that divide the channels evenly, with `own` channels each."""
    rest = -(-channels // own)
    return [t for t in range(1, 97) if rest % t == 0]


def own_filters(of: Images) -> list[int]:
    """How many filters of a group a thread may compute (channels last: its channels are filters)."""
    per_group = of.shared_filters
    return [1] if of.layout == "NHWC" else [f for f in range(1, min(per_group, 16) + 1) if per_group % f == 0]


def reach(of: Images, axis: int, count: int) -> int:
    """Return the rows (axis 0) or columns of the input that `count` results need."""
    return (count - 1) * of.stride[axis] + (of.kernel[axis] - 1) * of.dilation[axis] + 1


@dataclass(frozen=True)
class Tile:
    """The work of a thread: its results, the inputs of a load, and the held part of its window."""

    channels: int
    filters: int
    rows: int
    columns: int
    chunk: int
    window: Window

    def results(self) -> int:
        """How many results it has."""
        return self.channels * self.filters * self.rows * self.columns

    def shares_groups(self, of: Images) -> bool:
        """Whether it loads whole vectors of a group's channels, and computes filters of that group from them."""
        return of.layout == "NHWC" and of.groups < of.shape[1] and self.chunk > 1

    def columns_loaded(self, of: Images) -> int:
        """How many columns of whole chunks it needs."""
        if of.layout == "NHWC" or self.chunk == 1:
            return reach(of, 1, self.columns)
        shift = -of.padding[1] % self.chunk
        return ((shift + reach(of, 1, self.columns) - 1) // self.chunk + 1) * self.chunk

    def channels_loaded(self, of: Images) -> int:
        """How many channels of its window it holds at a time."""
        if self.shares_groups(of):
            return of.per_group
        multiplier = of.filters // of.shape[1] if of.layout == "NHWC" and of.groups == of.shape[1] else 1
        return -(-self.channels // multiplier)

    def registers(self, of: Images) -> int:
        """Return the registers, of four bytes, for its sums and the held part of its window."""
        height = {Window.ALL: reach(of, 0, self.rows), Window.ROW: self.rows, Window.NONE: 0}.get(self.window, 1)
        window = self.channels_loaded(of) * height * self.columns_loaded(of)
        return (self.results() + window) * (2 if of.dtype == "float64" else 1)

    def steps(self, of: Images) -> int:
        """Products that are written out: of all rows of the window, or of one."""
        terms = of.per_group if self.shares_groups(of) else 1
        if self.window is Window.NONE:
            return self.results() * terms
        whole = self.window in (Window.ALL, Window.SLIDING)
        return self.results() * terms * of.kernel[1] * (of.kernel[0] if whole else 1)

    def loads(self, of: Images) -> float:
        """How many loads of chunks it makes for all channels of its sums."""
        if self.window is Window.NONE:
            return self.results() / self.filters * prod(of.kernel) * of.per_group
        height = self.rows * of.kernel[0] if self.window is Window.ROW else reach(of, 0, self.rows)
        chunks = self.channels_loaded(of) * height * self.columns_loaded(of) / self.chunk
        return chunks if self.shares_groups(of) else chunks * of.per_group

    def weights_read(self, of: Images) -> int:
        """Return how many weights it reads: each once, or once per row if rows slide."""
        terms = prod(of.kernel) * of.per_group
        return self.channels * self.filters * terms * (self.rows if self.window.slides else 1)


def windows(of: Images) -> list[Window]:
    """Return the parts of its window that a thread may hold: NONE only if a row for one result does not fit."""
    if Tile(1, 1, 1, 1, 1, Window.ROW).registers(of) > REGISTERS:
        return [Window.NONE]
    held = (Window.ALL, Window.ROW, Window.SLIDING, Window.ROLLED)
    return [w for w in held if of.layout == "NHWC" or not w.slides]


def fits_shared(of: Images, weights: int) -> bool:
    """Return whether a block keeps `weights`, transposed, in shared memory at a time."""
    return weights * (8 if of.dtype == "float64" else 4) <= SHARED_BYTES


def weights_of(of: Images, tile: Tile) -> Weights:
    """Return the place of a thread's weights.

    In NHWC the weights of a thread's channels are neighbours, but a warp's lie far apart. Each thread loads its own at
    once if they fit its registers. In NCHW all threads of a warp read the same weight; they read the weights of several
    filters from shared memory.
    """
    if of.layout == "NCHW":
        return Weights.SHARED if tile.filters > 1 and of.shape[1] > of.groups else Weights.GLOBAL
    if of.groups != of.shape[1] and not tile.shares_groups(of):
        return Weights.GLOBAL
    if tile.shares_groups(of) or tile.window.slides:
        return Weights.SHARED
    held = tile.channels * prod(of.kernel) * BYTES[of.dtype] / 4
    return Weights.REGISTERS if held <= _HELD else Weights.SHARED


_HELD = 64
"""Registers for weights."""
