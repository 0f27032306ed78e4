"""What one access of a warp costs, against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.core.architectures import NVIDIA
from tilewright.tune.model.lanes import WarpLanes, sectors, unravelled, wavefronts

MEMORY = NVIDIA["sm_90"].warp_memory
LANES = np.arange(32, dtype=np.int64)[None, :]


@pytest.mark.parametrize(
    ("places", "size", "lanes", "expected"),
    [
        (LANES, 4, 1, 4),  # neighbours: 128 bytes
        (LANES, 2, 1, 2),
        (0 * LANES, 4, 1, 1),  # all the same
        (2 * LANES, 4, 1, 8),  # every other element
        (8 * LANES, 4, 1, 32),  # a sector each
        (1000 * LANES, 4, 1, 32),
        (4 * LANES, 4, 4, 16),  # 16 bytes per lane
        (LANES // 8 * 100, 4, 1, 4),
    ],
)
def test_sectors(places: np.ndarray, size: int, lanes: int, expected: float) -> None:
    assert sectors(places, size, MEMORY, lanes).tolist() == [expected]


@pytest.mark.parametrize(
    ("places", "size", "lanes", "expected"),
    [
        (LANES, 4, 1, 1),
        (0 * LANES, 4, 1, 1),  # one word for all
        (2 * LANES, 4, 1, 2),
        (32 * LANES, 4, 1, 32),  # one bank
        (33 * LANES, 4, 1, 1),
        (4 * LANES, 4, 4, 4),  # 512 bytes
        (LANES, 2, 1, 1),
    ],
)
def test_wavefronts(places: np.ndarray, size: int, lanes: int, expected: float) -> None:
    assert wavefronts(places, size, MEMORY, lanes).tolist() == [expected]


def test_wavefronts_count_different_words_of_a_bank() -> None:
    rng = np.random.default_rng(0)
    places = rng.integers(0, 500, size=(20, 32))
    for row, found in zip(places, wavefronts(places, 4, MEMORY), strict=True):
        banks = [{word for word in row.tolist() if word % 32 == bank} for bank in range(32)]
        assert found == max(map(len, banks))


def test_lanes_run_along_x_first_and_repeat_the_first_beyond_the_block() -> None:
    lanes = WarpLanes(2, [np.array([4, 8]), np.array([2, 8]), 1], 32)
    x, y, _ = (lanes.index[tag] for tag in lanes.index)
    assert x[0, :9].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert y[0, :9].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 0]
    assert (x[1] + 8 * y[1]).tolist() == list(range(32))


def test_unravelled_is_numpys() -> None:
    element = np.arange(24)[None, :]
    expected = np.unravel_index(np.arange(24), (2, 3, 4))
    for index, wanted in zip(unravelled(element, [2, 3, np.array([4])]), expected, strict=True):
        assert index[0].tolist() == wanted.tolist()


def test_wide_accesses_of_rows_that_overlap_in_the_banks_conflict() -> None:
    rows = LANES % 16 // 4 * 10 + LANES % 4 * 2  # 4 × 4 threads, two results each, in rows of ten words
    assert wavefronts(rows, 4, MEMORY, 1).tolist() == [2]
    assert wavefronts(rows, 4, MEMORY, 2).tolist() == [4]
    assert wavefronts(np.concatenate([rows, rows]), 4, MEMORY, np.array([1, 2])).tolist() == [2, 4]
