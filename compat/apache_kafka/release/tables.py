"""Answers of two releases, compared: a table per subject, as Markdown or as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

CELL = 900
"""The number of characters after which Markdown shows no more of a cell; JSON has all."""


@dataclass
class Table:
    """Rows of one subject.

    notes: Facts about the comparison, e.g. how much was compared.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, ...]]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        rows = [self.columns, ["---"] * len(self.columns), *([cell(text) for text in row] for row in self.rows)]
        lines = [f"## {self.title}", "", *(f"{note}." for note in self.notes), ""]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows if self.rows), ""])


def cell(text: str) -> str:
    """Return a text as a cell of a Markdown table: one line, cut at CELL."""
    line = " ".join(text.split()).replace("|", "\\|")
    return line if len(line) <= CELL else f"{line[:CELL]}…"


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return (name, old answer, new answer) where they differ, by name; "" for a name that a side does not have.

    Of answers `facts: text` with the same facts, only the changed words are shown, as the new answer.
    """
    rows: list[tuple[str, ...]] = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, ""), new.get(name, "")
        facts, colon, text = before.partition(": ")
        if colon and after.startswith(f"{facts}: ") and before != after:
            before, after = "", changed_words(text, after.removeprefix(f"{facts}: "))
        if before != after:
            rows.append((name, before, after))
    return rows


def changed_words(old: str, new: str) -> str:
    """Return the words that only the old text has, as [-…-], and those that only the new one has, as {+…+}."""
    before, after = old.split(), new.split()
    shown: list[str] = []
    for kind, first, last, start, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            removed, added = " ".join(before[first:last]), " ".join(after[start:end])
            shown += [*([f"[-{removed}-]"] if removed else []), *([f"{{+{added}+}}"] if added else [])]
    return " ".join(shown)
