"""The requirements of each table format: the newest Spark that its newest release supports, in an environment, and the jars.

Both are downloaded once and kept with the other suites' downloads. An environment is a PySpark alone; it takes everything else,
Ottla included, from the Python that the suite runs in.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

from ..spark_cluster.cluster import java_for_spark
from ..spark_connector.jars import fetched
from ..support.brokers.apache_kafka import cache_dir, fetches
from ..support.suite import NotRunError

POM = Path(__file__).with_name("pom.xml")


class Kind(NamedTuple):
    """
    package: group:artifact:version.
    connector, tokens, formats: Versions of Spark's Kafka connector, of its token provider, and of its functions for Avro and Protobuf.
    """

    name: str
    spark: str
    package: str
    connector: str
    tokens: str
    formats: str


KINDS = {
    "delta": Kind("delta", "4.2.0", "io.delta:delta-spark_4.2_2.13:4.4.0", "4.2.0", "4.0.0", "4.2.0"),
    "iceberg": Kind(
        "iceberg", "4.1.3", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", "4.1.3", "4.0.0", "4.1.1"
    ),
}
"""Newest releases on 2026-11-25, of Maven Central and the Python package index."""


DEBEZIUM, CONNECT, APICURIO = "3.6.1.Final", "4.4.0", "2.6.13.Final"


class Environment(NamedTuple):
    kind: Kind
    python: Path
    spark_home: Path
    java: str
    jars: tuple[Path, ...]


def environment(name: str) -> Environment:
    """NotRunError: Java, Maven, the jars or the package index are missing."""
    kind = KINDS[name]
    java = java_for_spark()
    jars = [*fetched(kind.connector, kind.tokens), *_jars(kind)]
    if len(jars) < 5:
        raise NotRunError(
            f"the jars of {name} and of Spark's Kafka connector {kind.connector}, from Maven Central by Maven"
        )
    python = _python(kind.spark)
    (site,) = python.parents[1].glob("lib/python3*/site-packages")
    return Environment(kind, python, site / "pyspark", java, tuple(jars))


@fetches("maven")
def format_jars(name: str, kind: Kind) -> list[Path]:
    """Return the jars of Spark's functions for a format, `avro` or `protobuf`; empty if they cannot be downloaded."""
    return _copied(f"org.apache.spark:spark-{name}_2.13:{kind.formats}", f"spark-{name}-{kind.formats}")


@fetches("maven")
def debezium_jars() -> list[Path]:
    """Return the jars of Debezium's envelope and of the converters for JSON and Avro; empty if they cannot be downloaded."""
    packages = (
        f"io.debezium:debezium-embedded:{DEBEZIUM}",
        f"org.apache.kafka:connect-json:{CONNECT}",
        f"io.apicurio:apicurio-registry-utils-converter:{APICURIO}",
    )
    found = [_copied(package, package.rpartition(":")[0].rpartition(":")[2]) for package in packages]
    return [jar for jars in found for jar in jars] if all(found) else []


@fetches("maven")
def _jars(kind: Kind) -> list[Path]:
    return _copied(kind.package, f"spark-apply-{kind.package.rpartition(':')[2]}-{kind.name}-{kind.spark}")


def _copied(package: str, name: str) -> list[Path]:
    """Return a package and what it needs, from the folder of this name in the cache, or fetched into it now."""
    folder = cache_dir() / name
    if not (folder / "complete").exists():
        if not shutil.which("mvn"):
            return []
        group, artifact, release = package.split(":")
        named = [f"-Dgroup={group}", f"-Dartifact={artifact}", f"-Drelease={release}", f"-DoutputDirectory={folder}"]
        fetch = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies", "-DincludeScope=runtime", *named]
        if subprocess.run(fetch, capture_output=True, check=False).returncode:
            shutil.rmtree(folder, ignore_errors=True)
            return []
        for each in folder.glob("scala-library-*.jar"):  # Spark has its own
            each.unlink()
        (folder / "complete").touch()
    return sorted(folder.glob("*.jar"))


@fetches("pyspark")
def _python(version: str) -> Path:
    folder = cache_dir() / f"pyspark-{version}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        (site,) = folder.glob("lib/python3*/site-packages")
        install = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--target",
            str(site),
            f"pyspark=={version}",
        ]
        if subprocess.run(install, check=False, capture_output=True).returncode:
            shutil.rmtree(folder, ignore_errors=True)
            raise NotRunError(f"pyspark {version}, from the package index")
        (folder / "complete").touch()
    (site,) = folder.glob("lib/python3*/site-packages")
    # Its own PySpark comes first; the rest is from the Python that runs the suite, of any checkout.
    (site / "zz_of_the_suite.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return python


def variables(of: Environment) -> dict[str, str]:
    """Return the environment variables of a process of this environment."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "JAVA_HOME"))
    }
    return {**kept, "JAVA_HOME": of.java, "PYSPARK_PYTHON": str(of.python), "SPARK_LOCAL_IP": "127.0.0.1"}
