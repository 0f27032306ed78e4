"""Networks and transforms of sequences against NumPy, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.programs.harness import every_target
from tests.topi.cases import Case, check
from tilewright import te, topi
from tilewright.expr.evaluate import evaluate
from tilewright.expr.traverse import loads
from tilewright.topi import nn, testing

RANDOM = np.random.default_rng(12)


def some(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-0.5, 0.5, shape).astype("float32")


@every_target
def test_long_short_term_memory(target: str) -> None:
    plain = [some(5, 2, 3), some(16, 3), some(16, 4)]
    full = [plain[0], plain[1], some(16, 6), some(16), some(16), some(2, 6), some(2, 4), some(6, 4),
            some(2, 4), some(2, 4), some(2, 4)]  # fmt: skip
    backwards: Any = {"reverse": True, "weight_layout": "OIGF"}
    cases = [
        Case("plain", lambda *t: nn.lstm(*t), plain, testing.lstm_python(*plain), "schedule_lstm", 1e-4, 1e-5),
        Case("full", lambda *t: nn.lstm(*t, **backwards), full, testing.lstm_python(*full, **backwards),
             "schedule_lstm", 1e-4, 1e-5),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_fourier_transforms(target: str) -> None:
    re, im, signal, window = some(3, 12), some(3, 12), some(2, 40), some(8)
    cases = [
        Case("dft", topi.dft, [re, im], testing.dft_python(re, im), "schedule_dft", 1e-4, 1e-5),
        Case("back", lambda x, y: topi.dft(x, y, True), [re, im], testing.dft_python(re, im, True), "schedule_extern",
             1e-4, 1e-5),
        Case("stft", lambda x, w: topi.stft(x, 8, 4, 8, w, True, True), [signal, window],
             testing.stft_python(signal, 8, 4, 8, window, True, True), "schedule_stft", 1e-4, 1e-5),
        Case("stft all", lambda x, w: topi.stft(x, 8, 5, 8, w, False, False, (2, 8, 7, 2)), [signal, window],
             testing.stft_python(signal, 8, 5, 8, window, False, False), "schedule_stft", 1e-4, 1e-5),
    ]  # fmt: skip
    check(cases, target)


def test_long_signals_keep_their_precision() -> None:
    """Frequencies times places exceed 32 bits: their place in the first turn is computed with 64."""
    length = 60_000
    x, y = te.placeholder((1, length), name="X"), te.placeholder((1, length), name="Y")
    real, _ = topi.dft(x, y)
    turn = next(load.indices[0] for load in loads(*real.op.body[0].children()) if load.source.name == "T_cosines")
    row, (k,) = real.op.axis[1].var, real.op.reduce_axis
    for n, place in ((length - 1, length - 1), (length - 2, length - 5)):
        assert evaluate(turn, {row: n, k.var: place}) == n * place % length


@every_target
def test_buffers_and_tables(target: str) -> None:
    buffer, news, line = some(2, 6, 3), some(2, 2, 3), some(4)
    table, where, grads = some(7, 4), np.array([0, 3, 3, 6, 0, 2], "int32"), some(6, 4)
    cases = [
        Case("fifo", lambda x, b: nn.fifo_buffer(x, b, 1), [news, buffer], testing.fifo_buffer_python(news, buffer, 1)),
        Case("fifo whole", lambda x, b: nn.fifo_buffer(x, b, 0), [line, line[::-1]], line),
        Case("embed", nn.embed, [table, where], table[where]),
        Case("embed grad", nn.embed_grad, [table, where, grads], testing.embed_grad_python(table, where, grads),
             "schedule_embed_grad"),
    ]  # fmt: skip
    check(cases, target)
