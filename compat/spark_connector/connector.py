"""The connector as the suite's steps use it: batch and stream, source and sink, rows in plain Python."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.suite import Suite
from .topics import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

COLUMNS = ("topic", "partition", "offset", "unix_millis(timestamp) AS timestamp", "timestampType", "key", "value")
LIMIT_S = 90.0


class Connector:
    """Format `kafka` of a session, with the broker's address and short waits.

    The wait for records that a fetch should have returned is ten seconds instead of two minutes, so that a reader that hangs
    fails soon enough to be reported.
    """

    def __init__(self, spark: "SparkSession", bootstrap: str, work: Path) -> None:
        self.spark, self.work = spark, work
        self.schemas: dict[str, StructType] = {}
        self.broker = {"kafka.bootstrap.servers": bootstrap}
        self.waits = {"kafkaConsumer.pollTimeoutMs": "10000", "kafka.default.api.timeout.ms": "30000"}

    # -- batch

    def load(self, options: Mapping[str, str]) -> "DataFrame":
        return self.spark.read.format("kafka").options(**self.broker, **self.waits).options(**options).load()

    def read(self, **options: str) -> list[Row]:
        """Return the rows of a batch query, sorted; headers only on request. Options whose names have dots: `kafka__acks`."""
        return to_rows(self.load(with_dots(options)))

    def metrics(self, **options: str) -> dict[str, int]:
        """Return the connector's own counts in a batch query, by name; Spark shows them only for sources of its newer kind."""
        name = "spark.sql.sources.useV1SourceList"
        self.spark.conf.set(name, "")
        try:
            frame = self.load(with_dots(options))
            frame.collect()
        finally:
            self.spark.conf.unset(name)
        found = frame._jdf.queryExecution().executedPlan().collectLeaves().head().metrics()
        return {name: found.apply(name).value() for name in ("offsetOutOfRange", "dataLoss")}

    def write(self, frame: "DataFrame", **options: str) -> None:
        frame.write.format("kafka").options(**self.broker, **with_dots(options)).save()

    # -- streams

    def stream(self, **options: str) -> "DataFrame":
        reader = self.spark.readStream.format("kafka").options(**self.broker, **self.waits)
        return reader.options(**with_dots(options)).load()

    def start(self, frame: "DataFrame", name: str, *, available: bool = False, **options: str) -> "StreamingQuery":
        """Start a query into `table(name)`; a query of the same name continues from its checkpoint.

        Args:
            available: Read the existing records in several triggers and end, instead of running on.
            options: With a topic in it the sink is the connector's, else the files of the table.
        """
        writer = frame.writeStream.option("checkpointLocation", str(self.work / f"{name}.checkpoint"))
        every: dict[str, Any] = {"availableNow": True} if available else {"processingTime": "100 milliseconds"}
        writer = writer.trigger(**every)
        if "topic" in options:
            return writer.format("kafka").options(**self.broker, **with_dots(options)).start()
        self.schemas[name] = frame.schema
        return writer.format("parquet").option("path", str(self.work / name)).start()

    def run(self, frame: "DataFrame", name: str, **options: str) -> list[dict[str, Any]]:
        """Run a query over what is there; returns the progress of its batches. Raises what the query died of."""
        query = self.start(frame, name, available=True, **options)
        try:
            if not query.awaitTermination(int(LIMIT_S)):
                raise TimeoutError(f"the query {name} did not end within {LIMIT_S:.0f} s")
        finally:
            query.stop()
        return batches(query)

    def table(self, name: str) -> list[Row]:
        """Return the rows that queries of this name have written so far, according to the file sink's transactions."""
        if not (self.work / name / "_spark_metadata").exists():
            return []
        return to_rows(self.spark.read.schema(self.schemas[name]).parquet(str(self.work / name)))


def with_dots(options: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in options.items()}


def to_rows(frame: "DataFrame") -> list[Row]:
    columns = [*COLUMNS, *(["headers"] if "headers" in frame.columns else [])]
    return sorted((to_row(found) for found in frame.selectExpr(*columns).collect()), key=place)


def to_row(found: Any) -> Row:
    topic, partition, offset, timestamp, kind, key, value, *more = found
    headers = tuple((name, as_bytes(content)) for name, content in more[0]) if more and more[0] is not None else None
    return Row(topic, partition, offset, timestamp, kind, as_bytes(key), as_bytes(value), headers)


def as_bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def place(row: Row) -> tuple[str, int, int]:
    return row.topic, row.partition, row.offset


def batches(query: "StreamingQuery") -> list[dict[str, Any]]:
    """Return the progress of each trigger that had something to do, as Spark's own JSON."""
    progress = [json.loads(each.json) for each in query.recentProgress]
    return [each for each in progress if "addBatch" in each["durationMs"]]


def wait_until(holds: Callable[[], bool], query: "StreamingQuery", limit_s: float = LIMIT_S) -> bool:
    """Wait until the condition holds while the query runs; return whether it did. Raises the query's error."""
    deadline_s = time.monotonic() + limit_s
    while not holds():
        if error := query.exception():
            raise error
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.2)
    return True


def refused(suite: Suite, what: str, action: Callable[[], object], *words: str) -> None:
    """Check that the action is refused, and that the chain of causes has one of these words."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        action()
    except Py4JJavaError as error:
        said = f"{error}\n{error.java_exception}"
    except PySparkException as error:
        said = str(error)
    else:
        suite.check(what, False, "it was not refused")
        return
    if not suite.check(what, any(word in said for word in words)):
        suite.note(f"it said: {said[:600]!r}")


def offsets(topic: str, positions: Mapping[int, int]) -> str:
    """Return the JSON form of positions in a topic: {"topic": {"0": 23}}."""
    return json.dumps({topic: {str(partition): at for partition, at in positions.items()}})


def same(suite: Suite, what: str, expected: Iterable[Row], found: list[Row]) -> None:
    """Check that the rows are these, each once."""
    wanted = sorted(expected, key=place)
    if suite.check(what, wanted == found, f"{len(found)} rows"):
        return
    missing, strange = set(wanted) - set(found), set(found) - set(wanted)
    for name, some in (("missing", missing), ("not expected", strange)):
        if some:
            suite.note(f"{len(some)} {name}, the first: {min(some, key=place)}")
    suite.note(f"expected {len(wanted)} rows, found {len(set(found))} different ones")
