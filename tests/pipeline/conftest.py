"""One Spark session for all tests of the pipeline: it takes seconds to start, and a JVM has only one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.pipeline.spark_settings import FRUGAL, JAVA_OPTIONS
from support.sizes import size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_runtest_setup(item: pytest.Item) -> None:
    if (mark := item.get_closest_marker("needs_sources")) is None:
        return
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")
    from ottla.pipeline.source import data_source_api

    for name in mark.args:
        if not getattr(data_source_api, name):
            pytest.skip(f"this PySpark has no {REASONS[name]}")


REASONS = {
    "HAS_FILTERS": "filters for data sources in Python (from 4.1 on)",
    "HAS_READ_LIMITS": "read limits for their streams (from 4.2 on)",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Run a session with two worker threads that has Ottla's formats."""
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")
    from ottla.pipeline.errors import UsageError
    from ottla.pipeline.run.session import builder
    from ottla.pipeline.source.source import register

    try:
        made = builder("tests", master="local[2]")
    except UsageError as error:
        pytest.skip(str(error))
    for name, value in size(FRUGAL, {}).items():
        made = made.config(name, value)
    spark = (
        made.config("spark.sql.shuffle.partitions", size("2", "4"))
        .config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    yield spark
    spark.stop()
    gateway.shutdown()  # otherwise its sockets are still open when Python ends
