"""Journal, ledger, addresses and messages of a fleet."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright import autotvm
from tilewright.codegen.abi import Resources
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.fleet.addresses import checked, joined
from tilewright.fleet.candidate_process import CandidateProcess
from tilewright.fleet.courier import Courier
from tilewright.fleet.journal import Journal, State
from tilewright.fleet.ledger import Ledger, Sent
from tilewright.fleet.protocol import (
    Announcement,
    Begins,
    Broken,
    Joined,
    Leave,
    Measure,
    Opened,
    Proceed,
    Unreachable,
    read_outcome,
    write_outcome,
)
from tilewright.fleet.session import FleetSession
from tilewright.fleet.worker import Host, WorkerOptions, builders_of, slots_of, visible_devices
from tilewright.measure.channel import Channel
from tilewright.measure.job import Job
from tilewright.measure.outcome import BuildFailed, Measured, Outcome, RunFailed, TimedOut, WrongAnswer
from tilewright.runtime.driver import DeviceAttributes


class TestJournal:
    def test_a_candidate_is_taken_once_and_its_outcome_is_kept(self, tmp_path: Path) -> None:
        journal = Journal(tmp_path)
        assert journal.take("1") == (State.NEW, "")
        assert journal.take("1") == (State.UNDER_WAY, "")
        assert journal.finish("1", "good") == "good"
        assert journal.finish("1", "late") == "good"
        assert journal.take("1") == (State.OVER, "good")
        name = journal.name
        journal.close()
        again = Journal(tmp_path)
        assert again.name == name
        assert again.take("1") == (State.OVER, "good")

    def test_one_that_ran_when_the_worker_ended_never_runs_again(self, tmp_path: Path) -> None:
        journal = Journal(tmp_path)
        journal.take("1")
        journal.run("1")
        journal.close()
        state, text = Journal(tmp_path).take("1")
        assert state is State.OVER
        outcome = read_outcome(text)
        assert isinstance(outcome, RunFailed)
        assert outcome.killed
        assert outcome.reason == "its worker ended while it had it; it is not run again"

    def test_one_that_was_being_built_gets_one_more_worker(self, tmp_path: Path) -> None:
        for expected in (State.NEW, State.NEW, State.OVER):
            journal = Journal(tmp_path)
            assert journal.take("1")[0] is expected
            journal.close()

    def test_what_is_in_a_log_is_forgotten_but_for_having_been_run(self, tmp_path: Path) -> None:
        journal = Journal(tmp_path)
        journal.take("1")
        journal.take("2")
        journal.finish("1", "good")
        journal.forget(("1", "2"))
        assert journal.take("1") == (State.OVER, "")
        assert journal.take("2") == (State.UNDER_WAY, "")

    def test_it_has_one_worker(self, tmp_path: Path) -> None:
        _held = Journal(tmp_path)
        with pytest.raises(UserError, match=r"another worker uses .*") as error:
            Journal(tmp_path)
        assert error.value.fix == "give each worker of a host a name of its own: --name gpu1"

    def test_a_folder_that_cannot_be_written_and_a_damaged_file_are_said(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(UserError, match=r"cannot keep a journal in .*/file/own: Not a directory"):
            Journal(tmp_path / "file" / "own")
        (tmp_path / "journal.sqlite").write_bytes(b"no data base" * 100)
        for _ in range(2):
            with pytest.raises(UserError, match=r"cannot use the journal in .*: file is not a database"):
                Journal(tmp_path)


class TestLedger:
    def test_what_was_sent_and_has_no_record_is_there_for_the_next_session(self, tmp_path: Path) -> None:
        log = tmp_path / "conv.log"
        ledger = Ledger(log)
        ledger.send([Sent("1", "one", "a"), Sent("2", "two", "b")])
        ledger.settle("1")
        ledger.close()
        path = tmp_path / "conv.log.fleet"
        path.write_text(path.read_text() + '{"sent": ["3", "to')
        again = Ledger(log)
        assert again.open == {"2": Sent("2", "two", "b")}
        again.settle("2")
        again.close()
        assert not path.exists()

    def test_a_log_has_one_session(self, tmp_path: Path) -> None:
        _held = Ledger(tmp_path / "conv.log")
        with pytest.raises(UserError, match=r"another process tunes on a fleet into .*conv\.log") as error:
            Ledger(tmp_path / "conv.log")
        assert error.value.fix == "wait for it, or give another log"

    def test_a_folder_that_cannot_be_written_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"cannot write to .*conv\.log\.fleet: No such file"):
            Ledger(tmp_path / "missing" / "conv.log")

    def test_a_full_disk_is_said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        ledger = Ledger(tmp_path / "conv.log")

        def full(file: int, data: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            with pytest.raises(UserError, match=r"cannot write to .*conv\.log\.fleet: No space left"):
                ledger.send([Sent("1", "one", "a")])
        ledger.close()


@pytest.mark.parametrize(
    ("given", "port", "whole"),
    [
        ("scheduler", 8786, "tcp://scheduler:8786"),
        ("tls://scheduler:8786", None, "tls://scheduler:8786"),
        ("tls://scheduler:8786", 9190, "tls://scheduler:8786"),
        ("[::1]", 8786, "tcp://[::1]:8786"),
    ],
)
def test_addresses(given: str, port: int | None, whole: str) -> None:
    assert joined(given, port) == whole


@pytest.mark.parametrize("given", ["scheduler", "", "a b:1", "tcp://a:99999", "tcp://:1", None, 5])
def test_what_is_no_address_is_said(given: object) -> None:
    with pytest.raises(UserError, match=r"is not the address of a scheduler"):
        joined(given)


def test_other_protocols_are_refused() -> None:
    with pytest.raises(UserError, match=r"'ucx://a:1' begins with ucx://"):
        joined("ucx://a:1")


def test_another_host_needs_tls() -> None:
    for address in ("tls://far:1", "tcp://127.0.0.1:1", "tcp://localhost:1", "tcp://[::1]:1"):
        assert checked(address, False) == address
    assert checked("tcp://far:1", True) == "tcp://far:1"
    with pytest.raises(UserError, match=r"tcp://far:1 is another host, and without TLS everybody who reaches its port"):
        checked("tcp://far:1", False)
    with pytest.raises(UserError, match=r"is another host"):
        autotvm.RPCRunner("h200", "10.0.0.1", 9190)
    runner = autotvm.RPCRunner("h200", "10.0.0.1", 9190, number=7, timeout=4, insecure=True)
    assert runner.address == "tcp://10.0.0.1:9190"
    assert (runner.local.number, runner.local.timeout) == (7, 4)
    with pytest.raises(UserError, match=r"key=5 is not text"):
        autotvm.RPCRunner(5, "localhost", 1)  # type: ignore[arg-type]


OUTCOMES: list[Outcome] = [
    Measured(costs=(1e-3, 2e-3), checked=False, unchecked="why", resources={"k": Resources(1, 2, 3, 4, 5, 6)}),
    BuildFailed(reason="no", step="split", stage="lower", killed=True),
    RunFailed(reason="µ", killed=True),
    WrongAnswer(reason="B[0]"),
    TimedOut(reason="late", phase="run"),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_outcomes_travel_as_text(outcome: Outcome) -> None:
    assert read_outcome(write_outcome(outcome)) == outcome


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"outcome": "os"}', '{"outcome": "Measured", "costs": [-1]}', None])
def test_what_is_no_outcome_is_a_failure(text: object) -> None:
    outcome = read_outcome(text)
    assert isinstance(outcome, RunFailed)
    assert "the worker sent no outcome" in outcome.reason


def test_announcements_travel_as_text() -> None:
    said = Announcement("a", "cuda", DeviceAttributes("H200", max_thread_dimensions=(3, 2, 1)), "0.2", "3.11", "j")
    assert Announcement.read(said.written()) == said
    for wrong in ("", "{}", "[]", json.dumps({**json.loads(said.written()), "pid": "x"})):
        with pytest.raises(UserError, match=r"the announcement of a worker is not understood"):
            Announcement.read(wrong)


def test_workers_of_one_host_share_its_cores_and_leave_some(monkeypatch: pytest.MonkeyPatch) -> None:
    known = ((1, 1, 1), (2, 1, 2), (4, 1, 3), (16, 1, 14), (32, 1, 16), (32, 2, 15), (32, 8, 3))
    for cores, sharing, builders in known:
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert builders_of(sharing) == builders
        assert slots_of(builders) > builders


def test_gpus_by_number() -> None:
    assert visible_devices("all", 3) == [0, 1, 2]
    assert visible_devices("2,0", 3) == [2, 0]
    for wrong in ("3", "0,0", "", "x"):
        with pytest.raises(UserError, match=r"does not name some of the 3 GPUs here"):
            visible_devices(wrong, 3)


def test_what_reaches_a_candidate_process_while_it_waits_for_its_worker_is_not_forgotten() -> None:
    worker, theirs = Channel.pair()
    session: Any = None
    process = CandidateProcess(theirs, session, 1)
    for message in (Measure("2", b""), Proceed("1"), Measure("3", b"")):
        worker.send(message)
    assert not process.pending
    process.begins(Job(lambda: (None, []), "1", Target.parse("llvm")))
    assert worker.receive() == Begins("1")
    assert process.pending


def test_a_candidate_process_whose_worker_is_gone_ends_as_at_the_end_of_a_file() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    session: Any = None
    process = CandidateProcess(Channel(ours), session, 1)
    assert process.fileno() >= 0
    theirs.close()
    process.channel.close()
    with pytest.raises(EOFError, match="the worker is gone"):
        process.fileno()


class _Scheduler:
    async def identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {}}


class _Client:
    """What a courier needs of a Dask client."""

    status = "running"
    scheduler = _Scheduler()

    def __init__(self) -> None:
        self.topics: list[str] = []

    def subscribe_topic(self, topic: str, handler: Any) -> None:
        self.topics.append(topic)

    def unsubscribe_topic(self, topic: str) -> None:
        self.topics.remove(topic)


@pytest.mark.parametrize("says_so", [True, False])
def test_a_courier_that_leaves_hears_no_more_events(says_so: bool) -> None:
    """A scheduler that cannot tell a subscriber of its own departure logs a trace."""
    ours, theirs = Channel.pair()
    client = _Client()
    if says_so:
        ours.send(Leave())
    else:
        ours.close()
    asyncio.run(Courier(theirs, client).run())
    assert client.topics == []


def test_a_courier_whose_scheduler_fails_in_whatever_way_says_so() -> None:
    ours, theirs = Channel.pair()
    client = _Client()

    class Closing(_Scheduler):
        async def identity(self, n_workers: int) -> dict[str, Any]:
            raise RuntimeError("it is closing")

    client.scheduler = Closing()
    asyncio.run(Courier(theirs, client).run())
    assert ours.receive() == Unreachable("the scheduler does not answer: RuntimeError: it is closing")


def test_time_in_which_nobody_looked_is_no_time_without_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    session = FleetSession("llvm", None, autotvm.RPCRunner("", "127.0.0.1", 1), first=60.0)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for seconds in (500.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0):  # nobody looked for 500 s, then often for 54
        now += seconds
        session._check_presence()
    now += 6.0
    with pytest.raises(UserError, match=r"for 60 s no worker of tcp://127\.0\.0\.1:1 could be used"):
        session._check_presence()
    session.close()


class _Bench(Host):
    """A host whose candidate process is the test: what it says comes through `said`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(WorkerOptions("llvm", "own", folder=folder))
        self.said: list[Channel] = []

    def _start(self) -> None:
        ours, theirs = Channel.pair()
        self.said.append(theirs)
        self._channel, self._descriptor = ours, ours.fileno()
        loop = asyncio.get_running_loop()
        self._opened, self._heard = loop.create_future(), loop.time()
        loop.add_reader(ours.fileno(), self._hear, ours)


async def _soon(met: Callable[[], bool]) -> None:
    while not met():
        await asyncio.sleep(0.01)


def test_a_worker_whose_device_fails_for_good_is_broken(tmp_path: Path) -> None:
    async def scene() -> None:
        host = _Bench(tmp_path)
        first = asyncio.ensure_future(host.open())
        await _soon(lambda: bool(host.said))
        host.said[0].send(Opened(DeviceAttributes("A device")))
        await first
        host.said[0].close()
        await _soon(lambda: host._channel is not None and host._channel.closed)
        assert not host.broken.is_set(), "its candidate process may have died of a candidate"
        measured = asyncio.ensure_future(host.measure("1", b""))
        await _soon(lambda: len(host.said) == 2)
        host.said[1].send(Broken("it has fallen off the bus"))
        outcome = read_outcome(await measured)
        assert isinstance(outcome, RunFailed)
        assert "it has fallen off the bus" in outcome.reason
        assert host.broken.is_set()
        host.close()

    asyncio.run(scene())


def test_a_candidate_process_is_stuck_if_it_says_nothing_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.fleet.worker._STUCK_SECONDS", 1e6)

    async def scene() -> None:
        host = _Bench(tmp_path)
        measured = asyncio.ensure_future(host.measure("1", b""))
        await _soon(lambda: bool(host.said))
        host.said[0].send(Opened(DeviceAttributes("A device")))
        await _soon(lambda: bool(host.said[0].arrived()))
        host._heard = 0.0
        host.said[0].send(Begins("1"))
        await _soon(lambda: Proceed("1") in host.said[0].arrived())
        assert host._heard > 0, "what it says counts, whichever candidate it is about"
        assert not measured.done()
        monkeypatch.setattr("tilewright.fleet.worker._STUCK_SECONDS", 0.0)
        outcome = read_outcome(await host.measure("2", b""))
        assert isinstance(outcome, RunFailed)
        assert outcome.reason == "its candidate process said nothing for 0 s"
        host.close()

    asyncio.run(scene())


def test_a_session_says_why_the_scheduler_was_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FleetSession("llvm", None, autotvm.RPCRunner("", "127.0.0.1", 1), first=9.0)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    started = []

    def start(module: str) -> Any:
        ours, theirs = Channel.pair()
        started.append(theirs)
        return SimpleNamespace(wait=lambda seconds: 0), ours

    monkeypatch.setattr("tilewright.fleet.session.start_fresh", start)
    session._on_message(Unreachable("its certificate does not match"))
    session._lost_courier("its certificate does not match")
    now += 5.0
    session._check_presence()
    session._connect()
    assert started, "while another courier tries, nothing newer is known"
    now += 5.0
    with pytest.raises(UserError, match="could be used: its certificate does not match"):
        session._check_presence()
    session._on_message(Joined(()))
    with pytest.raises(UserError, match="could be used: none is there"):
        session._check_presence()
    session.close()


def test_a_courier_says_that_it_reached_a_scheduler_without_workers() -> None:
    ours, theirs = Channel.pair()
    ours.send(Leave())
    courier = Courier(theirs, _Client())
    asyncio.run(courier._list())
    asyncio.run(courier._list())
    assert ours.arrived() == [Joined(())]
