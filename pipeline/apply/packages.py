"""Check for the jars that a session needs.

Spark includes none of these, and reports a missing one in about forty lines of Java.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Package(NamedTuple):
    """Jar of a format or connector.

    loads: A class that is in it.
    coordinates: Those of Maven, with {spark} for Spark's own version and {line} for its first two numbers.
    newest_line: The newest Spark that it supports; None if each Spark has one.
    """

    loads: str
    coordinates: str
    newest_line: tuple[int, int] | None = None


PACKAGES = {
    "kafka": Package(
        "org.apache.spark.sql.kafka010.KafkaSourceProvider", "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}"
    ),
    "delta": Package(
        "io.delta.sql.DeltaSparkSessionExtension", "io.delta:delta-spark_{line}_2.13:4.4.0", newest_line=(4, 2)
    ),
    "iceberg": Package(
        "org.apache.iceberg.spark.SparkCatalog",
        "org.apache.iceberg:iceberg-spark-runtime-{line}_2.13:1.12.0",
        newest_line=(4, 1),
    ),
    # Spark itself has the classes of the format avro, but those of the functions are only in the jar.
    "avro": Package("org.apache.spark.sql.avro.AvroDataToCatalyst", "org.apache.spark:spark-avro_2.13:{spark}"),
    "protobuf": Package(
        "org.apache.spark.sql.protobuf.ProtobufDataToCatalyst", "org.apache.spark:spark-protobuf_2.13:{spark}"
    ),
}
"""Newest releases on 2026-11-25, with which apply was tested."""

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
        raise UsageError(advice(missing, session.version))
    for name in needed:
        for conf, wanted in EXTENSIONS.get(name, {}).items():
            if wanted not in (session.conf.get(conf, None) or "").split(","):
                raise UsageError(f"{name}: expected a session that was started with --conf {conf}={wanted}")


def advice(missing: Sequence[str], spark_version: str) -> str:
    """Return one line with the option that adds these packages."""
    line = tuple(map(int, spark_version.split(".")[:2]))
    for name in missing:
        newest = PACKAGES[name].newest_line
        if newest is not None and line > newest:
            at_most = ".".join(map(str, newest))
            return f"the jar of {name} is missing, and none exists for Spark {spark_version}: pip install 'pyspark=={at_most}.*'"
    named = {"spark": spark_version, "line": ".".join(map(str, line))}
    found = ",".join(PACKAGES[name].coordinates.format(**named) for name in missing)
    are = "jar of {} is" if len(missing) == 1 else "jars of {} are"
    return f"the {are.format(' and '.join(missing))} missing: --conf spark.jars.packages={found}"


def is_loaded(session: SparkSession, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    jvm: Any = session._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Py4JJavaError:
        return False
    return True
