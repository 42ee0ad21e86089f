"""Structured Streaming: from the change feed, through Spark's own Kafka connector, to a table with one row a customer.

    python job.py --bootstrap HOST:PORT --topic customers --out DIR [--follow] [--show]

Without --follow it takes what is new since the last time and ends: call it from a timer. With it, it stays. Where it
got to is in DIR/checkpoint, the table in DIR/table; a job that was killed goes on from there. CONNECTOR_JARS names the
folder of the connector's jars, MASTER Spark's master.
"""

import argparse
import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from table import KeyedTable

JARS = Path(os.environ.get("CONNECTOR_JARS", Path(__file__).resolve().parents[2] / "build" / "example-jars"))
COLUMNS = "city STRING, orders BIGINT, changed_ms BIGINT"


def session() -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("customers").config("spark.sql.shuffle.partitions", "2")
    if "MASTER" in os.environ:
        builder = builder.master(os.environ["MASTER"])
    jars = ",".join(str(jar) for jar in sorted(JARS.glob("*.jar")))
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.jars", jars).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def changes(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """The feed from its beginning. A compacted topic's gaps need no option; records lost otherwise fail the query."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "1000000")
    reader = reader.option("kafka.isolation.level", "read_committed").option("kafka.max.poll.records", "10000")
    return reader.load().selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value", "offset")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="customers")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--show", action="store_true", help="print some of the table at the end")
    asked = parser.parse_args()
    spark = session()
    table = KeyedTable(asked.out / "table", "customer", COLUMNS)
    writer = changes(spark, asked.bootstrap, asked.topic).writeStream.foreachBatch(table.upsert)
    writer = writer.option("checkpointLocation", str(asked.out / "checkpoint"))
    writer = writer.trigger(processingTime="10 seconds") if asked.follow else writer.trigger(availableNow=True)
    writer.start().awaitTermination()
    if asked.show:
        rows = table.read(spark)
        print(f"{rows.count()} customers")
        rows.orderBy("customer").show(5)
    spark.stop()


if __name__ == "__main__":
    main()
