"""Check for the jars that a session needs.

Spark includes none of these, and reports a missing one in about forty lines of Java.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Package(NamedTuple):
    """Jar of a format or connector.

    loads: A class that is in it.
    group, artifact, release: Maven's coordinates, with {spark} for Spark's own version and {line} for its first two numbers.
    lines: The lines of Spark that have a release; empty if each has one.
    spark: The PySpark of the extra `spark-NAME`.
    """

    loads: str
    group: str
    artifact: str
    release: str = "{spark}"
    lines: tuple[str, ...] = ()
    spark: str = ""

    def coordinates(self, spark: str) -> str:
        """Return Maven's coordinates for a version of Spark."""
        artifact = self.artifact.format(line=line_of(spark))
        return f"{self.group}:{artifact}_2.13:{self.release.format(spark=spark)}"

    def fits(self, entry: str, spark: str) -> bool | None:
        """Return whether coordinates, or a path, name this jar for this Spark; None if they name another jar.

        A jar of Spark itself may be older than Spark, not newer.
        """
        name = re.escape(self.artifact).replace(r"\{line\}", r"(?P<line>[\d.]+)")
        found = re.search(rf"{name}_2\.13[:-](?P<release>\d+\.\d+)?", entry)
        if found is None:
            return None
        if self.lines:
            return found["line"] == line_of(spark)
        return found["release"] is None or _numbers(found["release"]) <= _numbers(line_of(spark))

    def is_among(self, entries: Sequence[str]) -> bool:
        """Return whether this jar is among these, for any Spark."""
        return any(self.fits(each, "") is not None for each in entries)


PACKAGES = {
    "delta": Package(
        "io.delta.sql.DeltaSparkSessionExtension", "io.delta", "delta-spark_{line}", "4.4.0", ("4.0", "4.1", "4.2"), "4.2.0"
    ),
    "iceberg": Package(
        "org.apache.iceberg.spark.SparkCatalog", "org.apache.iceberg", "iceberg-spark-runtime-{line}", "1.12.0",
        ("4.1",), "4.1.3",
    ),
    "kafka": Package("org.apache.spark.sql.kafka010.KafkaSourceProvider", "org.apache.spark", "spark-sql-kafka-0-10"),
    # Spark itself has the classes of the format avro, but those of the functions are only in the jar.
    "avro": Package("org.apache.spark.sql.avro.AvroDataToCatalyst", "org.apache.spark", "spark-avro"),
    "protobuf": Package("org.apache.spark.sql.protobuf.ProtobufDataToCatalyst", "org.apache.spark", "spark-protobuf"),
}  # fmt: skip
"""Newest releases on 2026-11-30, with which apply was tested."""

EXTENSIONS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
}
"""Options that a session must be started with, in addition to the jars."""


def check_packages(session: SparkSession, needed: Sequence[str]) -> None:
    """Raise UsageError, with the remedy, if a jar or an option that the formats need is missing from the session."""
    if "connect" in type(session).__module__:
        raise UsageError(
            "expected a classic Spark session, found one of Spark Connect, which has no JVM in this process"
        )
    missing = [name for name in needed if name in PACKAGES and not is_loaded(session, PACKAGES[name].loads)]
    if missing:
        given = session.sparkContext.getConf().get("spark.jars.packages", "") or ""
        raise UsageError(advice(missing, session.version, given.split(",")))
    for name in needed:
        for conf, wanted in EXTENSIONS.get(name, {}).items():
            if wanted not in (session.conf.get(conf, None) or "").split(","):
                raise UsageError(f"{name}: expected a session that was started with --conf {conf}={wanted}")


def advice(missing: Sequence[str], spark: str, given: Sequence[str] = ()) -> str:
    """Return one line that says how to get the missing jars: first the Spark that has all of them, then the option.

    Args:
        spark: The version of Spark.
        given: The coordinates that `spark.jars.packages` already has.
    """
    *most, last = missing
    jars = f"the jars of {', '.join(most)} and {last} are missing" if most else f"the jar of {last} is missing"
    for name in missing:
        lines = PACKAGES[name].lines
        if lines and line_of(spark) not in lines:
            jars += f", and {name} has none for Spark {spark} (only for {', '.join(lines)}): {install(name)}, then"
            missing = [
                *missing,
                *(other for other in PACKAGES if other not in missing and PACKAGES[other].is_among(given)),
            ]
            spark = PACKAGES[name].spark
            break
    else:
        jars += ":"
    kept = [each for each in given if each and not any(PACKAGES[name].is_among([each]) for name in missing)]
    return f"{jars} --conf spark.jars.packages={','.join([*kept, *(PACKAGES[name].coordinates(spark) for name in missing)])}"


def install(name: str) -> str:
    """Return the command that installs PySpark for a table format."""
    return f"pip install 'ottla[spark{f'-{name}' if name in PACKAGES and PACKAGES[name].lines else ''}]'"


def line_of(version: str) -> str:
    """Return the first two numbers of a version."""
    return ".".join(version.split(".")[:2])


def _numbers(line: str) -> tuple[int, ...]:
    return tuple(int(each) for each in line.split(".") if each.isdigit())


def is_loaded(session: SparkSession, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    jvm: Any = session._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Py4JJavaError:
        return False
    return True
