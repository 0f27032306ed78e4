"""As much of PyTorch as `tilewright.accelerate` needs, on NumPy arrays: the tests run where PyTorch is not installed.

`install()` puts it into `sys.modules`. What is not defined here is a mock, which fails where a value matters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64")


class Tensor:
    """A contiguous array on the CPU."""

    device = SimpleNamespace(type="cpu")
    is_cuda = requires_grad = False
    layout, is_meta, is_nested, _version = "strided", False, False, 0

    def __init__(self, data: Any) -> None:
        self.data = np.ascontiguousarray(data)

    shape = property(lambda self: self.data.shape)
    dtype = property(lambda self: str(self.data.dtype))

    def dim(self) -> int:
        return self.data.ndim

    def get_device(self) -> int:
        return -1

    def is_neg(self) -> bool:
        return False

    def _is_zerotensor(self) -> bool:
        return False

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return True

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.data.itemsize for step in self.data.strides)

    def data_ptr(self) -> int:
        return int(self.data.ctypes.data)

    def untyped_storage(self) -> Any:
        return MagicMock()

    def detach(self) -> Tensor:
        return self

    def clone(self) -> Tensor:
        return Tensor(self.data.copy())

    def is_inference(self) -> bool:
        return False

    def to(self, *args: Any, **named: Any) -> Tensor:
        return self

    def double(self) -> Tensor:
        return Tensor(self.data.astype("float64"))

    def norm(self) -> Any:
        return np.linalg.norm(self.data)

    def __sub__(self, other: Tensor) -> Tensor:
        return Tensor(self.data - other.data)


def conv2d(x: Tensor, w: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Tensor:
    """A depthwise convolution of step 1 by loops, and so slower than any kernel of ours."""
    assert groups == x.shape[1]
    (_, _, height, width), (_, _, rows, columns) = x.shape, w.shape
    padded = np.pad(x.data, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    out = np.zeros(x.shape, "float32")
    for _ in range(20):
        out = sum(
            padded[:, :, i : i + height, j : j + width] * w.data[None, :, 0, i, j, None, None]
            for i in range(rows)
            for j in range(columns)
        )
    return Tensor(out if bias is None else out + bias.data[None, :, None, None])


class Module:
    """A module with hooks and children."""

    def __init__(self) -> None:
        self.hooks: list[Any] = []
        self._buffers: dict[str, Any] = {}

    def __call__(self, *given: Any) -> Any:
        made = self.forward(*given)  # type: ignore[attr-defined]
        for hook in self.hooks:
            hook(self, given, {}, made)
        return made

    def register_forward_hook(self, hook: Callable[..., Any], with_kwargs: bool) -> Any:
        assert with_kwargs
        self.hooks.append(hook)
        return SimpleNamespace(remove=self.hooks.clear)

    def children(self) -> Iterator[tuple[str, Any]]:
        return ((name, value) for name, value in vars(self).items() if isinstance(value, Module))

    def named_modules(self) -> Iterator[tuple[str, Any]]:
        yield "", self
        for name, child in self.children():
            yield from ((f"{name}.{rest}".rstrip("."), each) for rest, each in child.named_modules())

    def modules(self) -> Iterator[Any]:
        return (module for _, module in self.named_modules())


class Conv2d(Module):
    """A depthwise convolution; the other classes of its kind are made of it."""

    padding_mode = "zeros"

    def __init__(self, channels: int, taps: int) -> None:
        super().__init__()
        self.stride, self.padding, self.dilation, self.groups = (1, 1), (taps // 2, taps // 2), (1, 1), channels
        self.weight = Tensor(np.random.default_rng(0).random((channels, 1, taps, taps), "float32"))
        self.bias = None

    def forward(self, x: Tensor) -> Tensor:
        return conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class _Fake(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=f"{self.__name__}.{name}")


def install() -> None:
    """Let `import torch` and what the package imports of it find this."""
    Tensor.__module__ = "torch"
    kinds = ("Conv1d", "ConvTranspose1d", "ConvTranspose2d", "MaxPool2d", "AvgPool2d")
    functional = _fake("torch.nn.functional", conv2d=conv2d)
    classes = {name: type(name, (Conv2d,), {}) for name in kinds}
    nn = _fake("torch.nn", functional=functional, Module=Module, Parameter=type("Parameter", (Tensor,), {}),
               Conv2d=Conv2d, **classes)  # fmt: skip
    hidden = SimpleNamespace(
        _dynamo=None, _len_torch_dispatch_stack=lambda: 0, _is_any_autocast_enabled=lambda: False,
        _functorch=SimpleNamespace(is_functorch_wrapped_tensor=lambda a: False), _get_tracing_state=lambda: None,
        _are_functorch_transforms_active=lambda: False,
        _dispatch_tls_is_dispatch_key_included=lambda key: False, DispatchKey=SimpleNamespace(PreDispatch=None),
    )  # fmt: skip
    forward = _fake("torch.autograd.forward_ad", _current_level=-1)
    made = {
        "autograd": _fake("torch.autograd", forward_ad=forward, Function=type("Function", (), {})),
        "nn": nn, "_C": hidden, "Tensor": Tensor, "strided": "strided", "__version__": "0 (fake)",
        "compiler": _fake("torch.compiler", is_dynamo_compiling=lambda: False), "library": _fake("torch.library"),
        "no_grad": nullcontext, "is_grad_enabled": lambda: False, **{name: name for name in FLOATS},
        "randn": lambda shape, device: Tensor(np.random.default_rng(1).random(shape, "float32")),
        "empty": lambda shape, dtype, device: Tensor(np.empty(shape, dtype)),
        "empty_like": lambda a, device=None: Tensor(np.empty_like(a.data)),
        "empty_strided": lambda shape, strides, dtype, device: Tensor(np.empty(shape, dtype)),
        "version": SimpleNamespace(hip=None),
        "utils": _fake("torch.utils", flop_counter=_fake("torch.utils.flop_counter")),
    }  # fmt: skip
    _fake("torch", **made)


def _fake(name: str, **names: Any) -> ModuleType:
    made = _Fake(name)
    made.__dict__.update(names, __path__=[], __spec__=ModuleSpec(name, None, is_package=True))
    sys.modules[name] = made
    return made
