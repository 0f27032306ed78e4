"""Automatic schedules compute the declared results on every target; bare tensors build by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.auto.programs import PROGRAMS, Program, layer_norm, softmax
from tests.passes.running import finish
from tilewright import te, topi
from tilewright.auto.program import AutomaticProgram
from tilewright.core.target import Target
from tilewright.loops.interpret import interpret
from tilewright.tensor.tensor import PlaceholderOp

TARGETS = (
    "llvm",
    pytest.param("cuda", marks=pytest.mark.cuda),
    pytest.param("opencl", marks=[pytest.mark.opencl, pytest.mark.slow]),
)
SIZE = 21
"""The value of sizes that are known only at the call."""


def arrays(args: list[Any], seed: int = 0) -> list[np.ndarray]:
    """Random inputs; outputs are poisoned."""
    rng = np.random.default_rng(seed)
    made = []
    for each in args:
        shape = [getattr(extent, "value", SIZE) for extent in each.shape]
        kind = str(each.dtype)
        if not isinstance(each.op, PlaceholderOp):
            made.append(np.full(shape, np.nan if "float" in kind else -7, kind))
        elif "int" in kind:
            made.append(rng.integers(0, 20, shape).astype(kind))
        else:
            made.append((rng.random(shape) - 0.3).astype(kind))
    return made


def check(program: Program, schedule: Any, target: str) -> None:
    """Compare the results of a schedule, or of bare tensors, with NumPy's."""
    args, reference = program
    given = arrays(args)
    inputs = [x.astype("float64") if x.dtype.kind == "f" else x
              for x, t in zip(given, args, strict=True) if isinstance(t.op, PlaceholderOp)]  # fmt: skip
    expected = reference(*inputs)
    device = tw.device("cpu" if target == "llvm" else target, 0)
    held = [tw.nd.array(x, device) for x in given]
    tw.build(schedule, args, target)(*held)
    found = [x.numpy() for x, t in zip(held, args, strict=True) if not isinstance(t.op, PlaceholderOp)]
    for got, wanted in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("declare", PROGRAMS, ids=lambda f: f.__name__)
def test_results(declare: Callable[[], Program], target: str) -> None:
    program = declare()
    check(program, tw.auto_schedule(program[0], target), target)


@pytest.mark.parametrize(
    "declare", [pytest.param(f, marks=[pytest.mark.slow] if i % 4 else []) for i, f in enumerate(PROGRAMS)]
)
def test_kernels_compile(declare: Callable[[], Program]) -> None:
    """For a GPU, without one."""
    args, _ = declare()
    tw.build(tw.auto_schedule(args, "cuda"), args, "cuda")


@pytest.mark.parametrize("target", ["cuda", "opencl -device=gpu"])
def test_reads_along_other_dimensions_of_a_tensor(target: str) -> None:
    """Such as correlations, which divide elements of a matrix by its diagonal."""
    a = te.placeholder((24, 24), name="a")
    x = np.random.default_rng(0).random((24, 24)).astype("float32") + 1
    for element in (
        lambda a, i, j: a[i, j] / (a[i, i] * a[j, j]),
        lambda a, i, j: a[i, j] + a[0, j] + a[i, 0],
        lambda a, i, j: a[j, i] + a[j, j] * a[0, 0],
    ):
        b = te.compute((24, 24), lambda i, j, element=element: element(a, i, j), name="b")
        (part,) = tw.lower(tw.auto_schedule([a, b], target), [a, b]).parts
        made = np.full_like(x, np.nan)
        interpret(finish(part.function, target, check=True), [x, made])
        np.testing.assert_allclose(made, element(x, *np.indices((24, 24))), rtol=1e-5)


def test_bare_tensors_are_scheduled() -> None:
    args, reference = softmax()
    check((args, reference), args, "llvm")
    module = tw.build(args[-1], target="llvm")
    assert module.entry_name == "main"


def test_stages_of_a_row_share_a_kernel() -> None:
    args, _ = layer_norm()
    s = tw.auto_schedule(args, "cuda")
    outside = [stage.op.name for stage in s.value.in_order() if str(stage.placement) == "AtRoot()"]
    assert outside == ["a", "g", "b"]


def test_the_same_program_has_the_same_steps() -> None:
    first, second = (tw.auto_schedule(softmax()[0], "cuda") for _ in range(2))
    assert [s.to_json() for s in first.steps] == [s.to_json() for s in second.steps]
    args, _ = softmax()
    replayed = te.create_schedule(args[-1].op)
    replayed.replay([s.to_json() for s in first.steps])
    assert [s.to_json() for s in replayed.steps] == [s.to_json() for s in first.steps]


def test_a_gpu_build_without_primitives_names_auto_schedule() -> None:
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] + 1, name="b")
    with pytest.raises(tw.UserError, match="outside of any kernel") as refused:
        tw.build(te.create_schedule(b.op), [a, b], "cuda")
    assert "tw.auto_schedule(tensors, target)" in str(refused.value)


def test_errors() -> None:
    a = te.placeholder((8,), name="a")
    with pytest.raises(tw.UserError, match="nothing to compute among"):
        tw.auto_schedule([a], "llvm")
    with pytest.raises(tw.UserError, match="is not a tensor"):
        tw.auto_schedule([3], "llvm")
    with pytest.raises(tw.UserError, match="no target is given"):
        tw.auto_schedule(te.compute((8,), lambda i: a[i], name="b"))


def test_each_step_has_a_reason() -> None:
    s = tw.auto_schedule(softmax()[0], "cuda")
    assert all(step.reason for step in s.steps)
    assert "the stages of b fall into rows" in str(s.explain("cuda"))
    assert "# the stages of b fall into rows" in s.as_python()


@pytest.mark.parametrize(
    ("precision", "names", "error"),
    [
        ("ieee", {"ordinary arithmetic"}, 1e-6),
        ("fp32", {"matrix instructions"}, 1e-6),
        ("tf32", {"rounding matrix instructions"}, 1e-3),
        ("tf32_cut", {"cutting warpgroup instructions"}, 2e-3),
    ],
)
@pytest.mark.cuda
def test_precision_of_products(precision: str, names: set[str], error: float) -> None:
    target = Target("cuda -arch=sm_90")
    a, b, r = te.placeholder((128, 96), name="a"), te.placeholder((64, 96), name="b"), te.reduce_axis((0, 96), "r")
    c = te.compute((128, 64), lambda i, j: te.sum(a[i, r] * b[j, r], axis=r), name="c")
    (ways,) = AutomaticProgram([c.op], target, precision).ways
    assert names <= {way.name for way in ways}
    assert ("rounding matrix instructions" in {way.name for way in ways}) == (precision in ("tf32", "tf32_cut"))
    s = tw.auto_schedule([a, b, c], target, precision=precision)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype("float32") for shape in ((128, 96), (64, 96))]
    held = [tw.nd.array(x, tw.cuda()) for x in (*given, np.full((128, 64), np.nan, "float32"))]
    tw.build(s, [a, b, c], target)(*held)
    right = given[0].astype("float64") @ given[1].T.astype("float64")
    assert np.linalg.norm(held[2].numpy() - right) <= error * np.linalg.norm(right)


def test_a_normalisation_before_a_product_is_one_kernel() -> None:
    x, w = te.placeholder((512, 256), name="x"), te.placeholder((256, 128), name="w")
    k, r = te.reduce_axis((0, 256), name="k"), te.reduce_axis((0, 256), name="r")
    squares = te.compute((512,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), name="squares")
    normal = te.compute((512, 256), lambda i, j: x[i, j] * te.rsqrt(squares[i] / 256.0 + 1e-5), name="normal")
    out = te.compute((512, 128), lambda i, j: te.sum(normal[i, r] * w[r, j], axis=r), name="out")
    kernels = AutomaticProgram([out.op], Target("cuda -arch=sm_90")).kernels
    assert [(kernel.out.name, [op.name for op in kernel.members]) for kernel in kernels] == [
        ("normal", ["squares"]),
        ("out", []),
    ]


def test_a_padded_convolution_in_groups_is_computed_in_tiles_on_a_processor() -> None:
    """The padding is stored before: channels of a group read it again and again."""
    x, w = te.placeholder((1, 64, 28, 28), name="x"), te.placeholder((64, 16, 3, 3), name="w")
    out = topi.nn.group_conv2d_nchw(x, w, 1, 1, 1, 4)
    assert "tiles of sums in registers" in tw.auto_schedule([out], "llvm").as_python()
