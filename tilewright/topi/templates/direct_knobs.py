"""The knobs of the kernels of `direct`, and a thread's work in a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from ...tune.space.knobs import Knob, split_knob, value_knob
from ...tune.space.predicates import innermost
from ...tune.space.space import Space
from .bias import bias_knob
from .images import Images
from .thread_tiles import (
    BYTES,
    REGISTERS,
    STEPS,
    Tile,
    Window,
    even_threads,
    own_channels,
    own_filters,
    widest,
    windows,
)

_THREADS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 24, 28, 32, 48, 56, 64, 96, 128, 192, 256)
_INNER = (1, 2, 3, 4, 5, 6, 7, 8, 14, 16)
_LARGEST_BLOCK = 512
_PLANE_BYTES, _ROW_BYTES = 2048, 128
_RESIDENT = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12)
_STORED_BY_ROWS = (Window.ROW, Window.SLIDING)
"""The part of its window that a thread may hold if it stores its results row by row."""
TILES = ("tile_c", "tile_y", "tile_x")
"""The knobs of the tiles of a block and a thread."""


def space(of: Images) -> Space:
    """The knobs.

    `tile_c`: groups of channels (in NHWC filters), over blocks, threads and a thread's own; `tile_f`: filters of a
    group, over blocks and a thread's own (in NHWC all of them are of `tile_c`); `tile_y`, `tile_x`: rows and columns,
    over blocks, threads and a thread's own. `chunk`: neighbours that are loaded at once. `window`: the part of it that
    a thread holds at a time, see `Window`; rows slide in NHWC only. `planes`: the source of windows; a block may fetch
    whole small images to shared memory first. `order`: which loop of a sum is outermost, over the terms or over a
    thread's rows of results, which are then complete one after another; with "stores" each row of results is stored
    before the next one begins. `resident`: how many blocks the compiler makes room for on a multiprocessor; 0 leaves it
    the choice. `whole_words`: whether the compiler makes the choice between the image and its border before it takes
    the 16-bit floats of a word apart; with 2 the load itself depends on it. `bias`: the time of its addition and the
    place of its load, see `bias`.
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
        return prod(int(choices[name].size[-2]) for name in TILES) <= _LARGEST_BLOCK

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
        .where(block, TILES, f"at most {_LARGEST_BLOCK} threads per block", _threads)
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
        value_knob("resident", _RESIDENT),
        value_knob("whole_words", [0, 1, 2] if BYTES[of.dtype] == 2 else [0]),
        bias_knob(),
    ]


def _small(of: Images) -> bool:
    """Whether blocks may fetch whole planes: rows too short for wide loads, and planes that are small."""
    alone = of.layout == "NCHW" and of.groups == of.shape[1]
    return alone and prod(of.shape[2:]) * BYTES[of.dtype] <= _PLANE_BYTES and of.shape[3] * BYTES[of.dtype] < _ROW_BYTES


def _threads(choice: Any) -> int:
    """Return the extent over threads."""
    return int(choice.sizes[-2])


def _tiles(extent: int) -> list[list[int]]:
    threads = sorted({*_THREADS, *(-(-extent // i) for i in _INNER if -(-extent // i) <= _THREADS[-1])})
    return [[-1, t, i] for t in threads for i in _INNER if t * i < extent + i and i < 2 * extent] or [[-1, 1, 1]]


def tile_of(choices: Mapping[str, Any]) -> Tile:
    """Return the work of a thread in a configuration."""
    channels, filters, rows, columns = (choices[name].size[-1] for name in ("tile_c", "tile_f", "tile_y", "tile_x"))
    return Tile(channels, filters, rows, columns, choices["chunk"].val, Window(choices["window"].val))


def by_rows(choices: Mapping[str, Any]) -> bool:
    """Whether a thread's rows of results are complete one after another, and stored at the end."""
    return bool(choices["order"].val == "rows")


def row_by_row(choices: Mapping[str, Any]) -> bool:
    """Whether each row of a thread's results is stored before the next one begins.

    If a thread does not hold its whole window, rows of the input that two of them need are loaded for both in the loops
    of the schedule; since these are written out, the compiler loads each of them once.
    """
    return bool(choices["order"].val == "stores")
