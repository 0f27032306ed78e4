"""Operators at the corners of their domain: no rows, NaN at the end of a sequence, labels of eight bits."""

from __future__ import annotations

import numpy as np

from tests.programs.harness import every_target
from tests.topi.cases import Case, check
from tilewright import topi
from tilewright.topi import nn


@every_target
def test_values_are_found_among_nan(target: str) -> None:
    sequence = np.array([-1.5, 0, 0, 2, np.nan, np.nan], "float32")
    values = np.array([np.nan, 0, 5, -9, 2], "float32")
    cases = [
        Case(
            f"to the {side}",
            lambda s, v, right=side == "right": topi.searchsorted(s, v, right),
            [sequence, values],
            np.searchsorted(sequence, values, side),  # type: ignore[call-overload]
            "schedule_extern",
        )
        for side in ("left", "right")
    ]
    check(cases, target)


@every_target
def test_labels_are_of_eight_bits(target: str) -> None:
    """The default of `ignore_index` is below all numbers of uint8."""
    guess = np.log(np.random.default_rng(5).uniform(0.1, 1, (3, 200))).astype("float32")
    labels = np.array([0, 199, 130], "uint8")
    loss = -np.mean(guess[np.arange(3), labels], dtype=np.float64, keepdims=False)
    given = [guess, labels, np.ones(200, "float32")]
    check([Case("loss", nn.nll_loss, given, np.asarray(loss, "float32"), "schedule_reduce")], target)


@every_target
def test_there_are_no_rows_to_sort(target: str) -> None:
    nothing = np.zeros((0, 3), "float32")
    check([Case("sort", topi.sort, [nothing], nothing, "schedule_sort")], target)
