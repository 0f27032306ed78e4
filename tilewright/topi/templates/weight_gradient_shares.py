"""The work of a thread that sums weight gradients: its tiles, its taps, its block, and the candidate shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, gcd, prod

from .contraction import rounded
from .schedule_helpers import GPU, SHARED, widest_vector
from .thread_tiles import BYTES
from .tile_model import KnobTile
from .weight_gradient import WeightGradient

LANES = 32
_MOST_LANES = 64
_MOST_SMALL_PLANE = 256
_MEMORY = GPU.warp_memory


@dataclass(frozen=True)
class Share(KnobTile):
    """The work of a thread and its block. The fields are the knobs."""

    rows: int
    """Rows of a tile of the gradient."""
    columns: int
    filters: int
    """Filters per thread."""
    channels: int
    """Input channels per filter of a thread."""
    tap_rows: int
    """Rows of the window's taps per thread."""
    tap_columns: int
    chunk: int
    """Neighbours in a row per load (NCHW)."""
    warps: int
    """Warps per block that add different tiles to the same sums."""
    jobs: int
    """Warps per block that compute different sums of the same tiles."""
    shares: int
    """Parts of batch and space; different blocks compute them."""
    copies: int
    """Steps that shared memory holds at a time; 0 if threads load from global memory."""

    def tiles(self, of: WeightGradient) -> tuple[int, int]:
        """Return the number of tiles per image, down and across."""
        return ceil(of.places[0] / self.rows), ceil(of.places[1] / self.columns)

    def lanes_have_tiles(self, of: WeightGradient) -> bool:
        """Return whether the lanes of a warp have different tiles of one channel; otherwise they have neighbouring
        channels."""
        return of.layout == "NCHW" and not self.copies

    def workers(self, of: WeightGradient) -> int:
        """Return the threads of a block with different tiles."""
        return self.warps * (LANES if self.lanes_have_tiles(of) else 1)

    def images(self, of: WeightGradient) -> int:
        """Return the number of images that all tiles cover, which may exceed the batch."""
        return ceil(self.shares * self.steps(of) * self.workers(of) / prod(self.tiles(of)))

    def lanes(self, of: WeightGradient) -> int:
        """Return the threads of a block along threadIdx.x; for neighbouring filters, a number that divides them."""
        if self.lanes_have_tiles(of):
            return LANES
        return _even_part(ceil(of.filters / self.filters), LANES if self.copies else _MOST_LANES)

    def gradient_chunk(self, of: WeightGradient) -> int:
        """Return the neighbours in a row of the gradient that are loaded at once."""
        return gcd(self.columns, of.places[1], widest_vector(of.dtype)) if of.layout == "NCHW" else 1

    def copies_fit(self, of: WeightGradient) -> bool:
        """Return whether a step is one image, shared memory has room for its planes, and no image is left over."""
        if self.jobs_of_group(of) % self.jobs:
            return False  # a block would have jobs of two groups, and copy the channels of both
        if of.layout == "NHWC":
            whole = self.warps == self.tiles(of)[1] and self.lanes(of) * self.filters % of.shared_filters == 0
            return whole and self.shared_bytes(of) <= SHARED.most
        whole = self.warps == prod(self.tiles(of)) and of.shape[0] % self.shares == 0
        return whole and self.shared_bytes(of) <= SHARED.most // 2

    def plane(self, of: WeightGradient, of_input: bool) -> tuple[int, int]:
        """Return the stride between planes in shared memory, and the size of a copy, both in elements.

        Lanes that read the same position of neighbouring planes access different banks.
        """
        count, widest = prod(of.shape[2:] if of_input else of.places), widest_vector(of.dtype)
        pair = max(2, 2 * _MEMORY.word // BYTES[of.dtype])
        if count % pair == 0:
            return count + (pair - count % (2 * pair)) % (2 * pair), pair
        return count, gcd(count * self.lanes(of), count * of.filters, widest)

    def neighbours(self, of: WeightGradient, of_input: bool) -> tuple[int, int]:
        """Return the neighbouring channels of a block, of the input or the gradient, and the elements of a copy."""
        count, channels = self.lanes(of) * self.filters, of.shape[1] if of_input else of.filters
        count = count // of.shared_filters * of.per_group if of_input else count
        return count, gcd(count, channels, widest_vector(of.dtype))

    def apart(self, of: WeightGradient, of_input: bool) -> int:
        """Return the stride, in elements, between copies of a block's part of the input or of the gradient.

        The gap between copies lets address ranges prove that a copy in flight does not touch the planes in use.
        Addresses of a window extend into the border, and addresses of the last round of copies extend beyond the
        planes.
        """
        lanes, line, sizes = self.lanes(of), _MEMORY.line // BYTES[of.dtype], of.shape[2:] if of_input else of.places
        if of.layout == "NHWC":
            neighbours, width = self.neighbours(of, of_input)
            taps = self.taps(of)[0] if self.jobs > 1 else self.tap_rows  # the taps of all warps
            seen = (self.rows - 1) * of.stride[0] + (taps - 1) * of.dilation[0] + 1
            count = (seen if of_input else self.rows) * sizes[1] * neighbours
            beside = max(of.padding) + max(of.covered) + self.columns * of.stride[1]
            last = self.threads(of) * width if count % (self.threads(of) * width) else 0
            room = max(beside * neighbours, last) if self.copies > 1 else 0
            return -(-(count + room) // line) * line
        each, width = self.plane(of, of_input)
        border = (max(of.padding) + max(of.covered) + 1) * (sizes[1] + max(of.padding) + self.columns * of.stride[1])
        room = max(border, lanes * self.warps * self.jobs * width) if self.copies > 1 else 0
        return -(-(lanes * each + room) // line) * line

    def steps(self, of: WeightGradient) -> int:
        """Return the tiles of a thread."""
        return ceil(of.shape[0] * prod(self.tiles(of)) / (self.shares * self.workers(of)))

    def taps(self, of: WeightGradient) -> tuple[int, int]:
        """Return the rows and columns of taps, rounded up to whole parts."""
        high, wide = of.kernel
        return rounded(high, self.tap_rows), rounded(wide, self.tap_columns)

    def jobs_of_group(self, of: WeightGradient) -> int:
        """Return the jobs that share the sums of a group's filters, or of one filter if lanes have different
        filters."""
        parts = prod(ceil(k / own) for k, own in zip(of.kernel, (self.tap_rows, self.tap_columns), strict=True))
        filters = of.shared_filters // self.filters if self.lanes_have_tiles(of) else 1
        return filters * (of.per_group // self.channels) * parts

    def channels_at_once(self, of: WeightGradient) -> int:
        """Return the neighbouring channels of the input that are loaded at once (NHWC)."""
        if of.per_group > 1:
            return gcd(self.channels, widest_vector(of.dtype))
        return self.filters if of.shared_filters == 1 else 1

    def blocks(self, of: WeightGradient) -> int:
        """Return the blocks of the grid."""
        groups = of.groups if self.lanes_have_tiles(of) else ceil(ceil(of.filters / self.filters) / self.lanes(of))
        return self.shares * ceil(groups * self.jobs_of_group(of) / self.jobs)

    def threads(self, of: WeightGradient) -> int:
        """Return the threads of a block."""
        return self.lanes(of) * self.warps * self.jobs

    def sums(self) -> int:
        """Return the sums of a thread."""
        return self.filters * self.channels * self.tap_rows * self.tap_columns

    def products(self) -> int:
        """Return the products of a thread per tile; all of them are unrolled."""
        return self.rows * self.columns * self.sums()

    def seen(self, of: WeightGradient) -> tuple[int, int]:
        """Return the rows and columns of the input that a thread reads per tile."""
        (sy, sx), (dy, dx) = of.stride, of.dilation
        rows = (self.rows - 1) * sy + (self.tap_rows - 1) * dy + 1
        return rows, (self.columns - 1) * sx + (self.tap_columns - 1) * dx + 1

    def loaded(self, of: WeightGradient) -> int:
        """Return the columns of the input that a thread loads, in whole chunks."""
        columns, shift = self.seen(of)[1], -of.padding[1] % self.chunk
        return ((shift + columns - 1) // self.chunk + 1) * self.chunk

    def held(self, of: WeightGradient) -> int:
        """Return the registers of the sums, the tile of the gradient, and a row of the input."""
        across = self.channels if self.lanes_have_tiles(of) or of.per_group > 1 else self.filters
        values = self.sums() + self.rows * self.columns * self.filters + self.loaded(of) * across
        return values * (2 if of.dtype == "float64" else 1)

    def registers(self, of: WeightGradient) -> int:
        """Return an estimate of the registers of a thread."""
        return max(_LEAST_REGISTERS, min(_ALLOTTED_REGISTERS, _OVERHEAD_REGISTERS + self.held(of)))

    def shared_bytes(self, of: WeightGradient) -> int:
        """Return the bytes of shared memory of a block."""
        return self.copies * (self.apart(of, True) + self.apart(of, False)) * BYTES[of.dtype]

    def is_possible(self, of: WeightGradient) -> bool:
        """Return whether chunks begin at the same position of each tile, and planes fit shared memory."""
        whole = self.columns * of.stride[1] % self.chunk == 0
        whole &= self.tap_columns >= of.kernel[1] or self.tap_columns * of.dilation[1] % self.chunk == 0
        whole &= self.products() <= _MOST_UNROLLED_PRODUCTS
        return whole and self.threads(of) <= _MOST_THREADS and (not self.copies or self.copies_fit(of))


_OVERHEAD_REGISTERS = 10
"""Registers that hold no values."""
_LEAST_REGISTERS = 32
"""The fewest registers of a thread."""
_ALLOTTED_REGISTERS = 168
"""The registers that the compiler allots if values need more."""
_MOST_THREADS = 512
_MOST_HELD_REGISTERS = 232
_MOST_PRODUCTS = 2100
_MOST_UNROLLED_PRODUCTS = 6400
"""The most products in the unrolled code of a tile: more would take ten seconds or longer to compile."""


@lru_cache(maxsize=1024)
def _even_part(threads: int, most: int) -> int:
    """Return the largest number of lanes, at most `most`, that divides the threads; a warp if there is none."""
    return next((n for n in range(most, LANES // 2 - 1, -1) if threads % n == 0), min(threads, LANES))


SHARES = tuple(sorted({n << octave for n in range(1, 32) for octave in range(8) if n << octave <= 4096}))


def copies_pay(of: WeightGradient) -> bool:
    """Return whether blocks may copy their part: planes of small images, or rows of channels."""
    if of.layout == "NHWC":
        return of.shape[2] > 1
    return of.groups == of.shape[1] == of.filters and prod(of.shape[2:]) <= _MOST_SMALL_PLANE


def parts(taps: int) -> list[int]:
    """Return the taps of a thread along one dimension: the window cut into equal parts."""
    found = {-(-taps // count) for count in range(1, taps + 1)}
    return sorted(n for n in found if n <= 64) or [64]


def candidates(of: WeightGradient, copied: bool) -> Iterator[Share]:
    """Yield the blocks to rank, each for all of batch and space; they copy their part first if `copied`."""
    for base in _tiles(of):
        if base.held(of) > _MOST_HELD_REGISTERS or base.products() > _MOST_PRODUCTS:
            continue
        for warps, jobs, copies in _blocks(of, base, copied):
            share = replace(base, warps=warps, jobs=jobs, copies=copies)
            if share.is_possible(of):
                yield share


def _tiles(of: WeightGradient) -> Iterator[Share]:
    """Yield the tiles and the taps of a thread, in blocks of one warp."""
    rows, columns = of.places
    first = of.layout == "NCHW"
    chunks = [n for n in (1, 2, 4, 8) if n <= widest_vector(of.dtype) and of.shape[3] % n == 0] if first else [1]
    chunks = [n for n in chunks if _widths(of, n)]
    downs = [n for n in _ROWS if n <= rows and ceil(rows / n) * n <= _MOST_WASTE_FACTOR * rows]
    for chunk in chunks[-2 if of.groups == of.shape[1] else -1 :]:
        across = _widths(of, chunk)
        least = min(ceil(columns / n) * n for n in across)
        across = [n for n in across if ceil(columns / n) * n <= max(least, _MOST_WASTE_FACTOR * columns)]
        for filters, channels in own(of):
            for tap_rows, tap_columns in _taps(of, filters * channels):
                for down in downs:
                    for beside in across:
                        yield Share(down, beside, filters, channels, tap_rows, tap_columns, chunk, 1, 1, 1, 0)


def _widths(of: WeightGradient, chunk: int) -> list[int]:
    """Return the candidate numbers of columns per tile. Tiles begin at whole chunks, and have at most twice the image's
    columns."""
    return [n for n in ACROSS if n * of.stride[1] % chunk == 0 and (n == 1 or n < 2 * of.places[1])]


def own(of: WeightGradient) -> list[tuple[int, int]]:
    """Return the candidate pairs of filters per thread and channels per filter; several channels if a group has
    several."""
    shared, first = of.shared_filters, of.layout == "NCHW"
    inputs = [n for n in (1, 2, 4, 8) if of.per_group % n == 0]
    filters = [n for n in (1, 2, 4, 8) if (shared if first else of.filters) % n == 0]
    if not first:
        filters = [n for n in filters if n <= widest_vector(of.dtype)] if shared == of.per_group == 1 else [1]
    pairs = [(o, i) for o in filters for i in inputs if o * i <= _MOST_PAIRS]
    several = [(o, i) for o, i in pairs if o * i >= _LEAST_PAIRS] if of.groups < of.shape[1] else []
    return several or pairs


def _taps(of: WeightGradient, pairs: int) -> Iterator[tuple[int, int]]:
    """Yield the rows and columns of taps per thread: the most that registers hold, and the next smaller choice."""
    rows, columns = of.kernel
    wide = max((n for n in parts(columns) if n * pairs <= _MOST_SUMS), default=1)
    fit = [n for n in parts(rows) if n * wide * pairs <= _MOST_SUMS]
    yield from ((n, wide) for n in fit[-2:] or [1])


def _blocks(of: WeightGradient, base: Share, copied: bool) -> Iterator[tuple[int, int, int]]:
    """Yield the fields `warps`, `jobs` and `copies` of a block."""
    tiles, several = base.tiles(of), base.jobs_of_group(of) > 1
    if copied:
        warps = prod(tiles) if of.layout == "NCHW" else tiles[1]
        yield from ((warps, jobs, 2) for jobs in ((1, 2) if several else (1,)) if warps in WARPS)
    else:
        yield (4, 1, 0)
        yield from ((2, 2, 0), (1, 4, 0)) if several else ()


def least(of: WeightGradient) -> Share:
    """Return a share that fits every GPU, for workloads without candidates."""
    return Share(1, 1, 1, 1, 1, 1, 1, 4, 1, 1, 0)


DOWN = 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16
ACROSS = 1, 2, 4, 7, 8, 12, 14, 16, 24, 32
WARPS = 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16
_ROWS = 1, 2, 4, 5, 7, 8, 14
_MOST_WASTE_FACTOR = 1.35
_LEAST_PAIRS = 4
_MOST_PAIRS = 16
"""Pairs of a filter and a channel per thread."""
_MOST_SUMS = 100
