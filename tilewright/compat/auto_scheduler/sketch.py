"""Sketches: states with splits by unknown lengths, which a script's own rules make. A search chooses the lengths."""

from __future__ import annotations

import random
from collections.abc import Iterator as Yields
from contextlib import suppress
from math import prod
from typing import Any

from ...core.errors import UserError
from ...core.target import Target
from .loop_state import Iterator, Stage, State

_MOST_INNERMOST = 64
"""The largest innermost length that is chosen, as in the legacy API, and the largest vectorized loop."""
_MOST_ATTEMPTS = 4
"""Attempts per state to find another choice of lengths."""
_SPATIAL = Iterator.ITER_KIND_TRANS_TABLE["spatial"]


def is_open(state: State) -> bool:
    """Return whether a search must choose lengths of the state's splits."""
    return any(step[0] == "SP" and None in step[4] for step in state.transform_steps)


def filled(state: State, target: Target, count: int) -> list[State]:
    """Return up to `count` states with chosen lengths; a state without open lengths alone.

    The lengths are random divisors of the extents. On a CPU, loops without an annotation are shared out to threads if
    they are outermost, and vectorized if they are innermost.
    """
    if not is_open(state):
        return [state]
    rng = random.Random(str(state.transform_steps))
    found: dict[State, None] = {}
    for _ in range(_MOST_ATTEMPTS * count):
        steps = [_chosen(step, rng) if step[0] == "SP" else list(step) for step in state.transform_steps]
        with suppress(UserError):
            made = State(steps, state.dag)
            found[made if target.is_gpu else annotated(made)] = None
        if len(found) == count:
            break
    return list(found)


def _chosen(step: list[Any], rng: random.Random) -> list[Any]:
    """A split with numbers for its open lengths: their product divides the extent."""
    code, stage, loop, extent, lengths, from_inner = step
    rest = (extent or 1) // prod(length or 1 for length in lengths)
    found = list(lengths)
    for place in rng.sample(range(len(found)), len(found)):
        if found[place] is None:
            is_innermost = place == len(found) - 1 and from_inner
            found[place] = rng.choice([d for d in _divisors(rest) if not is_innermost or d <= _MOST_INNERMOST])
            rest //= found[place]
    return [code, stage, loop, extent, found, from_inner]


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, max(number, 1) + 1) if number % d == 0] or [1]


def annotated(state: State) -> State:
    """Return a state with parallel outermost loops and vectorized innermost data loops."""
    made = state.copy()
    for number, stage in enumerate(made.stages):
        if not stage.op_type or stage.compute_at == Stage.COMPUTE_AT_TRANS_TABLE["inlined"]:
            continue
        holders = made.loops_with_stages(number)
        last = stage.iters[-1] if stage.iters else None
        if last is not None and _is_free(last) and last.axis not in holders and 1 < _extent(last) <= _MOST_INNERMOST:
            made.vectorize(number, last)
        if stage.compute_at == Stage.COMPUTE_AT_TRANS_TABLE["root"]:
            outer = list(_outermost(made[number], holders))
            if outer:
                made.parallel(number, made.fuse(number, outer) if len(outer) > 1 else outer[0])
    return made


def _outermost(stage: Stage, holders: set[Any]) -> Yields[Iterator]:
    """The outermost data loops without an annotation, before loops that hold other stages; at least the first loop."""
    for place, loop in enumerate(stage.iters):
        if not _is_free(loop) or (place and loop.axis in holders):
            return
        yield loop
        if loop.axis in holders:
            return


def _is_free(loop: Iterator) -> bool:
    return loop.iter_kind == _SPATIAL and not loop.annotation


def _extent(loop: Iterator) -> int:
    return int(getattr(loop.range.extent, "value", 0)) if loop.range is not None else 0
