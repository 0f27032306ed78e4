"""Ctrl-C of a tuner on a fleet leaves all whole: the log, no process of the tuner's, and workers for the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.fleet.cluster import environment
from tests.fleet.test_kills import SCRIPT, Part, free_port, records, tail
from tests.interrupts import heed_ctrl_c
from tilewright import autotvm
from tilewright.tune.records.log import SkippedLine

pytest.importorskip("distributed")
PATIENCE = 300.0
"""Seconds that a step may take on a busy host."""


def wait_until(reached, folder: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < end, tail(folder)
        time.sleep(0.1)


def is_gone(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("when", [0, 5])
def test_an_interrupted_tuner_leaves_all_whole(when: int, tmp_path: Path) -> None:
    port, log, tally, script = free_port(), tmp_path / "tune.log", tmp_path / "tally", tmp_path / "tune.py"
    tally.touch()
    script.write_text(SCRIPT)
    scheduler = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    serve = ["-P", "-m", "tilewright.fleet.serve", f"tcp://127.0.0.1:{port}", "--target", "llvm"]
    parts = [
        Part(["-m", "distributed.cli.dask_scheduler", *scheduler], tmp_path),
        *(Part([*serve, "--name", f"w{number}"], tmp_path) for number in range(2)),
    ]

    def tuner(trials: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(script), str(port), str(log), str(tally), str(trials)]
        env = {**os.environ, **environment(tmp_path)}
        # A group of its own, all of which a terminal's Ctrl-C reaches.
        said = parts[0].said
        return subprocess.Popen(command, env=env, stdout=said, stderr=said, process_group=0, preexec_fn=heed_ctrl_c)

    try:
        first = tuner(1500)
        # 0: as soon as a candidate runs, perhaps before it is recorded.
        wait_until(lambda: tally.stat().st_size > 0 and records(log) >= when, tmp_path)
        os.killpg(first.pid, signal.SIGINT)
        wait_until(lambda: first.poll() is not None, tmp_path)
        assert first.returncode == 0, tail(tmp_path)  # as the script would end after its last trial
        wait_until(lambda: is_gone(first.pid), tmp_path)
        assert all(part.process.poll() is None for part in parts)

        second = tuner(records(log) + 10)
        wait_until(lambda: second.poll() is not None, tmp_path)
        assert second.returncode == 0, tail(tmp_path)
    finally:
        for part in parts:
            part.kill()
    problems: list[SkippedLine] = []
    pairs = list(autotvm.record.load_from_file(log, problems))
    assert not problems
    assert all(result.error_no == 0 for _, result in pairs)
    recorded = Counter(inp.config.index for inp, _ in pairs)
    ran = Counter(int(line) for line in tally.read_text().split())
    assert max(recorded.values()) == 1
    assert max(ran.values()) == 1
    assert ran.keys() <= recorded.keys()
