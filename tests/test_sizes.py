"""How much a slice looks at: `support.sizes`."""

from __future__ import annotations

import pytest

from support import sizes


@pytest.mark.parametrize(
    ("count", "chosen"),
    [(1, [0]), (2, [0, 6]), (3, [0, 3, 6]), (4, [0, 2, 4, 6]), (7, list(range(7))), (9, list(range(7)))],
)
def test_a_slice_has_cases_from_the_first_to_the_last(
    count: int, chosen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "FULL", False)
    assert sizes.some(iter(range(7)), count) == chosen
    monkeypatch.setattr(sizes, "FULL", True)
    assert sizes.some(range(7), count) == list(range(7))


@pytest.mark.parametrize(("length", "slice_has"), [(0, []), (1, [0]), (5, [0, 3, 4]), (6, [0, 3, 5])])
def test_a_message_is_cut_at_its_end_in_every_run(
    length: int, slice_has: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "FULL", False)
    assert sizes.cuts_of(bytes(length)) == slice_has
    monkeypatch.setattr(sizes, "FULL", True)
    assert sizes.cuts_of(bytes(length)) == list(range(length))
