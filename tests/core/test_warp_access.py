"""Sectors and wavefronts of a warp's access, against counts made lane by lane with sets."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from tilewright.core.architectures import NVIDIA
from tilewright.core.warp_access import conflict_free, sectors, wavefronts

MEMORY = NVIDIA["sm_90"].warp_memory


def counted_sectors(addresses: list[int], width: int) -> int:
    return len({byte // 32 for address in addresses for byte in range(address, address + width)})


def counted_cycles(addresses: list[int], width: int) -> int:
    """The hardware serves 128 bytes' worth of lanes at a time; twice as many where lanes come in equal pairs."""
    together = 32 * 4 // width
    pairs = any(all(addresses[lane] == addresses[lane ^ step] for lane in range(32)) for step in (1, 2))
    if pairs and width > 4:
        together *= 2
    cycles = 0
    for start in range(0, 32, together):
        words = {address // 4 + k for address in addresses[start : start + together] for k in range(max(1, width // 4))}
        banks: dict[int, int] = defaultdict(int)
        for word in words:
            banks[word % 32] += 1
        cycles += max(banks.values())
    return cycles


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_random_accesses_cost_what_counting_says(width: int) -> None:
    rng = np.random.default_rng(width)
    rows = [
        *(np.arange(32) * stride * width for stride in (0, 1, 2, 3, 5, 8, 17, 32, 33)),
        *(rng.integers(0, 256, 32) * width for _ in range(20)),
        *(np.repeat(rng.integers(0, 256, 16), 2) * width for _ in range(5)),
        *(np.tile(rng.integers(0, 256, 8), 4) * width for _ in range(5)),
    ]
    found = np.array(rows, np.int64)
    assert sectors(found, width, MEMORY).tolist() == [counted_sectors(row.tolist(), width) for row in found]
    if width >= 4:
        assert wavefronts(found, width, MEMORY).tolist() == [counted_cycles(row.tolist(), width) for row in found]


def test_unaligned_bytes_cross_sectors() -> None:
    addresses = np.arange(32)[None, :] * 4 + 2
    assert sectors(addresses, 4, MEMORY).tolist() == [counted_sectors(addresses[0].tolist(), 4)] == [5]


def test_textbook_cases() -> None:
    lanes = np.arange(32)[None, :]
    assert wavefronts(lanes * 4, 4, MEMORY).tolist() == [1]
    assert wavefronts(lanes * 4 * 32, 4, MEMORY).tolist() == [32]  # a column of a 32 x 32 tile
    assert wavefronts(lanes * 4 * 33, 4, MEMORY).tolist() == [1]  # the same, padded
    assert wavefronts(lanes * 0, 4, MEMORY).tolist() == [1]  # a broadcast
    assert wavefronts(lanes * 16, 16, MEMORY).tolist() == [4] == conflict_free(lanes * 16, 16, MEMORY).tolist()
    assert wavefronts(lanes * 0, 16, MEMORY).tolist() == [2] == conflict_free(lanes * 0, 16, MEMORY).tolist()
