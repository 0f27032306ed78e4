"""The machine that a model predicts for: what its data sheet says, and what was measured of it once.

`Machine.of` takes rates from the board (`core/boards.py`) and the architecture's row; `Rates` holds what no data sheet
says. Their defaults are those of an H200; `tilewright doctor --calibrate` measures them on the device that is here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...core.architectures import NVIDIA
from ...core.boards import BOARDS, Board
from ...core.hardware import Hardware
from ...core.target import Target

_USUAL_BOARD = "NVIDIA H200"


@dataclass(frozen=True)
class Rates:
    """What is measured of a device. Cycles are those of a multiprocessor, bytes per cycle those of one, too."""

    launch_seconds: float = 0.73e-6
    """Of an empty kernel among others in a graph."""
    global_latency: float = 276.0
    """Cycles from a load to its value, out of the L2 cache."""
    shared_latency: float = 28.0
    barrier: float = 14.6
    """Cycles in which a block's threads meet."""
    block_start: float = 150.0
    l1_bytes: float = 76.0
    l2_bytes: float = 28.3
    memory_bytes: float = 16.4
    l2_capacity: float = 47e6
    """Bytes that stay in the L2 cache from one run to the next."""
    clock: float = 1.89e9
    """Cycles per second under load."""


@dataclass(frozen=True)
class Weights:
    """How counts become instructions and waiting: fitted once to measured kernels, the same for all devices."""

    compare: float = 0.2
    loop_step: float = 38.0
    ldg: float = 0.5
    lds: float = 0.88
    lds_wave: float = 1.0
    sts: float = 1.2
    stg: float = 47.0
    fill: float = 11.0
    thread: float = 590.0
    issue: float = 0.66
    registers: float = 32.0
    word: float = 1.0
    spill: float = 1.07
    dependent: float = 1.14
    alone: float = 1.59
    overlap: float = 0.31
    serial: float = 0.03
    guarded: float = 0.44
    fill_guarded: float = 0.08
    barrier: float = 0.1
    sectors: float = 0.98
    uneven: float = 0.26
    code: float = 0.07
    marked: float = 2.0
    sharpness: float = 2.14


@dataclass(frozen=True)
class Machine:
    """One device, as the model sees it."""

    hardware: Hardware
    multiprocessors: int
    rates: Rates = field(default_factory=Rates)
    weights: Weights = field(default_factory=Weights)

    @staticmethod
    def of(target: Target, board: str = "") -> Machine:
        """The machine of a target: of the named board, else of the first known one of its architecture."""
        found = BOARDS.get(board) or _board_of(target.hardware)
        rates = Rates()
        usual = BOARDS[_USUAL_BOARD]
        # What is not measured scales with what the data sheets say.
        clock = rates.clock * found.megahertz / usual.megahertz
        per_cycle = found.gigabytes / found.multiprocessors / found.megahertz
        usual_per_cycle = usual.gigabytes / usual.multiprocessors / usual.megahertz
        scaled = replace(rates, clock=clock, memory_bytes=rates.memory_bytes * per_cycle / usual_per_cycle)
        return Machine(target.hardware, found.multiprocessors, scaled)

    @property
    def schedulers(self) -> float:
        """Instructions of warps that a multiprocessor issues per cycle."""
        return max(1.0, self.hardware.multiprocessor.float_lanes / self.hardware.warp)


def _board_of(hardware: Hardware) -> Board:
    rows = [board for board in BOARDS.values() if NVIDIA[board.architecture].name == hardware.name]
    return rows[-1] if rows else BOARDS[_USUAL_BOARD]
