"""Sessions as their callers see them: overlap, order, references, servers that die, devices that are missing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import why_no_cuda
from tests.errors.refused import refused
from tests.measure.programs import SIZE, Candidate, compile_candidate
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.measure.channel import Channel
from tilewright.measure.client import Client
from tilewright.measure.option import LocalBuilder, LocalRunner, measure_option
from tilewright.measure.outcome import (
    BuildFailed,
    InstantiationError,
    Measured,
    MeasureErrorNo,
    Refused,
    RunFailed,
    TimedOut,
    WrongAnswer,
    to_result,
)
from tilewright.measure.protocol import DeviceLost, RunFinished, Submit
from tilewright.measure.session import Job, MeasureSession

QUICK = LocalRunner(timeout=600, number=1, repeat=2, cooldown_interval=0)


def session(runner: LocalRunner = QUICK, **builder: Any) -> MeasureSession:
    """A session in which host code plays the kernels."""
    return MeasureSession("llvm", LocalBuilder(**{"timeout": 600, "build_func": compile_candidate, **builder}), runner)


def good(count: int) -> list[Job]:
    """Jobs that work."""
    return [Candidate("", number).job("llvm") for number in range(count)]


def matmul(number: int = 0, at: str = "k") -> tuple[Any, list[Any]]:
    """A schedule of a small product of matrices; `at` names the axis bound to threads."""
    a, b = te.placeholder((16, 24), name="A"), te.placeholder((24, 8), name="B")
    k = te.reduce_axis((0, 24), name="k")
    c = te.compute((16, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=number + 1)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    return s, [a, b, c]


def test_costs_are_seconds_of_one_run() -> None:
    with session() as measuring:
        ((_, outcome),) = measuring.measure(good(1))
    assert isinstance(outcome, Measured)
    assert len(outcome.costs) == 2
    assert min(outcome.costs) >= 0.001  # it sleeps for a millisecond
    assert max(outcome.costs) < outcome.run_seconds
    assert outcome.run_seconds > 0 < outcome.build_seconds
    assert to_result(outcome)[:3] == (outcome.costs, 0, outcome.build_seconds + outcome.run_seconds)


@pytest.mark.opencl
def test_schedules_are_built_and_their_results_checked() -> None:
    jobs = [Job(lambda n=n: matmul(n), n, Target("opencl")) for n in range(6)]
    with MeasureSession("opencl", LocalBuilder(timeout=600), QUICK) as measuring:
        found = {job.key: outcome for job, outcome in measuring.measure(jobs)}
    assert sorted(found) == list(range(6))
    for outcome in found.values():
        assert isinstance(outcome, Measured), outcome
        assert outcome.checked


@pytest.mark.cuda
def test_a_cuda_target_takes_the_architecture_of_the_device_and_tells_what_kernels_take() -> None:
    with MeasureSession("cuda", LocalBuilder(timeout=600), QUICK) as measuring:
        assert measuring.target.arch_given
        ((_, outcome),) = measuring.measure([Job(matmul, 0, Target("cuda"))])
    assert isinstance(outcome, Measured), outcome
    assert all(r.registers > 0 for r in outcome.resources.values())
    assert outcome.resources


def test_candidates_are_built_at_the_same_time(tmp_path: Path) -> None:
    def slowly(candidate: Candidate) -> tuple[Any, list[Any]]:
        began = time.monotonic()
        time.sleep(0.3)
        (tmp_path / str(candidate.number)).write_text(f"{began} {time.monotonic()}")
        return candidate.instantiate()

    jobs = [Job(lambda c=job.key: slowly(c), job.key, job.target) for job in good(8)]
    with session(n_parallel=4) as measuring:
        assert all(outcome.ok for _, outcome in measuring.measure(jobs))
    # The first to be computed is built twice: once more for its reference.
    times = [tuple(map(float, path.read_text().split())) for path in tmp_path.iterdir()]
    together = [sum(begin < at < end for begin, end in times) for at, _ in times]
    assert 1 <= max(together) <= 4


@pytest.mark.parametrize("shared", [False, True])
def test_building_goes_on_while_candidates_run_unless_they_share_the_cores(
    shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = tmp_path / "tally"
    tally.touch()

    def late(candidate: Candidate) -> tuple[Any, list[Any]]:
        """The last one is built when another one has run, where that can be; else long enough for one to run."""
        for _ in range(5 * candidate.number if shared else 6000 * (candidate.number == 3)):
            if tally.read_text():
                break
            time.sleep(0.1)
        with (tmp_path / "ran before").open("a") as file:
            file.write(tally.read_text())
        return candidate.instantiate()

    monkeypatch.setattr(Client, "on_host", shared)
    made = [Candidate("", number, tally=tally) for number in range(4)]
    jobs = [Job(lambda c=c: late(c), c, Target("llvm")) for c in made]
    with session(n_parallel=4, timeout=1000) as measuring:
        assert all(outcome.ok for _, outcome in measuring.measure(jobs))
    assert bool((tmp_path / "ran before").read_text()) is not shared


def test_a_caller_may_stop_listening_and_ask_again() -> None:
    with session() as measuring:
        assert next(measuring.measure(good(20)))[1].ok
        found = [(job.key.number, outcome.ok) for job, outcome in measuring.measure(good(3))]
    assert sorted(found) == [(0, True), (1, True), (2, True)]


def test_no_jobs_are_no_work() -> None:
    with session() as measuring:
        assert list(measuring.measure([])) == []


def test_a_closed_session_says_so() -> None:
    measuring = session()
    measuring.close()
    measuring.close()
    with pytest.raises(UserError, match="this session is closed"):
        next(measuring.measure(good(1)))


@pytest.mark.skipif(why_no_cuda() is None, reason="there is a CUDA device")
def test_a_missing_device_is_the_callers_business() -> None:
    with (
        MeasureSession("cuda -arch=sm_90", LocalBuilder(), QUICK) as measuring,
        pytest.raises(UserError, match="driver"),
    ):
        next(measuring.measure([Job(matmul, 0, Target("cuda -arch=sm_90"))]))


def test_a_device_too_few_is_told_and_done_without(caplog: pytest.LogCaptureFixture) -> None:
    with session(LocalRunner(timeout=600, n_parallel=2, number=1, repeat=1)) as measuring:
        assert all(outcome.ok for _, outcome in measuring.measure(good(4)))
    assert "device 1 is out of use: there is no cpu(1)" in caplog.text


def test_targets_without_devices_are_refused() -> None:
    with pytest.raises(UserError, match="no such"):
        MeasureSession("no such")


def test_a_server_that_is_killed_is_replaced() -> None:
    with session() as measuring:
        number = 0
        for _, outcome in measuring.measure(good(12)):
            assert outcome.ok, outcome
            number += 1
            if number in (3, 6):
                client = measuring._client
                assert client is not None
                os.kill(client.process.pid, signal.SIGKILL)
    assert number == 12


def test_a_server_that_ends_as_it_is_sent_a_task_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    send = Channel.send

    def kill_first(channel: Channel, message: Any, seconds: float | None = None) -> None:
        if isinstance(message, Submit):
            sent.append(message.token)
            if len(sent) == 2:
                client = measuring._client
                assert client is not None
                client.process.kill()
                client.process.wait()
        send(channel, message, seconds)

    with session() as measuring:
        monkeypatch.setattr(Channel, "send", kill_first)
        assert all(outcome.ok for _, outcome in measuring.measure(good(4)))
    assert len(sent) >= 5  # the second one again


def test_results_that_come_with_the_loss_of_the_last_device_are_heard(tmp_path: Path) -> None:
    client = Client("llvm", 1, tmp_path)
    client.channel, server = Channel.pair()
    try:
        server.send(RunFinished(7, RunFailed(reason="it crashed")))
        server.send(DeviceLost(0, "it has fallen off the bus"))
        assert [finished.token for finished in client.hear()] == [7]
        with refused("measure", "it has fallen off the bus", fix="tilewright doctor"):
            client.hear()
    finally:
        client.close()
        client.channel.close()
        server.close()


class TestReferences:
    """What outputs are compared with."""

    def test_a_reference_of_the_caller(self) -> None:
        asked = []

        def reference() -> tuple[list[np.ndarray], list[np.ndarray]]:
            asked.append(1)  # in another process
            a = np.linspace(0, 1, SIZE, dtype="float32")
            return [a], [a * 2.0 + 1.0]

        def another() -> tuple[list[np.ndarray], list[np.ndarray]]:
            a = np.linspace(0, 1, SIZE, dtype="float32")
            return [a], [a * 3.0]

        jobs = [Job(c.instantiate, c, Target("llvm"), reference) for c in (Candidate("", 0), Candidate("wrong", 1))]
        jobs.append(Job(Candidate("").instantiate, "another", Target("llvm"), another))
        with session() as measuring:
            found = {job.key: outcome for job, outcome in measuring.measure(jobs)}
        assert found[Candidate("", 0)].ok
        assert isinstance(found[Candidate("wrong", 1)], WrongAnswer)
        assert isinstance(found["another"], WrongAnswer)
        assert not asked

    def test_a_reference_of_another_shape(self) -> None:
        job = Job(Candidate("").instantiate, 0, Target("llvm"), lambda: ([np.zeros(3)], [np.zeros(SIZE)]))
        with session() as measuring:
            ((_, outcome),) = measuring.measure([job])
        assert isinstance(outcome, RunFailed)
        assert "the reference returns one of shape (3,) for the input A of shape (4096,)" in outcome.reason

    def test_it_is_computed_once_a_workload(self, tmp_path: Path) -> None:
        def reference() -> tuple[list[np.ndarray], list[np.ndarray]]:
            with open(tmp_path / "log", "a") as file:
                file.write("x")
            a = np.ones(SIZE, "float32")
            return [a], [a * 3.0]

        jobs = [Job(Candidate("", n).instantiate, n, Target("llvm"), reference) for n in range(5)]
        with session() as measuring:
            for _ in range(2):
                assert all(outcome.ok for _, outcome in measuring.measure(jobs))
        assert (tmp_path / "log").read_text() == "x"

    def test_without_one_nothing_is_checked_and_that_is_said(self, caplog: pytest.LogCaptureFixture) -> None:
        def fails() -> Any:
            raise ValueError("no idea")

        with session() as measuring:
            ((_, outcome),) = measuring.measure([Job(Candidate("wrong").instantiate, 0, Target("llvm"), fails)])
        assert isinstance(outcome, Measured)
        assert not outcome.checked
        assert "outputs are not checked" in caplog.text
        assert "ValueError: no idea" in caplog.text

    def test_checking_can_be_switched_off(self) -> None:
        with session(LocalRunner(timeout=600, repeat=1, check_correctness=False)) as measuring:
            ((_, outcome),) = measuring.measure([Candidate("wrong").job("llvm")])
        assert isinstance(outcome, Measured)
        assert not outcome.checked

    def test_a_candidate_that_ends_the_process_does_not_cost_the_others_their_check(self) -> None:
        me = os.getpid()

        def instantiate(candidate: Candidate, turns: list[int]) -> tuple[Any, list[Any]]:
            turns.append(1)
            if candidate.number == 0 and len(turns) == 1 and Path(f"/proc/{me}/{candidate.number}").exists():
                os._exit(1)
            return candidate.instantiate()

        jobs = [Job(lambda c=job.key: instantiate(c, []), job.key, job.target) for job in good(3)]
        with session() as measuring:
            outcomes = [outcome for _, outcome in measuring.measure(jobs)]
        assert all(isinstance(outcome, Measured) and outcome.checked for outcome in outcomes)


class TestReasons:
    """What is recorded of a candidate that cannot be built."""

    def build(self, instantiate: Any) -> Any:
        with MeasureSession("opencl", LocalBuilder(timeout=600), QUICK) as measuring:
            ((_, outcome),) = measuring.measure([Job(instantiate, 0, Target("opencl"))])
        return outcome

    @pytest.mark.opencl
    def test_a_primitive_that_refuses(self) -> None:
        def instantiate() -> Any:
            s, (a, b, c) = matmul()
            s[c].split(c.op.axis[1], factor=0)
            return s, [a, b, c]

        outcome = self.build(instantiate)
        assert isinstance(outcome, BuildFailed)
        assert outcome.error_no == MeasureErrorNo.INSTANTIATION_ERROR
        line = instantiate.__code__.co_firstlineno + 2
        assert outcome.step == f"split at {__file__}:{line}"
        assert outcome.reason.startswith("split: ")

    @pytest.mark.opencl
    def test_a_limit_of_the_target(self) -> None:
        def instantiate() -> Any:
            a = te.placeholder((4096,), name="A")
            b = te.compute((4096,), lambda i: a[i] + 1.0, name="B")
            s = te.create_schedule(b.op)
            s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
            return s, [a, b]

        outcome = self.build(instantiate)
        assert isinstance(outcome, Refused)
        assert "4,096 threads per block" in outcome.reason

    @pytest.mark.opencl
    def test_a_mistake_in_the_template_itself(self) -> None:
        def instantiate() -> Any:
            return {}["tile_x"]

        outcome = self.build(instantiate)
        assert isinstance(outcome, BuildFailed)
        assert outcome.reason == "KeyError: 'tile_x'"
        assert outcome.step == f"{__file__}:{instantiate.__code__.co_firstlineno + 1}"

    @pytest.mark.opencl
    def test_arguments_that_are_no_tensors(self) -> None:
        outcome = self.build(lambda: (None, [te.var("n")]))
        assert "argument 0 is n: only tensors of known shape can be measured" in outcome.reason


def test_failures_under_their_legacy_names() -> None:
    failure = TimedOut(reason="still running after 10 s", phase="run", build_seconds=1, run_seconds=10, timestamp=5)
    result = to_result(failure)
    assert (result.error_no, result.all_cost, result.timestamp) == (MeasureErrorNo.RUN_TIMEOUT, 11, 5)
    assert repr(result.costs) == "(TimeoutError('still running after 10 s'),)"
    refused = to_result(Refused(reason="too many threads"))
    assert isinstance(refused.costs[0], InstantiationError)
    assert "error_no=1," in str(refused)


def test_options() -> None:
    option = measure_option(builder=LocalBuilder(timeout=3), runner="local")
    assert (option["builder"].timeout, option["runner"].timeout, option["runner"].number) == (3, 10, 4)
    for wrong in (
        lambda: LocalRunner(repeat=0),
        lambda: LocalRunner(timeout=0),
        lambda: LocalBuilder(n_parallel=0),
        lambda: LocalBuilder(build_func="ndk"),
        lambda: measure_option(builder="remote"),
        lambda: measure_option(runner="remote"),
    ):
        with pytest.raises(UserError):
            wrong()
