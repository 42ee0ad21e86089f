"""Logs of any size, quickly: a data directory as a clean stop leaves it, with one compacted partition.

Records have keys of 16 bytes, values of 76 bytes of JSON, and take 100 bytes each; 160 make a batch, the same arguments
the same bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ottla.protocol.batch_builder import seal_batch
from ottla.storage.data_dirs import clean_stop
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.produce import producer_snapshots
from ottla.storage.produce.producers import ProducerStates
from ottla.storage.segment.segment import LogSegment
from ottla.storage.topics.catalog import Catalog
from ottla.storage.topics.catalog_file import CatalogState, PartitionEntry, TopicEntry
from ottla.storage.topics.config import LogConfig

from ...support.logs.batches import varint
from ..cleaner.generate import values

TP = TopicPartition("bench", 0)
KEY_BYTES, VALUE_BYTES = 16, 76
RECORDS_A_BATCH = 160
SEGMENT_BYTES = 64 << 20
"""The topic's `segment.bytes`: the size of a segment, and the largest size of a cleaned segment."""
FIRST_TIMESTAMP_MS = 1_000


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of log.

    size_bytes: About so much in sealed segments.
    updates: Records for each key, drawn at random; 1: every record has a key of its own.
    """

    name: str
    size_bytes: int
    updates: int = 10


@dataclass(frozen=True, slots=True)
class Made:
    """A log on disk."""

    data_dir: Path
    size_bytes: int
    record_count: int
    segment_count: int


def make_log(shape: Shape, data_dir: Path, *, partitions: int = 1, segment_bytes: int = SEGMENT_BYTES) -> Made:
    """Write a log of sealed segments and an empty active one into `data_dir`, which must not exist; all partitions alike.

    Args:
        segment_bytes: The size of a segment. The topic's `segment.bytes`, which limits a cleaned segment, stays.
    """
    files = OsFiles()
    config = LogConfig(cleanup_policy=("compact",), segment_bytes=SEGMENT_BYTES)
    size_bytes = records = segments = 0
    for number in range(partitions):
        directory = str(data_dir / f"{TP.topic}-{number}")
        files.make_dir(directory)
        batches = max(1, shape.size_bytes // partitions // len(_sealed(_Block().fill([0] * RECORDS_A_BATCH, 0), 0)))
        written = _write(directory, config, segment_bytes, 0, _batches(batches, shape.updates))
        size_bytes, records, segments = size_bytes + written[0], records + written[1], segments + written[2]
    configs = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)}
    entries = tuple(PartitionEntry((0,), 0) for _ in range(partitions))
    entry = TopicEntry(TP.topic, bytes(range(16)), entries, configs)
    Catalog.create(files, str(data_dir), CatalogState("c", {TP.topic: entry}))
    clean_stop.write(files, str(data_dir), [])
    return Made(data_dir, size_bytes, records, segments)


def _write(
    directory: str, config: LogConfig, segment_bytes: int, begins: int, batches: Iterator[tuple[int, bytearray]]
) -> tuple[int, int, int]:
    """Return bytes, records and segments of what these batches become."""
    files = OsFiles()
    segment: LogSegment | None = None
    size_bytes = records = segments = 0
    for offset, batch in batches:
        if segment is None or segment.size_bytes + len(batch) > segment_bytes:
            _seal(segment)
            segment = LogSegment.create(files, directory, offset, config, 0)
            segments += 1
        last = offset + RECORDS_A_BATCH - 1
        segment.append(batch, last_offset=last, max_timestamp_ms=FIRST_TIMESTAMP_MS + offset, max_timestamp_offset=last)
        size_bytes, records = size_bytes + len(batch), records + RECORDS_A_BATCH
    _seal(segment)
    _seal(LogSegment.create(files, directory, begins + records, config, 0))
    producers = ProducerStates()
    producers.reset(begins + records)
    producer_snapshots.take(files, directory, producers, sync=False)  # or every opening reads all headers
    return size_bytes, records, segments


def _batches(count: int, updates: int, begins: int = 0) -> Iterator[tuple[int, bytearray]]:
    rng = np.random.default_rng(7 + begins)
    records = count * RECORDS_A_BATCH
    block = _Block()
    for offset in range(0, records, RECORDS_A_BATCH):
        if updates == 1:
            numbers = np.arange(offset, offset + RECORDS_A_BATCH, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        else:
            numbers = rng.integers(0, records // updates, RECORDS_A_BATCH, np.uint64)
        yield offset, _sealed(block.fill(numbers, int(rng.integers(1 << 30))), begins + offset)


class _Block:
    """The records of a batch, of which only keys and values change."""

    def __init__(self) -> None:
        block = bytearray()
        key_at, value_at = [], []
        for index in range(RECORDS_A_BATCH):
            head = b"\0\0" + varint(index) + varint(KEY_BYTES)
            value_head = varint(VALUE_BYTES)
            block += varint(len(head) + KEY_BYTES + len(value_head) + VALUE_BYTES + 1) + head
            key_at.append(len(block))
            block += bytes(KEY_BYTES) + value_head
            value_at.append(len(block))
            block += bytes(VALUE_BYTES) + b"\0"
        self._block = np.frombuffer(block, np.uint8)
        self._keys = np.array(key_at)[:, None] + np.arange(KEY_BYTES)
        self._values = np.array(value_at)[:, None] + np.arange(VALUE_BYTES)
        self._pool = np.frombuffer(b"".join(values(VALUE_BYTES)), np.uint8).reshape(-1, VALUE_BYTES)

    def fill(self, numbers: Sequence[int] | npt.NDArray[np.uint64], first_value: int) -> bytes:
        """Return keys made of these numbers, and some of the values, which repeat after 2 000."""
        hexed = np.asarray(numbers, ">u8").tobytes().hex().encode()
        self._block[self._keys] = np.frombuffer(hexed, np.uint8).reshape(-1, KEY_BYTES)
        chosen = (first_value + np.arange(RECORDS_A_BATCH) * 7_919) % len(self._pool)
        self._block[self._values] = self._pool[chosen]
        return self._block.tobytes()


def _sealed(block: bytes, offset: int) -> bytearray:
    return seal_batch(
        block,
        record_count=RECORDS_A_BATCH,
        base_offset=offset,
        last_offset_delta=RECORDS_A_BATCH - 1,
        attributes=0,
        base_timestamp=FIRST_TIMESTAMP_MS + offset,
        max_timestamp=FIRST_TIMESTAMP_MS + offset,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        partition_leader_epoch=0,
    )


def _seal(segment: LogSegment | None) -> None:
    if segment is not None:
        segment.on_roll()
        segment.log_file.close()
