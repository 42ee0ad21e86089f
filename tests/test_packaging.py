"""What is shipped and what loads when. That the built wheel serves is judged by `compat.wheel`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from compat.release.notes import is_unreleased, release_notes
from compat.release.readme import long_description

ROOT = Path(__file__).parents[1]
FLOORS = ("protocol", "storage", "server", "pipeline")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_every_package_is_shipped() -> None:
    """A folder with code that pyproject.toml does not list would be missing from the wheel."""
    present = {
        ".".join(("ottla", *path.parent.relative_to(ROOT).parts))
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*.py")
    }
    assert present | {"ottla"} == set(PROJECT["tool"]["setuptools"]["packages"])


def test_every_file_of_a_floor_is_shipped() -> None:
    """What is no module has to be package data: else it is in the checkout and in no wheel."""
    shipped = {
        path
        for package, patterns in PROJECT["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in ROOT.joinpath(*package.split(".")[1:]).glob(pattern)
    }
    listed = subprocess.run(["git", "ls-files", *FLOORS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    others = {ROOT / name for name in listed.split() if not name.endswith((".py", ".md"))}
    assert others - shipped == set()


def test_every_folder_with_code_is_a_package() -> None:
    without = {
        str(path.parent.relative_to(ROOT))
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    }
    assert without == set()


def test_the_root_has_no_module_but_the_package_itself() -> None:
    """Any other one would be shipped as ottla.NAME."""
    assert [path.name for path in ROOT.glob("*.py")] == ["__init__.py"]


def test_type_checkers_see_every_floor_through_a_link() -> None:
    links = {path.name: path.readlink() for path in (ROOT / "typings" / "ottla").iterdir()}
    assert links == {name: Path("../..", name) for name in ("__init__.py", *FLOORS)}
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["ottla"] and (ROOT / "py.typed").exists()


def test_the_console_commands_are_those_of_the_server_and_the_pipeline() -> None:
    assert PROJECT["project"]["scripts"] == {
        "ottla": "ottla.server.commands.cli:main",
        "ottla-spark": "ottla.pipeline.cli:main",
    }
    done = subprocess.run(
        [sys.executable, "-m", "ottla.server", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("ottla ")


def test_the_compiled_kernel_is_not_older_than_its_source() -> None:
    """Python takes the library where both are there: an edited kernel.py would be ignored. `make test` compiles it anew."""
    from ottla.storage import kernel

    loaded = Path(kernel.__file__)
    assert loaded.stat().st_mtime >= (ROOT / "storage" / "kernel.py").stat().st_mtime


README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("url", [None, "https://host.example/ottla"])
def test_the_index_shows_the_readme_without_links_that_lead_nowhere(url: str | None) -> None:
    shown = re.sub(r"^```.*?^```$", "", long_description(README, url, "1.2.3"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)]*)\)|^\[[^\]]+\]: *(\S+)|(?:href|src)=\"([^\"]*)", shown, re.MULTILINE)
    assert [link for link in map("".join, links) if not link.startswith("https://")] == []
    assert (url is not None) == (f"{url}/blob/v1.2.3/DESIGN.md" in shown)


def test_code_in_the_readme_is_shown_as_it_is() -> None:
    code = "```python\ntable[0](docs/x.md)\n```\n"
    assert long_description(f"{code}[a](b.md) ![c](d.svg)[![e](f.svg)](g.md)", None, "1") == f"{code}a "


def test_releases_have_notes() -> None:
    assert len(release_notes((ROOT / "CHANGELOG.md").read_text(), version())) > 100
    with pytest.raises(ValueError, match=r"no section '## 0\.1'"):
        release_notes("# Changes\n\n## 0.1.0 (2026-01-01)\n\nall of it\n", "0.1")
    assert release_notes("# Changes\n\n## 2\n\nb\n\n## 1 (unreleased)\n\na\n", "2") == "b\n"
    assert [is_unreleased("## 2\n\nb\n\n## 1 (unreleased)\n\na\n", which) for which in "12"] == [True, False]


def test_the_name_of_a_tag_is_no_command(tmp_path: Path) -> None:
    """git lets a tag be called nearly anything, and the workflow hands its name on."""
    made = tmp_path / "made"
    tag = f"v1$(shell touch {made});touch {made}"
    done = subprocess.run(
        ["make", "--dry-run", "release"],
        cwd=ROOT,
        env=os.environ | {"TAG": tag},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert '--tag "$TAG"' in done.stdout and str(made) not in done.stdout
    assert not made.exists()


def test_what_a_release_tries_is_what_it_built() -> None:
    """pip takes the newest that it finds, on the index, too, and no release candidate unless it is asked for one."""
    installs = re.findall(r"--find-links [\w/]+\s+(\S+)", (ROOT / ".github/workflows/release.yml").read_text())
    assert len(installs) == 2 and all(each.startswith('"ottla==$') for each in installs)


def test_tools_of_a_release_are_pinned_and_have_their_reasons() -> None:
    lines = (ROOT / "compat" / "release" / "requirements.in").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"#.*|[\w-]+==[\w.]+ +# .+", line)] == []


def test_what_a_release_installs_has_the_version_and_the_hash_of_each_tool_and_of_what_it_brings_along() -> None:
    folder = ROOT / "compat" / "release"
    text = (folder / "requirements.txt").read_text().replace("\\\n", "")
    rows = [line for line in text.splitlines() if not line.startswith("#")]
    assert [
        row[:60] for row in rows if not re.fullmatch(r"\S+==\S+( ; [^-]+)?( +--hash=sha256:[0-9a-f]{64})+ *", row)
    ] == []
    pinned = {row.split()[0] for row in rows}
    wanted = [
        line.split()[0] for line in (folder / "requirements.in").read_text().splitlines() if not line.startswith("#")
    ]
    assert [each for each in wanted if each not in pinned] == []


def test_the_index_is_told_no_licence_twice_and_no_older_python_than_is_served() -> None:
    project = PROJECT["project"]
    pythons = [found[1] for each in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", each))]
    assert f">={pythons[0]}" == project["requires-python"]
    assert not [each for each in project["classifiers"] if each.startswith("License ::")], "`license` says it (PEP 639)"


HEAVY = ("trio", "asyncio", "ssl", "json", "argparse", "logging", "lz4", "zstandard", "cramjam", "crc32c")


def test_importing_the_package_loads_nothing_heavy() -> None:
    done = python(f"import sys, ottla; print(sorted(set(sys.modules) & set({HEAVY})), ottla.__version__)")
    assert (done.stdout, done.stderr) == (f"[] {version()}\n", "")


def version() -> str:
    return python("import ottla; print(ottla.__version__)").stdout.strip()


@pytest.mark.parametrize(
    ("name", "loads_trio"),
    [
        ("Broker", True),
        ("ControlError", False),
        ("KafkaError", False),
        ("NewRecord", False),
        ("Record", False),
        ("open_broker", True),
    ],
)
def test_public_names_load_on_first_use(name: str, loads_trio: bool) -> None:
    done = python(f"import sys; from ottla import {name}; print({name}.__name__, 'trio' in sys.modules)")
    assert (done.stdout, done.stderr) == (f"{name} {loads_trio}\n", "")


def test_an_unknown_name_is_an_attribute_error() -> None:
    done = python("import ottla; print(hasattr(ottla, 'Brokr'))")
    assert (done.stdout, done.stderr) == ("False\n", "")


PYTEST_ONLY = ("ottla.server.pytest_plugin", "ottla.server.testing")
"""Loaded by pytest alone."""
IMPORT_ALL = """
import importlib, pkgutil, sys
for unwanted in {unwanted}:
    sys.modules[unwanted] = None  # Importing it fails.
def import_all(name):
    for found in pkgutil.iter_modules(importlib.import_module(name).__path__, name + "."):
        if found.name in {pytest_only}:
            continue
        if found.ispkg:
            import_all(found.name)
        elif not found.name.endswith(".__main__"):
            importlib.import_module(found.name)
for floor in {floors}:
    import_all("ottla." + floor)
print("ok")
"""


@pytest.mark.parametrize(
    ("floors", "unwanted"),
    [
        (["protocol"], ["trio", "ottla.storage", "ottla.server", "ottla.pipeline"]),
        (["protocol", "storage"], ["trio", "ottla.server", "ottla.pipeline"]),
        (["protocol", "storage", "pipeline"], ["trio", "ottla.server"]),
        (
            ["protocol", "storage", "server"],
            ["pytest", "hypothesis", "kafka", "kio", "psutil", "confluent_kafka", "aiokafka", "isal", "snappy"],
        ),
    ],
    ids=["protocol", "storage", "pipeline", "server"],
)
def test_a_floor_loads_without_what_it_does_not_stand_on(floors: list[str], unwanted: list[str]) -> None:
    done = python(IMPORT_ALL.format(floors=floors, unwanted=unwanted, pytest_only=PYTEST_ONLY))
    assert (done.stdout, done.stderr) == ("ok\n", "")
