"""Contractions by the matrix instructions of warpgroups: what they compute, and where they are the choice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tests.passes.running import finish
from tests.topi.test_contraction import EPILOGUES, cases, problem
from tests.topi.test_mma import CUDA, EPSILON, check, configs
from tilewright.core.target import Target
from tilewright.driver import build, lower_for
from tilewright.functional.arguments.problem import Problem
from tilewright.functional.explain import _TF32
from tilewright.functional.planning.compiler import strategies_of
from tilewright.loops.interpret import interpret
from tilewright.runtime.array import array
from tilewright.runtime.device import device
from tilewright.topi.templates import BatchMatmul, Conv2dLayer, Dense, named
from tilewright.topi.templates.wgmma_tiles import WgmmaTile

BATCH_MATMUL_WGMMA = named("topi/batch_matmul.wgmma")
CONV2D = named("topi/conv2d")
CONV2D_MMA = named("topi/conv2d.mma")
CONV2D_WGMMA = named("topi/conv2d.wgmma")
CONV2D_WGMMA_TF32 = named("topi/conv2d.wgmma_tf32")
DENSE_WGMMA = named("topi/dense.wgmma")
DENSE_WGMMA_TF32 = named("topi/dense.wgmma_tf32")

LAST = {"layout": "NHWC", "weights": "OHWI"}
CONVOLUTIONS = (
    Conv2dLayer.of((1, 64, 9, 10), 64, dtype="float16", **LAST),
    Conv2dLayer.of((2, 96, 7, 7), 40, kernel=1, padding=0, dtype="bfloat16", **LAST),
    Conv2dLayer.of((1, 128, 8, 9), 32, groups=2, stride=1, dtype="float16", **LAST),
    Conv2dLayer.of((2, 32, 11, 9), 24, stride=2, dtype="float16", layout="NHWC"),
    Conv2dLayer.of((1, 32, 9, 9), 48, **LAST),
)
SMALL = Conv2dLayer.of((1, 64, 6, 11), 16, kernel=(1, 2), dtype="float16", **LAST)
PRODUCTS = (
    (DENSE_WGMMA, Dense.of((130, 200), 72, "float16")),
    (DENSE_WGMMA, Dense.of((49, 130), 33, "int8")),
    (DENSE_WGMMA_TF32, Dense.of((70, 96), 40)),
    (BATCH_MATMUL_WGMMA, BatchMatmul.of((3, 70, 130), 50, "bfloat16")),
)
CASES = [(CONV2D_WGMMA_TF32 if of.dtype == "float32" else CONV2D_WGMMA, of) for of in CONVOLUTIONS] + list(PRODUCTS)
ALLOWED = {**EPSILON, "float32": 1.2e-3, "int8": 0.0}


def arrays_of(workload, epilogue):
    """The arguments of a kernel, and what is right; whole numbers for integers."""
    inputs, right = problem(workload, epilogue)
    return inputs, right, np.full(workload.out_shape, 77, str(workload.result))


@pytest.mark.parametrize("workload", cases((SMALL,)))
def test_by_the_interpreter(workload):
    """With races and reads of unwritten memory found; NVRTC compiles it."""
    for config, epilogue in zip(
        itertools.islice(configs(workload, 0, CONV2D_WGMMA), 1, 3), EPILOGUES[1:], strict=False
    ):
        inputs, right, out = arrays_of(workload, epilogue)
        schedule, args = CONV2D_WGMMA.program(config, workload, CUDA, epilogue)
        finished = finish(lower_for(CUDA, schedule, args).functions[0], str(CUDA), check=True)
        interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
        check(out, right, EPSILON[workload.dtype])
    module = build(schedule, args, CUDA)
    assert "wgmma.mma_async" in module.program.source
    assert all(used.stack_bytes <= 16 for used in module.resources.values())


@pytest.mark.cuda
@pytest.mark.parametrize(("template", "workload"), CASES, ids=lambda case: getattr(case, "title", None))
def test_on_cuda(template, workload):
    for number, config in enumerate(configs(workload, 6, template)):
        epilogue = EPILOGUES[number % len(EPILOGUES) if workload.element != "int8" else 0]
        inputs, right, poison = arrays_of(workload, epilogue)
        module = build(*template.program(config, workload, Target("cuda"), epilogue), "cuda")
        arrays = [array(values, device=device("cuda")) for values in (*inputs, poison)]
        module(*arrays)
        check(arrays[-1].numpy(), right, ALLOWED[workload.element])


STATIONARY = Conv2dLayer.of((3, 96, 16, 17), 64, kernel=1, padding=0, dtype="float16", **LAST)
"""A layer with so many positions that the filters of a block may stay for several tiles of them."""


@pytest.mark.cuda
def test_tiles_below_each_other_on_cuda():
    inputs, right, poison = arrays_of(STATIONARY, EPILOGUES[2])
    for stages, store in itertools.product((2, 3), ("fragments", "shared", "vectors")):
        wanted = {"rows": [4, 16], "columns": [1, 32], "stages": stages, "store": store, "tiles": 3}
        config = CONV2D_WGMMA.strategy(CUDA).nearest(STATIONARY, wanted)
        arrays = [array(values, device=device("cuda")) for values in (*inputs, poison)]
        build(*CONV2D_WGMMA.program(config, STATIONARY, Target("cuda"), EPILOGUES[2]), "cuda")(*arrays)
        check(arrays[-1].numpy(), right, EPSILON["float16"])


EMULATED = (
    (CONV2D_WGMMA, CONVOLUTIONS[1], {"rows": [4, 16], "columns": [1, 32], "split": 1, "stages": 2, "store": "vectors"}),
    (
        CONV2D_WGMMA,
        CONVOLUTIONS[3],
        {"rows": [4, 16], "columns": [1, 16], "split": 2, "stages": 3, "store": "fragments"},
    ),
    (*PRODUCTS[0], {"rows": [8, 16], "columns": [1, 64], "split": 1, "stages": 3, "store": "shared"}),
    (CONV2D_WGMMA, STATIONARY, {"rows": [4, 16], "columns": [1, 32], "stages": 2, "store": "vectors", "tiles": 3}),
)


@emulates
@pytest.mark.parametrize(("template", "workload", "wanted"), EMULATED, ids=["vectors", "fragments", "shared", "tiles"])
def test_the_source_computes_it(template, workload, wanted):
    config = template.strategy(CUDA).nearest(workload, wanted)
    assert config["store"].val == wanted["store"]
    assert config["tiles"].val == wanted.get("tiles", 1)
    inputs, right, poison = arrays_of(workload, EPILOGUES[0])
    with emulation():
        arrays = [tw.nd.array(values, tw.cuda()) for values in (*inputs, poison)]
        emulated(*template.program(config, workload, CUDA))(*arrays)
        check(arrays[-1].numpy(), right, ALLOWED[workload.element])


def test_layers_and_targets_that_it_covers():
    able = CONVOLUTIONS[0]
    assert CONV2D_WGMMA.covers(able, CUDA)
    for arch in ("sm_80", "sm_89", "sm_100"):
        assert not CONV2D_WGMMA.covers(able, Target(f"cuda -arch={arch}"))
    assert not CONV2D_WGMMA.covers(able, Target("opencl -device=gpu"))
    others = (
        Conv2dLayer.of((1, 64, 9, 10), 64, dtype="float16"),  # neighbours are pixels
        Conv2dLayer.of((1, 64, 9, 10), 64, dtype="float16", layout="NHWC", weights="HWIO"),
        Conv2dLayer.of((1, 64, 5, 5), 64, dtype="float16", **LAST),  # fewer rows than half a warpgroup has
        Conv2dLayer.of((1, 64, 9, 10), 64, **LAST),
    )
    for other in others:
        assert not CONV2D_WGMMA.covers(other, CUDA)
    assert CONV2D_WGMMA_TF32.covers(others[-1], CUDA)


def test_large_batches_are_computed_by_it_where_the_hardware_can():
    of = Conv2dLayer.of((64, 256, 14, 14), 256, dtype="float16", **LAST)
    template, config = CONV2D.choose(of, CUDA)
    assert template is CONV2D_WGMMA
    assert WgmmaTile.of(config).is_possible(*_shape(of), CUDA.hardware)
    assert CONV2D.choose(of, Target("cuda -arch=sm_80"))[0] is not CONV2D_WGMMA


def _shape(of):
    by = CONV2D_WGMMA.gpu.space.__self__
    return by.contraction_of(of), by.atom(of)


def test_float32_takes_it_only_if_its_operands_may_be_cut():
    def names(precision):
        problem = Problem(
            "conv", (64, 256, 14, 14), 256, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, "float32", "NHWC",
            precision=precision,
        )  # fmt: skip
        return {template.name for template in strategies_of(problem, CUDA)[0]}

    assert "topi/conv2d.wgmma_tf32" in names("tf32_cut")
    assert not any("wgmma" in name for name in names("tf32") | names("fp32") | names("ieee"))
    assert CONV2D_MMA.name in names("fp32")


def test_a_call_says_what_its_template_does_to_operands():
    assert set(_TF32) == {"topi/conv2d.tf32", CONV2D_WGMMA_TF32.name}
