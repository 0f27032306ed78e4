"""What scripts and tests of the legacy operator library ask of `topi.testing`, `topi.utils` and `tvm.testing`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, topi
from tilewright.contrib.pickle_memoize import memoize
from tilewright.core.target import Target
from tilewright.topi import testing, utils
from tilewright.topi.nn.utils import get_pad_tuple, get_pad_tuple1d, get_pad_tuple3d, infer_pad, infer_stride

RNG = np.random.default_rng(7)


def some(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


LINE, LINES = some(1, 4, 9), some(2, 4, 9)
IMAGES, FILTERS = some(1, 4, 6, 5), some(4, 3, 3, 3)
VOLUMES, BLOCKS = some(1, 2, 4, 4, 3), some(2, 2, 2, 3, 2)

# A reference, and the operator that it is of; both in every way that the legacy arguments allow.
OPERATORS: dict[str, tuple[Any, list[np.ndarray], Any]] = {
    "conv1d": (
        lambda a, w: topi.nn.conv1d_ncw(a, w, 2, (1, 2), 2),
        [LINES, some(3, 4, 3)],
        lambda a, w: testing.conv1d_ncw_python(a, w, 2, (1, 2), 2),
    ),
    "group conv1d": (
        lambda a, w: topi.nn.group_conv1d_ncw(a, w, 1, "SAME", 1, 2),
        [LINES, some(6, 2, 3)],
        lambda a, w: testing.group_conv1d_ncw_python(a, w, 1, "SAME", 1, 2),
    ),
    "conv1d transpose": (
        lambda a, w: topi.nn.conv1d_transpose_ncw(a, w, 2, (1, 0), "float32", (1,)),
        [LINE, some(4, 2, 3)],
        lambda a, w: testing.conv1d_transpose_ncw_python(a, w, 2, (1, 0), (1,)),
    ),
    "conv2d transpose": (
        lambda a, w: topi.nn.conv2d_transpose_nchw(a, w, (2, 2), (1, 1), "float32", (1, 1)),
        [IMAGES, FILTERS],
        lambda a, w: testing.conv2d_transpose_nhwc_python(
            a.transpose(0, 2, 3, 1), w.transpose(2, 3, 0, 1), "HWIO", (2, 2), (1, 1), (1, 1)
        ).transpose(0, 3, 1, 2),
    ),
    "conv3d": (
        lambda a, w: topi.nn.conv3d_ncdhw(a, w, (1, 2, 1), "VALID", 1),
        [VOLUMES, BLOCKS],
        lambda a, w: testing.conv3d_ndhwc_python(
            a.transpose(0, 2, 3, 4, 1), w.transpose(2, 3, 4, 1, 0), (1, 2, 1), "VALID"
        ).transpose(0, 4, 1, 2, 3),
    ),
    "conv3d transpose": (
        lambda a, w: topi.nn.conv3d_transpose_ncdhw(a, w, (1, 1, 1), (0, 1, 0), "float32", (0, 0, 0)),
        [VOLUMES, BLOCKS],
        lambda a, w: testing.conv3d_transpose_ncdhw_python(a, w, (1, 1, 1), (0, 1, 0), (0, 0, 0)),
    ),
    "depthwise in blocks": (
        lambda a, w: topi.nn.depthwise_conv2d_NCHWc(a, w, 1, 1, 1, "NCHW4c", "NCHW4c"),
        [some(1, 2, 5, 5, 4), some(2, 1, 3, 3, 1, 4)],
        lambda a, w: testing.depthwise_conv2d_python_nchwc(a, w, 1, 1),
    ),
    "dense": (
        lambda a, w, b: topi.nn.relu(topi.nn.dense(a, w, b)),
        [some(3, 8), some(5, 8), some(5)],
        lambda a, w, b: testing.dense(a, w, b, True, True),
    ),
    "matmul": (lambda a, b: topi.matmul(a, b, True, True), [some(4, 3), some(5, 4)], lambda a, b: a.T @ b.T),
    "batch matmul": (
        lambda a, b: topi.nn.batch_matmul(a, b, None, None, True, False),
        [some(2, 4, 3), some(2, 4, 5)],
        lambda a, b: testing.batch_matmul(a, b, None, True, False),
    ),
    "adaptive pool": (
        lambda a: topi.nn.adaptive_pool(a, (2, 3), "avg", "NHWC"),
        [some(1, 5, 7, 3)],
        lambda a: testing.adaptive_pool(a, (2, 3), "avg", "NHWC"),
    ),
    "pool": (
        lambda a: topi.nn.pool2d(a, (2, 2), (2, 1), (1, 1), (0, 0, 1, 0), "max", False, "NHWC"),
        [some(1, 5, 7, 3)],
        lambda a: testing.poolnd_python(a, (2, 2), (2, 1), (1, 1), (0, 0), (1, 0), "max", layout="NHWC"),
    ),
    "resize": (
        lambda a: topi.image.resize2d(a, [0.0] * 4, (9, 10), "NHWC", "linear", "half_pixel"),
        [some(1, 6, 5, 2)],
        lambda a: testing.resize2d_python(a, (1.5, 2), "NHWC", "bilinear", "half_pixel"),
    ),
    "upsampling": (lambda a: topi.nn.upsampling(a, 2, 3), [IMAGES], lambda a: testing.upsampling_python(a, (2, 3))),
    "strided slice": (
        lambda a: topi.strided_slice(a, [0, -1, 1], [2, -5, 4], [1, -1, 2]),
        [some(3, 4, 5)],
        lambda a: testing.strided_slice_python(a, [0, -1, 1], [2, -5, 4], [1, -1, 2]),
    ),
    "one hot": (
        lambda a: topi.one_hot(topi.cast(a, "int32"), te.const(2.0), te.const(-1.0), 4, 0, "float32"),
        [np.array([0, 3, 1], "float32")],
        lambda a: testing.one_hot(a.astype("int32"), 2.0, -1.0, 4, 0, "float32"),
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_references_agree_with_operators(name: str) -> None:
    operator, given, reference = OPERATORS[name]
    schedule = (
        topi.x86.schedule_conv if "conv" in name else testing.dispatch("llvm", SCHEDULES.get(name, {"cpu": None}))
    )
    testing.compare_numpy_tvm(
        given, reference(*given), "llvm", tw.cpu(), operator, schedule or testing.get_injective_schedule("llvm")
    )


SCHEDULES = {
    name: {"generic": getattr(topi.generic, schedule)}
    for name, schedule in (
        *(("dense", "schedule_dense_pack"), ("matmul", "schedule_matmul"), ("batch matmul", "schedule_batch_matmul")),
        *(
            ("adaptive pool", "schedule_adaptive_pool"),
            ("pool", "schedule_pool"),
            ("depthwise in blocks", "schedule_conv"),
        ),
    )
}


def test_references_of_more_than_one_result() -> None:
    x, ones, zeros = some(2, 3, 4), np.ones(3, "float32"), np.zeros(3, "float32")
    out, mean, variance = testing.batch_norm(x, ones, zeros, zeros, ones, training=True, momentum=0.5)
    np.testing.assert_allclose(out.mean((0, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(mean, 0.5 * x.mean((0, 2)), rtol=1e-5)
    np.testing.assert_allclose(variance, 0.5 * x.var((0, 2)) + 0.5, rtol=1e-5)
    assert testing.searchsorted_ref(np.array([1, 2, 2, 3]), np.array([2, 0]), True, "int32").tolist() == [3, 0]
    data = np.arange(6.0).reshape(2, 3)
    assert testing.strided_set_python(data, 9.0, [0, 1], [2, 3], [1]).tolist() == [[0, 9, 9], [3, 9, 9]]
    assert testing.slice_axis_python(data, 1, 1).tolist() == [[1, 2], [4, 5]]
    assert testing.gather_python(data, 1, np.array([[2], [0]])).tolist() == [[2], [3]]
    diagonal = np.zeros(2)
    assert testing.matrix_set_diag(data, diagonal).tolist() == [[0, 1, 2], [3, 0, 5]]
    # The gradient by the filter, of a sum over the images: what each tap meets.
    grads = testing.conv2d_backward_weight_python(np.ones((1, 1, 2, 2)), np.ones((1, 2, 4, 4)), (3, 3), 1, 0)
    np.testing.assert_array_equal(grads, np.full((1, 2, 3, 3), 4.0))


def test_what_suits_a_target() -> None:
    table = {"cuda": 1, "gpu": 2, "generic": 3}
    assert [testing.dispatch(t, table) for t in ("cuda", "opencl", Target("llvm"))] == [1, 2, 3]
    with refused("dispatch", "none of the keys 'cuda' is one of llvm", fix="'cpu', or \"generic\""):
        testing.dispatch("llvm", {"cuda": 1})
    assert testing.get_reduce_schedule("cuda") is topi.cuda.schedule_reduce
    assert testing.get_conv2d_nchw_implement("opencl") == (topi.cuda.conv2d_nchw, topi.cuda.schedule_conv2d_nchw)
    assert testing.get_conv2d_nchw_implement("llvm")[1] is topi.x86.schedule_conv2d_nchw


def test_a_convolution_that_no_template_covers_is_declared_as_it_is() -> None:
    a, w = te.placeholder((8, 8, 4, 2)), te.placeholder((3, 3, 4, 5))
    with Target("opencl"):
        out = topi.cuda.conv2d_hwcn(a, w, 1, 1)
        tw.lower(topi.cuda.schedule_conv2d_hwcn([out]), [a, w, out])


class TestUtils:
    def test_zeros_of_a_padding(self) -> None:
        assert get_pad_tuple("SAME", (3, 4)) == (1, 2, 1, 1)
        assert get_pad_tuple((1, 2), (3, 3)) == (1, 2, 1, 2)
        assert get_pad_tuple1d((1, 0), 3) == (1, 0)
        assert get_pad_tuple3d("VALID", (3, 3, 3)) == (0,) * 6
        with refused("get_pad_tuple", "padding is 'HALF'", fix='"SAME"'):
            get_pad_tuple("HALF", (3, 3))

    def test_what_a_convolution_was_made_with(self) -> None:
        data, kernel = te.placeholder((1, 3, 9, 8)), te.placeholder((4, 3, 3, 3))
        padded = topi.nn.pad(data, (0, 0, 1, 2))
        out = topi.nn.conv2d_nchw(data, kernel, (2, 1), 0)
        assert infer_pad(data, padded) == (1, 2)
        assert infer_pad(data, None) == (0, 0)
        assert infer_stride(data, kernel, out) == (2, 1)

    def test_numbers_and_shapes(self) -> None:
        n = te.size_var("n")
        assert utils.get_float_tuple((1, te.const(2.5))) == (1.0, 2.5)
        assert utils.equal_const_int(te.const(3, "int32"), 3)
        assert not utils.equal_const_int(n, 3)
        assert utils.get_const_int(utils.prod((2, 3, 4))) == 24
        assert utils.get_const_int(utils.ravel_index((1, 2), (3, 4))) == 6
        assert utils.get_const_tuple(utils.unravel_index(6, (3, 4))) == (1, 2)
        assert [utils.get_max_power2_factor(n, most) for n, most in ((96, None), (96, 8), (7, 8))] == [32, 8, 1]
        assert utils.is_empty_shape((2, 0))
        assert not utils.is_empty_shape((n, 1))
        assert utils.get_const_int(utils.ceil_div(7, 2)) == 4
        assert utils.get_shape((1, 2, 3, 4), "NCHW", "NHWC") == (1, 3, 4, 2)
        assert utils.get_shape((2, 3, 4, 5, 16, 8), "OIHW16i8o", "HWO8oI16i") == (4, 5, 2, 8, 3, 16)
        inside = [bool(utils.get_const_int(utils.within_index(1, 7, 2, i))) for i in range(8)]
        assert inside == [False, True, False, True, False, True, False, False]
        assert [utils.get_const_int(utils.make_idx(1, 7, 2, 3, i)) for i in range(8)] == [0, 0, 0, 1, 1, 2, 2, 2]
        with Target("cuda"):
            assert utils.is_target(["cuda", "rocm"])
        assert not utils.is_target("cuda")

    def test_constants_as_tensors(self) -> None:
        values = some(2, 3)
        matrix, vector = utils.const_matrix(values), utils.const_vector(np.array([3, 1], "int32"))
        out = te.compute((2, 3), lambda i, j: matrix[i, j] * vector[i].astype("float32"))
        found = tw.nd.empty((2, 3))
        tw.build(te.create_schedule(out.op), [out], "llvm")(found)
        np.testing.assert_allclose(found.numpy(), values * [[3], [1]], rtol=1e-6)

    @pytest.mark.parametrize(
        ("attempt", "primitive", "says"),
        [
            (lambda: utils.get_const_float(te.var("x")), "get_const_float", "`x` is not a constant"),
            (lambda: utils.ravel_index((1,), (2, 3)), "ravel_index", "1 indices are given for 2 dimensions"),
            (lambda: utils.const_matrix([1, 2]), "const_matrix", "is not an array of 2 dimensions"),
            (lambda: utils.get_max_power2_factor(0), "get_max_power2_factor", "n=0 is not a whole number"),
            (lambda: utils.get_shape((1, 2, 4), "NC4c", "NC2c"), "get_shape", "from layout NC4c to NC2c"),
            (lambda: utils.get_shape((1, 2), "NC", "NW"), "get_shape", "cannot be converted from layout NC to NW"),
        ],
    )
    def test_mistakes(self, attempt: Any, primitive: str, says: str) -> None:
        with refused(primitive, says):
            attempt()


called: list[int] = []


def test_results_that_are_kept() -> None:
    def reference(size: int) -> Any:
        @memoize("tests.reference")
        def get(scale: float = 1.0) -> np.ndarray:
            called.append(size)
            return np.full(size, scale)

        return get

    first = reference(3)()
    assert reference(3)() is first
    assert reference(4)().size == 4
    assert len(called) == 2
    unhashable = memoize("tests.list")(lambda values: called.append(0))
    unhashable([1])
    unhashable([1])
    assert len(called) == 4
    with refused("memoize", "the key is 3", fix='@memoize("ref.conv2d")'):
        memoize(3)  # type: ignore[arg-type]


PROGRAM = """
import pytest, tilewright as tw
from tilewright import testing

size = testing.parameter(8, 16, ids=["small", "large"])
m, n = testing.parameters((1, 2), (3, 4))

@testing.fixture
def doubled(size): return 2 * size

@testing.fixture(cache_return_value=True)
def ready(): return "ready"

def test_sizes(doubled, ready): assert doubled in (16, 32) and ready == "ready"
def test_together(m, n): assert n == m + 1
@testing.parametrize_targets("llvm")
def test_one_target(target, dev): assert target == "llvm" and dev.exist
@testing.parametrize_targets()
@testing.exclude_targets("opencl", "cuda")
def test_all_targets(target): assert target == "llvm"
@testing.exclude_targets("opencl", "cuda")
def test_targets(target): assert target == "llvm"
@testing.known_failing_targets("llvm")
@testing.exclude_targets("opencl", "cuda")
def test_fails(target): assert False
@testing.requires_package("no_such_package")
def test_not_here(): assert False
@testing.requires_llvm
@testing.uses_gpu
def test_here(): pass
"""


def test_tests_of_the_legacy_api(tmp_path: Path) -> None:
    (tmp_path / "test_program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tilewright.testing.plugin", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "8 passed, 1 skipped, 1 xfailed" in done.stdout, done.stdout + done.stderr


def test_mistakes_in_tests() -> None:
    with refused("parameter", "no values are given", fix="tvm.testing.parameter(8, 16)"):
        tw.testing.parameter()
    with refused("parameters", "the sets have 1, 2 values", fix="as many values in each set"):
        tw.testing.parameters((1, 2), (3,))
    assert tw.testing.requires_llvm.marks() == []
    assert len(tw.testing.requires_package("no_such_package").marks()) == 1


def test_a_task_to_try_tuners_on() -> None:
    from tilewright.testing import autotvm as sample

    records = sample.get_sample_records(3)
    assert [result.costs for _, result in records] == [(1,), (2,), (3,)]
    assert all(0 < result.costs[0] <= 1 for result in sample.DummyRunner().run(range(4), range(4)))
