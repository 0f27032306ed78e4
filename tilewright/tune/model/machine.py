"""The machine of all cost models: a description of a device.

`Machine.of` reads the data of the board (`core/boards.py`) and of the architecture. `Rates` holds quantities that no
data sheet states. Its defaults are for an H200; `tilewright doctor --calibrate` measures them on the present device.
Quantities per kind of kernel come from `fitted.json`, scaled to the machine.
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
"""The board of the default rates. Architectures without a known board are assumed to have it, too."""
CALIBRATION = "calibration.json"
"""The file with the measured rates of GPUs."""
_MULTIPROCESSORS = "multiprocessors"
"""The key of the number of multiprocessors in that file, the only source for a board without a data sheet."""


@dataclass(frozen=True)
class Rates:
    """The measured rates of a board, which its data sheet (`core/boards.py`) does not state.

    Cycles and bytes per cycle are per multiprocessor.
    """

    launch_seconds: float = 0.73e-6
    """Seconds of an empty kernel inside a graph."""
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
    """A device in the view of cost models. `changed` replaces rows of fitted quantities, during a fit."""

    hardware: Hardware
    multiprocessors: int
    rates: Rates = field(default_factory=Rates)
    changed: tuple[tuple[str, Quantities], ...] = ()

    def __hash__(self) -> int:
        return hash((self.hardware.name, self.multiprocessors, self.rates.clock_hertz))  # fast: machines are cache keys

    @staticmethod
    def of(target: Target, board: str = "") -> Machine:
        """Return the machine of a target: with the named board, else with the last known board of its architecture.

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
        """Return the target with the present board as its model, unless that is its architecture's default board."""
        if target.kind != "cuda" or Machine.of(target, board) == Machine.of(target):
            return target
        return target.with_model(board)

    @staticmethod
    def for_models(target: Target) -> Machine:
        """Return the machine for which templates rank configurations; without CUDA, `REFERENCE`."""
        return Machine.of(target) if target.kind == "cuda" else REFERENCE

    def with_row(self, row: str, quantities: Quantities) -> Machine:
        """Return a copy with other fitted quantities in a row."""
        return replace(self, changed=((row, quantities), *((name, q) for name, q in self.changed if name != row)))

    @property
    def resident_threads(self) -> int:
        """The most concurrent threads of all multiprocessors."""
        return self.multiprocessors * self.hardware.multiprocessor.warps * self.hardware.warp

    @property
    def schedulers(self) -> float:
        """The number of warp instructions that a multiprocessor issues per cycle."""
        return max(1.0, self.hardware.multiprocessor.float_lanes / self.hardware.warp)

    @property
    def scales(self) -> dict[str, float]:
        """The device's rates that fitted quantities scale with, by their names in `fitted.json`."""
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
"""The machine of the fits, which search spaces and targets without CUDA assume."""


def calibrated(device: str, otherwise: Rates) -> Rates:
    """Return the rates of a device measured on this computer, else the given ones."""
    known = _kept(device)
    try:
        return Rates(**{item.name: known[item.name] for item in fields(otherwise)})
    except KeyError:  # the file is of another version, or damaged
        return otherwise


def _kept(device: str) -> dict[str, float]:
    """Return the measured numbers of a device; an empty mapping if there are none, or the file is damaged."""
    path = calibration.path_of(CALIBRATION)
    try:
        return _read(device, path, path.stat().st_mtime_ns if path is not None else 0)
    except OSError:  # nothing was measured
        return {}


@lru_cache(maxsize=64)
def _read(device: str, path: Path | None, changed: int) -> dict[str, float]:
    """Read the numbers of a device, cached: choosing a kernel reads them hundreds of times."""
    try:
        return {name: float(value) for name, value in calibration.read(CALIBRATION).get(device, {}).items()}
    except (TypeError, ValueError, AttributeError):
        return {}


def keep(device: str, rates: Rates, multiprocessors: int) -> Path | None:
    """Store the measured rates of a device; return the file, or None if the cache is off."""
    return calibration.keep(CALIBRATION, {device: {_MULTIPROCESSORS: multiprocessors, **asdict(rates)}})
