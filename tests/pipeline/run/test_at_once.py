"""Work on many partitions: results in their order, some at a time, and the effect of one failure on the others."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from ottla.pipeline.errors import CorruptSourceError, PipelineError, SourceChangedError, SparkFailedError
from ottla.pipeline.run import at_once as partitions_at_once
from ottla.pipeline.run.at_once import run_each
from ottla.pipeline.run.engine import Engine
from ottla.pipeline.run.job_results import PartitionResult
from ottla.storage.disk.paths import TopicPartition

PATIENCE_S = 60
AT_ONCE = [1, 3]


class Others(Engine):
    """A session's, as far as partitions are worked on at the same time."""

    def __init__(self, give_up: Callable[[], None] = lambda: None) -> None:
        super().__init__(None)
        self._give_up = give_up

    def give_up(self) -> None:
        self._give_up()


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in range(count)]


def done(tp: TopicPartition) -> PartitionResult:
    return PartitionResult(topic="t", partition=tp.partition, outcome="staged")


def worked(
    work: Callable[[TopicPartition], PartitionResult], count: int, at_once: int, *, skips_corrupt: bool = False
) -> list[PartitionResult]:
    """Return the results for partitions 0 to `count`."""
    return run_each(Others(), work, partitions(count), at_once=at_once, skips_corrupt=skips_corrupt)


@pytest.mark.parametrize("at_once", AT_ONCE)
def test_results_are_in_order(at_once: int) -> None:
    assert [each.partition for each in worked(done, 10, at_once)] == [*range(10)]


def test_so_many_are_worked_on_at_a_time() -> None:
    together = threading.Barrier(3)

    def work(tp: TopicPartition) -> PartitionResult:
        together.wait(PATIENCE_S)
        return done(tp)

    assert len(worked(work, 9, 3)) == 9


@pytest.mark.parametrize("at_once", AT_ONCE)
def test_the_first_failure_is_raised_when_all_others_are_done_and_has_their_results(at_once: int) -> None:
    def work(tp: TopicPartition) -> PartitionResult:
        if tp.partition == 4:
            raise SourceChangedError("another one")
        if tp.partition in (2, 6):
            raise CorruptSourceError(f"damage {tp.partition}")
        return done(tp)

    with pytest.raises(CorruptSourceError, match="damage 2") as raised:
        worked(work, 8, at_once)
    found = {each.partition: (each.outcome, each.reason) for each in raised.value.results}
    failed = {2: "damage 2", 4: "another one", 6: "damage 6"}
    assert found == {number: ("failed", failed[number]) if number in failed else ("staged", "") for number in range(8)}
    with pytest.raises(SourceChangedError) as raised_beside:
        worked(work, 8, at_once, skips_corrupt=True)
    assert [each.outcome for each in raised_beside.value.results].count("skipped") == 2


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.ENOSPC, SparkFailedError, "/a: No space left on device"),
        (errno.EACCES, PipelineError, "/a: Permission denied"),
    ],
)
def test_a_disks_refusal_is_a_failure_of_one_partition(number: int, kind: type[PipelineError], text: str) -> None:
    def work(tp: TopicPartition) -> PartitionResult:
        if tp.partition == 0:
            raise OSError(number, "No space left on device" if number == errno.ENOSPC else "Permission denied", "/a")
        return done(tp)

    with pytest.raises(kind) as raised:
        worked(work, 2, 1)
    assert str(raised.value) == text
    assert [each.outcome for each in raised.value.results] == ["failed", "staged"]


def test_a_job_that_begins_when_others_were_ended_already_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions_at_once, "GIVE_UP_EVERY_S", 0.01)
    begun, ended, interrupted = threading.Event(), threading.Event(), threading.Event()
    together = threading.Barrier(2)

    def work(tp: TopicPartition) -> PartitionResult:
        together.wait(PATIENCE_S)
        if tp.partition == 0:
            raise KeyboardInterrupt
        assert interrupted.wait(PATIENCE_S)
        begun.set()  # work that `give_up` ended before did not end this
        assert ended.wait(PATIENCE_S)
        return done(tp)

    def give_up() -> None:
        if begun.is_set():
            ended.set()
        interrupted.set()

    with pytest.raises(KeyboardInterrupt):
        run_each(Others(give_up), work, partitions(2), at_once=2)
    assert ended.is_set()


def test_who_is_interrupted_ends_what_runs_and_begins_no_other() -> None:
    ended = threading.Event()
    begun: list[int] = []

    def work(tp: TopicPartition) -> PartitionResult:
        begun.append(tp.partition)
        if tp.partition == 0:
            raise KeyboardInterrupt
        assert ended.wait(PATIENCE_S)
        return done(tp)

    with pytest.raises(KeyboardInterrupt):
        run_each(Others(ended.set), work, partitions(9), at_once=2)
    assert len(begun) < 9
