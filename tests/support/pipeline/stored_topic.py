"""A topic's data directory on a real disk, as a stopped server leaves it: for commands that open it by path."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.storage.data_dirs import clean_stop
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import OffsetCheckpoint, write_partition_metadata
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.topics.catalog import Catalog
from ottla.storage.topics.catalog_file import CatalogState, PartitionEntry, TopicEntry
from support.logs.make_log import Producer, append, make_log

TOPIC = "orders"
TOPIC_ID = bytes(range(16))
PARTITIONS = 2


def stored_topic(
    directory: Path,
    *,
    policy: str = "compact",
    topic_id: bytes | None = None,
    more: Sequence[tuple[str, str]] = (),
    seals: bool = False,
    **configs: str,
) -> Path:
    """Write two partitions; return the data directory.

    Partition 0: `a` to `c` in the first sealed segment, `a` again, `b` deleted and `x` aborted in the second, `d` and `a`
    a third time in the active one. Partition 1: `a` twice, then `more`.

    Args:
        topic_id: 16 bytes, for `partition.metadata`. None: without that file.
        more: Keys and values.
        seals: Roll partition 0 at the end: its active segment is empty.
    """
    data_dir = directory / "data"
    logs = [_log(data_dir, partition) for partition in range(PARTITIONS)]
    append(logs[0], ("a", "1"), ("b", "1"), ("c", "1"), headers=(("h", b"1"),), timestamp=1_000)
    append(logs[0], ("z", "1"), codec=3)
    logs[0].roll(1_000)
    aborting = Producer(logs[0], 7, transactional=True)
    aborting.write("x")
    aborting.abort()
    append(logs[0], ("a", "2"), ("b", None))
    logs[0].roll(1_000)
    append(logs[0], ("d", "1"), ("a", "3"), roll=seals)
    append(logs[1], ("a", "p1"), roll=True)
    append(logs[1], ("a", "p1 again"), roll=True)
    append(logs[1], ("e", "1"), *more)
    texts = {"cleanup.policy": policy} | {name.replace("_", "."): value for name, value in configs.items()}
    _stop(data_dir, logs, texts, topic_id or TOPIC_ID)
    if topic_id is not None:
        for partition in range(PARTITIONS):
            write_partition_metadata(OsFiles(), str(data_dir / f"{TOPIC}-{partition}"), topic_id)
    return data_dir


def versioned_topic(directory: Path) -> Path:
    """Write one partition whose records have versions in the header `v`; return the data directory.

    The newest of `k` is in the first segment, that of `c` and `d` in the active one, and `b` is deleted by a tombstone between
    its values.
    """
    data_dir = directory / "data"
    log = _log(data_dir, 0)

    def put(key: str, value: str | None, version: int | None, *, roll: bool = False) -> None:
        headers = () if version is None else (("v", version.to_bytes(8, "big", signed=True)),)
        append(log, (key, value), headers=headers, roll=roll)

    put("k", "right", 3)
    put("b", "early", 1, roll=True)
    put("k", "late", 1)
    put("b", None, 9)
    put("c", "plain", None, roll=True)
    put("b", "late", 5)
    put("c", "versioned", -7)
    put("d", "early", None)
    put("d", "late", None)
    texts = {
        "cleanup.policy": "compact",
        "ottla.compaction.strategy": "header",
        "ottla.compaction.strategy.header": "v",
    }
    _stop(data_dir, [log], texts)
    return data_dir


def _stop(data_dir: Path, logs: Sequence[Log], texts: Mapping[str, str], topic_id: bytes = TOPIC_ID) -> None:
    """Write the files that a stopped server leaves."""
    files = OsFiles()
    for log in logs:
        log.close(1_000)
    entries = tuple(PartitionEntry((0,), 0) for _ in logs)
    topic = TopicEntry(TOPIC, topic_id, entries, texts)
    Catalog.create(files, str(data_dir), CatalogState("c", {TOPIC: topic}))
    ends = {log.topic_partition: log.log_end_offset for log in logs}
    OffsetCheckpoint(files, str(data_dir / paths.RECOVERY_POINT_CHECKPOINT)).write(ends)
    clean_stop.write(files, str(data_dir), [])


def many_segments(directory: Path, count: int) -> Path:
    """Write one partition of `count` segments, two records each, half as many keys as records; return its data directory."""
    data_dir = directory / "data"
    log = _log(data_dir, 0)
    for number in range(count - 1):
        append(log, (f"{number}", "old"), (f"{number // 2}", "new"), roll=True)
    append(log, ("end", "1"))
    _stop(data_dir, [log], {"cleanup.policy": "compact"})
    return data_dir


def copied(data_dir: Path) -> Path:
    """Return a copy of its present state."""
    copy = data_dir.with_name("before")
    shutil.copytree(data_dir, copy)
    return copy


def _log(data_dir: Path, partition: int) -> Log:
    return make_log(OsFiles(), tp=TopicPartition(TOPIC, partition), data_dir=str(data_dir), segment_bytes=1 << 20)
