"""Filters of a query that exclude files, or parts of them, from the read.

Topic, partition and offset are decided here completely, so Spark need not apply those filters again. A timestamp only
excludes batches whose largest one is too early: Spark filters the rest.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import datetime
from typing import Any

from ...storage.disk.paths import OFFSET_MAX, TopicPartition
from .data_source_api import (
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

_COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, values: value in values,
}

_OFFSETS: dict[type[Filter], Callable[[int], tuple[int, int]]] = {
    EqualTo: lambda value: (value, value + 1),
    EqualNullSafe: lambda value: (value, value + 1),
    GreaterThan: lambda value: (value + 1, OFFSET_MAX),
    GreaterThanOrEqual: lambda value: (value, OFFSET_MAX),
    LessThan: lambda value: (0, value),
    LessThanOrEqual: lambda value: (0, value + 1),
}
"""Offsets that a filter accepts: from inclusive, to exclusive."""

_EARLIEST_TIMES = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual)


class Narrowing:
    """All filters that were accepted so far."""

    def __init__(self) -> None:
        self.from_offset = 0
        self.up_to_offset = OFFSET_MAX
        self.since_ms: int | None = None
        """Lower bound of the wanted records' times, Unix milliseconds; None if unknown."""
        self._conditions: list[tuple[str, type[Filter], Any]] = []

    def take(self, given: Filter) -> bool:
        """Accept a filter, and return whether Spark need not apply it again."""
        path: tuple[str, ...] = getattr(given, "attribute", ())
        column = path[0] if len(path) == 1 else ""
        if isinstance(given, IsNotNull):
            return column in ("topic", "partition", "offset")  # which are never null
        value = getattr(given, "value", None)
        kind = type(given)
        if column in ("topic", "partition") and kind in _COMPARISONS and value is not None:
            self._conditions.append((column, kind, value))
            return True
        if column == "offset" and kind in _OFFSETS and isinstance(value, int):
            low, high = _OFFSETS[kind](value)
            self.from_offset, self.up_to_offset = max(self.from_offset, low), min(self.up_to_offset, high)
            return True
        if column == "timestamp" and kind in _EARLIEST_TIMES and isinstance(value, datetime) and value.tzinfo:
            since_ms = int(value.timestamp() * 1000) - 1  # a float's last digits may be off
            self.since_ms = since_ms if self.since_ms is None else max(self.since_ms, since_ms)
        return False

    def excludes(self, tp: TopicPartition) -> bool:
        """Return whether no record of this partition is wanted."""
        return not all(_COMPARISONS[kind](getattr(tp, column), value) for column, kind, value in self._conditions)
