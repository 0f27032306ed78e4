"""The layers of a model that our modules could replace, in a run on a sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.nn.modules import conv, pooling
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils.parametrize import is_parametrized
from torch.utils._python_dispatch import TorchDispatchMode

from ..core.errors import UserError
from ..functional.arguments.call import OPERATORS, CallOptions
from ..functional.arguments.problem import TRANSPOSES, Problem
from ..functional.arguments.signature import FLOATS, signature
from ..functional.pytorch import tensors as torch_tensors
from ..functional.pytorch.operators.layer import gradients_of_ours, is_wide
from ..functional.pytorch.state import type_in_autocast
from . import modules
from .samples import Sample

_KINDS: dict[type, tuple[type, str]] = {
    torch.nn.Conv1d: (modules.Conv1d, "conv1d"),
    torch.nn.Conv2d: (modules.Conv2d, "conv2d"),
    torch.nn.ConvTranspose1d: (modules.ConvTranspose1d, "conv_transpose1d"),
    torch.nn.ConvTranspose2d: (modules.ConvTranspose2d, "conv_transpose2d"),
    torch.nn.MaxPool2d: (modules.MaxPool2d, "max_pool2d"),
    torch.nn.AvgPool2d: (modules.AvgPool2d, "avg_pool2d"),
}
"""For each module of PyTorch, our module and the operator."""
_OURS = tuple(ours for ours, _ in _KINDS.values())
_OTHERS = (conv._ConvNd, pooling._MaxPoolNd, pooling._AvgPoolNd)
"""Base classes of layers that the report lists although no module of ours replaces them."""
_WHOLE = "(the model)"
"""The name of the only layer, if the model itself is one."""


@dataclass
class ModelLayer:
    """A convolution or a pooling, with its first input and its type in a run of the model on its sample.

    With `needs_gradient`, a training step computes the gradient of the input. `why` is the reason if the layer cannot
    be replaced.
    """

    name: str
    module: Any
    why: str = ""
    x: Any = None
    dtype: str = ""
    needs_gradient: bool = False

    @property
    def operator(self) -> str:
        """The name of the operator."""
        return operator_of(self.module)

    @property
    def problem(self) -> Problem:
        """The problem that the layer computes."""
        return problem_of(self.module, self.x, self.dtype)

    def gradients(self, kind: str) -> list[Problem]:
        """Return the problems of the gradients that our operators compute in a training step on a kind of device."""
        problem, weight, bias = self.problem, self.module.weight, self.module.bias
        wide = is_wide(weight.dtype, getattr(torch, problem.dtype))  # under autocast
        # One kernel may compute the gradients of weight and bias, as in `CalledLayer.adds_up_bias`.
        biased = bias is not None and bias.requires_grad and kind == "cuda" and problem.op not in TRANSPOSES
        return gradients_of_ours(problem, weight.requires_grad, self.needs_gradient, wide, biased)


def layers_of(model: Any, sample: Sample) -> list[ModelLayer]:
    """Run a model on its sample, and return its convolutions and poolings, in the order of the model's modules."""
    found = {module: ModelLayer(name or _WHOLE, module) for name, module in model.named_modules() if _is_named(module)}
    hooks = []

    def note(module: Any, given: tuple[Any, ...], named: dict[str, Any], result: Any) -> None:
        x = given[0] if given else named.get("input")
        layer = found[module]
        if isinstance(x, torch.Tensor) and layer.x is None:
            layer.needs_gradient, layer.x = x.requires_grad, x.detach()
            dtype = type_in_autocast(x) if hasattr(module, "weight") else x.dtype
            layer.dtype = torch_tensors.NAMES.get(dtype, str(dtype))

    try:
        hooks = [module.register_forward_hook(note, with_kwargs=True) for module in found]
        sample.run(model)
    except Exception as error:
        raise UserError(
            f"the model does not run on its sample: {error}",
            primitive="accelerate",
            fix="give the inputs that model(*sample) takes, on the device of the model",
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    for layer in found.values():  # a lazy module changes its class in a run
        layer.why = _refusal(layer)
    return list(found.values())


def _is_named(module: Any) -> bool:
    """Return whether the report lists a module. It also lists quantised convolutions, which share no base class with
    others."""
    quantised = "quantized" in type(module).__module__ and "Conv" in type(module).__name__
    return isinstance(module, _OTHERS) or quantised


def _base(kind: type) -> type | None:
    """Return PyTorch's module among the bases of a class, if one of our modules replaces it."""
    return next((base for base in kind.__mro__ if base in _KINDS), None)


def _refusal(layer: ModelLayer) -> str:
    """The reason why a layer cannot be replaced; "" if it can."""
    module, kind = layer.module, type(layer.module)
    base = _base(kind)
    if kind in _OURS:
        return "it is a module of tilewright.nn already"
    if "quantized" in kind.__module__:
        return "it is quantised, and our kernels compute floating-point numbers"
    if isinstance(module, LazyModuleMixin):
        return "it is lazy, and the sample does not reach it"
    if base is None:
        return f"there is no module of ours for {kind.__name__}"
    own = next((name for name in ("forward", "_conv_forward") if _is_changed(module, base, name)), "")
    if own:
        return f"its class {kind.__name__} has its own {own}(); derive it from tilewright.nn.{base.__name__}"
    if is_parametrized(module):
        return "it has parametrizations; end them by torch.nn.utils.parametrize.remove_parametrizations"
    if hasattr(module, "qconfig"):
        return "it is prepared for quantisation"
    if hasattr(module, "activation"):
        return "it has an attribute of the name activation, which modules of tilewright.nn apply"
    if _returns_indices(module):
        return "it returns indices"
    if layer.x is None:
        return "the sample does not reach it"
    if layer.dtype not in FLOATS:
        return f"it computes in {layer.dtype}"
    return "the sample has no images" if 0 in layer.x.shape else ""


def _is_changed(module: Any, base: type, name: str) -> bool:
    """Return whether a module or its class overrides a method of PyTorch's class."""
    return name in vars(module) or getattr(type(module), name, None) is not getattr(base, name, None)


def is_covered(module: Any) -> bool:
    """Return whether a module is a convolution or a pooling that our operators compute."""
    return _base(type(module)) is not None


def omitted_part(module: Any) -> tuple[str, str]:
    """Return the part of a layer that its kernel does not compute, and advice; "" if there is none."""
    known: list[Any] = [kind.forward for base, (ours, _) in _KINDS.items() for kind in (base, ours)]  # type: ignore[attr-defined]
    if isinstance(module, LazyModuleMixin):
        return "it is lazy, and has no sizes yet", "call the model once in the file"
    if "forward" in vars(module) or type(module).forward not in known:
        return f"its class {type(module).__name__} has its own forward()", "export the convolution that it calls"
    if module._forward_hooks or module._forward_pre_hooks:
        return "it has hooks, which the kernel leaves out", "remove them, or export a layer without hooks"
    if getattr(module, "padding_mode", "zeros") != "zeros":
        fix = "give the layer padding=0, and pad the input before the call"
        return f"its padding_mode is {module.padding_mode!r}, and the kernel does not compute that border", fix
    return ("it returns indices", "export it with return_indices=False") if _returns_indices(module) else ("", "")


def _returns_indices(module: Any) -> bool:
    return bool(getattr(module, "return_indices", False))


def activation_of(module: Any) -> Any:
    """Return the activation of a module of ours; None for a module of PyTorch's."""
    return getattr(module, "activation", None) if isinstance(module, _OURS) else None


def operator_of(module: Any) -> str:
    """Return the name of the operator that computes a module."""
    base = _base(type(module))
    assert base is not None
    return _KINDS[base][1]


def problem_of(module: Any, x: Any, dtype: str = "") -> Problem:
    """Return the problem that a module computes on an input, which is cast to another type if necessary."""
    operator = operator_of(module)
    rank = OPERATORS[operator].rank
    if "pool" in operator:
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "count_include_pad", "divisor_override")
        options = CallOptions(**{name: getattr(module, name) for name in names if hasattr(module, name)})
        arrays = [x]
    else:
        padding = module.padding
        if module.padding_mode != "zeros":
            x, padding = modules.bordered(module, x), 0
        more = tuple(module.output_padding) if "transpose" in operator else 0
        options = CallOptions(module.stride, padding, module.dilation, module.groups, output_padding=more)
        arrays = [x, module.weight, module.bias]
    seen = [torch_tensors.properties_of(a, rank) for a in arrays]
    cast = [a if a is None else a._replace(dtype=dtype or a.dtype) for a in seen]
    return signature(operator, torch_tensors.in_result_order(cast, rank, arrays), options).problem


def replacement(kind: type) -> type:
    """Return the class that replaces a layer's: a module of `tilewright.nn`, or a class derived from the user's
    class."""
    base = _base(kind)
    assert base is not None
    return _KINDS[base][0] if kind is base else _derived(kind, _KINDS[base][0])


@cache
def _derived(kind: type, ours: Any) -> type:
    def reduced(self: Any, protocol: Any) -> tuple[Any, ...]:
        return _instance, (kind, ours), self.__getstate__()

    methods: dict[str, Any] = {"forward": ours.forward, "__module__": kind.__module__, "__reduce_ex__": reduced}
    methods["__prepare_scriptable__"] = ours.__prepare_scriptable__
    if hasattr(ours, "_operator"):
        methods |= {"_operator": staticmethod(ours._operator), "_own_tensors": modules.has_own_tensors(kind)}
    return type(kind.__name__, (kind,), methods)


def _instance(kind: type, ours: type) -> Any:
    """Return an empty layer of a derived class, for `pickle`: it cannot find such a class by name."""
    made: Any = _derived(kind, ours)
    return made.__new__(made)


class _Functions(TorchDispatchMode):  # type: ignore[misc]  # PyTorch is not followed
    """Counts the convolutions that run."""

    def __init__(self) -> None:
        super().__init__()
        self.count: int = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = getattr(function, "overloadpacket", None)
        self.count += packet in (torch.ops.aten.convolution, torch.ops.aten._convolution)
        return function(*args, **(kwargs or {}))


def convolutions_in(run: Callable[[], Any]) -> int:
    """Return the number of PyTorch's convolutions in a run."""
    with _Functions() as seen:
        run()
    count: int = seen.count
    return count
