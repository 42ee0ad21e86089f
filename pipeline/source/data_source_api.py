"""Spark's Python data source API, as much of it as the PySpark that is installed has.

    4.0   `DataSource` and its readers: the format `ottla`
    4.1   filters, for what is pushed down
    4.2   read limits, for `maxOffsetsPerTrigger` and a stream's own Trigger.AvailableNow

Before 4.0 there is none: the modules of this room are loaded all the same, for jobs read logs by them, and only `register` refuses.
What is there is asked of the modules, not of version numbers, which vendors change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        EqualNullSafe,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        InputPartition,
        IsNotNull,
        LessThan,
        LessThanOrEqual,
    )
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    HAS_SOURCES = HAS_FILTERS = HAS_READ_LIMITS = True
else:

    def _of(module: str, names: str) -> tuple[bool, list[Any]]:
        """Whether the module has all of them; and these, or classes that are nobody's."""
        try:
            found = import_module(module)
        except ImportError:
            found = None
        has_all = all(hasattr(found, name) for name in names.split())
        return has_all, [getattr(found, name) if has_all else type(name, (), {}) for name in names.split()]

    HAS_SOURCES, (DataSource, DataSourceReader, DataSourceStreamReader, InputPartition) = _of(
        "pyspark.sql.datasource", "DataSource DataSourceReader DataSourceStreamReader InputPartition"
    )
    HAS_FILTERS, (
        EqualNullSafe, EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, LessThanOrEqual
    ) = _of(
        "pyspark.sql.datasource",
        "EqualNullSafe EqualTo Filter GreaterThan GreaterThanOrEqual In IsNotNull LessThan LessThanOrEqual",
    )  # fmt: skip
    HAS_READ_LIMITS, (ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow) = _of(
        "pyspark.sql.streaming.datasource", "ReadAllAvailable ReadLimit ReadMaxRows SupportsTriggerAvailableNow"
    )

__all__ = [
    "HAS_FILTERS", "HAS_READ_LIMITS", "HAS_SOURCES", "DataSource", "DataSourceReader", "DataSourceStreamReader", "EqualNullSafe",
    "EqualTo", "Filter", "GreaterThan", "GreaterThanOrEqual", "In", "InputPartition", "IsNotNull", "LessThan", "LessThanOrEqual",
    "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow",
]  # fmt: skip
