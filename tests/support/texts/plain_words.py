"""Counts words and openings that plain technical English does not have, by kind of text and folder.

    python -m support.texts.plain_words [--write]    from tests/: the table; --write keeps it as the bound

The ten rules are in CONTRIBUTING.md. `tests/test_plain_words.py` fails when a figure is above what `plain_words.json` has.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
KEPT = Path(__file__).with_suffix(".json")
BANNED = re.compile(
    r"\b((?<!-)anew|told|whoever|nobody|somebody|likewise|meanwhile|as far as|is to be|are to be|stands? in|cannot be had)\b"
    r"|\bso (many|long|often)\b|, too\b|\bthere is no\b|\bgo(es|ne)? on\b",
    re.IGNORECASE,
)
OPENING = re.compile(r"(Of|Those|As|Who|Whom|Whose|What|Whoever|They|It|All of it|The same|One of|Some of)\b")
"""A first line of a docstring, or a test name, that begins so has no subject of its own."""
COMMENT = re.compile(r"(?:^|\s)# .*")
WITH_SUBJECT = ("docstrings", "test names")
MESSAGE_CALLS = ("debug", "info", "warning", "error", "exception", "critical")
DEPTHS = {"server": 2, "tests": 3}
"""Levels of a path that make a folder of the table, if more than one: reading all of `tests` at once takes seconds."""
MADE_FROM_CODE = {
    f"docs/{name}.md" for name in ("python-api", "commands", "configuration", "metrics", "options-without-effect")
}


def count(names: Iterable[str], root: Path = ROOT) -> dict[str, int]:
    """Kind of text and folder -> how many banned words, or openings, are in these files."""
    found: Counter[str] = Counter()
    for name in names:
        path, text, folder = Path(name), (root / name).read_text(), _folder(name)
        if path.suffix == ".md":
            kind = "pages made from code" if name in MADE_FROM_CODE else "texts"
            found[f"{kind}: {folder}"] += len(BANNED.findall(_prose(text)))
        elif path.suffix == ".html":
            found[f"page: {folder}"] += len(BANNED.findall(text))
        else:
            for kind, said in _said(text):
                found[f"{kind}: {folder}"] += len(BANNED.findall(said))
                found[f"openings: {folder}"] += kind in WITH_SUBJECT and bool(OPENING.match(said))
    return {name: number for name, number in sorted(found.items()) if number}


def files() -> dict[str, list[str]]:
    """The project's texts by their folder (`DEPTHS`), or by their own name."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md", "*.html"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    found: dict[str, list[str]] = {}
    for name in listed.stdout.split():
        if not name.startswith("typings/") and ROOT / name != Path(__file__):
            found.setdefault(_folder(name), []).append(name)
    return found


def _folder(name: str) -> str:
    first, *rest = Path(name).parts
    return "/".join((first, *rest[:-1][: DEPTHS.get(first, 1) - 1]))


def _prose(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def _said(text: str) -> Iterator[tuple[str, str]]:
    """The texts of one module with their kinds: docstrings, comments, messages and names of tests."""
    for comment in COMMENT.findall(text):
        yield "comments", comment
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield "docstrings", node.value.value.strip()
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield "test names", node.name.removeprefix("test_").replace("_", " ").capitalize()
        elif isinstance(node, ast.Raise) or _is_message(node):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield "messages", part.value


def _is_message(node: ast.AST) -> bool:
    """Whether this logs a line, or makes an error or an option of the command line."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in (*MESSAGE_CALLS, "add_argument")
    return False


def main() -> None:
    counted = count(name for names in files().values() for name in names)
    if "--write" in sys.argv[1:]:
        KEPT.write_text(json.dumps(counted, indent=1) + "\n")
    for name, number in counted.items():
        print(f"{number:6}  {name}")


if __name__ == "__main__":
    main()
