"""The modules: subclasses of PyTorch's modules that call Tilewright instead of PyTorch's functions."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.nn.functional import pad

from ..core.errors import UserError
from ..functional import operators
from ..functional.arguments.activations import activation_name
from ..functional.torchscript import WAY_OUT

Base = Any
operators.remember_torch()  # a change of the table of calls makes `torch.compile` compile a model again


def _activation(module: Any) -> Any:
    """Return the activation of a module, or None for a layer that `accelerate` replaced. The class has no default
    attribute: it would hide an activation that is a module itself.
    """
    return getattr(module, "activation", None)


def has_own_tensors(kind: type) -> bool:
    """Whether a class of modules has attributes in place of the parameters `weight` and `bias`, such as properties."""
    return any(name in vars(base) for base in kind.__mro__ for name in ("weight", "bias"))


def _parameters(module: Any) -> tuple[Any, Any]:
    """Return the weight and the bias of a module.

    Reading an attribute costs a module of PyTorch's more than a microsecond if it is a parameter. Parametrizations,
    weight normalization and replicas of `DataParallel` have attributes in place of parameters.
    """
    own = module._parameters
    if module._own_tensors or "weight" not in own or "bias" not in own:
        return module.weight, module.bias
    return own["weight"], own["bias"]


def bordered(module: Any, x: Any) -> Any:
    """Return the padded input of a convolution with a padding mode other than zeros."""
    return pad(x, module._reversed_padding_repeated_twice, mode=module.padding_mode)


class Unscriptable:
    """A module that TorchScript cannot compile, because its forward call chooses a kernel."""

    def __prepare_scriptable__(self) -> Any:
        raise UserError(
            f"tilewright.nn.{type(self).__name__} does not compile to TorchScript",
            primitive="torch.jit.script",
            fix=f"{WAY_OUT}; or call undo() of the report of accelerate first",
        )


class _Signed(Unscriptable):
    """A module with the constructor parameters of PyTorch's module and an activation."""

    _operator: Any = None
    _own_tensors = False

    def __init__(self, *args: Any, activation: Any = None, **named: Any) -> None:
        if isinstance(activation, str):
            activation_name(type(self).__name__, activation)  # a typo is an error here, not when the model runs
        super().__init__(*args, **named)
        self.activation = activation

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._own_tensors = has_own_tensors(cls)
        own = next((base for base in cls.__mro__ if base.__module__.startswith("torch.nn.modules")), None)
        if own is not None and "__init__" not in vars(cls):
            theirs = inspect.signature(own)
            more = inspect.Parameter("activation", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Any)
            cls.__signature__ = theirs.replace(parameters=[*theirs.parameters.values(), more])  # type: ignore[attr-defined]


class _Convolution(_Signed):
    """The common part of both convolutions. `activation` and a `residual` are computed in the same kernel."""

    def forward(self: Any, input: Any, residual: Any = None) -> Any:
        """Return `activation(conv(x) + bias + residual)`."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = bordered(self, input), 0
        weight, bias = _parameters(self)
        return type(self)._operator(
            input, weight, bias, self.stride, padding, self.dilation, self.groups, _activation(self), residual
        )

    def extra_repr(self: Any) -> str:
        """Return PyTorch's representation followed by the activation."""
        found: str = super().extra_repr()  # type: ignore[misc]  # PyTorch's class is the other base
        return found if _activation(self) is None else f"{found}, activation={self.activation!r}"


class Conv1d(_Convolution, torch.nn.Conv1d):  # type: ignore[misc]  # PyTorch is not followed
    """`torch.nn.Conv1d` by Tilewright.

    Parameters
    ----------
    activation : str or callable, optional
        An activation as in `tilewright.conv1d`, computed in the same kernel.

    Notes
    -----
    All other parameters, and the state dict, are the same as in `torch.nn.Conv1d`.
    """

    _operator = staticmethod(operators.conv1d)


class Conv2d(_Convolution, torch.nn.Conv2d):  # type: ignore[misc]  # PyTorch is not followed
    """`torch.nn.Conv2d` by Tilewright, with an `activation` as in `tilewright.conv2d`."""

    _operator = staticmethod(operators.conv2d)


class _Transposed(_Signed):
    """The common part of both transposed convolutions."""

    def forward(self: Any, input: Any, output_size: Any = None) -> Any:
        """Return `activation(conv_transpose(x) + bias)`, with `output_size` if given."""
        rank = len(self.kernel_size)
        more = self.output_padding
        if output_size is not None:
            more = self._output_padding(
                input, output_size, self.stride, self.padding, self.kernel_size, rank, self.dilation
            )
        weight, bias = _parameters(self)
        return type(self)._operator(
            input, weight, bias, self.stride, self.padding, tuple(more), self.groups, self.dilation, _activation(self)
        )


class ConvTranspose1d(_Transposed, torch.nn.ConvTranspose1d):  # type: ignore[misc]  # PyTorch is not followed
    """`torch.nn.ConvTranspose1d` by Tilewright, with an `activation` as in `tilewright.conv_transpose1d`."""

    _operator = staticmethod(operators.conv_transpose1d)


class ConvTranspose2d(_Transposed, torch.nn.ConvTranspose2d):  # type: ignore[misc]  # PyTorch is not followed
    """`torch.nn.ConvTranspose2d` by Tilewright, with an `activation` as in `tilewright.conv_transpose2d`."""

    _operator = staticmethod(operators.conv_transpose2d)


class MaxPool2d(Unscriptable, torch.nn.MaxPool2d):  # type: ignore[misc]  # PyTorch is not followed
    """`torch.nn.MaxPool2d` by Tilewright; with `return_indices`, PyTorch computes it."""

    def forward(self, input: Any) -> Any:
        """Return the largest value of each window."""
        if self.return_indices:
            return torch.nn.MaxPool2d.forward(self, input)
        return operators.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)


class AvgPool2d(Unscriptable, torch.nn.AvgPool2d):  # type: ignore[misc]  # PyTorch is not followed
    """`torch.nn.AvgPool2d` by Tilewright."""

    def forward(self, input: Any) -> Any:
        """Return the average of each window."""
        return operators.avg_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip
