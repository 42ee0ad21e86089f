"""Log lines that come in floods: twenty per second are logged, the others only at DEBUG, and none is kept."""

from __future__ import annotations

import logging

import pytest

from ottla.server.runtime.log_rate_limit import TOLD_MAX, LogRateLimiter, report_hidden


def test_so_many_lines_a_second_are_told_and_how_many_there_were_beyond_them(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 100.0
    caplog.set_level(logging.DEBUG, "ottla.flood")
    lines = LogRateLimiter(logging.getLogger("ottla.flood"), lambda: now_s)
    for number in range(TOLD_MAX + 3):
        lines.log(logging.INFO, "line %d", number)
    now_s = 101.0
    lines.log(logging.WARNING, "another")
    now_s = 102.5
    lines.log(logging.WARNING, "one more")
    told = [record.message for record in caplog.records if record.levelno > logging.DEBUG]
    assert told == [
        *(f"line {number}" for number in range(TOLD_MAX)),
        f"more than {TOLD_MAX} similar lines in one second; further lines are logged at DEBUG",
        "3 more similar lines",
        "another",
        "one more",
    ]
    untold = [record.message for record in caplog.records if record.levelno == logging.DEBUG]
    assert untold == [f"line {number}" for number in range(TOLD_MAX, TOLD_MAX + 3)]


def test_how_many_were_hidden_is_told_when_their_second_is_over_or_the_broker_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 100.0
    caplog.set_level(logging.INFO, "ottla.flood")
    one, other = (LogRateLimiter(logging.getLogger("ottla.flood"), lambda: now_s) for _ in range(2))

    def told() -> list[tuple[int, str]]:
        found = [(record.levelno, record.message) for record in caplog.records if "more similar" in record.message]
        caplog.clear()
        return found

    for _ in range(TOLD_MAX + 3):
        one.log(logging.WARNING, "line")
    report_hidden()
    assert told() == []
    now_s = 101.0
    for _ in range(TOLD_MAX + 1):
        other.log(logging.INFO, "line")
    report_hidden()
    assert told() == [(logging.WARNING, "3 more similar lines")]
    report_hidden()
    assert told() == []
    report_hidden(at_end=True)
    assert told() == [(logging.INFO, "1 more similar lines")]
    one.log(logging.INFO, "line")
    report_hidden(at_end=True)
    assert told() == []
