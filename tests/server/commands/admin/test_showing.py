"""Answers of the admin listener as lines and tables."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.commands.admin.asking import duration_text, field_words, format_value
from ottla.server.commands.frame.options import duration_ms


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (250, "250 ms"),
        (1_500, "1.5 s"),
        (90_000, "1.5 min"),
        (90_000_000, "25 h"),
        (8 * 86_400_000, "8 d"),
    ],
)
def test_durations_are_shown_in_the_largest_exact_unit(ms: int, text: str) -> None:
    assert duration_text(ms) == text
    assert duration_ms(text.replace(" min", "m").replace(" ", "")) == ms


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("now_ms", 0, "1970-01-01 00:00:00"),
        ("eligible_at_ms", 60_000, "1970-01-01 00:01:00"),
        ("timeout_ms", 60_000, "1 min"),
        ("offset", 60_000, 60_000),
        ("is_frozen", False, False),
        ("anything", None, None),
        ("rolled", [{"topic": "t", "partition": 1}], ["t-1"]),
        ("removed", {"superseded": 9, "tombstones": 0}, "superseded 9"),
        ("removed", {"superseded": 0}, "none"),
    ],
)
def test_a_value_is_formatted_by_the_name_of_its_field(name: str, value: Any, shown: Any) -> None:
    assert format_value(name, value) == shown


def test_names_of_fields_become_plain_words() -> None:
    assert [field_words(name) for name in ("is_frozen", "has_rolled", "now_ms", "log_start_offset")] == [
        "frozen",
        "rolled",
        "now",
        "log start offset",
    ]
