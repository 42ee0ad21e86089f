"""The order of the code: no import cycles, no oversized folders, and a place for every module in an import contract."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from support.import_graph import FLOORS, circle, import_graph, module_name, python_files

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
CODE = (*FLOORS, "compat", "examples", "docker")
MODULES_SIDE_BY_SIDE = 32
TABLES = {"protocol/messages", "server/handlers"}
"""Folders with one module per API."""


def test_no_file_imports_itself_through_another_file() -> None:
    files = [ROOT / "__init__.py", *python_files(ROOT, *CODE)]
    found = circle(import_graph({path.relative_to(ROOT).as_posix(): path.read_text() for path in files}))
    assert not found, f"a circle of files: {' -> '.join(found)}"


def test_a_cycle_is_reported_for_imports_at_any_place() -> None:
    sources = {
        "storage/__init__.py": "from .disk.files import Files",
        "storage/errors.py": "import ottla.storage.disk",
        "storage/disk/__init__.py": "",
        "storage/disk/files.py": "from . import paths\nfrom .. import errors",
        "storage/disk/paths.py": "if TYPE_CHECKING:\n    from ..logs.log import Log",
        "storage/logs/__init__.py": "",
        "storage/logs/log.py": "def read():\n    from ottla.storage.disk.files import Files",
    }
    assert set(pairwise(circle(import_graph(sources)))) == {
        ("storage/disk/files.py", "storage/disk/paths.py"),
        ("storage/disk/paths.py", "storage/logs/log.py"),
        ("storage/logs/log.py", "storage/disk/files.py"),
    }


def test_a_cycle_of_scripts_is_found() -> None:
    sources = {"examples/feed/job.py": "from table import rows", "examples/feed/table.py": "import job"}
    assert set(circle(import_graph(sources))) == set(sources)


def test_no_folder_is_oversized() -> None:
    modules = [path for path in python_files(ROOT, *CODE, "tests") if path.stem not in ("__init__", "__main__")]
    beside = Counter(path.parent.relative_to(ROOT).as_posix() for path in modules)
    halls = {folder: count for folder, count in beside.items() if count > MODULES_SIDE_BY_SIDE and folder not in TABLES}
    assert halls == {}


class Layers(NamedTuple):
    """A contract of pyproject.toml: each layer imports only from those below it."""

    contract: str
    container: str
    layers: list[list[str]]
    """Full names of packages and modules, high to low."""


def layers_contracts() -> Iterator[Layers]:
    for contract in PROJECT["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            for container in contract["containers"]:
                layers = [re.split(r"\s*[|:]\s*", layer) for layer in contract["layers"]]
                yield Layers(contract["name"], container, [[f"{container}.{name}" for name in each] for each in layers])


def modules_of(package: Path) -> dict[str, Path]:
    return {module_name(path.relative_to(package).as_posix()): path for path in python_files(package, *FLOORS)}


def is_in(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def test_every_module_has_its_place_in_an_import_contract() -> None:
    """If a folder has rooms, a contract names the layer of each module below it."""
    modules = modules_of(ROOT)
    rooms = {name for name, path in modules.items() if path.name == "__init__.py"}
    houses = {room.rpartition(".")[0] for room in rooms} - {"ottla.protocol"}  # Its one room is the table of messages.
    placed: dict[str, set[str]] = defaultdict(set)
    for _, container, layers in layers_contracts():
        placed[container].update(*layers)
    homeless = {
        module
        for house in houses
        for module in modules.keys() - rooms
        if is_in(module, house) and not any(is_in(module, layer) for layer in placed[house])
    }
    assert homeless == set()


PLANTS = ("import {}", "if TYPE_CHECKING:\n    import {}", "def later() -> None:\n    import {}")


def test_an_upward_import_breaks_its_contract(tmp_path: Path) -> None:
    """The test adds one import per contract, from the lowest layer into the highest, in a copy of the package."""
    package = tmp_path / "ottla"
    for floor in FLOORS:
        shutil.copytree(ROOT / floor, package / floor, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "__init__.py", package)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    modules = modules_of(package)
    expected = set()
    for (contract, _, layers), plant in zip(layers_contracts(), cycle(PLANTS), strict=False):
        highest, lowest = layers[0][0], layers[-1][0]
        importer, path = next((name, path) for name, path in modules.items() if is_in(name, lowest))
        path.write_text(f"{path.read_text()}\n\n{plant.format(highest)}\n")
        expected |= {f"{contract} BROKEN", f"{importer} -> {highest}"}
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert {line for line in expected if line not in done.stdout} == set()


def test_the_map_of_the_tests_names_each_of_their_parts() -> None:
    support = ROOT / "tests" / "support"
    rows = re.findall(r"^\| (`(\w+)`|here) \|(.*)$", (support / "README.md").read_text(), re.MULTILINE)
    named = {(folder or ".", name) for _, folder, row in rows for name in re.findall(r"`(\w+)`", row)}
    files = [path for path in support.rglob("*.py") if path.stem != "__init__"]
    assert named == {(path.parent.relative_to(support).as_posix(), path.stem) for path in files}
