"""No clock decides: `UNDECIDED=ours python -m pytest -p tests.undecided ...`, or `theirs`, or a number, the seed.

Every comparison says that our kernel is faster, or that the other one is, or whichever the seed says, or that both are
close. Estimates for CPUs leave each layer open, or say by the seed what another processor may say. Each measured
candidate of a search is faster than all before, or slower, or either. A test that fails judges a time, or a processor.
Processes that tests start do the same.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

MODE = os.environ.setdefault("UNDECIDED", "1")
SEEDED = MODE not in ("ours", "theirs")
ROOT = Path(__file__).parents[1]
OF_ESTIMATES = ("test_rivals.py", "test_cpu_rates.py")
"""Files whose tests are of the estimates themselves."""
_rng = random.Random(MODE)
_measured = 0


def _drawn(choices: list[Any], *key: object) -> Any:
    """A choice, always the same for equal keys, in each process."""
    return choices[zlib.crc32(repr((MODE, *key)).encode()) % len(choices)]


def _seconds(side: int, winner: float) -> float:
    return 1e-4 * (1.0, winner)[side]


def _decide_timing(module: Any) -> None:
    """`winner` is the number of times as fast as the other side that ours is."""
    made = module.Turns.__init__

    def init(self: Any, *args: Any, **named: Any) -> None:
        made(self, *args, **named)
        self.winner = _rng.choice([0.5, 1.0, 2.0]) if SEEDED else {"ours": 2.0, "theirs": 0.5}[MODE]

    def run(self: Any, rounds: int) -> None:
        for _ in range(rounds):
            for side, ((_measure, enter), into) in enumerate(zip(self._measured, self.times, strict=True)):
                with enter():
                    close = _rng.uniform(0.99, 1.01) if self.winner == 1 else 1.0
                    into.append(_seconds(side, self.winner) * close)

    def repeated(work: Callable[[], Any], *_: Any) -> Callable[[], float]:
        work()
        return lambda: 0.0

    module.Turns.__init__, module.Turns.run, module._repeated = init, run, repeated


def _decide_graphs(module: Any) -> None:
    def seconds(run: Callable[..., Any], given: list[Any]) -> float:
        run(*given)
        return _rng.choice([1e-3, 1.0]) if SEEDED else 1e-3

    module._seconds = seconds


def _decide_estimates(module: Any) -> None:
    undecided, reason = module.is_undecided, module.reason_for_rival

    def is_own(on: Any) -> bool:
        return on.kind != "cpu" or any(name in os.environ.get("PYTEST_CURRENT_TEST", "") for name in OF_ESTIMATES)

    def is_undecided(problem: Any, on: Any) -> bool:
        if is_own(on):
            return bool(undecided(problem, on))
        rates, instructions = module.cpu_rates, module.instruction_set()
        small = rates.work(problem, module.Side.OURS)[1] <= module._MOST_TIMED_BYTES
        short = rates.expected_seconds(problem, instructions) <= module.MOST_TIMED_SECONDS
        return small and short and (not SEEDED or _drawn([True, False, False], "undecided", problem))

    def reason_for_rival(problem: Any, on: Any) -> str:
        if is_own(on):
            return str(reason(problem, on))
        return str(_drawn(["", "expected to be 2.00 times as fast as ours"], "reason", problem))

    def saved_by(ours: Any, every: Any) -> tuple[float, float]:
        ours = list(ours)
        return _drawn([(1.0, 2.0), (0.0, 2.0), (1e-4, 1e-3), (0.0, 1e-3)], ours) if SEEDED else (1e-4, 1e-3)

    module.is_undecided, module.reason_for_rival, module.saved_by = is_undecided, reason_for_rival, saved_by


def _decide_candidates(module: Any) -> None:
    measure = module.measure

    def made_up(*args: Any) -> Any:
        global _measured
        count, _measured = len(measure(*args).results), _measured + 1
        if SEEDED:
            return module.BenchmarkResult(tuple(1e-4 * _rng.lognormvariate(0, 1) for _ in range(count)))
        return module.BenchmarkResult((1e-4 * 1.01 ** (-_measured if MODE == "ours" else _measured),) * count)

    module.measure = made_up


DECIDED = {
    "functional": {"timing": _decide_timing, "rivals": _decide_estimates},
    "nn": {"graph_choice": _decide_graphs},
    "runtime": {"timing": _decide_candidates},
}


def _decision(module: str) -> Callable[[Any], None] | None:
    parts = module.split(".")
    return DECIDED.get(parts[1], {}).get(parts[-1]) if parts[0] == "tilewright" and len(parts) > 2 else None


class Finder:
    """Changes the modules that decide, as soon as they are imported."""

    @staticmethod
    def find_spec(name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        decide = _decision(name)
        if decide is None or (spec := PathFinder.find_spec(name, path, target)) is None:
            return None
        execute = spec.loader.exec_module  # type: ignore[union-attr]

        def decided(module: Any) -> None:
            execute(module)
            decide(module)

        spec.loader.exec_module = decided  # type: ignore[union-attr,method-assign]
        return spec


def install() -> None:
    """Change the modules of this process, and those that it imports later."""
    for name, module in list(sys.modules.items()):
        if decide := _decision(name):
            decide(module)
    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]


def pytest_collection_finish() -> None:
    """Change this process after test modules have imported the functions that they test, and new ones at the start."""
    install()
    folder = tempfile.mkdtemp(prefix="undecided-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Path(folder, "sitecustomize.py").write_text(
        f"import sys\nsys.path.append({str(ROOT)!r})\nfrom tests.undecided import install\ninstall()\n"
    )
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])


def pytest_report_header() -> str:
    return f"undecided: {MODE}"
