"""The GPU boards with known peaks, one row per name that the driver reports.

Numbers of multiprocessors, boost clocks, memory bandwidths and sizes of L2 caches are from NVIDIA's data sheets. None
was measured, except on the H200. The rates of one multiprocessor per cycle are in `core/architectures.py`, and the
measured rates of a board are `tune/model/machine.py::Rates`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .architectures import NVIDIA


@dataclass(frozen=True)
class Board:
    """One board: `megahertz` is its boost clock, `gigabytes` its memory bandwidth in 1e9 bytes per second.

    `l2_megabytes` is the size of its L2 cache in MiB.
    """

    architecture: str
    multiprocessors: int
    megahertz: int
    gigabytes: int
    l2_megabytes: float

    @property
    def flops(self) -> float:
        """The peak rate in float32 operations per second, without matrix instructions."""
        return self.peak("float32")

    def peak(self, dtype: str) -> float:
        """Return the peak rate in operations of a type per second, without matrix instructions."""
        return 1e6 * self.multiprocessors * self.megahertz * NVIDIA[self.architecture].multiprocessor.peak(dtype)

    def bound(self, flop: float, moved: float) -> float:
        """The least seconds for `flop` operations on `moved` bytes of memory: the roofline."""
        return max(flop / self.flops, moved / (1e9 * self.gigabytes))


BOARDS: dict[str, Board] = {
    "NVIDIA GeForce GTX 980 Ti": Board("sm_52", 22, 1075, 336, 3),
    "Tesla P100-SXM2-16GB": Board("sm_60", 56, 1480, 732, 4),
    "NVIDIA GeForce GTX 1080": Board("sm_61", 20, 1733, 320, 2),
    "NVIDIA GeForce GTX 1080 Ti": Board("sm_61", 28, 1582, 484, 2.75),
    "Tesla V100-SXM2-16GB": Board("sm_70", 80, 1530, 900, 6),
    "Tesla V100-SXM2-32GB": Board("sm_70", 80, 1530, 900, 6),
    "NVIDIA GeForce RTX 2080 Ti": Board("sm_75", 68, 1545, 616, 5.5),
    "Tesla T4": Board("sm_75", 40, 1590, 320, 4),
    "NVIDIA A100-SXM4-40GB": Board("sm_80", 108, 1410, 1555, 40),
    "NVIDIA A100-SXM4-80GB": Board("sm_80", 108, 1410, 2039, 40),
    "NVIDIA A10": Board("sm_86", 72, 1695, 600, 6),
    "NVIDIA GeForce RTX 3090": Board("sm_86", 82, 1695, 936, 6),
    "NVIDIA L4": Board("sm_89", 58, 2040, 300, 48),
    "NVIDIA L40S": Board("sm_89", 142, 2520, 864, 96),
    "NVIDIA GeForce RTX 4090": Board("sm_89", 128, 2520, 1008, 72),
    "NVIDIA H100 PCIe": Board("sm_90", 114, 1755, 2039, 50),
    "NVIDIA H100 80GB HBM3": Board("sm_90", 132, 1980, 3350, 50),
    "NVIDIA H200": Board("sm_90", 132, 1980, 4800, 60),
    "NVIDIA B200": Board("sm_100", 148, 1965, 8000, 126),
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": Board("sm_120", 188, 2617, 1792, 128),
    "NVIDIA GeForce RTX 5090": Board("sm_120", 170, 2407, 1792, 96),
}


def board_of(architecture: str) -> Board | None:
    """The last known board of an architecture; None without a known board."""
    return next((board for board in reversed(BOARDS.values()) if board.architecture == architecture), None)
