"""Workers, scheduler and tuner of a fleet are killed at random: no record is lost, nothing is measured twice."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.fleet.cluster import environment
from tilewright import autotvm
from tilewright.tune.records.log import SkippedLine

pytest.importorskip("distributed")
KILLS = int(os.environ.get("TILEWRIGHT_TEST_KILLS", "30"))
ENDLESS = 1500
"""Trials of a tuner that is going to be killed."""
AFTERWARDS = 20
LATEST = 40.0
"""Seconds after a kill until the next one; sooner, where some candidates were measured since."""

SCRIPT = """
import sys
from tilewright import autotvm, te
from tilewright.codegen.abi import ArrayArgument, CompiledProgram, EntryPoint

port, log, tally, trials = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])


@autotvm.template("kills/add")
def add(n):
    A = te.placeholder((n,), name="A")
    cfg = autotvm.get_config()
    cfg.define_knob("number", list(range(2000)))
    B = te.compute((n,), lambda i: A[i] * 2.0 + 1.0, name=f"B{cfg['number'].val}")
    return te.create_schedule(B.op), [A, B]


def build(handle, tensors, target):
    # Each time that a process loads the program, it notes the number once.
    note = f"os.write(os.open({tally!r}, os.O_WRONLY | os.O_APPEND), b'{tensors[1].op.name[1:]}\\\\n')"
    lines = ["import os, time", f"globals().get('noted') or {note}", "globals()['noted'] = True", "time.sleep(0.01)",
             "B.copyfrom(A.numpy() * 2.0 + 1.0)"]
    source = "def main(A, B):\\n" + "".join(f"    {line}\\n" for line in lines)
    arguments = tuple(ArrayArgument(name, "float32", (64,)) for name in "AB")
    return CompiledProgram("llvm", (EntryPoint("main", arguments, source, "main"),), (), "")


task = autotvm.task.create("kills/add", args=(64,), target="llvm")
option = autotvm.measure_option(
    builder=autotvm.LocalBuilder(n_parallel=2, build_func=build),
    runner=autotvm.RPCRunner("", "127.0.0.1", port, number=1, repeat=1, cooldown_interval=0),
)
autotvm.tuner.RandomTuner(task, seed=1).tune(
    n_trial=trials, measure_option=option, callbacks=[autotvm.callback.log_to_file(log)], confirm=0
)
"""


class Part:
    """A process that is started again when it has been killed."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.command = [sys.executable, *command]
        self.folder = folder
        self.said = (folder / "said").open("ab")
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        env = {**os.environ, **environment(self.folder)}
        return subprocess.Popen(self.command, env=env, stdout=self.said, stderr=self.said)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def keep(self) -> None:
        if self.process.poll() is not None:
            self.process = self._start()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.mark.slow
def test_thirty_random_kills(tmp_path: Path) -> None:
    rng = random.Random(7)
    port, log, tally, script = free_port(), tmp_path / "tune.log", tmp_path / "tally", tmp_path / "tune.py"
    tally.touch()
    script.write_text(SCRIPT)
    address = f"tcp://127.0.0.1:{port}"
    serve = ["-P", "-m", "tilewright.fleet.serve", address, "--target", "llvm"]
    parts = {
        "scheduler": Part(
            ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"],
            tmp_path,
        ),
        **{f"worker {i}": Part([*serve, "--name", f"w{i}"], tmp_path) for i in range(3)},
    }
    tuner = Part([str(script), str(port), str(log), str(tally), str(ENDLESS)], tmp_path)
    kills: Counter[str] = Counter()
    try:
        wanted, latest = 5, time.monotonic() + LATEST
        end = time.monotonic() + 300.0 + LATEST * KILLS
        while tuner.process.poll() != 0:
            assert time.monotonic() < end, f"{kills} killed, and it does not end: {tail(tmp_path)}"
            time.sleep(0.2)
            for part in parts.values():
                part.keep()
            if tuner.process.poll() not in (None, 0):
                assert tuner.process.returncode == -signal.SIGKILL, tail(tmp_path)
                tuner.keep()
            if kills.total() < KILLS and (records(log) >= wanted or time.monotonic() >= latest):
                time.sleep(rng.uniform(0.0, 1.0))
                kind = rng.choice(["scheduler", "worker", "worker", "tuner"])
                victim = tuner if kind == "tuner" else parts["scheduler"]
                if kind == "worker":
                    victim = parts[f"worker {rng.randrange(3)}"]
                victim.kill()
                kills[kind] += 1
                wanted, latest = records(log) + rng.randrange(10), time.monotonic() + LATEST
                if kills.total() == KILLS:  # the last one has an end
                    tuner.kill()
                    tuner.command[-1] = str(records(log) + AFTERWARDS)
    finally:
        for part in (tuner, *parts.values()):
            part.kill()
    check(log, tally, kills)


def records(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


def tail(folder: Path) -> str:
    return (folder / "said").read_text(errors="replace")[-2000:]


def check(log: Path, tally: Path, kills: Counter[str]) -> None:
    """Each configuration ran once at most, and each that ran has one record."""
    problems: list[SkippedLine] = []
    pairs = list(autotvm.record.load_from_file(log, problems))
    assert len(problems) <= kills["tuner"] + 1, problems
    recorded = Counter(inp.config.index for inp, _ in pairs)
    ran = Counter(int(line) for line in tally.read_text().split())
    failed = Counter(inp.notes.reason for inp, result in pairs if result.error_no)
    print(f"{dict(kills)} killed; {len(pairs)} records, {len(ran)} ran, failed: {dict(failed)}")
    assert max(ran.values()) == 1, [index for index, count in ran.items() if count > 1]
    assert max(recorded.values()) == 1, [index for index, count in recorded.items() if count > 1]
    assert ran.keys() <= recorded.keys(), ran.keys() - recorded.keys()
    assert kills.total() == KILLS
    assert len(pairs) >= AFTERWARDS
    assert sum(failed.values()) <= 4 * max(1, kills["worker"]), failed
