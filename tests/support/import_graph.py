"""Imports between files, read from the sources; nothing is executed.

Imports under `if TYPE_CHECKING:` and inside functions count: a file that names a thing depends on it. Python also loads the
packages above a module, which does not count: they only name what is inside them. An import whose name is put together at run
time (`import_module`) is not seen; one in the text of a string is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

FLOORS = ("protocol", "storage", "server", "pipeline")


def python_files(root: Path, *folders: str) -> Iterator[Path]:
    """Yield every Python file below these folders of a checkout, except those in hidden folders."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if not any(part.startswith(".") for part in path.relative_to(root).parts):
                yield path


def module_name(path: str) -> str:
    """Return the name by which a file is imported: floors are below `ottla`, everything else below the root of the checkout."""
    *folders, file = path.removesuffix(".py").split("/")
    names = folders if file == "__init__" else [*folders, file]
    return ".".join(["ottla", *names] if not names or names[0] in FLOORS else names)


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return, for each file (by its path from the root of the checkout), the others of `sources` that it imports."""
    paths = {module_name(path): path for path in sources}
    graph = {}
    for path, text in sources.items():
        name = module_name(path)
        package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
        is_script = package not in paths  # It imports files in its folder by their bare names.
        found = set()
        for names in _imported(text, package):
            candidates = [*names, *(f"{package}.{beside}" for beside in names if is_script)]
            found.add(next((paths[candidate] for candidate in candidates if candidate in paths), path))
        graph[path] = found - {path}
    return graph


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return a cycle: files of which each imports the next, with the first also last; empty if the graph has no cycle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


_IMPORT = re.compile(r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(?:\([^)]*\)|[^\n]*))", re.MULTILINE)
"""Imports at the beginning of a line, where `ruff format` puts each."""


def _tree(text: str) -> ast.Module:
    """Return a tree with only the imports of `text`: parsing the whole project takes seconds."""
    try:
        return ast.parse("\n".join(_IMPORT.findall(text)))
    except SyntaxError:  # words of a docstring, or a bracket in a comment
        return ast.parse(text)


def _imported(text: str, package: str) -> Iterator[tuple[str, ...]]:
    """Yield the full names that each imported thing may have; the first that is a module counts."""
    for node in _statements(_tree(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name,) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            yield from ((f"{module}.{alias.name}", module) for alias in node.names)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements in a module, however deep; expressions, most of a file, contain none."""
    for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
        found = getattr(node, inner, None)
        for statement in found if isinstance(found, list) else ():
            yield statement
            yield from _statements(statement)
