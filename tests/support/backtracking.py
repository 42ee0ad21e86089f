"""The check whether a regular expression of Python's `re` can backtrack.

`doubts` reads a pattern as a state machine whose states are positions in the pattern. Suppose that no state in a loop has two
ways for one character: then a match reads each character of its text a few times at most, however it ends. A pattern for which
this cannot be shown is named, and may be harmless: `tests/test_regular_expressions.py` lists those, each with its reason.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from .import_graph import FLOORS, python_files

ROOT = Path(__file__).parents[2]
ANCHORED = ("match", "fullmatch")
_CHARACTERS = (*map(chr, range(256)), "Ω", "б", "\u0661", "\u2028", "中", "\ud800", "\U0001f600")
"""At least one character of each kind that a pattern can distinguish."""
_TAKEN: dict[tuple[int, str, str], frozenset[str]] = {}
"""Which of these characters a place accepts, by the flags and the place's text: a loop has many places of one kind."""
_COPIES_MAX = 70
_ENDLESS = 1 << 30
_CATEGORIES: dict[Any, str] = {
    c.CATEGORY_DIGIT: r"\d",
    c.CATEGORY_NOT_DIGIT: r"\D",
    c.CATEGORY_SPACE: r"\s",
    c.CATEGORY_NOT_SPACE: r"\S",
    c.CATEGORY_WORD: r"\w",
    c.CATEGORY_NOT_WORD: r"\W",
}


@dataclass
class _Part:
    """A part of a pattern: its first and last places, and whether it also matches the empty string."""

    first: set[int]
    last: set[int]
    is_nullable: bool


@dataclass
class _Machine:
    """Places, each with the characters that it accepts, and the places that may follow it."""

    flags: int
    takes: list[frozenset[str]] = field(default_factory=list)
    follow: list[set[int]] = field(default_factory=list)
    in_loops: set[int] = field(default_factory=set)
    """Places that a long text passes repeatedly."""
    doubts: list[str] = field(default_factory=list)

    def place(self, kind: Any, value: Any) -> _Part:
        key = (self.flags & (re.ASCII | re.IGNORECASE | re.DOTALL), str(kind), str(value))
        if key not in _TAKEN:
            _TAKEN[key] = frozenset(each for each in _CHARACTERS if self.takes_character(kind, value, each))
        self.takes.append(_TAKEN[key])
        self.follow.append(set())
        at = len(self.takes) - 1
        return _Part({at}, {at}, False)

    def join(self, left: _Part, right: _Part) -> _Part:
        for at in left.last:
            self.follow[at] |= right.first
        return _Part(
            left.first | right.first if left.is_nullable else left.first,
            right.last | left.last if right.is_nullable else right.last,
            left.is_nullable and right.is_nullable,
        )

    def sequence(self, items: Any) -> _Part:
        whole = _Part(set(), set(), True)
        for item in items:
            whole = self.join(whole, self.item(item))
        return whole

    def item(self, item: tuple[Any, Any]) -> _Part:
        kind, value = item
        if kind is c.SUBPATTERN:
            return self.sequence(value[3])
        if kind is c.BRANCH:
            parts = [self.sequence(branch) for branch in value[1]]
            return _Part(
                set().union(*(part.first for part in parts)),
                set().union(*(part.last for part in parts)),
                any(part.is_nullable for part in parts),
            )
        if kind in (c.MAX_REPEAT, c.MIN_REPEAT):
            return self.repeated(*value)
        if kind is c.AT:
            return _Part(set(), set(), True)
        if kind in (c.ASSERT, c.ASSERT_NOT):
            if value[1].getwidth()[1] > 1:
                self.doubts.append("looks ahead further than a character")
            return _Part(set(), set(), True)
        if kind in (c.IN, c.LITERAL, c.NOT_LITERAL, c.ANY):
            return self.place(kind, value)
        self.doubts.append(f"{kind}")
        return _Part(set(), set(), True)

    def repeated(self, least: int, most: int, items: Any) -> _Part:
        if least == most and least <= _COPIES_MAX:
            whole = _Part(set(), set(), True)
            for _ in range(least):
                whole = self.join(whole, self.sequence(items))
            return whole
        begin = len(self.takes)
        part = self.sequence(items)
        if most > _COPIES_MAX or (most > 1 and items.getwidth()[0] != items.getwidth()[1]):
            self.in_loops |= set(range(begin, len(self.takes)))
        if most > 1 and part.is_nullable:
            self.doubts.append("repeats what may be nothing")
        if most > 1:
            for at in part.last:
                if self.follow[at] & part.first:
                    self.doubts.append("a loop begins again where one within it does")
                self.follow[at] |= part.first
        return _Part(part.first, part.last, part.is_nullable or least == 0)

    def takes_character(self, kind: Any, value: Any, character: str) -> bool:
        flags = self.flags & (re.ASCII | re.IGNORECASE)
        if kind is c.ANY:
            return character != "\n" or bool(self.flags & re.DOTALL)
        if kind is c.IN:
            is_negated = value[0][0] is c.NEGATE
            return is_negated != any(
                self.takes_character(how, what, character) for how, what in value if how is not c.NEGATE
            )
        if kind is c.CATEGORY:
            return re.match(_CATEGORIES[value], character, flags) is not None
        variants = {character, character.lower(), character.upper()} if flags & re.IGNORECASE else {character}
        if kind is c.RANGE:
            return any(len(each) == 1 and value[0] <= ord(each) <= value[1] for each in variants)
        return (kind is c.LITERAL) == any(each == chr(value) for each in variants)

    def choices(self, places: set[int]) -> None:
        seen: set[str] = set()
        for at in sorted(places):
            if both := seen & self.takes[at]:
                self.doubts.append(f"two ways for {min(both)!r}")
            seen |= self.takes[at]


def doubts(pattern: str | bytes, flags: int = 0, how: str = "fullmatch") -> list[str]:
    """Return why a match of `pattern` might cost more than the length of its text; an empty list if it cannot.

    Args:
        how: The function of `re` that is called. A function that searches tries every character, so its pattern must have a
            bounded width, or only its last part may be unbounded.
    """
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    tree = parser.parse(text, flags)
    machine = _Machine(tree.state.flags)
    machine.sequence(tree)
    for at in sorted(machine.in_loops):
        machine.choices(machine.follow[at])
    found = list(dict.fromkeys(machine.doubts))
    if how not in ANCHORED and tree.getwidth()[1] >= _ENDLESS and not _only_its_end_is_unbounded(tree):
        found.append("searches with what has no end")
    return found


def _only_its_end_is_unbounded(items: Any) -> bool:
    """Return whether only the end is unbounded.

    Then nothing can fail after a long read, and no place is read from two beginnings.
    """
    *before, (kind, value) = items
    if items[: len(before)].getwidth()[1] >= _ENDLESS:
        return False
    if kind is c.SUBPATTERN:
        return _only_its_end_is_unbounded(value[3])
    if kind is c.MAX_REPEAT:
        _, most, body = value
        return _only_its_end_is_unbounded(body) if most == 1 else body.getwidth() == (1, 1)
    return items.getwidth()[1] < _ENDLESS  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Use:
    """A call of `re` in a file of the product."""

    file: str
    call: str
    """The call, e.g. `re.compile(_NAME)`, with its first argument as the source has it."""
    how: str
    pattern: str | bytes | None
    """The pattern; None if it is made while the broker runs."""
    flags: int

    @property
    def name(self) -> str:
        return f"{self.file}: {self.call}"


_FUNCTIONS = ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
MARK = "Matches"
"""The marker of HTTP fields' patterns, which match the whole text."""
_CALLS = (MARK, *(f"re.{name}" for name in _FUNCTIONS))


def uses() -> Iterator[Use]:
    """Yield every pattern that the product passes to `re`, with its value where the module alone defines it."""
    for path in python_files(ROOT, *FLOORS):
        yield from _uses_of(path)


def _uses_of(path: Path) -> Iterator[Use]:
    source = path.read_text()
    if not any(f"{name}(" in source for name in _CALLS):
        return
    tree = ast.parse(source)
    file = str(path.relative_to(ROOT))
    called = _methods_called(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        function = ast.unparse(node.func)
        if function not in _CALLS:
            continue
        module = importlib.import_module("ottla." + file.removesuffix(".py").replace("/", "."))
        pattern = _value(node.args[0], module)
        flags = next((each.value for each in node.keywords if each.arg == "flags"), None)
        how = function.removeprefix("re.")
        position = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(how, 2)
        if flags is None and how != MARK and len(node.args) > position:
            flags = node.args[position]
        value = 0 if flags is None else _value(flags, module)
        if how == "compile":
            how = next((each for each in called.get(_target(tree, node), ()) if each not in ANCHORED), "fullmatch")
        yield Use(
            file,
            f"{function}({ast.unparse(node.args[0])})",
            "fullmatch" if how == MARK else how,
            pattern if isinstance(pattern, str | bytes) else None,
            int(value) if isinstance(value, int) else 0,
        )


def _value(node: ast.expr, module: object) -> Any:
    try:
        return eval(compile(ast.Expression(node), "pattern", "eval"), dict(vars(module)))
    except (NameError, AttributeError, TypeError):
        return None


def _methods_called(tree: ast.AST) -> dict[str, set[str]]:
    """Return the methods that a file calls, by the name of the pattern.

    A pattern without calls counts as searched with, to be sure.
    """
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _FUNCTIONS and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, set()).add(node.attr)
    return found


def _target(tree: ast.AST, call: ast.Call) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and node.value is call and isinstance(node.targets[0], ast.Name):
            return node.targets[0].id
    return ""
