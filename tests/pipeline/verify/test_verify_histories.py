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
