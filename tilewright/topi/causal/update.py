"""One decoding step of a causal convolution: it reads the state, and writes the results and the new state.

It is a statement rather than a declaration, since its state is an argument that is read before it is written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...core.causal import CausalUpdate
from ...core.target import Target
from ...expr.convert import cast, const
from ...expr.intrinsics import TABLE
from ...expr.operators import all_of, floormod, maximum, minimum
from ...expr.variables import size_var
from ...loops import ir_builder
from ...loops.declare import decl_buffer
from ...schedule.handle import ScheduleHandle, create_schedule
from ...tensor.axis import thread_axis
from ...tensor.extern import ExternOp
from ...tensor.tensor import Tensor, placeholder

_THREADS = 128
_sigmoid = TABLE["sigmoid"]


class _Arguments(NamedTuple):
    """The memory of a step, as statements access it; None for absent arguments."""

    x: Any
    weight: Any
    bias: Any
    counts: Any
    rows: Any
    out: Any
    state: Any
    entries: Any


def scheduled(of: CausalUpdate, target: Target) -> tuple[ScheduleHandle, list[Any], dict[Tensor, Any]]:
    """The step as a schedule of one statement, its arguments (the state is the last tensor), and their buffers."""
    sizes = {name: size_var(name) for name in "batch entries x_batch x_channel x_time state_batch".split()}
    # Threads write the state without waiting for each other only if its steps are known.
    steps: dict[str, list[Any]] = {
        "x": [sizes[f"x_{step}"] for step in ("batch", "channel", "time")],
        "state": [sizes["state_batch"], *((1, of.channels) if of.state_last else (of.kept, 1))],
    }
    batch, entries = sizes["batch"], sizes["entries"]
    shape = (batch, of.channels, of.times)
    given: dict[str, tuple[Any, str] | None] = {
        "x": (shape, of.dtype),
        "weight": ((of.channels, of.width), of.weights),
        "bias": ((of.channels,), of.weights) if of.bias else None,
        "counts": ((batch,), "int32") if of.circular else None,
        "rows": ((batch,), "int32") if of.indexed else None,
    }
    there = {name: value for name, value in given.items() if value is not None}
    tensors = [placeholder(shape, dtype, name) for name, (shape, dtype) in there.items()]
    ins = [decl_buffer(t.shape, str(t.dtype), t.name, strides=steps.get(t.name)) for t in tensors]
    compact = [of.channels * of.times, 1, of.channels] if of.last else [of.channels * of.times, of.times, 1]
    state = (entries, of.channels, of.kept)
    outs = [
        decl_buffer(shape, of.dtype, "out", strides=compact),
        decl_buffer(state, of.dtype, "state", strides=steps["state"]),
    ]
    ib = ir_builder.create()
    pointers = dict(zip(there, (ib.buffer_ptr(b) for b in ins), strict=True))
    out, held = (ib.buffer_ptr(b) for b in outs)
    arguments = _Arguments(*(*[pointers.get(name) for name in given], out, held, entries))
    if target.is_gpu:
        _on_gpu(ib, of, batch, arguments)
    else:
        with ib.for_range(0, batch, "i", kind="parallel") as i, ib.for_range(0, of.channels, "c") as c:
            _step(ib, of, i, c, arguments)
    shapes = (tuple(outs[0].shape), tuple(outs[1].shape))
    kinds = tuple(b.dtype for b in outs)
    op = ExternOp("update", tuple(tensors), shapes, kinds, ib.get(), tuple(ins), tuple(outs), "update")
    made = list(op.outputs)
    binds = dict(zip([*tensors, *made], [*ins, *outs], strict=True))
    return create_schedule(op), [*tensors, *made, *sizes.values()], binds


def _on_gpu(ib: Any, of: CausalUpdate, batch: Any, arguments: _Arguments) -> None:
    """A thread for each sequence and each channel."""
    threads = min(_THREADS, of.channels)
    extents = {"blockIdx.y": batch, "blockIdx.x": -(-of.channels // threads), "threadIdx.x": threads}
    axes = {tag: thread_axis(tag) for tag in extents}
    for tag, extent in extents.items():
        ib.scope_attr(axes[tag], "thread_extent", extent)
    i, block, thread = (axes[tag].var for tag in extents)
    _step(ib, of, i, block * threads + thread, arguments, whole=of.channels % threads == 0)


def _step(ib: Any, of: CausalUpdate, i: Any, c: Any, a: _Arguments, whole: bool = True) -> None:
    """The step of one channel. It reads the whole state before any write, so that threads wait only once."""
    before, new, kept = of.width - 1, of.times, of.kept
    row = i if a.rows is None else ib.let("row", a.rows[i])
    at = row if a.rows is None else ib.let("at", maximum(minimum(row, a.entries - 1), 0))
    channel = c if whole else minimum(c, of.channels - 1)
    first = None if a.counts is None else ib.let("first", floormod(a.counts[i], kept))

    def place(time: int) -> Any:
        """The place in the state of an input, counted from the first new one."""
        return kept + time if first is None else floormod(first + (time + kept), kept)

    values = ib.allocate(of.dtype, (before + new,), name="values", scope="local")
    for j in range(before):
        values[j] = a.state[at, channel, place(j - before)]
    for j in range(new):
        values[before + j] = a.x[i, channel, j]
    moved = max(0, kept - new) if first is None else 0
    older: Any = ib.allocate(of.dtype, (moved,), name="older", scope="local") if moved else None
    for j in range(moved):
        older[j] = a.state[at, channel, j + new]
    conditions = [row >= 0, row < a.entries] if a.rows is not None else []

    def store(buffer: Any, time: Any, value: Any) -> None:
        # Separate steps: all threads pass the barriers between them.
        if whole:
            buffer[at if buffer is a.state else i, c, time] = value
            return
        with ib.if_scope(c < of.channels):
            buffer[at if buffer is a.state else i, c, time] = value

    def write() -> None:
        for j in range(moved):
            store(a.state, j, older[j])
        for j in range(new):
            if first is not None:
                store(a.state, floormod(first + j, kept), values[before + j])
            elif kept - new + j >= 0:
                store(a.state, kept - new + j, values[before + j])
        for j in range(new):
            store(a.out, j, _result(of, values, channel, j, a))

    if not conditions:
        write()
        return
    with ib.if_scope(all_of(*conditions)):
        write()
    with ib.else_scope():
        for j in range(new):
            store(a.out, j, const(0.0, of.dtype))


def _result(of: CausalUpdate, values: Any, channel: Any, time: int, a: _Arguments) -> Any:
    """The result at one time."""
    total = const(0.0, of.sums) if a.bias is None else cast(of.sums, a.bias[channel])
    for k in range(of.width):
        total = total + cast(of.sums, values[time + k]) * cast(of.sums, a.weight[channel, k])
    return cast(of.dtype, total * _sigmoid(total) if of.activation else total)
