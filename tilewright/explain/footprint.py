"""How many bytes a set of accesses touches: the footprint of a loop in the caches of a processor.

The position of an access is linear in the variables of the loops around it, so its positions are a sum of steps. Steps
in ascending order either extend the piece of memory touched so far, or repeat it at a distance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from ..loops.nodes import Buffer

Step = tuple[int, int]
"""A stride in bytes, and how many positions it separates."""


@dataclass(frozen=True)
class Touched:
    """One access: `steps` of its lanes and loops, `offset` in bytes; `steps` is None if its position is data."""

    buffer: Buffer
    size: int
    steps: tuple[Step, ...] | None
    offset: int = 0

    def within(self, stride: int | None, extent: int) -> Touched:
        """Return this access in a loop with iterations that move it by `stride` bytes; None: by data."""
        if self.steps is None or stride is None:
            return replace(self, steps=None)
        if not stride or extent <= 1:
            return self
        steps = tuple(sorted((*self.steps, (abs(stride), extent))))
        return replace(self, steps=steps, offset=self.offset + min(0, stride * (extent - 1)))


def bytes_of(accesses: Iterable[Touched], line: int, whole: Mapping[Buffer, int]) -> dict[Buffer, int]:
    """Return the bytes of each buffer that accesses touch, in whole cache lines; `whole` has the sizes of buffers."""
    alike: dict[tuple[Buffer, int, tuple[Step, ...]], set[int]] = {}
    found: dict[Buffer, int] = {}
    for access in accesses:
        if access.steps is None:
            found[access.buffer] = whole[access.buffer]
        else:
            alike.setdefault((access.buffer, access.size, access.steps), set()).add(access.offset)
    for (buffer, size, steps), offsets in alike.items():
        found[buffer] = found.get(buffer, 0) + _covered(size, steps, sorted(offsets), line)
    return {buffer: min(size, whole[buffer]) for buffer, size in found.items()}


def _covered(size: int, steps: Sequence[Step], offsets: Sequence[int], line: int) -> int:
    """Return the bytes, in whole lines, that pieces of `size` bytes cover at all sums of an offset and of steps."""
    run, far = _levels(size, steps, line)
    pieces: list[list[int]] = []
    for offset in offsets:
        if pieces and offset <= pieces[-1][1] + line:
            pieces[-1][1] = max(pieces[-1][1], offset + run)
        else:
            pieces.append([offset, offset + run])
    distances = {later[0] - earlier[0] for earlier, later in pairwise(pieces)}
    sizes = {end - start for start, end in pieces}
    if len(distances) <= 1 and len(sizes) == 1:  # pieces at equal distances are an additional step
        run, far = _levels(sizes.pop(), [*far, *((distance, len(pieces)) for distance in distances)], line)
        return _lines(run, line) * prod(count for _, count in far)
    return sum(_lines(end - start, line) for start, end in pieces) * prod(count for _, count in far)


def _levels(run: int, steps: Sequence[Step], line: int) -> tuple[int, list[Step]]:
    """Return the bytes of a piece that steps leave without a gap of a line, and the steps that repeat it farther away.

    A step within the reach of a smaller one is joined to it: windows of three rows at eight neighbouring places are ten
    rows.
    """
    far: list[Step] = []
    for stride, extent in sorted(steps):
        if not far and stride <= max(run, line):
            run += stride * (extent - 1)
        elif far and stride <= far[-1][0] * far[-1][1]:
            unit, count = far[-1]
            far[-1] = (unit, count + -(-stride // unit) * (extent - 1))
        else:
            far.append((stride, extent))
    return run, far


def _lines(size: int, line: int) -> int:
    return -(-size // line) * line
