"""First load of a table by `ottla-spark apply`, compared with stock Spark: wall and CPU seconds of both in one session, in turns.

    python -m compat.bench.spark_apply [--records N] [--rounds N] [--broker ADDRESS]
    python -m compat.bench.spark_apply --quick

Stock Spark is what one would write: read with the Kafka connector, `max_by` over each key, `from_json`, write to Delta Lake. Both
read the same topics of one broker: all keys different, and ten records a key. Needs what `compat.spark_apply` needs.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..spark_apply.command import CONFS
from ..spark_apply.environments import environment, variables
from ..support.brokers.any_broker import any_broker
from ..support.clients.steps import create_topic, produce_all
from ..support.environments import ROOT
from ..support.suite import Options, Suite, run_suite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS, QUICK_RECORDS = 400_000, 20_000
ROUNDS = 3
SHAPES = {"different": 1, "recurring": 10}
"""Name of a topic -> records of a key."""
SCHEMA = "city STRING, orders BIGINT, note STRING"
AT_MOST = 1.1
"""Limit of the ratio of CPU seconds."""


def body(suite: Suite, options: Options) -> None:
    of = environment("delta")
    records = options.rest.records or (QUICK_RECORDS if options.quick else RECORDS)
    rounds = options.rest.rounds or (1 if options.quick else ROUNDS)
    work = Path(tempfile.mkdtemp(prefix="compat-bench-apply-"))
    try:
        with any_broker(options, {}) as broker:
            for shape, times in SHAPES.items():
                write(broker.bootstrap, shape, records, records // times)
            words = [
                str(of.python),
                "-m",
                "compat.bench.spark_apply",
                "measure",
                broker.bootstrap,
                str(work),
                str(rounds),
            ]
            done = subprocess.run(
                [*words, ",".join(map(str, of.jars))], env={**variables(of), "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE, text=True, check=True,
            )  # fmt: skip
    finally:
        shutil.rmtree(work, ignore_errors=True)
    suite.note(f"| {records} records of 110 bytes | apply: CPU, wall | stock: CPU, wall | ratio of CPU |")
    costs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    for shape in SHAPES:
        own = {side: [each[2:] for each in costs if each[:2] == [shape, side]] for side in ("apply", "stock")}
        cpu_s, wall_s = ({side: statistics.median(each[n] for each in own[side]) for side in own} for n in (0, 1))
        ratio = cpu_s["apply"] / cpu_s["stock"]
        texts = [f"{cpu_s[side]:.1f} s, {wall_s[side]:.1f} s" for side in own]
        suite.note(f"| {shape} | {' | '.join(texts)} | {ratio:.2f} |")
        suite.equal(f"{shape}: both tables have as many rows", *({each[2] for each in own[side]} for side in own))
        suite.check(f"{shape}: at most {AT_MOST} times the CPU", ratio <= AT_MOST or options.quick, f"{ratio:.2f}")


def write(bootstrap: str, topic: str, records: int, keys: int) -> None:
    create_topic(bootstrap, topic, partitions=2, cleanup_policy="compact", min_cleanable_dirty_ratio="1.0")
    rng = random.Random(7)
    keys_of = (number if keys == records else rng.randrange(keys) for number in range(records))
    produce_all(bootstrap, topic, (record(number, key) for number, key in enumerate(keys_of)))


def record(number: int, key: int) -> dict[str, str]:
    value = {"city": f"city {number % 1000} {number * 2654435761 % 4294967296}", "orders": number, "note": "x" * 40}
    return {"key": f"k{key * 2654435761 % 4294967296:010}", "value": json.dumps(value)}


def measure(bootstrap: str, work: str, rounds: str, jars: str) -> None:
    """Measure both sides in turns, in the environment that has Delta Lake, and print a line for each."""
    from ottla.pipeline import builder
    from ottla.pipeline.apply.packages import EXTENSIONS

    from .spark.cost import measured

    made = builder("bench", master="local[2]").config("spark.jars", jars)
    for conf, value in {**CONFS, **EXTENSIONS["delta"], "spark.driver.memory": "2g"}.items():
        made = made.config(conf, value) if conf != "spark.driver.extraJavaOptions" else made
    spark = made.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    sides: dict[str, Callable[[SparkSession, str, str, str], None]] = {"apply": _apply, "stock": _stock}
    for number in range(1 + int(rounds)):  # the first one compiles
        for shape in SHAPES:
            for name, side in sides.items():
                table = f"{work}/{name}"
                cost = measured(lambda: side(spark, bootstrap, shape, table))  # noqa: B023 - called at once
                rows = spark.read.format("delta").load(table).count()
                shutil.rmtree(table)
                if number:
                    print(json.dumps([shape, name, cost.cpu_s, cost.wall_s, rows]), flush=True)
    spark.stop()


def _apply(spark: "SparkSession", bootstrap: str, topic: str, table: str) -> None:
    from ottla.pipeline import jobs
    from ottla.pipeline.apply.formats import FormatSpec

    key, value = FormatSpec("string", "key", schema="customer STRING"), FormatSpec("json", "value", schema=SCHEMA)
    kafka = {"bootstrap.servers": bootstrap}
    jobs.apply(spark, topic=topic, table=table, table_format="delta", kafka=kafka, key=key, value=value, creates=True)


def _stock(spark: "SparkSession", bootstrap: str, topic: str, table: str) -> None:
    from pyspark.sql import functions as f

    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafka.max.poll.records": "10000"}
    records = spark.read.format("kafka").options(**options, **{"kafka.isolation.level": "read_committed"}).load()
    record = f.max_by(f.struct("value", "partition", "offset", "timestamp"), f.struct("timestamp", "offset"))
    newest = records.groupBy("key").agg(record.alias("r")).where("r.value IS NOT NULL")
    parsed = f.from_json(f.col("r.value").cast("string"), SCHEMA).alias("v")
    rows = newest.select(
        f.col("key").cast("string").alias("customer"), parsed, "r.partition", "r.offset", "r.timestamp"
    )
    rows.select("customer", "v.*", "partition", "offset", "timestamp").write.format("delta").save(table)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=int, metavar="N", help=f"records of a topic (default: {RECORDS})")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"measured rounds (default: {ROUNDS})")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*sys.argv[2:])
    else:
        sys.exit(run_suite("bench.spark_apply", body, doc=__doc__, more_arguments=arguments))
