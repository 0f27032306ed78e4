"""The features of loops in the legacy form: one row per loop, with its effect on each access inside it.

The initialisation of sums is left out, so that the number of features does not depend on the order of loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from ...core.hardware import HARDWARE_TAGS, LoopKind
from ...expr.nodes import Var
from .accesses import AffineAccess, LoopFact, Statement

_KINDS = [LoopKind.UNROLLED, LoopKind.VECTORIZED, LoopKind.PARALLEL, LoopKind.SERIAL]
_PLACES = len(HARDWARE_TAGS) + len(_KINDS) + 1


@dataclass
class LoopRow:
    """A loop: its depth from 1 on, the iterations around and inside it, the index of its kind, and its accesses."""

    var: Var
    extent: int
    depth: int
    around: int
    inside: int = -1
    kind: int = 0
    arithmetic: list[int] = field(default_factory=lambda: [0, 0, 0])
    touched: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """For each access: stride, -1, touched elements, uses per element, and the latter two per thread or block."""

    @property
    def attributes(self) -> list[int]:
        """Return extent, depth, iterations around and inside, and the loop's kind one-hot encoded."""
        return [self.extent, self.depth, self.around, self.inside, *(int(i == self.kind) for i in range(_PLACES))]


def loop_rows(statements: Sequence[Statement]) -> list[LoopRow]:
    """Return one row per loop, in the order in which loops begin."""
    rows: dict[Var, LoopRow] = {}
    numbers: dict[str, int] = {}
    for statement in _updates(statements):
        around = 1
        for depth, loop in enumerate(statement.loops):
            around *= loop.extent
            rows.setdefault(loop.var, LoopRow(loop.var, loop.extent, depth + 1, around, kind=_kind(loop)))
        for access in statement.accesses:
            name = access.buffer.name
            number = numbers[name] = numbers.get(name, -1) + 1
            _touch(rows, statement.loops, access, f"{name}_{number}")
        if statement.loops:
            own = rows[statement.loops[-1].var].arithmetic
            own[:] = [a + b for a, b in zip(own, statement.arithmetic, strict=True)]
    return list(rows.values())


def _updates(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements without initialisations of sums."""
    both = {s.accesses[0].buffer for s in statements if _reads(s)}
    return [s for s in statements if _reads(s) or s.accesses[0].buffer not in both]


def _reads(statement: Statement) -> bool:
    """Return whether a statement reads its own destination."""
    written, *read = statement.accesses
    return any(access.buffer is written.buffer for access in read)


def _kind(loop: LoopFact) -> int:
    if loop.thread in HARDWARE_TAGS:
        return HARDWARE_TAGS.index(loop.thread)
    if loop.thread is not None:
        return _PLACES - 1
    return len(HARDWARE_TAGS) + (_KINDS.index(loop.kind) if loop.kind in _KINDS else len(_KINDS) - 1)


def _level(loop: LoopFact) -> int:
    """Return 2 for loops over blocks, 1 for threads and processors, else 0."""
    place = _kind(loop)
    return 2 if place < 3 else 1 if place < len(HARDWARE_TAGS) or loop.kind is LoopKind.PARALLEL else 0


def _touch(rows: dict[Var, LoopRow], loops: Sequence[LoopFact], access: AffineAccess, name: str) -> None:
    """Add an access to the rows of the loops around it."""
    strides = [int(abs(stride)) for stride in access.strides]
    extents = [loop.extent for loop in loops]
    moves, stays = (
        [prod(n for n, s in zip(extents[d:], strides[d:], strict=True) if bool(s) is moving) for d in range(len(loops))]
        for moving in (True, False)
    )
    for d, loop in enumerate(loops):
        base = next(
            (i for i in range(d + 1, len(loops)) if _level(loops[i - 1]) == _level(loops[i]) + 1 == _level(loop)), 0
        )
        shared = (moves[d] // moves[base], stays[d] // stays[base]) if base else (0, 0)
        row = rows[loop.var]
        row.touched[name] = (strides[d], -1, moves[d], stays[d], *shared)
        row.inside = max(row.inside, moves[d] * stays[d])
