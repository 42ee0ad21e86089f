"""The lowest versions that pyproject.toml allows, and what an advisory database reports about them."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..support.environments import ROOT, empty_environment, pip, run
from ..support.suite import NotRunError

EXTRAS = ("tls", "oauth", "gzip-fast")
"""The extras used at run time. `compat.spark_versions` tests Spark's versions."""
TOOLS = Path(__file__).with_name("requirements.txt")
SERVICES = ("pypi", "osv")
"""pip-audit's names of advisory databases, in the order of their use."""
WITH_A_HOLE = {"h11": "0.14.0"}
"""A release with a published advisory (CVE-2025-43859). A database that has nothing on it cannot clear another one."""


def tools(folder: Path) -> Path:
    """Install the tools, by their hashes, into a new environment; returns the folder of its commands.

    Raises:
        NotRunError: Without the package index.
    """
    python = empty_environment(folder)
    done = pip(python, "install", "--require-hashes", "--requirement", TOOLS, cwd=folder)
    if done.returncode:
        raise NotRunError(f"the package index: {done.stderr.strip()[-300:]}")
    return python.parent


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def oldest_python() -> str:
    """Return the lowest Python of `requires-python`, such as `3.11`."""
    return str(project()["requires-python"]).removeprefix(">=")


def direct() -> set[str]:
    """Return the names of all dependencies of run time, the extras' among them."""
    extras = project()["optional-dependencies"]
    every = [*project()["dependencies"], *(each for name in EXTRAS for each in extras[name])]
    return {normal(re.split(r"[\[<>=! ]", each)[0]) for each in every}


def lowest(commands: Path) -> dict[str, str]:
    """Return the lowest version of each direct dependency, and the newest of each indirect one: name to version.

    Raises:
        RuntimeError: No such set of versions exists.
    """
    words: list[str | Path] = [
        commands / "uv",
        "pip",
        "compile",
        "--quiet",
        "--resolution",
        "lowest-direct",
        "--no-header",
        "--no-annotate",
    ]
    words += ["--python-version", oldest_python(), *(f"--extra={name}" for name in EXTRAS), ROOT / "pyproject.toml"]
    done = run(words, cwd=commands)
    if done.returncode:
        raise RuntimeError(f"uv finds no lowest versions: {done.stderr.strip()[-600:]}")
    return dict(pin(line) for line in done.stdout.splitlines() if "==" in line)


def pin(line: str) -> tuple[str, str]:
    """Return name and version of a line `name==version ; marker`."""
    name, _, version = line.partition(";")[0].strip().partition("==")
    return normal(name), version


def normal(name: str) -> str:
    """Return a package's name in the spelling by which the index compares them."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class Audit:
    """The result of an advisory database for a set of versions.

    holes: Advisories by package; only packages with one.
    unknown: The reason why a package was not audited, by package.
    """

    holes: Mapping[str, tuple[str, ...]]
    unknown: Mapping[str, str]


def read(report: str, pins: Mapping[str, str]) -> Audit:
    """Read pip-audit's report in JSON. A package of `pins` that it lacks, or has in another version, was not audited.

    pip-audit ends with exit code 0, and reports no known vulnerability, when it could not audit anything.
    """
    holes: dict[str, tuple[str, ...]] = {}
    unknown = dict.fromkeys(pins, "the report does not name it")
    try:
        rows = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return Audit({}, dict.fromkeys(pins, "there is no report"))
    for row in rows:
        name = normal(row["name"])
        if "skip_reason" in row:
            unknown[name] = row["skip_reason"]
        elif row["version"] != pins.get(name):
            unknown[name] = f"the report is of {row['version']}"
        else:
            unknown.pop(name, None)
            if row["vulns"]:
                holes[name] = tuple(_named(each) for each in row["vulns"])
    return Audit(holes, unknown)


def _named(advisory: Mapping[str, Any]) -> str:
    others = ", ".join(advisory.get("aliases", ()))
    mended = ", ".join(advisory.get("fix_versions", ())) or "no release"
    return f"{advisory['id']}{f' ({others})' if others else ''}, mended in {mended}"


def audited(commands: Path, pins: Mapping[str, str], osv_url: str | None = None) -> Audit:
    """Audit these versions with the first advisory database that can be reached.

    Args:
        osv_url: A mirror of OSV's query call, instead of the public databases.

    Raises:
        NotRunError: No database can be reached.
    """
    for service in SERVICES if osv_url is None else ("osv",):
        words: list[str | Path] = [commands / "pip-audit", "--no-deps", "--disable-pip", "--progress-spinner=off"]
        words += ["--format=json", f"--vulnerability-service={service}"]
        words += [f"--osv-url={osv_url}"] if osv_url else []
        if _asked(words, WITH_A_HOLE).holes:
            return _asked(words, pins)
    raise NotRunError("an advisory database")


def _asked(words: list[str | Path], pins: Mapping[str, str]) -> Audit:
    with TemporaryDirectory(prefix="ottla-audit-") as folder:
        listed = Path(folder) / "audited.txt"
        listed.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
        return read(run([*words, "--requirement", listed], cwd=Path(folder)).stdout, pins)
