"""The explanation of a log agrees with what happens: why it is not cleaned, when and how it will be, what a pass would remove.

Every step of random histories is compared with the model; a thousand of them run in `compat.explained`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from support.cleaner.cleaner_history import History, Step, describe_failure, random_history
from support.cleaner.explained_pair import ExplainedPair
from support.sizes import size

HISTORIES = size((15, 26, 55, 89), (*range(60), 89))
"""The histories of a short run: together they contain every event."""


def test_explanations_of_random_histories_come_true() -> None:
    met: Counter[str] = Counter()
    for number in HISTORIES:
        try:
            met += random_history(f"explained {number}").run(ExplainedPair).met
        except Exception:  # noqa: BLE001 -- whatever it is, it is the finding
            pytest.fail(describe_failure(f"explained {number}", ExplainedPair))
    assert not {what for what in EVERYTHING if met[what] < size(1, 3)}


EVERYTHING = {
    "only time is missing",
    "a roll told",
    "a dry run",
    "a dry run of a forced pass",
    *(f"waits for {what}" for what in ("nothing", "all_clean", "active_segment", "open_transaction")),
    *(f"waits for {what}" for what in ("min_compaction_lag", "below_min_ratio", "not_compacted")),
    *(f"a way: {moves}" for moves in ("roll", "end_transactions", "no_min_compaction_lag", "compact_policy")),
    *(f"a way: {moves}" for moves in ("lower_min_cleanable_dirty_ratio", "roll, end_transactions")),
    *(f"a record that goes: {why}" for why in ("superseded", "tombstones", "aborted")),
    *(f"a record that stays: {why}" for why in ("newest", "bound", "no_horizon_yet", "delete_horizon")),
    "a record that stays: superseded_beyond_bound",
}


def test_the_comparison_finds_a_wrong_explanation() -> None:
    pair = History([Step("write"), Step("write")]).run(ExplainedPair)
    assert isinstance(pair, ExplainedPair)
    pair.model.roll(pair.now_ms)
    with pytest.raises(AssertionError):
        pair.assert_explained()
