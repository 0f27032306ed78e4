"""Wide groups whose filters are not whole tiles: the last tile of each group is cut off by guards."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.covering import each_value
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tests.topi.test_contraction import EPILOGUES, problem
from tests.topi.test_mma import EPSILON, check
from tilewright.codegen.program import generate
from tilewright.core.dtype import DType
from tilewright.core.hardware import MemoryScope
from tilewright.core.target import Target
from tilewright.driver import build, finished, lower_for
from tilewright.loops.nodes import Allocate
from tilewright.loops.walk import statements
from tilewright.topi.templates import Conv2dLayer, contraction_simt, named

CONV2D = named("topi/conv2d")
CONV2D_GEMM = named("topi/conv2d.gemm")
CONV2D_MMA = named("topi/conv2d.mma")
CONV2D_TF32 = named("topi/conv2d.tf32")
CONV2D_WGMMA = named("topi/conv2d.wgmma")
CONV2D_WGMMA_TF32 = named("topi/conv2d.wgmma_tf32")

CUDA = Target("cuda -arch=sm_90")
LAYOUTS = (("NCHW", "OIHW"), ("NHWC", "OIHW"), ("NHWC", "OHWI"), ("NHWC", "HWIO"), ("HWCN", "OIHW"))
MATRIX = (CONV2D_MMA, CONV2D_TF32, CONV2D_WGMMA, CONV2D_WGMMA_TF32)


def layer(filters: int, channels: int, dtype: str, layout: str, weights: str = "OIHW", images: int = 8) -> Conv2dLayer:
    """Two groups of so many filters and channels."""
    options: dict[str, Any] = {"groups": 2, "dtype": dtype, "layout": layout}
    if weights != "OIHW":
        options["weights"] = weights
    return Conv2dLayer.of((images, 2 * channels, 5, 11), 2 * filters, 3, **options)


def sampled(template: Any, of: Conv2dLayer, count: int) -> Iterator[Any]:
    """The first configuration, and random ones of the space."""
    yield template.default_config(of, CUDA)
    space = template.strategy(CUDA).space(of)
    drawn = space.indices(space.draw(np.random.default_rng(of.filters), count))
    yield from (space.get(index) for index in drawn)


def generated(template: Any, config: Any, of: Conv2dLayer) -> str:
    """The CUDA source of a configuration."""
    schedule, args = template.program(config, of, CUDA)
    functions = lower_for(CUDA, schedule, args).functions
    return generate(tuple(finished(function, CUDA) for function in functions), CUDA)[0].source


@pytest.mark.parametrize(("dtype", "order"), each_value(["float32", "float16", "int8"], LAYOUTS))
def test_every_configuration_of_the_spaces_is_lowered(dtype: str, order: tuple[str, str]) -> None:
    layout, weights = order
    of = layer(*((20, 32) if layout == "NCHW" or weights == "OHWI" else (52, 40)), dtype, layout, weights)
    able = [template for template in MATRIX if template.covers(of, CUDA)]
    assert able or dtype == "int8"  # of which neighbours have to be terms
    for template in able:
        for config in sampled(template, of, 2):
            assert ".sync" in generated(template, config, of), (template.name, config)


@pytest.mark.parametrize(("dtype", "layout"), [("float32", "NCHW"), ("float32", "NHWC"), ("float16", "NHWC")])
@pytest.mark.parametrize("filters", [20, 24, 40, 52])
def test_first_choices_build(filters: int, dtype: str, layout: str) -> None:
    of = layer(filters, 32, dtype, layout)
    template, config = CONV2D.choose(of, CUDA)
    assert template in MATRIX
    module = build(*template.program(config, of, CUDA), CUDA)
    assert "float16" not in template.name or "wgmma.mma_async" in module.program.source
    assert all(used.stack_bytes == 0 for used in module.resources.values())


EMULATED = (
    (CONV2D_MMA, layer(20, 32, "float32", "NCHW", images=1), {"rows": [2, 16], "columns": [1, 16]}),
    (CONV2D_MMA, layer(24, 32, "float16", "NCHW", images=2), {"rows": [1, 16], "columns": [2, 8], "split": 2}),
    (CONV2D_MMA, layer(52, 32, "bfloat16", "NHWC", "OHWI", 1), {"rows": [2, 16], "columns": [1, 32]}),
    (CONV2D_MMA, layer(20, 32, "float16", "HWCN", images=8), {"rows": [1, 16], "columns": [2, 16]}),
    (CONV2D_WGMMA, layer(24, 32, "float16", "NHWC", images=2), {"rows": [4, 16], "columns": [1, 16]}),
    (CONV2D_WGMMA, layer(40, 40, "bfloat16", "NHWC", "OHWI", 2), {"rows": [4, 16], "columns": [1, 16]}),
    (CONV2D_WGMMA_TF32, layer(20, 32, "float32", "NHWC", "OHWI", 2), {"rows": [4, 16], "columns": [1, 16]}),
)


@emulates
@pytest.mark.parametrize(("number", "template", "of", "wanted"), [(n, *case) for n, case in enumerate(EMULATED)])
def test_the_source_computes_it(number: int, template: Any, of: Conv2dLayer, wanted: dict[str, Any]) -> None:
    strategy = template.strategy(CUDA)
    wanted = {"split": 1, "stages": 2, **wanted}
    made = [strategy.nearest(of, {**wanted, "store": store}) for store in ("fragments", "shared", "vectors")]
    made = list({str(config): config for config in made if config["columns"].size[1:] == wanted["columns"]}.values())
    assert {config["store"].val for config in made} >= {"fragments", "shared"} or wanted["split"] > 1
    for config, epilogue in zip(made, (*EPILOGUES[number % 3 :], *EPILOGUES), strict=False):
        inputs, right = problem(of, epilogue)
        with emulation():
            poison = np.full(of.out_shape, 77, str(of.result))
            arrays = [tw.nd.array(values, tw.cuda()) for values in (*inputs, poison)]
            emulated(*template.program(config, of, CUDA, epilogue))(*arrays)
            check(arrays[-1].numpy(), right, 1.5e-3 if template is CONV2D_WGMMA_TF32 else EPSILON[of.dtype])


@pytest.mark.parametrize(
    ("target", "dtype", "layout"),
    [("cuda -arch=sm_75", "float64", "NCHW"), ("cuda -arch=sm_86", "float64", "NHWC"), ("opencl", "float32", "HWCN")],
)
def test_first_choices_of_ordinary_arithmetic_fit_shared_memory(target: str, dtype: str, layout: str) -> None:
    """Each would need more than the target has, for slices of both groups that the last tile of a group touches."""
    of = Conv2dLayer.of((64, 128, 5, 11), 2 * 328, 3, groups=2, dtype=dtype, layout=layout)
    template, config = CONV2D.choose(of, Target(target))
    assert template is CONV2D_GEMM
    assert config["split"].val == 1
    functions = lower_for(Target(target), *template.program(config, of, Target(target))).functions
    (kernel,) = (f for f in functions if "products" in str(f.body))
    shared = [part.buffer for part in statements(kernel.body) if isinstance(part, Allocate)]
    elements = {b.name: prod(int(str(n)) for n in b.shape) for b in shared if b.scope is MemoryScope.SHARED}
    extents = [prod(config[name].size[1:]) * config["stages"].val for name in ("rows", "columns")]
    padding = 16 // DType(dtype).bytes  # at most, of each row: it prevents bank conflicts
    for found, extent in zip(sorted(elements.values()), sorted(extents), strict=True):
        assert found - extent * config["depth"].val in (0, extent * padding)


@emulates
@pytest.mark.parametrize(
    ("filters", "dtype", "layout", "wanted"),
    [
        (20, "float64", "NCHW", {"rows": [2, 4, 1], "columns": [1, 16, 4]}),
        (33, "float32", "NHWC", {"rows": [2, 8, 1], "columns": [2, 8, 1]}),
        (10, "float32", "HWCN", {"rows": [2, 1, 4], "columns": [1, 16, 2]}),
    ],
)
def test_tiles_of_one_group_of_ordinary_arithmetic_compute_it(
    filters: int, dtype: str, layout: str, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles that leave their group are filled with rows of that group alone, here wherever there is room or not."""
    of = layer(filters, 32, dtype, layout, images=2)
    before = _program(of, wanted)
    monkeypatch.setattr(contraction_simt, "_overfills", lambda *_: True)
    after = _program(of, wanted)
    assert len({str(tw.lower(*program, simple_mode=True)) for program in (before, after)}) == 2
    inputs, right = problem(of, EPILOGUES[0])
    with emulation():
        arrays = [tw.nd.array(values, tw.cuda()) for values in (*inputs, np.full(of.out_shape, 77, str(of.result)))]
        emulated(*after)(*arrays)
        check(arrays[-1].numpy(), right, EPSILON["float32"])


def _program(of: Conv2dLayer, wanted: dict[str, Any]) -> Any:
    """The program of the configuration nearest to tiles without a split of the depth."""
    config = CONV2D_GEMM.strategy(CUDA).nearest(of, {**wanted, "depth": 8, "split": 1, "stages": 2})
    assert [config[name].size[1:] for name in ("rows", "columns")] == list(wanted.values())
    return CONV2D_GEMM.program(config, of, CUDA, EPILOGUES[0])
