"""Segments that retention deletes, by start offset, size and age, and the state of the log afterwards."""

import errno
from typing import Any

import pytest

from ottla.storage.logs import log as log_module
from ottla.storage.logs.log import Log
from ottla.storage.logs.retention import deletable_segments, may_have_deletable
from support.logs.batches import batch
from support.logs.make_log import append, delete_old_segments, make_log, remove_deleted, reopen

DELETE = ("delete",)
BOTH = ("compact", "delete")
OLD_MS = 1_000
ONE_BYTES = len(batch(("k0", "v")))


def filled(count: int = 10, *, timestamps: list[int] | None = None, **config: Any) -> Log:
    """Return a log of one-record segments, the last of them active; by default records are at OLD_MS."""
    options: dict[str, Any] = {"cleanup_policy": DELETE, "retention_ms": -1}
    log = make_log(**options | config)
    for number, timestamp in enumerate(timestamps or [OLD_MS] * count):
        if number:
            log.roll(timestamp)
        append(log, (f"k{number}", "v"), timestamp=timestamp, now_ms=timestamp)
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.mark.scenario(152, 153, 154, 155, 156, 157, 158)
@pytest.mark.parametrize(
    "config, log_start_offset, now_ms, deleted",
    [
        pytest.param({}, 0, 10**12, 0, id="no limits"),
        pytest.param({"retention_ms": 50}, 0, OLD_MS + 50, 0, id="just not too old"),
        pytest.param({"retention_ms": 50}, 0, OLD_MS + 51, 10, id="too old, the active one as well"),
        pytest.param({"retention_ms": 0}, 0, OLD_MS, 0, id="nothing is older than now"),
        pytest.param(
            {"retention_ms": 50, "cleanup_policy": ("compact",)}, 0, 10**12, 0, id="compact alone keeps old ones"
        ),
        pytest.param({"retention_ms": 50, "cleanup_policy": BOTH}, 0, 10**12, 10, id="compact,delete does not"),
        pytest.param({"retention_ms": 50, "cleanup_policy": ()}, 0, 10**12, 0, id="an empty policy keeps everything"),
        pytest.param({"retention_bytes": 10 * ONE_BYTES}, 0, 0, 0, id="size within the limit"),
        pytest.param({"retention_bytes": 9 * ONE_BYTES}, 0, 0, 1, id="one segment over the limit"),
        pytest.param({"retention_bytes": 9 * ONE_BYTES + 1}, 0, 0, 0, id="less than one segment over it"),
        pytest.param({"retention_bytes": 2 * ONE_BYTES - 1}, 0, 0, 8, id="two segments stay"),
        pytest.param({"retention_bytes": 0}, 0, 0, 10, id="nothing is to be kept"),
        pytest.param(
            {"retention_bytes": 0, "cleanup_policy": ("compact",)}, 0, 0, 0, id="compact alone keeps any size"
        ),
        pytest.param({"cleanup_policy": ("compact",)}, 3, 0, 3, id="below the log start, compacted"),
        pytest.param({"cleanup_policy": ()}, 3, 0, 3, id="below the log start, empty policy"),
        pytest.param({}, 10, 0, 9, id="the active segment stays even wholly below the log start"),
        pytest.param({"retention_bytes": 6 * ONE_BYTES}, 3, 0, 4, id="size counts what the log start leaves"),
        pytest.param(
            {"retention_bytes": 8 * ONE_BYTES, "retention_ms": 50}, 0, OLD_MS + 51, 10, id="age goes on after size"
        ),
    ],
)
def test_what_retention_takes(config: dict[str, Any], log_start_offset: int, now_ms: int, deleted: int) -> None:
    log = filled(**config)
    log.advance_log_start(log_start_offset)
    assert [segment.base_offset for segment in deletable_segments(log, now_ms)] == list(range(deleted))
    assert may_have_deletable(log, now_ms) == (deleted > 0)
    assert delete_old_segments(log, now_ms, now_ms) == deleted
    assert not may_have_deletable(log, now_ms)
    assert bases(log) == list(range(deleted, 10)) or bases(log) == [10]


def test_what_cannot_be_read_yet_or_not_without_the_disk_is_not_settled_by_the_oldest_segment() -> None:
    old = filled(retention_ms=50, flush_messages=1)
    assert not may_have_deletable(old, 10**12), "nothing is below the high watermark"
    old.flush(0)
    assert may_have_deletable(old, 10**12)
    young = reopen(filled(retention_ms=50))
    assert may_have_deletable(young, OLD_MS), "its age is not known"
    young.segments.first.learn_age()
    assert not may_have_deletable(young, OLD_MS)
    offline = filled(retention_ms=50)
    assert may_have_deletable(offline, 10**12)
    offline.fail(OSError(errno.EIO, "Input/output error"))
    assert not may_have_deletable(offline, 10**12), "the operator hears of it once, not at each round"


@pytest.mark.parametrize("at_once", [1, 3, 9, 10, 11])
@pytest.mark.parametrize("policy", [DELETE, BOTH])
def test_many_segments_go_in_several_steps(
    at_once: int, policy: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "SEGMENTS_AT_ONCE", at_once)
    log = filled(retention_ms=50, retention_bytes=8 * ONE_BYTES, cleanup_policy=policy)
    log.advance_log_start(1)
    first = log.begin_deletion(OLD_MS + 51)
    assert first is not None and first.has_more == (at_once <= 10)
    first.rename_files()
    log.end_deletion(first, 0)
    assert len(first.renamed) == min(at_once, 10)
    assert delete_old_segments(log, OLD_MS + 51, 0) == max(0, 10 - at_once)
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (10, 10, [10])
    remove_deleted(log, 10**9)
    assert not [name for name in log.files.list(log.directory) if name.endswith(".deleted")]


def test_the_first_young_segment_ends_the_deletion() -> None:
    log = filled(timestamps=[10, 20, 500, 30, 40], retention_ms=100)
    assert delete_old_segments(log, 200, 200) == 2
    assert bases(log) == [2, 3, 4]


def test_a_segment_is_as_old_as_its_youngest_record() -> None:
    log = make_log(cleanup_policy=DELETE, retention_ms=100)
    append(log, ("a", "v"), timestamp=500)
    append(log, ("b", "v"), timestamp=10, roll=True)
    append(log, ("c", "v"), timestamp=700)
    assert delete_old_segments(log, 600, 600) == 0
    assert delete_old_segments(log, 601, 601) == 1


def test_without_timestamps_the_files_age_counts() -> None:
    log = filled(timestamps=[-1, -1], retention_ms=100)
    log.files.set_mtime_ms(f"{log.directory}/{0:020}.log", 1_000)
    log.files.set_mtime_ms(f"{log.directory}/{1:020}.log", 2_000)
    assert delete_old_segments(log, 1_101, 1_101) == 1


@pytest.mark.scenario(161)
def test_offsets_go_on_after_everything_was_deleted() -> None:
    log = filled(retention_ms=50)
    assert delete_old_segments(log, 10**6, 10**6) == 10
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (10, 10, [10])
    assert delete_old_segments(log, 10**6, 10**6) == 0
    assert append(log, ("k", "v")) == 10
    log = reopen(log)
    assert (log.log_start_offset, log.log_end_offset) == (10, 11)


@pytest.mark.scenario(162)
def test_an_empty_active_segment_is_never_deleted() -> None:
    log = filled(retention_ms=50)
    log.roll(OLD_MS)
    assert [segment.base_offset for segment in deletable_segments(log, 10**6)] == list(range(10))
    assert delete_old_segments(log, 10**6, 10**6) == 10
    assert bases(log) == [10]


def test_the_log_start_moves_to_the_first_segment_that_stays() -> None:
    log = filled(retention_bytes=4 * ONE_BYTES)
    delete_old_segments(log, 0, 0)
    assert log.log_start_offset == 6
    assert log.leader_epochs.entries == ((0, 6),)


def test_a_log_start_within_a_segment_is_not_moved_back() -> None:
    log = make_log()
    for roll in (True, False):
        append(log, ("a", "v"), ("b", "v"), ("c", "v"), roll=roll)
    log.advance_log_start(4)
    assert delete_old_segments(log, 0, 0) == 1
    assert log.log_start_offset == 4


def test_deleted_files_stay_for_their_delay() -> None:
    log = filled(count=3, retention_bytes=ONE_BYTES, file_delete_delay_ms=500)
    delete_old_segments(log, 1_000, 1_000)
    deleted = [name for name in log.files.list(log.directory) if name.endswith(".deleted")]
    assert len(deleted) == 6
    remove_deleted(log, 1_499)
    assert [name for name in log.files.list(log.directory) if name.endswith(".deleted")] == deleted
    remove_deleted(log, 1_500)
    assert not [name for name in log.files.list(log.directory) if name.endswith(".deleted")]


@pytest.mark.scenario(147)
def test_snapshots_go_with_their_segments() -> None:
    log = filled(retention_ms=50)
    assert len([name for name in log.files.list(log.directory) if "snapshot" in name]) == 9
    delete_old_segments(log, 10**6, 10**6)
    assert [name for name in log.files.list(log.directory) if "snapshot" in name] == [f"{10:020}.snapshot"]


@pytest.mark.scenario(166)
def test_producers_are_remembered_although_their_records_are_gone() -> None:
    log = make_log(cleanup_policy=DELETE, retention_ms=10)
    append(log, ("k", "v"), producer_id=5, roll=True)
    delete_old_segments(log, 10**6, 10**6)
    state = log.producers.get(5)
    assert state is not None and state.last_sequence == 0
