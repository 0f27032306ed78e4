"""Every spelling of a padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.core.errors import UserError
from tilewright.core.padding import LEGACY_WORDS, PYTORCH_WORDS, TEMPLATE_WORDS, padding_of


@pytest.mark.parametrize(
    ("given", "covered", "full"),
    [
        (2, (3,), (2, 2)),
        ((2,), (3, 3), (2, 2, 2, 2)),
        ((1, 2), (3,), (1, 2)),
        (((1, 2),), (3,), (1, 2)),
        ([1, 2], (3, 3), (1, 2, 1, 2)),
        ((0, 1, 2, 3), (3, 3), (0, 1, 2, 3)),
        (((0, 2), [1, 3]), (3, 3), (0, 1, 2, 3)),
        ((1, 2, 3), (3, 3, 3), (1, 2, 3, 1, 2, 3)),
        (np.int64(1), (3, 3), (1, 1, 1, 1)),
        ("valid", (4, 3), (0, 0, 0, 0)),
        ("same", (4, 5), (1, 2, 2, 2)),
        ("full", (4, 5), (3, 4, 3, 4)),
        ("SAME", (4, 5), (2, 2, 1, 2)),
        ("VALID", (4,), (0, 0)),
    ],
)
def test_each_spelling_in_full(given: Any, covered: tuple[int, ...], full: tuple[int, ...]) -> None:
    words = (*TEMPLATE_WORDS, *LEGACY_WORDS)
    assert padding_of("f", given, covered, (1,) * len(covered), words) == full


@pytest.mark.parametrize(
    "given", [-1, (1, 2, 3), ((1, 2),), (1, (2, 3)), True, 1.0, None, "full", "SAME", np.ones(2), ()]
)
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(UserError, match=r"(?s)f: padding is .*fix: give an int .* or \"valid\"") as caught:
        padding_of("f", given, (3, 3), (1, 1), PYTORCH_WORDS)
    assert repr(given) in caught.value.message


def test_only_the_legacy_word_takes_a_stride() -> None:
    assert padding_of("f", "SAME", (3, 3), (2, 1), LEGACY_WORDS) == (1, 1, 1, 1)
    with pytest.raises(UserError, match="needs a convolution of stride 1"):
        padding_of("f", "same", (3, 3), (2, 1))
