"""The checks of `compat.main_job`: a pass without a written checkpoint is not a loss, and a loss is reported."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from compat.main_job.model import Model, Reading

KEYS = (0, 1, 2, 0, 1, 2, 0, 3, 1, 3, 0, 4)
"""Keys of the updates, whose offsets are their numbers; the newest of each key are at 5, 8, 9, 10 and 11."""
BASES = (0, 4, 8)


def read(
    lacking: Collection[int], first_dirty_offset: int, bases: Sequence[int] = BASES, *, are_as_read: bool = True
) -> list[str]:
    """Return the errors of a log that lacks these offsets."""
    model = Model(len(KEYS), 5, 1_000, seed=1)
    for update, key in enumerate(KEYS):
        model.keys[update] = key
        model.acknowledge(update, update)
    reading = Reading(model)
    for offset in range(len(KEYS)):
        if offset not in lacking:
            reading.see(offset, model.timestamp_ms(offset), model.key(offset), model.value(offset))
    reading.finish(first_dirty_offset, bases, are_as_read=are_as_read)
    return reading.faults


FINE = {
    "nothing was cleaned": ((), 0),
    "a pass up to 8, with its checkpoint": ((0, 1, 2, 3), 8),
    "a pass up to 8 that ended before its checkpoint": ((0, 1, 2, 3), 0),
    "a pass whose map had room up to 4 only": ((0, 1), 0),
    "a pass up to 4 before, and one up to 8 that ended before its checkpoint": ((0, 1, 2, 3), 4),
}


@pytest.mark.parametrize("case", FINE)
def test_a_pass_interrupted_between_swap_and_checkpoint_has_lost_nothing(case: str) -> None:
    lacking, first_dirty_offset = FINE[case]
    assert read(lacking, first_dirty_offset) == []


LOST = {
    "the newest of a key": ((5,), 0, "key 2: its newest update, acknowledged at 5, is lost"),
    "one of a segment in which others are superseded as well": ((1,), 0, "0, superseded as well, is there"),
    "one of a segment that was not cleaned": ((0, 1, 2, 3, 6), 0, "superseded in the active segment, at 10"),
    "one of the active segment": ((0, 1, 2, 3, 8), 0, "key 1: its newest update"),
    "one that only the active segment supersedes": ((4,), 4, "superseded in the active segment, at 8"),
}


@pytest.mark.parametrize("case", LOST)
def test_a_loss_is_found(case: str) -> None:
    lacking, first_dirty_offset, told = LOST[case]
    faults = read(lacking, first_dirty_offset)
    assert len(faults) == 1 and told in faults[0]


def test_a_superseded_record_of_the_active_segment_may_not_be_lost() -> None:
    (fault,) = read((9,), 0, (0, 4, 7))
    assert fault.startswith("key 3")
    (fault,) = read((7,), 0, (0, 4, 7))
    assert fault == "offset 7 and 0 more are lost above the first dirty offset 0: in the active segment"


def test_the_active_segment_is_judged_even_if_segments_changed_during_the_read() -> None:
    assert read((1,), 0, are_as_read=False) == []
    assert len(read((7,), 0, (0, 4, 7), are_as_read=False)) == 1
    assert len(read((6,), 0, are_as_read=False)) == 1
