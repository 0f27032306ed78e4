"""Convolutions that `topi.cuda` declares for a packaged template, and schedules by it with what follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.passes.running import finish
from tests.programs.harness import TARGETS, build, poison
from tilewright import autotvm, te, topi
from tilewright.driver import lower_for
from tilewright.loops.interpret import interpret
from tilewright.runtime.array import array
from tilewright.runtime.device import device
from tilewright.tensor.tensor import ComputeOp
from tilewright.topi import templates, testing
from tilewright.topi.idioms.chosen import with_choice
from tilewright.topi.idioms.redeclared import schedule_convolution
from tilewright.topi.schedules.products import sums_to
from tilewright.topi.templates import Conv2dLayer, named

CONV2D_GEMM = named("topi/conv2d.gemm")
CONV2D_WINDOW = named("topi/conv2d.window")

on_grids = pytest.mark.parametrize("target", TARGETS[1:])
RANDOM = np.random.default_rng(8)
Follow = Callable[[Any], Any]


def values(*shape: int) -> np.ndarray:
    """Whole numbers, which add up exactly in any order."""
    return RANDOM.integers(-3, 4, shape).astype("float32")


IMAGE, FILTERS, DEPTHWISE = values(1, 16, 9, 8), values(16, 16, 3, 3), values(16, 1, 3, 3)
PLAIN = testing.conv2d_nchw_python(IMAGE, FILTERS, 1, 1)


def run(outputs: Any, given: list[tuple[te.Tensor, np.ndarray]], target: str, schedule: str) -> np.ndarray:
    """What the schedule of that name computes."""
    with tw.target.Target(target):
        out = outputs()
        s = getattr(topi.cuda, schedule)([out])
    module, on = build(s, [*(t for t, _ in given), out], target), device(target)
    found = array(poison(topi.utils.get_const_tuple(out.shape), "float32"), on)
    module(*(array(a, on) for _, a in given), found)
    return found.numpy()


def inputs(*arrays: np.ndarray) -> list[tuple[te.Tensor, np.ndarray]]:
    return [(te.placeholder(a.shape, "float32", f"A{i}"), a) for i, a in enumerate(arrays)]


FOLLOWED: dict[str, tuple[Follow, Callable[[np.ndarray], np.ndarray]]] = {
    "alone": (lambda c: c, lambda c: c),
    "followed": (lambda c: topi.nn.relu(topi.add(c, 1.0)), lambda c: np.maximum(c + 1, 0)),
    "pooled": (
        lambda c: topi.nn.pool2d(c, (3, 2), (3, 2), (1, 1), (0, 0, 0, 0), "max"),
        lambda c: c.reshape(1, 16, 3, 3, 4, 2).max((3, 5)),
    ),
}


@on_grids
@pytest.mark.parametrize("follow", FOLLOWED)
def test_what_follows_a_convolution(follow: str, target: str) -> None:
    given = inputs(IMAGE, FILTERS)
    after, expected = FOLLOWED[follow]
    conv = lambda: after(topi.cuda.conv2d_nchw(given[0][0], given[1][0], 1, 1, 1))
    np.testing.assert_array_equal(run(conv, given, target, "schedule_conv2d_nchw"), expected(PLAIN))


@on_grids
def test_other_layouts(target: str) -> None:
    turned = [np.ascontiguousarray(IMAGE.transpose(2, 3, 1, 0)), np.ascontiguousarray(FILTERS.transpose(2, 3, 1, 0))]
    given = inputs(*turned)
    conv = lambda: topi.cuda.conv2d_hwcn(given[0][0], given[1][0], 1, 1, 1)
    np.testing.assert_array_equal(run(conv, given, target, "schedule_conv2d_hwcn"), PLAIN.transpose(2, 3, 1, 0))
    last = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))
    given = inputs(last, turned[1])
    conv = lambda: topi.cuda.conv2d_nhwc(given[0][0], given[1][0], 1, 1, 1)
    np.testing.assert_array_equal(run(conv, given, target, "schedule_conv2d_nhwc"), PLAIN.transpose(0, 2, 3, 1))
    given = inputs(IMAGE, DEPTHWISE)
    conv = lambda: topi.cuda.depthwise_conv2d_nchw(given[0][0], given[1][0], 2, 1, 1)
    expected = testing.depthwise_conv2d_python_nchw(IMAGE, DEPTHWISE, 2, 1)
    np.testing.assert_array_equal(run(conv, given, target, "schedule_depthwise_conv2d_nchw"), expected)


@on_grids
@pytest.mark.parametrize("channels", [4, 64])
def test_groups(channels: int, target: str) -> None:
    """Of few channels and of many, which templates of their own compute."""
    image, filters = values(2, channels, 5, 6), values(2 * channels, channels // 2, 3, 3)
    expected = testing.conv2d_nchw_python(image, filters, 1, 1, 2)
    given = inputs(image, filters)
    conv = lambda: topi.cuda.group_conv2d_nchw(given[0][0], given[1][0], 1, 1, 1, 2)
    np.testing.assert_array_equal(run(conv, given, target, "schedule_group_conv2d_nchw"), expected)
    given = inputs(
        np.ascontiguousarray(image.transpose(0, 2, 3, 1)), np.ascontiguousarray(filters.transpose(2, 3, 1, 0))
    )
    conv = lambda: topi.nn.relu(topi.cuda.group_conv2d_nhwc(given[0][0], given[1][0], 1, 1, 1, 2))
    found = run(conv, given, target, "schedule_group_conv2d_nhwc")
    np.testing.assert_array_equal(found, np.maximum(expected, 0).transpose(0, 2, 3, 1))


def test_the_first_configuration_of_a_template_is_taken() -> None:
    A, W = te.placeholder((1, 64, 56, 56), name="A"), te.placeholder((64, 64, 3, 3), name="W")
    with tw.target.Target("cuda -arch=sm_90") as target:
        out = topi.cuda.conv2d_nchw(A, W, 1, 1, 1)
        template, config = templates.named(out.op.attrs["template"]), out.op.attrs["config"]
        assert template.default_config(Conv2dLayer.of((1, 64, 56, 56), 64, 3, 1, 1), target).index == config
        positive = topi.nn.relu(out)
        source = tw.build(topi.cuda.schedule_conv2d_nchw([positive]), [A, W, positive], target).program.source
    assert "mma.sync" in source


def test_the_strategy_of_small_groups_is_applied() -> None:
    A, W = te.placeholder((1, 64, 28, 28), "float16", "A"), te.placeholder((64, 8, 3, 3), "float16", "W")
    with tw.target.Target("cuda -arch=sm_90"):
        out = topi.nn.relu(topi.cuda.group_conv2d_nchw(A, W, 1, 1, 1, 8, "float32"))
        steps = topi.cuda.schedule_group_conv2d_nchw([out]).steps
    assert any(step.primitive == "redeclare" for step in steps)


def test_what_templates_do_not_cover_is_declared_as_ever() -> None:
    n = te.size_var("n")
    A, W = te.placeholder((n, 64, 56, 56), name="A"), te.placeholder((64, 64, 3, 3), name="W")
    assert topi.cuda.conv2d_nchw(A, W, 1, 1, 1).op.tag == "conv2d_nchw"
    A = te.placeholder((1, 64, 56, 56), "int8", name="A")
    W = te.placeholder((64, 64, 3, 3), "int8", name="W")
    assert topi.cuda.conv2d_nchw(A, W, 1, 1, 1).op.tag == "conv2d_nchw"  # whose sums are int8
    assert topi.cuda.conv2d_nchw(A, W, 1, 1, 1, "int32").dtype == "int32"


def test_contractions_are_part_of_programs() -> None:
    """A packaged template of a contraction computes within a user's own program."""
    A, W = te.placeholder((1, 16, 9, 8), name="A"), te.placeholder((16, 16, 3, 3), name="W")
    target = tw.target.Target("cuda -arch=sm_90")
    by = templates.named(CONV2D_GEMM.name)
    assert by is CONV2D_GEMM
    B = autotvm.templates.conv2d.compute(A, W, padding=1, target=target)
    C = te.compute(B.shape, lambda *i: B(*i) * 2, name="C")
    s = te.create_schedule(C.op)
    autotvm.templates.conv2d.schedule(s, B)
    axis = s[C].fuse(*C.op.axis)
    block, thread = s[C].split(axis, factor=64)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(thread, te.thread_axis("threadIdx.x"))
    assert tw.build(s, [A, W, C], target).program.source


def test_a_thread_of_the_general_schedule_keeps_its_sums_only() -> None:
    """Which lie a block's width apart."""
    A, W = te.placeholder((1, 16, 66, 66), name="A"), te.placeholder((16, 16, 3, 3), name="W")
    out = topi.nn.conv2d_nchw(A, W, 1, 0, 1)
    s = te.create_schedule(out.op)
    for op in (t.op for t in out.op.input_tensors if t is not A and t is not W):
        s[op].compute_inline()
    op = out.op
    assert isinstance(op, ComputeOp)
    sums_to(s, op, op, tw.target.Target("cuda"))
    text = str(tw.lower(s, [A, W, out]))
    assert 'T.allocate([16], "float32", "local")' in text


@pytest.mark.parametrize("weights", ["OIHW", "HWIO"])
def test_windows_are_part_of_programs(weights: str) -> None:
    """Each order of filters, with what follows in the same kernel."""
    of = Conv2dLayer.of((1, 16, 6, 9), 8, layout="NHWC", dtype="float16", weights=weights)
    target = tw.target.Target("cuda -arch=sm_90")
    A, W = of.placeholders()
    wanted = {"rows": [2, 1], "columns": [1, 16], "filters": [1, 8], "tiles": 1, "stages": 1, "store": "fragments"}
    config = CONV2D_WINDOW.strategy(target).nearest(of, wanted)
    out = with_choice(of.sums(A, W), CONV2D_WINDOW, config, of, target)
    C = te.compute(out.shape, lambda *i: (out(*i) * 2.0).astype("float16"), name="C")
    s = te.create_schedule(C.op)
    schedule_convolution(s, out.op, C.op, CONV2D_WINDOW, config.index, target)
    finished = finish(lower_for(target, s, [A, W, C]).functions[0], str(target), check=True)
    data, kernels = (np.trunc(a * 3) for a in of.inputs(np.random.default_rng(3)))
    found = np.full(of.out_shape, np.nan, "float16")
    interpret(finished, [data, kernels, found], outputs=[finished.buffers[-1]])
    np.testing.assert_array_equal(found, of.numpy(data.astype("float64"), kernels.astype("float64")) * 2)


@on_grids
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_products_on_tensor_cores(dtype: str, target: str) -> None:
    """Of matrices and of batches, with what follows in the same kernel; on a target without, as declared."""
    a, b, bias = values(48, 64).astype(dtype), values(32, 64).astype(dtype), values(32)
    given = [(te.placeholder(x.shape, str(x.dtype), f"A{i}"), x) for i, x in enumerate((a, b, bias))]
    product = lambda: topi.nn.relu(topi.cuda.dense_tensorcore(*(t for t, _ in given), "float32"))
    wide = a.astype("float32") @ b.T.astype("float32")
    np.testing.assert_array_equal(run(product, given, target, "schedule_dense_tensorcore"), np.maximum(wide + bias, 0))
    pair = [(te.placeholder((2, *x.shape), dtype, "B"), np.stack([x, x[::-1]])) for x in (a, b)]
    batch = lambda: topi.cuda.batch_matmul_tensorcore(pair[0][0], pair[1][0], None, "float32")
    expected = np.stack([wide, wide[::-1, ::-1]])
    np.testing.assert_array_equal(run(batch, pair, target, "schedule_batch_matmul_tensorcore"), expected)
    if target == "cuda" or dtype == "float32":
        last = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1)).astype(dtype)
        taps = np.ascontiguousarray(FILTERS.transpose(2, 3, 1, 0)).astype(dtype)
        images = [(te.placeholder(x.shape, dtype, f"I{i}"), x) for i, x in enumerate((last, taps))]
        conv = lambda: topi.cuda.conv2d_nhwc_tensorcore(*(t for t, _ in images), 1, 1, 1, "float32")
        found = run(conv, images, target, "schedule_conv2d_nhwc_tensorcore")
        np.testing.assert_array_equal(found, PLAIN.transpose(0, 2, 3, 1))


def test_tensor_core_names_use_matrix_instructions_on_cuda() -> None:
    """Where nothing covers the product, as here a batch of one for all, it is declared as it is."""
    x, y, once = (
        te.placeholder((4, 64, 64), "float16"),
        te.placeholder((4, 64, 64), "float16"),
        te.placeholder((1, 64, 64), "float16"),
    )
    with tw.target.Target("cuda"):
        made = topi.cuda.batch_matmul_tensorcore(x, y, None, "float32")
        plain = topi.cuda.batch_matmul_tensorcore(x, once, None, "float32")
        turned = topi.cuda.batch_matmul_tensorcore(x, y, None, "float32", False, False)
        s = topi.cuda.schedule_batch_matmul_tensorcore([made])
    assert "mma.sync" in tw.build(s, [x, y, made], "cuda").imported_modules[0].get_source()
    assert not plain.op.attrs
    assert not turned.op.attrs
