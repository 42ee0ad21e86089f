"""Error messages of the rows of a response, within a bound.

A row of a few bytes in a request can cost hundreds of bytes of error message, and a request can have a million rows. Beyond the
bounds here, rows have only their error code.
"""

from __future__ import annotations

from ...protocol.errors import KafkaError
from ...storage.produce.record_checks import RECORD_ERRORS_MAX, InvalidRecordError, RecordError

REASONS_CHARS_MAX = 256 << 10
"""Limit of one response."""


class ErrorMessageBudget:
    """Budget for the error messages of one response."""

    __slots__ = ("_left_chars", "_left_records")

    def __init__(self) -> None:
        self._left_chars = REASONS_CHARS_MAX
        self._left_records = RECORD_ERRORS_MAX

    def message_of(self, error: KafkaError) -> str | None:
        """Return the message that goes with the error code; None if the budget is used up."""
        self._left_chars -= len(error.message)
        return error.message if self._left_chars >= 0 else None

    def records_of(self, error: InvalidRecordError) -> tuple[RecordError, ...]:
        """The records to name."""
        named = error.record_errors[: self._left_records]
        self._left_records -= len(named)
        return named
