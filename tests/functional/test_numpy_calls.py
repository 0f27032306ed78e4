"""Calls on NumPy arrays: every operator, type and layout against sums written from the definition."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.functional import direct
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.functional import numpy_arrays
from tilewright.functional.programs import running
from tilewright.topi import testing

TOLERANCE = {"float16": 3e-2, "bfloat16": 2e-1, "float32": 1e-4, "float64": 1e-10}
TYPES = {name: np.dtype(getattr(ml_dtypes, name, None) or name) for name in TOLERANCE}


def random(*shape, dtype="float32"):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(TYPES[dtype])


def same(found, wanted, dtype="float32"):
    assert found.dtype == TYPES[dtype]
    np.testing.assert_allclose(found.astype(np.float64), wanted, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("groups", "filters"), [(4, 4), (4, 8), (2, 6), (1, 3)])
def test_conv2d(dtype: str, layout: str, groups: int, filters: int) -> None:
    x, w, bias = (
        random(2, 4, 6, 7, dtype=dtype),
        random(filters, 4 // groups, 3, 2, dtype=dtype),
        random(filters, dtype=dtype),
    )
    wanted = direct.conv(x, w, bias, 2, ((1, 1), (1, 1)), 1, groups)
    given = x.transpose(0, 2, 3, 1).copy() if layout == "NHWC" else x
    found = tw.conv2d(given, w, bias, stride=2, padding=1, groups=groups, layout=layout)
    same(found.transpose(0, 3, 1, 2) if layout == "NHWC" else found, wanted, dtype)


@pytest.mark.parametrize("activation", [name for name in direct.ACTIVATIONS if name])
def test_bias_residual_and_activation_are_fused(activation: str) -> None:
    x, w, bias, more = random(1, 4, 5, 9), random(4, 1, 3, 3), random(4), random(1, 4, 5, 9) * 3
    found = tw.conv2d(x, w, bias, padding=1, groups=4, activation=activation, residual=more)
    same(found, direct.conv(x, w, bias, 1, ((1, 1), (1, 1)), 1, 4, activation, more))


def test_an_activation_of_ones_own() -> None:
    x, w = random(1, 4, 5, 9), random(4, 1, 3, 3)
    found = tw.conv2d(x, w, groups=4, activation=lambda v: te.max(v, 0.1 * v))
    plain = direct.conv(x, w, groups=4)
    same(found, np.maximum(plain, 0.1 * plain))


def test_activations_of_float64_differ_where_their_constants_are_one_float32() -> None:
    x, w = np.ones((1, 1, 1, 3)), np.ones((1, 1, 1, 1))
    for factor in (0.1, 0.10000000001, 1e-50, 1e-60, 1e300, 1e301):
        assert (tw.conv2d(x, w, activation=lambda v, by=factor: v * by) == factor).all()


@pytest.mark.parametrize("constant", [None, 3.0])
def test_an_activation_depends_on_its_argument(constant: Any) -> None:
    with pytest.raises(UserError, match=f"activation returned {constant}, in which its argument does not occur"):
        tw.conv2d(random(1, 1, 3, 3), random(1, 1, 1, 1), activation=lambda v: constant)


@pytest.mark.parametrize(
    ("padding", "zeros"),
    [
        (2, ((2, 2), (2, 2))),
        ((1, 2), ((1, 1), (2, 2))),
        (((0, 1), (2, 3)), ((0, 1), (2, 3))),
        ((0, 2, 1, 3), ((0, 1), (2, 3))),
        ("same", ((1, 2), (1, 1))),
        ("valid", ((0, 0), (0, 0))),
    ],
)
def test_paddings(padding: object, zeros: object) -> None:
    x, w = random(1, 2, 6, 7), random(2, 1, 4, 3)
    same(tw.conv2d(x, w, padding=padding, groups=2), direct.conv(x, w, padding=zeros, groups=2))


def test_conv1d_in_both_layouts_and_without_a_batch() -> None:
    x, w = random(2, 6, 20), random(6, 1, 4)
    wanted = direct.conv(x[:, :, None], w[:, :, None], padding=((0, 0), (3, 0)), dilation=1, groups=6)[:, :, 0]
    same(tw.conv1d(x, w, padding=(3, 0), groups=6), wanted)
    last = tw.conv1d(x.transpose(0, 2, 1).copy(), w, padding=(3, 0), groups=6, layout="NWC")
    same(last.transpose(0, 2, 1), wanted)
    same(tw.conv1d(x[0], w, padding=(3, 0), groups=6), wanted[0])


def test_depthwise_takes_both_shapes_of_weights() -> None:
    x, w = random(1, 3, 5, 6), random(6, 1, 3, 3)
    wanted = direct.conv(x, w, groups=3)
    same(tw.depthwise_conv2d(x, w), wanted)
    same(tw.depthwise_conv2d(x, w.reshape(3, 2, 3, 3)), wanted)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("stride", "dilation", "groups"), [(1, 1, 1), (2, 1, 1), (3, 1, 2), (2, 2, 4)])
def test_transposed(layout: str, stride: int, dilation: int, groups: int) -> None:
    x, w, bias = random(2, 4, 5, 4), random(4, 8 // groups, 3, 2), random(8)
    more = stride - 1
    wanted = testing.conv_transpose_python(
        x.astype(np.float64), w, (stride,) * 2, (1, 0, 1, 0), (more,) * 2, (dilation,) * 2, groups
    ) + bias.reshape(1, -1, 1, 1)
    given = x.transpose(0, 2, 3, 1).copy() if layout == "NHWC" else x
    found = tw.conv_transpose2d(given, w, bias, stride, (1, 0), more, groups, dilation, layout=layout)
    same(found.transpose(0, 3, 1, 2) if layout == "NHWC" else found, wanted)


def test_transposed_in_one_dimension() -> None:
    x, w = random(1, 3, 9), random(3, 2, 4)
    wanted = testing.conv_transpose_python(
        x[:, :, None].astype(np.float64), w[:, :, None], (1, 2), (0, 1, 0, 1), (0, 0), (1, 1)
    )[:, :, 0]
    same(tw.conv_transpose1d(x, w, stride=2, padding=1), wanted)


def test_pooling() -> None:
    x = random(2, 3, 9, 8)
    window = (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)
    same(tw.max_pool2d(x, 3, 2, 1), testing.pool_python(x.astype(float), "max", *window))
    same(tw.avg_pool2d(x, 3, 2, 1), testing.pool_python(x.astype(float), "average", *window))
    inside = testing.pool_python(x.astype(float), "average inside", *window)
    same(tw.avg_pool2d(x, 3, 2, 1, count_include_pad=False), inside)
    last = tw.max_pool2d(x.transpose(0, 2, 3, 1).copy(), 2, layout="NHWC")
    same(last.transpose(0, 3, 1, 2), x[:, :, :8].reshape(2, 3, 4, 2, 4, 2).max(axis=(3, 5)).astype(float))


def test_a_value_that_is_not_a_number_stays_the_largest() -> None:
    x = np.full((1, 1, 2, 4), -np.inf, np.float32)
    x[0, 0, 0, 0] = np.nan
    found = tw.max_pool2d(x, 2)
    assert np.isnan(found[0, 0, 0, 0])
    assert found[0, 0, 0, 1] == -np.inf


def test_what_is_not_contiguous_or_not_aligned_is_copied() -> None:
    w = random(2, 1, 3, 3)
    x = random(1, 2, 6, 8)
    wanted = direct.conv(x, w, groups=2)
    for _ in range(2):  # as the first call of its shapes, and as a later one
        same(tw.conv2d(np.asfortranarray(x), w, groups=2), wanted)
        odd = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
        same(tw.conv2d(odd, w, groups=2), wanted)
        same(tw.conv2d(x, w, groups=2), wanted)


def test_out_is_written_and_returned() -> None:
    x, w = random(1, 2, 6, 8), random(2, 1, 3, 3)
    wanted = direct.conv(x, w, groups=2)
    for out in (np.empty((1, 2, 4, 6), np.float32), np.asfortranarray(np.empty((1, 2, 4, 6), np.float32))):
        assert tw.conv2d(x, w, groups=2, out=out) is out
        same(out, wanted)
    with pytest.raises(UserError, match="conv2d: out shares memory with an input"):
        tw.conv2d(x, w, padding=1, groups=2, out=x)
    frozen = np.empty((1, 2, 4, 6), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(UserError, match="conv2d: out is read-only"):
        tw.conv2d(x, w, groups=2, out=frozen)


def test_a_residual_shares_part_of_the_memory_of_out() -> None:
    """Element by element in one place, the result may replace it; one element further on, it is copied first."""
    x, w = random(1, 2, 6, 8), random(2, 1, 3, 3)
    for apart in (0, 1):
        memory = random(48 + apart)
        residual, out = (memory[start : start + 48].reshape(1, 2, 4, 6) for start in (0, apart))
        wanted = direct.conv(x, w, groups=2) + residual
        assert tw.conv2d(x, w, groups=2, residual=residual, out=out) is out
        same(out, wanted)


def test_out_of_our_own_arrays() -> None:
    x, w = random(1, 2, 6, 8), random(2, 1, 3, 3)
    wanted = direct.conv(x, w, groups=2)
    ours, weight = tw.nd.array(x), tw.nd.array(w)
    memory = tw.nd.array(np.zeros(200, "float32"))
    apart = memory.as_strided((1, 2, 4, 6), (96, 48, 12, 2))
    assert tw.conv2d(ours, weight, groups=2, out=apart) is apart
    same(apart.numpy(), wanted)
    assert not memory.numpy()[1::2].any()  # what lies between the elements stays
    residual, shifted = (memory.as_strided((1, 2, 4, 6), (48, 24, 6, 1), start) for start in (0, 1))
    added = wanted + residual.numpy()
    same(tw.conv2d(ours, weight, groups=2, residual=residual, out=shifted).numpy(), added)
    with pytest.raises(UserError, match="conv2d: out shares memory with an input"):
        tw.conv2d(ours, weight, padding=1, groups=2, out=ours)


@pytest.mark.parametrize("option", ["stride", "padding", "dilation", "groups"])
def test_an_option_is_an_array(option: str) -> None:
    x, w = random(1, 2, 6, 8), random(2, 1, 3, 3)
    with pytest.raises(UserError, match=option):
        tw.conv2d(x, w, **{"groups": 2, option: np.array([1, 1])})


def test_an_input_may_be_read_only() -> None:
    x, w = random(1, 2, 6, 8), random(2, 1, 3, 3)
    x.flags.writeable = False
    same(tw.conv2d(x, w, groups=2), direct.conv(x, w, groups=2))


@pytest.mark.parametrize("what", ["x", "weight", "bias", "residual", "out"])
def test_the_other_byte_order_is_named(what: str) -> None:
    given = {
        "x": random(1, 2, 6, 8),
        "weight": random(2, 1, 3, 3),
        "bias": random(2),
        "residual": random(1, 2, 4, 6),
        "out": random(1, 2, 4, 6),
    }
    tw.conv2d(**given, groups=2)
    given[what] = given[what].astype(given[what].dtype.newbyteorder())
    with pytest.raises(UserError, match=f"{what} has the type '[<>]f4', float32 in the byte order of other") as caught:
        tw.conv2d(**given, groups=2)
    wanted = f"convert it: {what}.astype({what}.dtype.newbyteorder('='))"
    assert caught.value.fix == ("pass an array of float32" if what == "out" else wanted)
    given[what] = given[what].astype(given[what].dtype.newbyteorder("="))
    assert tw.conv2d(**given, groups=2).shape == (1, 2, 4, 6)


@pytest.mark.parametrize("what", ["x", "weight", "bias", "residual", "out"])
def test_a_masked_array_is_refused(what: str) -> None:
    given: dict[str, Any] = {
        "x": random(1, 2, 6, 8),
        "weight": random(2, 1, 3, 3),
        "bias": random(2),
        "residual": random(1, 2, 4, 6),
        "out": random(1, 2, 4, 6),
    }
    tw.conv2d(**given, groups=2)  # kernels that are known change nothing
    given[what] = np.ma.masked_array(given[what], given[what] > 0)
    with pytest.raises(UserError, match=f"conv2d: {what} is a masked array, and calls do not read masks") as caught:
        tw.conv2d(**given, groups=2)
    given[what] = eval(caught.value.fix.rpartition(" ")[2], {what: given[what]})
    assert tw.conv2d(**given, groups=2).shape == (1, 2, 4, 6)


def test_classes_derived_from_numpys_array_give_plain_results(tmp_path: Any) -> None:
    class Measured(np.ndarray):
        """A class of the user's own."""

    x, w = random(1, 2, 6, 8), random(2, 1, 3, 3)
    mapped = np.memmap(tmp_path / "x", x.dtype, "w+", shape=x.shape)
    mapped[:] = x
    for given in (mapped, x.view(Measured), np.memmap(tmp_path / "x", x.dtype, "r", shape=x.shape)):
        found = tw.conv2d(given, w.view(Measured), groups=2)
        assert type(found) is np.ndarray
        same(found, direct.conv(x, w, groups=2))


@pytest.mark.parametrize("dtype", ["O", "c8", ">i4"])
def test_an_argument_of_another_type_is_named(dtype: str) -> None:
    with pytest.raises(UserError, match=r"weight has the type (object|complex64|int32), and x has float32"):
        tw.conv2d(random(1, 2, 6, 8), np.zeros((2, 1, 3, 3), dtype), groups=2)


def test_an_empty_batch_has_an_empty_result() -> None:
    assert tw.conv2d(random(0, 2, 6, 8), random(2, 1, 3, 3), groups=2).shape == (0, 2, 4, 6)


def test_options_in_lists_work() -> None:
    x, w = random(1, 2, 6, 8), random(2, 1, 3, 3)
    same(tw.conv2d(x, w, stride=[1, 1], padding=[0, 0], groups=2), direct.conv(x, w, groups=2))


def test_a_second_call_only_looks_up(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = random(1, 2, 6, 8), random(2, 1, 3, 3)
    first = tw.conv2d(x, w, groups=2)
    monkeypatch.setattr(numpy_arrays, "_prepared", None)
    np.testing.assert_array_equal(tw.conv2d(x, w, groups=2), first)


def test_arrays_of_our_own_and_anything_with_dlpack() -> None:
    class Other:
        """An array of a library that is not known."""

        def __init__(self, data: np.ndarray) -> None:
            self.data = data

        def __dlpack__(self, **options: object) -> object:
            return self.data.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.data.__dlpack_device__()

    x, w = random(1, 2, 6, 8), random(2, 1, 3, 3)
    wanted = direct.conv(x, w, groups=2)
    ours = tw.conv2d(tw.nd.array(x), tw.nd.array(w), groups=2)
    same(ours.numpy(), wanted)
    same(tw.conv2d(Other(x), Other(w), groups=2).numpy(), wanted)
    with pytest.raises(UserError, match="x is a list, which is not an array"):
        tw.conv2d([1.0], w)
    with pytest.raises(UserError, match="x is a NumPy array, but weight is a list"):
        tw.conv2d(x, [1.0])
    with pytest.raises(UserError, match="bias is a bool\n  fix: leave bias out"):
        tw.conv2d(x, w, False, groups=2)


@pytest.mark.parametrize(
    ("dtype", "named"),
    [("complex128", "complex128"), (object, "object")],
)
def test_types_that_no_kernel_has_are_named_with_their_argument(dtype: object, named: str) -> None:
    x, w = random(1, 2, 6, 8), random(2, 1, 3, 3)
    with pytest.raises(UserError, match=f"x has the type {named}"):
        tw.conv2d(x.astype(dtype), w, groups=2)
    with pytest.raises(UserError, match=f"weight has the type {named}.*, and x has float32"):
        tw.conv2d(x, w.astype(dtype), groups=2)


def test_large_results_begin_with_a_line() -> None:
    """Kernels store whole lines past the caches only where they are whole lines."""
    height = numpy_arrays.LARGE // (32 * 64 * 4)
    x, w = random(1, height, 64, 32), random(32, 1, 1, 1)
    for _ in range(3):
        y = tw.conv2d(x, w, groups=32, layout="NHWC")
        assert y.ctypes.data % 64 == 0
        assert y.flags.c_contiguous
        assert y.flags.writeable
    np.testing.assert_allclose(y, x * w[:, 0, 0, 0], rtol=1e-6)


def test_memory_between_kernels_is_shared_by_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    spare: list[running._Piece] = []
    monkeypatch.setattr(running, "_spare", spare)
    w = np.random.default_rng(0).standard_normal((32, 1, 3, 3), np.float32)
    for batch in (3, 1, 5, 2):
        x = np.random.default_rng(batch).standard_normal((batch, 32, 15, 13), np.float32)
        for _ in range(2):
            found = tw.conv2d(x, w, padding=1, groups=32)
        np.testing.assert_allclose(found, direct.conv(x, w, None, 1, ((1, 1), (1, 1)), 1, 32), rtol=1e-4, atol=1e-4)
    assert len(spare) == 1
    assert spare[0].size >= 5 * 32 * 17 * 15 * 4


class OfAnotherLibrary:
    """An array that is known by DLPack alone, as CuPy's are."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self.shape, self.strides = data.shape, data.strides

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.data.__dlpack_device__()

    def copy(self) -> OfAnotherLibrary:
        return OfAnotherLibrary(self.data.copy())


def test_arrays_of_another_library_lie_in_memory_in_any_order() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.random((2, 4, 9, 10), np.float32), rng.random((4, 1, 3, 3), np.float32)
    wanted = tw.conv2d(x, w, groups=4)
    for arranged in (
        lambda a: a.transpose(0, 3, 2, 1).copy().transpose(0, 3, 2, 1),
        lambda a: np.flip(np.flip(a, (0, 3)).copy(), (0, 3)),
        lambda a: np.repeat(a, 2, -1)[..., ::2],
    ):
        found = tw.conv2d(OfAnotherLibrary(arranged(x)), OfAnotherLibrary(arranged(w)), groups=4)
        np.testing.assert_array_equal(np.from_dlpack(found), wanted)
