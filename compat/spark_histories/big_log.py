"""A log of any size with updates, tombstones and two codecs, in a data directory as a clean stop leaves it."""

import random
from collections.abc import Iterator
from pathlib import Path

from ottla.protocol.batch_builder import seal_batch
from ottla.protocol.varints import append_varint
from ottla.storage.catalog import Catalog, CatalogState, PartitionEntry, TopicEntry
from ottla.storage.checkpoints import write_clean_shutdown
from ottla.storage.config import LogConfig
from ottla.storage.files import OsFiles
from ottla.storage.paths import TopicPartition
from ottla.storage.segment import LogSegment

TP = TopicPartition("big", 0)
RECORDS_A_BATCH = 160
VALUE_BYTES = 76
TOMBSTONES_IN = 20
"""Batches of which one is all tombstones."""
LZ4 = 3
LZ4_IN = 10
"""Batches of which one is compressed."""


def make_big_log(data_dir: Path, size_bytes: int, *, keys: int, segment_bytes: int, seed: int = 1) -> None:
    """Write about `size_bytes` of batches, and an empty active segment behind them."""
    files, rng = OsFiles(), random.Random(seed)
    directory = str(data_dir / str(TP))
    files.make_dir(directory)
    config = LogConfig(cleanup_policy=("compact",))
    segment: LogSegment | None = None
    offset = written = 0
    for batch in _batches(rng, keys):
        if segment is None or segment.size_bytes + len(batch) > segment_bytes:
            _seal(segment)
            segment = None if written >= size_bytes else LogSegment.create(files, directory, offset, config, 0)
            if segment is None:
                break
        timestamp = 1_000 + offset
        last = offset + RECORDS_A_BATCH - 1
        segment.append(batch, last_offset=last, max_timestamp_ms=timestamp, max_timestamp_offset=last)
        offset += RECORDS_A_BATCH
        written += len(batch)
    _seal(LogSegment.create(files, directory, offset, config, 0))
    configs = {"cleanup.policy": "compact", "segment.bytes": str(segment_bytes)}
    entry = TopicEntry(TP.topic, bytes(range(16)), (PartitionEntry((0,), 0),), configs)
    Catalog.create(files, str(data_dir), CatalogState("c", {TP.topic: entry}))
    write_clean_shutdown(files, str(data_dir))


def _seal(segment: LogSegment | None) -> None:
    if segment is not None:
        segment.on_roll()
        segment.log_file.close()


def _batches(rng: random.Random, keys: int) -> Iterator[bytearray]:
    """Without end; every record has the timestamp of its batch."""
    with_value = [_head(index, VALUE_BYTES) for index in range(RECORDS_A_BATCH)]
    without = [_head(index, None) for index in range(RECORDS_A_BATCH)]
    offset = number = 0
    while True:
        number += 1
        is_tombstones = number % TOMBSTONES_IN == 0
        heads = without if is_tombstones else with_value
        value = b"" if is_tombstones else rng.randbytes(VALUE_BYTES)
        tail = b"\1\0" if is_tombstones else _varint(VALUE_BYTES) + value + b"\0"
        block = b"".join([head + b"%016x" % rng.randrange(keys) + tail for head in heads])
        codec = LZ4 if number % LZ4_IN == 0 else 0
        yield seal_batch(
            block,
            record_count=RECORDS_A_BATCH,
            base_offset=offset,
            last_offset_delta=RECORDS_A_BATCH - 1,
            attributes=codec,
            base_timestamp=1_000 + offset,
            max_timestamp=1_000 + offset,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            partition_leader_epoch=0,
        )
        offset += RECORDS_A_BATCH


def _head(index: int, value_bytes: int | None) -> bytes:
    """A record up to its key of 16 bytes."""
    rest = b"\0\0" + _varint(index) + _varint(16)
    value = b"\1" if value_bytes is None else _varint(value_bytes) + bytes(value_bytes)
    return _varint(len(rest) + 16 + len(value) + 1) + rest


def _varint(value: int) -> bytes:
    out = bytearray()
    append_varint(out, value)
    return bytes(out)
