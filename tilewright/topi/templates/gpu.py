"""The GPU that a cost model counts for: the row of its architecture, and the multiprocessors of its board."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.boards import BOARDS, board_of
from ...core.hardware import Hardware
from ...core.target import Target


@dataclass(frozen=True)
class Gpu:
    """`processors` are its multiprocessors."""

    hardware: Hardware
    processors: int

    @staticmethod
    def of(target: Target) -> Gpu:
        """Return the GPU of a target: the last known board of its architecture; another kind counts as the usual one.

        An architecture without a known board has as many multiprocessors as the usual one.
        """
        if target.kind != "cuda":
            return USUAL
        board = board_of(target.hardware.name)
        return Gpu(target.hardware, USUAL.processors if board is None else board.multiprocessors)


USUAL = Gpu(Target("cuda").hardware, BOARDS["NVIDIA H200"].multiprocessors)
"""The GPU that the constants of the models were fitted on, for targets that name none."""
