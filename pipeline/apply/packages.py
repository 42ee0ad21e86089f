"""Which jars a session needs and does not have: Spark comes with none of these, and says so in forty lines of Java."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Package(NamedTuple):
    """
    loads: A class that is there with it.
    coordinates: Of Maven, with {spark} for Spark's own version and {line} for the first two numbers of it.
    newest_line: The newest Spark that there is one for; None: it comes with each Spark.
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
    # Spark has the classes of the format avro itself by now, and those of the functions in the jar alone.
    "avro": Package("org.apache.spark.sql.avro.AvroDataToCatalyst", "org.apache.spark:spark-avro_2.13:{spark}"),
    "protobuf": Package(
        "org.apache.spark.sql.protobuf.ProtobufDataToCatalyst", "org.apache.spark:spark-protobuf_2.13:{spark}"
    ),
}
"""Newest releases on 2026-11-25: those that apply was tried with."""

EXTENSIONS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
}
"""What a session must be started with, besides the jars."""


def check_packages(session: SparkSession, needed: Sequence[str]) -> None:
    """UsageError, which says what to give: a jar is missing, or the session was started without what the format needs."""
    if "connect" in type(session).__module__:
        raise UsageError(
            "expected a classic session of Spark, found one of Spark Connect, which has no driver's JVM here"
        )
    missing = [name for name in needed if name in PACKAGES and not is_loaded(session, PACKAGES[name].loads)]
    if missing:
        raise UsageError(advice(missing, session.version))
    for name in needed:
        for conf, wanted in EXTENSIONS.get(name, {}).items():
            if wanted not in (session.conf.get(conf, None) or "").split(","):
                raise UsageError(f"{name}: expected a session that was started with --conf {conf}={wanted}")


def advice(missing: Sequence[str], spark_version: str) -> str:
    """One line with the option that brings these packages."""
    line = tuple(map(int, spark_version.split(".")[:2]))
    for name in missing:
        newest = PACKAGES[name].newest_line
        if newest is not None and line > newest:
            at_most = ".".join(map(str, newest))
            return f"the jar of {name} is missing, and of this Spark, {spark_version}, there is none: pip install 'pyspark=={at_most}.*'"
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
