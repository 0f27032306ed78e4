"""The eleven programs of the two ladders compute the convolution, wherever they run and however odd the sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.running import finish
from tilewright.driver import build, lower
from tilewright.ladder.conv1d import Conv1dLadder
from tilewright.ladder.depthwise import DepthwiseLadder
from tilewright.ladder.rung import Ladder, Rung
from tilewright.ladder.trial import CheckedProblem
from tilewright.loops.interpret import interpret
from tilewright.runtime.array import array
from tilewright.runtime.device import device

pytestmark = pytest.mark.optimised

DOCUMENTS = (Conv1dLadder(), DepthwiseLadder())
AWKWARD = (
    Conv1dLadder(M=1, N=1),
    Conv1dLadder(M=1, N=7),  # a kernel longer than the input
    Conv1dLadder(M=13, N=29),
    Conv1dLadder(M=29, N=1),
    Conv1dLadder(M=997, N=31),  # primes
    Conv1dLadder(M=256, N=33),
    Conv1dLadder(M=61, N=12, dtype="float64"),
    DepthwiseLadder(batch=1, channels=1, height=1, width=1, kernel=1),
    DepthwiseLadder(batch=2, channels=3, height=17, width=19, kernel=3),  # primes
    DepthwiseLadder(batch=1, channels=5, height=1, width=31, kernel=5),
    DepthwiseLadder(batch=1, channels=1, height=33, width=1, kernel=3),
    DepthwiseLadder(batch=3, channels=2, height=5, width=3, kernel=9),  # a kernel larger than the image
    DepthwiseLadder(batch=2, channels=2, height=7, width=16, kernel=3, dtype="float64"),
)
MODERATE = (Conv1dLadder(M=257, N=32), DepthwiseLadder(batch=1, channels=2, height=18, width=33, kernel=5))


WITHOUT_TILES = ("naive", "v1")
"""Rungs of the depthwise ladder that loop over all pixels: several tiles are nothing to them, and take them seconds."""


def cases(*ladders: Ladder) -> list[object]:
    """Every rung of every ladder, one test each."""
    return [
        pytest.param(ladder, rung, id=f"{ladder.title}-{rung.name}-{ladder.sizes().replace(' ', ',')}")
        for ladder in ladders
        for rung in ladder.rungs
        if ladder not in MODERATE or isinstance(ladder, Conv1dLadder) or rung.name not in WITHOUT_TILES
    ]


def alternating(*ladders: Ladder) -> list[object]:
    """As `cases`; of each ladder, every other rung is slow, and of the next ladder the others are."""
    return [
        pytest.param(*case.values, id=case.id, marks=pytest.mark.slow if (number + first) % 2 else ())
        for first, ladder in enumerate(ladders)
        for number, case in enumerate(cases(ladder))  # type: ignore[attr-defined]
    ]


def expected(ladder: Ladder, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The answer in float64, not as the ladder itself computes it."""
    a, w = data.astype("float64"), weight.astype("float64")
    if isinstance(ladder, Conv1dLadder):
        out = np.zeros(ladder.M + ladder.N - 1)
        for position, value in enumerate(w):
            out[position : position + ladder.M] += value * a
        return out
    assert isinstance(ladder, DepthwiseLadder)
    pad = ladder.kernel // 2
    padded = np.pad(a, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (ladder.kernel, ladder.kernel), axis=(2, 3))
    return np.einsum("bchwyx,cyx->bchw", windows, w[:, 0])


def check(ladder: Ladder, data: np.ndarray, weight: np.ndarray, out: np.ndarray) -> None:
    """The answer is within what rounding of that many terms can do."""
    epsilon = float(np.finfo(out.dtype).eps)
    bound = (ladder.terms + 2) * epsilon * expected(ladder, np.abs(data), np.abs(weight)).max()
    np.testing.assert_allclose(out, expected(ladder, data, weight), rtol=0, atol=bound)


def on_device(kind: str, ladder: Ladder, rung: Rung) -> None:
    """Build and run on poisoned output."""
    program = rung.make(ladder)
    module = build(program.schedule, program.args, target=kind)
    data, weight = ladder.inputs(np.random.default_rng(3))
    poison = np.full(expected(ladder, data, weight).shape, np.nan, ladder.dtype)
    arrays = [array(values, device=device(kind)) for values in (data, weight, poison)]
    module(*arrays)
    check(ladder, data, weight, arrays[-1].numpy())


@pytest.mark.opencl
@pytest.mark.parametrize(("ladder", "rung"), [*cases(*DOCUMENTS), *alternating(*AWKWARD)])
def test_on_opencl(ladder: Ladder, rung: Rung) -> None:
    on_device("opencl", ladder, rung)


@pytest.mark.cuda
@pytest.mark.parametrize(("ladder", "rung"), cases(*DOCUMENTS, *AWKWARD))
def test_on_cuda(ladder: Ladder, rung: Rung) -> None:
    on_device("cuda", ladder, rung)


@pytest.mark.parametrize(("ladder", "rung"), cases(*MODERATE, *AWKWARD))
def test_in_the_interpreter(ladder: Ladder, rung: Rung) -> None:
    """As lowered, and finished with its barriers, where races, stray accesses and unwritten memory are found."""
    program = rung.make(ladder)
    (lowered,) = lower(program.schedule, program.args).functions
    data, weight = ladder.inputs(np.random.default_rng(4))
    shape = expected(ladder, data, weight).shape
    for function, finished in ((lowered, False), (finish(lowered, check=True), True)):
        out = np.full(shape, np.nan, ladder.dtype)
        interpret(function, [data, weight, out], outputs=[function.buffers[-1]], races=finished)
        check(ladder, data, weight, out)


@pytest.mark.parametrize("ladder", [*DOCUMENTS, *AWKWARD], ids=lambda ladder: f"{ladder.title}-{ladder.sizes()}")
def test_the_reference_of_the_ladder(ladder: Ladder) -> None:
    """What the command compares with, against this file's own sums."""
    trial = CheckedProblem.of(ladder, seed=5)
    assert trial.answer.dtype == np.float64
    np.testing.assert_allclose(trial.answer, expected(ladder, trial.data, trial.weight), rtol=0, atol=1e-12)
