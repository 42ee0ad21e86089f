"""Log lines for the page: lines that pass the configured levels, bounded, and only while pages can be opened."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ottla.server.page.log_tail import LINE_CHARACTERS_MAX, LINES_MAX, keep_lines, last_lines

log = logging.getLogger("ottla.of.this.test")


@pytest.fixture(autouse=True)
def from_info_on() -> Iterator[None]:
    log.setLevel(logging.INFO)
    yield
    log.setLevel(logging.NOTSET)


def test_lines_are_kept_newest_first_by_level_and_forgotten_at_the_end() -> None:
    with keep_lines(), keep_lines():
        log.debug("nobody asked for it")
        log.info("one\nof %s", "two lines\x1b[2J")
        log.error("two")
        assert [line.text for line in last_lines(logging.INFO)] == ["two", "one\\nof two lines\\x1b[2J"]
        assert [line.text for line in last_lines(logging.ERROR)] == ["two"]
        assert last_lines(logging.INFO)[0].number == last_lines(logging.INFO)[1].number + 1
    assert last_lines(logging.INFO) == []
    log.error("nobody looks")
    assert last_lines(logging.INFO) == []


def test_their_number_and_length_are_bounded() -> None:
    with keep_lines():
        for number in range(LINES_MAX + 10):
            log.info("%d%s", number, "x" * 2 * LINE_CHARACTERS_MAX)
        lines = last_lines(logging.INFO)
        assert len(lines) == LINES_MAX and lines[0].text.startswith(str(LINES_MAX + 9))
        assert {len(line.text) for line in lines} == {LINE_CHARACTERS_MAX}


def test_words_that_do_not_fit_are_told_and_nobody_falls_over_them(capsys: pytest.CaptureFixture[str]) -> None:
    handlers = logging.getLogger().handlers[:]
    logging.getLogger().handlers[:] = []  # pytest's raises on purpose
    try:
        with keep_lines():
            log.info("%d", "no number")
            log.info("goes on")
            assert [line.text for line in last_lines(logging.INFO)] == ["goes on"]
    finally:
        logging.getLogger().handlers[:] = handlers
    assert "--- Logging error ---" in capsys.readouterr().err


def test_levels_and_other_handlers_are_left_as_they_are() -> None:
    ottla = logging.getLogger("ottla")
    before = ottla.level, ottla.propagate, list(ottla.handlers)
    with keep_lines():
        assert (ottla.level, ottla.propagate) == before[:2]
    assert (ottla.level, ottla.propagate, list(ottla.handlers)) == before
