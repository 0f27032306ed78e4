"""Causal convolutions on PyTorch's tensors: calls are prepared once per shapes, strides and types, then launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ...core.causal import DATA_GRADIENT, FORWARD, WEIGHT_GRADIENT, Causal
from ..planning.prepared_calls import PreparedCalls
from ..programs.sized_programs import UnsuitableError, sized, sized_program
from ..pytorch.allocation import strided_allocator
from ..pytorch.launches import starts_of
from ..pytorch.tensors import NAMES, facts, place
from ..pytorch.threads import by_pytorch
from . import native

if TYPE_CHECKING:
    from ...core.target import Target

Run = Callable[..., Any]
_passes = PreparedCalls()


def computed(step: str, grad: Any, x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any, activation: str) -> Any:
    """Return the results, the gradient with respect to x, or the gradients of weights and bias as (channels, width +
    1)."""
    run = executor(step, grad, x, weight, bias, seq_idx, states, activation)
    return run(grad, x, weight, bias, seq_idx, states)


def executor(step: str, grad: Any, x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any, activation: str) -> Run:
    """Return a function of (grad, x, weight, bias, seq_idx, states) for passes on tensors of these shapes, strides and
    types."""
    given = (grad, x, weight, bias, seq_idx, states)
    key = (step, activation, *[None if a is None else facts(a) for a in given])
    found: Run = _passes.made(key, lambda: _prepared(step, activation, *given))
    return found


def is_last(x: Any) -> bool:
    """Return whether the channels of (batch, channels, length) are contiguous in memory, rather than the length."""
    _, channels, length = x.shape
    return bool(channels > 1 and x.stride(1) == 1 and (length == 1 or x.stride(2) != 1))


def empty(x: Any, last: bool) -> Any:
    """Return a new tensor of the shape of x; with `last`, its channels are contiguous in memory."""
    batch, channels, length = x.shape
    return x.new_empty(batch, length, channels).transpose(1, 2) if last else x.new_empty(batch, channels, length)


def _lies_well(a: Any, last: bool) -> bool:
    """Return whether the rows of (batch, channels, length) have no gaps."""
    size, step = (a.shape[1], a.stride(1)) if last else (a.shape[2], a.stride(2))
    return bool(size == 1 or step == 1)


def in_rows(a: Any, last: bool) -> Any:
    """Return the tensor if its rows have no gaps, else a copy."""
    if _lies_well(a, last):
        return a
    return a.transpose(1, 2).contiguous().transpose(1, 2) if last else a.contiguous()


def converting(given: tuple[Any, ...], convert: Run, compute: Run) -> Run | None:
    """Return an executor that converts such tensors before it computes; None if they need no conversion."""
    with by_pytorch():
        suitable = convert(*given)
    if all(a is b for a, b in zip(given, suitable, strict=True)):
        return None

    def converted(*given: Any) -> Any:
        with by_pytorch():
            suitable = convert(*given)
        return compute(*suitable)

    return converted


def _prepared(step: str, activation: str, grad: Any, x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any) -> Run:
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
    if converted := converting(given, plain, lambda *suitable: computed(*(step, *suitable, activation))):
        return converted
    of = Causal(
        step, weight.shape[0], weight.shape[1], NAMES[x.dtype], NAMES[wide], last, bias is not None,
        seq_idx is not None, states is not None, activation, _together(x, grad, last),
    )  # fmt: skip
    try:
        return _of_program(of, *given)
    except UnsuitableError:
        return lambda *given: _by_pytorch(*(step, *given, activation))


def _sums(x: Any, weights: Any) -> Any:
    return torch.float64 if torch.float64 in (x.dtype, weights) else torch.float32


def _together(x: Any, grad: Any, last: bool) -> int:
    """Return the number of neighbours per load of a GPU thread. Each row begins at a multiple of this number."""
    if x.device.type == "cpu":
        return 1
    size = max(1, (4 if last else 16) // x.element_size())
    rows = [(a.shape[0], a.stride(0)) for a in (x, grad) if a is not None]
    rows += [(a.shape[2 if last else 1], a.stride(2 if last else 1)) for a in (x, grad) if a is not None]
    steps = [step for extent, step in rows if extent > 1] + [x.shape[1 if last else 2]]
    return size if all(step % size == 0 for step in steps) else 1


def _scheduled(of: Causal, target: Target) -> tuple[Any, list[Any], dict[Any, Any]]:
    from ...topi.causal.schedules import scheduled  # not needed for a program on disk

    return scheduled(of, target)


def _of_program(of: Causal, grad: Any, x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any) -> Run:
    on = place("causal_conv1d_fn", x)
    program = sized_program(of, on, _scheduled, "causal")
    batch, channels, length = x.shape
    rows = (batch, length, channels) if of.last else (batch, channels, length)
    if of.step == WEIGHT_GRADIENT:
        out: tuple[int, ...] = (channels, of.width + 1)
        fresh = strided_allocator(x, out, (of.width + 1, 1), _sums(x, weight.dtype))
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
    found = sized(program, [*arrays, (out, None)], numbers)
    start = starts_of(found, x, on)

    def run(*given: Any) -> Any:
        made = fresh()
        status = start([a.data_ptr() for a, taken in zip(given, takes, strict=True) if taken] + [made.data_ptr()])
        return made if status == 0 else unaligned(*given)

    others: list[Run] = []

    def unaligned(*given: Any) -> Any:
        """Compute the pass by a program that loads single elements."""
        if not others:
            others.append(_of_program(of._replace(together=1), *given))
        return others[0](*given)

    return run


def _steps(a: Any, last: bool) -> tuple[int, int, int]:
    """Return the strides of rows in memory order; 0 for a dimension of one element."""
    row = 2 if last else 1
    return (a.stride(0) if a.shape[0] > 1 else 0, a.stride(row) if a.shape[row] > 1 else 0, 1)


def _by_pytorch(
    step: str, grad: Any, x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any, activation: str
) -> Any:
    with by_pytorch():
        if step == FORWARD:
            return native.convolve(x, weight, bias, seq_idx, states, activation)
        wanted = (True, False, False, False) if step == DATA_GRADIENT else (False, True, bias is not None, False)
        found = native.gradients(grad, x, weight, bias, seq_idx, states, activation, wanted)
        if step == DATA_GRADIENT:
            return found[0]
        of_bias = torch.zeros_like(weight[:, 0]) if found[2] is None else found[2]
        return torch.cat([found[1], of_bias[:, None].to(found[1].dtype)], 1)
