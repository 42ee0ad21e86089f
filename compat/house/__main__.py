"""The size of the product, and duplicates in it: one table, compared with another checkout if requested.

    python -m compat.house [--before DIRECTORY] [--names]

The program only reads the sources and executes none. It judges no figure, but a circle of rooms is a failure.
"""

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..support.suite import Options, Suite, run_suite

FLOORS = ("protocol", "storage", "server", "pipeline")
SMALL_LINES = 45
"""A file with fewer is mostly header and imports."""
SERVER = "server"
MESSAGES = Path("protocol/messages")


@dataclass(frozen=True)
class Source:
    """One file of the product."""

    path: Path
    """The path from the root of the checkout."""
    text: str

    @property
    def floor(self) -> str:
        return self.path.parts[0]

    @property
    def room(self) -> str:
        """The first folder below the floor; a file directly in the floor has the floor's name."""
        return self.path.parts[1] if len(self.path.parts) > 2 else self.floor

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def code_lines(self) -> int:
        """Neither blank, nor of a comment, nor of a docstring."""
        said = {
            line
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        written = (line.strip() for number, line in enumerate(self.text.splitlines(), 1) if number not in said)
        return sum(bool(line) and not line.startswith("#") for line in written)

    @property
    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))

    @property
    def rooms_imported(self) -> Iterator[str]:
        """Yield the rooms of the server that this file imports by relative imports, also in functions and for types alone."""
        package = self.path.parts[:-1]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                above = package[: len(package) - node.level + 1]
                parts = (*above, *(node.module or "").split(".")) if node.module else above
                names = parts[1:] or tuple(alias.name for alias in node.names)
                if parts[:1] == (SERVER,) and names:
                    yield names[0]


def sources(root: Path) -> list[Source]:
    return [
        Source(path.relative_to(root), path.read_text())
        for floor in FLOORS
        for path in sorted((root / floor).rglob("*.py"))
        if not any(part.startswith((".", "__pycache__")) for part in path.relative_to(root).parts)
    ]


def base_name(base: ast.expr) -> str:
    return base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""


def exceptions(files: list[Source]) -> set[str]:
    """Return the classes that derive, judged by names, from an exception or warning of Python."""
    bases = {each.name: {base_name(base) for base in each.bases} for one in files for each in one.classes}
    found = {name for name in dir(__builtins__) if name.endswith(("Error", "Exception", "Warning"))}
    found |= {"Exception", "BaseException"}
    raised, before = set[str](), -1
    while len(raised) > before:
        before = len(raised)
        raised |= {name for name, of in bases.items() if of & (found | raised)}
    return raised


def twice(files: list[Source]) -> dict[str, list[str]]:
    """Return classes of one name, and where they are defined; but for parts of messages, which have Kafka's names."""
    places = defaultdict[str, list[str]](list)
    for one in files:
        if one.path.parent == MESSAGES:
            continue
        for each in one.classes:
            places[each.name].append(f"{one.path}:{each.lineno}")
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def storeys(files: list[Source]) -> dict[str, int]:
    """Return each room of the server with its height: the length of the longest chain of imports down from it, 1 at the bottom.

    Rooms that import each other in a circle have no height: their figure is larger than the number of rooms.
    """
    rooms = {one.room for one in files if one.floor == SERVER}
    below = {room: set[str]() for room in rooms}
    for one in files:
        if one.floor == SERVER:
            below[one.room] |= set(one.rooms_imported) & rooms - {one.room}
    heights = dict.fromkeys(rooms, 1)
    for _ in rooms:
        heights = {room: max((heights[other] + 1 for other in below[room]), default=1) for room in rooms}
    return heights


def figures(files: list[Source]) -> dict[str, int]:
    found: dict[str, int] = {}
    for floor in FLOORS:
        of = [one for one in files if one.floor == floor]
        found[f"{floor}: lines"] = sum(one.lines for one in of)
        found[f"{floor}: lines of code"] = sum(one.code_lines for one in of)
        found[f"{floor}: files"] = len(of)
    found["folders"] = len({one.path.parent for one in files})
    heights = storeys(files)
    found["server: rooms"] = len(heights)
    found["server: storeys"] = max(heights.values())
    found[f"files of fewer than {SMALL_LINES} lines"] = sum(one.lines < SMALL_LINES for one in files)
    found["names that more than one class has"] = len(twice(files))
    found["classes of exceptions"] = len(exceptions(files))
    return found


def body(suite: Suite, options: Options) -> None:
    files = sources(Path(__file__).parents[2])
    columns = [figures(files)]
    if options.rest.before:
        columns.insert(0, figures(sources(Path(options.rest.before))))
    for name in columns[-1]:
        suite.note(f"{name:42} {' '.join(f'{column[name]:>8}' for column in columns)}")
    if options.rest.names:
        for name, places in twice(files).items():
            suite.note(f"{name}: {', '.join(places)}")
        for name in sorted(exceptions(files)):
            suite.note(name)
    heights = storeys(files)
    circle = sorted(room for room, height in heights.items() if height > len(heights))
    suite.check("the server's rooms have no import cycle", not circle, ", ".join(circle))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--before", metavar="DIRECTORY", help="another checkout to compare with")
    parser.add_argument("--names", action="store_true", help="the classes that share a name, and the exceptions")


if __name__ == "__main__":
    sys.exit(run_suite("house", body, doc=__doc__, more_arguments=arguments))
