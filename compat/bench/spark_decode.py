"""Values of Avro as columns in Spark: by the option `registry` of the format `ottla`, compared with `from_avro`.

    python -m compat.bench.spark_decode [--records N] [--rounds N]
    python -m compat.bench.spark_decode --quick

One session reads one topic in turns: the values alone, decoded by `registry` to JSON, this JSON as columns by `from_json`, and the values
as columns by `from_avro`, which takes one schema for all. Needs PySpark, and Maven for the jar of `from_avro`.
"""

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import ottla

from ..spark_apply.encoded import avro_framed
from ..spark_apply.environments import KINDS, format_jars
from ..support.clients.steps import create_topic, produce_all
from ..support.suite import NotRunError, Options, Suite, run_suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORDS, QUICK_RECORDS = 400_000, 20_000
ROUNDS = 3
ID, TOPIC = 7, "customers"
SCHEMA = json.dumps({
    "type": "record",
    "name": "Customer",
    "fields": [{"name": name, "type": ["null", kind]} for name, kind in (("city", "string"), ("orders", "long"), ("note", "string"))],
})  # fmt: skip
COLUMNS = "city STRING, orders BIGINT, note STRING"


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it reads a data directory")
    if importlib.util.find_spec("pyspark") is None:
        raise NotRunError("PySpark: pip install 'ottla[spark]'")
    jars = format_jars("avro", KINDS["delta"])  # a jar of Spark itself may be older than Spark
    if not jars:
        raise NotRunError("the jar of from_avro, from Maven Central by Maven")
    records = options.rest.records or (QUICK_RECORDS if options.quick else RECORDS)
    rounds = options.rest.rounds or (1 if options.quick else ROUNDS)
    with tempfile.TemporaryDirectory(prefix="compat-bench-decode-") as work:
        data_dir, schemas = Path(work, "data"), Path(work, "schemas")
        schemas.mkdir()
        (schemas / f"{ID}.avsc").write_text(SCHEMA)
        with ottla.Broker(str(data_dir)) as broker:
            create_topic(broker.bootstrap, TOPIC, partitions=2)
            produce_all(broker.bootstrap, TOPIC, map(record, range(records)))
        measure(suite, str(data_dir), str(schemas), ",".join(map(str, jars)), records, rounds)


def record(number: int) -> dict[str, bytes]:
    value = (f"city {number % 1000} {number * 2654435761 % 4294967296}", number, "x" * 40)
    return {"key": b"%d" % number, "value": avro_framed(ID, value)}


def measure(suite: Suite, data_dir: str, schemas: str, jars: str, records: int, rounds: int) -> None:
    """Measure all sides in turns: the first round, in which the JVM compiles, does not count."""
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    from ottla.pipeline.run.session import builder
    from ottla.pipeline.source.source import register

    from .spark.cost import Cost, measured

    spark = builder("bench", master="local[2]").config("spark.jars", jars).getOrCreate()
    try:
        spark.sparkContext.setLogLevel("OFF")
        register(spark)
        topic = spark.read.format("ottla").option("topic", TOPIC)
        values = topic.load(data_dir).select("value")
        decoded = topic.option("registry", schemas).load(data_dir).select("valueDecoded")
        sides: dict[str, Callable[[], DataFrame]] = {
            "values": lambda: values,
            "registry": lambda: decoded,
            "registry, from_json": lambda: decoded.select(f.from_json("valueDecoded", COLUMNS).alias("v")).select(
                "v.*"
            ),
            "from_avro": lambda: values.select(from_avro(f.expr("substring(value, 6)"), SCHEMA).alias("v")).select(
                "v.*"
            ),
        }
        costs: dict[str, list[Cost]] = {name: [] for name in sides}
        for number in range(1 + rounds):
            for name, side in sides.items():
                frame = side()
                cost = measured(lambda: frame.write.format("noop").mode("overwrite").save())  # noqa: B023 - called at once
                if number:
                    costs[name].append(cost)
        rows = {name: side().orderBy("orders").limit(1_000).collect() for name, side in list(sides.items())[2:]}
    finally:
        spark.stop()
    suite.equal("both give the same columns", rows["from_avro"], rows["registry, from_json"])
    suite.note(f"| {records} records of {len(record(0)['value'])} bytes | rows a second | µs of CPU a row |")
    suite.note("|---|---|---|")
    for name, found in costs.items():
        wall_s, cpu_s = (
            statistics.median(times) for times in zip(*((each.wall_s, each.cpu_s) for each in found), strict=True)
        )
        suite.note(f"| {name} | {records / wall_s:,.0f} | {cpu_s / records * 1e6:.1f} |")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=int, metavar="N", help=f"records of the topic (default: {RECORDS})")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"measured rounds (default: {ROUNDS})")


if __name__ == "__main__":
    sys.exit(run_suite("bench.spark_decode", body, doc=__doc__, more_arguments=arguments))
