"""A log of any size, written straight into a data directory as a clean stop leaves it: no broker takes part."""

import os
from collections.abc import Iterable
from pathlib import Path

from ottla.storage.data_dirs import clean_stop
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.segment.segment import LogSegment
from ottla.storage.topics.catalog import Catalog
from ottla.storage.topics.catalog_file import CatalogState, PartitionEntry, TopicEntry
from ottla.storage.topics.config import LogConfig


def write_big_log(
    data_dir: Path,
    tp: TopicPartition,
    batches: Iterable[bytes | bytearray],
    *,
    records_a_batch: int,
    segment_bytes: int,
) -> None:
    """Write batches of `records_a_batch` records each, one after the other from offset 0, and then an empty active segment.

    The timestamp of a batch's last record is its first offset and 1 000, in ms.
    """
    files = OsFiles()
    directory = str(data_dir / str(tp))
    files.make_dir(directory)
    config = LogConfig(cleanup_policy=("compact",))
    segment: LogSegment | None = None
    offset = 0
    for batch in batches:
        if segment is None or segment.size_bytes + len(batch) > segment_bytes:
            _seal(segment)
            segment = LogSegment.create(files, directory, offset, config, 0)
        last = offset + records_a_batch - 1
        segment.append(batch, last_offset=last, max_timestamp_ms=1_000 + offset, max_timestamp_offset=last)
        offset += records_a_batch
    _seal(segment)
    _seal(LogSegment.create(files, directory, offset, config, 0))
    configs = {"cleanup.policy": "compact", "segment.bytes": str(segment_bytes)}
    entry = TopicEntry(tp.topic, bytes(range(16)), (PartitionEntry((0,), 0),), configs)
    Catalog.create(files, str(data_dir), CatalogState("c", {tp.topic: entry}))
    clean_stop.write(files, str(data_dir), [])


def _seal(segment: LogSegment | None) -> None:
    if segment is not None:
        segment.on_roll()
        segment.log_file.close()


def linked_copy(data_dir: Path, copy: Path) -> None:
    """Copy a directory with hard links to its segment files: for a caller that replaces files, and changes none in place."""
    for path in data_dir.rglob("*"):
        target = copy / path.relative_to(data_dir)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, target)
