"""The judgement of `compat.mixed_load` on its observations; the load itself is an hour of real clients."""

import os
import threading
from collections import Counter
from pathlib import Path

import pytest
from compat.mixed_load.load import RESTART_S, Complaint, Load, Scene
from compat.mixed_load.readings import HEAD, Reading, grown_descriptors, kind, medians, read, row, then_and_now
from compat.mixed_load.topics import COMPACTED, KEPT, Ledger, Sequence, missing, numbered, stale
from compat.support.clients.steps import ReadRecord


def reading(minute: float, mib: float, **descriptors: int) -> Reading:
    return Reading(minute * 60, int(mib * 1024), int(mib * 900), 3, Counter(descriptors))


def record(offset: int, value: bytes | None, key: bytes | None = None) -> ReadRecord:
    return ReadRecord(offset, (1, 0), key, value, ())


class Message:
    """A message as librdkafka passes it to a delivery callback."""

    def __init__(self, topic: str, offset: int, value: bytes | None, key: bytes | None = None) -> None:
        self._parts = (topic, 0, offset, value, key)

    def topic(self) -> str:
        return self._parts[0]

    def partition(self) -> int:
        return self._parts[1]

    def offset(self) -> int:
        return self._parts[2]

    def value(self) -> bytes | None:
        return self._parts[3]

    def key(self) -> bytes | None:
        return self._parts[4]


def test_this_process_is_measured_with_its_descriptors_by_kind(tmp_path: Path) -> None:
    before = read(os.getpid(), 0)
    with open(tmp_path / "0.log", "w"), open(tmp_path / "1.log", "w") as second:
        (tmp_path / "1.log").unlink()
        now = read(os.getpid(), 5)
        second.write("held")
    more = now.descriptors - before.descriptors
    assert more == {".log": 1, ".log (deleted)": 1}
    assert now.resident_kib >= now.proportional_kib > 1024
    assert now.threads >= threading.active_count()
    assert row(now).split()[4] == str(now.descriptors.total())
    assert HEAD.split()[0] == "minute"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("socket:[123]", "socket"),
        ("pipe:[7]", "pipe"),
        ("anon_inode:[eventpoll]", "[eventpoll]"),
        ("/data/t-0/00000000000000000000.log", ".log"),
        ("/data/t-0/00000000000000000000.index (deleted)", ".index (deleted)"),
        ("/data/.lock", "other file"),
        ("/dev/null", "other file"),
    ],
)
def test_descriptors_are_classified_by_kind(target: str, expected: str) -> None:
    assert kind(target) == expected


def test_minutes_nine_to_eleven_are_compared_with_the_last_two() -> None:
    each = [reading(minute, 40 + minute) for minute in range(1, 61)]
    then, now = then_and_now(each)
    assert then == medians([reading(10, 50)])
    assert now == medians([reading(59, 99)])


def test_one_outlier_does_not_count() -> None:
    each = [reading(minute / 6, 50) for minute in range(1, 361)]
    each[358] = reading(59.8, 500)
    then, now = then_and_now(each)
    assert then.resident_kib == now.resident_kib


def test_a_run_without_a_tenth_minute_is_refused() -> None:
    with pytest.raises(ValueError, match="1 readings, none about minute 10"):
        then_and_now([reading(8, 50)])


def test_growing_numbers_of_descriptors_are_reported_by_kind() -> None:
    then = medians([reading(10, 50, socket=40, log=100)])
    now = medians([reading(60, 50, socket=54, log=121, pipe=10, index=11)])
    assert grown_descriptors(then, now) == {"log": (100, 121), "index": (0, 11)}


def test_a_restart_explains_only_complaints_shortly_after_it() -> None:
    scene = Scene("nowhere:1", None)
    scene.restarts.append(100.0)
    for at_s in (99.0, 100.0, 100.0 + RESTART_S, 101.0 + RESTART_S):
        scene.complaints.append(Complaint(at_s, "somebody", ""))
    assert [each.at_s for each in scene.unexcused()] == [99.0, 101.0 + RESTART_S]


def test_a_failed_turn_is_a_complaint_and_does_not_count() -> None:
    class Refused(Load):
        def turn(self) -> None:
            if not self.scene.complaints:
                raise RuntimeError("the broker said no")

    load = Refused(Scene("nowhere:1", None))
    assert [load.take(), load.take()] == [False, True]
    assert (load.begun, load.turns) == (2, 1)
    (complaint,) = load.scene.complaints
    assert complaint.load == "Refused"
    assert complaint.text.startswith("RuntimeError: the broker said no at test_the_mixed_load.py:")


def test_a_sequence_notices_missing_and_repeated_numbers() -> None:
    once, again = Sequence(), Sequence(again=True)
    for number in (5, 6, 8, 7, 9):
        once.see(number)
        again.see(number)
    assert (once.first, once.next) == (5, 10)
    assert once.wrong == ["8 in place of 7", "7 in place of 9"]
    assert again.wrong == ["8 in place of 7"]


def test_a_log_of_numbers_must_end_with_the_last_acknowledged_one() -> None:
    records = [record(number, numbered(number, 3)) for number in range(4, 9)]
    assert missing(records, 9) == ""
    assert missing(records, 10) == "ends before 9, not 10"
    assert missing(records[:2] + records[3:], 9) == "1 times out of order, first 7 in place of 6"


def test_the_newest_acknowledged_record_of_a_compacted_key_must_be_its_newest() -> None:
    ledger = Ledger()
    for offset, value, key in ((0, b"0", b"a"), (2, b"2", b"a"), (1, b"1", b"a"), (3, b"3", b"b"), (4, None, b"b")):
        ledger.delivered(None, Message(COMPACTED, offset, value, key))
    newest = [record(2, b"2", b"a")]
    assert stale([*newest, record(4, None, b"b")], COMPACTED, ledger) == []
    assert stale(newest, COMPACTED, ledger) == []
    assert stale([*newest, record(3, b"3", b"b")], COMPACTED, ledger) == ["b: offset 3, not 4"]
    assert stale([record(0, b"0", b"a")], COMPACTED, ledger) == ["a: offset 0, not 2"]
    assert stale([], COMPACTED, ledger) == ["a: offset -1, not 2"]
    assert stale([], KEPT, ledger) == []


def test_refused_records_are_reported_and_keyless_ones_counted() -> None:
    ledger = Ledger()
    ledger.delivered(None, Message(KEPT, 0, b"0 "))
    ledger.delivered("_MSG_TIMED_OUT", Message(KEPT, -1, b"1 "))
    assert ledger.acknowledged == {(KEPT, 0): 1}
    assert ledger.refused == ["_MSG_TIMED_OUT"]


class Hurried(threading.Event):
    """An event that never blocks its waiter."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


def test_leftovers_of_a_failed_turn_are_looked_for_until_a_broker_answers() -> None:
    class Leaving(Load):
        every_s = 0
        asked = 0

        def turn(self) -> None:
            if self.begun:
                self.end.set()
            else:
                raise ConnectionError("restarted")

        def again(self) -> None:
            self.asked += 1
            if self.asked < 3:
                raise ConnectionError("loading")

    load = Leaving(Scene("", None))
    load.end = Hurried()
    load.run()
    assert (load.asked, load.begun, load.turns) == (3, 2, 1)
    assert len(load.scene.complaints) == 3
