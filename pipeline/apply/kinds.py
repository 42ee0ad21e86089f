"""The tables that there are, by the words of `--table-format`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import UsageError
from .parquet_table import ParquetTable
from .sql_tables import DeltaTable, IcebergTable
from .table import Table

KINDS: Mapping[str, Callable[[str], Table]] = {"delta": DeltaTable, "iceberg": IcebergTable, "parquet": ParquetTable}


def table(kind: str, name: str) -> Table:
    """UsageError: no such kind, or no name of a table."""
    if kind not in KINDS:
        raise UsageError(f"--table-format: expected one of {', '.join(KINDS)}, found {kind}")
    return KINDS[kind](name)
