"""The machine that cost models predict for: one description of a device for all of them.

`Machine.of` takes numbers from the board (`core/boards.py`) and the architecture's row. `Rates` holds the numbers that
no data sheet states. Its defaults are for an H200; `tilewright doctor --calibrate` measures them on the present device.
The quantities per kind of kernel come from `fitted.json`, scaled to the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path

from ...core import calibration
from ...core.boards import BOARDS, board_of
from ...core.hardware import Hardware
from ...core.target import Target
from . import fitted
from .fitted import Quantities

REFERENCE_BOARD = "NVIDIA H200"
"""The board of the default rates, and the one assumed for architectures without a known board."""
CALIBRATION = "calibration.json"
"""The file with the measured rates of GPUs."""
_MULTIPROCESSORS = "multiprocessors"
"""The name of their number in that file: of a board without a data sheet, it is known only from there."""


@dataclass(frozen=True)
class Rates:
    """The measured rates of a board, which its data sheet (`core/boards.py`) does not state.

    Cycles and bytes per cycle are per multiprocessor.
    """

    launch_seconds: float = 0.73e-6
    """Seconds of an empty kernel among others in a graph."""
    l2_latency_cycles: float = 276.0
    """Cycles from a load to its value in the L2 cache."""
    shared_latency_cycles: float = 28.0
    barrier_cycles: float = 14.6
    """Cycles of a barrier of a block."""
    block_start_cycles: float = 150.0
    l1_bytes_per_cycle: float = 76.0
    l2_bytes_per_cycle: float = 28.3
    memory_bytes_per_cycle: float = 16.4
    l2_capacity_bytes: float = 47e6
    """Bytes that remain in the L2 cache from one run to the next."""
    clock_hertz: float = 1.89e9
    """Cycles per second under load."""


@dataclass(frozen=True)
class Machine:
    """One device, as cost models see it; `changed` replaces rows of fitted quantities, for a fit."""

    hardware: Hardware
    multiprocessors: int
    rates: Rates = field(default_factory=Rates)
    changed: tuple[tuple[str, Quantities], ...] = ()

    def __hash__(self) -> int:
        return hash((self.hardware.name, self.multiprocessors, self.rates.clock_hertz))  # quick: it is a key of caches

    @staticmethod
    def of(target: Target, board: str = "") -> Machine:
        """Return the machine of a target: of the named board, else of the last known one of its architecture.

        The target's own `-model` also names a board. If that board was calibrated on this computer, its rates are the
        measured ones.
        """
        board = board or dict(target.labels).get("model", "")
        found = _by_data_sheet(target, board)
        if not board:
            return found
        count = int(_kept(board).get(_MULTIPROCESSORS, found.multiprocessors))
        return replace(found, rates=calibrated(board, found.rates), multiprocessors=count)

    @staticmethod
    def present(target: Target, board: str) -> Target:
        """Return the target for the board that is here; models assume it unless its architecture's board does."""
        if target.kind != "cuda" or Machine.of(target, board) == Machine.of(target):
            return target
        return target.with_model(board)

    @staticmethod
    def for_models(target: Target) -> Machine:
        """Return the machine for which templates rank their configurations; it is the reference without CUDA."""
        return Machine.of(target) if target.kind == "cuda" else REFERENCE

    def with_row(self, row: str, quantities: Quantities) -> Machine:
        """Return the machine with other fitted quantities in a row."""
        return replace(self, changed=((row, quantities), *((name, q) for name, q in self.changed if name != row)))

    @property
    def resident_threads(self) -> int:
        """Threads of all multiprocessors that run at a time, at most."""
        return self.multiprocessors * self.hardware.multiprocessor.warps * self.hardware.warp

    @property
    def schedulers(self) -> float:
        """Instructions of warps that a multiprocessor issues per cycle."""
        return max(1.0, self.hardware.multiprocessor.float_lanes / self.hardware.warp)

    @property
    def scales(self) -> dict[str, float]:
        """The rates of the whole device that fitted quantities scale with, by the names in `fitted.json`."""
        rates, memory = self.rates, self.hardware.warp_memory
        return {
            "l2": rates.l2_bytes_per_cycle * self.multiprocessors,
            "memory": rates.memory_bytes_per_cycle * self.multiprocessors,
            "capacity": rates.l2_capacity_bytes,
            "launch": rates.launch_seconds * rates.clock_hertz,
            "latency": rates.l2_latency_cycles,
            "barrier": rates.barrier_cycles,
            "shared": memory.banks * memory.word,
        }

    @cached_property
    def fitted(self) -> Mapping[str, Quantities]:
        """The fitted quantities of each kind of kernel on this machine, by the rows of `fitted.json`."""
        reference = REFERENCE.scales
        factors = {name: rate / reference[name] for name, rate in self.scales.items()}
        return {row: fitted.scaled(row, factors) for row in fitted.rows()} | dict(self.changed)


@lru_cache(maxsize=64)
def _by_data_sheet(target: Target, board: str) -> Machine:
    """Return the machine of a board, with default rates scaled by data sheets."""
    rates, reference = Rates(), BOARDS[REFERENCE_BOARD]
    found = BOARDS.get(board) or board_of(target.hardware.name) or reference
    clock = rates.clock_hertz * found.megahertz / reference.megahertz
    per_cycle = found.gigabytes / found.multiprocessors / found.megahertz
    reference_per_cycle = reference.gigabytes / reference.multiprocessors / reference.megahertz
    memory = rates.memory_bytes_per_cycle * per_cycle / reference_per_cycle
    capacity = rates.l2_capacity_bytes * found.l2_megabytes / reference.l2_megabytes
    rates = replace(rates, clock_hertz=clock, memory_bytes_per_cycle=memory, l2_capacity_bytes=capacity)
    return Machine(target.hardware, found.multiprocessors, rates)


REFERENCE = Machine.of(Target("cuda -arch=sm_90"))
"""The machine on which quantities were fitted, and the one assumed by search spaces and for targets without CUDA."""


def calibrated(device: str, otherwise: Rates) -> Rates:
    """Return the rates of a device measured on this computer, else the given ones."""
    known = _kept(device)
    try:
        return Rates(**{item.name: known[item.name] for item in fields(otherwise)})
    except KeyError:  # of another version, or damaged
        return otherwise


def _kept(device: str) -> dict[str, float]:
    """Return the numbers that were measured of a device; an empty mapping if there are none, or they are damaged."""
    path = calibration.path_of(CALIBRATION)
    try:
        return _read(device, path, path.stat().st_mtime_ns if path is not None else 0)
    except OSError:  # nothing was measured
        return {}


@lru_cache(maxsize=64)
def _read(device: str, path: Path | None, changed: int) -> dict[str, float]:
    """Read the numbers of a device; choosing a kernel asks for them hundreds of times."""
    try:
        return {name: float(value) for name, value in calibration.read(CALIBRATION).get(device, {}).items()}
    except (TypeError, ValueError, AttributeError):
        return {}


def keep(device: str, rates: Rates, multiprocessors: int) -> Path | None:
    """Keep the measured rates of a device; returns the file, or None if the cache is off."""
    return calibration.keep(CALIBRATION, {device: {_MULTIPROCESSORS: multiprocessors, **asdict(rates)}})
