"""The choice of a log to clean, made in pieces: changes of the logs between two pieces count."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.server.coordination.jobs import to_the_end
from ottla.storage.cleaning import cleaner_manager, dirtiness
from ottla.storage.cleaning.cleaner_manager import MEASURED_AT_ONCE, CleanerManager
from ottla.storage.cleaning.dirtiness import measure
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.produce import producers
from support.cleaner.choosing import filthiest
from support.disk.crash_files import CrashFiles
from support.logs.make_log import append, delete_old_segments, make_log
from support.noted import each_case
from support.sizes import some

DIRTIEST = TopicPartition("dirtiest", 0)
DIRTY = TopicPartition("dirty", 0)
CHECKPOINT = "/data/cleaner-offset-checkpoint"
NOW_MS = 5_000


class Between:
    """An unfinished choice that has measured a log dirty from offset 0 and one dirty from 2 of 4 on.

    Args:
        pieces: The number of pieces that the choice has done.
    """

    def __init__(self, pieces: int = 1) -> None:
        self.files = CrashFiles()
        self.logs = {tp: self._log(tp) for tp in (DIRTY, DIRTIEST)}
        self.manager = CleanerManager(self.files, self.logs)
        self.checkpoint({DIRTY: 2})
        self._choice = self.manager.filthiest(NOW_MS)
        for _ in range(pieces):
            next(self._choice)

    def _log(self, tp: TopicPartition) -> Log:
        log = make_log(self.files, tp=tp, min_cleanable_dirty_ratio=0.1)
        for number in range(4):
            append(log, ("k", str(number)), roll=True)
        return log

    def checkpoint(self, offsets: dict[TopicPartition, int]) -> None:
        OffsetCheckpoint(self.files, CHECKPOINT).write(offsets)

    def chosen(self) -> tuple[TopicPartition, int] | None:
        found = to_the_end(self._choice)
        return None if found is None else (found.log.topic_partition, found.first_dirty_offset)

    def replace_dirtiest(self) -> None:
        """Replace the dirtiest log with one that is less dirty, under the same name."""
        self.logs[DIRTIEST] = make_log(self.files, tp=DIRTIEST)


def nothing(_: Between) -> None:
    pass


WHAT_COMES_BETWEEN: dict[str, tuple[Callable[[Between], object], tuple[TopicPartition, int] | None]] = {
    "nothing": (nothing, (DIRTIEST, 0)),
    "another thread takes it": (lambda it: it.manager.begin(DIRTIEST), (DIRTY, 2)),
    "it is paused": (lambda it: it.manager.abort_and_pause(DIRTIEST, lambda: None), (DIRTY, 2)),
    "it has been cleaned": (lambda it: it.checkpoint({DIRTIEST: 4, DIRTY: 2}), (DIRTY, 2)),
    "it is cleaner than the next one now": (lambda it: it.checkpoint({DIRTIEST: 3, DIRTY: 2}), (DIRTY, 2)),
    "a part of it has been cleaned": (lambda it: it.checkpoint({DIRTIEST: 1, DIRTY: 2}), (DIRTIEST, 1)),
    "it is put off": (lambda it: it.manager.retries.put_off(DIRTIEST, "disk full", NOW_MS), (DIRTY, 2)),
    "it cannot be cleaned": (lambda it: it.manager.mark_uncleanable(DIRTIEST, "damaged"), (DIRTY, 2)),
    "it is offline": (lambda it: it.logs[DIRTIEST].fail(OSError("gone")), (DIRTY, 2)),
    "it is deleted": (lambda it: it.logs.pop(DIRTIEST), (DIRTY, 2)),
    "it is deleted and made again": (Between.replace_dirtiest, (DIRTY, 2)),
    "all are deleted": (lambda it: it.logs.clear(), None),
    "all are cleaned": (lambda it: it.checkpoint({DIRTIEST: 4, DIRTY: 4}), None),
}


@each_case("what", WHAT_COMES_BETWEEN)
def test_the_chosen_log_is_measured_again_before_it_is_held(what: str) -> None:
    between = Between()
    happens, want = WHAT_COMES_BETWEEN[what]
    happens(between)
    held = {tp for tp in between.logs if between.manager.is_held(tp)}
    assert between.chosen() == want
    taken = set() if want is None else {want[0]}
    assert {tp for tp in between.logs if between.manager.is_held(tp)} == held | taken


def delete_the_first(between: Between) -> None:
    log = between.logs[DIRTIEST]
    log.advance_log_start(1)
    delete_old_segments(log, NOW_MS, NOW_MS)


IN_A_LONG_LOG = WHAT_COMES_BETWEEN | {
    "more is written to it": (lambda it: append(it.logs[DIRTIEST], ("k", "v"), roll=True), (DIRTIEST, 0)),
    "its beginning is deleted": (delete_the_first, (DIRTIEST, 1)),
}


@pytest.mark.parametrize("what", IN_A_LONG_LOG)
def test_a_long_log_measured_in_pieces_is_chosen_in_its_current_state(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dirtiness, "SEGMENTS_AT_ONCE", 1)
    happens, want = IN_A_LONG_LOG[what]
    pieces = sum(1 for _ in Between(0).manager.filthiest(NOW_MS))
    assert pieces > 8
    for done in some(range(1, pieces + 1), 6):
        between = Between(done)
        happens(between)
        found = to_the_end(between._choice)
        assert (None if found is None else (found.log.topic_partition, found.first_dirty_offset)) == want, done
        if found is not None:
            now = measure(found.log, found.first_dirty_offset, NOW_MS)
            assert (found.segments, found.cleanable_bytes, found.clean_bytes) == (
                now.segments[: len(found.segments)],
                sum(
                    segment.size_bytes for segment in found.segments if segment.base_offset >= found.first_dirty_offset
                ),
                now.clean_bytes,
            )


def test_a_cancelled_choice_holds_no_log() -> None:
    between = Between()
    between._choice.close()
    assert not any(map(between.manager.is_held, between.logs))


class CountedReads(CrashFiles):
    """A counter of the checkpoint's reads."""

    reads = 0

    def exists(self, path: str) -> bool:
        self.reads += path == CHECKPOINT
        return super().exists(path)


def test_a_piece_measures_some_logs_and_reads_their_checkpoint_once() -> None:
    pieces = 6
    files = CountedReads()
    logs = {
        tp: make_log(files, tp=tp) for number in range(pieces * MEASURED_AT_ONCE) if (tp := TopicPartition("t", number))
    }
    manager = CleanerManager(files, logs)
    assert (sum(1 for _ in manager.filthiest(NOW_MS)), files.reads) == (pieces, pieces)


def test_logs_of_many_segments_are_measured_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner_manager, "SEGMENTS_MEASURED_AT_ONCE", 5)
    between = Between()
    assert [len(log.segments) for log in between.logs.values()] == [5, 5]
    assert sum(1 for _ in between.manager.filthiest(NOW_MS)) == 2


def test_last_batches_of_many_producers_are_read_in_pieces_holding_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_AT_ONCE", 2)
    between = Between()
    log = between.logs[DIRTIEST]
    for number in range(6):
        append(log, ("k", "v"), producer_id=number)
    choice = between.manager.filthiest(NOW_MS)
    pieces = 0
    while not between.manager.is_held(DIRTIEST):
        next(choice)
    append(log, ("k", "v"), producer_id=5, base_sequence=1)
    assert filthiest(between.manager, NOW_MS).log is between.logs[DIRTY]  # type: ignore[union-attr]
    while True:
        try:
            next(choice)
            pieces += 1
        except StopIteration as end:
            chosen = end.value
            break
    assert pieces == 1
    assert chosen.last_records == log.producers.last_records()


def test_a_choice_closed_between_two_pieces_releases_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_AT_ONCE", 1)
    between = Between()
    for number in range(3):
        append(between.logs[DIRTIEST], ("k", "v"), producer_id=number)
    choice = between.manager.filthiest(NOW_MS)
    while not between.manager.is_held(DIRTIEST):
        next(choice)
    choice.close()
    assert not between.manager.is_held(DIRTIEST)


def test_an_unchanged_checkpoint_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = 0
    parse = OffsetCheckpoint.parse

    def counted(self: OffsetCheckpoint, text: str) -> dict[TopicPartition, int]:
        nonlocal parsed
        parsed += 1
        return parse(self, text)

    between = Between()
    between.chosen()
    monkeypatch.setattr(OffsetCheckpoint, "parse", counted)
    manager = between.manager
    assert filthiest(manager, NOW_MS) is not None
    assert parsed == 0
    manager.cleaned_elsewhere(between.logs[DIRTY], 3)
    list(manager.eligibility([between.logs[DIRTY]], NOW_MS))
    assert parsed == 0, "who wrote it knows what it says"
    between.checkpoint({DIRTY: 4})
    (found,) = manager.eligibility([between.logs[DIRTY]], NOW_MS)
    assert (found.first_dirty_offset, parsed) == (4, 1)
