"""SQL of a table's MERGE: which records replace which rows, with the same rules for every format.

Within a partition the higher offset is later. A key is in two partitions if the topic was given more of them. Offsets do not
compare there, so the record's timestamp decides. Of equal timestamps the higher partition wins, as it is the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PARTITION, OFFSET, TIMESTAMP = "kafka_partition", "kafka_offset", "kafka_timestamp"
DELETED = "kafka_deleted"
PLACE = {PARTITION: "int", OFFSET: "bigint", TIMESTAMP: "timestamp_ltz"}
"""Columns of each table that locate the record of a row."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of a table's columns, without those of PLACE.

    keeps_deleted: A deleted key stays as a row whose DELETED is true and whose values are null.
    """

    keys: Sequence[str]
    values: Sequence[str]
    keeps_deleted: bool = False

    @property
    def updated_columns(self) -> list[str]:
        """Columns that a record sets, without the keys."""
        return [*self.values, *PLACE, *([DELETED] if self.keeps_deleted else [])]


NEWER = (
    f"(t.{PARTITION} IS NULL OR t.{OFFSET} IS NULL OR t.{TIMESTAMP} IS NULL"
    f" OR s.{PARTITION} = t.{PARTITION} AND s.{OFFSET} > t.{OFFSET}"
    f" OR s.{PARTITION} <> t.{PARTITION}"
    f" AND (s.{TIMESTAMP} > t.{TIMESTAMP} OR s.{TIMESTAMP} = t.{TIMESTAMP} AND s.{PARTITION} > t.{PARTITION}))"
)
"""Whether the record of `s` is later than the row of `t`. A row without a place does not come from Ottla, and is older."""


def merge(table: str, source: str, columns: Columns, *, only_inserts: bool = False) -> str:
    """Return the MERGE statement.

    Args:
        source: A view with the keys, the `written` columns, and DELETED: one row per key.
        only_inserts: The table has no rows, so that no record replaces one. The view has no deletions, unless they are kept.
    """
    keys = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in columns.keys)
    sets = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in columns.updated_columns)
    every = [*columns.keys, *columns.updated_columns]
    insert = f"INSERT ({', '.join(map(quoted, every))}) VALUES ({', '.join(f's.{quoted(name)}' for name in every)})"
    living = "" if columns.keeps_deleted or only_inserts else f" AND NOT s.{DELETED}"
    lines = [f"MERGE INTO {table} t USING {source} s ON {keys}"]
    if not only_inserts:
        lines += [] if columns.keeps_deleted else [f"WHEN MATCHED AND s.{DELETED} AND {NEWER} THEN DELETE"]
        lines += [f"WHEN MATCHED{living} AND {NEWER} THEN UPDATE SET {sets}"]
    return "\n".join([*lines, f"WHEN NOT MATCHED{living} THEN {insert}"])


def insert_missing(table: str, source: str, keys: Sequence[str], columns: Sequence[str]) -> str:
    """Return the statement that inserts the rows whose keys are not in the table."""
    same = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in keys)
    names = ", ".join(map(quoted, columns))
    values = ", ".join(f"s.{quoted(name)}" for name in columns)
    return f"MERGE INTO {table} t USING {source} s ON {same}\nWHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"


def forget_places(table: str) -> str:
    """Return the statement that makes each record later than each row, for a recreated topic with offsets from 0 again."""
    return f"UPDATE {table} SET {', '.join(f'{quoted(name)} = NULL' for name in PLACE)}"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
