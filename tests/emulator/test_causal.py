"""Causal convolutions as GPUs run them: passes and decoding steps on the emulated device, beside sums in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import TARGET
from tilewright.codegen.program import generate
from tilewright.core.causal import DATA_GRADIENT, FORWARD, WEIGHT_GRADIENT, Causal, CausalUpdate
from tilewright.driver import finished, lower_for
from tilewright.runtime.module import Module
from tilewright.topi.causal import schedules, update

BATCH, CHANNELS = 2, 24


def emulated(schedule: Any, arguments: Any, binds: Any) -> Module:
    """The module of a schedule, as source alone."""
    functions = lower_for(TARGET, schedule, arguments, binds=binds).functions
    return Module(generate(tuple(finished(function, TARGET) for function in functions), TARGET)[0])


def run(made: tuple[Any, Any, Any], arrays: list[np.ndarray], numbers: list[int]) -> list[np.ndarray]:
    """Run a program on copies of arrays, which may be views; returns them afterwards."""
    given = []
    for a in arrays:
        whole = tw.nd.array(np.lib.stride_tricks.as_strided(a, (span(a),), (a.itemsize,)).copy(), tw.cuda())
        given.append(whole.as_strided(a.shape, [step // a.itemsize for step in a.strides], 0))
    emulated(*made)(*given, *numbers)
    return [a.numpy() for a in given]


def span(a: np.ndarray) -> int:
    """The elements from the first to the last of an array."""
    return 1 + sum((size - 1) * step // a.itemsize for size, step in zip(a.shape, a.strides, strict=True))


def sigmoid(v: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-v))


class Sums:
    """A pass over (batch, channels, length) in float64, product by product."""

    def __init__(self, x: np.ndarray, w: np.ndarray, b: np.ndarray, numbers: Any, states: Any) -> None:
        self.x, self.w, self.numbers, self.states = x, w, numbers, states
        self.before = np.zeros_like(x) + b[:, None]
        for t in range(x.shape[2]):
            for k in range(w.shape[1]):
                self.before[:, :, t] += w[:, k] * self.seen(t, k)
        self.inside = np.ones(x.shape) if numbers is None else np.broadcast_to(numbers[:, None] >= 0, x.shape)

    def seen(self, t: int, k: int) -> Any:
        source = t + k - (self.w.shape[1] - 1)
        if source < 0:
            return 0 if self.states is None else self.states[:, :, source]
        same = 1 if self.numbers is None else self.numbers[:, source] == self.numbers[:, t]
        return self.x[:, :, source] * np.reshape(same, (-1, 1))

    def results(self) -> np.ndarray:
        return self.before * sigmoid(self.before) * self.inside

    def gradients(self, grad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of x, and of the weights with the bias behind them."""
        part = sigmoid(self.before)
        grad = grad * part * (1 + self.before * (1 - part)) * self.inside
        width = self.w.shape[1]
        of_x, of_w = np.zeros_like(self.x), np.zeros((self.x.shape[1], width + 1))
        of_w[:, width] = grad.sum((0, 2))
        for t in range(self.x.shape[2]):
            for k in range(width):
                of_w[:, k] += (grad[:, :, t] * self.seen(t, k)).sum(0)
                source = t + k - (width - 1)
                if source >= 0:
                    same = 1 if self.numbers is None else self.numbers[:, source] == self.numbers[:, t]
                    of_x[:, :, source] += grad[:, :, t] * self.w[:, k] * np.reshape(same, (-1, 1))
        return of_x, of_w


@pytest.mark.parametrize("step", [FORWARD, DATA_GRADIENT, WEIGHT_GRADIENT])
@pytest.mark.parametrize(
    ("kind", "last", "together"),
    [("plain", True, 1), ("plain", False, 4), ("packed", True, 2), ("states", True, 2), ("states", False, 4)],
)
def test_passes(step: str, kind: str, last: bool, together: int) -> None:
    width, length = (3, 280) if step == WEIGHT_GRADIENT else (6, 36)
    random = np.random.default_rng(0)
    shape = (BATCH, length, CHANNELS) if last else (BATCH, CHANNELS, length)
    wide = random.standard_normal((*shape[:2], shape[2] + 4), np.float32)
    x, grad = wide[:, :, 4:], random.standard_normal(shape, np.float32)
    w, b = random.standard_normal((CHANNELS, width), np.float32), random.standard_normal(CHANNELS, np.float32)
    numbers = np.sort(random.integers(-1, 3, (BATCH, length)), 1).astype(np.int32) if kind == "packed" else None
    states = random.standard_normal((BATCH, CHANNELS, width - 1), np.float32) if kind == "states" else None
    of = Causal(
        step, CHANNELS, width, "float32", "float32", last, True, kind == "packed", kind == "states", "silu", together
    )

    def plain(a: Any) -> Any:
        return (a.transpose(0, 2, 1) if last else a).astype("float64")

    right = Sums(plain(x), w.astype("float64"), b.astype("float64"), numbers, states)
    wanted = right.results() if step == FORWARD else right.gradients(plain(grad))[step == WEIGHT_GRADIENT]
    wanted = wanted.transpose(0, 2, 1) if last and step != WEIGHT_GRADIENT else wanted
    rows = [] if step == FORWARD else [grad]
    arrays = [*rows, x, w, b, *[a for a in (numbers, states) if a is not None], np.full(wanted.shape, 7, np.float32)]
    sizes = [BATCH, length if last else length // together]
    sizes += [step // 4 // together for a in (*rows, x) for step in a.strides[:2]]
    sizes += [] if states is None else [step // 4 for step in states.strides]
    got = run(schedules.scheduled(of, TARGET), arrays, sizes)[-1]
    np.testing.assert_allclose(got, wanted, atol=2e-5 * np.abs(wanted).max(), rtol=0)


@pytest.mark.parametrize("channels", [24, 130])
@pytest.mark.parametrize("circular", [False, True])
@pytest.mark.parametrize(("indexed", "state_last"), [(False, True), (True, False)])
def test_steps(channels: int, circular: bool, indexed: bool, state_last: bool) -> None:
    width, new, kept, entries = 4, 2, 5, 4 if indexed else BATCH
    of = CausalUpdate(
        channels, width, "float32", "float32", new, kept, True, state_last, True, circular, indexed, "silu"
    )
    random = np.random.default_rng(0)
    x = random.standard_normal((BATCH, new, channels), np.float32).transpose(0, 2, 1)
    state = random.standard_normal((entries, kept, channels) if state_last else (entries, channels, kept), np.float32)
    state = state.transpose(0, 2, 1) if state_last else state
    w, b = random.standard_normal((channels, width), np.float32), random.standard_normal(channels, np.float32)
    counts, rows = np.array([3, 12], np.int32), np.array([2, -1], np.int32)
    wanted, after = np.zeros((BATCH, channels, new)), state.copy()
    for i in range(BATCH):
        row = rows[i] if indexed else i
        if row >= 0:
            places = [(counts[i] + t) % kept if circular else t + kept for t in range(1 - width, new)]
            history = [state[row, :, p % kept] for p in places[: width - 1]]
            inputs = np.stack([*history, *x[i].T], -1).astype("float64")
            for t in range(new):
                total = (inputs[:, t : t + width] * w).sum(1) + b
                wanted[i, :, t] = total * sigmoid(total)
            for t in range(new):
                if circular:
                    after[row, :, places[width - 1 + t]] = x[i, :, t]
            if not circular:
                after[row] = np.concatenate([state[row], x[i]], 1)[:, new:]
    out = np.zeros((BATCH, new, channels), np.float32).transpose(0, 2, 1)
    arrays = [x, w, b, *[counts] * circular, *[rows] * indexed, out, state]
    sizes = [BATCH, entries, *[step // 4 for step in x.strides], state.strides[0] // 4]
    *_, got, found = run(update.scheduled(of, TARGET), arrays, sizes)
    np.testing.assert_allclose(got, wanted, atol=1e-5)
    np.testing.assert_array_equal(found, after)
