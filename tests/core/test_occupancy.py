"""Occupancy against figures of NVIDIA's occupancy calculator."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.core.architectures import NVIDIA
from tilewright.core.occupancy import Limiter, occupancy


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks", "limiter"),
    [
        ("sm_90", 256, 32, 0, 8, Limiter.WARPS),
        ("sm_90", 256, 64, 0, 4, Limiter.REGISTERS),
        ("sm_90", 256, 33, 0, 6, Limiter.REGISTERS),  # 33 are given out as 40
        ("sm_90", 32, 16, 0, 32, Limiter.BLOCKS),
        ("sm_90", 128, 255, 0, 2, Limiter.REGISTERS),
        ("sm_90", 1024, 64, 0, 1, Limiter.REGISTERS),
        ("sm_90", 96, 72, 0, 9, Limiter.REGISTERS),
        ("sm_90", 128, 32, 48 * 1024, 4, Limiter.SHARED),  # 49 KB each of 228
        ("sm_90", 128, 32, 227 * 1024, 1, Limiter.SHARED),
        ("sm_80", 128, 32, 40 * 1024, 4, Limiter.SHARED),
        ("sm_75", 256, 32, 32 * 1024, 2, Limiter.SHARED),  # the system takes nothing there
        ("sm_86", 128, 32, 0, 12, Limiter.WARPS),
    ],
)
def test_blocks_of_a_multiprocessor(
    arch: str, threads: int, registers: int, shared: int, blocks: int, limiter: Limiter
) -> None:
    found = occupancy(NVIDIA[arch], threads, registers, shared)
    assert found.blocks == blocks
    assert limiter in found.limiters


def test_occupancy_is_a_share_of_the_warps() -> None:
    found = occupancy(NVIDIA["sm_90"], 256, 64, 0)
    assert (found.warps, found.most_warps, found.share) == (32, 64, 0.5)


def test_resources_that_are_not_used_limit_nothing() -> None:
    assert set(occupancy(NVIDIA["sm_90"], 256, 0, 0).blocks_by) == {Limiter.WARPS, Limiter.BLOCKS}


def test_a_kernel_that_does_not_fit_has_no_block() -> None:
    assert occupancy(NVIDIA["sm_90"], 1024, 255, 0).blocks == 0


@pytest.mark.parametrize(("arch", "blocks"), [("sm_90", [4, 2, 9]), ("sm_75", [4, 1, 9])])
def test_arrays_of_kernels_have_the_blocks_of_each(arch: str, blocks: list[int]) -> None:
    """The first uses no shared memory, and before sm_80 the system adds none."""
    threads, registers, shared = (np.array(each) for each in ([256, 128, 96], [64, 255, 72], [0, 48 << 10, 1]))
    assert occupancy(NVIDIA[arch], threads, registers, shared).blocks.tolist() == blocks


def test_pooled_registers_ignore_the_shares_of_schedulers() -> None:
    assert occupancy(NVIDIA["sm_90"], 224, 40, 0).blocks == 6  # 12 warps of each share
    assert occupancy(NVIDIA["sm_90"], 224, 40, 0, pooled=True).blocks == 7  # 51 warps of all registers
    assert occupancy(NVIDIA["sm_90"], 128, 32, 114 << 10, pooled=True).blocks == 2
    assert occupancy(NVIDIA["sm_90"], 128, 32, 114 << 10).blocks == 1
