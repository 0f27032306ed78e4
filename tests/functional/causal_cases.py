"""Random causal convolutions, and the semantics of the package `causal_conv1d` in plain float64 operations."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

TOLERANCES = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}
FLOATS = tuple(TOLERANCES)


def silu(v: Any) -> Any:
    """v / (1 + exp(-v))."""
    return v / (1 + torch.exp(-v))


def convolution(x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any, activation: str | None) -> Any:
    """The results at one time after the other, in float64."""
    length, width = x.shape[2], weight.shape[1]
    columns = []
    for t in range(length):
        total = torch.zeros(x.shape[:2], dtype=torch.float64, device=x.device)
        total = total if bias is None else total + bias.double()
        for k in range(width):
            source = t - (width - 1) + k
            if source >= 0:
                product = weight[:, k].double() * x[:, :, source].double()
                total = total + (
                    product if seq_idx is None else product * (seq_idx[:, source] == seq_idx[:, t])[:, None]
                )
            elif states is not None:
                total = total + weight[:, k].double() * states[:, :, source].double()
        total = silu(total) if activation else total
        columns.append(total if seq_idx is None else total * (seq_idx[:, t] >= 0)[:, None])
    return torch.stack(columns, -1) if columns else x.double()


def final_states(x: Any, states: Any, count: int) -> Any:
    """The last inputs of each sequence."""
    earlier = torch.zeros(*x.shape[:2], count, dtype=x.dtype, device=x.device) if states is None else states
    whole = torch.cat([earlier, x], -1)
    return whole[..., whole.shape[-1] - count :]


def update(x: Any, state: Any, weight: Any, bias: Any, activation: str | None, counts: Any, rows: Any) -> Any:
    """The results of a decoding step in float64, and the new state, input by input."""
    batch, channels, length = x.shape
    kept, width = state.shape[-1], weight.shape[1]
    made, new = torch.zeros(batch, channels, length, dtype=torch.float64, device=x.device), state.clone()
    for i in range(batch):
        row = i if rows is None else int(rows[i])
        if not 0 <= row < state.shape[0]:
            continue
        first = kept if counts is None else int(counts[i])
        history = [state[row, :, (first - d) % kept] for d in range(width - 1, 0, -1)] if kept else []
        inputs = [*history, *[x[i, :, t] for t in range(length)]]
        for t in range(length):
            total = torch.zeros(channels, dtype=torch.float64, device=x.device)
            total = total if bias is None else total + bias.double()
            for k in range(width):
                total = total + weight[:, k].double() * inputs[t + k].double()
            made[i, :, t] = silu(total) if activation else total
        if counts is None:
            both = torch.cat([state[row], x[i]], -1)
            new[row] = both[:, both.shape[1] - kept :]
        else:
            for t in range(length):
                new[row, :, (first + t) % kept] = x[i, :, t]
    return made, new


class Case(NamedTuple):
    """The arguments of a call, and its activation."""

    x: Any
    weight: Any
    bias: Any
    seq_idx: Any
    states: Any
    activation: str | None


def ordered(generator: Any, shape: tuple[int, int, int], dtype: Any, device: str) -> Any:
    """A random tensor (batch, channels, length) that lies in memory in one of six ways."""
    batch, channels, length = shape

    def normal(*sizes: int) -> Any:
        return torch.randn(*sizes, generator=generator, dtype=torch.float64).to(device, dtype)

    way = int(torch.randint(6, (), generator=generator))
    if way == 0:
        return normal(batch, length, channels).transpose(1, 2)
    if way == 1:  # part of wider rows
        return normal(batch, length, channels + 8)[..., 8:].transpose(1, 2)
    if way == 2:
        return normal(batch, channels + 3, length + 1)[:, 3:, 1:]
    if way == 3:  # as a product of matrices (channels, batch * length) gives it
        return normal(channels, batch, length).transpose(0, 1)
    if way == 4:  # neither order without gaps
        return normal(batch, channels, 2 * length)[..., ::2]
    return normal(batch, channels, length)


def drawn(seed: int, device: str, channels: tuple[int, ...], widths: tuple[int, ...], dtypes: Any = FLOATS) -> Case:
    """A random case; few channels and widths need few kernels."""
    generator = torch.Generator().manual_seed(seed)

    def choice(options: Any) -> Any:
        return options[int(torch.randint(len(options), (), generator=generator))]

    batch, count, width = choice((0, 1, 2, 3)), choice(channels), choice(widths)
    length = choice((0, 1, 2, 3, 5, 8, 16, 31, 70))
    dtype, of_weights = choice(dtypes), choice(dtypes)
    of_weights = choice((dtype, of_weights))
    x = ordered(generator, (batch, count, length), dtype, device)
    weight = torch.randn(count, width, generator=generator, dtype=torch.float64).to(device, of_weights)
    bias = (
        torch.randn(count, generator=generator, dtype=torch.float64).to(device, of_weights) if choice((0, 1)) else None
    )
    kind = choice(("plain", "packed", "states"))
    seq_idx = states = None
    if kind == "packed":
        steps = torch.randint(0, 4, (batch, length), generator=generator) == 0
        numbers = (steps.cumsum(1) - torch.randint(0, 2, (), generator=generator)).to(
            choice((torch.int32, torch.int64))
        )
        seq_idx = numbers.to(device)
    if kind == "states":
        states = ordered(generator, (batch, count, width - 1), dtype, device)
    return Case(x, weight, bias, seq_idx, states, choice((None, "silu", "swish")))
