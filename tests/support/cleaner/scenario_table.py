"""tests/storage/SCENARIOS.md: what the cleaner must do, line by line, with the tests that show it.

Its second and last columns are written by hand, its third by this module, from the marks and names of all tests:

    @pytest.mark.scenario(6, 25)      shows lines 6 and 25
    def test_kafka_14055_…            shows the line KAFKA-14055

    python tests/support/cleaner/scenario_table.py      rewrites the third column

For a line without tests the last column says what covers it instead, or why no test is needed.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[2]
TABLE = TESTS / "storage" / "SCENARIOS.md"
COMMAND = "python tests/support/cleaner/scenario_table.py"

_ROW = re.compile(r"^\| ((?:KAFKA-)?\d+) \| (.*?) \| (.*?) ?\| (.*?) ?\|$")
_BUG_IN_NAME = re.compile(r"_kafka_(\d{4,5})(?=_)")


class Row(NamedTuple):
    """One line of the table: a scenario's number, or `KAFKA-` and the number of a bug."""

    number: str
    behaviour: str
    tests: str
    otherwise: str

    def __str__(self) -> str:
        return "| " + " | ".join(self) + " |"


def rows(text: str) -> list[Row]:
    """Return the lines of the table that are scenarios or bugs."""
    return [Row(*found.groups()) for line in text.splitlines() if (found := _ROW.match(line))]


@cache
def shown_by() -> dict[str, list[str]]:
    """Return number -> the tests that claim to show it, as `folder/file.py::name`, in order. Tests are read, not run."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        source = path.read_text()
        if "mark.scenario" not in source and "_kafka_" not in source:
            continue
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in (*_marks(node), *(f"KAFKA-{bug}" for bug in _BUG_IN_NAME.findall(node.name))):
                    found[number].append(f"{path.relative_to(TESTS)}::{node.name}")
    return found


def _marks(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the numbers of `pytest.mark.scenario(…)` among the decorators, including those inside a `pytest.param`."""
    for decorator in node.decorator_list:
        for call in ast.walk(decorator):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.scenario":
                yield from (str(ast.literal_eval(argument)) for argument in call.args)


def rendered(text: str, tests: Mapping[str, list[str]]) -> str:
    """Return `text` with the third column that `tests` give."""

    def line_of(line: str) -> str:
        if (found := _ROW.match(line)) is None:
            return line
        row = Row(*found.groups())
        return str(row._replace(tests="<br>".join(f"`{name}`" for name in tests.get(row.number, ()))))

    return "\n".join(map(line_of, text.splitlines())) + "\n"


if __name__ == "__main__":
    TABLE.write_text(rendered(TABLE.read_text(), shown_by()))
