"""Processor time of tests: `python -m pytest -p tests.costs ...` ends with the dearest files and tests.

Wall times depend on the load of the machine; processor time hardly does. Child processes count.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

SHOWN = 40
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_began: dict[str, float] = {}
_costs: Counter[str] = Counter()


def _of_living(pid: int) -> float:
    """The seconds of processor that the children of a process have used, and the children of these."""
    total = 0.0
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, listed.read_text().split()):
            try:
                used = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:15]
                total += sum(map(int, used)) * _TICK_S + _of_living(child)
            except OSError:  # it has ended
                continue
    return total


def _used() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + _of_living(os.getpid())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid: str) -> None:
    _began[nodeid] = _used()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if report.when == "teardown" and item.nodeid in _began:
        report.user_properties.append(("processor_s", _used() - _began[item.nodeid]))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        _costs[report.nodeid] += sum(float(str(s)) for name, s in report.user_properties if name == "processor_s")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    files: Counter[str] = Counter()
    for nodeid, seconds in _costs.items():
        files[nodeid.partition("::")[0]] += seconds
    terminalreporter.section(f"{sum(_costs.values()):.1f} s of processor")
    for name, seconds in [*files.most_common(SHOWN), *_costs.most_common(SHOWN)]:
        terminalreporter.write_line(f"{seconds:8.2f} {name}")
