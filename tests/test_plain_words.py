"""Texts in plain words: `support.texts.plain_words` counts, and no figure may rise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.texts.plain_words import KEPT, count, files

BOUNDS: dict[str, int] = json.loads(KEPT.read_text())
FILES = files()


@pytest.mark.parametrize("folder", sorted(FILES))
def test_figures_do_not_rise(folder: str) -> None:
    """After a text has become plainer, `python -m support.texts.plain_words --write`, from tests/, lowers the bounds."""
    risen = {name: (number, BOUNDS.get(name, 0)) for name, number in count(FILES[folder]).items()}
    assert {name: found for name, found in risen.items() if found[0] > found[1]} == {}, "found, bound"


@pytest.mark.parametrize(
    "name, text, found",
    [
        (
            "server/groups/a.py",
            '"""Of one group.\n\nThe client is told."""',
            {"docstrings: server/groups": 1, "openings: server/groups": 1},
        ),
        ("server/a.py", "x = 1  # made anew, so long as it lasts", {"comments: server": 2}),
        ("storage/a/b.py", 'raise ValueError(f"there is no {x}")', {"messages: storage": 1}),
        ("storage/a/b.py", 'log.info("nobody waits for %s", x)', {"messages: storage": 1}),
        ("docs/a.md", "Whoever asks.\n```sh\nnobody\n```\n", {"texts: docs": 1}),
        ("server/page/a.html", "<p>None, too.</p>", {"page: server/page": 1}),
        (
            "tests/a.py",
            "def test_nobody_is_told(): ...\nasync def test_what_is_read(): ...",
            {"openings: tests": 1, "test names: tests": 2},
        ),
        ("storage/a.py", '"""A group.\n\nReturn its members."""\nnobody = told = 1  # a name', {}),
    ],
)
def test_banned_words_and_openings_are_counted(name: str, text: str, found: dict[str, int], tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text)
    assert count([name], tmp_path) == found
