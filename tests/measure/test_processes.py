"""Sessions seen from outside: scripts that measure, are interrupted, or are killed, and what they leave behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.interrupts import heed_ctrl_c
from tests.paths import python_path

MARK = "TILEWRIGHT_TEST_MARK"

# A script as users write them: a template in `__main__`, closures, no guard around what it does.
SCRIPT = """
import sys, time
from tilewright import te
from tilewright.codegen.abi import ArrayArgument, CompiledProgram, EntryPoint
from tilewright.core.target import Target
from tilewright.measure.option import LocalBuilder, LocalRunner
from tilewright.measure.session import Job, MeasureSession

print("the script runs", flush=True)

def template(factor, seconds):
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="B")
    if seconds:
        time.sleep(seconds)
    return factor, [a, b]

def compile(factor, tensors, target):
    wait = "while factor < 0: time.sleep(1)"
    lines = ["import time", f"factor = {factor}", wait, "B.copyfrom(A.numpy() * 2.0)"]
    source = "\\n    ".join(["def main(A, B):", *lines])
    arguments = tuple(ArrayArgument(name, "float32", (64,)) for name in "AB")
    return CompiledProgram("llvm", (EntryPoint("main", arguments, source, "main"),), (), "")

session = MeasureSession(
    "llvm", LocalBuilder(timeout=600, n_parallel=2, build_func=compile), LocalRunner(timeout=600, cooldown_interval=0)
)
jobs = [Job(lambda f=f, s=s: template(f, s), f, Target("llvm")) for f, s in WORK]
for job, outcome in session.measure(jobs):
    print(job.key, type(outcome).__name__, flush=True)
print("the script ends", flush=True)
"""


@contextmanager
def script(tmp_path: Path, work: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The script, running in a process group of its own, and the mark that all its descendants carry."""
    mark = uuid.uuid4().hex
    path = tmp_path / "tune.py"
    path.write_text(SCRIPT.replace("WORK", work))
    env = {**os.environ, MARK: mark, "PYTHONPATH": python_path(), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, str(path)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=heed_ctrl_c,
    )
    try:
        yield process, mark
    finally:
        process.kill()
        process.communicate()


def living(mark: str) -> list[str]:
    """The processes that carry a mark."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                found += [] if state == "Z" else [(entry / "cmdline").read_text().replace("\0", " ")]
        except OSError:
            continue
    return found


def assert_nothing_is_left(mark: str, tmp_path: Path) -> None:
    """Neither processes nor files, soon."""
    end = time.monotonic() + 120
    while (left := living(mark) or [*tmp_path.glob("tilewright-*")]) and time.monotonic() < end:
        time.sleep(0.02)
    assert not left


def test_templates_of_a_script_without_a_guard_are_built(tmp_path: Path) -> None:
    with script(tmp_path, "[(1, 0), (2, 0), (3, 0)]") as (process, mark):
        out, err = process.communicate(timeout=600)
        assert not err
        assert sorted(out.splitlines()) == sorted(
            ["the script runs", "1 Measured", "2 Measured", "3 Measured", "the script ends"]
        )
        assert_nothing_is_left(mark, tmp_path)


@pytest.mark.parametrize(
    ("work", "seconds"),
    [("[(-1, 0)]", 1.5), ("[(2, 60)] * 8", 1.0)],
    ids=["while it runs one", "while it builds"],
)
def test_ctrl_c_ends_everything(work: str, seconds: float, tmp_path: Path) -> None:
    with script(tmp_path, work) as (process, mark):
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the group gets it
        out, err = process.communicate(timeout=600)
        assert "the script ends" not in out
        assert err.count("Traceback") == 1, err
        assert err.rstrip().endswith("KeyboardInterrupt")
        assert_nothing_is_left(mark, tmp_path)


def kill_at_random_moments(tmp_path: Path, times: int) -> None:
    """SIGKILL to the script, sooner or later after it began."""
    rng = random.Random(17)
    for _ in range(times):
        with script(tmp_path, "[(i, 0.01) for i in range(400)] + [(-1, 0)]") as (process, mark):
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0, 1.5))
            process.kill()
            process.wait()
            assert_nothing_is_left(mark, tmp_path)


def test_kill_9_leaves_nothing_behind(tmp_path: Path) -> None:
    kill_at_random_moments(tmp_path, int(os.environ.get("TILEWRIGHT_TEST_KILLS", "4")))


def test_what_nobody_had_time_to_remove_goes_with_the_guard(tmp_path: Path) -> None:
    """As where the server is ended before it comes to that, on a busy machine."""
    with script(tmp_path, "[(-1, 0)]") as (process, mark):
        assert process.stdout is not None
        process.stdout.readline()
        while not (folders := [*tmp_path.glob("tilewright-*")]):
            time.sleep(0.01)
        (folders[0] / "below").mkdir()
        (folders[0] / "below" / "file").touch()
        for pid in servers(mark):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()
        assert_nothing_is_left(mark, tmp_path)


def servers(mark: str) -> list[int]:
    """The measurement servers that carry a mark."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            marked = entry.name.isdigit() and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes()
            if marked and b"tilewright.measure" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found
