"""Records on their way into one batch of a coordinator's topic. A batch of thousands is made in pieces; to append it is then
one short step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...protocol.batch_builder import append_records, seal_batch
from ...protocol.records import HEADER_BYTES, NO_SEQUENCE, TRANSACTIONAL_BIT

Pair = tuple[bytes, bytes | None]
"""Key and value of one record; None deletes the key."""


class Producer(NamedTuple):
    """In whose transaction records are written."""

    producer_id: int
    producer_epoch: int


_NOBODY = Producer(-1, -1)


class Records:
    """Records in their order; `sealed` makes a batch of them."""

    __slots__ = ("_block", "_count")

    def __init__(self, pairs: Sequence[Pair] = ()) -> None:
        self._block = bytearray()
        self._count = 0
        if pairs:
            self.add(*pairs)

    def __len__(self) -> int:
        return self._count

    @property
    def batch_bytes(self) -> int:
        """How large the batch would be by now."""
        return HEADER_BYTES + len(self._block)

    def add(self, *pairs: Pair) -> None:
        append_records(self._block, [(at, 0, key, value, ()) for at, (key, value) in enumerate(pairs, self._count)])
        self._count += len(pairs)

    def add_within(self, max_bytes: int, pair: Pair) -> bool:
        """`add`, unless the batch would then be larger than `max_bytes`; an empty one takes any record. Whether it is in."""
        before_bytes = len(self._block)
        self.add(pair)
        if self._count > 1 and self.batch_bytes > max_bytes:
            del self._block[before_bytes:]
            self._count -= 1
            return False
        return True

    def sealed(self, now_ms: int, producer: Producer | None = None, base_sequence: int = NO_SEQUENCE) -> bytearray:
        """The batch: all records of `now_ms`; transactional if there is a `producer`."""
        return seal_batch(
            self._block,
            record_count=self._count,
            base_offset=0,
            last_offset_delta=self._count - 1,
            attributes=0 if producer is None else TRANSACTIONAL_BIT,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
            producer_id=(producer or _NOBODY).producer_id,
            producer_epoch=(producer or _NOBODY).producer_epoch,
            base_sequence=base_sequence,
        )
