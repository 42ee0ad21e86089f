"""Random histories, each of whose passes is verified: the pipeline's by its plan, the server's by a copy from before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from support.cleaner.cleaner_history import History, Step, random_ages, random_history, random_versions
from support.cleaner.histories import run_histories
from support.pipeline.verified_pair import VerifiedPair
from support.sizes import size

HISTORIES = size(2, 30)


def test_results_of_server_and_pipeline_pass_verification() -> None:
    verified = 0
    for number in range(HISTORIES):
        verified += random_history(f"verify {number}").run(VerifiedPair).met["a pass verified"]
    assert verified > HISTORIES


@pytest.mark.parametrize("make", [random_versions, random_ages])
def test_results_with_versions_and_ages_pass_verification(make: Callable[[int | str], History]) -> None:
    numbers = [f"verify {number}" for number in range(HISTORIES)]
    assert run_histories(make, numbers, VerifiedPair)["a pass verified"] > HISTORIES


def test_aborted_data_hidden_by_delete_records_may_remain() -> None:
    """The log start moves the cleaner's checkpoint, past records that no pass has seen."""
    hidden = History(
        [
            Step("write", [(b"a", None)], producer=3, transactional=True),
            Step("end_txn", 3, 0),
            Step("clean", seal=True),
            Step("delete_records", 0.9),
            Step("lose_power", 1),
            Step("clean"),
        ],
        min_compaction_lag_ms=300,
    )
    assert hidden.run(VerifiedPair).met["a pass verified"]


def version(number: int) -> tuple[tuple[str, bytes], ...]:
    return (("v", number.to_bytes(8, "big")),)


def test_versions_of_deleted_records_do_not_count() -> None:
    """The first record is below the log's start, but still in its segment: the second one stays, although its version is lower."""
    deleted = History(
        [
            Step("write", [(b"a", b"1")], headers=version(2)),
            Step("write", [(b"b", b"2")], headers=version(1)),
            Step("delete_records", 0.5),
            Step("write", [(b"a", b"3")], headers=version(1)),
            Step("clean", seal=True),
        ],
        ottla_compaction_strategy="header",
        ottla_compaction_strategy_header="v",
    )
    assert deleted.run(VerifiedPair).met["a pass verified"]


def test_a_record_may_go_for_a_higher_version_of_the_dirty_part() -> None:
    """A pass that was given up has compacted its first segments, but the cleaner's checkpoint is where it was."""
    zero, value, long_key = bytes(4), bytes(6), b"m" * 60
    headers = (("v", None), ("w", (9).to_bytes(8, "big")))
    given_up = History(
        [
            Step("write", [(zero, b""), (long_key, b"2")]),
            Step("clean", seal=True),
            Step("write", [(b"1234", None), (zero, value)], headers=headers, ages_ms=(500, 2000)),
            Step("write", [(zero, None), (long_key, b"2")], headers=headers, ages_ms=(None, 0, 1)),
            Step("write", [(b"c", value)], headers=version(0)),
            Step("write", [(b"f", None), (long_key, b"2")], headers=headers, ages_ms=(2000,)),
            Step("clean", seal=True, give_up_after=24),
        ],
        segment_bytes=250,
        ottla_compaction_strategy="timestamp",
    )
    assert given_up.run(VerifiedPair).met["a pass verified"]


def test_an_open_transaction_hidden_by_delete_records_needs_no_marker() -> None:
    hidden = History(
        [
            Step("write", [(b"a", None)], producer=3, transactional=True),
            Step("wait", 3000),
            Step("write", [(None, None), (b"m" * 60, bytes(6))]),
            Step("delete_records", 0.99),
            Step("clean"),
        ],
        ottla_key_retention_ms=0,
    )
    assert hidden.run(VerifiedPair).met["a pass verified"]
