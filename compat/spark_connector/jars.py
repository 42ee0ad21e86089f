"""The connector's jars, which PySpark does not contain: downloaded once by Maven, kept with the other suites' downloads.

The connector of PySpark's own release is used if Maven Central has it, with its own token provider; else the newest
that is known to work with it. kafka-clients and commons-pool2 are of the lines that the suite was tested with.
"""

import importlib.util
import shutil
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

from ottla.pipeline.errors import UsageError
from ottla.pipeline.run.java import java_home

from ..support.brokers.apache_kafka import cache_dir, fetches
from ..support.suite import NotRunError

POM = Path(__file__).with_name("pom.xml")
KNOWN_TO_WORK = ("4.2.0", "4.0.0")
"""Versions of the connector and of its token provider, which has not changed in between."""


@fetches("maven")
def connector_jars() -> list[Path]:
    """NotRunError where PySpark, a Java it runs on or the jars are missing."""
    if importlib.util.find_spec("pyspark") is None:
        raise NotRunError("the connector jars, and PySpark (pip install 'ottla[spark]')")
    try:
        java_home()
    except UsageError as missing:
        raise NotRunError(f"the connector jars, and a Java: {missing}") from missing
    own = version("pyspark")
    not_there = cache_dir() / f"spark-connector-{own}.not-there"
    if not is_recent(not_there):
        if found := fetched(own, own):
            return found
        cache_dir().mkdir(parents=True, exist_ok=True)
        not_there.touch()
    if found := fetched(*KNOWN_TO_WORK):
        return found
    raise NotRunError("the connector jars, from Maven Central by Maven")


def fetched(connector: str, tokens: str) -> list[Path]:
    """Return the jars of these versions, from the cache or fetched now; empty when that is not possible."""
    folder = cache_dir() / f"spark-connector-{connector}"
    if not (folder / "complete").exists():
        if not shutil.which("mvn"):
            return []
        folder.mkdir(parents=True, exist_ok=True)
        fetch = ["mvn", "-B", "-q", "-f", str(POM), f"-Dconnector={connector}", f"-Dtokens={tokens}", "dependency:copy"]
        done = subprocess.run([*fetch, f"-DoutputDirectory={folder}"], capture_output=True, cwd=folder, check=False)
        if done.returncode:
            shutil.rmtree(folder)
            return []
        (folder / "complete").touch()
    return sorted(folder.glob("*.jar"))


def is_recent(path: Path) -> bool:
    """Return whether the file was touched within a day, so that not every run asks Maven Central for a missing release."""
    return path.exists() and time.time() - path.stat().st_mtime < 24 * 3600
