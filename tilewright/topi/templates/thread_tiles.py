"""The tile of a thread of a convolution: its registers, its loads, its knobs, and its unrolled products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import gcd, prod
from typing import Any

from ...core.dtype import DType
from ...tune.space.knobs import Knob, split_knob, value_knob
from ...tune.space.predicates import innermost
from ...tune.space.space import Space
from .images import Images
from .schedule_helpers import widest_vector
from .tensors import bias_knob
from .workload import sum_dtype

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
REGISTERS = 272
"""The most values of a thread's inputs and sums. A thread has fewer registers, but it uses its first inputs before it
loads the last."""
STEPS = 4096
"""The most unrolled products of a thread: with more, compiling takes seconds."""
SHARED_BYTES = 40_960
"""The most bytes of a block's weights in shared memory: more would leave few resident blocks."""


class Window(Enum):
    """The part of its window that a thread holds at a time.

    ALL: all input rows of its results. ROW: for each row of results, one row of the window. SLIDING and ROLLED: one row
    of the input, which serves all rows of results that need it. The loop over rows is unrolled (SLIDING) or not
    (ROLLED). NONE: nothing, if a row exceeds the registers of a thread; each product reads its input.
    """

    ALL = "all"
    ROW = "row"
    SLIDING = "sliding"
    ROLLED = "rolled"
    NONE = "none"

    @property
    def slides(self) -> bool:
        """Whether each row of the input is loaded once and serves all rows of results that need it."""
        return self in (Window.SLIDING, Window.ROLLED)


class Weights(Enum):
    """The memory of a thread's weights: global memory, registers, or (transposed) shared memory."""

    GLOBAL = "global"
    REGISTERS = "registers"
    SHARED = "shared"


def widest(of: Images) -> int:
    """Return the most neighbours of the input per load of a thread; every row begins at a multiple of this number."""
    extent = of.shape[1] if of.layout == "NHWC" else of.shape[3]
    if of.layout == "NHWC" and of.groups != of.shape[1]:
        extent //= of.groups
    elif of.layout == "NHWC" and of.filters != of.shape[1]:
        return 1  # neighbouring results do not read neighbouring channels
    return gcd(extent, widest_vector(of.dtype))


def own_channels(of: Images) -> list[int]:
    """Return the candidate numbers of groups per thread; with channels last, the candidate numbers of filters.

    These filters belong to one group, or each is a group of its own.
    """
    if of.layout == "NCHW":
        return [1, 2, 4]
    per_group = of.shared_filters
    return [i for i in (1, 2, 4, 8) if of.filters % i == 0 and (per_group % i == 0 or per_group == 1)]


def even_threads(channels: int, own: int) -> list[int]:
    """Return the numbers of threads, up to 96, that share the channels evenly, with `own` channels each."""
    rest = -(-channels // own)
    return [t for t in range(1, 97) if rest % t == 0]


def own_filters(of: Images) -> list[int]:
    """Return the candidate numbers of filters of a group per thread; with channels last, see `own_channels`."""
    per_group = of.shared_filters
    return [1] if of.layout == "NHWC" else [f for f in range(1, min(per_group, 16) + 1) if per_group % f == 0]


@dataclass(frozen=True)
class Tile:
    """The work of a thread: its results, the inputs per load, and the part of its window in registers."""

    channels: int
    filters: int
    rows: int
    columns: int
    chunk: int
    window: Window

    def results(self) -> int:
        """The number of results."""
        return self.channels * self.filters * self.rows * self.columns

    def shares_groups(self, of: Images) -> bool:
        """Whether it loads whole vectors of a group's channels and computes filters of that group from them."""
        return of.layout == "NHWC" and of.groups < of.shape[1] and self.chunk > 1

    def columns_loaded(self, of: Images) -> int:
        """Return the number of columns that it loads, in whole chunks."""
        if of.layout == "NHWC" or self.chunk == 1:
            return of.seen_along(1, self.columns)
        shift = -of.padding[1] % self.chunk
        return ((shift + of.seen_along(1, self.columns) - 1) // self.chunk + 1) * self.chunk

    def channels_loaded(self, of: Images) -> int:
        """Return the number of channels of its window in registers at a time."""
        if self.shares_groups(of):
            return of.per_group
        multiplier = of.filters // of.shape[1] if of.layout == "NHWC" and of.groups == of.shape[1] else 1
        return -(-self.channels // multiplier)

    def registers(self, of: Images) -> int:
        """Return the registers of four bytes for its sums and the part of its window in registers."""
        height = {Window.ALL: of.seen_along(0, self.rows), Window.ROW: self.rows, Window.NONE: 0}.get(self.window, 1)
        window = self.channels_loaded(of) * height * self.columns_loaded(of)
        return (self.results() + window) * (2 if of.dtype == "float64" else 1)

    def steps(self, of: Images) -> int:
        """Return the number of unrolled products: of all rows of the window, or of one row."""
        terms = of.per_group if self.shares_groups(of) else 1
        if self.window is Window.NONE:
            return self.results() * terms
        whole = self.window in (Window.ALL, Window.SLIDING)
        return self.results() * terms * of.kernel[1] * (of.kernel[0] if whole else 1)

    def loads(self, of: Images) -> float:
        """Return the number of loads of chunks for all channels of its sums."""
        if self.window is Window.NONE:
            return self.results() / self.filters * prod(of.kernel) * of.per_group
        height = self.rows * of.kernel[0] if self.window is Window.ROW else of.seen_along(0, self.rows)
        chunks = self.channels_loaded(of) * height * self.columns_loaded(of) / self.chunk
        return chunks if self.shares_groups(of) else chunks * of.per_group

    def weights_read(self, of: Images) -> int:
        """Return the number of weights that it reads: each weight once, or once per row if rows slide."""
        terms = prod(of.kernel) * of.per_group
        return self.channels * self.filters * terms * (self.rows if self.window.slides else 1)


def windows(of: Images) -> list[Window]:
    """Return the parts of its window that a thread may keep in registers; NONE only if a row for one result does not
    fit."""
    if Tile(1, 1, 1, 1, 1, Window.ROW).registers(of) > REGISTERS:
        return [Window.NONE]
    held = (Window.ALL, Window.ROW, Window.SLIDING, Window.ROLLED)
    return [w for w in held if of.layout == "NHWC" or not w.slides]


def fits_shared(of: Images, weights: int, most: int = SHARED_BYTES) -> bool:
    """Return whether `most` bytes of shared memory hold `weights` transposed weights at a time."""
    return weights * DType(sum_dtype(of.dtype)).bytes <= most


def weights_of(of: Images, tile: Tile) -> Weights:
    """Return the memory of a thread's weights.

    In NHWC, the weights of a thread's channels are contiguous, but the weights of a warp's threads lie far apart. Each
    thread loads its own weights at once if they fit its registers. In NCHW, all threads of a warp read the same weight;
    they read the weights of several filters from shared memory.
    """
    if of.layout == "NCHW":
        return Weights.SHARED if tile.filters > 1 and of.shape[1] > of.groups else Weights.GLOBAL
    if of.groups != of.shape[1] and not tile.shares_groups(of):
        return Weights.GLOBAL
    if tile.shares_groups(of) or tile.window.slides:
        return Weights.SHARED
    held = tile.channels * prod(of.kernel) * BYTES[of.dtype] / 4
    return Weights.REGISTERS if held <= _MOST_WEIGHT_REGISTERS else Weights.SHARED


_MOST_WEIGHT_REGISTERS = 64
"""The most registers for weights."""


_THREADS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 24, 28, 32, 48, 56, 64, 96, 128, 192, 256)
_THREAD_EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 14, 16)
_MOST_BLOCK_THREADS = 512
_MOST_PLANE_BYTES = 2048
_MOST_ROW_BYTES = 128
"""Blocks fetch whole planes up to these sizes."""
_RESIDENT_BLOCKS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12)
_STORED_BY_ROWS = (Window.ROW, Window.SLIDING)
"""The parts of its window that a thread may keep in registers if it stores its results row by row."""
TILES = ("tile_c", "tile_y", "tile_x")
"""The knobs of the tiles of a block and a thread."""


def space(of: Images) -> Space:
    """The knobs.

    `tile_c`: groups of channels, or filters in NHWC, over blocks, threads and a thread's own. `tile_f`: filters of a
    group, over blocks and a thread's own; in NHWC `tile_c` has all of them. `tile_y`, `tile_x`: rows and columns, over
    blocks, threads and a thread's own. `chunk`: neighbours per load. `window`: the part of a window that a thread keeps
    in registers at a time, see `Window`; rows slide in NHWC only. `planes`: the memory from which windows are read; a
    block may fetch whole small images to shared memory first. `order`: the outermost loop of a sum. It runs over the
    terms, or over a thread's rows of results, which are then complete one after another. With "stores", each row is
    stored before the next row begins. `resident`: the blocks per multiprocessor for which the compiler limits
    registers; with 0, it sets no limit. `whole_words`: with 1, the border's zeros are chosen for whole words, before
    these are split into 16-bit halves; with 2, the load itself is predicated. `bias`: see `tensors.py`.
    """
    last = of.layout == "NHWC"

    def aligned(choices: Mapping[str, Any]) -> bool:
        chunk, slides = choices["chunk"].val, Window(choices["window"].val).slides
        if choices["window"].val == Window.NONE.value and chunk > 1:
            return False
        if last and of.groups < of.shape[1]:  # whole vectors of a group, or single channels as in NCHW
            return chunk in (1, widest(of)) and (chunk > 1 or not slides)
        along = choices["tile_c"].size[-1] if last else choices["tile_x"].size[-1] * of.stride[1]
        return bool(along % chunk == 0)

    def small(choices: Mapping[str, Any]) -> bool:
        tile = tile_of(choices)
        return tile.steps(of) <= STEPS and tile.registers(of) <= REGISTERS

    def ordered(choices: Mapping[str, Any]) -> bool:
        order, held = choices["order"].val, Window(choices["window"].val)
        if order == "terms" or held is Window.ALL:
            return bool(order == "terms" or not last)
        few = replace(tile_of(choices), window=Window.SLIDING).steps(of) <= STEPS
        return order == "stores" and held in _STORED_BY_ROWS and few

    def in_words(choices: Mapping[str, Any]) -> bool:
        return not choices["whole_words"].val or bool(choices["chunk"].val > 1)

    def block(choices: Mapping[str, Any]) -> bool:
        return prod(int(choices[name].size[-2]) for name in TILES) <= _MOST_BLOCK_THREADS

    def whole(choices: Mapping[str, Any]) -> bool:
        covered = all(prod(choices[n].size[1:]) >= e for n, e in zip(("tile_y", "tile_x"), of.places, strict=True))
        return choices["planes"].val == "memory" or bool(covered)

    fits = f"{REGISTERS} registers and {STEPS} products per thread"
    return (
        Space(_knobs(of))
        .where(aligned, ("tile_c", "tile_x", "chunk", "window"), "a thread's tile of whole chunks", innermost)
        .where(small, (*TILES, "tile_f", "chunk", "window"), fits, innermost)
        .where(whole, ("tile_y", "tile_x", "planes"), "whole planes in a block that shares them")
        .where(ordered, (*TILES, "tile_f", "chunk", "window", "order"), "rows of results written out one by one")
        .where(in_words, ("chunk", "whole_words"), "words of several elements")
        .where(block, TILES, f"at most {_MOST_BLOCK_THREADS} threads per block", _threads)
    )


def _knobs(of: Images) -> list[Knob]:
    rows, columns = of.places
    channels = of.filters if of.layout == "NHWC" else of.groups
    threads = {i: sorted({*_THREADS, *even_threads(channels, i)}) for i in own_channels(of)}
    mine = [[-1, t, i] for i in threads for t in threads[i] if t * i <= channels]
    return [
        split_knob("tile_c", channels, "candidate", candidate=mine),
        split_knob("tile_f", of.shared_filters, "candidate", candidate=[[-1, f] for f in own_filters(of)]),
        split_knob("tile_y", rows, "candidate", candidate=_tiles(rows)),
        split_knob("tile_x", columns, "candidate", candidate=_tiles(columns)),
        value_knob("chunk", [c for c in (1, 2, 4, 8) if c <= widest(of)]),
        value_knob("window", [w.value for w in windows(of)]),
        value_knob("planes", ["memory", "shared"] if _small(of) else ["memory"]),
        value_knob("order", ["terms"] if of.groups < of.shape[1] else ["terms", "rows", "stores"]),
        value_knob("resident", _RESIDENT_BLOCKS),
        value_knob("whole_words", [0, 1, 2] if BYTES[of.dtype] == 2 else [0]),
        bias_knob(),
    ]


def _small(of: Images) -> bool:
    """Whether blocks may fetch whole planes: rows too short for wide loads, and planes that are small."""
    alone = of.layout == "NCHW" and of.groups == of.shape[1]
    return (
        alone
        and prod(of.shape[2:]) * BYTES[of.dtype] <= _MOST_PLANE_BYTES
        and of.shape[3] * BYTES[of.dtype] < _MOST_ROW_BYTES
    )


def _threads(choice: Any) -> int:
    """Return the extent over threads."""
    return int(choice.sizes[-2])


def _tiles(extent: int) -> list[list[int]]:
    threads = sorted({*_THREADS, *(-(-extent // i) for i in _THREAD_EXTENTS if -(-extent // i) <= _THREADS[-1])})
    return [[-1, t, i] for t in threads for i in _THREAD_EXTENTS if t * i < extent + i and i < 2 * extent] or [
        [-1, 1, 1]
    ]


def tile_of(choices: Mapping[str, Any]) -> Tile:
    """Return the tile of a thread in a configuration."""
    channels, filters, rows, columns = (choices[name].size[-1] for name in ("tile_c", "tile_f", "tile_y", "tile_x"))
    return Tile(channels, filters, rows, columns, choices["chunk"].val, Window(choices["window"].val))


def by_rows(choices: Mapping[str, Any]) -> bool:
    """Return whether a thread completes its rows of results one after another, and stores them at the end."""
    return bool(choices["order"].val == "rows")


def row_by_row(choices: Mapping[str, Any]) -> bool:
    """Return whether a thread stores each row of results before the next row begins.

    If a thread keeps only a part of its window, loops load a row of the input for each row of results that needs it.
    These loops are unrolled, so the compiler loads the row once.
    """
    return bool(choices["order"].val == "stores")
