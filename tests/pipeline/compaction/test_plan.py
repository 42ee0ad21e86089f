"""Plans: their content, that they are read back unchanged, and their form in the staging directory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.pipeline.compaction.plan import CompactionPlan, make_plan
from ottla.pipeline.compaction.staging import check_sources, load_plan, pending_plans, save_plan
from ottla.pipeline.errors import CorruptSourceError, SourceChangedError, UsageError
from ottla.storage.disk import paths
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.filter.transaction_state import CarriedTransactions
from ottla.storage.logs.log import Log
from ottla.storage.produce.producer_state import LastRecord
from ottla.storage.segment.index import AbortedTxn
from support.disk.crash_files import CrashFiles
from support.logs.make_log import SECRET, TP, Producer, append, make_log
from support.pipeline.stored_log import stored

NOW_MS = 2_000


def log_with_transactions() -> Log:
    """Return two transactions over three segments of two batches each: 1 is aborted in the second, 2 committed in the third."""
    log = make_log(segment_bytes=1 << 20)
    aborting, committing = Producer(log, 1, transactional=True), Producer(log, 2, transactional=True)
    aborting.write("a")
    committing.write("b")
    log.roll(NOW_MS)
    aborting.abort()
    committing.write("c")
    log.roll(NOW_MS)
    committing.commit()
    append(log, ("d", "1"))
    log.roll(NOW_MS)
    return log


def plan_of(log: Log, checkpoint: int | None = None) -> CompactionPlan:
    return make_plan(stored(log), data_dir="/data", checkpoint=checkpoint, now_ms=NOW_MS, secret=SECRET)


def test_a_plan_carries_the_cleaners_transactions_at_each_segments_start() -> None:
    plan = plan_of(log_with_transactions())
    aborted = AbortedTxn(1, 0, 2, 1)
    assert [source.transactions for source in plan.sources] == [
        CarriedTransactions(),
        CarriedTransactions(aborting=((aborted, True),), committing=(2,)),
        CarriedTransactions(committing=(2,)),
    ]
    assert [source.aborted for source in plan.sources] == [(aborted,), (aborted,), ()]
    assert [(source.base_offset, source.end_offset) for source in plan.sources] == [(0, 2), (2, 4), (4, 6)]
    assert [source.record_count for source in plan.sources] == [2, 2, 2]
    assert plan.last_records == {1: LastRecord(0, 0), 2: LastRecord(3, 0)}
    assert plan.groups == ((0, 1, 2),)


def test_a_plan_reads_back_as_written() -> None:
    plan = plan_of(log_with_transactions())
    again = CompactionPlan.from_json(plan.to_json())
    assert again == plan
    assert again.plan_id == plan.plan_id


def test_every_field_of_a_plan_is_part_of_its_id() -> None:
    plan = plan_of(log_with_transactions())
    others = [
        replace(plan, now_ms=plan.now_ms + 1),
        replace(plan, secret=bytes(16)),
        replace(plan, groups=((0,), (1,), (2,))),
        replace(plan, sources=(replace(plan.sources[0], headers_crc=1), *plan.sources[1:])),
        replace(plan, config={**plan.config, "delete_retention_ms": 1}),
    ]
    assert len({each.plan_id for each in (plan, *others)}) == 6


def test_a_clean_log_gives_a_plan_without_sources() -> None:
    log = log_with_transactions()
    assert plan_of(log, checkpoint=6).sources == ()
    assert plan_of(log, checkpoint=5).sources != ()


def test_a_topic_that_is_not_compacted_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^t-0: cleanup\.policy is 'delete', only compacted topics"):
        plan_of(make_log(cleanup_policy=("delete",)))


def test_a_segment_with_decreasing_offsets_is_refused_with_its_position() -> None:
    log = log_with_transactions()
    path = paths.log_path(log.directory, 2)
    first = log.segments.first
    log.files.open(path).append(first.log_file.read_at(0, first.size_bytes))
    log.segments.add(type(first).open(log.files, log.directory, 2, log.config, 0))
    with pytest.raises(CorruptSourceError) as raised:
        plan_of(log)
    size_bytes = log.files.size(path) - first.size_bytes
    assert str(raised.value).startswith(f"{path}, byte {size_bytes}, offset 0: expected offsets from 4 on")


def test_a_segment_that_overlaps_the_next_is_refused_with_its_position() -> None:
    log = log_with_transactions()
    assert isinstance(log.files, CrashFiles)
    path = paths.log_path(log.directory, 2)
    data = bytearray(log.files.snapshot()[path])
    position = int.from_bytes(data[8:12]) + 12  # its second batch
    data[position + 6] = 1
    log.files.open(path, truncate=True).append(data)
    with pytest.raises(CorruptSourceError) as raised:
        plan_of(log)
    where = f"{path}, byte {position}, offset 259"
    assert (
        str(raised.value)
        == f"{where}: expected offsets below 4, where the next segment begins, found offsets up to 259"
    )


def saved() -> tuple[CrashFiles, CompactionPlan]:
    log = log_with_transactions()
    assert isinstance(log.files, CrashFiles)
    plan = plan_of(log)
    log.files.sync_all()
    save_plan(log.files, plan)
    return log.files, plan


def test_a_plan_next_to_the_data_directory_is_pending_until_its_removal() -> None:
    files, plan = saved()
    assert plan.staging == f"/data.ottla-pipeline/{plan.plan_id}"
    assert load_plan(files, plan.staging) == plan
    assert pending_plans(files, "/data") == pending_plans(files, "/data", TP) == [plan]
    assert pending_plans(files, "/data", TopicPartition("t", 1)) == pending_plans(files, "/elsewhere") == []
    files.remove_dir(plan.staging)
    assert pending_plans(files, "/data") == []


def test_a_plan_survives_a_loss_of_power_once_it_is_saved() -> None:
    files, plan = saved()
    for disk in files.after_crash(ordered=False):
        assert load_plan(disk, plan.staging) == plan


def test_a_plan_is_saved_once() -> None:
    files, plan = saved()
    with pytest.raises(FileExistsError):
        save_plan(files, plan)
    assert files.list(plan.staging) == ["plan.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', '{"version": 2, "secret": "x"}'])
def test_an_invalid_plan_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="plan"):
        CompactionPlan.from_json(text)


def test_a_plan_under_another_name_is_refused() -> None:
    files, plan = saved()
    files.rename(plan.staging, f"/data.ottla-pipeline/{'0' * 32}")
    with pytest.raises(UsageError, match=f"expected the plan {'0' * 32}, found {plan.plan_id}"):
        pending_plans(files, "/data")


def test_segments_changed_since_the_plan_are_found() -> None:
    files, plan = saved()
    check_sources(files, plan)
    path = paths.log_path(plan.directory, 2)
    for content, text in ((None, "found no file"), (b"", "bytes as planned, found 0")):
        disk = files.copy()
        disk.remove(path)
        if content is not None:
            disk.open(path, create=True).append(content)
        with pytest.raises(SourceChangedError, match=f"{path}: expected .*{text}"):
            check_sources(disk, plan)
        check_sources(disk, plan, (0, 2))
    disk = files.copy()
    data = bytearray(disk.snapshot()[path])
    data[43] ^= 1  # a producer id
    disk.open(path, truncate=True).append(data)
    with pytest.raises(SourceChangedError, match=f"{path}: expected batch headers of CRC 0x"):
        check_sources(disk, plan)
