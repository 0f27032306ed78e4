"""Causal convolutions composed of PyTorch's operators: for second derivatives, transforms, and sizes beyond 32 bits."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional


def convolve(x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any, activation: str) -> Any:
    """Return the results of a causal convolution."""
    batch, channels, length = x.shape
    before = weight.shape[1] - 1
    sums = torch.float64 if torch.float64 in (x.dtype, weight.dtype) else torch.float32
    if length == 0:
        return x.clone()
    with torch.autocast(x.device.type, enabled=False):
        earlier = x.new_zeros(batch, channels, before) if states is None else states
        whole, taps = torch.cat([earlier, x], -1).to(sums), weight.to(sums)
        made = _sums(whole, taps, seq_idx, length)
        made = made if bias is None else made + bias.to(sums)[:, None]
        made = functional.silu(made) if activation else made
        made = made if seq_idx is None else torch.where((seq_idx >= 0)[:, None], made, 0)
        return made.to(x.dtype)


def _sums(whole: Any, taps: Any, seq_idx: Any, length: int) -> Any:
    channels, width = taps.shape
    if seq_idx is None:
        return torch.conv1d(whole, taps[:, None], groups=channels)
    numbers = functional.pad(seq_idx, (width - 1, 0), value=-1)[:, None]
    total = torch.zeros_like(whole[..., :length])
    for k in range(width):
        part = whole[..., k : k + length] * taps[:, k, None]
        total = total + torch.where(numbers[..., k : k + length] == seq_idx[:, None], part, 0)
    return total


def last_inputs(x: Any, states: Any, count: int) -> Any:
    """Return the last `count` inputs as (batch, channels, count), with contiguous channels."""
    length = x.shape[-1]
    if length >= count:
        found = x[..., length - count :]
    else:
        earlier = x.new_zeros(*x.shape[:2], count) if states is None else states
        found = torch.cat([earlier[..., length:], x], -1)
    return found


def updated(x: Any, state: Any, weight: Any, bias: Any, activation: str, counts: Any, rows: Any) -> Any:
    """Return the results of a decoding step on (batch, channels, length), and update the state."""
    length, kept, before = x.shape[-1], state.shape[-1], weight.shape[1] - 1
    entries = state.shape[0]
    number = torch.arange(x.shape[0], device=x.device) if rows is None else rows.long()
    inside = (number >= 0) & (number < entries)
    if entries == 0:
        return torch.zeros_like(x)
    at = number.clamp(0, entries - 1)
    held = state[at]
    if counts is None:
        history, new = held[..., kept - before :], torch.cat([held, x], -1)[..., length:]
    else:
        first = counts.long()[:, None]
        places = torch.remainder(first + torch.arange(-before, 0, device=x.device), kept)[:, None]
        history = held.gather(2, places.expand(-1, x.shape[1], -1)) if before else held[..., :0]
        # Among inputs with the same index, the last one stays.
        some = min(length, kept)
        places = torch.remainder(first + torch.arange(length - some, length, device=x.device), kept)[:, None]
        new = held.scatter(2, places.expand(-1, x.shape[1], -1), x[..., length - some :])
    made = convolve(x, weight, bias, None, history, activation)
    state[at[inside]] = new[inside]
    return torch.where(inside[:, None, None], made, 0)


def gradients(
    grad: Any,
    x: Any,
    weight: Any,
    bias: Any,
    seq_idx: Any,
    states: Any,
    activation: str,
    wanted: tuple[bool, bool, bool, bool],
) -> tuple[Any, ...]:
    """Return the gradients with respect to x, weight, bias and states; None for gradients that are not wanted.

    If PyTorch records operations, the gradients can be differentiated again.
    """
    again = torch.is_grad_enabled()
    given = (x, weight, bias, states)
    with torch.enable_grad():
        leaves = [a if a is None or again else a.detach().requires_grad_(w) for a, w in zip(given, wanted, strict=True)]
        made: Any = convolve(*(*leaves[:3], seq_idx, leaves[3], activation))
        chosen = [leaf for leaf, w in zip(leaves, wanted, strict=True) if w]
        if made.requires_grad:
            options = {"create_graph": again, "allow_unused": True, "materialize_grads": True}
            found = iter(torch.autograd.grad(made, chosen, grad, **options))
        else:  # without results, gradients are zero
            found = iter([torch.zeros_like(leaf) for leaf in chosen])
    return tuple(next(found) if w else None for w in wanted)
