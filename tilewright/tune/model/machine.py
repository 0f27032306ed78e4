"""The machine that a model predicts for: figures of its data sheet, and rates measured once.

`Machine.of` takes rates from the board (`core/boards.py`) and the architecture's row; `Rates` holds the numbers that no
data sheet states. Its defaults are for an H200; `tilewright doctor --calibrate` measures them on the present device.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...core.boards import BOARDS, board_of
from ...core.cache_folder import DIRECTORY_VARIABLE, cache_folder, private_folder
from ...core.errors import UserError
from ...core.hardware import Hardware
from ...core.target import Target

_USUAL_BOARD = "NVIDIA H200"
_FILE = "calibration.json"


@dataclass(frozen=True)
class Rates:
    """Measured rates of a device. Cycles and bytes per cycle are per multiprocessor."""

    launch_seconds: float = 0.73e-6
    """Seconds of an empty kernel among others in a graph."""
    global_latency: float = 276.0
    """Cycles from a load to its value, out of the L2 cache."""
    shared_latency: float = 28.0
    barrier: float = 14.6
    """Cycles of a barrier of a block."""
    block_start: float = 150.0
    l1_bytes: float = 76.0
    l2_bytes: float = 28.3
    memory_bytes: float = 16.4
    l2_capacity: float = 47e6
    """Bytes that remain in the L2 cache from one run to the next."""
    clock: float = 1.89e9
    """Cycles per second under load."""


@dataclass(frozen=True)
class Weights:
    """Factors from counts to instructions and waiting: fitted once to measured kernels, the same for all devices."""

    compare: float = 1.32e-05
    loop_step: float = 0.0785
    ldg: float = 0.0159
    lds: float = 0.0178
    lds_wave: float = 0.855
    sts: float = 1.64
    stg: float = 13.3
    fill: float = 10.2
    thread: float = 333
    issue: float = 1.17
    registers: float = 31.4
    word: float = 2.78
    word_once: float = 2.78
    spill: float = 0.695
    dependent: float = 2.46
    alone: float = 0.735
    busy: float = 0.657
    meeting: float = 0.495
    overlap: float = 0.331
    serial: float = 0.00138
    guarded: float = 0.679
    fill_guarded: float = 0.651
    guarded_ahead: float = 0.164
    fill_serial: float = 0.429
    fill_alone: float = 1.0
    tail: float = 0.619
    cold: float = 2.24
    rolled: float = 0.53
    barrier: float = 0.442
    prefetched: float = 0.12
    sectors: float = 0.991
    l1_capacity: float = 180e3
    """Bytes of the L1 cache that directly loaded data keep."""
    missed: float = 0.05
    scattered: float = 0.4
    branched: float = 0.1
    uneven: float = 9.2
    code: float = 0.021
    marked: float = 0.0883
    crowded: float = 136
    """Words of a thread's arrays at which loops unrolled by the compiler keep none of them in registers."""
    sharpness: float = 2.1
    whole: float = 1.0
    """Of all cycles; it changes no order."""


DIRECT = Weights(
    compare=0.00348,
    loop_step=0.000377,
    ldg=0.0476,
    lds=2.34e-06,
    lds_wave=1.54,
    sts=5.62,
    stg=58,
    fill=13.7,
    thread=24.2,
    issue=0.408,
    registers=27.3,
    word=1.72,
    word_once=0.531,
    spill=461,
    dependent=1.17,
    alone=0.826,
    busy=2.99,
    meeting=0.323,
    overlap=0.273,
    serial=0.00505,
    guarded=0.819,
    fill_guarded=3.61,
    guarded_ahead=1.07e-06,
    fill_serial=0.251,
    fill_alone=5.18,
    tail=1.49e-06,
    cold=0.637,
    rolled=2.18,
    barrier=0.0382,
    prefetched=0.00113,
    sectors=1.0,
    l1_capacity=249000,
    missed=0.0426,
    scattered=0.0862,
    branched=0.689,
    uneven=0.000287,
    code=0.00586,
    marked=0.527,
    crowded=183,
    sharpness=1.64,
    whole=0.775,
)
"""Rates of kernels with threads that mostly load their operands directly, once: fitted to the packaged templates of 1-D
and depthwise convolutions, pooling and transposed convolutions."""


@dataclass(frozen=True)
class Machine:
    """One device, as the model sees it."""

    hardware: Hardware
    multiprocessors: int
    rates: Rates = field(default_factory=Rates)
    weights: Weights = field(default_factory=Weights)

    @staticmethod
    def of(target: Target, board: str = "") -> Machine:
        """The machine of a target: of the named board, else of the last known one of its architecture.

        If that board was calibrated on this computer, its rates are the measured ones.
        """
        found = BOARDS.get(board) or board_of(target.hardware.name) or BOARDS[_USUAL_BOARD]
        rates = Rates()
        usual = BOARDS[_USUAL_BOARD]
        # Rates that are not measured scale with the data sheets.
        clock = rates.clock * found.megahertz / usual.megahertz
        per_cycle = found.gigabytes / found.multiprocessors / found.megahertz
        usual_per_cycle = usual.gigabytes / usual.multiprocessors / usual.megahertz
        scaled = replace(rates, clock=clock, memory_bytes=rates.memory_bytes * per_cycle / usual_per_cycle)
        return Machine(target.hardware, found.multiprocessors, calibrated(board, scaled))

    @property
    def schedulers(self) -> float:
        """Instructions of warps that a multiprocessor issues per cycle."""
        return max(1.0, self.hardware.multiprocessor.float_lanes / self.hardware.warp)


def calibrated(device: str, otherwise: Rates) -> Rates:
    """Return the rates of a device measured on this computer, else the given ones."""
    known = _read().get(device)
    try:
        return otherwise if known is None else Rates(**{name: float(value) for name, value in known.items()})
    except (TypeError, ValueError, AttributeError):  # of another version, or damaged
        return otherwise


def keep(device: str, rates: Rates) -> Path | None:
    """Keep the rates of a device beside the kernels on disk; returns the file, or None if nothing is kept."""
    folder = cache_folder()
    if folder is None:
        return None
    path = Path(folder, _FILE)
    draft = path.with_name(f".{_FILE}.{os.getpid()}")
    try:
        private_folder(folder)
        draft.write_text(json.dumps({**_read(), device: asdict(rates)}, indent=2))
        draft.replace(path)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}",
            primitive="calibrate",
            fix=f"set {DIRECTORY_VARIABLE} to a folder that can be written",
        ) from error
    return path


def _read() -> dict[str, Any]:
    folder = cache_folder()
    try:
        found = json.loads(Path(folder, _FILE).read_text()) if folder is not None else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
