"""Tables and progress: every width, wide characters, and characters that must not reach a terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.commands.frame.errors import ReaderGoneError
from ottla.server.commands.frame.printing import (
    NARROWEST,
    fitted,
    folded,
    narrowed,
    places,
    show,
    show_table,
    table,
    terminal_width,
    visible,
)
from ottla.server.commands.frame.terminal import Progress

HEADER = ("TOPIC", "RECORDS", "WHY")
ROWS = [("orders", 12, "all that is dirty lies in the active segment"), ("日本語のトピック", 3_400, "ok")]


def test_an_unbounded_table_has_complete_cells_and_right_aligned_numbers() -> None:
    assert list(table(HEADER, ROWS)) == [
        "TOPIC             RECORDS  WHY",
        "orders                 12  all that is dirty lies in the active segment",
        "日本語のトピック     3400  ok",
    ]


def test_the_widest_column_of_a_wide_table_is_shortened_first() -> None:
    assert list(table(HEADER, ROWS, width=40)) == [
        "TOPIC           RECORDS  WHY",
        "orders               12  all that …ment",
        "日本語の…ック      3400  ok",
    ]


def test_sentences_are_below_the_table_and_wrapped() -> None:
    why = "all that is dirty lies in the active segment"
    rows = [("orders", 1), ("t", 2), ("u", 3)]
    assert list(table(("TOPIC", "N"), rows, [why, "", why], width=30)) == [
        "TOPIC   N",
        "orders  1",
        "t       2",
        "u       3",
        "  orders, u: all that is dirty",
        "  lies in the active segment",
    ]
    assert list(table(("TOPIC", "N"), rows, [why] * 3))[4:] == [f"  all: {why}"]


def test_a_table_without_rows_is_its_header() -> None:
    assert list(table(("A", "B"), [])) == ["A  B"]


@given(
    st.lists(st.tuples(st.text(max_size=40), st.text(max_size=90), st.integers()), max_size=5),
    st.integers(3 * NARROWEST + 4, 200),
)
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, str, int]], width: int) -> None:
    lines = list(table(("A", "B", "C"), rows, width=width))
    assert len(lines) == 1 + len(rows)
    assert [line for line in lines if places(line) > width or not line.isprintable()] == []


@given(st.lists(st.integers(0, 100), min_size=1, max_size=8), st.integers(1, 400))
def test_columns_are_narrowed_as_little_as_necessary(widths: list[int], room: int) -> None:
    found = narrowed(widths, room)
    assert all(min(before, NARROWEST) <= after <= before for before, after in zip(widths, found, strict=True))
    if sum(widths) <= room:
        assert found == widths
    elif sum(found) <= room:
        assert sum(found) > room - len(widths)
    else:
        assert max(found) <= NARROWEST


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("abc", 5, "abc  "), ("abcdef", 4, "abc…"), ("日本語", 4, "日… "), ("é" * 3, 4, "é" * 3 + " "), ("", 2, "  ")],
)
def test_a_cell_has_exactly_its_width(text: str, width: int, shown: str) -> None:
    assert fitted(text, width) == shown
    assert places(shown) == width


def test_control_characters_are_not_printed() -> None:
    assert visible("a\x1b[31m\n\tb\u202e") == r"a\x1b[31m\n\tb\u202e"
    assert list(table(("K",), [("\x1b[2J",)])) == ["K", r"\x1b[2J"]


def test_text_outside_a_terminal_is_not_wrapped() -> None:
    assert folded("word " * 50, None) == ["    " + "word " * 50]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Closed(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setattr("sys.stdout", plain := io.StringIO())
    show_table(HEADER, ROWS)
    monkeypatch.setattr("sys.stdout", terminal := Terminal())
    show_table(HEADER, ROWS)
    assert terminal_width() == 24
    assert max(map(places, terminal.getvalue().splitlines())) <= 24 < max(map(places, plain.getvalue().splitlines()))


def test_a_closed_reader_is_not_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Closed())
    with pytest.raises(ReaderGoneError):
        show("text")


def test_progress_is_overwritten_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for stream, expected in ((Terminal(), "\r\x1b[Kone\r\x1b[K" + "x" * 78 + "…\r\x1b[K"), (io.StringIO(), "")):
        with Progress(stream) as progress:
            progress.say("one")
            progress.say("x" * 100)
        assert stream.getvalue() == expected


def test_only_our_own_line_may_contain_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    show(["one\x1b[2J\nof two", "and one"])
    show("\x1b[1mours\x1b[0m", as_it_is=True)
    assert capsys.readouterr().out == "one\\x1b[2J\\nof two\nand one\n\x1b[1mours\x1b[0m\n"
