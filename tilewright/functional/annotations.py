"""Types of the public functions' arguments, for type checkers and editors alone: nothing imports this at run time."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias

from typing_extensions import TypeVar

ArrayT = TypeVar("ArrayT", default=Any)
"""The type of the input, and of the result: a tensor for a tensor, an array for an array."""

ActivationName: TypeAlias = Literal[
    "relu",
    "relu6",
    "silu",
    "gelu",
    "gelu_tanh",
    "sigmoid",
    "hardswish",
    "tanh",
    "leaky_relu",
    "elu",
    "mish",
    "hardtanh",
    "softplus",
]
Activation: TypeAlias = ActivationName | Callable[[Any], Any] | None
Extent: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
"""One integer, or one per spatial dimension."""
Padding: TypeAlias = Extent | Sequence[Sequence[SupportsIndex]] | Literal["same", "valid"]
SignalLayout: TypeAlias = Literal["NCW", "NWC"] | None
ImageLayout: TypeAlias = Literal["NCHW", "NHWC"] | None
Tune: TypeAlias = str | float | None
Precision: TypeAlias = Literal["ieee", "fp32", "tf32", "tf32_cut"]
