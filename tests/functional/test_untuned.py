"""Forty shapes that were never tuned: the call is right on the CPU, and CUDA's kernels compile without spills."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from benchmarks.untuned import LIMITS, SHAPES
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.functional.arguments.problem import CONV, Problem
from tilewright.functional.planning import compiler, kernel_choice
from tilewright.functional.planning.decision import Side
from tilewright.functional.planning.shipped import RECORDS
from tilewright.runtime.compile import resolve_target
from tilewright.runtime.device import device

CUDA = resolve_target(Target("cuda -arch=sm_90"))
FEW = SHAPES[1::8]
BY_NAME = pytest.mark.parametrize(
    "problem", [pytest.param(p, id=str(p), marks=[] if p in FEW else pytest.mark.slow) for p in SHAPES]
)


def shrunk(problem: Problem) -> tuple[int, int, int, int]:
    """The shape with a batch that the oracle computes in a second."""
    n, c, h, w = problem.shape
    terms = problem.filters * h * w * problem.kernel[0] * problem.kernel[1] * c // problem.groups
    return (max(1, min(n, int(3e8 // terms))), c, h, w)


def by_definition(x: np.ndarray, w: np.ndarray, problem: Problem) -> np.ndarray:
    """The convolution of NCHW in float64, tap by tap."""
    top, left, bottom, right = problem.padding
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    (kh, kw), (sh, sw), (dh, dw) = problem.kernel, problem.stride, problem.dilation
    rows, columns = ((x.shape[2] - (kh - 1) * dh - 1) // sh + 1, (x.shape[3] - (kw - 1) * dw - 1) // sw + 1)
    grouped = x.reshape(x.shape[0], problem.groups, -1, *x.shape[2:])
    taps = w.astype(np.float64).reshape(problem.groups, -1, *w.shape[1:])
    out = np.zeros((x.shape[0], problem.groups, taps.shape[1], rows, columns))
    for r in range(kh):
        for c in range(kw):
            part = grouped[
                ..., r * dh : r * dh + (rows - 1) * sh + 1 : sh, c * dw : c * dw + (columns - 1) * sw + 1 : sw
            ]
            out += np.einsum("ngchw,gfc->ngfhw", part, taps[..., r, c])
    return out.reshape(x.shape[0], -1, rows, columns)


def test_there_are_forty_of_them() -> None:
    assert len(set(SHAPES)) == 40
    assert {p.dtype for p in SHAPES} == set(LIMITS)
    assert {p.layout for p in SHAPES} == {"NCHW", "NHWC"}


@BY_NAME
def test_the_call_is_right(problem: Problem) -> None:
    rng = np.random.default_rng(7)
    dtype = np.dtype(getattr(ml_dtypes, problem.dtype, None) or problem.dtype)
    x = rng.standard_normal(shrunk(problem)).astype(dtype)
    w = rng.standard_normal(problem.weights_shape).astype(dtype)
    last = problem.layout == "NHWC"
    top, left, bottom, right = problem.padding
    found = tw.conv2d(
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if last else x,
        w,
        stride=problem.stride,
        padding=((top, bottom), (left, right)),
        dilation=problem.dilation,
        groups=problem.groups,
        layout=problem.layout,
    )
    found = (found.transpose(0, 3, 1, 2) if last else found).astype(np.float64)
    wanted = by_definition(x, w, problem)
    assert np.linalg.norm(found - wanted) <= LIMITS[problem.dtype] * np.linalg.norm(wanted)


@BY_NAME
def test_the_kernel_compiles(problem: Problem) -> None:
    found = compiler.default_selection(problem, CUDA)
    schedule, args = found.template.program(found.config, found.workload, CUDA, compiler.epilogue_of(problem, None))
    module = build(schedule, args, CUDA, name=found.workload.name)
    for name, used in module.program.resources.items():
        assert used.spill_store_bytes == 0, f"{name} of {found.config} spills {used.spill_store_bytes} bytes"


def test_a_layer_with_an_epilogue_may_have_a_record_of_its_own() -> None:
    lines = (RECORDS / "h200_epilogues.log").read_text(encoding="utf-8").splitlines()
    inputs = [json.loads(line)["input"] for line in lines]
    of_depthwise = [args for _, template, args, _ in inputs if template.startswith("topi/depthwise")]
    assert of_depthwise
    for shape, *window, multiplier, dtype, layout in (
        args if len(args) > 7 else [*args, "NCHW"] for args in of_depthwise
    ):
        given, kernel, stride, padding, dilation = (tuple(each) for each in (shape, *window))
        channels = given[1] * multiplier
        plain = Problem(CONV, given, channels, kernel, stride, padding, dilation, given[1], dtype, layout)
        assert compiler.default_selection(plain, CUDA).why.startswith("a record of this layer on")
        fused = compiler.default_selection(plain._replace(bias=True, activation="relu"), CUDA)
        assert fused.why.startswith("a record of this layer with an epilogue on")


LARGE = Problem(CONV, (1, 64, 6000, 6000), 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, "float16", "NCHW")


def test_a_large_image_has_more_blocks_of_pixels_than_y_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_choice, "target_on", lambda _: CUDA)
    _, executable = kernel_choice.choose(LARGE, device("cuda"), "", None, 0)
    assert executable is not None
    assert all(max(launch.grid[1:]) < 65536 for launch in executable.launches)
    assert max(max(launch.grid) for launch in executable.launches) > 65535


def refusing(monkeypatch: pytest.MonkeyPatch, refused: UserError, all_of_them: bool) -> None:
    """Have the compiler refuse the usual kernel of LARGE, or every kernel."""
    usual, compiled = compiler.default_selection(LARGE, CUDA).template, compiler.compiled

    def small_ones(found: compiler.Selection, *rest: Any) -> Any:
        if all_of_them or found.template is usual:
            raise refused
        return compiled(found, *rest)

    monkeypatch.setattr(kernel_choice, "target_on", lambda _: CUDA)
    monkeypatch.setattr(kernel_choice, "compiled", small_ones)


@pytest.mark.parametrize("said", ["blockIdx.y has the extent 70,000", "the tile has\n 20 rows"])
def test_a_layer_whose_usual_kernel_does_not_compile(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    refusing(monkeypatch, UserError(said), all_of_them=False)
    usual = compiler.default_selection(LARGE, CUDA).template.name
    why = f"our default kernel ({usual}) does not compile: {' '.join(said.split())}"
    choice, executable = kernel_choice.choose(LARGE, device("cuda"), "", None, 0)
    assert (choice.why, choice.template != usual) == (why, True)
    assert executable is not None
    monkeypatch.setattr(kernel_choice.rivals, "reason_for_rival", lambda *_: "")
    choice, executable = kernel_choice.choose(LARGE, device("cuda"), "torch", None, 0)
    assert (choice.side, choice.why, executable) == (Side.THEIRS, why, None)


def test_a_layer_that_no_kernel_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, UserError("the tile has 20 rows"), all_of_them=True)
    with pytest.raises(
        UserError, match=r"(?s)no kernel of ours computes .*the tile has 20 rows.*fix: compute it in parts"
    ):
        kernel_choice.choose(LARGE, device("cuda"), "", None, 0)
