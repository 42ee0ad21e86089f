"""The text of a table's MERGE: which row gives way to which record, in the same words for every format.

In one partition the higher offset is the later. Over two, which a key is in when the topic was given more partitions,
offsets say nothing, and the record's timestamp decides; of two with the same the higher partition, for that is the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PARTITION, OFFSET, TIMESTAMP = "kafka_partition", "kafka_offset", "kafka_timestamp"
DELETED = "kafka_deleted"
PLACE = {PARTITION: "int", OFFSET: "bigint", TIMESTAMP: "timestamp_ltz"}
"""Columns that each table has: which record a row is of."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of a table's columns, besides those of PLACE.

    keeps_deleted: A deleted key stays as a row whose DELETED is true and whose values are null.
    """

    keys: Sequence[str]
    values: Sequence[str]
    keeps_deleted: bool = False

    @property
    def written(self) -> list[str]:
        """What a record sets, but the keys."""
        return [*self.values, *PLACE, *([DELETED] if self.keeps_deleted else [])]


NEWER = (
    f"(t.{PARTITION} IS NULL OR t.{OFFSET} IS NULL OR t.{TIMESTAMP} IS NULL"
    f" OR s.{PARTITION} = t.{PARTITION} AND s.{OFFSET} > t.{OFFSET}"
    f" OR s.{PARTITION} <> t.{PARTITION}"
    f" AND (s.{TIMESTAMP} > t.{TIMESTAMP} OR s.{TIMESTAMP} = t.{TIMESTAMP} AND s.{PARTITION} > t.{PARTITION}))"
)
"""Whether the record of `s` is later than the row of `t`. A row without a place was not put there by us: older."""


def merge(table: str, source: str, columns: Columns) -> str:
    """
    Args:
        source: A view with the keys, what is `written`, and DELETED: one row a key.
    """
    keys = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in columns.keys)
    sets = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in columns.written)
    every = [*columns.keys, *columns.written]
    insert = f"INSERT ({', '.join(map(quoted, every))}) VALUES ({', '.join(f's.{quoted(name)}' for name in every)})"
    lines = [f"MERGE INTO {table} t USING {source} s ON {keys}"]
    if columns.keeps_deleted:
        lines += [f"WHEN MATCHED AND {NEWER} THEN UPDATE SET {sets}", f"WHEN NOT MATCHED THEN {insert}"]
    else:
        lines += [
            f"WHEN MATCHED AND s.{DELETED} AND {NEWER} THEN DELETE",
            f"WHEN MATCHED AND NOT s.{DELETED} AND {NEWER} THEN UPDATE SET {sets}",
            f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN {insert}",
        ]
    return "\n".join(lines)


def insert_missing(table: str, source: str, keys: Sequence[str], columns: Sequence[str]) -> str:
    """Rows whose keys are not there yet."""
    same = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in keys)
    names = ", ".join(map(quoted, columns))
    values = ", ".join(f"s.{quoted(name)}" for name in columns)
    return f"MERGE INTO {table} t USING {source} s ON {same}\nWHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"


def forget_places(table: str) -> str:
    """Each record is later than each row then: of a topic that was made anew, whose offsets begin at 0 again."""
    return f"UPDATE {table} SET {', '.join(f'{quoted(name)} = NULL' for name in PLACE)}"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
