"""Batches so large that another thread has to write them, while the log goes on.

    append   the batch is given its place, its bytes but the header are begun behind the log's end -> LargeWriteError
    write    in another thread; nobody sees these bytes
    append   once more, with the same CheckedBatch: the header, and the rest of what every append does

Whatever changes the file meanwhile drops what was begun; then the second append begins anew.
"""

from __future__ import annotations

from typing import NamedTuple

from ..disk.files import WriteAhead
from ..produce.validation import CheckedBatch
from ..segment.segment import LogSegment

AT_ONCE_WRITTEN_BYTES = 2 << 20
"""A batch that is written at once; into memory, which takes a millisecond if nothing is wrong with the machine."""


class LargeWriteError(Exception):
    """To write this batch takes too long for a thread that others wait for. Offsets and producers are as they were.

    Have another thread call `write`, which raises OSError if the disk refuses.
    """

    def __init__(self, checked: CheckedBatch, ahead: WriteAhead) -> None:
        super().__init__("a large batch must be written")
        self.checked = checked
        self.write = ahead.write


class _Begun(NamedTuple):
    """What is being written in another thread."""

    checked: CheckedBatch
    segment: LogSegment
    ahead: WriteAhead


class LargeAppend:
    """The one that a log has begun, if any."""

    def __init__(self) -> None:
        self._begun: _Begun | None = None

    def written(self, checked: CheckedBatch, segment: LogSegment, batch: memoryview) -> WriteAhead:
        """What another thread has written of this batch, which is to go to this segment.

        Raises:
            LargeWriteError: It is yet to do that.
        """
        known, self._begun = self._begun, None
        if known is not None and known.checked is checked and known.segment is segment and known.ahead.is_written:
            return known.ahead
        self._begun = _Begun(checked, segment, segment.write_ahead(batch))
        raise LargeWriteError(checked, self._begun.ahead)

    def give_up(self) -> None:
        """Whoever was told of a LargeWriteError does not come again. OSError: the disk would not take the bytes back."""
        known, self._begun = self._begun, None
        if known is not None and not known.ahead.is_dropped:
            known.segment.log_file.drop_ahead()
