"""Calls on the arrays of JAX and within its transformations; XLA's own operators are the oracle."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.functional import direct
from tests.functional.drawn_layers import Group, draw_group, padding_by_name
from tilewright.core.errors import UserError

jax = pytest.importorskip("jax")
pytest.importorskip("jax.export")
jax.config.update("jax_default_matmul_precision", "highest")  # XLA may round operands on GPUs
with suppress(RuntimeError):  # JAX has begun
    jax.config.update("jax_num_cpu_devices", 2)

ERRORS = {"float32": 3e-6, "float16": 3e-3, "bfloat16": 2e-2}
"""The relative L2 error of a result and of a gradient."""
ACTIVATIONS = {
    None: lambda v: v,
    "relu": lambda v: jax.numpy.maximum(v, 0),
    "relu6": lambda v: jax.numpy.clip(v, 0, 6),
    "silu": lambda v: v / (1 + jax.numpy.exp(-v)),
    "gelu": lambda v: 0.5 * v * (1 + jax.lax.erf(v / 2**0.5)),
    "gelu_tanh": lambda v: 0.5 * v * (1 + jax.numpy.tanh((2 / jax.numpy.pi) ** 0.5 * (v + 0.044715 * v**3))),
    "sigmoid": lambda v: 1 / (1 + jax.numpy.exp(-v)),
    "hardswish": lambda v: v * jax.numpy.clip(v + 3, 0, 6) / 6,
}


def arrays(dtype: str = "float32") -> tuple[Any, Any]:
    x = np.random.default_rng(0).standard_normal((2, 8, 12, 13), np.float32)
    w = np.random.default_rng(1).standard_normal((8, 1, 3, 3), np.float32)
    return jax.numpy.asarray(x, dtype), jax.numpy.asarray(w, dtype)


def by_jax(x: Any, w: Any) -> Any:
    return jax.lax.conv_general_dilated(x, w, (1, 1), [(1, 1), (1, 1)], feature_group_count=8)


def near(found: Any, wanted: Any, error: float = 3e-6) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert a.shape == b.shape
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        assert np.linalg.norm(a - b) <= error * max(np.linalg.norm(b), 1e-3)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        ("float32", 1e-5),
        pytest.param("bfloat16", 1e-1, marks=pytest.mark.slow),
        pytest.param("float16", 1e-2, marks=pytest.mark.slow),
    ],
)
def test_a_call_returns_an_array_of_jax(dtype: str, tolerance: float) -> None:
    x, w = arrays(dtype)
    found = tw.conv2d(x, w, padding=1, groups=8)
    assert isinstance(found, jax.Array)
    assert found.dtype == dtype
    wanted = direct.conv(np.asarray(x, "float32"), np.asarray(w, "float32"), None, 1, ((1, 1), (1, 1)), 1, 8)
    np.testing.assert_allclose(np.asarray(found, np.float32), wanted, atol=tolerance)


@pytest.mark.slow
def test_operands_that_jax_still_computes() -> None:
    _, w = arrays()
    power = jax.jit(lambda a: a @ a)
    for seed in range(4):
        a = jax.random.normal(jax.random.PRNGKey(seed), (576, 576))
        found = tw.conv2d(power(a).reshape(2, 8, 144, 144), w, padding=1, groups=8) * 2.0
        wanted = by_jax(power(a).block_until_ready().reshape(2, 8, 144, 144), w) * 2.0
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), atol=1e-2)


# Random layers


def reference(group: Group, x: Any, w: Any, bias: Any, residual: Any) -> Any:
    """The result by XLA; a transposed convolution is the transpose of a convolution, by its definition."""
    options, rank = group.options, group.rank
    last = "NWC" if rank == 1 else "NHWC"
    first = "NCW" if rank == 1 else "NCHW"
    layout = last if group.last else first
    taps = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], options["dilation"], strict=True)]
    sides = options["padding"]
    sides = padding_by_name(sides, taps) if isinstance(sides, str) else [sides] if rank == 1 else sides
    groups = group.shape[1] if group.name == "depthwise_conv2d" else options["groups"]
    if "transpose" not in group.name:
        w = w.reshape((group.filters, -1, *w.shape[2:]))

    def convolved(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, w, options["stride"], sides, rhs_dilation=options["dilation"], feature_group_count=groups,
            dimension_numbers=(layout, "OIHW"[: rank + 2].replace("H", "HW"[2 - rank]), layout), precision="highest",
        )  # fmt: skip

    if "transpose" in group.name:
        sizes = [
            (n - 1) * s - sum(side) + t + more
            for n, s, side, t, more in zip(
                group.shape[2:], options["stride"], sides, taps, options["output_padding"], strict=True
            )
        ]
        shape = dict(zip(first, (x.shape[0], group.filters, *sizes), strict=True))
        image = jax.ShapeDtypeStruct(tuple(shape[letter] for letter in layout), x.dtype)
        # Windows that reach beyond the input see zeros.
        around = [(0, 0)] * len(layout)
        places = [
            (n + sum(side) - t) // s + 1 for n, side, t, s in zip(sizes, sides, taps, options["stride"], strict=True)
        ]
        for letter, n, place in zip(first[2:], group.shape[2:], places, strict=True):
            around[layout.index(letter)] = (0, place - n)
        sums = jax.linear_transpose(lambda a: convolved(a, w), image)(jax.numpy.pad(x, around))[0]
    else:
        sums = convolved(x, w)
    made = sums if bias is None else sums + (bias if group.last else bias.reshape(-1, *[1] * rank))
    return ACTIVATIONS[group.activation](made if residual is None else made + residual)


def drawn(number: int) -> tuple[Group, list[Any], Any]:
    """A random convolution, its arrays in float32, and the call."""
    rng = random.Random(f"jax {number}")
    while True:
        group = draw_group(rng)
        if group.weight is not None and group.dtype != "float64" and np.prod(group.shape) * group.filters < 60_000:
            break
    values = np.random.default_rng(number)
    order = (0, *range(2, group.rank + 2), 1) if group.last else tuple(range(group.rank + 2))
    x = values.standard_normal([group.shape[d] for d in order], np.float32)
    w = values.standard_normal(group.weight, np.float32)
    bias = values.standard_normal(group.filters, np.float32) if group.bias else None
    shape = jax.eval_shape(partial(reference, group), x, w, bias, None).shape
    residual = values.standard_normal(shape, np.float32) if group.residual else None
    given = {**group.options, "activation": group.activation, "layout": None}
    if group.last:
        given["layout"] = "NWC" if group.rank == 1 else "NHWC"

    def call(x: Any, w: Any, bias: Any, residual: Any) -> Any:
        return getattr(tw, group.name)(x, w, bias, residual=residual, **given)

    return group, [x, w, bias, residual], call


@pytest.mark.parametrize("number", [0, *[pytest.param(n, marks=pytest.mark.slow) for n in range(1, 40)]])
def test_value_and_gradients_of_random_layers(number: int) -> None:
    group, given, call = drawn(number)
    rounded = [None if a is None else jax.numpy.asarray(a, group.dtype) for a in given]
    exact = [None if a is None else a.astype("float32") for a in rounded]
    made, back = jax.vjp(jax.jit(call), *rounded)
    wanted, exact_back = jax.vjp(partial(reference, group), *exact)
    near(made, wanted, ERRORS[group.dtype])
    along = jax.numpy.asarray(np.random.default_rng(0).standard_normal(made.shape), group.dtype)
    near(jax.jit(back)(along), exact_back(along.astype("float32")), 4 * ERRORS[group.dtype])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (
            partial(tw.max_pool2d, kernel_size=3, stride=2, padding=1),
            lambda x: jax.lax.reduce_window(
                x, -np.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)]
            ),
        ),
        (
            partial(tw.avg_pool2d, kernel_size=2),
            lambda x: x[..., :12].reshape(2, 8, 6, 2, 6, 2).mean((3, 5)),
        ),
    ],
)
def test_poolings(call: Any, wanted: Any) -> None:
    x, _ = arrays()
    near(jax.jit(call)(x), wanted(x))
    gradient = jax.vmap(jax.grad(lambda a: (call(a) ** 2).sum()))
    for function in (gradient, jax.jit(gradient)):
        near(function(x), jax.grad(lambda a: (wanted(a) ** 2).sum())(x))


# Transformations


def loss(function: Any) -> Any:
    return lambda *given: (function(*given) ** 2).sum()


@pytest.mark.slow
def test_derivatives_of_any_order_and_direction() -> None:
    x, w = arrays()
    given, along = (x, w), (x * x, w + 1)

    def second(function: Any) -> Any:
        gradient = jax.grad(loss(function), (0, 1))
        return lambda *given: (jax.jvp(gradient, given, along), jax.vjp(gradient, *given)[1](along))

    near(jax.jit(second(partial(tw.conv2d, padding=1, groups=8)))(*given), second(by_jax)(*given))


AXES = [axes for axes in product((0, None), repeat=4) if any(axis == 0 for axis in axes)]


@pytest.mark.slow
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d"])
def test_mapped_calls(name: str, axes: tuple[int | None, ...]) -> None:
    """`vmap` over any of the arrays is the loop of the calls; so are its gradients."""
    values = np.random.default_rng(0)
    shapes = [(2, 4, 6, 5), (6, 2, 3, 3) if name == "conv2d" else (4, 3, 3, 3), (6,), (2, 6, 6, 5)]
    shapes = [shape if axis is None else (3, *shape) for shape, axis in zip(shapes, axes, strict=True)]
    given = [jax.numpy.asarray(values.standard_normal(shape, np.float32)) for shape in shapes]

    def call(x: Any, w: Any, bias: Any, residual: Any) -> Any:
        return getattr(tw, name)(x, w, bias, padding=1, groups=2, activation="silu", residual=residual)

    of_all = jax.jit(jax.value_and_grad(loss(call), (0, 1, 2, 3)))
    ones = [of_all(*[a if axis is None else a[i] for a, axis in zip(given, axes, strict=True)]) for i in range(3)]
    wanted = jax.tree.map(lambda *each: jax.numpy.stack(each), *ones)
    near(jax.jit(jax.vmap(of_all, axes))(*given), wanted, 1e-5)
    mapped = jax.jit(jax.vmap(call, axes))(*given)
    near((mapped**2).sum((1, 2, 3, 4)), wanted[0], 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("checked", [True, False])
def test_devices_that_share_a_batch(checked: bool) -> None:
    devices = jax.devices("cpu")[:2]
    if len(devices) < 2 or not hasattr(jax, "shard_map"):
        pytest.skip("JAX has one device, or no jax.shard_map")
    x, w = (jax.device_put(a, devices[0]) for a in arrays())
    by_batch, same = jax.sharding.PartitionSpec("d"), jax.sharding.PartitionSpec()
    ours = jax.shard_map(
        partial(tw.conv2d, padding=1, groups=8), mesh=jax.sharding.Mesh(np.array(devices), ("d",)),
        in_specs=(by_batch, same), out_specs=by_batch, check_vma=checked,
    )  # fmt: skip
    values = jax.jit(jax.value_and_grad(loss(ours), (0, 1)))(*(np.asarray(a) for a in (x, w)))
    near(values, jax.value_and_grad(loss(by_jax), (0, 1))(x, w), 1e-5)


@pytest.mark.slow
def test_arrays_of_numpy_beside_traced_ones() -> None:
    x, w = arrays()
    near(
        jax.grad(lambda w: tw.conv2d(np.asarray(x), w, padding=1, groups=8).sum())(w),
        jax.grad(lambda w: by_jax(x, w).sum())(w),
    )
    near(tw.conv2d(x, np.asarray(w), padding=1, groups=8), by_jax(x, w))


def test_a_batch_of_none_one_image_and_an_ensemble() -> None:
    x, w = arrays()
    call = jax.jit(partial(tw.conv2d, padding=1, groups=8))
    assert call(x[:0], w).shape == (0, 8, 12, 13)
    near(call(x[0], w), by_jax(x, w)[0])
    both = jax.numpy.stack([w, -w])
    near(jax.vmap(call, (None, 0))(x, both), jax.numpy.stack([by_jax(x, w), -by_jax(x, w)]))


def test_sizes_that_are_symbols() -> None:
    x, w = arrays()
    (n,) = jax.export.symbolic_shape("n")
    with pytest.raises(UserError, match="sizes that are numbers"):
        jax.eval_shape(partial(tw.conv2d, groups=8), jax.ShapeDtypeStruct((n, *x.shape[1:]), x.dtype), w)


def test_calls_without_jit_and_of_no_examples() -> None:
    x, w = arrays()
    with jax.disable_jit():
        near(tw.conv2d(x, w, padding=1, groups=8), by_jax(x, w))
    none = x[None][:0]
    assert jax.vmap(lambda a: tw.conv2d(a, w, padding=1, groups=8))(none).shape == none.shape


@pytest.mark.slow
def test_an_activation_of_the_users_own() -> None:
    x, w = arrays()
    call = jax.jit(lambda x, w: tw.conv2d(x, w, padding=1, groups=8, activation=lambda v: tw.te.max(v, 0.1 * v)))
    near(call(x, w), jax.nn.leaky_relu(by_jax(x, w), 0.1))
    found = jax.grad(lambda w: call(x, w).sum())(w)
    near(found, jax.grad(lambda w: jax.nn.leaky_relu(by_jax(x, w), 0.1).sum())(w))


def test_a_built_function_reads_arrays_of_jax() -> None:
    a = tw.te.placeholder((tw.te.var("n"),), name="A")
    b = tw.te.compute(a.shape, lambda i: a[i] * 2, name="B")
    run, x, made = tw.build(b, target="llvm"), jax.numpy.arange(5.0), tw.nd.empty((5,))
    run(x, made)
    near(jax.dlpack.from_dlpack(made), 2 * x)
    with pytest.raises(UserError, match="B is written, but arrays of JAX are immutable"):
        run(x, x + 1)


def test_execution_calls_no_python_and_copies_nothing() -> None:
    x, w = arrays()
    text = jax.jit(partial(tw.conv2d, padding=1, groups=8)).lower(x, w).compile().as_text()
    calls = [line for line in text.splitlines() if "custom-call(" in line]
    assert len(calls) == 1
    assert "tilewright_" in calls[0]
    assert not any(word in text for word in ("callback", "copy(", "transpose("))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": 4}, "does not fit 8 channels in 4 groups"),
        ({"out": 0}, "arrays of JAX are immutable"),
        ({"bias": True}, "x is an array of JAX, but bias is a bool"),
    ],
)
def test_mistakes(given: dict[str, Any], message: str) -> None:
    x, w = arrays()
    for function in (tw.conv2d, jax.jit(lambda *a: tw.conv2d(*a, **given))):
        with pytest.raises(UserError, match=message):
            function(x, w, **(given if function is tw.conv2d else {}))


def test_calls_on_derived_classes_are_explained_as_those_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    class Derived(type("Array", (), {"__module__": "jaxlib"})):  # type: ignore[misc]  # JAX's own class has none
        def __init__(self, held: Any) -> None:
            self.held = held

        def __dlpack__(self, **options: Any) -> Any:
            return self.held.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.held.__dlpack_device__()

    monkeypatch.setattr("tilewright.functional.jax.lowering.reason_for_xla", lambda problem, on: "a test says so")
    x, w = arrays()
    wanted = tw.explain_call(tw.conv2d, x, w, padding=1, groups=8)
    assert wanted.endswith("XLA's own operator: a test says so")
    assert tw.explain_call(tw.conv2d, Derived(x), w, padding=1, groups=8) == wanted
