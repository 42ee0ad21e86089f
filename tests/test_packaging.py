"""Packaging: the shipped files, and the modules that each import loads. `compat.wheel` tests that the built wheel serves."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from compat.lower_bounds.bounds import EXTRAS, direct
from compat.lower_bounds.bounds import read as read_audit
from compat.release.bases import bases, by_tag
from compat.release.notes import is_unreleased, release_notes
from compat.release.readme import long_description

from ottla import __version__

ROOT = Path(__file__).parents[1]
FLOORS = ("protocol", "storage", "server", "pipeline")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def python(code: str) -> list[str]:
    """Return the output of `code` in a fresh interpreter, which must succeed without warnings."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout.splitlines()


FORKED = """
import os, sys
def forked(work):
    child = os.fork()
    if child == 0:
        print(work(), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
"""Code in which `forked(work)` runs the work in a process of its own that has the same modules loaded."""


def test_every_package_is_shipped() -> None:
    """A folder with code that pyproject.toml does not list would be missing from the wheel."""
    present = {
        ".".join(("ottla", *path.parent.relative_to(ROOT).parts))
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*.py")
    }
    assert present | {"ottla"} == set(PROJECT["tool"]["setuptools"]["packages"])


def test_every_file_of_a_floor_is_shipped() -> None:
    """A file other than a module must be package data: otherwise it is in the checkout and not in the wheel."""
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


def test_the_root_has_only_the_package_module() -> None:
    """Any other module would be shipped as ottla.NAME."""
    assert [path.name for path in ROOT.glob("*.py")] == ["__init__.py"]


def test_type_checkers_see_every_floor_through_a_link() -> None:
    links = {path.name: path.readlink() for path in (ROOT / "typings" / "ottla").iterdir()}
    assert links == {name: Path("../..", name) for name in ("__init__.py", *FLOORS)}
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["ottla"] and (ROOT / "py.typed").exists()


def test_console_commands_belong_to_the_server_and_the_pipeline() -> None:
    assert PROJECT["project"]["scripts"] == {
        "ottla": "ottla.server.commands.cli:main",
        "ottla-spark": "ottla.pipeline.cli:main",
    }
    done = subprocess.run(
        [sys.executable, "-m", "ottla.server", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("ottla ")


def test_the_compiled_kernel_is_not_older_than_its_source() -> None:
    """Python prefers the compiled library: an edited kernel.py would be ignored. `make test` compiles it again."""
    from ottla.storage import kernel

    loaded = Path(kernel.__file__)
    assert loaded.stat().st_mtime >= (ROOT / "storage" / "kernel.py").stat().st_mtime


README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("url", [None, "https://host.example/ottla"])
def test_the_index_shows_the_readme_without_broken_links(url: str | None) -> None:
    shown = re.sub(r"^```.*?^```$", "", long_description(README, url, "1.2.3"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)]*)\)|^\[[^\]]+\]: *(\S+)|(?:href|src)=\"([^\"]*)", shown, re.MULTILINE)
    assert [link for link in map("".join, links) if not link.startswith("https://")] == []
    assert (url is not None) == (f"{url}/blob/v1.2.3/DESIGN.md" in shown)


def test_code_in_the_readme_is_unchanged() -> None:
    code = "```python\ntable[0](docs/x.md)\n```\n"
    assert long_description(f"{code}[a](b.md) ![c](d.svg)[![e](f.svg)](g.md)", None, "1") == f"{code}a "


def test_releases_have_notes() -> None:
    assert len(release_notes((ROOT / "CHANGELOG.md").read_text(), __version__)) > 100
    with pytest.raises(ValueError, match=r"no section '## 0\.1'"):
        release_notes("# Changes\n\n## 0.1.0 (2026-01-01)\n\nall of it\n", "0.1")
    assert release_notes("# Changes\n\n## 2\n\nb\n\n## 1 (unreleased)\n\na\n", "2") == "b\n"
    assert [is_unreleased("## 2\n\nb\n\n## 1 (unreleased)\n\na\n", which) for which in "12"] == [True, False]


def test_changes_are_named_and_located_as_towncrier_requires() -> None:
    """towncrier ignores a file of another name, and writes a section that `release_notes` finds."""
    settings = PROJECT["tool"]["towncrier"]
    names = [path.name for path in (ROOT / settings["directory"]).iterdir() if path.name != "README.md"]
    assert [name for name in names if not re.fullmatch(r"\+[\w-]+\.(feature|bugfix|removal|doc)\.md", name)] == []
    changelog, marker = (ROOT / settings["filename"]).read_text(), "<!-- towncrier release notes start -->"
    section = f"{settings['title_format'].format(version='9.9', project_date='2026-01-01')}\n\nnew\n"
    assert release_notes(changelog.replace(marker, f"{marker}\n\n{section}"), "9.9") == "new\n"


def test_the_name_of_a_tag_is_not_executed(tmp_path: Path) -> None:
    """git allows almost any tag name, and the workflow passes the name on."""
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


def test_a_release_tests_the_version_it_built() -> None:
    """pip installs the newest version that it finds, also from the index, and a release candidate only if asked for one."""
    installs = re.findall(r"--find-links [\w/]+\s+(\S+)", (ROOT / ".github/workflows/release.yml").read_text())
    assert len(installs) == 2 and all(each.startswith('"ottla==$') for each in installs)


PINNED = [ROOT / folder for folder in ("compat/release", "compat/lower_bounds", "docker")]
"""Folders with a list of tools for the project's own work: `requirements.in` for people, `requirements.txt` with hashes."""


def pinned_tools(folder: Path) -> list[str]:
    lines = (folder / "requirements.in").read_text().splitlines()
    return [line.split()[0] for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("folder", PINNED, ids=lambda folder: folder.name)
def test_tools_are_pinned_with_reasons(folder: Path) -> None:
    lines = (folder / "requirements.in").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"#.*|[\w-]+==[\w.]+ +# .+", line)] == []


@pytest.mark.parametrize("folder", PINNED, ids=lambda folder: folder.name)
def test_each_tool_and_each_dependency_has_its_version_and_hashes(folder: Path) -> None:
    text = (folder / "requirements.txt").read_text().replace("\\\n", "")
    rows = [line for line in text.splitlines() if not line.startswith("#")]
    assert [
        row[:60] for row in rows if not re.fullmatch(r"\S+==\S+( ; [^-]+)?( +--hash=sha256:[0-9a-f]{64})+ *", row)
    ] == []
    pinned = {row.split()[0] for row in rows}
    assert [each for each in pinned_tools(folder) if each not in pinned] == []


def test_a_tool_has_the_same_version_everywhere() -> None:
    every = {tool for folder in PINNED for tool in pinned_tools(folder)}
    assert len({tool.partition("==")[0] for tool in every}) == len(every)


INSTALLS = re.compile(r"(?:\bpip (?:install|wheel)|\buv build) [^&|;\n]*")
TAKES_A_VALUE = ("--python", "--out-dir", "--wheel-dir")
SPARK_IN_THE_IMAGE = {each for each in PROJECT["project"]["optional-dependencies"]["spark"] if "pyspark" not in each}


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.spark"])
def test_an_image_is_built_only_with_pinned_tools(name: str) -> None:
    """Versions in pyproject.toml change; all tools come from the list with hashes, and no build fetches tools by itself."""
    text = re.sub(r"#.*\n", "", (ROOT / "docker" / name).read_text()).replace("\\\n", "")
    commands = INSTALLS.findall(text)
    assert len(commands) >= 4
    assert [command for command in commands if not is_pinned(command)] == []


def is_pinned(command: str) -> bool:
    _, *words = shlex.split(command)
    options = {word for word in words if word.startswith("--")}
    values = {after for word, after in itertools.pairwise(words) if word in (*TAKES_A_VALUE, "--requirement")}
    if "--requirement" in options:
        listed = words[words.index("--requirement") + 1]
        if listed != "/requirements.txt" and not {"--require-hashes"} <= options:
            return False
    others = {word for word in words if not word.startswith("--")} - values - {"install", "wheel", "build"}
    if others & {".", "/src"}:
        return "--no-build-isolation" in options
    return others - {"/wheels/*.whl"} <= SPARK_IN_THE_IMAGE


@pytest.mark.parametrize(
    ("command", "pinned"),
    [
        ("pip install --no-cache-dir uv", False),
        ("pip install --requirement /build-tools.txt", False),
        ("pip install --require-hashes --requirement /build-tools.txt", True),
        ("pip install --no-deps .", False),
        ("uv pip install --python /opt/x /src 'pyarrow>=18'", False),
        ("pip wheel --no-build-isolation --wheel-dir /wheels .", True),
        ("uv build --wheel --out-dir /wheels /src", False),
        ("uv pip install --python /opt/x /wheels/*.whl 'pyarrow>=17'", False),
    ],
)
def test_the_check_of_such_commands_distinguishes_both_kinds(command: str, pinned: bool) -> None:
    (found,) = INSTALLS.findall(f"RUN {command} && true")
    assert is_pinned(found) is pinned


@pytest.mark.parametrize(
    ("dockerfile", "expected"),
    [
        ("FROM a:1\n", ["a:1"]),
        ("ARG B=a:1\nFROM ${B} AS x\nFROM x\nCOPY --from=x /a /b\nFROM $B\n", ["a:1"]),
        ("ARG B\nFROM $B\n", ["$B"]),
        (
            "from --platform=linux/arm64 a:1 as x\nFROM scratch\nCOPY --from=b:2 /a /b\nCOPY --from=0 /a /b\n",
            ["a:1", "b:2"],
        ),
        ("FROM a:1@sha256:00 AS x\nRUN --mount=type=bind,from=c:3,target=/c \\\n  true\n", ["a:1@sha256:00", "c:3"]),
        ("ARG B='a:1'\n# FROM d:4\nFROM\t${B}\n", ["a:1"]),
    ],
)
def test_bases_of_images_are_found(dockerfile: str, expected: list[str]) -> None:
    assert bases(dockerfile) == expected


def test_a_release_names_each_base_without_a_digest(tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    for name, text in (
        ("Dockerfile", f"FROM a:1@sha256:{'0' * 64}\nFROM a:1@sha256:{'0' * 63}\n"),
        ("Dockerfile.more", "ARG BASE=b:2\nFROM $BASE\n"),
        ("Dockerfile.dockerignore", "FROM c:3\n"),
    ):
        (tmp_path / "docker" / name).write_text(text)
    assert [line.partition(" has")[0] for line in by_tag(tmp_path)] == [
        f"docker/Dockerfile: the base a:1@sha256:{'0' * 63}",
        "docker/Dockerfile.more: the base b:2",
    ]
    ours = {each for path in (ROOT / "docker").glob("Dockerfile*") for each in bases(path.read_text())}
    named = {line.split(" ")[3] for line in by_tag(ROOT)}
    assert {each for each in ours if "@" not in each} == named


PINS = {"h11": "0.16.0", "google-re2": "1.1"}


@pytest.mark.parametrize(
    ("rows", "holes", "unknown"),
    [
        (
            [{"name": "h11", "version": "0.16.0", "vulns": []}, {"name": "google_re2", "version": "1.1", "vulns": []}],
            [],
            [],
        ),
        (
            [{"name": "h11", "skip_reason": "not found"}, {"name": "google-re2", "version": "1.1", "vulns": []}],
            [],
            ["h11"],
        ),
        ([{"name": "h11", "version": "0.16.0", "vulns": []}], [], ["google-re2"]),
        (
            [{"name": "h11", "version": "0.15.0", "vulns": []}, {"name": "Google.RE2", "version": "1.1", "vulns": []}],
            [],
            ["h11"],
        ),
        ([], [], ["google-re2", "h11"]),
        (None, [], ["google-re2", "h11"]),
        (
            [
                {
                    "name": "h11",
                    "version": "0.16.0",
                    "vulns": [{"id": "CVE-1", "fix_versions": ["1"], "aliases": ["GHSA-1"]}],
                },
                {"name": "google-re2", "version": "1.1", "vulns": []},
            ],
            ["h11"],
            [],
        ),
    ],
    ids=["none", "skipped", "left out", "another version", "empty", "no report", "hole"],
)
def test_packages_unknown_to_a_database_are_not_reported_as_safe(
    rows: list[dict[str, Any]] | None, holes: list[str], unknown: list[str]
) -> None:
    audit = read_audit("Traceback" if rows is None else json.dumps({"dependencies": rows, "fixes": []}), PINS)
    assert (sorted(audit.holes), sorted(audit.unknown)) == (holes, unknown)
    if holes:
        assert audit.holes["h11"] == ("CVE-1 (GHSA-1), mended in 1",)


def test_the_audit_covers_every_run_time_library() -> None:
    """A new small extra is listed in `EXTRAS`; the larger ones have suites of their own, or are tools."""
    extras = PROJECT["project"]["optional-dependencies"]
    assert set(extras) - set(EXTRAS) == {
        "spark",
        "delta-rs",
        "spark-delta",
        "spark-iceberg",
        "docs",
        "test",
        "test-pipeline",
        "dev",
    }
    assert {"trio", "h11", "cryptography", "pyjwt", "isal"} <= direct()
    assert len(direct()) == len(PROJECT["project"]["dependencies"]) + sum(len(extras[name]) for name in EXTRAS)


def test_the_metadata_have_one_licence_and_the_oldest_supported_python() -> None:
    project = PROJECT["project"]
    pythons = [found[1] for each in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", each))]
    assert f">={pythons[0]}" == project["requires-python"]
    assert not [each for each in project["classifiers"] if each.startswith("License ::")], "`license` says it (PEP 639)"


HEAVY = ("trio", "asyncio", "ssl", "json", "argparse", "logging", "lz4", "zstandard", "cramjam", "crc32c")
LOADS_TRIO = {
    "Broker": True,
    "ControlError": False,
    "KafkaError": False,
    "NewRecord": False,
    "Record": False,
    "open_broker": True,
}
FIRST_USES = f"""
{FORKED}
import ottla
print(sorted(set(sys.modules) & set({HEAVY})), ottla.__version__, hasattr(ottla, "Brokr"), flush=True)
for name in {[*LOADS_TRIO]}:
    forked(lambda: (getattr(ottla, name).__name__, "trio" in sys.modules))
"""


def test_importing_the_package_loads_nothing_heavy_and_names_load_on_first_use() -> None:
    """An unknown name is an AttributeError."""
    first, *names = python(FIRST_USES)
    assert first == f"[] {__version__} False"
    assert names == [f"('{name}', {loads_trio})" for name, loads_trio in LOADS_TRIO.items()]


PYTEST_ONLY = ("ottla.server.pytest_plugin", "ottla.server.testing")
"""Modules that only pytest loads."""
FOR_TESTS = ("pytest", "hypothesis", "kafka", "kio", "psutil", "confluent_kafka", "aiokafka", "isal", "snappy")
FLOORS_ALONE = f"""
{FORKED}
import importlib, pkgutil

def import_all(name):
    for found in pkgutil.iter_modules(importlib.import_module(name).__path__, name + "."):
        if found.name in {PYTEST_ONLY}:
            continue
        if found.ispkg:
            import_all(found.name)
        elif not found.name.endswith(".__main__"):
            importlib.import_module(found.name)

def load(floor, *needed):
    for name in (f"ottla.{{floor}}", *needed):
        del sys.modules[name]
    import_all(f"ottla.{{floor}}")
    return floor

for unwanted in (*{FOR_TESTS}, "trio", *(f"ottla.{{floor}}" for floor in {FLOORS})):
    sys.modules[unwanted] = None  # Importing it fails.
print(load("protocol"), load("storage"), flush=True)
forked(lambda: load("pipeline"))
forked(lambda: load("server", "trio"))
"""


def test_a_floor_loads_only_the_floors_below_it() -> None:
    assert python(FLOORS_ALONE) == ["protocol storage", "pipeline", "server"]
