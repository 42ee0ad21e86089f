"""The connector's jars, which PySpark comes without: fetched once by Maven, kept beside the other suites' downloads.

The connector of PySpark's own release is taken where Maven Central has it, with its own token provider; else the newest
that is known to work with it. kafka-clients and commons-pool2 are of the lines that it was tried with.
"""

import importlib.util
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from ..support.apache_kafka import cache_dir
from ..support.suite import NotRunError

POM = Path(__file__).with_name("pom.xml")
KNOWN_TO_WORK = ("4.2.0", "4.0.0")
"""Versions of the connector and of its token provider, which has not changed in between."""
JDK = 17


def connector_jars() -> list[Path]:
    """NotRunError where PySpark, a JDK it runs on or the jars are missing."""
    if importlib.util.find_spec("pyspark") is None:
        raise NotRunError("the connector jars, and PySpark (pip install 'ottla[spark]')")
    if java_version() < JDK:
        raise NotRunError(f"the connector jars, and a JDK {JDK} or newer")
    spark = version("pyspark")
    for connector, tokens in ((spark, spark), KNOWN_TO_WORK):
        if found := fetched(connector, tokens):
            return found
    raise NotRunError("the connector jars, from Maven Central by Maven")


def java_version() -> int:
    """Major version of the `java` on the path; 0 without one."""
    if not shutil.which("java"):
        return 0
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    return int(found.group(1)) if found else 0


def fetched(connector: str, tokens: str) -> list[Path]:
    """The jars of these versions, from the cache or fetched now; empty when that is not possible."""
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
