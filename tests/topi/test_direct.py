"""The direct strategy: every type, layout and epilogue, at awkward sizes, wherever it runs."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.passes.running import finish
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.driver import build, lower
from tilewright.functional.planning import shipped
from tilewright.loops.interpret import interpret
from tilewright.runtime.array import array
from tilewright.runtime.device import device
from tilewright.topi.templates import ACTIVATIONS, ALL, Conv2dLayer, Depthwise, Epilogue, named
from tilewright.tune.analysis.candidate import inspect_candidate
from tilewright.tune.records.log import load_from_file

CONV2D = named("topi/conv2d")
DEPTHWISE = named("topi/depthwise")

FAMILIES = {Conv2dLayer: CONV2D, Depthwise: DEPTHWISE}
WORKLOADS = (
    Depthwise.of((2, 4, 17, 24), 5, dtype="float16"),
    Depthwise.of((1, 8, 9, 11), 3, dtype="bfloat16", layout="NHWC"),
    Depthwise.of((2, 3, 10, 16), (3, 4), stride=2, multiplier=3, padding=(1, 0, 2, 1), dtype="bfloat16"),
    Depthwise.of((1, 5, 7, 8), 3, stride=3, dilation=2, multiplier=2, dtype="float16", layout="NHWC"),
    Depthwise.of((1, 6, 41), 4, padding=(3, 0), layout="NCW"),  # causal
    Depthwise.of((3, 16, 20), 7, dtype="float16", layout="NWC"),
    Depthwise.of((1, 2, 12, 20), 11, dtype="float64"),
    Depthwise.of((1, 1, 5, 36), (1, 31)),
    Depthwise.of((2, 6, 14, 14), 3, stride=2),  # whole planes in shared memory, too
    Depthwise.of((1, 32, 6, 9), 9, dtype="float16", layout="NHWC"),  # too many weights for registers
    Conv2dLayer.of((2, 8, 6, 12), 8, groups=2, dtype="float16"),
    Conv2dLayer.of((1, 6, 9, 10), 12, groups=3, padding=(0, 1, 2, 3), dilation=2, layout="NHWC", dtype="bfloat16"),
    Conv2dLayer.of((1, 5, 8, 8), 7, stride=2, layout="NHWC", dtype="float16"),
    Conv2dLayer.of((1, 8, 9, 7), 12, groups=2, layout="NHWC", weights="HWIO"),
    Conv2dLayer.of((1, 3, 16), 5, kernel=3, layout="NCW"),
)
EPILOGUES = (Epilogue(), Epilogue(bias=True, activation="relu"), Epilogue(True, True, "silu"))


def cases(workloads=WORKLOADS):
    return [pytest.param(w, id=w.title.replace("  ", ",").replace(" ", "=")) for w in workloads]


def strategies(workload, target, count, seed=0):
    """Every strategy that covers the workload, with its first configuration and random ones that can run."""
    for template in FAMILIES[type(workload)].strategies:
        if not template.covers(workload, Target(target)):
            continue
        task = template.task(workload, Target(target))
        space = task.config_space
        drawn = (space.get(i) for i in space.indices(space.draw(np.random.default_rng(seed), 30 * count)))
        able = (c for c in drawn if inspect_candidate(task, c, task.target).refusal is None)
        default = template.default_config(template.workload(task.args), task.target)
        for config in [default, *itertools.islice(able, count)]:
            yield template, config


def exact(workload, data, weights):
    """The sums in float64, by loops over the window, in the layout of the workload."""
    (top, left, bottom, right), (sy, sx), (dy, dx) = workload.padding, workload.stride, workload.dilation
    images = data.astype("float64")
    images = np.einsum(f"{workload.layout}->NCHW", images)
    padded = np.pad(images, ((0, 0), (0, 0), (top, bottom), (left, right)))
    w = weights.astype("float64").reshape(workload.filters, -1, *workload.kernel)
    rows, columns = workload.places
    out = np.zeros((len(images), workload.filters, rows, columns))
    share = workload.filters // workload.groups
    for f, rc, ky, kx in np.ndindex(*w.shape):
        seen = padded[:, f // share * w.shape[1] + rc, ky * dy :, kx * dx :][:, ::sy, ::sx][:, :rows, :columns]
        out[:, f] += seen * w[f, rc, ky, kx]
    return np.einsum(f"NCHW->{workload.layout}", out)


def activated(name, v):
    """An activation in float64, from its definition."""
    erf = np.vectorize(math.erf)
    return {
        None: lambda: v,
        "relu": lambda: np.maximum(v, 0),
        "relu6": lambda: np.clip(v, 0, 6),
        "silu": lambda: v / (1 + np.exp(-v)),
        "gelu": lambda: 0.5 * v * (1 + erf(v / math.sqrt(2))),
        "gelu_tanh": lambda: 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
        "sigmoid": lambda: 1 / (1 + np.exp(-v)),
        "hardswish": lambda: v * np.clip(v + 3, 0, 6) / 6,
        "tanh": lambda: np.tanh(v),
        "leaky_relu": lambda: np.where(v > 0, v, 0.01 * v),
        "elu": lambda: np.where(v > 0, v, np.expm1(v)),
        "mish": lambda: v * np.tanh(np.log1p(np.exp(v))),
        "hardtanh": lambda: np.clip(v, -1, 1),
        "softplus": lambda: np.logaddexp(0, v),
    }[name]()


def problem(workload, epilogue, seed=1):
    """Inputs, what is right, and how far from it rounding may lead."""
    rng = np.random.default_rng(seed)
    data, weights = workload.inputs(rng)
    usual = np.einsum("HWIO->OIHW", weights) if getattr(workload, "weights", "OIHW") == "HWIO" else weights
    sums, size = exact(workload, data, usual), exact(workload, abs(data), abs(usual))
    extras = []
    channels = [1] * 4
    channels[workload.channel_axis] = workload.channels
    if epilogue.bias:
        extras.append(rng.uniform(-1, 1, workload.channels).astype(data.dtype))
        sums, size = sums + extras[-1].astype("float64").reshape(channels), size + 1
    if epilogue.residual:
        extras.append(rng.uniform(-1, 1, workload.out_shape).astype(data.dtype))
        sums, size = sums + extras[-1].astype("float64"), size + 1
    right = activated(epilogue.activation, sums)
    summed = np.finfo("float64" if workload.dtype == "float64" else "float32").eps
    stored = float(ml_dtypes.finfo(data.dtype).eps)
    return [data, weights, *extras], right, (workload.terms + 8) * summed * size * 2 + stored * abs(right)


def check(out, right, allowed):
    off = np.abs(out.astype("float64") - right)
    assert not np.isnan(off).any()
    assert (off <= allowed).all(), f"{off.max()} where {allowed.flat[np.argmax(off - allowed)]} is allowed"


def on_device(workload, kind, count):
    for number, (template, config) in enumerate(strategies(workload, kind, count)):
        epilogue = EPILOGUES[number % len(EPILOGUES)]
        inputs, right, allowed = problem(workload, epilogue)
        module = build(*template.program(config, workload, Target(kind), epilogue), kind)
        poison = np.full(workload.out_shape, np.nan, inputs[0].dtype)
        arrays = [array(values, device=device(kind)) for values in (*inputs, poison)]
        module(*arrays)
        check(arrays[-1].numpy(), right, allowed)


@pytest.mark.parametrize("workload", cases())
def test_on_the_cpu(workload):
    on_device(workload, "llvm", 1)


SLOW_TO_COMPILE = 9 * 9
"""PoCL takes minutes for so many products of eight channels that are written out."""


@pytest.mark.opencl
@pytest.mark.parametrize("workload", cases([w for w in WORKLOADS if w.terms < SLOW_TO_COMPILE]))
def test_on_opencl(workload):
    on_device(workload, "opencl", 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llvm", pytest.param("opencl", marks=pytest.mark.opencl)])
@pytest.mark.parametrize("workload", cases([w for w in WORKLOADS if w.terms < SLOW_TO_COMPILE]))
def test_more_configurations(workload, kind):
    on_device(workload, kind, 6)


@pytest.mark.cuda
@pytest.mark.parametrize("workload", cases())
def test_on_cuda(workload):
    on_device(workload, "cuda", 12)


@pytest.mark.parametrize("workload", cases(WORKLOADS[2:5]))
def test_by_the_interpreter(workload):
    for template, config in strategies(workload, "cuda", 1):
        inputs, right, allowed = problem(workload, EPILOGUES[1])
        schedule, args = template.program(config, workload, Target("cuda"), EPILOGUES[1])
        (lowered,) = lower(schedule, args).functions
        finished = finish(lowered, check=True)
        out = np.full(workload.out_shape, np.nan, inputs[0].dtype)
        interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
        check(out, right, allowed)


@pytest.mark.parametrize("workload", cases())
def test_cuda_compiles(workload):
    """By NVRTC, without a GPU; windows are in registers, not on the stack."""
    template, config = FAMILIES[type(workload)].choose(workload, Target("cuda"))
    module = build(*template.program(config, workload, Target("cuda"), EPILOGUES[2]), "cuda")
    (resources,) = module.resources.values()
    assert 0 < resources.registers <= 255
    assert resources.stack_bytes == 0


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    workload = Depthwise.of((1, 3, 6, 8), 3)
    template, config = DEPTHWISE.choose(workload, Target("llvm"))
    epilogue = Epilogue(bias=True, activation=name)
    inputs, right, allowed = problem(workload, epilogue)
    out = array(np.full(workload.out_shape, np.nan, "float32"))
    build(*template.program(config, workload, Target("llvm"), epilogue), "llvm")(*map(array, inputs), out)
    check(out.numpy(), right, allowed)


def test_an_expression_of_ones_own():
    workload = Depthwise.of((1, 3, 6, 8), 3)
    template, config = DEPTHWISE.choose(workload, Target("llvm"))
    epilogue = Epilogue(activation=lambda v: v * v - 1)
    inputs, right, _ = problem(workload, Epilogue())
    out = array(np.full(workload.out_shape, np.nan, "float32"))
    build(*template.program(config, workload, Target("llvm"), epilogue), "llvm")(*map(array, inputs), out)
    np.testing.assert_allclose(out.numpy(), right * right - 1, rtol=1e-5, atol=1e-5)


FUSED = (Depthwise.of((1, 3, 6, 8), 3, multiplier=2), Conv2dLayer.of((1, 4, 6, 5), 6, groups=2, layout="NHWC"))


@pytest.mark.parametrize("workload", cases(FUSED))
@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_a_convolution_within_a_program(workload, target):
    """Its input and its epilogue are the program's; weights have PyTorch's shape."""
    kind = {Conv2dLayer: tw.autotvm.templates.conv2d, Depthwise: tw.autotvm.templates.depthwise}[type(workload)]
    inputs, right, allowed = problem(workload, Epilogue(bias=True))
    data, weights, bias = inputs
    weights = weights.reshape(workload.filters, -1, *workload.kernel)
    x, w, b = (te.placeholder(v.shape, "float32", name) for v, name in ((data, "x"), (weights, "w"), (bias, "b")))
    at = workload.channel_axis
    y = kind.compute(x, w, epilogue=lambda v, *i: v + b[i[at]], target=target, padding=1, layout=workload.layout)
    z = te.compute(y.shape, lambda *i: y(*i) * 2.0, "z")
    s = te.create_schedule(z.op)
    kind.schedule(s, y)
    if target == "cuda":
        s[z].bind(s[z].fuse(*z.op.axis), te.thread_axis("blockIdx.x"))
    module = build(s, [x, w, b, z], target)
    if target == "llvm":
        out = array(np.full(workload.out_shape, np.nan, "float32"))
        module(*map(array, (data, weights, bias)), out)
        check(out.numpy(), 2 * right, 2 * allowed)


def test_what_no_template_declared():
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] + 1.0, "y")
    with pytest.raises(UserError, match="'y' was not declared by a packaged template"):
        tw.autotvm.templates.conv2d.schedule(te.create_schedule(y.op), y)


def test_tensors_that_are_not_images():
    x, w = te.placeholder((4, 8), name="x"), te.placeholder((4, 1, 3, 3), name="w")
    with pytest.raises(UserError, match="are not images and filters"):
        tw.autotvm.templates.conv2d.compute(x, w, target="llvm")
    x = te.placeholder((1, 6, 8, 8), name="x")
    with pytest.raises(UserError, match=r"weights 'w' is float32 of shape \[4, 1, 3, 3\]"):
        tw.autotvm.templates.depthwise.compute(x, w, target="llvm")


def test_an_unknown_activation():
    with pytest.raises(UserError, match="activation 'swish' is unknown") as caught:
        Epilogue(activation="swish")
    assert "silu" in caught.value.fix


def test_a_strategy_that_does_not_cover_a_workload():
    workload = Depthwise.of((1, 4, 8, 8), layout="NHWC")
    with pytest.raises(UserError, match="'topi/depthwise' does not cover") as caught:
        DEPTHWISE.task(workload, Target("cuda")).config_space
    assert "topi/depthwise.direct" in caught.value.fix


def test_sums_over_many_channels_have_a_first_configuration():
    """The model ranks no tile of them: each writes out more products than code should."""
    cuda = Target("cuda")
    task = named("topi/conv2d.direct").task(
        Conv2dLayer.of((2, 128, 9, 9), 64, padding=1, dtype="float16", layout="NHWC"), cuda
    )
    first = named("topi/conv2d.direct").default_config(named("topi/conv2d.direct").workload(task.args), cuda)
    assert task.template.name == "topi/conv2d.direct"
    assert inspect_candidate(task, first, cuda).refusal is None


@pytest.mark.parametrize(
    ("groups", "filters", "lanes"),
    [(1, 64, 16), (8, 64, 8), (4, 24, 6), (2, 64, 16), (2, 34, 16)],
    ids="dense eight six many prime".split(),
)
def test_vectors_on_a_cpu_are_of_filters_of_one_group(groups: int, filters: int, lanes: int):
    """Filters of a vector that see the same channels share one load; 17 filters have no such vector."""
    workload = Conv2dLayer.of((1, 16, 4, 5), filters, padding=1, groups=groups, layout="NHWC")
    llvm = Target("llvm")
    config = named("topi/conv2d.direct").default_config(workload, llvm)
    assert config["tile_c"].size[-1] == lanes
    program, args = named("topi/conv2d.direct").program(config, workload, llvm)
    data, weights = workload.inputs(np.random.default_rng(groups))
    out = tw.nd.empty(workload.out_shape)
    tw.build(program, args, llvm)(tw.nd.array(data), tw.nd.array(weights), out)
    np.testing.assert_allclose(out.numpy(), workload.numpy(data.astype("float64"), weights), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "workload",
    [
        Conv2dLayer.of((2, 5, 9, 7), 16, 3, 2, 1),
        Conv2dLayer.of((1, 40, 5, 6), 24, 3, 1, (1, 0, 2, 1), groups=2),  # more weights than images
        Conv2dLayer.of((1, 12, 6, 5), 48, 1, 2, 0, dtype="float16"),
    ],
    ids="stride more-weights half".split(),
)
def test_filters_of_nchw_are_turned_on_a_cpu(workload: Conv2dLayer):
    """Vectors are of filters in NCHW, too, whatever the stride; with an epilogue or none."""
    llvm = Target("llvm")
    template, config = CONV2D.choose(workload, llvm)
    assert template.name == "topi/conv2d.direct"
    data, weights = workload.inputs(np.random.default_rng(1))
    sums = workload.numpy(data.astype("float64"), weights.astype("float64"))
    bias = np.linspace(-1, 1, workload.filters).astype(workload.dtype)
    for epilogue, more, wanted in (
        (Epilogue(), [], sums),
        (Epilogue(bias=True, activation="relu"), [bias], np.maximum(sums + bias[:, None, None].astype("float64"), 0)),
    ):
        schedule, args = template.program(config, workload, llvm, epilogue)
        out = tw.nd.empty(workload.out_shape, workload.dtype)
        tw.build(schedule, args, llvm)(*map(tw.nd.array, (data, weights, *more)), out)
        error = np.linalg.norm(out.numpy() - wanted) / np.linalg.norm(wanted)
        assert error < (2e-3 if workload.dtype == "float16" else 1e-6)


def test_shipped_records_fit_the_templates():
    """Each succeeded, and names a configuration that the space of its template still has."""
    logs = {path.stem: list(load_from_file(path)) for path in shipped.RECORDS.glob("*.log")}
    assert len(logs["h200_convolutions"]) > 50
    assert not [pair for log in logs.values() for pair in log if pair[1].error_no]
    known = {template.name: template for template in ALL}
    for inp, _ in (pair for log in logs.values() for pair in log):
        space = known[inp.task.name].gpu.space(known[inp.task.name].workload(inp.task.args))
        assert space.find(inp.config) is not None


def test_a_limit_of_registers_costs_where_it_crowds_them():
    """Asked of a thread of many inputs and sums; hardly of one of few."""
    (direct,) = [each for each in DEPTHWISE.strategies if each.name == "topi/depthwise.direct"]
    workload = Depthwise.of((1, 64, 96, 96), 5)
    costs = {}
    for rows, resident in ((6, 0), (6, 8), (1, 0), (1, 8)):
        wanted = {"tile_c": [1, 1], "tile_y": [8, rows], "tile_x": [24, 4], "resident": resident, "window": "all"}
        choices = direct.gpu.nearest(workload, wanted)
        assert choices["resident"].val == resident
        costs[rows, resident] = direct.gpu.expected(workload, choices).cycles
    assert costs[6, 8] > 1.5 * costs[6, 0]
    assert costs[1, 0] < costs[1, 8] < 1.6 * costs[1, 0]


def test_the_usual_layout_is_not_part_of_the_key():
    assert Depthwise.of((1, 4, 8, 8)).args[-1] == "float32"
    assert Depthwise.of((1, 4, 8, 8), layout="NHWC").args[-2:] == ("float32", "NHWC")
    assert tw.autotvm.templates.depthwise.task("llvm", shape=(1, 4, 8, 8)).workload[0] == "topi/depthwise"


SLIDING = (
    Depthwise.of((1, 8, 9, 5), 3, dtype="bfloat16", layout="NHWC"),
    Depthwise.of((1, 4, 11, 6), (5, 3), stride=2, padding=(2, 1, 1, 0), dtype="float16", layout="NHWC"),
    Depthwise.of((1, 2, 10, 4), 3, stride=3, dilation=2, layout="NHWC"),
    Depthwise.of((1, 32, 8, 4), 9, dtype="float16", layout="NHWC"),  # too many weights for registers
    Conv2dLayer.of((1, 8, 7, 5), 16, groups=2, dtype="float16", layout="NHWC"),
    Conv2dLayer.of((1, 12, 6, 4), 6, groups=3, kernel=(3, 2), padding=(2, 0, 1, 1), dilation=(2, 1), layout="NHWC"),
)


def by_the_interpreter(workload, config):
    """The strategy on one thread after another, with reads and races checked."""
    inputs, right, allowed = problem(workload, EPILOGUES[1])
    direct = FAMILIES[type(workload)].strategies[1]
    schedule, args = direct.program(config, workload, Target("cuda"), EPILOGUES[1])
    finished = finish(lower(schedule, args).functions[0], check=True)
    out = np.full(workload.out_shape, np.nan, inputs[0].dtype)
    interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
    check(out, right, allowed)


@pytest.mark.parametrize("window", ["row", "sliding", "rolled"])
@pytest.mark.parametrize("workload", cases(SLIDING))
def test_windows_of_images_with_channels_last(workload, window):
    """Three rows a thread, the last ones partly beyond the image; a group's channels are loaded together."""
    grouped = workload.groups < workload.shape[1]
    own, chunk = (workload.filters // workload.groups, workload.shape[1] // workload.groups) if grouped else (2, 2)
    wanted = {"tile_c": [2, own], "tile_y": [2, 3], "tile_x": [2, 2], "chunk": chunk, "window": window}
    config = FAMILIES[type(workload)].strategies[1].strategy(Target("cuda")).nearest(workload, wanted)
    assert (config["window"].val, config["chunk"].val) == (window, chunk)
    by_the_interpreter(workload, config)
