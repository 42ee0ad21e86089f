"""The part of a log that a reader is shown, and that it always reaches the end."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.errors import CorruptRecordError, ErrorCode
from ottla.protocol.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.records import RecordBatch
from ottla.server.client.nodes import NodeConnections
from ottla.server.client.reading import EARLIEST, Isolation, records
from ottla.server.client.values import Partition, Topic
from support.noted import each_case

Batch = bytearray


def data(*offsets: int, base: int | None = None, last: int | None = None, producer: int = -1) -> Batch:
    """Return a batch of records whose values are their offsets, from `base` to `last`; transactional if it has a producer."""
    base = offsets[0] if base is None else base
    return build_batch(
        [(offset, 1000, b"key", str(offset).encode(), ()) for offset in offsets],
        base_offset=base,
        last_offset_delta=(offsets[-1] if last is None else last) - base,
        producer_id=producer,
        producer_epoch=0,
        transactional=producer >= 0,
    )


def marker(offset: int, producer: int, *, commit: bool) -> Batch:
    key = b"\0\0" + (b"\0\1" if commit else b"\0\0")
    rows = [(offset, 1000, key, bytes(6), ())]
    return build_batch(rows, producer_id=producer, producer_epoch=0, transactional=True, control=True)


class OneLog(NodeConnections):
    """A cluster of one partition, whose log is these batches up to `end`; a fetch returns one batch and a piece of the
    next.
    """

    def __init__(self, *batches: Batch, end: int, start: int = 0, aborted: tuple[tuple[int, int], ...] = ()) -> None:
        super().__init__("127.0.0.1:1")
        self.batches = batches
        self.start, self.end = start, end
        self.aborted = tuple(AbortedTransaction(producer_id=who, first_offset=first) for who, first in aborted)
        self.fetched: list[int] = []

    def topic(self, name: str, *, create: bool = False) -> Topic:
        return Topic(name, bytes(16), (Partition(0, 0, (0,), (0,)),))

    def ask_leader(self, message: Any, topic: str, partition: int, known: Topic | None = None) -> Any:
        wanted = message.topics[0].partitions[0]
        if hasattr(wanted, "timestamp"):
            offset = self.start if wanted.timestamp == EARLIEST else self.end
            row = ListOffsetsPartitionResponse(offset=offset)
            return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(partitions=(row,)),))
        self.fetched.append(wanted.fetch_offset)
        return FetchResponse(responses=(FetchableTopicResponse(partitions=(self.fetch(wanted.fetch_offset),)),))

    def fetch(self, offset: int) -> PartitionData:
        if not self.start <= offset <= self.end:
            return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        found = [batch for batch in self.batches if RecordBatch(batch).last_offset >= offset]
        return PartitionData(
            records=bytes(found[0] + (found[1][:70] if found[1:] else b"")) if found else b"",
            aborted_transactions=self.aborted,
        )


def shown(log: OneLog, isolation: Isolation = "read_uncommitted", **part: int) -> list[int]:
    found = list(records(log, "topic", 0, isolation, **part))
    assert [record.value for record in found] == [str(record.offset).encode() for record in found]
    return [record.offset for record in found]


LOGS: dict[str, tuple[OneLog, list[int]]] = {
    "an empty log": (OneLog(end=0), []),
    "all of it": (OneLog(data(0, 1), data(2, 3), end=4), [0, 1, 2, 3]),
    "gaps inside of a batch": (OneLog(data(1, 4, base=0, last=7), data(8), end=9), [1, 4, 8]),
    "a whole batch compacted away": (OneLog(data(0), data(9), end=10), [0, 9]),
    "an emptied batch": (OneLog(build_batch([], base_offset=0, last_offset_delta=4), data(5), end=6), [5]),
    "a gap at the end": (OneLog(data(0, 1), end=100), [0, 1]),
    "nothing but a gap": (OneLog(end=100), []),
    "a log that starts inside of a batch": (OneLog(data(0, 1, 2, 3), end=4, start=2), [2, 3]),
    "a marker at the end": (OneLog(data(0, producer=7), marker(1, 7, commit=True), end=2), [0]),
    "offsets 2 GB apart": (OneLog(data(0), data(1 << 31), end=(1 << 31) + 1), [0, 1 << 31]),
    "records behind the end": (OneLog(data(0, 1, 2, 3), end=2), [0, 1]),
}


@each_case("name", LOGS)
def test_a_reader_sees_every_record_and_reaches_the_end(name: str) -> None:
    log, expected = LOGS[name]
    assert shown(log) == expected


def test_committed_readers_see_no_aborted_data() -> None:
    log = OneLog(
        data(0, producer=7),
        data(1, producer=8),
        marker(2, 7, commit=False),
        data(3, producer=7),
        data(4),
        marker(5, 7, commit=True),
        marker(6, 8, commit=True),
        end=7,
        aborted=((7, 0),),
    )
    # Each fetch lists the aborted transactions that overlap it again, including those that ended before it.
    log.aborted = ()
    assert shown(log, "read_committed") == [0, 1, 3, 4]
    whole = OneLog(bytearray().join(log.batches), end=7, aborted=((7, 0),))
    assert shown(whole, "read_committed") == [1, 3, 4]
    assert shown(whole) == [0, 1, 3, 4]


def test_only_the_requested_part_is_fetched() -> None:
    log = OneLog(data(0, 1), data(2, 3), data(4, 5), end=6)
    assert shown(log, start=3, end=4) == [3]
    assert log.fetched == [3]


class Shrinking(OneLog):
    """A log whose offsets below 4 retention deletes when the reader has reached 2."""

    def fetch(self, offset: int) -> PartitionData:
        self.start = 4 if offset >= 2 else 0
        return super().fetch(offset)


def test_records_that_retention_deletes_during_the_read_are_skipped() -> None:
    assert shown(Shrinking(data(0, 1), data(2, 3), data(4, 5), end=6)) == [0, 1, 4, 5]


class MadeAnew(OneLog):
    """A log whose topic is deleted when the reader has reached 2, and created again with fewer records."""

    def fetch(self, offset: int) -> PartitionData:
        if offset >= 2:
            self.end = 1
        return super().fetch(offset)


def test_a_shortened_log_ends_the_read() -> None:
    assert shown(MadeAnew(data(0, 1), data(2, 3), end=4)) == [0, 1]


def test_damage_is_reported_after_the_records_before_it() -> None:
    broken = data(2, 3)
    broken[60] = 9  # one more record than there are
    reading = records(OneLog(data(0, 1), broken, end=4), "topic", 0)
    found = [next(reading).offset for _ in range(2)]
    with pytest.raises(CorruptRecordError, match="invalid CRC in the batch at offset 2"):
        next(reading)
    assert found == [0, 1]
