"""Random histories, each of whose passes the server and the pipeline do on copies of one disk: no byte may differ.

Others run every night, in two processes: a thousand of each kind in `compat.spark_histories`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

pytest.importorskip("numpy")

from ottla.pipeline.compaction.group_results import GroupResult
from ottla.pipeline.compaction.plan import CompactionPlan
from ottla.pipeline.compaction.staging import group_directory
from support.cleaner.cleaner_history import describe_failure, random_ages, random_history, random_versions
from support.cleaner.histories import run_histories
from support.disk.crash_files import CrashFiles
from support.pipeline.compaction_pair import CompactionPair, run_locally
from support.sizes import size

HISTORIES = size((5, 8, 17, 21, 23), range(100))
"""The histories of a short run: together they contain every event."""


def test_the_pipelines_output_is_the_servers_byte_for_byte() -> None:
    met: Counter[str] = Counter()
    for number in HISTORIES:
        name = f"pipeline {number}"
        try:
            met += random_history(name).run(CompactionPair).met
        except Exception:  # noqa: BLE001 -- whatever it is, it is the finding
            pytest.fail(describe_failure(name, CompactionPair))
    # A change that makes the histories less varied must fail here.
    assert not {what for what in EVERYTHING if met[what] < size(1, 3)}


def test_records_with_versions_give_the_servers_output_as_well() -> None:
    met = run_histories(random_versions, range(size(6, 100)), CompactionPair)
    assert met["a pass compared"] and met["records below the border"] and met["records of one key below the border"]


def test_records_with_ages_give_the_servers_output_as_well() -> None:
    met = run_histories(random_ages, range(size(6, 100)), CompactionPair)
    assert met["a pass for the age of keys alone compared"] and met["gone: aged"]


EVERYTHING = {
    *("a plan without sources", "a pass compared", "several groups", "a group of several segments"),
    *("records below the border", "a border in a segment", "records of one key below the border"),
    *("aborted transactions", "a transaction over a border"),
    *(f"gone: {reason}" for reason in ("superseded", "keyless", "tombstones", "aborted", "markers")),
}


def test_the_comparison_notices_a_different_byte() -> None:
    class Careless(CompactionPair):
        @staticmethod
        def compact(plan: CompactionPlan, files: CrashFiles) -> Sequence[GroupResult]:
            results = run_locally(plan, files)
            path = f"{group_directory(plan, 0)}/{plan.group_base(0):020}.log"
            files.open(path).append(b"\0")
            return results

    pair = Careless()
    pair.write()
    pair.roll()
    with pytest.raises(AssertionError):
        pair.compare(None)


def test_a_tombstone_gets_its_horizon_in_one_pass_and_is_removed_later() -> None:
    pair = CompactionPair(delete_retention_ms=300)
    for pairs, ms in (([(b"a", b"1")], 0), ([(b"a", None)], 0), ([(b"b", b"1")], 299), ([(b"b", b"2")], 1)):
        pair.write(pairs)
        pair.wait(ms)
        pair.clean(seal=True)
    assert [record.key for batch in pair.model.batches for record in batch.records] == [b"b"]
    assert pair.met["gone: tombstones"] > 0
