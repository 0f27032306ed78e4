"""Schedules of causal convolutions and their gradients."""

from __future__ import annotations

from math import gcd
from typing import Any

from ...core.causal import FORWARD, WEIGHT_GRADIENT, Causal
from ...core.target import Target
from ...schedule.handle import ScheduleHandle, create_schedule
from ...tensor.axis import IterVar
from ...tensor.tensor import Tensor
from ...tune.model.machine import REFERENCE
from ..templates.schedule_helpers import bind_all, set_unrolling
from .declarations import CausalDeclaration

_STEPS = 512
"""Iterations of loops that the compiler unrolls."""
_TIMES_PER_PART = 256
"""Times per part of a gradient of the weights."""
_WARP = REFERENCE.hardware.warp
_ROUNDS = 8
"""Rounds of the lanes that share a part, if times are contiguous."""


def times_per_thread(of: Causal) -> int:
    """The number of times that a thread computes: more for longer filters, which read as many again."""
    if of.step == FORWARD and of.together > 1 and not of.last:  # one vector: 134 instead of 184 us on an H200
        return of.together if of.width <= 8 else 2 * of.together
    return 8 if of.width <= 8 else 16


def on_gpu(of: Causal, d: CausalDeclaration) -> ScheduleHandle:
    """A thread computes a few times of a few neighbouring channels, or a few neighbouring times of one channel."""
    s = create_schedule(d.result.op)
    if of.step == WEIGHT_GRADIENT:
        _weight_gradient_on_gpu(s, of, d)
        return s
    times = times_per_thread(of)
    axes = list(d.result.op.axis)
    if of.last:
        i, t, c = axes
        to, ti = s[d.result].split(t, factor=times)
        co, inner = s[d.result].split(c, factor=of.together)
        block, thread = s[d.result].split(co, factor=min(128, -(-of.channels // of.together)))
        s[d.result].reorder(i, to, block, thread, ti, inner)
        bind_all(s, d.result, (i, to, block, thread), ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.x"))
    else:
        i, c, t = axes
        to, inner = s[d.result].split(t, factor=of.together)
        to, ti = s[d.result].split(to, factor=max(1, times // of.together))
        block, thread = s[d.result].split(to, factor=128)
        s[d.result].reorder(i, c, block, thread, ti, inner)
        bind_all(s, d.result, (i, block, c, thread), ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.x"))
    if of.together > 1:
        s[d.result].vectorize(inner)
    set_unrolling(s, d.result, thread, _STEPS, explicit=0)
    _keep(s, of, d, d.result, thread)
    return s


def _weight_gradient_on_gpu(s: ScheduleHandle, of: Causal, d: CausalDeclaration) -> None:
    """A thread sums the products of a part's times, a few at a time; then threads add the parts in a fixed order."""
    assert d.parts is not None
    sums = s.cache_write(d.parts, "local")
    i, q, k, c, v = d.parts.op.axis
    if of.last:
        co, inner = s[d.parts].split(c, factor=of.together)
        block, thread = s[d.parts].split(co, factor=min(128, -(-of.channels // of.together)))
        s[d.parts].reorder(i, q, block, thread, k, inner, v)
        bind_all(s, d.parts, (i, q, block, thread), ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.x"))
    else:
        thread, inner = v, None
        block, other = s[d.parts].split(c, factor=4)
        s[d.parts].reorder(i, q, block, other, v, k)
        axes = (i, q, block, other, v)
        bind_all(s, d.parts, axes, ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"))
    s[sums].compute_at(s[d.parts], thread)
    _, _, k, c, v = sums.op.axis
    r, u = sums.op.reduce_axis
    outer, inner = s[sums].split(r, factor=times_per_thread(of)) if of.last else (r, u)
    s[sums].reorder(outer, *([inner, u] if of.last else [u]), k, v, c)
    if of.last and of.together > 1:
        s[sums].vectorize(c)
    for axis in (inner, k):
        s[sums].unroll(axis)
        s[sums].pragma(axis, "unroll_explicit", 0)
    set_unrolling(s, sums, outer, _STEPS, explicit=0)
    _keep(s, of, d, sums, outer)
    for stage in d.sums:
        if stage.name in ("taps", "offsets"):
            s[stage].compute_at(s[d.parts], thread)
    total = s.cache_write(d.result, "local")
    c, k = d.result.op.axis
    block, thread = s[d.result].split(c, factor=128)
    s[d.result].reorder(k, block, thread)
    bind_all(s, d.result, (k, block, thread), ("blockIdx.y", "blockIdx.x", "threadIdx.x"))
    s[total].compute_at(s[d.result], thread)
    # Many loads are under way at once.
    i, q, v = total.op.reduce_axis
    q, some = s[total].split(q, factor=8 if of.last else 1)
    for axis in (some, v):
        s[total].unroll(axis)
        s[total].pragma(axis, "unroll_explicit", 0)


def _keep(s: ScheduleHandle, of: Causal, d: CausalDeclaration, into: Tensor, at: IterVar) -> None:
    """Compute stages in a thread's registers."""
    for stage in (*d.windows, *d.sums):
        s[stage].compute_at(s[into], at)
    for stage in d.windows:
        inner = stage.op.axis[-1]
        if of.together > 1 and len(stage.shape) > 2:
            s[stage].vectorize(inner)
    for stage in d.sums:
        if of.last and of.together > 1 and stage.op.reduce_axis:
            *outer, inner = stage.op.axis
            s[stage].reorder(*outer, *stage.op.reduce_axis, inner)
            s[stage].vectorize(inner)


_VECTOR_BYTES = 64
_CHUNK_TIMES = 64
_UNROLLED_TIMES = 8


def on_cpu(of: Causal, d: CausalDeclaration) -> ScheduleHandle:
    """Vectors of channels or of times, as they lie in memory."""
    s = create_schedule(d.result.op)
    if of.step == WEIGHT_GRADIENT:
        _weight_gradient_on_cpu(s, of, d)
        return s
    out, lanes = s[d.result], _lanes(of)
    if of.last:
        i, t, c = d.result.op.axis
        chunk, t = out.split(t, factor=_CHUNK_TIMES)
        to, ti = out.split(t, factor=_UNROLLED_TIMES)
        co, cv = out.split(c, factor=lanes)
        out.reorder(i, chunk, co, to, ti, cv)
        out.parallel(out.fuse(i, chunk))
        _vectors(s, of, d, d.result, to, co)
        out.vectorize(cv)
        return s
    i, c, t = d.result.op.axis
    to, ti = out.split(t, factor=4 * lanes)
    _, tv = out.split(ti, factor=lanes)
    outer = out.fuse(i, c)
    out.parallel(outer)
    out.vectorize(tv)
    _vectors(s, of, d, d.result, to, outer)
    return s


def _weight_gradient_on_cpu(s: ScheduleHandle, of: Causal, d: CausalDeclaration) -> None:
    """Vectors of channels, or of times that are summed apart; parts in parallel."""
    parts, lanes = d.parts, _lanes(of)
    assert parts is not None
    s[d.result].parallel(d.result.op.axis[0])
    i, q, k, c, v = parts.op.axis
    r, u = parts.op.reduce_axis
    if of.last:
        co, vector = s[parts].split(c, factor=lanes)
        ro, ri = s[parts].split(r, factor=_UNROLLED_TIMES)
        s[parts].reorder(i, q, co, v, ro, ri, u, k, vector)
    else:
        co, ro, vector = c, r, v
        s[parts].reorder(i, q, c, r, u, k, v)
    s[parts].parallel(s[parts].fuse(i, q))
    s[parts].vectorize(vector)
    s[parts].unroll(k)
    _vectors(s, of, d, parts, ro, co)


def _lanes(of: Causal) -> int:
    """Channels per vector, a divisor of the channels, so that every vector is whole."""
    lanes = _VECTOR_BYTES // (8 if of.sums == "float64" else 4)
    return gcd(lanes, of.channels) if of.last else lanes


def _vectors(s: ScheduleHandle, of: Causal, d: CausalDeclaration, into: Tensor, at: IterVar, taps_at: IterVar) -> None:
    """Compute stages at the loops that need them, a vector at a time."""
    for stage in (*d.windows, *d.sums):
        if stage.ndim <= 2:
            s[stage].compute_at(s[into], at if stage.name == "numbers" else taps_at)
            continue
        s[stage].compute_at(s[into], at)
        axes = list(stage.op.axis)
        inner = axes.pop() if of.last or stage.ndim == 3 else axes.pop(2)
        outer, vector = s[stage].split(inner, factor=_lanes(of))
        s[stage].reorder(*axes, outer, *stage.op.reduce_axis, vector)
        s[stage].vectorize(vector)


def scheduled(of: Causal, target: Target) -> tuple[ScheduleHandle, list[Any], dict[Tensor, Any]]:
    """The schedule of a pass, its arguments, and the buffers of arguments with gaps between rows."""
    if of.last:
        part = (1, _TIMES_PER_PART, 1)
    else:
        part = (
            (_WARP, _ROUNDS, times_per_thread(of)) if target.is_gpu else (_lanes(of), _TIMES_PER_PART // _lanes(of), 1)
        )
    d = CausalDeclaration(of, part)
    schedule = (on_gpu if target.is_gpu else on_cpu)(of, d)
    return schedule, [*d.arguments, *d.sizes.values()], d.binds
