"""Batches of a change feed as Spark's Kafka connector produces them, made of plain tuples."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "orders"
COLUMNS = "topic, partition, offset, timestamp, key, value"
NOTHING = "'' AS topic, 0 AS partition, 0L AS offset, now() AS timestamp, X'' AS key, X'' AS value"
START = datetime.datetime(2026, 11, 25)


class Change(NamedTuple):
    """value: a JSON object, bytes, or None for a deletion."""

    partition: int
    offset: int
    key: str | bytes | None
    value: dict[str, Any] | bytes | None
    time_s: int | None = None


def batch(session: SparkSession, changes: Iterable[Change]) -> DataFrame:
    """Return a batch, made of literals so that no Python worker starts.

    The timestamp of a change is by default its offset in seconds.
    """
    rows = ", ".join(_row(each) for each in changes)
    return session.sql(f"SELECT * FROM VALUES {rows} AS ({COLUMNS})" if rows else f"SELECT {NOTHING} LIMIT 0")


def _row(change: Change) -> str:
    seconds = change.offset if change.time_s is None else change.time_s
    key = change.key.encode() if isinstance(change.key, str) else change.key
    value = json.dumps(change.value).encode() if isinstance(change.value, dict) else change.value
    place = f"'{TOPIC}', {change.partition}, {change.offset}L, TIMESTAMP'{START + datetime.timedelta(seconds=seconds)}'"
    return f"({place}, {_binary(key)}, {_binary(value)})"


def _binary(data: bytes | None) -> str:
    return "CAST(NULL AS BINARY)" if data is None else f"X'{data.hex()}'"
