"""Answers of the admin listener as people read them: objects as tables whose columns have the names of the fields."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..frame.printing import show_json, show_table
from ..frame.times import time_text

SENTENCE = "explanation"
"""The field that stands below the table, as it is one."""


def show_answer(options: argparse.Namespace, answer: Any, tell: Callable[[Any], object]) -> None:
    """Print JSON for programs, where --json asks for it; for people what `tell` prints."""
    (show_json if options.json else tell)(answer)


def show_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print objects of one kind as a table: all fields under their names."""
    columns = {name: words(name).upper() for row in rows for name in row if name != SENTENCE}
    cells = [[told(name, row.get(name)) for name in columns] for row in rows]
    show_table(list(columns.values()), cells, [row.get(SENTENCE) or "" for row in rows])


def words(name: str) -> str:
    """The name of a field as people say it."""
    return name.removeprefix("is_").removeprefix("has_").removesuffix("_ms").replace("_", " ")


def told(name: str, value: Any) -> Any:
    """A value as people say it; `name` tells times and durations from numbers."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        if name in ("now_ms", "at_ms") or name.endswith("_at_ms"):
            return time_text(value) or value
        return duration_text(value) if name.endswith("_ms") else value
    if isinstance(value, list):
        return [told(name, each) for each in value]
    if isinstance(value, dict):
        if value.keys() == {"topic", "partition"}:
            return f"{value['topic']}-{value['partition']}"
        return ", ".join(f"{words(key)} {told(key, each)}" for key, each in value.items() if each) or "none"
    return value


def duration_text(ms: int) -> str:
    """`250 ms`, `1.5 s`, `25 h`: in the largest unit that says it in at most one place behind the point."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if abs(ms) >= size and ms * 10 % size == 0:
            return f"{ms / size:g} {unit}"
    return f"{ms} ms"
