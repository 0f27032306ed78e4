"""Contractions: implicit GEMM, dense layers and batches of products, at awkward sizes, wherever they run."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import pytest

from tests.passes.running import finish
from tests.topi.test_direct import activated, exact
from tilewright import autotvm
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.driver import build, lower
from tilewright.loops.interpret import interpret
from tilewright.runtime.array import array
from tilewright.runtime.device import device
from tilewright.topi.templates import ALL, BatchMatmul, Conv2dLayer, Dense, Epilogue, named
from tilewright.topi.templates import matmul as products
from tilewright.topi.templates.contraction_simt import rank_tiles
from tilewright.topi.templates.implicit_gemm import contraction_of
from tilewright.tune.analysis.candidate import inspect_candidate
from tilewright.tune.model.machine import REFERENCE, Machine

CONV2D_GEMM = named("topi/conv2d.gemm")

CONVOLUTIONS = (
    Conv2dLayer.of((2, 8, 7, 7), 16),
    Conv2dLayer.of((1, 12, 7, 7), 20, stride=2),
    Conv2dLayer.of((3, 64, 5, 6), 16, groups=2, kernel=2, padding=(0, 1, 2, 3), dilation=2),
    Conv2dLayer.of((2, 32, 5, 6), 9, kernel=1, padding=0),
    Conv2dLayer.of((1, 3, 20, 20), 16, kernel=7, stride=2, dtype="float64"),
    Conv2dLayer.of((2, 16, 6, 7), 24, layout="NHWC"),
    Conv2dLayer.of((2, 10, 6, 7), 8, layout="NHWC", dtype="float16", weights="OHWI"),
    Conv2dLayer.of((1, 64, 4, 5), 32, groups=2, kernel=2, layout="NHWC", dtype="bfloat16"),
    Conv2dLayer.of((1, 64, 7, 7), 40, dtype="float16"),
    Conv2dLayer.of((2, 24, 40), 16, kernel=5, layout="NCW"),
    Conv2dLayer.of((8, 16, 4, 5), 24, layout="HWCN"),
    Conv2dLayer.of((3, 64, 5, 4), 20, groups=2, stride=2, layout="HWCN", dtype="float16"),
    Conv2dLayer.of((2, 16, 6, 7), 24, layout="NHWC", weights="HWIO"),
    Conv2dLayer.of((1, 64, 4, 5), 32, groups=2, kernel=1, padding=0, layout="NHWC", weights="HWIO"),
)
PRODUCTS = (
    Dense.of((7, 33), 19),
    Dense.of((1, 100), 37, dtype="float16"),
    Dense.of((130, 64)),
    BatchMatmul.of((3, 9, 20), 17),
    BatchMatmul.of((2, 33, 16), dtype="float64"),
)
EPILOGUES = (Epilogue(), Epilogue(bias=True, activation="relu"), Epilogue(True, True, "silu"))
NAMES = {Conv2dLayer: "topi/conv2d.gemm", Dense: "topi/dense", BatchMatmul: "topi/batch_matmul"}
EPSILON = {"float64": 1e-13, "float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2}


def cases(workloads):
    return [pytest.param(w, id=w.title.replace("  ", ",").replace(" ", "=")) for w in workloads]


def template_of(workload):
    return next(t for t in ALL if t.name == NAMES[type(workload)])


def configs(workload, target, count, seed=0):
    """The first configuration, one that divides the depth, and random ones that can run."""
    template = template_of(workload)
    strategy, task = template.strategy(Target(target)), template.task(workload, Target(target))
    yield template.default_config(workload, Target(target))
    space = task.config_space
    if "split" in space:
        yield strategy.nearest(workload, {**strategy.default_choices(workload), "split": 3})
    drawn = (space.get(i) for i in space.indices(space.draw(np.random.default_rng(seed), 30 * count)))
    yield from itertools.islice((c for c in drawn if inspect_candidate(task, c, task.target).refusal is None), count)


def problem(workload, epilogue, seed=2):
    """Arrays, and the right result in float64."""
    rng = np.random.default_rng(seed)
    data, weights = workload.inputs(rng)
    if isinstance(workload, Conv2dLayer):
        right = exact(workload, data, np.einsum(f"{workload.weights}->OIHW", weights.astype("float64")))
    else:
        right = np.einsum("...ik,...jk->...ij", data.astype("float64"), weights.astype("float64"))
    extras = []
    if epilogue.bias:
        extras.append(rng.uniform(-1, 1, workload.channels).astype(data.dtype))
        shape = [1] * right.ndim
        shape[workload.channel_axis] = -1
        right = right + extras[-1].astype("float64").reshape(shape)
    if epilogue.residual:
        extras.append(rng.uniform(-1, 1, workload.out_shape).astype(data.dtype))
        right = right + extras[-1].astype("float64")
    return [data, weights, *extras], activated(epilogue.activation, right)


def check(workload, out, right):
    off = np.linalg.norm(out.astype("float64") - right) / np.linalg.norm(right)
    assert off <= EPSILON[workload.dtype], off


def on_device(workload, kind, count):
    for number, config in enumerate(configs(workload, kind, count)):
        epilogue = EPILOGUES[number % len(EPILOGUES)]
        inputs, right = problem(workload, epilogue)
        module = build(*template_of(workload).program(config, workload, Target(kind), epilogue), kind)
        poison = np.full(workload.out_shape, np.nan, inputs[0].dtype)
        arrays = [array(values, device=device(kind)) for values in (*inputs, poison)]
        module(*arrays)
        check(workload, arrays[-1].numpy(), right)


@pytest.mark.opencl
@pytest.mark.parametrize("workload", cases((*CONVOLUTIONS[:8], *PRODUCTS[:4:3])))
def test_on_opencl(workload):
    on_device(workload, "opencl", 0)


@pytest.mark.parametrize("workload", cases(PRODUCTS))
def test_on_the_cpu(workload):
    on_device(workload, "llvm", 2)


@pytest.mark.cuda
@pytest.mark.parametrize("workload", cases((*CONVOLUTIONS, *PRODUCTS)))
def test_on_cuda(workload):
    on_device(workload, "cuda", 8)


@pytest.mark.parametrize("workload", cases([CONVOLUTIONS[1], CONVOLUTIONS[7], PRODUCTS[0]]))
def test_by_the_interpreter(workload):
    """With threads, barriers and memory scopes, and with races and reads of unwritten memory found."""
    for config in itertools.islice(configs(workload, "cuda", 0), 2):
        inputs, right = problem(workload, EPILOGUES[1])
        schedule, args = template_of(workload).program(config, workload, Target("cuda"), EPILOGUES[1])
        (lowered,) = lower(schedule, args).functions
        finished = finish(lowered, check=True)
        out = np.full(workload.out_shape, np.nan, inputs[0].dtype)
        interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
        check(workload, out, right)


@pytest.mark.parametrize("workload", cases((*CONVOLUTIONS[1:9:3], PRODUCTS[0])))
def test_cuda_compiles(workload):
    """By NVRTC, without a GPU; sums are in registers, not on the stack."""
    config = next(configs(workload, "cuda", 0))
    module = build(*template_of(workload).program(config, workload, Target("cuda"), EPILOGUES[2]), "cuda")
    for resources in module.resources.values():
        assert 0 < resources.registers <= 255
        assert resources.stack_bytes <= 16  # a word, where that saves registers


def test_few_tiles_share_the_depth():
    """Where there are fewer tiles than multiprocessors, the first configuration divides the depth among blocks."""
    assert rank_tiles(contraction_of(Conv2dLayer.of((1, 512, 7, 7))))[0].split > 1
    assert rank_tiles(contraction_of(Conv2dLayer.of((64, 128, 28, 28))))[0].split == 1


def test_partial_sums_are_added_in_one_order():
    """Two runs of a divided depth give the same bits."""
    workload = CONVOLUTIONS[8]
    template = template_of(workload)
    strategy = template.strategy(Target("cuda"))
    config = strategy.nearest(workload, {**strategy.default_choices(workload), "split": 4})
    text = str(lower(*template.program(config, workload, Target("cuda"))))
    assert "atomic" not in text
    assert text.count('launch_thread("blockIdx.x"') == 2


def test_a_dense_layer_is_tuned_as_convolutions_are():
    task = autotvm.task.create("topi/dense", Dense.of((64, 256), 128).args, "cuda")
    assert task.flop == 2 * 64 * 256 * 128
    assert task.workload == ("topi/dense", (64, 256), 128, "float32")


def test_a_strategy_by_its_name():
    by = autotvm.templates.conv2d.by("gemm")
    assert by.template.name == "topi/conv2d.gemm"
    with Target("cuda"):
        assert len(by(shape=(1, 32, 8, 8))[1]) == 3
    with pytest.raises(UserError, match="'mna' is not a strategy of conv2d"):
        autotvm.templates.conv2d.by("mna")
    with pytest.raises(UserError, match="'gemm' is not a strategy of dense"):
        autotvm.templates.dense.by("gemm")


def test_the_torch_rows():
    torch = pytest.importorskip("torch")
    for workload in PRODUCTS[3:]:
        data, weights = workload.inputs(np.random.default_rng(0))
        ((_, call),) = workload.torch(torch.from_numpy(data), torch.from_numpy(weights))
        np.testing.assert_allclose(call().numpy(), workload.numpy(data, weights), rtol=1e-4, atol=1e-5)


def test_an_order_of_weights():
    turned = Conv2dLayer.of((1, 32, 4, 4), layout="NHWC", weights="OHWI")
    assert turned.weights_shape == (32, 3, 3, 32)
    assert Conv2dLayer.of(*turned.args) == turned
    assert Conv2dLayer.of((1, 32, 4, 4), layout="NHWC").args[-1] == "NHWC"
    assert Conv2dLayer.of((1, 8, 4, 4), layout="HWCN").weights == "HWIO"
    with pytest.raises(UserError, match="weights OIHW with the layout HWCN are not covered"):
        Conv2dLayer.of((1, 8, 4, 4), layout="HWCN", weights="OIHW")
    with pytest.raises(UserError, match="weights OHWI with the layout NCHW are not covered"):
        Conv2dLayer.of((1, 32, 4, 4), weights="OHWI")
    data, weights = turned.inputs(np.random.default_rng(0))
    np.testing.assert_allclose(
        turned.numpy(data.astype("f8"), weights.astype("f8")), exact(turned, data, weights.transpose(0, 3, 1, 2))
    )


def test_shapes_that_are_no_products():
    with pytest.raises(UserError, match="shape 4x5x6 is not MxK"):
        Dense.of((4, 5, 6))
    with pytest.raises(UserError, match="shape 4x5 is not BxMxK"):
        BatchMatmul.of((4, 5))
    with pytest.raises(UserError, match="units 0 is not a whole number"):
        Dense.of((4, 5), 0)
    with pytest.raises(UserError, match=r"columns 1\.5 is not a whole number"):
        BatchMatmul.of((4, 5, 6), 1.5)
    assert products.contraction_of(Dense.of((4, 6))).rows.together == 2


def test_what_is_expected_depends_on_the_board() -> None:
    """The same layer on boards of 40 and of 132 multiprocessors: fewer blocks share the work of the small one."""
    of = Conv2dLayer.of((1, 512, 7, 7))
    gpus = [Machine.for_models(Target(f"cuda -arch={arch}")) for arch in ("sm_75", "sm_80", "sm_90")]
    assert [gpu.multiprocessors for gpu in gpus] == [40, 108, 132]
    assert (
        Machine.for_models(Target("cuda -arch=sm_121")).multiprocessors
        == REFERENCE.multiprocessors
        == Machine.for_models(Target("opencl")).multiprocessors
    )
    tiles = [rank_tiles(contraction_of(of), gpu)[0] for gpu in gpus]
    blocks = [-(-512 // prod(t.rows)) * -(-49 // prod(t.columns)) * t.split for t in tiles]
    assert blocks[0] < blocks[-1]
    costs = [CONV2D_GEMM.strategy(Target(f"cuda -arch={arch}")).cost(of) for arch in ("sm_75", "sm_90")]
    assert costs[0] > costs[1] == CONV2D_GEMM.gpu.cost(of)
    assert CONV2D_GEMM.strategy(Target("cuda -arch=sm_90")) == CONV2D_GEMM.gpu
