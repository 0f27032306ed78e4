"""`torch.vmap` of calls, against PyTorch's own convolutions under `torch.vmap`."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import tilewright as tw

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional
pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("little_optimisation")]
SIZE = 3


def conv2d(x: Any, w: Any, bias: Any, residual: Any) -> Any:
    return F.silu(F.conv2d(x, w, bias, padding=1, groups=2) + residual)


def last_channels(x: Any, w: Any, bias: Any, residual: Any) -> Any:
    made = F.conv2d(x.movedim(-1, -3), w, bias, padding=1, groups=2).movedim(-3, -1)
    return F.silu(made + residual)


def depthwise(x: Any, w: Any, bias: Any, residual: Any) -> Any:
    return F.silu(F.conv2d(x, w.flatten(0, 1).unsqueeze(1), bias, padding=1, groups=4) + residual)


def conv1d(x: Any, w: Any, bias: Any, residual: Any) -> Any:
    return F.silu(F.conv1d(x, w, bias, stride=2, dilation=2) + residual)


def transposed(x: Any, w: Any, bias: Any, residual: Any) -> Any:
    return F.silu(F.conv_transpose2d(x, w, bias, stride=2, groups=2) + residual)


def call(name: str, **options: Any) -> Any:
    return lambda x, w, bias, residual: getattr(tw, name)(x, w, bias, residual=residual, activation="silu", **options)


LAYERS = {
    "conv2d": (call("conv2d", padding=1, groups=2), conv2d, [(2, 4, 5, 6), (6, 2, 3, 3), (6,), (2, 6, 5, 6)]),
    "unbatched": (call("conv2d", padding=1, groups=2), conv2d, [(4, 5, 6), (6, 2, 3, 3), (6,), (6, 5, 6)]),
    "last": (
        call("conv2d", padding=1, groups=2, layout="NHWC"), last_channels,
        [(2, 5, 6, 4), (6, 2, 3, 3), (6,), (2, 5, 6, 6)],
    ),
    "depthwise": (call("depthwise_conv2d", padding=1), depthwise, [(2, 4, 5, 6), (4, 2, 3, 3), (8,), (2, 8, 5, 6)]),
    "conv1d": (call("conv1d", stride=2, dilation=2), conv1d, [(2, 4, 15), (6, 4, 3), (6,), (2, 6, 6)]),
    "transposed": (
        call("conv_transpose2d", stride=2, groups=2), transposed, [(2, 4, 3, 4), (4, 3, 2, 3), (6,), (2, 6, 6, 9)],
    ),
}  # fmt: skip
AXES = [axes for axes in product((0, None), repeat=4) if 0 in axes]
FAST = [(0, None, None, None), (0, 0, 0, 0), (None, 0, None, None), (None, None, 0, None), (0, None, 0, None)]


def arrays(shapes: Any, axes: Any) -> list[Any]:
    torch.manual_seed(0)
    return [
        torch.randn(shape if axis is None else (SIZE, *shape), dtype=torch.float64)
        for shape, axis in zip(shapes, axes, strict=True)
    ]


def cases() -> Any:
    for name, axes in product(LAYERS, AXES):
        fast = axes in FAST if name == "conv2d" else axes == (0, 0, 0, None)
        yield pytest.param(name, axes, marks=() if fast else pytest.mark.slow)


@pytest.mark.parametrize(("name", "axes"), [*cases()])
def test_mapped_layers_and_gradients(name: str, axes: Any) -> None:
    ours, theirs, shapes = LAYERS[name]
    given = arrays(shapes, axes)
    torch.testing.assert_close(torch.vmap(ours, axes)(*given), torch.vmap(theirs, axes)(*given))

    def gradients(function: Any) -> Any:
        each = torch.func.grad(lambda *given: function(*given).pow(2).sum(), (0, 1, 2, 3))
        of_all = torch.func.grad(lambda *given: torch.vmap(function, axes)(*given).pow(2).sum(), (0, 1, 2, 3))
        return torch.vmap(each, axes)(*given), of_all(*given)

    torch.testing.assert_close(gradients(ours), gradients(theirs))


def test_other_dimensions_and_nested_maps() -> None:
    ours, theirs, shapes = LAYERS["conv2d"]
    x, w, bias, residual = arrays(shapes, (0, 0, None, None))
    x = x.movedim(0, -1)
    found = torch.vmap(ours, (-1, 0, None, None), out_dims=1)(x, w, bias, residual)
    torch.testing.assert_close(found, torch.vmap(theirs, (-1, 0, None, None), out_dims=1)(x, w, bias, residual))
    for inner, outer in (((-1, None), (None, 0)), ((None, 0), (-1, None))):
        nested = [
            torch.vmap(torch.vmap(f, (*inner, None, None)), (*outer, None, None), out_dims=1) for f in (ours, theirs)
        ]
        torch.testing.assert_close(*[f(x, w, bias, residual) for f in nested])


def test_an_ensemble_of_modules() -> None:
    torch.manual_seed(0)
    models = [tw.nn.Conv2d(4, 8, 3, padding=1, groups=2, activation="relu") for _ in range(SIZE)]
    parameters, buffers = torch.func.stack_module_state(models)
    x = torch.randn(2, 4, 6, 6)

    def one(parameters: Any, buffers: Any, x: Any) -> Any:
        return torch.func.functional_call(models[0], (parameters, buffers), (x,))

    wanted = torch.stack([F.relu(F.conv2d(x, m.weight, m.bias, padding=1, groups=2)) for m in models])
    torch.testing.assert_close(torch.vmap(one, (0, 0, None))(parameters, buffers, x), wanted)


def test_a_registered_operator_and_poolings() -> None:
    x = torch.randn(SIZE, 2, 4, 6, 6)
    pool = torch.ops.tilewright.pool
    given = ("max_pool2d", [2, 2], [2, 2], [0, 0, 0, 0], [1, 1], False, True, "NCHW")
    for axis in (0, 1):
        torch.testing.assert_close(
            torch.vmap(lambda x: pool(x, *given), axis)(x), torch.vmap(lambda x: F.max_pool2d(x, 2), axis)(x)
        )
    torch.testing.assert_close(
        torch.vmap(lambda x: tw.avg_pool2d(x, 2))(x), torch.vmap(lambda x: F.avg_pool2d(x, 2))(x)
    )


def test_an_activation_of_ones_own_with_a_mapped_bias() -> None:
    x, w, bias = torch.randn(2, 4, 6, 6), torch.randn(4, 1, 3, 3), torch.randn(SIZE, 4)
    found = torch.vmap(lambda b: tw.conv2d(x, w, b, groups=4, activation=lambda v: tw.te.max(v, 0.1 * v)))(bias)
    wanted = torch.stack([F.leaky_relu(F.conv2d(x, w, b, groups=4), 0.1) for b in bias])
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
