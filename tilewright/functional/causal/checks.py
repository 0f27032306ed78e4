"""Checks of the arguments of causal convolutions."""

from __future__ import annotations

from typing import Any

import torch

from ...core.errors import UserError
from ...core.text import kind_of
from ..pytorch.tensors import NAMES

_ACTIVATIONS = (None, "silu", "swish")
_INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)


class CausalChecks:
    """Raises UserError for arguments of a public function that do not fit each other."""

    def __init__(self, name: str) -> None:
        self.name = name

    def wrong(self, message: str, fix: str) -> UserError:
        """Return the error."""
        return UserError(message, primitive=self.name, fix=fix)

    def activation(self, given: Any) -> str:
        """Return the name of an activation, "" for none."""
        if given not in _ACTIVATIONS:
            raise self.wrong(f"activation is {given!r}", 'give "silu", "swish" (the same), or None')
        return "silu" if given else ""

    def tensors(self, **given: Any) -> None:
        """Check that arguments are dense tensors; all except the first may be missing."""
        for name, a in given.items():
            if not isinstance(a, torch.Tensor) and (a is not None or name in ("x", "weight", "conv_state")):
                raise self.wrong(f"{name} is {kind_of(a)}", f"give a tensor: torch.as_tensor({name})")
            if a is not None and (a.is_nested or a.layout is not torch.strided):
                raise self.wrong(f"{name} is a nested or sparse tensor", "give a dense one")

    def sequences(self, x: Any, dims: tuple[int, ...]) -> None:
        """Check x."""
        if x.dim() not in dims:
            wanted = " or ".join("(batch, channels, length)"[: 17 if d == 2 else 25].rstrip(", ") for d in dims)
            wanted = wanted if 2 not in dims else "(batch, channels) or (batch, channels, length)"
            raise self.wrong(f"x has the shape {tuple(x.shape)}", f"give {wanted}")
        if x.dtype not in NAMES:
            raise self.wrong(f"x has the type {x.dtype}", f"convert it to one of {', '.join(NAMES.values())}")

    def weights(self, x: Any, weight: Any, bias: Any) -> None:
        """Check the weight and the bias."""
        channels = x.shape[1]
        if weight.dim() == 3 and weight.shape[1] == 1:
            raise self.wrong(
                f"the weight has the shape {tuple(weight.shape)}, as that of a convolution", "pass weight[:, 0]"
            )
        if weight.dim() != 2 or weight.shape[0] != channels or weight.shape[1] < 1:
            raise self.wrong(
                f"the weight has the shape {tuple(weight.shape)}, and x has {channels} channels",
                f"give (channels, width), here ({channels}, width)",
            )
        for name, a in (("weight", weight), ("bias", bias)):
            if a is not None and a.dtype not in NAMES:
                raise self.wrong(f"{name} has the type {a.dtype}", f"convert it to one of {', '.join(NAMES.values())}")
            self.same_device(x, name, a)
        if bias is not None and tuple(bias.shape) != (channels,):
            raise self.wrong(f"the bias has the shape {tuple(bias.shape)}", f"give ({channels},)")

    def integers(self, x: Any, name: str, a: Any, shape: tuple[int, ...]) -> None:
        """Check integers that number rows or sequences."""
        if a is None:
            return
        if a.dtype not in _INTEGERS:
            raise self.wrong(f"{name} has the type {a.dtype}", f"give integers: {name}.int()")
        self.shaped(x, name, a, shape)

    def like(self, x: Any, name: str, a: Any, shape: tuple[int, ...]) -> None:
        """Check a tensor that must have the type of x."""
        if a is None:
            return
        if a.dtype != x.dtype:
            raise self.wrong(f"{name} has the type {a.dtype}, and x has {x.dtype}", f"convert it: {name}.to(x.dtype)")
        self.shaped(x, name, a, shape)

    def shaped(self, x: Any, name: str, a: Any, shape: tuple[int, ...]) -> None:
        """Check the shape and the device of a tensor."""
        if tuple(a.shape) != shape:
            raise self.wrong(f"{name} has the shape {tuple(a.shape)}", f"give {shape}")
        self.same_device(x, name, a)

    def same_device(self, x: Any, name: str, a: Any) -> None:
        """Check the device of a tensor."""
        if a is not None and a.device != x.device:
            raise self.wrong(f"{name} is on {a.device}, and x is on {x.device}", f"move {name} to the device of x")


def check_convolution(
    x: Any, weight: Any, bias: Any, seq_idx: Any, initial_states: Any, final_states_out: Any, returns_states: bool
) -> None:
    """Check the arguments of `causal_conv1d_fn`."""
    checks = CausalChecks("causal_conv1d_fn")
    checks.tensors(
        x=x, weight=weight, bias=bias, seq_idx=seq_idx, initial_states=initial_states,
        final_states_out=final_states_out,
    )  # fmt: skip
    checks.sequences(x, (3,))
    checks.weights(x, weight, bias)
    batch, channels, length = x.shape
    states = (batch, channels, weight.shape[1] - 1)
    checks.integers(x, "seq_idx", seq_idx, (batch, length))
    checks.like(x, "initial_states", initial_states, states)
    checks.like(x, "final_states_out", final_states_out, states)
    if seq_idx is not None and (initial_states is not None or returns_states):
        raise checks.wrong(
            "seq_idx is given with initial or final states, but states belong to a single sequence",
            "leave one of them out: with seq_idx, put earlier inputs of a sequence in front of it",
        )
    if final_states_out is not None and not returns_states:
        raise checks.wrong(
            "final_states_out is given, and return_final_states is False", "pass return_final_states=True"
        )


def check_update(x: Any, conv_state: Any, weight: Any, bias: Any, cache_seqlens: Any, conv_state_indices: Any) -> None:
    """Check the arguments of `causal_conv1d_update`."""
    checks = CausalChecks("causal_conv1d_update")
    checks.tensors(
        x=x, conv_state=conv_state, weight=weight, bias=bias, cache_seqlens=cache_seqlens,
        conv_state_indices=conv_state_indices,
    )  # fmt: skip
    checks.sequences(x, (2, 3))
    checks.weights(x, weight, bias)
    batch, channels, width = x.shape[0], x.shape[1], weight.shape[1]
    if conv_state.dim() != 3 or conv_state.shape[2] < width - 1:
        raise checks.wrong(
            f"conv_state has the shape {tuple(conv_state.shape)}",
            f"give (batch, channels, kept) that holds at least width - 1 = {width - 1} inputs",
        )
    rows = conv_state.shape[0] if conv_state_indices is not None else batch
    checks.like(x, "conv_state", conv_state, (rows, channels, conv_state.shape[2]))
    if any(step == 0 and size > 1 for size, step in zip(conv_state.shape, conv_state.stride(), strict=True)):
        raise checks.wrong(
            "several elements of conv_state are one place in memory", "give it memory of its own: conv_state.clone()"
        )
    checks.integers(x, "cache_seqlens", cache_seqlens, (batch,))
    checks.integers(x, "conv_state_indices", conv_state_indices, (batch,))
    if cache_seqlens is not None and conv_state.shape[2] == 0:
        raise checks.wrong("conv_state has no places", "give it at least one, or leave cache_seqlens out")
    if torch.is_grad_enabled() and conv_state.requires_grad:
        raise checks.wrong("conv_state requires a gradient, and it is updated in place", "pass conv_state.detach()")
