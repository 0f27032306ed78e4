"""The tile of a block: which of its threads computes which element."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...bounds.nest import Loop
from ...bounds.stage_bounds import Bounds, StageBounds
from ...core.errors import UserError
from ...core.hardware import THREAD_TAGS, ThreadTag
from ...expr.nodes import Expr, IntImm, Var
from ...schedule.schedule import At, Schedule
from ..points import values_at_points
from .svg import FONT, HUES, Picture

MOST_CELLS = 128 * 128
_MOST_ITERATIONS = 64 * MOST_CELLS
_ACROSS = 32
"""Elements of one dimension that stand side by side."""


@dataclass(frozen=True)
class BlockTile:
    """The elements that one block computes, as a matrix of two of their dimensions.

    `threads` has the thread number of each element, x fastest, and -1 for elements that the block leaves out. `copies`
    has the number of its virtual thread. `dimensions` are the names of rows and columns; `fixed` are the names of the
    others.
    """

    stage: str
    threads: np.ndarray
    copies: np.ndarray
    block: tuple[tuple[ThreadTag, int], ...]
    vthreads: tuple[int, ...]
    dimensions: tuple[str, str]
    fixed: tuple[str, ...]
    shown: tuple[int, int]
    is_matrix: bool


def tiles(schedule: Schedule, bounds: Bounds) -> list[BlockTile]:
    """The tile of each kernel's own stage: the one at the root that its threads run."""
    found: list[BlockTile] = []
    for one in reversed(list(bounds.values())):
        loops = one.stage.loops
        if not isinstance(one.stage.placement, At) and any(_is_thread(loop) for loop in loops):
            found.append(tile_of(one))
    return found


def _is_thread(loop: Loop) -> bool:
    return loop.tag is not None and loop.tag.is_thread


def tile_of(found: StageBounds) -> BlockTile:
    """The tile of a stage's first block."""
    loops = found.stage.loops
    extents = {loop: _extent(found, loop) for loop in loops}
    inside = [loop for loop in loops if loop.tag is None or not loop.tag.is_block]
    if prod(extents[loop] for loop in inside) > _MOST_ITERATIONS:
        inside = [loop for loop in inside if loop.tag is not None]  # then the first element of each thread shows it
    count = prod(extents[loop] for loop in inside)
    if count > _MOST_ITERATIONS:
        raise UserError(
            f"a block of stage {found.stage.name!r} has {count:,} threads, virtual ones included",
            primitive="draw",
            fix="bind fewer: no GPU runs this many together",
        )
    shape = [extents[loop] for loop in inside]
    places = np.indices(shape).reshape(len(shape), -1) if shape else np.zeros((0, 1), np.int64)
    at: dict[Var, np.ndarray] = {loop.var: np.zeros((1,), np.int64) for loop in loops}
    at.update({loop.var: place for loop, place in zip(inside, places, strict=True)})
    elements = [np.broadcast_to(_numbers(found.values[axis], at), places.shape[1:]) for axis in found.stage.op.axis]
    block = tuple((tag, max((extents[x] for x in loops if x.tag is tag), default=1)) for tag in THREAD_TAGS)
    number, step = np.zeros(places.shape[1:], np.int64), 1
    for tag, extent in block:
        number = number + step * sum((at[loop.var] for loop in inside if loop.tag is tag), np.zeros(1, np.int64))
        step *= extent
    virtual = [loop for loop in inside if loop.tag is ThreadTag.VTHREAD]
    copy = np.zeros(places.shape[1:], np.int64)
    for loop in virtual:
        copy = copy * extents[loop] + at[loop.var]
    there = np.ones(places.shape[1:], bool)  # a split that does not divide goes on beyond the last element
    for axis, at_axis in zip(found.stage.op.axis, elements, strict=True):
        span = found.ranges[axis]
        if isinstance(span.min, IntImm) and isinstance(span.extent, IntImm):
            there &= at_axis < span.min.value + span.extent.value
    elements, number, copy = [values[there] for values in elements], number[there], copy[there]
    names = [axis.name for axis in found.stage.op.axis]
    return _matrix(found.stage.name, names, elements, number, copy, block, tuple(extents[v] for v in virtual))


def _extent(found: StageBounds, loop: Loop) -> int:
    extent = found.ranges[loop.axis].extent
    if isinstance(extent, IntImm):
        return extent.value
    if loop.tag is not None and loop.tag.is_block:
        return 1  # the first block is as good as any
    raise UserError(
        f"the extent of {loop.axis.name!r} of stage {found.stage.name!r} is `{extent}`, which is not constant",
        primitive="draw",
        fix="split it by a constant factor: the tile of a block has a size then",
    )


def _numbers(e: Expr, at: dict[Var, np.ndarray]) -> np.ndarray:
    found = values_at_points(e, at)
    if found is None:
        raise UserError(
            f"the element `{e}` that a thread computes depends on more than its loops",
            primitive="draw",
            fix="draw a schedule with constant sizes",
        )
    return found.ravel()


def _matrix(
    stage: str,
    names: list[str],
    elements: list[np.ndarray],
    number: np.ndarray,
    copy: np.ndarray,
    block: tuple[tuple[ThreadTag, int], ...],
    vthreads: tuple[int, ...],
) -> BlockTile:
    """The two innermost dimensions that have more than one element; of one dimension, rows of a fixed length."""
    starts = [int(values.min()) for values in elements]
    sizes = [int(values.max()) - start + 1 for values, start in zip(elements, starts, strict=True)]
    long = [d for d, size in enumerate(sizes) if size > 1][-2:]
    keep = np.ones(number.shape, bool)
    for d, values in enumerate(elements):
        if d not in long:
            keep &= values == starts[d]
    fixed = tuple(f"{names[d]} = {starts[d]}" for d, size in enumerate(sizes) if d not in long and size > 1)
    if len(long) == 2:
        rows, columns = (elements[d] - starts[d] for d in long)
        named = (names[long[0]], names[long[1]])
    else:
        flat = elements[long[0]] - starts[long[0]] if long else np.zeros(number.shape, np.int64)
        rows, columns = flat // _ACROSS, flat % _ACROSS
        name = names[long[0]] if long else ""
        named = (f"{name} // {_ACROSS}", f"{name} % {_ACROSS}")
    order = np.argsort(-number[keep], kind="stable")  # an element of several threads shows the first
    rows, columns, number, copy = (values[keep][order] for values in (rows, columns, number, copy))
    whole = (int(rows.max()) + 1, int(columns.max()) + 1)
    side = 64 if whole[0] * whole[1] > MOST_CELLS else max(whole)
    near = (rows < side) & (columns < side)
    shape = (min(whole[0], side), min(whole[1], side))
    threads, copies = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
    threads[rows[near], columns[near]] = number[near]
    copies[rows[near], columns[near]] = copy[near]
    return BlockTile(stage, threads, copies, block, vthreads, named, fixed, whole, len(long) == 2)


def draw_tile(tile: BlockTile, warp: int) -> Picture:
    """A picture of a tile: threads side by side in different colours, all elements of a thread in one color, thread 0
    marked."""
    rows, columns = tile.threads.shape
    cell = max(5.0, min(22.0, 640 / columns, 640 / rows))
    made = Picture()
    shape = " × ".join(f"{tag.value} {extent}" for tag, extent in tile.block if extent > 1) or "one thread"
    count = f"{tile.shown[0]} × {tile.shown[1]}" if tile.is_matrix else f"{int((tile.threads >= 0).sum()):,}"
    made.text(0, FONT, f"{tile.stage}: {count} elements of one block", 15, "title")
    notes = [shape]
    if tile.vthreads:
        notes.append("vthreads " + " × ".join(map(str, tile.vthreads)))
    notes += tile.fixed
    if (rows, columns) != tile.shown:
        notes.append(f"the first {rows} × {columns} shown")
    made.text(0, FONT + 20, ", ".join(notes), FONT, "faint")
    left, top = 36.0 + 7 * len(tile.dimensions[0]), FONT + 62
    made.text(left + columns * cell / 2, top - 20, f"{tile.dimensions[1]} →", 11, "faint", "middle")
    made.text(0, top + rows * cell / 2 + 4, f"{tile.dimensions[0]} ↓", 11, "faint")
    for k in _ticks(columns):
        made.text(left + (k + 0.5) * cell, top - 5, str(k), 10, "faint", "middle")
    for k in _ticks(rows):
        made.text(left - 5, top + (k + 0.5) * cell + 4, str(k), 10, "faint", "end")
    _cells(made, tile, warp, left, top, cell)
    _copies(made, tile, left, top, cell)
    made.text(left, top + rows * cell + 18, _strides(tile), FONT)
    return made


def _ticks(count: int) -> range:
    """At most about eight numbers below `count`, a power of two apart."""
    step = 1
    while count > 9 * step:
        step *= 2
    return range(0, count, step)


def _cells(made: Picture, tile: BlockTile, warp: int, left: float, top: float, cell: float) -> None:
    rows, columns = tile.threads.shape
    width = tile.block[0][1]
    for row, column, high, wide in _rectangles(tile.threads, tile.copies):
        thread = int(tile.threads[row, column])
        x, y = left + column * cell, top + row * cell
        if thread < 0:
            made.rect(x, y, wide * cell, high * cell, "box", "not computed by this block", 0.5)
            continue
        marked = thread == 0
        # Neighbouring threads differ in colour, in both directions.
        kind = "strong" if marked else f"h{(thread % width + 3 * (thread // width)) % HUES}"
        lane = f", lane {thread % warp}" if warp > 1 else ""
        copy = f", vthread {tile.copies[row, column]}" if tile.vthreads else ""
        made.rect(x, y, wide * cell, high * cell, f"{kind} apart", f"thread {thread}{lane}{copy}")
        label = str(thread)
        size = min(11.0, high * cell * 0.8, wide * cell / (0.62 * len(label)))
        if size >= 5.5:
            made.text(
                x + wide * cell / 2, y + high * cell / 2 + size * 0.36, label, size,
                "inverse mono" if marked else "mono", "middle",
            )  # fmt: skip
    grid = [f"M{left + k * cell:.1f} {top:.1f}v{rows * cell:.1f}" for k in range(columns + 1)]
    grid += [f"M{left:.1f} {top + k * cell:.1f}h{columns * cell:.1f}" for k in range(rows + 1)]
    if cell >= 8:
        made.path("".join(grid), "grid", 0.4)


def _rectangles(threads: np.ndarray, copies: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Rectangles of neighbouring elements of one thread and one vthread: row, column, height, width."""
    key = threads * (int(copies.max()) + 1) + copies
    done = np.zeros(key.shape, bool)
    found: list[tuple[int, int, int, int]] = []
    for row in range(key.shape[0]):
        for column in range(key.shape[1]):
            if done[row, column]:
                continue
            same = key[row, column]
            wide = 1
            while column + wide < key.shape[1] and key[row, column + wide] == same and not done[row, column + wide]:
                wide += 1
            high = 1
            while row + high < key.shape[0] and (key[row + high, column : column + wide] == same).all():
                high += 1
            done[row : row + high, column : column + wide] = True
            found.append((row, column, high, wide))
    return found


def _copies(made: Picture, tile: BlockTile, left: float, top: float, cell: float) -> None:
    """Lines between virtual threads."""
    if not tile.vthreads:
        return
    lines = []
    for row, column in zip(*np.nonzero(tile.copies[1:] != tile.copies[:-1]), strict=True):
        lines.append(f"M{left + column * cell:.1f} {top + (row + 1) * cell:.1f}h{cell:.1f}")
    for row, column in zip(*np.nonzero(tile.copies[:, 1:] != tile.copies[:, :-1]), strict=True):
        lines.append(f"M{left + (column + 1) * cell:.1f} {top + row * cell:.1f}v{cell:.1f}")
    made.path("".join(lines), "cut", 2.0)


def _strides(tile: BlockTile) -> str:
    """The elements that the first thread computes, in words."""
    first = int(tile.threads[tile.threads >= 0].min())
    own = tile.threads == first
    found = _rectangles(np.where(own, 0, -1), tile.copies * own)
    found = [(row, column, high, wide) for row, column, high, wide in found if own[row, column]]
    _, _, high, wide = found[0]
    what = "1 element" if high * wide == 1 else f"{high} × {wide} elements" if high > 1 else f"{wide} elements"
    text = f"Thread {first} computes {what}" + (f" at {len(found)} places" if len(found) > 1 else "")
    steps: list[str] = []
    for d, name in enumerate(("row", "column")):
        at = sorted({place[d] for place in found})
        if len(at) > 1:
            steps.append(f"{at[1] - at[0]} {name}{'s' if at[1] - at[0] > 1 else ''}")
    return text + (f", {' and '.join(steps)} apart" if steps else "") + "."
