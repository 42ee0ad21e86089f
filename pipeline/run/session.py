"""Spark session with Ottla's settings, for callers that have none.

    spark = builder("nightly").master("local[4]").getOrCreate()
    register(spark)

A caller with a session keeps it and needs only `source.register`; nothing here is called then.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from ..source.source import PUSHDOWN_CONF, register
from .java import java_home

CONFS = {
    PUSHDOWN_CONF: "true",  # filters reach our source, which must not accept any without it
    # Rows of large exchanges have 64 KiB: a task receives at most 64 MB of them at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.ui.showConsoleProgress": "false",  # jobs report their progress themselves
    "spark.port.maxRetries": "100",  # the UI's 4040 to 4140: with Spark's 16 the 18th driver of a machine does not start
}

LOCAL_CONFS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Options of a session in one process: it does not resolve the host name, and listens on the loopback address only."""


def builder(app_name: str = "ottla", *, master: str | None = None) -> SparkSession.Builder:
    """Return a session builder with Ottla's settings, which the caller can change.

    Sets JAVA_HOME and PYSPARK_PYTHON in this process, as Spark's launcher and workers read them from its environment. Workers
    run this same Python, which has ottla and its packages.

    Args:
        master: Spark master (default: set by spark-submit or by the caller).

    Raises:
        UsageError: No suitable Java was found.
    """
    made = SparkSession.builder
    for name, value in prepared(app_name, master).items():
        made = made.config(name, value)
    return made


def prepared(app_name: str, master: str | None) -> dict[str, str]:
    """Set the environment of a session, and return its options; see `builder`."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    confs = {"spark.app.name": app_name, **CONFS}
    if master is None:
        return confs
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        confs |= LOCAL_CONFS
    return {**confs, "spark.master": master}


def session(app_name: str = "ottla", *, master: str | None = None) -> SparkSession:
    """Return a Spark session with Ottla's settings (see `builder`) and the format `ottla`."""
    spark = builder(app_name, master=master).getOrCreate()
    register(spark)
    return spark
