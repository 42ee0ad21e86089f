"""One SparkSession for the whole suite: two threads, no web pages, little memory, nothing but the loopback address."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIGS = {
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


@contextmanager
def spark_session(jars: list[Path], work: Path) -> Iterator["SparkSession"]:
    """A session with these jars; its files are below `work`."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("ottla-compat")
    builder = builder.config("spark.jars", ",".join(str(jar) for jar in jars))
    builder = builder.config("spark.sql.warehouse.dir", str(work / "warehouse")).config("spark.local.dir", str(work))
    for name, value in CONFIGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
