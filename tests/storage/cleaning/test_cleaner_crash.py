"""Power loss in clean passes over special segments: unsynced ones, and those that lose every record.

`test_crash_lives` has whole histories of a partition, and power losses in recovery.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.storage.logs.log import Log
from support.disk.crash_files import CrashFiles, disks_left
from support.logs.make_log import Producer, all_batches, append, clean, data_records, make_log
from support.sizes import size


def committed(log: Log) -> dict[bytes | None, bytes | None]:
    """Return the values of a read_committed reader, by the log's own transaction index."""
    values: dict[bytes | None, bytes | None] = {}
    aborted = log.aborted_transactions(0, log.log_end_offset)
    for each in all_batches(log):
        in_aborted = each.is_transactional and any(
            txn.producer_id == each.producer_id and txn.first_offset <= each.base_offset <= txn.last_offset
            for txn in aborted
        )
        if not each.is_control and not in_aborted:
            values.update((record.key, record.value) for record in each.records())
    return {key: value for key, value in values.items() if value is not None}


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_an_unsynced_value_does_not_displace_a_synced_one(ordered: bool) -> None:
    """Sealed segments may wait for their sync; a pass that drops older values syncs them first."""
    files = CrashFiles()
    log = make_log(files, segment_bytes=1 << 20)
    append(log, ("a", "1"), roll=True)
    log.flush(1_000)
    log.close(1_000)
    files.sync_all()

    def scenario(files: CrashFiles) -> None:
        log = make_log(files, recovery_point=1)
        append(log, ("a", "2"), roll=True)
        log.config = replace(log.config, segment_bytes=1)  # each segment is a group by itself
        clean(log)

    states = 0
    for disk, _ in disks_left(scenario, files, ordered=ordered, owed=lambda: None, one_in=size(3, 1)):
        states += 1
        assert committed(make_log(disk, recovery_point=1))[b"a"] in (b"1", b"2")
    assert states > size(20, 50)


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_a_value_whose_successors_commit_marker_is_unsynced_is_kept(ordered: bool) -> None:
    """The marker is in the active segment. Without it the newer value is undecided, and its outcome open."""
    files = CrashFiles()
    log = make_log(files, segment_bytes=1 << 20)
    append(log, ("a", "1"), roll=True)
    log.close(1_000)
    files.sync_all()

    def scenario(files: CrashFiles) -> None:
        log = make_log(files, recovery_point=1)
        producer = Producer(log, 7, transactional=True)
        producer.write(("a", "2"))
        log.roll(1_000)
        producer.commit()
        log.config = replace(log.config, segment_bytes=1)
        clean(log)

    states = 0
    for disk, _ in disks_left(scenario, files, ordered=ordered, owed=lambda: None, one_in=size(3, 1)):
        states += 1
        log = make_log(disk, recovery_point=1)
        decided = [each for each in all_batches(log) if each.last_offset < log.last_stable_offset]
        assert [record.value for record in data_records(decided)][-1:] in ([b"1"], [b"2"])
    assert states > size(20, 50)


def test_a_deleted_key_does_not_return_with_a_groups_last_segments() -> None:
    """The last two of the group's three segments lose every record; a start does not know that they belonged to the group."""
    files = CrashFiles()
    log = make_log(files, delete_retention_ms=10)
    append(log, ("a", "1"), roll=True)
    append(log, ("k", "1"), roll=True)
    append(log, ("b", "1"), ("k", None), roll=True)
    log.config = replace(log.config, segment_bytes=1)
    # The map ends with `b`: the tombstone gets its horizon, and the value stays.
    first_dirty, _ = clean(log, now_ms=2_000, max_entries=3)
    assert first_dirty == 3 and committed(log) == {b"a": b"1", b"b": b"1"}
    group_bytes = log.size_bytes
    log.config = replace(log.config, segment_bytes=1 << 20)
    append(log, ("b", "2"), now_ms=3_000, roll=True)
    append(log, ("c", "1"), now_ms=3_000, roll=True)
    log.close(3_000)
    files.sync_all()

    def pass_over(disk: CrashFiles) -> Log:
        log = make_log(disk, clean_shutdown=True, segment_bytes=group_bytes)
        clean(log, first_dirty, now_ms=5_000)
        return log

    def bases(log: Log) -> list[int]:
        return [segment.base_offset for segment in log.segments]

    assert bases(pass_over(files.copy())) == [0, 4, 6]
    left = disks_left(pass_over, files, ordered=False, owed=lambda: None, one_in=size(4, 1))
    logs = [make_log(disk) for disk, _ in left]
    assert [0, 2, 4, 5, 6] in map(bases, logs), "the third segment comes back, but the second only with it"
    assert not [log for log in logs if committed(log) != {b"a": b"1", b"b": b"2", b"c": b"1"}]
