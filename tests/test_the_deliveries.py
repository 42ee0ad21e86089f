"""The judgement of `compat.share_consumers` and `compat.mixed_load` on the records that share-group members wrote down."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from compat.mixed_load.load import Scene
from compat.mixed_load.sharing import LibrarySharers, Queue
from compat.share_consumers.__main__ import Run
from compat.support.clients.jvms import Jvms
from compat.support.deliveries import Deliveries, Event
from compat.support.suite import Suite

S = 1_000_000_000
FAULTS = {
    "never": "records that were never received",
    "unaccepted": "records that no member can have accepted",
    "again": "records that came again after they were accepted",
    "twice": "records that came twice although no member lost its lock",
}


def event(seconds: float, kind: str, member: str = "a", more: str = "1", asked: float | None = None) -> Event:
    return Event(int(seconds * S), kind, member, more, None if asked is None else int(asked * S))


def faults(capsys: pytest.CaptureFixture[str], deliveries: Deliveries, end: int = 1) -> set[str]:
    """Return the kinds of faults, for one partition with records up to this offset."""
    suite = Suite("queue")
    deliveries.judge(suite, {0: end})
    said = capsys.readouterr().out
    found = {short for short, words in FAULTS.items() if f"FAIL {words}" in said}
    assert suite.failed == len(found)
    assert suite.passed == len(FAULTS) - len(found)
    return found


ONCE = [event(1, "R"), event(2, "A")]
TWICE = [event(1, "R"), event(1.5, "R", "b", "2"), event(2, "A", "b")]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (ONCE, set()),
        ([event(1, "R"), event(2, "J")], set()),
        ([], {"never", "unaccepted"}),
        ([event(1, "R")], {"unaccepted"}),
        ([event(1, "R"), event(2, "X")], {"unaccepted"}),
        ([event(1, "R"), event(2, "L", more="INVALID_RECORD_STATE")], {"unaccepted"}),
        ([event(1, "R"), event(2, "F")], set()),  # it may have been taken
        ([event(1, "R", more="3"), event(2, "F")], {"unaccepted"}),  # the broker gives it up at this count
        ([*ONCE, event(3, "R", "b", "2")], {"again", "twice"}),
        ([event(1, "R"), event(2, "J"), event(3, "R", "b", "2")], {"again", "twice"}),
        ([*ONCE, event(9, "R", "b", "2")], {"again"}),  # a lock that has timed out is no excuse
        (TWICE, {"twice"}),
        ([event(1, "R"), event(1.2, "X"), event(1.3, "R", "b", "2"), event(2, "A", "b")], set()),
        # The next owner may appear before the answer to the release.
        ([event(1, "R"), event(1.3, "R", "b", "2"), event(1.4, "X"), event(2, "A", "b")], set()),
        ([event(1, "R"), event(1.2, "L"), event(1.3, "R", "b", "2"), event(2, "A", "b")], set()),
        ([event(1, "R"), event(1.2, "F"), event(1.3, "R", "b", "2"), event(2, "A", "b")], set()),
        ([event(1, "R"), event(5.9, "R", "b", "2"), event(6, "A", "b")], {"twice"}),
        ([event(1, "R"), event(6, "R", "b", "2"), event(7, "A", "b")], set()),
        ([event(1, "R", asked=0.8), event(5.9, "R", "b", "2"), event(6, "A", "b")], set()),
        ([event(1, "R", asked=0.9), event(5.8, "R", "b", "2"), event(6, "A", "b")], {"twice"}),
        # A release of the second time does not explain the second time.
        ([event(1, "R"), event(2, "R", more="2"), event(3, "X"), event(4, "R", more="3"), event(5, "A")], {"twice"}),
    ],
)
def test_each_history_of_a_record_is_judged(
    capsys: pytest.CaptureFixture[str], events: list[Event], expected: set[str]
) -> None:
    deliveries = Deliveries(lock_ms=5000, count_limit=3)
    if events:
        deliveries.events[0, 0] = events
    assert faults(capsys, deliveries) == expected
    deliveries.events[0, 0] = events[::-1]  # of several files, in no order
    if events:
        assert faults(capsys, deliveries) == expected


@pytest.mark.parametrize(
    ("away", "expected"),
    [((1.1, 1.2), set()), ((0.5, 1.1), set()), ((1.4, 1.6), set()), ((0.1, 0.9), {"twice"}), ((1.6, 1.9), {"twice"})],
)
def test_only_a_broker_outage_between_two_deliveries_explains_the_second(
    capsys: pytest.CaptureFixture[str], away: tuple[float, float], expected: set[str]
) -> None:
    deliveries = Deliveries(5000, 3, away_ns=[(int(away[0] * S), int(away[1] * S))])
    deliveries.events[0, 0] = TWICE
    assert faults(capsys, deliveries) == expected


def test_a_broker_outage_does_not_explain_deliveries_after_acceptance(
    capsys: pytest.CaptureFixture[str],
) -> None:
    deliveries = Deliveries(5000, 3, away_ns=[(int(2.1 * S), int(2.9 * S))])
    deliveries.events[0, 0] = [*ONCE, event(3, "R", "b", "2"), event(4, "A", "b")]
    assert faults(capsys, deliveries) == {"again"}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ([event(3, "R")], set()),
        ([event(3, "R"), event(4, "F")], set()),
        ([event(3, "R"), event(4, "A")], set()),  # below its start the broker accepts every acknowledgement
        ([event(3, "R", "b")], {"again"}),
        ([event(7.1, "R")], {"again"}),
        ([event(3, "R", asked=2.5)], {"again"}),  # it was certainly fetched later
    ],
)
def test_a_copy_fetched_from_the_next_broker_before_acknowledging_is_allowed(
    capsys: pytest.CaptureFixture[str], after: list[Event], expected: set[str]
) -> None:
    for away_s, fault in ((1.1, set()), (-3.9, set()), (-4.1, {"again"}), (2.1, {"again"})):
        deliveries = Deliveries(5000, 3, away_ns=[(int(away_s * S), int(away_s * S) + 1)])
        deliveries.events[0, 0] = [*ONCE, *after]
        assert faults(capsys, deliveries) - {"twice"} == expected | fault


@pytest.mark.parametrize(
    ("ended", "is_released", "told", "expected"),
    [
        ({"a": 9}, True, [], set()),
        ({"a": 9}, False, [], {"twice"}),
        ({}, True, [], {"twice"}),
        ({"a": 9}, True, [event(1.7, "A")], {"twice"}),
    ],
)
def test_a_release_that_a_member_could_not_report_explains_the_next_delivery(
    capsys: pytest.CaptureFixture[str],
    ended: dict[str, int],
    is_released: bool,
    told: list[Event],
    expected: set[str],
) -> None:
    ended_ns = {member: at_s * S for member, at_s in ended.items()}
    deliveries = Deliveries(5000, 3, ended_ns=ended_ns, is_released=lambda place, delivery: is_released)
    deliveries.events[0, 0] = [*TWICE, *told]
    assert faults(capsys, deliveries) == expected


def test_a_member_that_died_explains_only_the_records_it_held(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for member, expected in (("a", set()), ("c", {"twice"})):
        deliveries = Deliveries(5000, 3, ended_ns={member: int(1.2 * S)})
        deliveries.events[0, 0] = TWICE
        assert faults(capsys, deliveries) == expected
    late = Deliveries(5000, 3, ended_ns={"a": int(1.7 * S)})
    late.events[0, 0] = TWICE
    assert faults(capsys, late) == {"twice"}


def test_a_member_that_died_before_a_response_may_have_accepted_its_records(capsys: pytest.CaptureFixture[str]) -> None:
    for member, expected in (("a", set()), ("b", {"unaccepted"})):
        deliveries = Deliveries(5000, 3, ended_ns={member: 2 * S})
        deliveries.events[0, 0] = [event(1, "R")]
        assert faults(capsys, deliveries) == expected


def test_a_record_requested_before_its_acceptance_may_be_delivered_later() -> None:
    early = [*ONCE, event(3, "R", "b", "1", asked=0.5)]
    deliveries = Deliveries(5000, 3)
    assert not deliveries.came_after_its_end(early)
    assert deliveries.came_after_its_end([*early, event(4, "R", "b", "2", asked=2.5)])


def test_records_of_each_partition_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    deliveries = Deliveries(5000, 3)
    deliveries.events[0, 0] = deliveries.events[1, 0] = ONCE
    deliveries.judge(Suite("queue"), {0: 1, 1: 2})
    said = capsys.readouterr().out
    assert "never received: expected [], got [(1, 1)]" in said
    assert "2 deliveries of 3 records" in said


# Other members may have the records of a killed process before the test has waited for its end.


class Killed(subprocess.Popen[str]):
    """A real process that knows when it was killed."""

    killed_ns = 0

    def kill(self) -> None:
        self.killed_ns = time.monotonic_ns()
        super().kill()


class KilledJvms(Jvms):
    """Processes that know when one was killed."""

    killed_ns = 0

    def __init__(self) -> None:
        super().__init__("", "", 0, Path())

    def kill(self, number: int) -> None:
        self.killed_ns = time.monotonic_ns()


class RunWithoutBroker(Run):
    def __init__(self, folder: Path, processes: KilledJvms) -> None:
        self.folder, self.processes = folder, processes
        self.deliveries = Deliveries(lock_ms=5000, count_limit=3)

    def start(self, number: int) -> None:
        assert number == 2


class QueueWithoutBroker(Queue):
    def __init__(self) -> None:
        self.lock, self.deliveries = threading.Lock(), Deliveries(lock_ms=5000, count_limit=3)


def test_share_consumers_records_the_time_before_it_kills(tmp_path: Path) -> None:
    (tmp_path / "7-2-0").touch()
    processes = KilledJvms()
    run = RunWithoutBroker(tmp_path, processes)
    run.restart(2)
    assert run.deliveries.ended_ns.keys() == {"7-2-0", "7-2-1"}
    assert max(run.deliveries.ended_ns.values()) <= processes.killed_ns


def test_the_mixed_load_records_the_time_before_it_kills() -> None:
    queue = QueueWithoutBroker()
    load = LibrarySharers(Scene("", None), queue)
    process = Killed(
        [sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    thread = threading.Thread(target=len, args=("",))
    thread.start()
    load.running.append(("library-0", process, thread))
    load.end_one(kill=True)
    assert queue.deliveries.ended_ns["library-0"] <= process.killed_ns
