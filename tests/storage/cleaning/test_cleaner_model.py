"""Random histories through the real cleaner and the model, with equal results.

Ten thousand of them run every night, in `compat.cleaner_histories`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from support.cleaner.cleaner_history import CONFIG, History, Step, describe_failure, random_history, shrink
from support.sizes import size

HISTORIES = size((16, 25, 36, 65, 71, 203, 240, 253, 275, *range(2)), range(300))
"""The histories of a short run: some that together contain every event, and a few more."""


def test_random_histories_match_the_model() -> None:
    met: Counter[str] = Counter()
    for number in HISTORIES:
        try:
            met += random_history(number).run().met
        except Exception:  # noqa: BLE001 -- whatever it is, it is the finding
            pytest.fail(describe_failure(number))
    # A change that makes the generator less varied must fail here.
    assert not {what for what in EVERYTHING if met[what] < size(1, 3)}


def test_a_marker_rolls_a_segment_whose_time_index_is_full_after_a_power_loss() -> None:
    """An append that made the indexes ready before it asked for their room removed the final entry, and did not roll."""
    History(
        [
            Step("write", [(b"c", None)]),
            Step("clean", seal=True, give_up_after=1),
            Step("write", [(b"l" * 60, b"")], producer=1, transactional=True),
            Step("fit_groups", 2, "index"),
            Step("clean"),
            Step("lose_power", 3),
            Step("end_txn", 1, 0),
        ]
    ).run()


EVERYTHING = {
    *CONFIG,
    "holes",
    *(
        "write",
        "roll",
        "clean",
        "wait",
        "configure",
        "flush",
        "fit_groups",
        "delete_records",
        "retain",
        "forget_idle_producers",
    ),
    *("restart", "kill", "lose_power", "move_checkpoint"),
    *("end_txn", "init_producer", "lone_marker", "send_again"),
    *("a pass", "a pass given up", "a pass given up between two groups"),
    *("a pass killed", "a pass killed between two groups"),
    *("a full map", "a map that ends in a batch", "a first dirty offset in a segment", "segments joined"),
    *("a batch that is not touched", "a batch emptied", "a batch dropped", "a compressed batch rewritten"),
    *("a horizon set", "a horizon kept", "a marker rewritten", "an aborted transaction kept in the index"),
    *("a lower largest timestamp", "another base timestamp"),
    *("an exact count of records", "an exact count of live keys"),
    *(f"removed: {reason}" for reason in ("superseded", "keyless", "tombstones", "aborted", "markers")),
}


def test_the_comparison_finds_a_wrong_pass() -> None:
    pair = History([Step("write"), Step("write"), Step("roll"), Step("clean")]).run()
    (batch,) = pair.model.batches
    pair.model.segments[0].batches = [batch, batch]
    with pytest.raises(AssertionError):
        pair.assert_same()


def test_a_bad_history_shrinks_to_its_cause() -> None:
    def has_two_restarts_and_a_codec(history: History) -> bool:
        names = [step.name for step in history.steps]
        return names.count("restart") >= 2 and any("codec" in step.arguments for step in history.steps)

    found = next(history for number in range(1000) if has_two_restarts_and_a_codec(history := random_history(number)))
    shrunk = shrink(found, has_two_restarts_and_a_codec)
    assert sorted(step.name for step in shrunk.steps) == ["restart", "restart", "write"]
    assert shrunk.config == {}
    (write,) = [step for step in shrunk.steps if step.name == "write"]
    assert write.arguments.keys() == {"codec"} and len(write.places[0]) == 1


def test_a_printed_history_can_be_run_again() -> None:
    history = random_history(7)
    again = eval(repr(history), {"History": History, "Step": Step})
    assert isinstance(again, History)
    assert again.run().model.batches == history.run().model.batches
