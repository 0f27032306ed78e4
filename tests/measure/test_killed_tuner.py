"""A tuner that is killed again and again: its log stays readable, and what the log holds is not measured again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest

from tests.measure.test_processes import MARK, assert_nothing_is_left
from tests.paths import python_path
from tilewright import autotvm
from tilewright.tune.records.log import SkippedLine

KILLS = int(os.environ.get("TILEWRIGHT_TEST_KILLS", "4"))

SCRIPT = """
import sys
from tilewright import autotvm, te

@autotvm.template("killed/matmul")
def matmul(n):
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    cfg = autotvm.get_config()
    y, x = s[C].op.axis
    cfg.define_split("y", y, num_outputs=3)
    cfg.define_split("x", x, num_outputs=3)
    y = cfg["y"].apply(s, C, y)
    x = cfg["x"].apply(s, C, x)
    s[C].reorder(y[0], x[0], y[1], x[1], s[C].op.reduce_axis[0], y[2], x[2])
    return s, [A, B, C]

log, trials = sys.argv[1], int(sys.argv[2])
task = autotvm.task.create("killed/matmul", args=(16,), target="llvm")
option = autotvm.measure_option(
    builder=autotvm.LocalBuilder(n_parallel=2),
    runner=autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0),
)
print("tuning", flush=True)
autotvm.tuner.RandomTuner(task).tune(
    n_trial=trials, measure_option=option, callbacks=[autotvm.callback.log_to_file(log)]
)
"""


@pytest.mark.slow
def test_killing_the_tuner_loses_no_record_and_repeats_none(tmp_path: Path) -> None:
    rng = random.Random(29)
    script, log = tmp_path / "tune.py", tmp_path / "tune.log"
    script.write_text(SCRIPT)
    known: list[str] = []
    for number in range(KILLS + 1):
        last = number == KILLS
        env = {**os.environ, MARK: uuid.uuid4().hex, "PYTHONPATH": python_path(), "TMPDIR": str(tmp_path)}
        command = [sys.executable, str(script), str(log), str(len(known) + 20) if last else "10000"]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            process.stdout.readline()
            if not last:
                time.sleep(rng.uniform(0.2, 3.0))
                process.kill()
            assert process.wait(timeout=900) == (0 if last else -9)
        assert_nothing_is_left(env[MARK], tmp_path)
        known = check_log(log, known, number)
    print(len(known), "records")
    assert len(known) >= 20


def check_log(path: Path, before: list[str], kills: int) -> list[str]:
    """The records of a log: all that it held before, each configuration once, and at most one torn line a kill."""
    if not path.exists():
        return []
    problems: list[SkippedLine] = []
    measured = sum(1 for _ in autotvm.record.load_from_file(path, problems))
    assert len(problems) <= kills + 1
    records = [line for line in path.read_text().splitlines() if readable(line)]
    assert len(records) == measured
    assert records[: len(before)] == before
    entries = [json.loads(line) for line in records]
    counts = Counter(entry["config"]["index"] for entry in entries if not entry.get("confirmed"))
    assert set(counts.values()) <= {1}
    return records


def readable(line: str) -> bool:
    """Whether a line is whole."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
