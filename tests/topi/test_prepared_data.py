"""Convolutions in NCHW whose data a kernel before the product unfolds, or puts channels last."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.running import finish
from tests.topi.test_contraction import EPILOGUES, problem
from tilewright.core.target import Target
from tilewright.driver import build, lower_for
from tilewright.loops.interpret import interpret
from tilewright.runtime.array import array
from tilewright.runtime.device import device
from tilewright.topi.templates import Conv2dLayer, named
from tilewright.topi.templates.mma_tiles import MmaTile

CONV2D_MMA = named("topi/conv2d.mma")
CONV2D_TF32 = named("topi/conv2d.tf32")

CUDA = Target("cuda -arch=sm_90")
UNFOLDED, LAST = "unfolded", "channels last"
LAYERS = (
    (Conv2dLayer.of((2, 8, 7, 7), 16), UNFOLDED, 2),
    (Conv2dLayer.of((1, 3, 9, 8), 24, kernel=(3, 2), stride=2, padding=(1, 0, 2, 1), dtype="float16"), UNFOLDED, 1),
    (Conv2dLayer.of((2, 8, 7, 7), 16), LAST, 2),
    (Conv2dLayer.of((2, 16, 6, 5), 24, dilation=2, dtype="float16"), LAST, 1),
    (Conv2dLayer.of((2, 32, 5, 6), 17, kernel=1, padding=0), LAST, 1),
)
"""Layers, how their data is laid out, and how many blocks share the depth of a tile."""
EPSILON = {"float32": 5e-7, "float16": 1e-3}


def config_of(layer, data, split):
    strategy = CONV2D_MMA.strategy(CUDA)
    wanted = {
        **strategy.default_choices(layer),
        "split": split,
        "stages": 2,
        "store": "fragments",
        "depth": 16,
        "data": data,
    }
    config = strategy.nearest(layer, wanted)
    assert (MmaTile.of(config).data, MmaTile.of(config).split) == (data, split)
    return config


def error(out, right):
    return np.linalg.norm(out.astype("float64") - right) / np.linalg.norm(right)


@pytest.mark.parametrize(("layer", "data", "split"), LAYERS, ids=lambda x: getattr(x, "title", str(x)))
def test_by_the_interpreter(layer, data, split):
    """A kernel lays the data out; the product copies vectors of 16 bytes, asynchronously, for the first slice too."""
    inputs, right = problem(layer, EPILOGUES[1])
    schedule, args = CONV2D_MMA.program(config_of(layer, data, split), layer, CUDA, EPILOGUES[1])
    finished = finish(lower_for(CUDA, schedule, args).functions[0], str(CUDA), check=True)
    out = np.full(layer.out_shape, np.nan, inputs[0].dtype)
    interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
    assert error(out, right) <= EPSILON[layer.dtype]
    source = build(schedule, args, CUDA).program.source
    assert "copy_16" in source
    assert "floordiv" not in source


@pytest.mark.cuda
@pytest.mark.parametrize(("layer", "data", "split"), LAYERS, ids=lambda x: getattr(x, "title", str(x)))
def test_on_cuda(layer, data, split):
    inputs, right = problem(layer, EPILOGUES[1])
    module = build(
        *CONV2D_MMA.program(config_of(layer, data, split), layer, Target("cuda"), EPILOGUES[1]), Target("cuda")
    )
    poison = np.full(layer.out_shape, np.nan, inputs[0].dtype)
    arrays = [array(values, device=device("cuda")) for values in (*inputs, poison)]
    module(*arrays)
    assert error(arrays[-1].numpy(), right) <= EPSILON[layer.dtype]


def test_which_layers_have_a_choice():
    """Layers in NCHW: windows of little data are unfolded, and whole vectors of channels come last."""

    def choices(template, *shape, **options):
        space = template.strategy(CUDA).space(Conv2dLayer.of(*shape, **options))
        return next(([c.val for c in knob.choices] for knob in space.knobs if knob.name == "data"), [])

    both = ["direct", UNFOLDED, LAST]
    assert choices(CONV2D_MMA, (1, 64, 14, 14)) == choices(CONV2D_TF32, (1, 64, 14, 14)) == both
    assert choices(CONV2D_MMA, (64, 64, 56, 56)) == ["direct", LAST]
    assert choices(CONV2D_MMA, (1, 6, 14, 14), 16, dtype="float16") == ["direct", UNFOLDED]
    assert choices(CONV2D_MMA, (1, 64, 14, 14), kernel=1) == ["direct", LAST]
    assert choices(CONV2D_MMA, (1, 64, 14, 14), layout="NHWC") == []
    assert choices(CONV2D_MMA, (1, 64, 14, 14), groups=2) == []


def test_older_records_read_data_as_it_lies():
    layer = Conv2dLayer.of((1, 64, 14, 14))
    wanted = {"rows": [2, 16], "columns": [2, 32], "depth": 16, "split": 2, "stages": 2, "store": "fragments"}
    assert MmaTile.of(CONV2D_MMA.strategy(CUDA).nearest(layer, wanted)).data == "direct"
