"""The extent of short runs, and tests with many cases: `support.sizes`, `support.noted`."""

from __future__ import annotations

import pytest

from support import sizes
from support.noted import each_case


@pytest.mark.parametrize(
    ("count", "chosen"),
    [(1, [0]), (2, [0, 6]), (3, [0, 3, 6]), (4, [0, 2, 4, 6]), (7, list(range(7))), (9, list(range(7)))],
)
def test_a_sample_contains_the_first_and_the_last_case(
    count: int, chosen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "FULL", False)
    assert sizes.some(iter(range(7)), count) == chosen
    monkeypatch.setattr(sizes, "FULL", True)
    assert sizes.some(range(7), count) == list(range(7))


@pytest.mark.parametrize(("length", "slice_has"), [(0, []), (1, [0]), (5, [0, 3, 4]), (6, [0, 3, 5])])
def test_a_message_is_truncated_at_its_end_in_every_run(
    length: int, slice_has: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "FULL", False)
    assert sizes.cuts_of(bytes(length)) == slice_has
    monkeypatch.setattr(sizes, "FULL", True)
    assert sizes.cuts_of(bytes(length)) == list(range(length))


def test_cases_after_a_failure_run_and_each_failure_has_its_case() -> None:
    ran: list[tuple[int, str]] = []

    @each_case("number", [1, 2, 3], ids=["first", "second", "third"])
    @each_case("word, is_right", [("a", True), ("b", False)])
    def tried(number: int, word: str, is_right: bool, given: str) -> None:
        ran.append((number, word + given))
        assert is_right or number != 2, "wrong"
        if number == 3:
            pytest.fail("no error came")

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases failed") as failed:
        tried(given="!")

    assert ran == [(number, word) for number in (1, 2, 3) for word in ("a!", "b!")]
    second, third = failed.value.exceptions
    assert isinstance(second, BaseExceptionGroup) and isinstance(third, BaseExceptionGroup)
    assert (second.__notes__, third.__notes__) == (["case: second"], ["case: third"])
    assert [each.__notes__ for each in second.exceptions] == [["case: {'word': 'b', 'is_right': False}"]]
    assert [type(each) for each in third.exceptions] == [pytest.fail.Exception, pytest.fail.Exception]
