"""One SparkSession for the whole suite: two threads, no web pages, little memory, nothing but the loopback address."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIGS = {
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # a third less CPU time for queries so short
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


@contextmanager
def spark_session(jars: list[Path], work: Path) -> Iterator["SparkSession"]:
    """Yield a session with these jars; its files are below `work`."""
    from ottla.pipeline.run.session import builder

    made = builder("ottla-compat", master="local[2]").config("spark.jars", ",".join(str(jar) for jar in jars))
    made = made.config("spark.sql.warehouse.dir", str(work / "warehouse")).config("spark.local.dir", str(work))
    for name, value in CONFIGS.items():
        made = made.config(name, value)
    session = made.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
