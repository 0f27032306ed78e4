"""Kernels for other architectures than that of the machine: compiled within their limits, and run on the emulator.

CUDA 13 compiles for sm_75 and later ones. `make test-cuda12` runs this file with the compiler of CUDA 12.9, which knows
sm_50 to sm_121.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from benchmarks.convolution_rows import WORKLOADS
from benchmarks.timed_rows import FAMILIES, workload_of
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tests.lowering.documents import PROGRAMS
from tilewright.codegen.abi import CompiledProgram
from tilewright.codegen.nvrtc import architectures, version
from tilewright.core.target import Target
from tilewright.ladder.trial import CheckedProblem
from tilewright.topi.templates import Conv2dLayer, Depthwise, named

# The most kilobytes of shared memory of a block, and registers of a thread: CUDA C++ Programming Guide, "Technical
# Specifications per Compute Capability".
SHARED = {"sm_61": 48, "sm_70": 96, "sm_75": 64, "sm_86": 99, "sm_89": 99, "sm_100": 227, "sm_120": 99}
REGISTERS = 255
SPILLS = 512
"""The most bytes that a thread of a default configuration spills: one-line calls then try other configurations."""
MODES = ("float32", "float16", "float16/NHWC", "bfloat16/NHWC")
DOCUMENTS = {"sm_61": "conv1d_v5", "sm_70": "depthwise_v4", "sm_75": "conv1d_v5", "sm_120": "depthwise_v4"}
"""A sample of the documents' programs."""
SAMPLE = {  # a row of each operator, and an architecture and a mode that differ
    ("dw-256x32-k3", "sm_61", "bfloat16/NHWC"),
    ("r50-b1-l3.1x1", "sm_70", "float16/NHWC"),
    ("dw-256x21-k3", "sm_75", "bfloat16/NHWC"),
    ("conv1d-16384-k32", "sm_86", "float16"),
    ("r50-b1-l1.3x3", "sm_89", "float32"),
    ("grouped-b1-128x56-g32", "sm_100", "float16/NHWC"),
    ("mbv2-b1-dw32x112", "sm_120", "float32"),
}


def require(arch: str) -> Target:
    """Return the target of an architecture, if the compiler that is here knows it."""
    if arch not in architectures():
        pytest.skip(f"NVRTC {version()[0]}.{version()[1]} does not compile for {arch}: `make test-cuda12` does")
    return Target(f"cuda -arch={arch}")


def keeps_limits(program: CompiledProgram, arch: str) -> None:
    """Check registers, shared memory and spills by the compiler's report."""
    assert program.resources
    for kernel in program.kernels:
        used = program.resources[kernel.name]
        assert 0 < used.registers <= REGISTERS
        assert max(used.shared_bytes, kernel.dynamic_shared_bytes) <= SHARED[arch] * 1024
        assert used.spill_store_bytes <= SPILLS, f"{kernel.name} spills {used.spill_store_bytes} bytes"


def slow_unless(sample: bool, *values: Any) -> Any:
    """Return a case that is slow unless it is part of the sample."""
    return pytest.param(*values, marks=() if sample else pytest.mark.slow)


@pytest.mark.parametrize(
    ("name", "arch"),
    [slow_unless(DOCUMENTS.get(arch) == name, name, arch) for name, arch in product(PROGRAMS, SHARED)],
)
def test_a_program_of_the_documents_compiles(name: str, arch: str) -> None:
    target = require(arch)
    keeps_limits(tw.build(*PROGRAMS[name](), target).program, arch)


@pytest.mark.parametrize(
    ("row", "arch", "mode"),
    [slow_unless(case in SAMPLE, *case) for case in product(WORKLOADS, SHARED, MODES)],
)
def test_the_default_configurations_of_a_row_compile(row: str, arch: str, mode: str) -> None:
    """Of each strategy that covers the row on this architecture."""
    target, of = require(arch), workload_of(row, mode)
    if of is None:
        pytest.skip("a row without images has no layout")
    for template in FAMILIES[WORKLOADS[row][0]].able(of, target):
        keeps_limits(tw.build(*template.program(template.default_config(of, target), of, target), target).program, arch)


@emulates
@pytest.mark.parametrize(
    ("arch", "template", "of"),
    [
        ("sm_61", "topi/depthwise.direct", Depthwise.of((1, 4, 9, 11), dtype="bfloat16")),
        ("sm_70", "topi/conv2d.gemm", Conv2dLayer.of((1, 8, 7, 7), filters=16, dtype="float16", layout="NHWC")),
        ("sm_75", "topi/depthwise.planes", Depthwise.of((2, 8, 8, 13), kernel=5, dtype="bfloat16")),
        ("sm_86", "topi/conv2d.mma", Conv2dLayer.of((1, 16, 6, 9), filters=16, dtype="bfloat16", layout="NHWC")),
        ("sm_120", "topi/conv2d.direct", Conv2dLayer.of((1, 8, 9, 9), groups=2)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_default_configuration_computes_the_layer(arch: str, template: str, of: Any) -> None:
    """On the emulator, which takes the branches of the source that are for the architecture."""
    target, strategy = Target(f"cuda -arch={arch}"), named(template)
    trial = CheckedProblem.of(of)
    with emulation():
        module = emulated(*strategy.program(strategy.default_config(of, target), of, target), target)
        arrays = [tw.nd.array(values, tw.cuda()) for values in (trial.data, trial.weight, trial.unwritten())]
        module(*arrays)
        error, fault = trial.check(arrays[-1].numpy())
    assert not fault
    assert np.isfinite(error)


def test_no_architecture_before_80_copies_asynchronously() -> None:
    """Neither `cp.async` nor conversions of bfloat16 stand in its source outside of `__CUDA_ARCH__ >= 800`."""
    of = Conv2dLayer.of((1, 64, 14, 14), dtype="bfloat16", layout="NHWC")
    for arch in ("sm_61", "sm_75"):
        target = Target(f"cuda -arch={arch}")
        for template in FAMILIES["conv2d"].able(of, target):
            source = emulated(*template.program(template.default_config(of, target), of, target), target).get_source()
            older = "".join(part.partition("#else")[2] for part in source.split("#if __CUDA_ARCH__ >= 800")[1:])
            assert "cp.async" not in source
            assert "bf16" not in older.replace("bfloat16", "")
