"""Random layers in random memory orders against PyTorch in float64.

`python -m tests.functional.random_layers --count 5000 --seed 1 --device cpu --jobs 2`

A group of layers has one operator, one size and one type, so that its kernels are compiled once. Each layer of a group
draws how its operands lie in memory (any order of dimensions, every second element, an offset, an expanded dimension,
negative strides in NumPy), whether it has a batch, and what is computed: a result, a result into `out`, or gradients.
Memory around the operands is filled with NaN, which no result may show and no call may overwrite. Warnings are errors.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

import tilewright as tw
from tests.functional.arranged import Arrangement, arrange, intact
from tests.functional.drawn_layers import GROUP, Group, Layer, draw, padding_by_name
from tilewright.core.dtype import DType

CONVOLUTIONS = {
    "conv1d": functional.conv1d, "conv2d": functional.conv2d, "depthwise_conv2d": functional.conv2d,
    "conv_transpose1d": functional.conv_transpose1d, "conv_transpose2d": functional.conv_transpose2d,
}  # fmt: skip
_REACH = 16
"""Rows and columns that the last window of a pooling reaches beyond the padding at most."""
POOLS = {"max_pool2d": functional.max_pool2d, "avg_pool2d": functional.avg_pool2d}
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(functional, name) for name in ("relu", "relu6", "silu", "gelu", "hardswish")},
    "gelu_tanh": lambda v: functional.gelu(v, approximate="tanh"),
    "sigmoid": torch.sigmoid,
}
ERRORS = {"float64": 1e-13, "float32": 3e-6, "float16": 2e-3, "bfloat16": 1.5e-2}
"""The relative L2 error of a result; gradients, which PyTorch computes in part, may have four times that."""


# PyTorch's answer


def reference(layer: Layer, values: dict[str, Any]) -> Any:
    """The result in float64, of tensors in float64, in the layout of the call."""
    g = layer.group
    x = values["x"].movedim(-1, -g.rank - 1) if g.last else values["x"]
    if g.name == "max_pool2d":
        made = _largest(x, **g.options)
    elif g.name in POOLS:
        made = POOLS[g.name](x, **g.options)
    else:
        made = _convolved(g, x, values["weight"], values.get("bias"))
    made = made.movedim(-g.rank - 1, -1) if g.last else made
    made = made + values["residual"] if g.residual else made
    return ACTIVATIONS[g.activation](made) if g.activation else made


def _largest(x: Any, padding: Any, ceil_mode: bool = False, **options: Any) -> Any:
    """The largest values of images that are padded before, as far as a window may reach.

    PyTorch's gradient of a window that sees only padding is written outside of the tensor.
    """
    (rows, columns), more = (padding, padding) if isinstance(padding, int) else padding, _REACH if ceil_mode else 0
    padded = functional.pad(x, (columns, columns + more, rows, rows + more), value=-torch.inf)
    there = functional.max_pool2d(x.detach(), padding=padding, ceil_mode=ceil_mode, **options).shape
    return functional.max_pool2d(padded, **options)[..., : there[-2], : there[-1]]


def _convolved(g: Group, x: Any, weight: Any, bias: Any) -> Any:
    options = dict(g.options)
    padding = options.pop("padding")
    options.setdefault("groups", g.shape[1])
    if g.name == "depthwise_conv2d":
        weight = weight.reshape(-1, 1, *weight.shape[2:])
    covered = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], options["dilation"], strict=True)]
    around = (
        padding_by_name(padding, covered) if isinstance(padding, str) else [padding] if g.rank == 1 else list(padding)
    )
    sides = [side for pair in reversed(around) for side in pair]
    if "transpose" in g.name:
        return functional.pad(CONVOLUTIONS[g.name](x, weight, bias, **options), [-side for side in sides])
    return CONVOLUTIONS[g.name](functional.pad(x, sides), weight, bias, **options)


# Judging


def judged(layer: Layer, device: str = "cpu") -> str:
    """What is wrong with a layer; "" if nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*non-writable.*")
        try:
            return _judged_on_numpy(layer) if layer.library == "numpy" else _judged_on_torch(layer, device)
        except Exception:  # reported with the layer
            return traceback.format_exc(limit=-3)


def _values(layer: Layer) -> dict[str, Any]:
    """The operands in float64, exact in the type of the layer; expanded dimensions repeat their first values."""
    g = layer.group
    rng = np.random.default_rng(layer.number)
    shapes = {"x": g.shape, "weight": g.weight, "bias": (g.filters,)}
    found = {}
    for what in ("x", "weight", "bias"):
        if what in layer.memory:
            shape = shapes[what]
            assert shape is not None
            found[what] = _exact(rng, _own_shape(layer, shape) if what == "x" else shape, g.dtype, layer.memory[what])
    places = _places(layer, found)
    for what in ("residual", "grad"):
        if what in layer.memory:
            found[what] = _exact(rng, places, g.dtype, layer.memory[what])
    return found


def _own_shape(layer: Layer, shape: tuple[int, ...]) -> tuple[int, ...]:
    shape = (0, *shape[1:]) if layer.batch == "empty" else shape
    shape = (shape[0], *shape[2:], shape[1]) if layer.group.last else shape
    return shape[1:] if layer.batch == "unbatched" else shape


def _exact(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, how: Arrangement) -> Any:
    values = rng.uniform(-1, 1, shape).astype(DType(dtype).numpy).astype(np.float64)
    if how.expanded is not None and shape[how.expanded]:
        values = np.repeat(values.take([0], how.expanded), shape[how.expanded], how.expanded)
    return torch.from_numpy(values)


def _places(layer: Layer, values: dict[str, Any]) -> tuple[int, ...]:
    """The shape of the result."""
    plain = replace(layer, group=replace(layer.group, residual=False))
    return tuple(reference(plain, values).shape)


def _call(layer: Layer, given: dict[str, Any]) -> Any:
    g = layer.group
    options = {**g.options, "layout": ("NWC" if g.rank == 1 else "NHWC") if g.last else None}
    if g.activation:
        options["activation"] = g.activation
    return getattr(tw, g.name)(**given, **options)


def _judged_on_numpy(layer: Layer) -> str:
    values = _values(layer)
    wanted = reference(layer, values).numpy()
    kind = DType(layer.group.dtype).numpy
    given = {what: arrange(value.numpy().astype(kind), layer.memory[what]) for what, value in values.items()}
    if layer.task == "out":
        given["out"] = arrange(np.zeros(wanted.shape, kind), layer.memory["out"])
    found = _call(layer, {what: array.view for what, array in given.items()})
    if not isinstance(found, np.ndarray) or found.shape != wanted.shape or found.dtype != kind:
        return f"the result is {type(found).__name__} {found.shape} {found.dtype}, not {wanted.shape} {kind}"
    if layer.task == "out" and found is not given["out"].view:
        return "the result is not out"
    touched = [what for what, array in given.items() if not intact(array)]
    if touched:
        return f"memory around {', '.join(touched)} was overwritten"
    return _far(layer, "result", found.astype(np.float64), wanted)


def _judged_on_torch(layer: Layer, device: str) -> str:
    values = _values(layer)
    dtype = getattr(torch, layer.group.dtype)
    arrays = {what: arrange(value.to(dtype).to(device), layer.memory[what]) for what, value in values.items()}
    given = {what: array.view for what, array in arrays.items() if what != "grad"}
    if layer.task == "gradients":
        return _judged_gradients(layer, values, given, arrays["grad"].view)
    wanted = reference(layer, values)
    if layer.task == "out":
        arrays["out"] = arrange(torch.zeros(wanted.shape, dtype=dtype, device=device), layer.memory["out"])
        given["out"] = arrays["out"].view
    for turn in range(2):  # the second call is recognised
        found = _call(layer, given)
        if (found.shape, found.dtype, found.device) != (wanted.shape, dtype, given["x"].device):
            return (
                f"the result has {tuple(found.shape)} {found.dtype} {found.device}, not {tuple(wanted.shape)} {dtype}"
            )
        if layer.task == "out" and found is not given["out"]:
            return "the result is not out"
        if wrong := _far(layer, f"result of call {turn}", found.double().cpu().numpy(), wanted.numpy()):
            return wrong
    touched = [what for what, array in arrays.items() if not intact(array)]
    return f"memory around {', '.join(touched)} was overwritten" if touched else ""


def _judged_gradients(layer: Layer, values: dict[str, Any], given: dict[str, Any], grad: Any) -> str:
    exact = {what: value.clone().requires_grad_() for what, value in values.items() if what != "grad"}
    wanted = reference(layer, exact)
    wanted.backward(values["grad"])
    leaves = {what: value.detach().requires_grad_() for what, value in given.items()}
    found = _call(layer, leaves)
    if wrong := _far(layer, "result", found.detach().double().cpu().numpy(), wanted.detach().numpy()):
        return wrong
    if wrong := _wrong_strides(layer, given, found):
        return wrong
    found.backward(grad)
    if wrong := _wrong_gradient(layer, exact, leaves, wanted.numel()):
        return "" if _pytorch_fails(layer, exact, given, grad) else wrong
    return ""


def _wrong_gradient(layer: Layer, exact: dict[str, Any], leaves: dict[str, Any], places: int) -> str:
    for what, leaf in leaves.items():
        if leaf.grad is None or leaf.grad.shape != leaf.shape or leaf.grad.dtype != leaf.dtype:
            return f"the gradient of {what} is {None if leaf.grad is None else tuple(leaf.grad.shape)}"
        got, want = leaf.grad.double().cpu().numpy(), exact[what].grad.numpy()
        # A few weights are sums over all places, whose terms may cancel.
        terms = places / max(want.size, 1) if what in ("weight", "bias") else 1.0
        if wrong := _far(layer, f"gradient of {what}", got, want, 4.0, max(terms, 1.0)):
            return wrong
    return ""


def _pytorch_fails(layer: Layer, exact: dict[str, Any], given: dict[str, Any], grad: Any) -> bool:
    """Whether PyTorch's own gradients are as wrong in the type of the layer, of contiguous tensors.

    For bfloat16 on a CPU, PyTorch 2.13 leaves the gradients of taps of `conv_transpose1d` that reach no result as the
    memory was. Such memory may hold the right values by chance.
    """
    for _ in range(5):
        leaves = {what: value.detach().clone().contiguous().requires_grad_() for what, value in given.items()}
        found = reference(layer, leaves)
        found.backward(grad.contiguous())
        if _wrong_gradient(layer, exact, leaves, found.numel()):
            print(f"{layer}\n    PyTorch's own gradient is wrong", flush=True)
            return True
    return False


def _wrong_strides(layer: Layer, given: dict[str, Any], found: Any) -> str:
    """Whether PyTorch is told the strides that the result has: programs of `torch.compile` rely on them."""
    with FakeTensorMode() as mode:
        told = _call(layer, {what: mode.from_tensor(value) for what, value in given.items()})
    sides = list(zip(found.shape, found.stride(), told.stride(), strict=True))
    if found.shape != told.shape or (found.numel() and any(size > 1 and a != b for size, a, b in sides)):
        return f"the strides are {found.stride()}, and torch.compile is told {told.stride()}"
    return ""


def _far(layer: Layer, what: str, found: Any, wanted: Any, factor: float = 1.0, terms: float = 1.0) -> str:
    if not np.array_equal(np.isfinite(found), np.isfinite(wanted)):
        return f"{what}: {np.count_nonzero(~np.isfinite(found))} values are not finite"
    there = np.isfinite(wanted)
    apart, norm = np.linalg.norm(found[there] - wanted[there]), np.linalg.norm(wanted[there])
    scale = max(norm, 1e-2 * np.sqrt(max(there.sum(), 1) * terms))
    error = apart / scale
    return "" if error <= factor * ERRORS[layer.group.dtype] else f"{what}: the error is {error:.1e}"


# The command


def _judge_group(work: tuple[int, range, str]) -> list[tuple[str, str]]:
    seed, numbers, device = work
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    layers = [draw(seed, number, device) for number in numbers]
    return [(str(layer), wrong) for layer in layers if (wrong := judged(layer, device))]


def main(arguments: list[str]) -> int:
    """Judge layers; returns 1 if any is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.functional.random_layers", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many layers")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    given = parser.parse_args(arguments)
    end = given.first + given.count
    work = [
        (given.seed, range(max(given.first, at), min(at + GROUP, end)), given.device)
        for at in range(given.first // GROUP * GROUP, end, GROUP)
    ]
    began, wrong, done = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("TILEWRIGHT_CACHE", folder)
        with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
            for (_, numbers, _), found in zip(work, pool.imap(_judge_group, work), strict=True):
                done += len(numbers)
                wrong += len(found)
                for layer, what in found:
                    print(f"{layer}\n    {what}", flush=True)
                if done // 500 != (done - len(numbers)) // 500:
                    print(f"{done} layers, {wrong} wrong, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{given.count} layers, {wrong} wrong, {time.monotonic() - began:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
