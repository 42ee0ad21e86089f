"""Differences of two schemas on the status page."""

from __future__ import annotations

import difflib
import random

import pytest

from ottla.server.page.views import schemas
from support.noted import each_case


def difference(old: str, new: str) -> str:
    return " ".join(mark.strip() + line for mark, line in schemas._difference(list(old), list(new)))


@each_case(
    "old, new, expected",
    [
        ("", "", ""),
        ("abc", "abc", "a b c"),
        ("abc", "axc", "a -b +x c"),
        ("abc", "ac", "a -b c"),
        ("", "ab", "+a +b"),
        ("aa", "aaa", "a a +a"),
        ("abcde", "xbcdy", "-a +x b c d -e +y"),
    ],
)
def test_lines_are_compared(old: str, new: str, expected: str) -> None:
    assert difference(old, new) == expected


def test_either_text_can_be_read_from_the_lines() -> None:
    rng = random.Random(1)
    for _ in range(200):
        old, new = ([rng.choice("abc") for _ in range(rng.randrange(12))] for _ in range(2))
        found = list(schemas._difference(old, new))
        assert [line for mark, line in found if mark in " -"] == old
        assert [line for mark, line in found if mark in " +"] == new


def test_many_lines_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "COMPARED_LINES_MAX", 3)
    assert difference("0abcd9", "0bcda9") == "0 -a -b -c -d +b +c +d +a 9"
    monkeypatch.setattr(difflib, "SequenceMatcher", None)
    assert difference("0" * 9 + "abcd", "0" * 9 + "wxyz").endswith("0 -a -b -c -d +w +x +y +z")
