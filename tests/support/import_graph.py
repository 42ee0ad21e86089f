"""Which file imports which, read from the sources; nothing is executed.

Imports under `if TYPE_CHECKING:` and inside functions count: who names a thing depends on it. That Python loads the packages
above a module with it does not: they are doors, which name what stands inside. An import whose name is put together at run
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
    """Every Python file below these folders of a checkout, but for those in hidden ones."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if not any(part.startswith(".") for part in path.relative_to(root).parts):
                yield path


def module_name(path: str) -> str:
    """What a file is imported as: floors stand below `ottla`, everything else below the root of the checkout."""
    *folders, file = path.removesuffix(".py").split("/")
    names = folders if file == "__init__" else [*folders, file]
    return ".".join(["ottla", *names] if not names or names[0] in FLOORS else names)


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Of each file, by its path from the root of the checkout, which others of `sources` it imports."""
    paths = {module_name(path): path for path in sources}
    graph = {}
    for path, text in sources.items():
        name = module_name(path)
        package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
        is_script = package not in paths  # It imports what lies beside it by its bare name.
        found = set()
        for names in _imported(text, package):
            candidates = [*names, *(f"{package}.{beside}" for beside in names if is_script)]
            found.add(next((paths[candidate] for candidate in candidates if candidate in paths), path))
        graph[path] = found - {path}
    return graph


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Files of which each imports the next, and the last is the first again; empty if there is no such circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


_IMPORT = re.compile(r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(?:\([^)]*\)|[^\n]*))", re.MULTILINE)
"""On lines of its own, as `ruff format` has each."""


def _tree(text: str) -> ast.Module:
    """With the imports of `text`: to parse all of the project takes seconds."""
    try:
        return ast.parse("\n".join(_IMPORT.findall(text)))
    except SyntaxError:  # words of a docstring, or a bracket in a comment
        return ast.parse(text)


def _imported(text: str, package: str) -> Iterator[tuple[str, ...]]:
    """Full names for each thing imported; the first of them that is a module is the one."""
    for node in _statements(_tree(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name,) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            yield from ((f"{module}.{alias.name}", module) for alias in node.names)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements in a module, however deep; expressions, most of what a file has, hold none."""
    for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
        found = getattr(node, inner, None)
        for statement in found if isinstance(found, list) else ():
            yield statement
            yield from _statements(statement)
