"""Contractions by matrix instructions: what they compute, with epilogues and divided depths, and that they compile."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from tests.passes.running import finish
from tests.topi.test_contraction import EPILOGUES, cases, problem
from tilewright.core.atoms import ATOMS
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.driver import build, lower_for
from tilewright.expr.evaluate import evaluate
from tilewright.expr.nodes import Var
from tilewright.loops.interpret import interpret
from tilewright.runtime.array import array
from tilewright.runtime.device import device
from tilewright.topi.templates import BatchMatmul, Conv2dLayer, Dense, Epilogue, named
from tilewright.topi.templates.implicit_gemm import contraction_of
from tilewright.topi.templates.mma_tiles import MmaTile
from tilewright.tune.analysis.candidate import inspect_candidate

BATCH_MATMUL_MMA = named("topi/batch_matmul.mma")
CONV2D = named("topi/conv2d")
CONV2D_MMA = named("topi/conv2d.mma")
CONV2D_TF32 = named("topi/conv2d.tf32")
DENSE = named("topi/dense")
DENSE_MMA = named("topi/dense.mma")

CUDA = Target("cuda -arch=sm_90")
WORKLOADS = (
    Conv2dLayer.of((2, 8, 7, 7), 16),
    Conv2dLayer.of((1, 12, 7, 7), 20, stride=2),
    Conv2dLayer.of((1, 64, 5, 6), 32, groups=2, padding=(0, 1, 2, 3), dilation=2),
    Conv2dLayer.of((2, 32, 5, 6), 17, kernel=1, padding=0),
    Conv2dLayer.of((2, 10, 6, 7), 8, layout="NHWC", dtype="float16", weights="OHWI"),
    Conv2dLayer.of((1, 32, 5, 6), 16, kernel=1, padding=0, layout="NHWC", dtype="float16", weights="OHWI"),
    Conv2dLayer.of((2, 16, 6, 7), 24, layout="NHWC", dtype="float16", weights="HWIO"),
    Conv2dLayer.of((1, 64, 4, 5), 32, groups=2, kernel=2, layout="NHWC", dtype="bfloat16"),
    Conv2dLayer.of((1, 64, 7, 7), 40, dtype="float16"),
    Conv2dLayer.of((8, 16, 4, 5), 24, layout="HWCN"),
    Conv2dLayer.of((16, 32, 4, 3), 16, layout="HWCN", dtype="float16"),
    Conv2dLayer.of((3, 64, 5, 4), 32, groups=2, stride=2, layout="HWCN", dtype="bfloat16"),
)
EPSILON = {"float32": 5e-7, "float16": 1e-3, "bfloat16": 6e-3}
"""Relative errors in the L2 norm: of 3xTF32, and of results rounded to 16 bits."""


def configs(workload, count, template=CONV2D_MMA):
    """The first configuration, one that divides the depth with slices in flight, and random ones that can run."""
    yield template.default_config(workload, CUDA)
    strategy, task = template.strategy(CUDA), template.task(workload, CUDA)
    yield strategy.nearest(
        workload, {**strategy.default_choices(workload), "split": 2, "stages": 2, "store": "fragments"}
    )
    yield strategy.nearest(workload, {**strategy.default_choices(workload), "split": 1, "stages": 2, "store": "shared"})
    space = task.config_space
    drawn = (space.get(i) for i in space.indices(space.draw(np.random.default_rng(5), 30 * count)))
    yield from itertools.islice((c for c in drawn if inspect_candidate(task, c, CUDA).refusal is None), count)


def check(out, right, allowed):
    off = np.linalg.norm(out.astype("float64") - right) / np.linalg.norm(right)
    assert off <= allowed, off


@pytest.mark.parametrize("workload", cases((*WORKLOADS[1:6], *WORKLOADS[-3:])))
def test_by_the_interpreter(workload):
    """Dealt out to the lanes of warps, with races and reads of unwritten memory found; and NVRTC compiles it."""
    for config, epilogue in zip(itertools.islice(configs(workload, 0), 1, 3), EPILOGUES[1:], strict=False):
        inputs, right = problem(workload, epilogue)
        schedule, args = CONV2D_MMA.program(config, workload, CUDA, epilogue)
        (lowered,) = lower_for(CUDA, schedule, args).functions
        finished = finish(lowered, str(CUDA), check=True)
        out = np.full(workload.out_shape, np.nan, inputs[0].dtype)
        interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
        check(out, right, EPSILON[workload.dtype])
    module = build(schedule, args, CUDA)
    assert "mma.sync" in module.program.source
    assert all(used.stack_bytes <= 16 for used in module.resources.values())


@pytest.mark.cuda
@pytest.mark.parametrize("workload", cases(WORKLOADS))
@pytest.mark.parametrize("template", [CONV2D_MMA, CONV2D_TF32], ids=lambda t: t.name)
def test_on_cuda(workload, template):
    if not template.covers(workload, Target("cuda")):
        pytest.skip("tf32 is for float32")
    for number, config in enumerate(configs(workload, 6, template)):
        epilogue = EPILOGUES[number % len(EPILOGUES)]
        inputs, right = problem(workload, epilogue)
        module = build(*template.program(config, workload, Target("cuda"), epilogue), "cuda")
        poison = np.full(workload.out_shape, np.nan, inputs[0].dtype)
        arrays = [array(values, device=device("cuda")) for values in (*inputs, poison)]
        module(*arrays)
        check(arrays[-1].numpy(), right, 1.5e-3 if template is CONV2D_TF32 else EPSILON[workload.dtype])


STATIONARY = (
    (Conv2dLayer.of((3, 32, 15, 15), 24, kernel=1, padding=0, layout="NHWC", dtype="float16", weights="OHWI"), 32, 2),
    (Conv2dLayer.of((2, 16, 20, 15), 16, layout="NHWC", dtype="float16", weights="OHWI"), 32, 3),
    (Conv2dLayer.of((40, 16, 1, 20), 24, kernel=1, padding=0, layout="NHWC"), 16, 1),
)
"""Layers, and the depth and the number of slices in flight while the filters stay in shared memory."""


def stationary(workload, depth, stages):
    """Configurations in which blocks compute two tiles; the last block has one, or a part of one."""
    for store, rows in (("fragments", [2, 32]), ("shared", [1, 64])):
        wanted = {"rows": rows, "columns": [1, 16], "depth": depth, "split": 1, "stages": stages, "store": store}
        config = CONV2D_MMA.strategy(CUDA).nearest(workload, {**wanted, "tiles": 2})
        assert MmaTile.of(config) == MmaTile(tuple(rows), (1, 16), depth, 1, stages, store == "shared", 2)
        yield config


@pytest.mark.parametrize(("workload", "depth", "stages"), STATIONARY, ids=lambda x: getattr(x, "title", str(x)))
def test_filters_that_stay_in_shared_memory(workload, depth, stages):
    """Each block fetches its filters once; a ring over its tiles is filled while the results of another are stored."""
    inputs, right = problem(workload, EPILOGUES[1])
    for config in stationary(workload, depth, stages):
        schedule, args = CONV2D_MMA.program(config, workload, CUDA, EPILOGUES[1])
        finished = finish(lower_for(CUDA, schedule, args).functions[0], str(CUDA), check=True)
        out = np.full(workload.out_shape, np.nan, inputs[0].dtype)
        interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
        check(out, right, EPSILON[workload.dtype])
        source = build(schedule, args, CUDA).program.source
        assert source.count("(weights +") == 1


@pytest.mark.cuda
@pytest.mark.parametrize(("workload", "depth", "stages"), STATIONARY, ids=lambda x: getattr(x, "title", str(x)))
def test_filters_that_stay_on_cuda(workload, depth, stages):
    inputs, right = problem(workload, EPILOGUES[1])
    for config in stationary(workload, depth, stages):
        module = build(*CONV2D_MMA.program(config, workload, Target("cuda"), EPILOGUES[1]), "cuda")
        poison = np.full(workload.out_shape, np.nan, inputs[0].dtype)
        arrays = [array(values, device=device("cuda")) for values in (*inputs, poison)]
        module(*arrays)
        check(arrays[-1].numpy(), right, EPSILON[workload.dtype])


@pytest.mark.parametrize(
    ("shape", "rows", "tiles"), [((64, 64, 7, 7), [1, 64], 7), ((64, 96, 28, 28), [1, 16], 48)], ids=str
)
def test_tiles_that_end_within_an_image(shape, rows, tiles):
    """Positions of a tile are a range, though images, rows and columns of results in shared memory are not."""
    workload = Conv2dLayer.of(shape, 128, kernel=1, padding=0, layout="NHWC", dtype="float16")
    wanted = {"rows": rows, "columns": [4, 32], "depth": 16, "split": 1, "stages": 2, "store": "shared", "tiles": tiles}
    config = CONV2D_MMA.strategy(CUDA).nearest(workload, wanted)
    assert MmaTile.of(config).tiles == tiles
    assert lower_for(CUDA, *CONV2D_MMA.program(config, workload, CUDA)).functions


IN_VECTORS = (
    (Conv2dLayer.of((1, 32, 7, 5), 96, layout="NHWC", dtype="float16", weights="OHWI"), [2, 16], [1, 64], 16, 1),
    (
        Conv2dLayer.of((3, 16, 15, 15), 32, kernel=1, padding=0, layout="NHWC", dtype="bfloat16"),
        [1, 32],
        [1, 32],
        16,
        2,
    ),
    (Conv2dLayer.of((1, 16, 7, 5), 48, layout="NHWC", weights="OHWI"), [2, 16], [1, 32], 16, 1),
    (Conv2dLayer.of((1, 32, 5, 6), 32, layout="NHWC", weights="OHWI", dtype="int8"), [2, 16], [2, 16], 32, 1),
    (Dense.of((20, 64), 64, dtype="float16"), [2, 16], [1, 32], 64, 1),
)
"""Layers, the rows and columns of their tiles, the depth, and the tiles of a block, for results in vectors."""


def in_vectors(workload, rows, columns, depth, tiles):
    template = BY_KIND[type(workload)]
    wanted = {"rows": rows, "columns": columns, "depth": depth, "split": 1, "stages": 2, "store": "vectors"}
    config = template.strategy(CUDA).nearest(workload, {**wanted, "tiles": tiles})
    assert MmaTile.of(config).vectors
    return template, config


@pytest.mark.parametrize(("workload", "rows", "columns", "depth", "tiles"), IN_VECTORS)
def test_results_in_vectors_from_fragments(workload, rows, columns, depth, tiles):
    """Columns of the product in another order: each lane holds neighbours, and stores 16 bytes of them at once."""
    template, config = in_vectors(workload, rows, columns, depth, tiles)
    epilogue = EPILOGUES[1] if workload.dtype != "int8" else Epilogue()
    inputs, right = problem(workload, epilogue)
    schedule, args = template.program(config, workload, CUDA, epilogue)
    finished = finish(lower_for(CUDA, schedule, args).functions[0], str(CUDA), check=True)
    out = np.full(workload.out_shape, 77 if workload.dtype == "int8" else np.nan, workload.result)
    interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
    check(out, right, EPSILON.get(workload.dtype, 0))
    module = build(schedule, args, CUDA)
    vector = {"int8": "int4", "float32": "float4"}.get(workload.dtype, "uint4")
    assert f"*({vector}*)({'sums' if epilogue == Epilogue() else 'result'} + " in module.program.source
    assert all(used.stack_bytes == 0 for used in module.resources.values())


@pytest.mark.cuda
@pytest.mark.parametrize(("workload", "rows", "columns", "depth", "tiles"), IN_VECTORS)
def test_results_in_vectors_on_cuda(workload, rows, columns, depth, tiles):
    template, config = in_vectors(workload, rows, columns, depth, tiles)
    inputs, right = problem(workload, Epilogue())
    arrays = [array(v, device=device("cuda")) for v in (*inputs, np.full(workload.out_shape, 77, workload.result))]
    build(*template.program(config, workload, Target("cuda")), "cuda")(*arrays)
    check(arrays[-1].numpy(), right, EPSILON.get(workload.dtype, 0))


@pytest.mark.parametrize(
    ("channels_last", "filters", "split"),
    [(True, 64, 2), (True, 60, 1), (False, 64, 1)],
)
def test_results_that_are_not_stored_in_vectors(channels_last, filters, split):
    """Where the depth is divided, where a vector is there in part, and where columns are copied as neighbours."""
    layout = {"layout": "NHWC", "weights": "OHWI"} if channels_last else {}
    of = contraction_of(Conv2dLayer.of((2, 64, 8, 8), filters, kernel=1, padding=0, dtype="float16", **layout))
    tile = MmaTile((2, 16), (1, 32), 16, split, 2, vectors=True)
    assert not tile.is_possible(of, ATOMS["float16"])
    assert replace(tile, vectors=False).is_possible(of, ATOMS["float16"])


INTEGER = (
    Conv2dLayer.of((1, 32, 5, 6), 16, layout="NHWC", weights="OHWI", dtype="int8"),
    Dense.of((17, 64), 24, dtype="uint8"),
    BatchMatmul.of((2, 16, 32), 8, dtype="int8"),
)
BY_KIND = {Conv2dLayer: CONV2D_MMA, Dense: DENSE_MMA, BatchMatmul: BATCH_MATMUL_MMA}


@pytest.mark.parametrize("workload", cases((*INTEGER, Dense.of((20, 40), 17), BatchMatmul.of((3, 16, 24), 9))))
def test_integers_and_matrices_by_the_interpreter(workload):
    """Integers are summed in int32, without any error."""
    template = BY_KIND[type(workload)]
    data, weights = workload.inputs(np.random.default_rng(1))
    (lowered,) = lower_for(CUDA, *template.program(template.default_config(workload, CUDA), workload, CUDA)).functions
    finished = finish(lowered, str(CUDA), check=True)
    right = workload.numpy(data.astype("float64"), weights.astype("float64"))
    out = np.full(workload.out_shape, 77, workload.result)
    interpret(finished, [data, weights, out], outputs=[finished.buffers[-1]], races=True)
    check(out, right, 0 if workload.element in ("int8", "uint8") else EPSILON[workload.element])


@pytest.mark.cuda
@pytest.mark.parametrize("workload", cases((*INTEGER, Dense.of((20, 40), 17), BatchMatmul.of((3, 16, 24), 9))))
def test_integers_and_matrices_on_cuda(workload):
    template = BY_KIND[type(workload)]
    data, weights = workload.inputs(np.random.default_rng(1))
    right = workload.numpy(data.astype("float64"), weights.astype("float64"))
    for config in configs(workload, 4, template):
        arrays = [array(v, device=device("cuda")) for v in (data, weights, np.full(right.shape, 77, workload.result))]
        build(*template.program(config, workload, Target("cuda")), "cuda")(*arrays)
        check(arrays[-1].numpy(), right, 0 if workload.result == "int32" else EPSILON[workload.element])


def test_integers_on_other_hardware():
    """By ordinary arithmetic on the CPU, with the same sums."""
    workload = INTEGER[1]
    data, weights = workload.inputs(np.random.default_rng(1))
    out = array(np.full(workload.out_shape, 77, "int32"))
    build(*DENSE.program(DENSE.default_config(workload, Target("llvm")), workload, Target("llvm")), "llvm")(
        array(data), array(weights), out
    )
    np.testing.assert_array_equal(out.numpy(), workload.numpy(data.astype("int64"), weights.astype("int64")))


def test_no_fragment_is_loaded_from_beyond_a_ring():
    """A depth of as many slices as are in flight: the last iteration loads its own first fragments again."""
    workload = Conv2dLayer.of((1, 256, 4, 8), 64, kernel=1, padding=0)
    wanted = {"rows": [4, 16], "columns": [1, 32], "depth": 64, "split": 1, "stages": 4, "store": "fragments"}
    config = CONV2D_TF32.strategy(CUDA).nearest(workload, wanted)
    source = build(*CONV2D_TF32.program(config, workload, CUDA), CUDA).program.source
    assert "min(k_outer + 1, 3)" in source


@pytest.mark.cuda
def test_infinities_nan_and_small_numbers():
    """Three products of parts give what float32 gives, also where an operand is infinite, no number, or subnormal."""
    workload = Conv2dLayer.of((1, 32, 6, 6), 16, kernel=1, padding=0)
    data, weights = workload.inputs(np.random.default_rng(3))
    weights = np.abs(weights) + np.float32(0.5)
    data[0, 3, 0, 0], data[0, 4, 1, 1], data[0, 5, 2, 2] = np.inf, -np.inf, np.nan
    data[0, 6, 3, 3], data[0, 7, 3, 3] = np.inf, -np.inf
    data[0, :, 5, 5] *= np.float32(1e-39)
    module = build(*CONV2D_MMA.program(CONV2D_MMA.default_config(workload, CUDA), workload, Target("cuda")), "cuda")
    arrays = [array(v, device=device("cuda")) for v in (data, weights, np.full(workload.out_shape, 7, "float32"))]
    module(*arrays)
    found, right = arrays[-1].numpy(), workload.numpy(data.astype("float64"), weights.astype("float64"))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(right))
    np.testing.assert_array_equal(found[np.isinf(right)], right[np.isinf(right)].astype("float32"))
    finite = np.isfinite(right)
    finite[0, :, 5, 5] = False
    check(found[finite], right[finite], EPSILON["float32"])
    multiple = 2.0**-136  # of which subnormal operands are
    np.testing.assert_allclose(found[0, :, 5, 5], right[0, :, 5, 5], rtol=0, atol=32 * 1.5 * multiple)


def test_which_hardware_and_which_types_it_is_for():
    half, single = Conv2dLayer.of((1, 32, 8, 8), dtype="float16"), Conv2dLayer.of((1, 32, 8, 8))
    assert CONV2D.choose(half, CUDA)[0] is CONV2D_MMA
    assert CONV2D_TF32.covers(single, CUDA)
    assert not CONV2D_TF32.covers(half, CUDA)
    for target in (Target("cuda -arch=sm_70"), Target("opencl -device=gpu"), Target("llvm")):
        assert not CONV2D_MMA.covers(half, target)
    assert not CONV2D_MMA.covers(Conv2dLayer.of((1, 32, 8, 8), dtype="float64"), CUDA)
    with pytest.raises(UserError, match=r"'topi/conv2d\.tf32' does not cover"):
        CONV2D_TF32.instantiate(CONV2D_MMA.default_config(half, CUDA), half.args, CUDA)


@pytest.mark.parametrize(
    ("atom", "rows", "columns", "wanted"),
    [("3xtf32", 32, 32, 149), ("3xtf32", 64, 32, 255), ("3xtf32_one", 32, 32, 116), ("3xtf32_one", 64, 32, 188)],
)
def test_registers_of_a_tile_are_those_that_ptxas_gives_it(atom: str, rows: int, columns: int, wanted: int) -> None:
    """Both sets of partial sums count; `wanted` is what NVRTC reports for `benchmarks.matmul`."""
    tile = MmaTile((2, rows), (2, columns), 32, 1, 3)
    assert abs(tile.registers(ATOMS[atom]) - wanted) <= 5


def test_gelu_of_sixteen_bit_results_is_as_exact_as_they_are():
    """Within 1e-5 and half a unit of the last place of the function in float64; in float32, within its rounding."""
    v = Var("v", "float32")
    narrow, single = (Epilogue(activation="gelu").expression((), None, result)(v) for result in ("float16", "float32"))
    assert "erf" not in str(narrow) + str(single)
    assert "erf" in str(Epilogue(activation="gelu").expression((), None, "float64")(Var("w", "float64")))
    for x in np.concatenate([np.linspace(-8, 8, 801), [-300.0, 300.0, 0.0]]).astype("float32"):
        right = 0.5 * float(x) * math.erfc(-float(x) / math.sqrt(2))
        assert abs(float(evaluate(narrow, {v: x})) - right) <= 1e-5 + 2**-12 * abs(right)
        assert abs(float(evaluate(single, {v: x})) - right) <= 5e-8 + 2**-23 * abs(right)
