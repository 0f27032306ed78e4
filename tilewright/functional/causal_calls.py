"""Causal convolutions on PyTorch's tensors: calls prepared by shapes, strides and types, then launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..topi.causal.update import Update
from ..topi.causal.workload import DATA_GRADIENT, FORWARD, WEIGHT_GRADIENT, Causal
from . import causal_by_pytorch
from .launcher import MISALIGNED
from .prepared_calls import PreparedCalls
from .running import failed
from .sized_programs import Kernel, Launch, TooLarge, launches, program_of, ready
from .torch_allocation import strided_allocator
from .torch_tensors import NAMES, _raw_stream, place
from .torch_threads import by_pytorch, threads

Run = Callable[..., Any]
_passes = PreparedCalls()
_updates = PreparedCalls()
_LONGEST = 16
"""New inputs of a decoding step that its kernel takes; more are computed as sequences with initial states."""


def facts(a: Any) -> tuple[Any, ...] | None:
    """Everything about a tensor that a prepared call depends on."""
    return None if a is None else (a.shape, a.stride(), a.dtype, a.device, a.is_neg())


def computed(
    step: str, grad: Any, x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any, activation: str
) -> Any:
    """The results, or a gradient: of x, or of the weights and the bias side by side as (channels, width + 1)."""
    key = (step, activation, facts(grad), facts(x), facts(weight), facts(bias), facts(seq_idx), facts(states))
    run = _passes.get(key)
    if run is None:
        version = _passes.version
        run = _prepared(step, grad, x, weight, bias, seq_idx, states, activation)
        _passes.keep(key, run, version)
    return run(grad, x, weight, bias, seq_idx, states)


def is_last(x: Any) -> bool:
    """Whether the channels of (batch, channels, length) lie side by side, rather than the times."""
    _, channels, length = x.shape
    return bool(channels > 1 and x.stride(1) == 1 and (length == 1 or x.stride(2) != 1))


def empty(x: Any, last: bool) -> Any:
    """A new tensor of the shape of x, in one of the two orders."""
    batch, channels, length = x.shape
    return x.new_empty(batch, length, channels).transpose(1, 2) if last else x.new_empty(batch, channels, length)


def _lies_well(a: Any, last: bool) -> bool:
    """Whether the rows of (batch, channels, length) are without gaps."""
    size, step = (a.shape[1], a.stride(1)) if last else (a.shape[2], a.stride(2))
    return bool(size == 1 or step == 1)


def in_rows(a: Any, last: bool) -> Any:
    """The tensor, or a copy whose rows are without gaps."""
    if _lies_well(a, last):
        return a
    return a.transpose(1, 2).contiguous().transpose(1, 2) if last else a.contiguous()


def _prepared(
    step: str, grad: Any, x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any, activation: str
) -> Run:
    given = (grad, x, weight, bias, seq_idx, states)
    last = is_last(x)
    wide = torch.promote_types(weight.dtype, weight.dtype if bias is None else bias.dtype)

    def plain(grad: Any, x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any) -> tuple[Any, ...]:
        return (
            None if grad is None else in_rows(grad.resolve_neg(), last),
            in_rows(x.resolve_neg(), last),
            weight.resolve_neg().to(wide).contiguous(),
            None if bias is None else bias.resolve_neg().to(wide).contiguous(),
            None if seq_idx is None else seq_idx.to(torch.int32).contiguous(),
            None if states is None else states.resolve_neg(),
        )

    if x.numel() == 0:
        if step == WEIGHT_GRADIENT:
            return lambda grad, x, weight, *_: torch.zeros(
                weight.shape[0], weight.shape[1] + 1, dtype=_sums(x, wide), device=x.device
            )
        return lambda grad, x, *_: empty(x, last)
    with by_pytorch():
        suitable = plain(*given)
    if any(a is not b for a, b in zip(given, suitable, strict=True)):

        def converted(*given: Any) -> Any:
            with by_pytorch():
                suitable = plain(*given)
            return computed(step, *suitable, activation)

        return converted
    of = Causal(
        step, weight.shape[0], weight.shape[1], NAMES[x.dtype], NAMES[wide], last, bias is not None,
        seq_idx is not None, states is not None, activation, _together(x, grad, last),
    )  # fmt: skip
    try:
        return _of_program(of, *given)
    except TooLarge:
        return lambda *given: _by_pytorch(step, *given, activation)


def _sums(x: Any, weights: Any) -> Any:
    return torch.float64 if torch.float64 in (x.dtype, weights) else torch.float32


def _together(x: Any, grad: Any, last: bool) -> int:
    """The neighbours that a thread of a GPU loads at once: as many as rows begin at multiples of."""
    if x.device.type == "cpu":
        return 1
    size = max(1, (4 if last else 16) // x.element_size())
    rows = [(a.shape[0], a.stride(0)) for a in (x, grad) if a is not None]
    rows += [(a.shape[2 if last else 1], a.stride(2 if last else 1)) for a in (x, grad) if a is not None]
    steps = [step for extent, step in rows if extent > 1] + [x.shape[1 if last else 2]]
    return size if all(step % size == 0 for step in steps) else 1


def _of_program(of: Causal, grad: Any, x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any) -> Run:
    on = place("causal_conv1d_fn", x)
    program = program_of(of, on, "topi.causal.schedules")
    batch, channels, length = x.shape
    rows = (batch, length, channels) if of.last else (batch, channels, length)
    if of.step == WEIGHT_GRADIENT:
        fresh = strided_allocator(x, (channels, of.width + 1), (of.width + 1, 1), _sums(x, weight.dtype))
        out = (channels, of.width + 1)
    else:
        steps = (length * channels, 1, channels) if of.last else (length * channels, length, 1)
        fresh, out = strided_allocator(x, tuple(x.shape), steps, x.dtype), rows
    size, each = of.together, 1 if of.last else of.together
    numbers = [batch, length // each]
    arrays: list[tuple[Any, Any]] = []
    for a in ((grad if of.step != FORWARD else None), (x if of.reads_x else None)):
        if a is not None:
            steps = _steps(a, of.last)
            arrays.append((rows, steps))
            numbers += [step // size for step in steps[:2]]
    if of.reads_weights:
        arrays += [((channels, of.width), None)] + [((channels,), None)] * of.bias
    arrays += [((batch, length), None)] * of.packed
    if of.states:
        arrays.append(((batch, channels, of.width - 1), tuple(states.stride())))
        numbers += states.stride()
    takes = (of.step != FORWARD, of.reads_x, of.reads_weights, of.reads_weights and of.bias, of.packed, of.states)
    found = launches(program, [*arrays, (out, None)], numbers)
    kernels = [(ready(program, one, on, threads()), one) for one in found.launches]
    launch = _launcher(kernels, found.scratch, x)

    def run(*given: Any) -> Any:
        made = fresh()
        status = launch(made, [a.data_ptr() for a, taken in zip(given, takes, strict=True) if taken] + [made.data_ptr()])
        return made if status == 0 else unaligned(*given)

    def unaligned(*given: Any) -> Any:
        return _of_program(of._replace(together=1), *given)(*given)

    return run


def _steps(a: Any, last: bool) -> tuple[int, int, int]:
    """The steps of rows, in the order of memory; 0 for a single row, which has none."""
    batch, row, inner = (0, 2, 1) if last else (0, 1, 2)
    return (a.stride(0) if a.shape[batch] > 1 else 0, a.stride(row) if a.shape[row] > 1 else 0, 1 if inner else 1)


def _launcher(
    kernels: Sequence[tuple[Kernel, Launch]], scratch: tuple[int, ...], x: Any
) -> Callable[[Any, list[int]], int]:
    """Start kernels on addresses; returns `MISALIGNED` if an address is not a multiple that one relies on."""
    on_gpu, index, team = x.device.type != "cpu", x.get_device() if x.device.type != "cpu" else 0, threads()

    def launch(made: Any, addresses: list[int]) -> int:
        if not on_gpu and not team.ready:
            team.start()
        spare = [torch.empty(size, dtype=torch.uint8, device=made.device) for size in scratch]
        stream = (_raw_stream(index),) if on_gpu else ()
        for kernel, one in kernels:
            pointers = [addresses[p] if p >= 0 else spare[-1 - p].data_ptr() for p in one.places]
            status = kernel.start(*pointers, *one.numbers, *stream)
            if status == MISALIGNED:
                return status
            if status and on_gpu:
                kernel.failed(status, (*pointers, *one.numbers, *stream))  # type: ignore[attr-defined]
            elif status:
                failed(status)
        return 0

    return launch


def _by_pytorch(
    step: str, grad: Any, x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any, activation: str
) -> Any:
    with by_pytorch():
        if step == FORWARD:
            return causal_by_pytorch.convolved(x, weight, bias, seq_idx, states, activation)
        wanted = (True, False, False, False) if step == DATA_GRADIENT else (False, True, bias is not None, False)
        found = causal_by_pytorch.gradients(grad, x, weight, bias, seq_idx, states, activation, wanted)
        if step == DATA_GRADIENT:
            return found[0]
        of_bias = torch.zeros_like(weight[:, 0]) if found[2] is None else found[2]
        return torch.cat([found[1], of_bias[:, None].to(found[1].dtype)], 1)


# Decoding steps


def updated(
    x: Any, state: Any, weight: Any, bias: Any, activation: str, counts: Any, rows: Any
) -> Any:
    """The results of a decoding step, of the shape of x; the state is updated."""
    key = (activation, facts(x), facts(state), facts(weight), facts(bias), facts(counts), facts(rows))
    run = _updates.get(key)
    if run is None:
        version = _updates.version
        run = _prepared_update(x, state, weight, bias, activation, counts, rows)
        _updates.keep(key, run, version)
    return run(x, state, weight, bias, counts, rows)


def _prepared_update(
    x: Any, state: Any, weight: Any, bias: Any, activation: str, counts: Any, rows: Any
) -> Run:
    x3 = x if x.dim() == 3 else x[..., None]
    batch, channels, length = x3.shape
    kept = state.shape[2]
    wide = torch.promote_types(weight.dtype, weight.dtype if bias is None else bias.dtype)
    last = x.dim() == 2 or is_last(x3)
    compact = {True: (1, channels), False: (kept, 1)}
    steps = tuple(step if size > 1 else None for size, step in zip(state.shape[1:], state.stride()[1:], strict=True))
    state_last = next((o for o, want in compact.items() if all(s in (None, w) for s, w in zip(steps, want))), None)
    suits = (
        state_last is not None
        and 0 < length <= _LONGEST
        and not any(a is not None and a.is_neg() for a in (x, state, weight, bias))
    )
    if x.numel() == 0:
        return lambda x, *_: torch.empty_like(x)
    if not suits:
        return lambda *given: _update_by_pytorch(*given, activation)

    def plain(x: Any, state: Any, weight: Any, bias: Any, counts: Any, rows: Any) -> tuple[Any, ...]:
        return (
            x, state, weight.to(wide).contiguous(), None if bias is None else bias.to(wide).contiguous(),
            *[None if a is None else a.to(torch.int32).contiguous() for a in (counts, rows)],
        )  # fmt: skip

    given = (x, state, weight, bias, counts, rows)
    with by_pytorch():
        suitable = plain(*given)
    if any(a is not b for a, b in zip(given, suitable, strict=True)):

        def converted(*given: Any) -> Any:
            with by_pytorch():
                x, state, weight, bias, counts, rows = plain(*given)
            return updated(x, state, weight, bias, activation, counts, rows)

        return converted
    of = Update(
        channels, weight.shape[1], NAMES[x.dtype], NAMES[wide], length, kept, last, bool(state_last), bias is not None,
        counts is not None, rows is not None, activation,
    )  # fmt: skip
    try:
        return _of_update(of, x, x3, state, bias, counts, rows)
    except TooLarge:
        return lambda *given: _update_by_pytorch(*given, activation)


def _of_update(of: Update, x: Any, x3: Any, state: Any, bias: Any, counts: Any, rows: Any) -> Run:
    on = place("causal_conv1d_update", x)
    program = program_of(of, on, "topi.causal.update")
    batch, channels, length = x3.shape
    steps = (of.channels * length, 1, channels) if of.last else (of.channels * length, length, 1)
    arrays: list[tuple[Any, Any]] = [(tuple(x3.shape), tuple(x3.stride())), ((channels, of.width), None)]
    arrays += [((channels,), None)] * of.bias + [((batch,), None)] * (of.circular + of.indexed)
    arrays.append((tuple(x3.shape), steps))
    inner = (1, channels) if of.state_last else (of.kept, 1)
    arrays.append((tuple(state.shape), (state.stride(0), *inner)))
    numbers = [batch, state.shape[0], *x3.stride(), state.stride(0)]
    found = launches(program, arrays, numbers)
    if not found.launches:  # no row of the state
        return lambda x, *_: torch.zeros_like(x)
    (one,) = found.launches
    shape = tuple(x.shape)
    fresh = strided_allocator(x, shape, steps[: len(shape)], x.dtype)
    launch = _launcher([(ready(program, one, on, threads()), one)], (), x)

    def run(x: Any, state: Any, weight: Any, bias: Any, counts: Any, rows: Any) -> Any:
        made = fresh()
        addresses = [a.data_ptr() for a in (x, weight, bias, counts, rows, made, state) if a is not None]
        launch(made, addresses)
        if not state.is_inference():
            torch.autograd.graph.increment_version(state)
        return made

    return run


def _update_by_pytorch(
    x: Any, state: Any, weight: Any, bias: Any, counts: Any, rows: Any, activation: str
) -> Any:
    with by_pytorch():
        x3 = x if x.dim() == 3 else x[..., None]
        made = causal_by_pytorch.updated(x3, state, weight, bias, activation, counts, rows)
        return made if x.dim() == 3 else made[..., 0]
