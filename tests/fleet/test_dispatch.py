"""The rules of a fleet, by a clock of the test's own."""

from __future__ import annotations

from dataclasses import replace

from tilewright.fleet.dispatch import Dispatcher
from tilewright.fleet.protocol import Announcement
from tilewright.runtime.driver import DeviceAttributes

H200 = Announcement("a", "cuda", DeviceAttributes("NVIDIA H200", "9.0", driver_version="13.0"), "0.2", "3.11", "j1", 2)


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def dispatcher(**how: object) -> tuple[Dispatcher, Clock]:
    clock = Clock()
    return Dispatcher("cuda", now=clock, **how), clock  # type: ignore[arg-type]


def test_workers_with_nothing_to_do_come_first_and_none_gets_more_than_it_has_room_for() -> None:
    fleet, _ = dispatcher()
    fleet.join([H200, replace(H200, name="b")])
    fleet.submit("123456")
    assert fleet.assign() == [("1", "a"), ("2", "b"), ("3", "a"), ("4", "b")]
    assert fleet.finish("1")
    assert fleet.assign() == [("5", "a")]
    assert not fleet.finish("1"), "nobody waits for it any more"


def test_the_model_that_most_workers_have_is_used_and_others_are_refused_with_the_difference() -> None:
    fleet, _ = dispatcher()
    odd = [
        replace(H200, name="c", attributes=H200.attributes._replace(name="NVIDIA A100")),
        replace(H200, name="d", attributes=H200.attributes._replace(driver_version="12.4")),
        replace(H200, name="e", package="0.1"),
        replace(H200, name="f", kind="llvm"),
    ]
    refused, again = fleet.join([*odd, H200, replace(H200, name="b")])
    assert fleet.model == H200
    assert not again
    assert fleet.slots == 4
    ending = "; tune for it in a session and a log of its own"
    assert refused == [
        f"worker c is not used: it has device 'NVIDIA A100' instead of 'NVIDIA H200'{ending}",
        f"worker d is not used: it has driver '12.4' instead of '13.0'{ending}",
        f"worker e is not used: it has tilewright '0.1' instead of '0.2'{ending}",
        "worker f is not used: it measures llvm, and this session tunes for cuda",
    ]


def test_a_key_is_a_word_of_the_worker_or_a_part_of_the_device_s_name() -> None:
    fleet, _ = dispatcher(key="h-200")
    fleet.join([H200, replace(H200, name="b", attributes=DeviceAttributes("NVIDIA A100"))])
    assert set(fleet.places) == {"a"}
    fleet, _ = dispatcher(key="mine")
    refused, _ = fleet.join([H200, replace(H200, name="b", key="yours,mine")])
    assert set(fleet.places) == {"b"}
    assert refused == ["worker a is not used: it has NVIDIA H200, which is not mine"]


def test_no_more_workers_are_used_than_wanted() -> None:
    fleet, _ = dispatcher(most=1)
    refused, _ = fleet.join([H200, replace(H200, name="b")])
    assert refused == ["worker b is not used: 1 others are used already (n_parallel)"]


def test_a_worker_that_comes_back_is_asked_again_and_one_that_does_not_costs_what_it_had() -> None:
    fleet, clock = dispatcher(grace=30)
    fleet.join([H200])
    fleet.submit("12")
    fleet.assign()
    fleet.leave("a")
    clock.now = 29
    assert fleet.overdue() == ([], [])
    assert fleet.join([H200])[1] == {"a": ["1", "2"]}
    fleet.leave("a")
    clock.now = 59
    (one, two), _ = fleet.overdue()
    assert one == ("1", "worker a ended or fell silent while it had it; it is not run again")
    assert two[0] == "2"
    assert fleet.finish("1")
    assert fleet.finish("2")
    assert fleet.overdue() == ([], [])


def test_a_silent_worker_is_asked_then_left_out_and_taken_back_when_it_speaks() -> None:
    fleet, clock = dispatcher(grace=30, patience=60)
    fleet.join([H200])
    fleet.submit("123")
    fleet.assign()
    clock.now = 60
    assert fleet.overdue() == ([], ["a"])
    fleet.alive("a")
    clock.now = 119
    assert fleet.overdue() == ([], [])
    clock.now = 120
    assert fleet.overdue() == ([], ["a"])
    clock.now = 150
    assert fleet.overdue() == ([], [])
    assert fleet.slots == 0
    clock.now = 180
    assert [token for token, _ in fleet.overdue()[0]] == ["1", "2"]
    fleet.finish("1")
    fleet.finish("2")
    fleet.alive("a")
    assert fleet.assign() == [("3", "a")]


def test_what_an_earlier_session_sent_stays_with_its_worker() -> None:
    fleet, clock = dispatcher(grace=30)
    fleet.adopt("old", "a")
    fleet.submit(["new"])
    assert fleet.assign() == []
    assert fleet.join([H200])[1] == {"a": ["old"]}
    assert fleet.assign() == [("new", "a")]
    fleet.adopt("older", "gone")
    clock.now = 31
    assert [token for token, _ in fleet.overdue()[0]] == ["older"]


def test_a_spare_worker_replaces_one_that_is_gone() -> None:
    fleet, clock = dispatcher(most=1, grace=30)
    fleet.join([H200, replace(H200, name="b")])
    fleet.submit("12")
    assert fleet.assign() == [("1", "a"), ("2", "a")]
    fleet.leave("a")
    fleet.enlist()
    assert fleet.slots == 0, "it may come back to what it has"
    clock.now = 30
    for token, _ in fleet.overdue()[0]:
        fleet.finish(token)
    fleet.enlist()
    fleet.submit("3")
    assert fleet.assign() == [("3", "b")]
    assert fleet.join([H200])[0] == ["worker a is not used: 1 others are used already (n_parallel)"]
    fleet.leave("b")
    assert fleet.slots == 0
