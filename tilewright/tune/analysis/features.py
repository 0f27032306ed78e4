"""The features of a candidate for a cost model: named numbers of its knobs, its loops, and its memory accesses.

Columns are matched by name; a loop that a candidate lacks counts as a loop of extent 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2

import numpy as np

from ...core.errors import UserError
from ...core.hardware import Hardware, LoopKind, MemoryScope, ThreadTag
from ...refine.usage import KernelUse
from ..space.knobs import Knob, SplitKnob
from ..space.space import Space
from .accesses import AffineAccess, Statement

KINDS = ("knob", "itervar", "curve")
Features = dict[str, float]

_CURVE = tuple(2.0**k for k in range(0, 21, 2))
"""Footprints in elements at which the curves are sampled."""


def check_kind(kind: str) -> str:
    """Return `kind` if it is one of KINDS; raise UserError otherwise."""
    if kind not in KINDS:
        raise UserError(f"feature_type {kind!r} is unknown", primitive="tuner", fix=f"use one of {', '.join(KINDS)}")
    return kind


def of_nest(kind: str, statements: Sequence[Statement], uses: Sequence[KernelUse], hardware: Hardware) -> Features:
    """Return the features of a loop nest: of every loop for kind "itervar", of reuse against footprint for "curve"."""
    per_statement = _itervar if kind == "itervar" else _curve
    found: Features = {}
    for i, use in enumerate(uses):
        found.update((f"kernel{i}.{name}", value) for name, value in _kernel(use, hardware))
    for i, statement in enumerate(statements):
        found.update((f"{i}.{statement.name}.{name}", value) for name, value in _work(statement))
        found.update((f"{i}.{statement.name}.{name}", value) for name, value in per_statement(statement))
    return found


def _log(value: float) -> float:
    return log2(1.0 + abs(value))


def _kernel(use: KernelUse, hardware: Hardware) -> Iterator[tuple[str, float]]:
    yield "threads", _log(use.threads)
    yield "blocks", _log(use.blocks)
    yield "vthreads", _log(use.vthreads)
    yield "shared", _log(use.bytes_in(MemoryScope.SHARED))
    yield "local", _log(use.local_words)
    yield "warps filled", use.threads / (-(-use.threads // hardware.warp) * hardware.warp)
    for tag, extent in use.extents.items():
        yield tag.value, _log(extent)


def _work(statement: Statement) -> Iterator[tuple[str, float]]:
    own = [loop.extent for loop in statement.loops if loop.thread in (None, ThreadTag.VTHREAD)]
    unrolled = [loop.extent for loop in statement.loops if loop.kind is LoopKind.UNROLLED]
    yield "per thread", _log(float(np.prod(own)))
    yield "unrolled", _log(float(np.prod(unrolled)))
    yield "operations", float(statement.operations)


def _itervar(statement: Statement) -> Iterator[tuple[str, float]]:
    extents = statement.extents
    before = np.concatenate([[1.0], np.cumprod(extents)])
    after = np.concatenate([np.cumprod(extents[::-1])[::-1], [1.0]])
    touched = [access.touched(extents) for access in statement.accesses]
    vthreads = 0
    for depth, loop in enumerate(statement.loops):
        name = loop.var.name if loop.thread is None else loop.thread.value
        if loop.thread is ThreadTag.VTHREAD:  # each is its own
            name, vthreads = f"{name}{vthreads}", vthreads + 1
        yield f"{name}.extent", _log(loop.extent)
        yield f"{name}.before", _log(before[depth])
        yield f"{name}.after", _log(after[depth])
        for k, access in enumerate(statement.accesses):
            yield f"{name}.{k}.stride", _log(access.strides[depth])
            yield f"{name}.{k}.touched", _log(touched[k][depth])
            yield f"{name}.{k}.reuse", _log(after[depth] / touched[k][depth])


def _curve(statement: Statement) -> Iterator[tuple[str, float]]:
    extents = statement.extents
    after = np.concatenate([np.cumprod(extents[::-1])[::-1], [1.0]])
    for k, access in enumerate(statement.accesses):
        touched = access.touched(extents)
        reuse = after / touched
        for footprint in _CURVE:
            within = touched <= footprint
            yield f"{k}.reuse within {footprint:.0f}", _log(reuse[within].max())
            yield f"{k}.work within {footprint:.0f}", _log(after[within].max())
        yield f"{k}.stride", _log(_thread_stride(statement, access))


def _thread_stride(statement: Statement, access: AffineAccess) -> float:
    """Return the distance, in elements, between the accesses of neighbouring threads."""
    for depth, loop in enumerate(statement.loops):
        if loop.thread is ThreadTag.THREAD_X:
            return float(access.strides[depth])
    return 0.0


class KnobTable:
    """The numbers of a knob's choices by index; the inferred size of a split is computed."""

    def __init__(self, knob: Knob) -> None:
        self._knob = knob
        listed = isinstance(knob.choices, tuple)
        self._rows = self._made(range(len(knob))) if listed else None

    def __getitem__(self, places: np.ndarray) -> np.ndarray:
        """Return one row per index."""
        return self._made(places.tolist()) if self._rows is None else self._rows[places]

    def _made(self, places: Sequence[int]) -> np.ndarray:
        knob = self._knob
        rows = np.array([knob.numbers(i) for i in places], dtype=np.float64).reshape(len(places), -1)
        if isinstance(knob, SplitKnob):
            rows = np.where(rows < 0, knob.product // np.abs(rows.prod(axis=1, keepdims=True)), rows)
            rows = np.log2(1 + rows)
        return rows


def of_knobs(space: Space) -> list[KnobTable]:
    """Return the table of each knob."""
    return [KnobTable(knob) for knob in space.knobs]


class FeatureColumns:
    """Converts named features to rows of a matrix. Its columns are the features that differed in the last call of
    `learn`."""

    def __init__(self) -> None:
        self._place: dict[str, int] = {}
        self._kept = np.zeros(0, dtype=np.int64)

    def learn(self, rows: Sequence[Features]) -> None:
        """Choose the columns by these rows; leave out constant columns and duplicates."""
        self._place = {name: i for i, name in enumerate(sorted({name for row in rows for name in row}))}
        whole = self._whole(rows)
        _, first = np.unique(whole, axis=1, return_index=True)
        changing = np.flatnonzero(np.ptp(whole, axis=0) > 0)
        self._kept = np.intersect1d(first, changing)

    def matrix(self, rows: Sequence[Features]) -> np.ndarray:
        """Return one row per candidate. A missing feature is 0; unknown features are dropped."""
        chosen: np.ndarray = self._whole(rows)[:, self._kept]
        return chosen

    def _whole(self, rows: Sequence[Features]) -> np.ndarray:
        made = np.zeros((len(rows), len(self._place)))
        known: dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]] = {}  # most rows have the same features
        for i, row in enumerate(rows):
            names = tuple(row)
            if names not in known:
                places = np.array([self._place.get(name, -1) for name in names], dtype=np.int64)
                known[names] = places[places >= 0], np.flatnonzero(places >= 0)
            places, at = known[names]
            made[i, places] = np.fromiter(row.values(), np.float64, len(row))[at]
        return made
