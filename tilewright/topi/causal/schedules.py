"""Schedules of causal convolutions and their gradients."""

from __future__ import annotations

from typing import Any

from ...core.causal import WEIGHT_GRADIENT, Causal
from ...core.target import Target
from ...schedule.handle import ScheduleHandle, create_schedule
from ...tensor.axis import IterVar
from ...tensor.tensor import Tensor
from ..templates.schedule_helpers import bind_all, written_out
from .declarations import CausalDeclaration

_BYTES = 16
_STEPS = 512


def times_per_thread(of: Causal) -> int:
    """The number of times that a thread computes: more for longer filters, which read as many again."""
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
    written_out(s, d.result, thread, _STEPS, explicit=0)
    _keep(s, of, d, d.result, thread)
    return s


def _weight_gradient_on_gpu(s: ScheduleHandle, of: Causal, d: CausalDeclaration) -> None:
    """A thread sums the products of a part's times, a few at a time; then threads add the parts in a fixed order."""
    assert d.parts is not None
    sums = s.cache_write(d.parts, "local")
    i, q, k, c = d.parts.op.axis
    if of.last:
        co, inner = s[d.parts].split(c, factor=of.together)
        block, thread = s[d.parts].split(co, factor=min(128, -(-of.channels // of.together)))
        s[d.parts].reorder(i, q, block, thread, k, inner)
        bind_all(s, d.parts, (i, q, block, thread), ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.x"))
    else:
        block, other = s[d.parts].split(c, factor=16)
        q_block, thread = s[d.parts].split(q, factor=8)
        s[d.parts].reorder(i, q_block, block, other, thread, k)
        axes = (i, q_block, block, other, thread)
        bind_all(s, d.parts, axes, ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"))
    s[sums].compute_at(s[d.parts], thread)
    *_, k, c = sums.op.axis
    ro, ri = s[sums].split(sums.op.reduce_axis[0], factor=times_per_thread(of))
    s[sums].reorder(ro, ri, k, c)
    if of.last and of.together > 1:
        s[sums].vectorize(c)
    for axis in (ri, k):
        s[sums].unroll(axis)
        s[sums].pragma(axis, "unroll_explicit", 0)
    s[sums].pragma(ro, "auto_unroll_max_step", _STEPS)
    s[sums].pragma(ro, "unroll_explicit", 0)
    _keep(s, of, d, sums, ro)
    total = s.cache_write(d.result, "local")
    c, k = d.result.op.axis
    block, thread = s[d.result].split(c, factor=128)
    s[d.result].reorder(k, block, thread)
    bind_all(s, d.result, (k, block, thread), ("blockIdx.y", "blockIdx.x", "threadIdx.x"))
    s[total].compute_at(s[d.result], thread)


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


_LANES_BYTES, _CHUNK, _TIMES = 64, 64, 8


def on_cpu(of: Causal, d: CausalDeclaration) -> ScheduleHandle:
    """Vectors of channels or of times, as they lie in memory."""
    s = create_schedule(d.result.op)
    if of.step == WEIGHT_GRADIENT:
        _weight_gradient_on_cpu(s, of, d)
        return s
    out, lanes = s[d.result], _lanes(of)
    if of.last:
        i, t, c = d.result.op.axis
        chunk, t = out.split(t, factor=_CHUNK)
        to, ti = out.split(t, factor=_TIMES)
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
    """Vectors of channels, or of the terms of sums over times; parts in parallel."""
    parts, lanes = d.parts, _lanes(of)
    assert parts is not None
    c, k = d.result.op.axis
    s[d.result].parallel(c)
    i, q, k, c = parts.op.axis
    (r,) = parts.op.reduce_axis
    co, cv = s[parts].split(c, factor=lanes if of.last else 1)
    ro, ri = s[parts].split(r, factor=_TIMES)
    s[parts].reorder(i, q, co, ro, ri, k, cv)
    s[parts].parallel(s[parts].fuse(i, q))
    if of.last:
        s[parts].vectorize(cv)
    s[parts].unroll(k)
    _vectors(s, of, d, parts, ro, co)


def _lanes(of: Causal) -> int:
    return _LANES_BYTES // (8 if of.sums == "float64" else 4)


def _vectors(s: ScheduleHandle, of: Causal, d: CausalDeclaration, into: Tensor, at: IterVar, taps_at: IterVar) -> None:
    """Compute stages where they are needed, a vector at a time."""
    for stage in (*d.windows, *d.sums):
        if stage.ndim == 2:
            s[stage].compute_at(s[into], taps_at if stage.name == "taps" else at)
            continue
        s[stage].compute_at(s[into], at)
        axes = list(stage.op.axis)
        inner = axes.pop() if of.last or stage.ndim == 3 else axes.pop(2)
        outer, vector = s[stage].split(inner, factor=_lanes(of))
        s[stage].reorder(*axes, outer, *stage.op.reduce_axis, vector)
        s[stage].vectorize(vector)


SCHEDULES: dict[str, Any] = {"cuda": on_gpu, "llvm": on_cpu}


def scheduled(of: Causal, target: Target) -> tuple[ScheduleHandle, list[Tensor], dict[Tensor, Any]]:
    """The schedule of a pass, its arguments, and the buffers of those whose rows lie apart."""
    d = CausalDeclaration(of)
    return SCHEDULES[target.kind](of, d), [*d.arguments, *d.sizes.values()], d.binds
