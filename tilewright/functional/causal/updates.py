"""Decoding steps of causal convolutions on PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ...core.causal import CausalUpdate
from ..planning.prepared_calls import PreparedCalls
from ..programs.sized_programs import UnsuitableError, sized, sized_program
from ..pytorch.allocation import strided_allocator
from ..pytorch.launches import starts_of
from ..pytorch.tensors import NAMES, facts, place
from ..pytorch.threads import by_pytorch
from . import native
from .calls import converting, is_last

if TYPE_CHECKING:
    from ...core.target import Target

Run = Callable[..., Any]
_updates = PreparedCalls()
_LONGEST = 16
"""The most new inputs per sequence of the decoding kernel; PyTorch computes longer steps."""


def updated(x: Any, state: Any, weight: Any, bias: Any, activation: str, counts: Any, rows: Any) -> Any:
    """Return the results of a decoding step, in the shape of x, and update the state."""
    return executor(x, state, weight, bias, activation, counts, rows)(x, state, weight, bias, counts, rows)


def executor(x: Any, state: Any, weight: Any, bias: Any, activation: str, counts: Any, rows: Any) -> Run:
    """Return a function of (x, state, weight, bias, counts, rows) that computes a decoding step on tensors like
    these."""
    given = (x, state, weight, bias, counts, rows)
    key = (activation, *[None if a is None else facts(a) for a in given])
    found: Run = _updates.made(key, lambda: _prepared_update(activation, *given))
    return found


def _prepared_update(activation: str, x: Any, state: Any, weight: Any, bias: Any, counts: Any, rows: Any) -> Run:
    x3 = x if x.dim() == 3 else x[..., None]
    _, channels, length = x3.shape
    kept = state.shape[2]
    wide = torch.promote_types(weight.dtype, weight.dtype if bias is None else bias.dtype)
    last = x.dim() == 2 or is_last(x3)
    compact = {True: (1, channels), False: (kept, 1)}
    steps = tuple(step if size > 1 else None for size, step in zip(state.shape[1:], state.stride()[1:], strict=True))
    state_last = next(
        (o for o, want in compact.items() if all(s in (None, w) for s, w in zip(steps, want, strict=True))), None
    )
    suits = (
        state_last is not None
        and 0 < length <= _LONGEST
        and not any(a is not None and a.is_neg() for a in (x, state, weight, bias))
    )
    if x.numel() == 0:
        return lambda x, *_: torch.empty_like(x)
    if not suits:
        return lambda *given: _update_by_pytorch(*(*given, activation))

    def plain(x: Any, state: Any, weight: Any, bias: Any, counts: Any, rows: Any) -> tuple[Any, ...]:
        return (
            x, state, weight.to(wide).contiguous(), None if bias is None else bias.to(wide).contiguous(),
            *[None if a is None else a.to(torch.int32).contiguous() for a in (counts, rows)],
        )  # fmt: skip

    def compute(x: Any, state: Any, weight: Any, bias: Any, counts: Any, rows: Any) -> Any:
        return updated(x, state, weight, bias, activation, counts, rows)

    if converted := converting((x, state, weight, bias, counts, rows), plain, compute):
        return converted
    of = CausalUpdate(
        channels, weight.shape[1], NAMES[x.dtype], NAMES[wide], length, kept, last, bool(state_last), bias is not None,
        counts is not None, rows is not None, activation,
    )  # fmt: skip
    try:
        return _of_update(of, x, x3, state, bias, counts, rows)
    except UnsuitableError:
        return lambda *given: _update_by_pytorch(*(*given, activation))


def _scheduled(of: CausalUpdate, target: Target) -> tuple[Any, list[Any], dict[Any, Any]]:
    from ...topi.causal.update import scheduled  # not needed for a program on disk

    return scheduled(of, target)


def _of_update(of: CausalUpdate, x: Any, x3: Any, state: Any, bias: Any, counts: Any, rows: Any) -> Run:
    on = place("causal_conv1d_update", x)
    program = sized_program(of, on, _scheduled, "causal")
    batch, channels, length = x3.shape
    steps = (of.channels * length, 1, channels) if of.last else (of.channels * length, length, 1)
    arrays: list[tuple[Any, Any]] = [(tuple(x3.shape), tuple(x3.stride())), ((channels, of.width), None)]
    arrays += [((channels,), None)] * of.bias + [((batch,), None)] * (of.circular + of.indexed)
    arrays.append((tuple(x3.shape), steps))
    inner = (1, channels) if of.state_last else (of.kept, 1)
    arrays.append((tuple(state.shape), (state.stride(0), *inner)))
    numbers = [batch, state.shape[0], *x3.stride(), state.stride(0)]
    found = sized(program, arrays, numbers)
    if not found.launches:  # no row of the state
        return lambda x, *_: torch.zeros_like(x)
    shape = tuple(x.shape)
    fresh = strided_allocator(x, shape, steps[: len(shape)], x.dtype)
    start = starts_of(found, x, on)

    def run(x: Any, state: Any, weight: Any, bias: Any, counts: Any, rows: Any) -> Any:
        made = fresh()
        addresses = [a.data_ptr() for a in (x, weight, bias, counts, rows, made, state) if a is not None]
        start(addresses)
        if not state.is_inference():
            torch.autograd.graph.increment_version(state)
        return made

    return run


def _update_by_pytorch(x: Any, state: Any, weight: Any, bias: Any, counts: Any, rows: Any, activation: str) -> Any:
    with by_pytorch():
        x3 = x if x.dim() == 3 else x[..., None]
        made = native.updated(x3, state, weight, bias, activation, counts, rows)
        return made if x.dim() == 3 else made[..., 0]
