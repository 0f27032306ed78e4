"""The public functions of causal convolutions: names, arguments and semantics are of the package `causal_conv1d`."""

# mypy: disable-error-code="no-any-return"
# The calls behind the dispatch are not generic; each returns a tensor of the type of x.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ...core.errors import UserError
from ..torchscript import unscriptable

if TYPE_CHECKING:
    from ..annotations import ArrayT

Silu = Literal["silu", "swish"]


def _operators(name: str) -> Any:
    """Return the module of the operators on PyTorch's tensors; UserError if PyTorch is not installed."""
    try:
        from . import operator  # `torch.compile` follows a statement, but no call of `import_module`

        return operator
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UserError(
            "PyTorch is not installed, and this function takes its tensors",
            primitive=name,
            fix="pip install 'tilewright[torch]'; conv1d takes arrays of NumPy",
        ) from None


@unscriptable
def causal_conv1d_fn(
    x: ArrayT,
    weight: Any,
    bias: Any = None,
    seq_idx: Any = None,
    initial_states: Any = None,
    return_final_states: bool = False,
    final_states_out: Any = None,
    activation: Silu | None = None,
) -> Any:
    """Convolve each channel of sequences with its own filter; results depend on present and earlier inputs only.

    Parameters
    ----------
    x : torch.Tensor
        (batch, channels, length) in float16, bfloat16, float32 or float64. The channels or the times must be contiguous
        in memory; rows may have gaps between them.
    weight : torch.Tensor
        (channels, width), with any width, in any of these types. Sums have the wider type, at least float32.
    bias : torch.Tensor, optional
        (channels,).
    seq_idx : torch.Tensor, optional
        (batch, length), integers: the sequence of each input, for rows that hold several sequences. Results read inputs
        of their own sequence only. Negative numbers mark padding; its results are 0.
    initial_states : torch.Tensor, optional
        (batch, channels, width - 1), with the type of x: the inputs before the first one, instead of zeros.
    return_final_states : bool
        Whether to return the last width - 1 inputs as well: the initial states for the next part of the sequences.
    final_states_out : torch.Tensor, optional
        (batch, channels, width - 1): receives the final states.
    activation : "silu" or "swish", optional
        Applied to the results; both names mean the same function.

    Returns
    -------
    torch.Tensor or (torch.Tensor, torch.Tensor)
        The results, with the shape, type and memory order of x; with `return_final_states`, also the final states.

    Raises
    ------
    UserError
        If an argument does not fit the others; the message names it, and a fix.

    Notes
    -----
    All arguments except `seq_idx` have gradients, also through the final states.
    """
    return _operators("causal_conv1d_fn").convolve(
        x, weight, bias, seq_idx, initial_states, return_final_states, final_states_out, activation
    )


@unscriptable
def causal_conv1d_update(
    x: ArrayT,
    conv_state: Any,
    weight: Any,
    bias: Any = None,
    activation: Silu | None = None,
    cache_seqlens: Any = None,
    conv_state_indices: Any = None,
) -> ArrayT:
    """Convolve the next inputs of sequences, and store them in `conv_state`, which holds the earlier inputs.

    Parameters
    ----------
    x : torch.Tensor
        (batch, channels), or (batch, channels, length) for several inputs of each sequence.
    conv_state : torch.Tensor
        (batch, channels, kept), with the type of x: the last `kept` inputs of each sequence; `kept` is at least width -
        1. The tensor is updated in place.
    weight : torch.Tensor
        (channels, width).
    bias : torch.Tensor, optional
        (channels,).
    activation : "silu" or "swish", optional
    cache_seqlens : torch.Tensor, optional
        (batch,), integers: the number of earlier inputs of each sequence. `conv_state` is then a ring buffer: input n
        of a sequence has index n % kept.
    conv_state_indices : torch.Tensor, optional
        (batch,), integers: the row of `conv_state` for each sequence; `conv_state` may then have more rows. Sequences
        with a negative number, or a number beyond the last row, are padding: their results are 0, and no state changes.

    Returns
    -------
    torch.Tensor
        The results, with the shape and the type of x.

    Raises
    ------
    UserError
        If an argument does not fit the others; the message names it, and a fix.

    Notes
    -----
    The function has no gradients: train with `causal_conv1d_fn` and its `initial_states`.
    """
    return _operators("causal_conv1d_update").update(
        x, conv_state, weight, bias, activation, cache_seqlens, conv_state_indices
    )
