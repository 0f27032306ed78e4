"""What a candidate does to the process that builds or runs it reaches no other candidate."""

from __future__ import annotations

import builtins
import gc
import logging
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.measure.programs import Candidate, compile_candidate
from tests.measure.test_parts import collected, run
from tests.measure.test_session import QUICK, good
from tests.tune import fakes
from tilewright.codegen.abi import CompiledProgram
from tilewright.core.target import Target
from tilewright.measure import pool, process_state
from tilewright.measure.channel import LATE, Channel, Garbled, wait
from tilewright.measure.children import fork
from tilewright.measure.option import LocalBuilder, LocalRunner
from tilewright.measure.outcome import Measured, RunFailed, shorten
from tilewright.measure.pool import Died, WorkerPool
from tilewright.measure.session import MeasureSession
from tilewright.passes.context import PassContext
from tilewright.tune.session.prefilter import Prefilter


def our_end() -> int:
    """The descriptor of the channel of the worker that this runs in: the last socket that it opened."""
    sockets = [n for n in map(int, os.listdir("/proc/self/fd")) if "socket" in _link(n)]
    return max(sockets)


def _link(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


class Unwelcome:
    """Pickles, and cannot be unpickled."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


FAULTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: os.write(our_end(), b"\xff" * 100), "sent data that are not a message"),
    (lambda: os.write(our_end(), os.urandom(1 << 16)), "sent data that are not a message"),
    (lambda: Unwelcome(), "sent data that cannot be read: ValueError"),
]


@pytest.mark.parametrize(("fault", "how"), FAULTS)
def test_rubbish_in_the_channel_costs_the_work_that_made_it(fault: Callable[[], Any], how: str) -> None:
    found = run(lambda number: fault() if number == 2 else number, list(range(6)), size=1)
    assert [found[n] for n in (0, 1, 3, 4, 5)] == [0, 1, 3, 4, 5]
    assert isinstance(found[2], Died)
    assert how in found[2].how


def test_a_flood_of_rubbish_does_not_hold_up_the_parent() -> None:
    def flood(channel: Channel) -> None:
        while True:
            channel.socket.sendall(b"x" * (1 << 20))

    child = fork(flood)
    wait([child.channel.fileno()], None)
    (message,) = child.channel.arrived()
    assert isinstance(message, Garbled)
    assert message.final
    assert child.channel.closed
    child.bury()


def test_work_that_forks_gives_its_own_result() -> None:
    """Both processes go on; only one of them is the worker."""

    def work(number: int) -> tuple[int, int]:
        if number % 2:
            os.fork()
        return number, os.getpid()

    found = run(work, list(range(12)), size=2)
    assert [found[n][0] for n in range(12)] == list(range(12))


def test_an_answer_for_other_work_is_none() -> None:
    def answer_wrongly(channel: Channel, work: Any, nice: int) -> None:
        channel.send(pool.Answer(channel.receive()[0] + 1, "wrong", last=False))
        channel.receive()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "_serve", answer_wrongly)
        found = run(lambda number: number, [1, 2])
    assert all(isinstance(one, Died) and one.how == "answered for another candidate" for one in found.values())


def _changes() -> dict[str, Callable[[], Any]]:
    return {
        "alarm": lambda: signal.alarm(1000),
        "timer": lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 1000),
        "handler": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
        "folder": lambda: os.chdir("/"),
        "environment": lambda: os.environ.update(TILEWRIGHT_TEST="1"),
        "limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50)),
        "mask": lambda: os.umask(0o777),
        "recursion": lambda: sys.setrecursionlimit(200),
        "variable of C": lambda: os.putenv("TILEWRIGHT_TEST", "1"),
        "priority": lambda: os.nice(1),
        "streams": lambda: os.dup2(os.open(os.devnull, os.O_RDONLY), 2),
        "path": lambda: sys.path.insert(0, "/nowhere"),
        "collector": gc.disable,
        "warnings": lambda: warnings.simplefilter("error"),
        "logging": lambda: logging.disable(logging.CRITICAL),
        "function of a module": lambda: setattr(np, "array", None),
        "builtin function": lambda: setattr(builtins, "round", None),
        "files": lambda: setattr(gc, "left_open_by_a_test", [open(os.devnull) for _ in range(20)]),
        "memory": lambda: setattr(gc, "leaked_by_a_test", np.ones(process_state.LARGEST_GROWTH + (32 << 20), np.uint8)),
    }


@pytest.mark.parametrize("name", _changes())
def test_what_work_changes_in_its_process_ends_with_it(name: str) -> None:
    def work(number: int) -> int:
        if number == 1:
            _changes()[name]()
        return os.getpid()

    found = run(work, list(range(4)), size=1)
    assert found[0] == found[1] != found[2] == found[3]


def test_what_work_changes_in_its_context_ends_with_it() -> None:
    """What is entered and never left, and how NumPy treats what overflows; the worker stays."""

    def work(number: int) -> tuple[Any, ...]:
        found = (Target.current(), PassContext.current().config, np.geterr()["over"], os.getpid())
        Target("cuda").__enter__()
        PassContext(config={"tir.disable_vectorize": True}).__enter__()
        np.seterr(over="raise")
        return found

    found = run(work, list(range(3)), size=1)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (KeyboardInterrupt("now"), "raised KeyboardInterrupt: now"),
        (GeneratorExit(), "raised GeneratorExit"),
        (type("Mute", (BaseException,), {"__str__": lambda self: 1 / 0})(), "raised Mute"),
    ],
)
def test_whatever_work_raises_is_its_outcome(error: BaseException, how: str, capfd: pytest.CaptureFixture[str]) -> None:
    def work(number: int) -> int:
        if number == 1:
            raise error
        return number

    found = run(work, list(range(3)), size=1)
    assert (found[0], found[2]) == (0, 2)
    assert isinstance(found[1], Died)
    assert found[1].how == how
    assert capfd.readouterr().err == ""


def test_good_work_keeps_its_worker() -> None:
    found = run(lambda number: os.getpid(), list(range(20)), size=1)
    assert len(set(found.values())) == 1


@pytest.mark.parametrize("how", ["answers", "hangs", "crashes", "is closed"])
def test_what_work_starts_ends_with_it(how: str, tmp_path: Path) -> None:
    mark = tmp_path / "child"

    def work(number: int) -> None:
        child = subprocess.Popen(["sleep", "600"], start_new_session=how != "crashes")
        mark.write_text(str(child.pid))
        if how == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if how != "answers":
            time.sleep(600)

    if how == "is closed":
        workers = WorkerPool(work, 1, 600)
        workers.submit([1])
        workers.start()
        await_text(mark)
        workers.close()
    else:
        seconds = 1.0 if how == "hangs" else 600.0
        while not mark.exists() or not mark.read_text():  # where its time was over before it came so far
            run(work, [1], timeout=seconds)
            seconds *= 2
    end = time.monotonic() + 60
    while Path(f"/proc/{mark.read_text()}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not Path(f"/proc/{mark.read_text()}").exists()


def await_text(path: Path) -> None:
    """Wait until another process has written something to a file."""
    while not (path.exists() and path.read_text()):
        time.sleep(0.01)


def test_a_deadline_that_nobody_watched_is_given_once_more(tmp_path: Path) -> None:
    """As after Ctrl-Z, which stops the one who watches and, where they were in its group, those who work."""
    done = tmp_path / "done"

    def unwatched(workers: WorkerPool) -> list[Any]:
        """Let its time be over for longer than anybody watching would have taken to notice."""
        (doing,) = workers._busy.values()
        doing.deadline = time.monotonic() - LATE - 1
        return workers.advance()

    workers = WorkerPool(lambda number: await_text(done), 1, 600.0)
    workers.submit([1])
    workers.start()
    assert unwatched(workers) == []
    done.write_text("yes")
    assert collected(workers) == [(1, None)]
    done.unlink()
    workers.submit([2])
    workers.start()
    assert unwatched(workers) == []
    ((_, result),) = unwatched(workers)
    workers.close()
    assert isinstance(result, Died)
    assert result.overdue


def test_inspections_that_somebody_else_ends_are_made_again(tmp_path: Path) -> None:
    task = fakes.add_task()
    mark = tmp_path / "tried"

    class Killed(Prefilter):
        def _inspect(self, index: int) -> Any:
            if index == 3 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if index == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            return super()._inspect(index)

    with Killed(task, Target("opencl"), "knob", 2) as prefilter:
        found = prefilter.inspect([2, 3, 5])
    assert found[2].refusal is None
    assert found[3].refusal is None
    assert found[5].refusal is not None
    assert "was killed by SIGKILL" in found[5].refusal.reason


def test_reasons_are_short_and_are_text() -> None:
    failed = RunFailed(reason="\udce9\udc80" * 30_000_000, step="x" * 10_000)
    assert len(failed.reason) < 20_000
    assert len(failed.step) < 2100
    assert failed.reason.encode()
    assert shorten("short") == "short"


def test_a_program_that_nobody_else_understands_costs_its_candidate() -> None:
    """A class of the script's own; the processes that run candidates know nothing of the script."""

    class Mine(CompiledProgram):
        pass

    Mine.__module__, Mine.__qualname__ = __name__, "Mine"
    globals()["Mine"] = Mine

    def compile_oddly(handle: Any, tensors: list[Any], target: Target) -> Any:
        program = compile_candidate(handle, tensors, target)
        if handle.number == 1:
            return Mine(**vars(program))
        return "no program" if handle.number == 2 else program

    with MeasureSession("llvm", LocalBuilder(timeout=600, build_func=compile_oddly), QUICK) as session:
        found = {job.key.number: outcome for job, outcome in session.measure(good(4))}
    assert found[0].ok
    assert found[3].ok
    assert not found[1].ok or "tests" in sys.modules
    assert "build_func gives str, not a CompiledProgram" in found[2].reason  # type: ignore[attr-defined]


@pytest.mark.parametrize("seconds", [3e6, 1e12, float("inf")])
def test_time_limits_of_any_length(seconds: float) -> None:
    builder = LocalBuilder(build_func=compile_candidate, timeout=seconds)
    with MeasureSession("llvm", builder, LocalRunner(timeout=seconds, repeat=1, cooldown_interval=0)) as session:
        ((_, outcome),) = session.measure([Candidate("").job("llvm")])
    assert isinstance(outcome, Measured), outcome


def test_where_descriptors_are_scarce_fewer_workers_are_busy() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 34, hard))
    workers = WorkerPool(lambda number: number, 64, 60.0)
    try:
        workers.submit(range(100))
        found: list[int] = []
        while len(found) < 100:
            found += [result for _, result in workers.advance()]
        assert sorted(found) == list(range(100))
    finally:
        workers.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
