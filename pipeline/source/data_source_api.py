"""Spark's Python data source API, with the parts that the installed PySpark has.

    4.0   `DataSource` and its readers: the format `ottla`
    4.1   filters, for push-down
    4.2   read limits, for `maxOffsetsPerTrigger` and a stream's own Trigger.AvailableNow

The check looks for the classes themselves, not for version numbers, which vendors change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        EqualNullSafe,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        IsNotNull,
        LessThan,
        LessThanOrEqual,
    )
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    HAS_FILTERS = HAS_READ_LIMITS = True
else:

    def _of(module: str, names: str) -> tuple[bool, list[Any]]:
        """Return whether the module has all these classes; and the classes, or empty substitutes."""
        try:
            found = import_module(module)
        except ImportError:  # before 4.2
            found = None
        has_all = all(hasattr(found, name) for name in names.split())
        return has_all, [getattr(found, name) if has_all else type(name, (), {}) for name in names.split()]

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
    "HAS_FILTERS", "HAS_READ_LIMITS", "DataSource", "DataSourceReader", "DataSourceStreamReader", "EqualNullSafe",
    "EqualTo", "Filter", "GreaterThan", "GreaterThanOrEqual", "In", "InputPartition", "IsNotNull", "LessThan", "LessThanOrEqual",
    "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow",
]  # fmt: skip
