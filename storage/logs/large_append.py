"""Append of a batch so large that another thread writes it, while the log continues to work.

    append   reserves the place of the batch after the log's end -> LargeWriteError
    write    in another thread: all bytes but the header; no reader sees them
    append   again, with the same CheckedBatch: writes the header, and does the rest of what every append does

Any other change of the file drops what was written; the second append then starts again.
"""

from __future__ import annotations

from typing import NamedTuple

from ..disk.files import WriteAhead
from ..produce.validation import CheckedBatch
from ..segment.segment import LogSegment

AT_ONCE_WRITTEN_BYTES = 2 << 20
"""Largest batch that is written at once: the system copies it into its page cache, which takes about a millisecond."""


class LargeWriteError(Exception):
    """Writing this batch would block the calling thread for too long. Offsets and producers are unchanged.

    Have another thread call `write`, which raises OSError if the disk refuses.
    """

    def __init__(self, checked: CheckedBatch, ahead: WriteAhead) -> None:
        super().__init__("a large batch must be written")
        self.checked = checked
        self.write = ahead.write


class _Begun(NamedTuple):
    """A batch that another thread writes or has written."""

    checked: CheckedBatch
    segment: LogSegment
    ahead: WriteAhead


class LargeAppend:
    """The large append that a log has begun, if any."""

    def __init__(self) -> None:
        self._begun: _Begun | None = None

    def take_written(self, checked: CheckedBatch, segment: LogSegment, batch: memoryview) -> WriteAhead:
        """Return the bytes of this batch that another thread has written for this segment.

        Raises:
            LargeWriteError: They are not written yet; the error's `write` does that.
        """
        known, self._begun = self._begun, None
        if known is not None and known.checked is checked and known.segment is segment and known.ahead.is_written:
            return known.ahead
        self._begun = _Begun(checked, segment, segment.write_ahead(batch))
        raise LargeWriteError(checked, self._begun.ahead)

    def give_up(self) -> None:
        """Drop what was written: the caller that got a LargeWriteError will not append. OSError: the disk refused."""
        known, self._begun = self._begun, None
        if known is not None and not known.ahead.is_dropped:
            known.segment.log_file.drop_ahead()
