"""Why rows of an answer were refused, in words, as long as these stay few.

A row that a request names with a few bytes may be refused in hundreds, and a request may name a million. The codes always say
what is wrong; past these bounds they say it alone.
"""

from __future__ import annotations

from ...protocol.errors import KafkaError
from ...storage.produce.record_checks import RECORD_ERRORS_MAX, InvalidRecordError, RecordError

REASONS_CHARS_MAX = 256 << 10
"""In one answer."""


class Reasons:
    """The error messages of one answer, bounded together."""

    __slots__ = ("_left_chars", "_left_records")

    def __init__(self) -> None:
        self._left_chars = REASONS_CHARS_MAX
        self._left_records = RECORD_ERRORS_MAX

    def of(self, error: KafkaError) -> str | None:
        """What to say of it beside its code."""
        self._left_chars -= len(error.message)
        return error.message if self._left_chars >= 0 else None

    def records_of(self, error: InvalidRecordError) -> tuple[RecordError, ...]:
        """The records to name."""
        named = error.record_errors[: self._left_records]
        self._left_records -= len(named)
        return named
