"""Log lines whose text clients partly choose."""

from __future__ import annotations

import logging

import pytest

from ottla.server.runtime.log_rate_limit import LogLines, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("Zürich 東京", "Zürich 東京"),
        ("", ""),
        ("a\nERROR forged", r"a\nERROR forged"),
        ("a\r\x1b[2Jb\x85\u2028", r"a\r\x1b[2Jb\x85\u2028"),
        ("\udc80", r"\udc80"),
    ],
)
def test_unprintable_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_message_is_one_line_and_a_traceback_is_complete() -> None:
    lines = LogLines("%(levelname)s %(message)s")
    record = logging.LogRecord("ottla", logging.INFO, "", 0, "group %s: %d", ("g\nERROR forged", 1), None)
    assert lines.format(record) == r"INFO group g\nERROR forged: 1"
    try:
        raise ValueError("why")
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    first, *others = lines.format(record).splitlines()
    assert first == r"INFO group g\nERROR forged: 1"
    assert others[0].startswith("Traceback") and others[-1] == "ValueError: why"
