"""Wrong uses of operators over sequences, tables, slices and packed images: one row per message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.errors.refused import refused
from tilewright import te, topi

nn = topi.nn


def floats(*shape: Any, name: str = "A", dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, dtype, name)


SEQUENCE, GATES, STATE = floats(5, 2, 3, name="X"), floats(16, 3, name="Wi"), floats(16, 4, name="Wh")
LINE, ROWS, WHOLE = floats(8, name="L"), floats(3, 8, name="R"), floats(3, dtype="int32", name="I")
BYTES, TAPS = floats(1, 16, 7, 7, dtype="int8", name="D"), floats(8, 16, 3, 3, dtype="int8", name="K")
pack = topi.cuda.conv2d_NCHWc_int8
groups = topi.cuda.group_conv2d_NCHWc_int8
dynamic = topi.dynamic_strided_slice

MISTAKES: list[tuple[str, Callable[[], Any], str, str]] = [
    ("lstm", lambda: nn.lstm(ROWS, GATES, STATE), "Xs 'R' has the shape [3, 8]", "(steps, batch, inputs)"),
    ("lstm", lambda: nn.lstm(SEQUENCE, floats(15, 3), STATE), "shape [15, 3], which is not (4 * hidden", "four gates"),
    ("lstm", lambda: nn.lstm(SEQUENCE, GATES, GATES), "dimension 1 of Wh and its extent by Xs, Wi and proj", "agree"),
    ("lstm", lambda: nn.lstm(SEQUENCE, GATES, STATE, LINE), "dimension 0 of Bi", "agree"),
    ("lstm", lambda: nn.lstm(SEQUENCE, GATES, STATE, ROWS), "Bi 'R' has the shape [3, 8]", "(16,)"),
    ("lstm", lambda: nn.lstm(SEQUENCE, GATES, STATE, weight_layout="IFG"), "weight_layout='IFG'", "IFGO"),
    ("lstm", lambda: nn.lstm(SEQUENCE, GATES, STATE, p_i=floats(2, 4)), "one of p_i and p_f", "both"),
    ("lstm", lambda: nn.lstm(SEQUENCE, GATES, floats(16, 4, dtype="float16")), "Wh has type float16", "one type"),
    ("lstm", lambda: nn.lstm(SEQUENCE, GATES, STATE, proj=floats(te.size_var("n"), 4)), "no constant shape", "numbers"),
    ("dft", lambda: topi.dft(WHOLE, WHOLE), "re_data 'I' is int32 of shape [3]", "floating-point"),
    ("dft", lambda: topi.dft(LINE, floats(8, dtype="float64")), "re_data has type float32", "one type"),
    ("dft", lambda: topi.dft(LINE, ROWS), "im_data 'R' has the shape [3, 8]", "1 dimension"),
    ("stft", lambda: topi.stft(ROWS, 9, 2, 9, floats(9), False, True), "but a window of win_length=9 is", "up to"),
    ("stft", lambda: topi.stft(ROWS, 8, 2, 4, LINE, False, True), "elements of window and win_length", "agree"),
    ("stft", lambda: topi.stft(ROWS, 8, 0, 8, LINE, False, True), "argument 'hop_length' is 0", "int >= 1"),
    (
        "stft",
        lambda: topi.stft(ROWS, 8, 2, 8, LINE, False, True, (3, 4, 1, 2)),
        "'output_shape' is (3, 4, 1, 2), but",
        "leave",
    ),
    ("fifo_buffer", lambda: nn.fifo_buffer(floats(9), LINE, 0), "9 elements along dimension 0, and buffer 8", "most"),
    ("fifo_buffer", lambda: nn.fifo_buffer(WHOLE, LINE, 0), "data has type int32", "one type"),
    ("embed", lambda: nn.embed(LINE, WHOLE), "table 'L' has the shape [8]", "(rows, width)"),
    ("embed_grad", lambda: nn.embed_grad(ROWS, WHOLE, floats(2, 8)), "the rows of grad_out and the indices", "agree"),
    ("embed_grad", lambda: nn.embed_grad(ROWS, WHOLE, floats(3, 8, dtype="float64")), "grad_out has type", "one type"),
    ("dynamic_strided_slice", lambda: dynamic(ROWS, WHOLE, WHOLE, WHOLE, (1, 1)), "begin [3], end [3]", "an entry"),
    (
        "dynamic_strided_slice",
        lambda: dynamic(floats(2, 2, 2), WHOLE, WHOLE, WHOLE, (1,)),
        "has 1 extents",
        "an extent",
    ),
    ("invert_permutation", lambda: topi.invert_permutation(LINE), "data 'L' has type float32", "topi.cast"),
    ("reinterpret", lambda: topi.reinterpret(LINE, "int8"), "float32", "bits"),
    ("argsort", lambda: topi.argsort(ROWS, floats(4, dtype="int32")), "valid_count 'A' has the shape [4]", "shape [3]"),
    ("conv2d_NCHWc_int8", lambda: pack(BYTES, floats(6, 16, 3, 3), 1, 1, 1, "NCHW"), "6 filters of kernel", "of 4"),
    ("conv2d_NCHWc_int8", lambda: pack(BYTES, LINE, 1, 1, 1, "NCHW"), "kernel 'L' has the shape [8]", "(filters"),
    (
        "group_conv2d_NCHWc_int8",
        lambda: groups(BYTES, TAPS, 1, 1, 1, 3),
        "16 channels of data in 3 groups",
        "per group",
    ),
    (
        "conv2d_winograd_nhwc",
        lambda: nn.conv2d_winograd_nhwc(BYTES, TAPS, 2, 1, 1, "int32"),
        "strides=2",
        "conv2d_nhwc",
    ),
]


@pytest.mark.parametrize(("name", "call", "message", "fix"), MISTAKES, ids=[f"{m[0]}-{m[2]}"[:60] for m in MISTAKES])
def test_mistakes(name: str, call: Callable[[], Any], message: str, fix: str) -> None:
    with refused(name, message, fix=fix):
        call()
