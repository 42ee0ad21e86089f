"""Values of options: numbers, durations, times, pairs; and the output of times."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.commands.frame.options import duration_ms, name_and_value, number
from ottla.server.commands.frame.times import time_ms, time_text
from support.noted import each_case

READ = {
    "a number": (number(0), "7", 7),
    "its bound": (number(0, 7), "7", 7),
    "milliseconds": (duration_ms, "250ms", 250),
    "nothing, of whatever": (duration_ms, "0", 0),
    "hours": (duration_ms, "25h", 90_000_000),
    "days": (duration_ms, "8d", 691_200_000),
    "weeks": (duration_ms, "1w", 604_800_000),
    "a fraction": (duration_ms, "1.5s", 1_500),
    "a pair": (name_and_value, "a=b=c", ("a", "b=c")),
    "an empty value": (name_and_value, "a=", ("a", "")),
    "a time": (time_ms, "1970-01-02T00:00:00Z", 86_400_000),
    "another zone": (time_ms, "1970-01-01T02:00:00+02:00", 0),
    "UTC without one": (time_ms, "1970-01-01T00:00:01.5", 1_500),
    "a day": (time_ms, "1970-01-02", 86_400_000),
    "ms since 1970": (time_ms, "@-5", -5),
}
REFUSED = {
    "no number": (number(0), "x"),
    "too small": (number(1), "0"),
    "too large": (number(0, 7), "8"),
    "a fraction": (number(0), "1.5"),
    "no unit that we know": (duration_ms, "5y"),
    "no unit": (duration_ms, "5"),
    "no duration": (duration_ms, "soon"),
    "a negative duration": (duration_ms, "-5s"),
    "a duration without end": (duration_ms, "9" * 30 + "w"),
    "no duration at all": (duration_ms, ""),
    "no pair": (name_and_value, "a"),
    "no name": (name_and_value, "=b"),
    "no time": (time_ms, "tomorrow"),
    "no day": (time_ms, "2026-02-30"),
    "no ms": (time_ms, "@"),
}


@each_case("read, text, value", READ.values(), ids=READ)
def test_a_value_is_read(read: Callable[[str], object], text: str, value: object) -> None:
    assert read(text) == value


@each_case("read, text", REFUSED.values(), ids=REFUSED)
def test_an_invalid_value_is_refused_with_the_found_text(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"expected .*"):
        read(text)


@given(st.integers(-(10**13), 10**14))
def test_a_printed_time_can_be_parsed(at_ms: int) -> None:
    text = time_text(at_ms, with_ms=True)
    assert text is not None and time_ms(text.replace(" ", "T")) == at_ms


@pytest.mark.parametrize("at_ms", [2**63 - 1, -(2**63)])
def test_a_time_outside_the_calendar_is_refused(at_ms: int) -> None:
    assert time_text(at_ms) is None
