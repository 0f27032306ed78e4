"""Causal convolutions as values: all that their code depends on. Their sizes are not part of it."""

from __future__ import annotations

from typing import Any, NamedTuple

FORWARD, DATA_GRADIENT, WEIGHT_GRADIENT = "forward", "data_gradient", "weight_gradient"


def _type_of_sums(dtype: str, weights: str) -> str:
    return "float64" if "float64" in (dtype, weights) else "float32"


class Causal(NamedTuple):
    """A pass of a causal convolution over sequences.

    Attributes
    ----------
    step : str
        "forward", "data_gradient" or "weight_gradient".
    channels, width : int
        Channels of a sequence, and taps of each channel's filter.
    dtype, weights : str
        The type of sequences, states and results; the type of the weights and the bias.
    last : bool
        Whether the channels of one time lie side by side in memory; else the times of one channel do.
    bias, packed, states : bool
        Whether there are a bias, numbers of the sequences that a row holds, and inputs before the first one.
    activation : str
        "silu", or "" for none.
    together : int
        Neighbours in memory that a thread loads at once; every row begins at a multiple of it.
    """

    step: str
    channels: int
    width: int
    dtype: str
    weights: str
    last: bool
    bias: bool
    packed: bool
    states: bool
    activation: str
    together: int

    def description(self) -> dict[str, Any]:
        """The fields as JSON has them, and the name of the program."""
        return {"causal": self.step, **self._asdict()}

    @property
    def sums(self) -> str:
        """The type of the sums."""
        return _type_of_sums(self.dtype, self.weights)

    @property
    def reads_x(self) -> bool:
        """Whether the pass reads the sequences themselves: a data gradient needs them for an activation only."""
        return self.step != DATA_GRADIENT or bool(self.activation)

    @property
    def reads_weights(self) -> bool:
        """Whether the pass reads the weights. The gradient of the weights needs them only with an activation."""
        return self.step != WEIGHT_GRADIENT or bool(self.activation)


class CausalUpdate(NamedTuple):
    """A decoding step.

    Attributes
    ----------
    channels, width : int
        Channels of a sequence, and taps of each channel's filter.
    dtype, weights : str
        The type of inputs, state and results; the type of the weights and the bias.
    times : int
        New inputs of each sequence.
    kept : int
        Inputs that the state holds of each sequence.
    last, state_last : bool
        Whether the channels of one time lie side by side in the result, and in the state, without gaps. Otherwise the
        times of one channel do.
    bias, circular, indexed : bool
        Whether there are a bias, numbers of earlier inputs (the state is then a ring), and rows of the state.
    activation : str
        "silu", or "" for none.
    """

    channels: int
    width: int
    dtype: str
    weights: str
    times: int
    kept: int
    last: bool
    state_last: bool
    bias: bool
    circular: bool
    indexed: bool
    activation: str

    def description(self) -> dict[str, Any]:
        """The fields as JSON has them, and the name of the program."""
        return {"causal": "update", **self._asdict()}

    @property
    def sums(self) -> str:
        """The type of the sums."""
        return _type_of_sums(self.dtype, self.weights)
