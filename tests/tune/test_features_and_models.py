"""Features of loops in the legacy form, the model that learns from them, and tasks of the legacy operators' names."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.tune import fakes
from tilewright import autotvm, te
from tilewright.autotvm import feature
from tilewright.autotvm.tuner.xgboost_cost_model import XGBoostCostModel
from tilewright.topi import testing


def product(size: int, order: list[int] | None = None, threads: bool = False) -> tuple[te.Schedule, list[Any]]:
    """A product of matrices, in tiles whose loops stand in an order."""
    k = te.reduce_axis((0, size), "k")
    a, b = te.placeholder((size, size), name="A"), te.placeholder((size, size), name="B")
    c = te.compute((size, size), lambda y, x: te.sum(a[y, k] * b[k, x], axis=k), name="C")
    s = te.create_schedule(c.op)
    if order is not None:
        axes = [*s[c].tile(*s[c].op.axis, 8, 8), k]
        s[c].reorder(*(axes[i] for i in order))
        tags = ("blockIdx.x", "vthread", "threadIdx.y") if threads else ()
        for i, tag in zip([i for i in order if i != 4], tags, strict=False):
            s[c].bind(axes[i], te.thread_axis(tag))
    return s, [a, b, c]


def test_each_loop_says_what_it_does_to_each_access() -> None:
    rows = feature.get_itervar_feature(*product(128))
    serial = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]
    y, x, k = ({pair[0]: pair[1:] for pair in row} for row in rows)
    assert [str(row["_itervar_"][0]) for row in (y, x, k)] == ["y", "x", "k"]
    assert y["_attr_"] == [128, 1, 128, 128**3, *serial]
    assert x["_attr_"] == [128, 2, 128**2, 128**2, *serial]
    assert k["_attr_"] == [128, 3, 128**3, 128, *serial]
    assert (y["A_0"], y["B_0"]) == ([128, -1, 128**2, 128, 0, 0], [0, -1, 128**2, 128, 0, 0])
    assert (x["A_0"], x["B_0"]) == ([0, -1, 128, 128, 0, 0], [1, -1, 128**2, 1, 0, 0])
    assert (k["A_0"], k["B_0"]) == ([1, -1, 128, 1, 0, 0], [128, -1, 128, 1, 0, 0])
    assert k["C_1"] == [0, -1, 1, 128, 0, 0]
    assert (k["_arith_"], y["_arith_"]) == ([1, 1, 0], [0, 0, 0])


def test_flat_features_and_their_names() -> None:
    s, args = product(16)
    rows = feature.get_itervar_feature(s, args, take_log=True)
    flat, names = feature.flatten_itervar_feature(rows), feature.get_flatten_name(rows)
    assert len(flat) == len(names)
    assert names[0] == "f0.y._attr_.length"
    assert flat[0] == pytest.approx(np.log2(17))
    np.testing.assert_array_equal(flat, np.float32(feature.get_itervar_feature_flatten(s, args)))
    with refused("feature", "3 is not a schedule", fix="te.create_schedule"):
        feature.get_itervar_feature(3, args)
    with refused("feature", "take_log=array([1, 2]) is not True or False", fix="take_log=True"):
        feature.get_itervar_feature(s, args, np.array([1, 2]))
    with refused("feature", "args=3 is not a list", fix="[A, B, C]"):
        feature.get_itervar_feature(s, 3)
    with refused("flatten_itervar_feature", "[3] are not features", fix="get_itervar_feature"):
        feature.flatten_itervar_feature([3])
    with refused("get_flatten_name", "'rows' are not features", fix="get_itervar_feature"):
        feature.get_flatten_name("rows")


def test_samples_of_the_curves_of_a_buffer() -> None:
    """The loops touch 32 and 8 elements, without reuse, after 4 and 32 iterations: as logarithms 5, 3; 2, 5."""
    a = te.placeholder((4, 8), name="A")
    b = te.compute((4, 8), lambda i, j: a[i, j] + 1.0, name="B")
    args = te.create_schedule(b.op), [a, b]
    of_a = [0, 0, 0, 1, 0, 2, 5, 0, 5, 1, 5, 2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 1, 3, 0]
    assert feature.get_buffer_curve_sample_flatten(*args, sample_n=3) == (*of_a, *of_a)
    assert len(feature.get_buffer_curve_sample_flatten(*product(16))) == 30 * 3 * 4 * 2
    with refused("feature", "sample_n=0 is not a positive integer", fix="sample_n=30"):
        feature.get_buffer_curve_sample_flatten(*args, 0)


def test_features_are_as_many_in_every_order_of_the_loops() -> None:
    r = Random(2)
    lengths = {len(feature.flatten_itervar_feature(feature.get_itervar_feature(*product(64, r.sample(range(5), 5), t))))
               for t in (False, True) for _ in range(8)}  # fmt: skip
    assert len(lengths) == 1


def test_what_threads_share() -> None:
    """A block touches 8 rows of A per thread's row, and all of its threads use them."""
    rows = feature.get_itervar_feature(*product(64, [0, 2, 4, 1, 3], threads=False))
    assert all(pair[5:] == [0, 0] for row in rows for pair in row[3:])
    k = te.reduce_axis((0, 16), "k")
    a = te.placeholder((64, 16), name="A")
    b = te.compute((64,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    block, thread = s[b].split(b.op.axis[0], factor=8)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    outer, inner, last = ({p[0]: p[1:] for p in row} for row in feature.get_itervar_feature(s, [a, b]))
    assert (outer["_attr_"][4], inner["_attr_"][4 + 3]) == (1, 1)
    assert outer["A_0"] == [128, -1, 1024, 1, 8, 1]
    assert inner["A_0"] == [16, -1, 128, 1, 8, 1]
    assert last["A_0"] == [1, -1, 16, 1, 0, 0]


@autotvm.template("features/product")
def tiled(size: int) -> Any:
    s, args = product(size)
    y, x = args[2].op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, args[2], y)
    xo, xi = cfg["tile_x"].apply(s, args[2], x)
    s[args[2]].reorder(yo, xo, args[2].op.reduce_axis[0], yi, xi)
    return s, args


def speeds(task: Any, indices: range) -> list[float]:
    """Wide tiles are fast."""
    return [float(task.config_space.get(i)["tile_x"].size[1]) for i in indices]


@pytest.mark.parametrize("kind", ["knob", "itervar", "curve"])
def test_the_model_learns_an_order(kind: str) -> None:
    task = autotvm.task.create("features/product", (64,), "llvm")
    model = XGBoostCostModel(task, kind, "rank", model="numpy")
    known = range(0, len(task.config_space), 2)
    model.fit(known, speeds(task, known), plan_size=16)
    found, wanted = model.predict(range(49)), speeds(task, range(49))
    assert np.corrcoef(np.argsort(np.argsort(found)), wanted)[0, 1] > 0.6
    further = model.spawn_base_model()
    further.load_basemodel(model)
    further.fit(known, speeds(task, known))
    assert len(further.predict(range(10))) == 10


def test_the_model_predicts_nothing_of_nothing() -> None:
    model = XGBoostCostModel(fakes.add_task(), "knob", model="numpy")
    model.fit(range(8), range(8))
    assert model.predict([]).shape == (0,)


def test_the_model_learns_from_records() -> None:
    task = autotvm.task.create("features/product", (64,), "llvm")
    records = [
        (autotvm.MeasureInput(task.target, task, task.config_space.get(i)), autotvm.MeasureResult((1.0 + i,), 0, 1, 1))
        for i in range(20)
    ]
    model = XGBoostCostModel(task, "knob", "reg", model="numpy")
    assert not model.fit_log(records, min_seed_records=30)
    assert model.fit_log(records)
    assert model.predict([0])[0] > model.predict([19])[0]


def test_what_the_model_refuses() -> None:
    task = autotvm.task.create("features/product", (64,), "llvm")
    model = XGBoostCostModel(task, "knob", model="numpy")
    with refused("predict", "has learned nothing", fix="fit_log"):
        model.predict([0])
    with refused("fit", "1 configurations and 2 speeds", fix="as many"):
        model.fit([0], [1.0, 2.0])
    with refused("fit", "the configurations are 3", fix="[0, 1, 2]"):
        model.fit(3, [1.0])
    with refused("fit", "the speeds are ['x']", fix="a number"):
        model.fit([0], ["x"])
    with refused("fit", "999 is not the index of a configuration", fix="below 49"):
        model.fit([999], [1.0])
    with refused("load_basemodel", "is not a fitted model", fix="fit"):
        model.load_basemodel(model)


def test_a_line_of_channels_as_the_legacy_task() -> None:
    """Configurations compute the convolution on OpenCL, and compile for CUDA."""
    data, kernel = ("TENSOR", (2, 6, 20), "float32"), ("TENSOR", (8, 6, 3), "float32")
    task = autotvm.task.create("conv1d_ncw.cuda", (data, kernel, 1, 1, 1, "float32"), "cuda")
    assert task.flop == 2 * 2 * 8 * 20 * 6 * 3 + 3 * 2 * 6 * 22  # each padded element is two comparisons and an and
    assert len(task.config_space) > 1000
    x = np.random.default_rng(1).integers(-3, 4, (2, 6, 20)).astype("float32")
    w = np.random.default_rng(2).integers(-3, 4, (8, 6, 3)).astype("float32")
    expected = testing.conv1d_ncw_python(x, w, 1, 1, 1)
    for index in (0, len(task.config_space) // 2 + 17):
        s, args = task.instantiate(task.config_space.get(index))
        assert "__shared__" in tw.build(s, args, "cuda").imported_modules[0].get_source()
        if tw.testing.device_enabled("opencl"):
            module, on = tw.build(s, args, "opencl"), tw.device("opencl")
            out = tw.nd.array(np.full(expected.shape, np.nan, "float32"), on)
            module(tw.nd.array(x, on), tw.nd.array(w, on), out)
            np.testing.assert_array_equal(out.numpy(), expected)
    with refused("task.create", "3 and 4 are not tensors", fix="args=(data, kernel"):
        _ = autotvm.task.create("conv1d_ncw.cuda", (3, 4), "cuda").config_space


def test_tasks_of_tensor_cores_take_matrix_instructions() -> None:
    images, taps = ("TENSOR", (1, 14, 14, 64), "float16"), ("TENSOR", (3, 3, 64, 64), "float16")
    window = (1, 1, 1, "float16")
    for name, args in (("conv2d_nhwc_tensorcore.cuda", (images, taps, *window)),
                       ("dense_tensorcore.cuda", (("TENSOR", (64, 64), "float16"),) * 2),
                       ("batch_matmul_tensorcore.cuda", (("TENSOR", (2, 64, 64), "float16"),) * 2)):  # fmt: skip
        task = autotvm.task.create(name, args, "cuda")
        s, tensors = task.instantiate(task.config_space.get(next(iter(task.config_space))))
        assert any(step.primitive == "tensorize" for step in s.steps), name
        assert len(tensors) == 3
    task = autotvm.task.create("conv2d_nhwc.cuda", (images, taps, *window), "cuda")
    _, (*_, out) = task.instantiate(task.config_space.get(next(iter(task.config_space))))
    assert [int(e) for e in out.shape] == [1, 14, 14, 64]
    with refused("task.create", "does not cover", fix="of another name"):
        _ = autotvm.task.create("dense_tensorcore.cuda", (("TENSOR", (64, 64), "float64"),) * 2, "cuda").config_space


def test_names_of_the_droplet_tuner() -> None:
    task = autotvm.task.create("features/product", (64,), "llvm")
    tuner = autotvm.tuner.DropletTuner(task)
    assert (tuner.batch, tuner.step, tuner.total_execution) == (16, 1, 7)
    assert tuner.best_choice == (0, [0, 0], 0.0)
    assert tuner.visited == set(tuner.next)
    assert all(knob.num_output == 2 for knob in task.config_space.space_map.values())


def test_a_point_is_a_list() -> None:
    space = autotvm.ConfigSpace()
    space.define_knob("a", [1, 2])
    with refused("index", "is not the index of each knob's choice", fix="give 1 numbers"):
        space.index(np.array(1))
    with refused("width", "columns={} is not a number of columns", fix="an int"):
        tw.intrin.mma("float16").width({})


def test_ranks_and_curves() -> None:
    utils = autotvm.utils
    assert utils.get_rank([3.0, 9.0, 9.0, 1.0]).tolist() == [2, 0, 1, 3]
    assert utils.max_curve([1.0, 3.0, 2.0]).tolist() == [1, 3, 3]
    assert utils.mean_curve([1.0, 3.0, 2.0]).tolist() == [1, 2, 2]
    assert sorted(utils.sample_ints(2, 6, 4)) == [2, 3, 4, 5]
    assert (utils.get_const_int(te.const(3)), utils.get_const_tuple((te.const(3), 4))) == (3, (3, 4))
    assert (utils.get_func_name(product), utils.get_func_name(Random(0))) == ("product", "Random")
    with refused("sample_ints", "5 numbers from 2 to 6", fix="at most as many"):
        utils.sample_ints(2, 6, 5)
    with refused("get_rank", "['x'] are not numbers", fix="a list"):
        utils.get_rank(["x"])
    with refused("max_curve", "3 is not a list of numbers", fix="a list"):
        utils.max_curve(3)


def test_numbers_among_the_options_of_a_target() -> None:
    target = tw.target.Target("llvm -mcpu=skylake-avx512 -num-cores=4")
    assert (target.attrs["num-cores"], target.attrs["mcpu"]) == (4, "skylake-avx512")
    assert tw.target.Target(str(target)) == target
