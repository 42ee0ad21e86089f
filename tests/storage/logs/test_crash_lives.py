"""Power loss before every operation of a compacted partition's history, and before every operation of the recovery.

Tests only a part of the possible disks; `python -m compat.crashes` goes through all of them. `pytest -s` prints their
number.
"""

from __future__ import annotations

import inspect

import pytest

from support.disk import crash_subsets
from support.lives.crash_lives import LIVES
from support.sizes import FULL, size

THINNED_TO = {
    "a pass while somebody appends": 48,
    "a group whose last segments lose everything": 8,
    "a second pass on top": 12,
    "two passes, as the map is small": 48,
    "retention": 16,
    "a split at start": 32,
    "segments that become empty": 4,
    "a start, an abort, a roll": 4,
}
"""One in this number of disks is examined. Power is lost again in the recovery of one in RECOVERY_THINNED_TO of those; in
histories without an entry there, of each.
"""
RECOVERY_THINNED_TO = 24
CHANGES_MAX = size(6, crash_subsets.CHANGES_MAX)
LOST_AT_MOST = size(1, 2)
"""Up to this number of unsynced directory operations each subset is tried; of more operations, only subsets that lack few."""


@pytest.mark.scenario(41, 123, 129, 130, 131, 132, 133, 210)
@pytest.mark.parametrize("name", LIVES)
def test_the_log_has_the_same_meaning_after_any_power_loss(name: str) -> None:
    thinned_to = THINNED_TO.get(name, 1) * size(32 if name in THINNED_TO else 12, 1)
    search = LIVES[name].search(
        losses=2,
        thinned_to=thinned_to,
        recover_thinned_to=RECOVERY_THINNED_TO if name in THINNED_TO else 1,
        later_thinned_to=thinned_to,
        changes_max=CHANGES_MAX,
        lost_at_most=LOST_AT_MOST,
    )
    print(f"{name}: {search.counts}")
    assert not search.counts.failures
    assert search.counts.after_one_loss > size(4, 50) and (search.counts.after_more > 0 or not FULL)


@pytest.mark.parametrize(
    ("name", "function", "thinned_to", "lost_at_most"),
    [
        ("a group whose last segments lose everything", "change_suffix", 8, 2),
        ("a split at start", "swap_files", 32, size(1, 2)),
        ("a start, an abort, a roll", "flush", size(16, 4), size(1, 2)),
    ],
)
def test_the_search_notices_syncs_without_effect(name: str, function: str, thinned_to: int, lost_at_most: int) -> None:
    """A search that finds nothing wrong must be able to find something."""
    search = LIVES[name].search(
        losses=1,
        thinned_to=thinned_to,
        wrong_max=1,
        skipped=lambda _: is_called_by(function),
        changes_max=CHANGES_MAX,
        lost_at_most=lost_at_most,
    )
    assert search.counts.failing


def is_called_by(function: str) -> bool:
    """Return whether a function of that name is on the stack."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame is not None
