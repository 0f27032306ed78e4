"""The packaged templates: every configuration computes the convolution, at awkward sizes, wherever it runs."""

from __future__ import annotations

import functools
import itertools
import logging
import re

import numpy as np
import pytest

import tilewright as tw
from tests.passes.running import finish
from tilewright import autotvm
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.driver import build, lower
from tilewright.ladder.rivals import has_torch
from tilewright.loops.interpret import interpret
from tilewright.runtime.array import array
from tilewright.runtime.device import device
from tilewright.topi import templates
from tilewright.topi.templates import Conv1dVector, Conv2dLayer, Depthwise, named
from tilewright.topi.templates.strategy import ScheduleStrategy
from tilewright.tune.analysis.candidate import inspect_candidate

CONV1D = named("topi/conv1d")
CONV2D = named("topi/conv2d")
DEPTHWISE = named("topi/depthwise")
DIRECT = named("topi/depthwise.direct")

TEMPLATES = {Conv1dVector: CONV1D, Conv2dLayer: CONV2D, Depthwise: DEPTHWISE}
AWKWARD = (
    Conv1dVector.of(1, 1),
    Conv1dVector.of(7, 12),  # a kernel longer than the input
    Conv1dVector.of(1009, 31),  # primes
    Conv1dVector.of(257, 5, stride=3, padding=(1, 2)),
    Conv1dVector.of(64, 32, padding="same", dtype="float64"),
    Conv1dVector.of(40, 9, stride=2, padding=15),  # more zeros than the kernel is long
    Conv2dLayer.of((1, 8, 7, 7), 16),
    Conv2dLayer.of((2, 3, 17, 19), 5, kernel=(3, 5), stride=(2, 1), padding=1),
    Conv2dLayer.of((3, 6, 9, 10), 10, groups=2, padding=(0, 1, 2, 3), dilation=2),
    Conv2dLayer.of((2, 4, 5, 37), 3, kernel=1, padding="valid", dtype="float64"),
    Conv2dLayer.of((1, 4, 6, 6), 4, groups=4, kernel=2, padding="full"),
    Conv2dLayer.of((1, 1, 1, 1), 1, kernel=1),
    Depthwise.of((3, 4, 16, 32), 7),
    Depthwise.of((2, 5, 17, 37), (3, 4), stride=2, multiplier=3, padding=(1, 0, 2, 1)),
    Depthwise.of((1, 3, 1, 41), (1, 3), dilation=(1, 2), dtype="float64"),
    Depthwise.of((1, 1, 3, 3), 5, padding="full"),
)


def cases(workloads=AWKWARD):
    return [pytest.param(w, id=w.title.replace("  ", ",").replace(" ", "=")) for w in workloads]


def chosen(workload, target, count, seed=0):
    """The untuned configuration and random ones that can run, as (task, configurations)."""
    template = general(workload, target)
    task = template.task(workload, Target(target))
    space = task.config_space
    drawn = (space.get(i) for i in space.indices(space.draw(np.random.default_rng(seed), 20 * count)))
    able = (c for c in drawn if inspect_candidate(task, c, task.target).refusal is None)
    return task, [untuned(template, workload, target), *itertools.islice(able, count)]


def general(workload, target):
    """The general strategy of a workload, or the default one if the operator has no general one for the target."""
    template = TEMPLATES[type(workload)]
    return template if template.covers(workload, Target(target)) else template.choose(workload, Target(target))[0]


@functools.cache
def untuned(template, workload, target):
    """The untuned configuration: ranking configurations takes longer than compiling one."""
    return template.default_config(workload, Target(target))


def inputs(workload, seed=1):
    return workload.inputs(np.random.default_rng(seed))


def expected(workload, data, weights):
    """The result in float64 by plain loops over the window, written from the definition."""
    a, w = data.astype("float64"), weights.astype("float64")
    out = np.zeros(workload.out_shape)
    if isinstance(workload, Conv1dVector):
        padded = np.pad(a, workload.padding)
        for i in range(len(out)):
            window = padded[i * workload.stride :][: len(w)]
            out[i] = window @ w[::-1]
        return out
    (top, left, bottom, right), (sy, sx), (dy, dx) = workload.padding, workload.stride, workload.dilation
    padded = np.pad(a, ((0, 0), (0, 0), (top, bottom), (left, right)))
    filters, _, rows, columns = out.shape[1], *out.shape[1:]
    for f in range(filters):
        if isinstance(workload, Conv2dLayer):
            per_group = workload.shape[1] // workload.groups
            first = f // (filters // workload.groups) * per_group
            channels, kernels = range(first, first + per_group), w[f]
        else:
            channels, kernels = [f // workload.multiplier], w[f // workload.multiplier, f % workload.multiplier][None]
        for (ky, kx), (channel, kernel) in itertools.product(
            np.ndindex(*workload.kernel), zip(channels, kernels, strict=True)
        ):
            seen = padded[:, channel, ky * dy :, kx * dx :][:, ::sy, ::sx][:, :rows, :columns]
            out[:, f] += seen * kernel[ky, kx]
    return out


def check(workload, data, weights, out):
    bound = (workload.terms + 2) * np.finfo(out.dtype).eps * expected(workload, np.abs(data), np.abs(weights)).max()
    np.testing.assert_allclose(out, expected(workload, data, weights), rtol=0, atol=bound)


def on_device(workload, kind, count):
    """Build and run several configurations on poisoned output."""
    task, configs = chosen(workload, kind, count)
    data, weights = inputs(workload)
    for config in configs:
        schedule, args = task.instantiate(config)
        module = build(schedule, args, kind)
        poison = np.full(workload.out_shape, np.nan, workload.dtype)
        arrays = [array(values, device=device(kind)) for values in (data, weights, poison)]
        module(*arrays)
        check(workload, data, weights, arrays[-1].numpy())


@pytest.mark.skipif(not has_torch(), reason="PyTorch is not installed")
@pytest.mark.parametrize("workload", cases())
def test_what_numpy_and_pytorch_compute(workload):
    import torch

    data, weights = inputs(workload)
    check(workload, data, weights, workload.numpy(data, weights))
    for _, call in workload.torch(torch.from_numpy(data), torch.from_numpy(weights)):
        check(workload, data, weights, call().numpy())


# PoCL 3.0 leaves out the second of two blocks where a kernel longer than the input is summed from shared memory: with
# POCL_WORK_GROUP_METHOD=workitemrepl, on other targets and by the interpreter the same kernels are right.
MISCOMPILED = AWKWARD[1]


@pytest.mark.opencl
@pytest.mark.parametrize("workload", cases([w for w in AWKWARD if w is not MISCOMPILED]))
def test_on_opencl(workload):
    on_device(workload, "opencl", 1)  # PoCL takes a second for each


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("workload", cases([w for w in AWKWARD if w is not MISCOMPILED]))
def test_many_configurations_on_opencl(workload):
    on_device(workload, "opencl", 6)


@pytest.mark.parametrize("workload", cases())
def test_on_the_cpu(workload):
    on_device(workload, "llvm", 1)


@pytest.mark.cuda
@pytest.mark.parametrize("workload", cases())
def test_on_cuda(workload):
    on_device(workload, "cuda", 12)


@pytest.mark.parametrize("workload", cases([AWKWARD[1], AWKWARD[2], AWKWARD[3], AWKWARD[7], AWKWARD[8], AWKWARD[13]]))
def test_by_the_interpreter(workload):
    """With threads, barriers and memory scopes, and with races and reads of unwritten memory found."""
    task, configs = chosen(workload, "cuda", 2)
    data, weights = inputs(workload)
    for config in configs:
        schedule, args = task.instantiate(config)
        (lowered,) = lower(schedule, args).functions
        finished = finish(lowered, check=True)
        out = np.full(workload.out_shape, np.nan, workload.dtype)
        interpret(finished, [data, weights, out], outputs=[finished.buffers[-1]], races=True)
        check(workload, data, weights, out)


@pytest.mark.parametrize("workload", cases())
def test_cuda_compiles(workload):
    """By NVRTC, without a GPU; what is compiled says what it takes of the hardware."""
    task, configs = chosen(workload, "cuda", 1, seed=3)
    for config in configs:
        schedule, args = task.instantiate(config)
        (resources,) = build(schedule, args, "cuda").resources.values()
        assert 0 < resources.registers <= 255


# Spaces and workloads


def test_the_space_of_the_tutorials_layer_is_the_tutorials():
    task = autotvm.templates.conv2d.task("cuda", shape=(1, 512, 7, 7))
    assert len(task.config_space) == 10_454_400
    assert task.flop == 2 * 512 * 49 * 512 * 9


def test_what_is_refused_names_the_templates_line():
    task = autotvm.templates.conv2d.task("opencl", shape=(1, 512, 7, 7))
    inspections = (
        inspect_candidate(task, task.config_space.get(index), task.target) for index in range(40, 2**21, 9973)
    )
    steps = {found.refusal.step for found in itertools.islice(inspections, 40) if found.refusal is not None}
    assert steps
    for step in steps:
        assert re.fullmatch(r"s.*\.(bind|cache_read|cache_write)\(.* at .*/topi/templates/conv2d\.py:\d+", step), step


def test_a_prime_extent_is_split_unevenly():
    tile = CONV1D.task(Conv1dVector.of(1009, 997), Target("cuda")).config_space["tile_r"]
    assert {1, 2, 64, 256} <= {size for choice in tile for size in choice.sizes}
    assert {choice.sizes for choice in CONV2D.gpu.space(Conv2dLayer.of((1, 4, 7, 7), 3))["tile_rc"]} == {
        (-1, 1, 1), (-1, 1, 2), (-1, 2, 1), (-1, 1, 4), (-1, 2, 2), (-1, 4, 1),
    }  # fmt: skip


@pytest.mark.parametrize("workload", cases())
@pytest.mark.parametrize("target", ["cuda", "opencl", "llvm"])
def test_the_untuned_configuration_can_run(workload, target):
    template = general(workload, target)
    task = template.task(workload, Target(target))
    first = template.default_config(template.workload(task.args), task.target)
    assert task.config_space.find(first) == first.index
    assert inspect_candidate(task, first, task.target).refusal is None


@pytest.mark.parametrize("workload", cases())
def test_options_and_arguments_make_the_same_workload(workload):
    kind = type(workload)
    assert kind.of(*workload.args) == kind.of(**workload.shortest) == kind.of(**workload.options) == workload
    assert [int(n) for n in workload.declare()[2].shape] == list(workload.out_shape)


def test_spellings_of_one_workload_are_one():
    task = autotvm.templates.conv2d.task
    one = task("cuda", shape=(1, 8, 7, 7), filters=8, kernel=(3, 3), stride=1, padding=(1, 1, 1, 1), groups=1)
    assert one.workload == task("cuda", shape=[1, 8, 7, 7], padding="same").workload
    assert Depthwise.of((1, 8, 7, 7), (3, 3)).shortest == {"shape": (1, 8, 7, 7)}
    assert Conv1dVector.of((16384,), 32, padding=(31, 31)).shortest == {"shape": 16384, "kernel": 32}


@pytest.mark.parametrize(
    ("make", "message", "fix"),
    [
        (lambda: Conv1dVector.of(16, 0), "conv1d: kernel 0 is not a whole number of at least 1", "say 3"),
        (lambda: Conv1dVector.of((3, 4)), "conv1d: shape 3x4 is not a length", "say 16384"),
        (
            lambda: Conv1dVector.of(4, 9, padding="valid"),
            "conv1d: kernel 9 is larger than the padded input, 4",
            "padding",
        ),
        (lambda: Conv2dLayer.of((1, 2, 3)), "conv2d: shape 1x2x3 is not NxCxHxW", "1x64x56x56"),
        (lambda: Conv2dLayer.of((1, 2, 0, 3)), "conv2d: shape 1x2x0x3 is not NxCxHxW", "each at least 1"),
        (
            lambda: Conv2dLayer.of((1, 2, 7, 7), padding="most"),
            "conv2d: padding is 'most'",
            '"same", "valid" or "full"',
        ),
        (lambda: Conv2dLayer.of((1, 2, 7, 7), padding=(1, 2, 3)), "padding is (1, 2, 3)", "(top, left, bottom, right)"),
        (lambda: Conv2dLayer.of((1, 2, 7, 7), stride=(1, -1)), "conv2d: stride 1x-1 is not", "say 3"),
        (
            lambda: Conv2dLayer.of((1, 4, 7, 7), 6, groups=4),
            "groups 4 does not divide 4 channels and 6 filters",
            "divisor",
        ),
        (
            lambda: Conv2dLayer.of((1, 4, 7, 7), dtype="int16"),
            "conv2d: dtype int16 is not covered",
            "float32, float64, float16, bfloat16",
        ),
        (lambda: Conv2dLayer.of((1, 4, 7, 7), layout="CHWN"), "conv2d: layout CHWN is unknown", "NCHW, NHWC, HWCN"),
        (lambda: Depthwise.of((1, 4, 7, 7), layout="NCW"), "depthwise: shape 1x4x7x7 is not NxCxW", "8x64x1024"),
        (lambda: Depthwise.of((1, 4, 7, 7), dilation=4, padding=0), "kernel 9x9 is larger", "smaller kernel"),
        (lambda: Depthwise.of((1, 4, 7, 7), multiplier=0), "depthwise: multiplier 0 is not", "say 3"),
        (lambda: autotvm.templates.conv2d(shape=(1, 4, 7, 7)), "conv2d: no current target", "tw.target.Target"),
    ],
)
def test_a_wrong_option_is_named(make, message, fix):
    with pytest.raises(UserError) as caught:
        make()
    assert message in str(caught.value)
    assert fix in caught.value.fix


# Applying


def test_what_a_log_knows_is_applied(tmp_path, caplog):
    template, options = autotvm.templates.depthwise, {"shape": (1, 4, 16, 16), "kernel": 5}
    task = template.task("opencl", **options)
    config = task.config_space.get(12345)
    measured = autotvm.MeasureInput(task.target, task, config), autotvm.MeasureResult((1e-3,), 0, 0.1, 0.0)
    with autotvm.apply_history_best([measured]), tw.target.Target("opencl"):
        applied, args = template(**options)
    assert str(tw.lower(applied, args)) == str(tw.lower(*task.instantiate(config)))
    with caplog.at_level(logging.WARNING, "autotvm"), tw.target.Target("opencl"):
        untuned, args = template(**options)
    assert not caplog.text  # its first configuration is a choice, not a fallback
    default = DIRECT.default_config(DIRECT.workload(task.args), task.target)
    assert str(tw.lower(untuned, args)) == str(tw.lower(*task.instantiate(default)))


def test_of_the_strategies_that_a_log_knows_the_fastest_is_applied():
    options = {"shape": (1, 4, 16, 16), "kernel": 5}
    tasks = [autotvm.templates.depthwise.by("direct").task("opencl", **options)]
    tasks.append(autotvm.templates.depthwise.by("planes").task("opencl", **options))

    def measured(task, seconds):
        config = task.config_space.get(7)
        return autotvm.MeasureInput(task.target, task, config), autotvm.MeasureResult((seconds,), 0, 0.1, 0.0)

    direct, general = ([measured(task, seconds) for seconds in (1e-3, 2e-3)] for task in tasks)
    for inner, outer, chosen in (
        ([direct[0], general[1]], [], tasks[0]),
        ([direct[1], general[0]], [], tasks[1]),
        ([general[1]], [direct[0]], tasks[1]),  # the innermost context is asked first
    ):
        with autotvm.apply_history_best(outer), autotvm.apply_history_best(inner), tw.target.Target("opencl"):
            applied, args = autotvm.templates.depthwise(**options)
        expected = chosen.instantiate(chosen.config_space.get(7))
        assert str(tw.lower(applied, args)) == str(tw.lower(*expected))
    with autotvm.apply_history_best([direct[0]]) as history, tw.target.Target("opencl"):
        given = tasks[1].config_space.get(0)
        history.update(tw.target.Target("opencl"), tasks[1].workload, given)  # somebody's choice, not measured
        applied, args = autotvm.templates.depthwise(**options)
    assert str(tw.lower(applied, args)) == str(tw.lower(*tasks[1].instantiate(given)))


def test_templates_are_known_by_name():
    assert {t.name for t in templates.ALL} == {
        "topi/conv1d", "topi/conv2d", "topi/conv2d.direct", "topi/conv2d.grouped", "topi/depthwise",
        "topi/depthwise.direct", "topi/depthwise.mma", "topi/depthwise.planes", "topi/conv2d.gemm", "topi/conv2d.mma",
        "topi/conv2d.tf32",
        "topi/conv2d.window", "topi/conv2d.wgmma", "topi/conv2d.wgmma_tf32", "topi/dense", "topi/dense.mma",
        "topi/dense.tf32", "topi/dense.wgmma", "topi/dense.wgmma_tf32", "topi/batch_matmul", "topi/batch_matmul.mma",
        "topi/batch_matmul.tf32", "topi/batch_matmul.wgmma", "topi/batch_matmul.wgmma_tf32", "topi/conv_transpose",
        "topi/conv2d.grouped_rows", "topi/pool", "topi/conv_transpose.phases", "topi/depthwise.lines",
        "topi/weight_gradient", "topi/weight_gradient.copied", "topi/backward",
    }  # fmt: skip
    workload = Conv2dLayer.of((1, 8, 7, 7))
    assert autotvm.task.create("topi/conv2d", workload.args, "opencl").flop == workload.flop


def test_an_operator_without_a_general_strategy_on_a_gpu_is_tuned_by_its_default_one():
    task = autotvm.templates.depthwise.task("cuda -arch=sm_90", shape=(1, 4, 8, 8))
    assert task.name == "topi/depthwise.direct"


def test_a_record_of_a_removed_strategy(tmp_path):
    """Applying the log ignores it; asking for its task says that the strategy is gone."""
    options = {"shape": (1, 4, 8, 8)}
    task = autotvm.templates.depthwise.task("opencl", **options)
    log = tmp_path / "old.log"
    pair = autotvm.MeasureInput(task.target, task, task.config_space.get(3)), autotvm.MeasureResult((1,), 0, 1, 0)
    log.write_text(autotvm.record.encode(*pair).replace(task.name, "topi/depthwise.old") + "\n")
    with autotvm.apply_history_best(str(log)), tw.target.Target("opencl"):
        applied, args = autotvm.templates.depthwise(**options)
    default = DIRECT.default_config(DIRECT.workload(task.args), task.target)
    assert str(tw.lower(applied, args)) == str(tw.lower(*task.instantiate(default)))
    with pytest.raises(UserError, match=r"there is no template 'topi/depthwise\.old'") as caught:
        autotvm.task.create("topi/depthwise.old", task.args, "opencl")
    assert "tune again; there are topi/depthwise, topi/depthwise.direct" in caught.value.fix


def test_groups_that_do_not_part_the_channels():
    with pytest.raises(UserError, match="'groups' is 2, which does not divide Input's channels, 5"):
        tw.topi.nn.group_conv2d_nchw(tw.placeholder((1, 5, 7, 7)), tw.placeholder((4, 2, 3, 3)), 1, 1, groups=2)
    with pytest.raises(UserError, match="a group's channels of Input and Filter"):
        tw.topi.nn.group_conv2d_nchw(tw.placeholder((1, 8, 7, 7)), tw.placeholder((4, 2, 3, 3)), 1, 1, groups=2)


def test_the_nearest_admitted_configuration_is_the_first():
    of, direct = Depthwise.of((1, 8, 64, 64), 11, multiplier=3), DIRECT.gpu
    space = direct.space(of)
    assert space.is_index_valid(direct.default_config(of).index)
    wanted = {"tile_c": [1, 1], "tile_y": [1, 1], "tile_x": [8, 2], "chunk": 4, "window": "row", "order": "terms"}
    found = ScheduleStrategy(direct.space, direct.schedule, lambda *_: wanted).default_config(of)
    assert (found["chunk"].val, found["tile_x"].size[-1]) in {(2, 2), (4, 4), (1, 2)}
    assert space.is_index_valid(found.index)


def test_few_declarations_depend_on_a_configuration() -> None:
    """Forms of data, tiles of threads, pairs of rows and shares: a configuration schedules all other declarations."""
    schedules = [(row.name, each) for row in templates.ALL for each in (row.gpu, row.cpu) if each is not None]
    found = {name.partition("/")[2] for name, each in schedules if each.declare_for is not None}
    products = {
        f"{kind}.{how}"
        for kind in ("conv2d", "dense", "batch_matmul")
        for how in ("mma", "tf32", "wgmma", "wgmma_tf32")
    }
    tiles = {"conv2d.direct", "conv2d.grouped_rows", "depthwise.direct", "depthwise.planes"}
    tiles |= {"depthwise.lines", "conv_transpose.phases", "backward"}
    assert {name for name in found if not name.startswith("weight_gradient")} == products | tiles
