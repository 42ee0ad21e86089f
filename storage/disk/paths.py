"""Every file and directory name in a data directory. No other module spells one.

    <data dir>/
        .lock  meta.properties  .kafka_cleanshutdown
        recovery-point-offset-checkpoint  log-start-offset-checkpoint
        replication-offset-checkpoint     cleaner-offset-checkpoint
        <topic>-<partition>/
            00000000000000000042.log        record batches from offset 42 on
            00000000000000000042.index      .timeindex  .txnindex  .snapshot
            leader-epoch-checkpoint  partition.metadata
        <topic>-<partition>.<32 hex digits>-delete/     being deleted
        <topic>-<partition>.<32 hex digits>-future/     a copy in the making, on its way from another data directory
        .ottla-next/  .ottla-next-in/                   another content of the whole directory, on its way in

A segment file on its way in or out carries one more suffix after its full name: `.cleaned` while the cleaner writes
it, `.swap` while it replaces others, `.deleted` until it is removed. All names are Apache Kafka's.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_KINDS: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
"""The files of one segment, in the order in which a swap renames them."""

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

LOCK_FILE: Final = ".lock"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
REPLICATION_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CATALOG_FILE: Final = "ottla.json"
OWN_FILES: Final = (
    META_PROPERTIES,
    CLEAN_SHUTDOWN_FILE,
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    CLEANER_CHECKPOINT,
    CATALOG_FILE,
)
"""Of a data directory, beside its logs and the lock."""
SNAPSHOT_FILE: Final = "ottla-snapshot.json"
"""In a snapshot of data directories; see `data_dirs.snapshots`."""
NEXT_CONTENT: Final = ".ottla-next"
NEXT_CONTENT_IN: Final = ".ottla-next-in"
EXCHANGE_FILE: Final = "exchange"
"""In one of those two; see `data_dirs.exchange`."""

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"

MOVED_FILE: Final = "ottla-moved"
"""In a partition directory that came from another data directory; see `data_dirs.relocation`."""

MOVING_FILE: Final = "ottla-moving"
"""In a partition directory whose log may go on in another data directory, which it names; likewise."""

TEMPORARY: Final = ".tmp"
"""Suffix of a file that is being written and will be renamed into place."""
PRIVATE: Final = frozenset({CATALOG_FILE, CATALOG_FILE + TEMPORARY})
"""Names of files that keep secrets, the keys of SCRAM users and of delegation tokens: made for their owner only."""

OFFSET_MAX: Final = 2**63 - 1
PARTITION_MAX: Final = 2**31 - 1
FILE_NAME_CHARACTERS_MAX: Final = 255

_SEGMENT_NAME = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.cleaned|\.swap|\.deleted)?")
_PARTITION_DIR = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,9})")
_MOVING_DIR = re.compile(r"([a-zA-Z0-9._-]*)-(0|[1-9][0-9]{0,9})\.([0-9a-f]{32})-(delete|future|stray)")


class TopicPartition(NamedTuple):
    """One log's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return partition_dir_name(self.topic, self.partition)


class MovingDir(NamedTuple):
    """A partition directory that holds no log of ours: on its way out, or put aside.

    Its topic may be cut: a name has at most 255 characters.
    """

    topic_partition: TopicPartition
    unique_id: str
    role: str
    """`delete` (a deleted partition), `future` (a copy that Kafka was moving here) or `stray` (not ours)."""


class SegmentFile(NamedTuple):
    """The parts of a segment file's name."""

    base_offset: int
    kind: str
    """One of SEGMENT_KINDS, or SNAPSHOT."""
    suffix: str
    """`""`, CLEANED, SWAP or DELETED."""


def join(directory: str, name: str) -> str:
    """The path of `name` in `directory`."""
    return f"{directory}/{name}"


def parent(path: str) -> str:
    """The directory of a path that `join` made; `.` for a bare name."""
    directory, slash, _ = path.rpartition("/")
    return directory or ("/" if slash else ".")


def segment_file_name(base_offset: int, kind: str, suffix: str = "") -> str:
    """The name of a segment's file; `kind` as in SegmentFile."""
    return f"{base_offset:020}{kind}{suffix}"


def segment_path(directory: str, base_offset: int, kind: str, suffix: str = "") -> str:
    """The path of a segment's file in its partition directory."""
    return f"{directory}/{base_offset:020}{kind}{suffix}"


def log_path(directory: str, base_offset: int, suffix: str = "") -> str:
    """The record batches from `base_offset` on."""
    return segment_path(directory, base_offset, LOG, suffix)


def offset_index_path(directory: str, base_offset: int, suffix: str = "") -> str:
    """The offset index beside a log file."""
    return segment_path(directory, base_offset, INDEX, suffix)


def time_index_path(directory: str, base_offset: int, suffix: str = "") -> str:
    """The time index beside a log file."""
    return segment_path(directory, base_offset, TIME_INDEX, suffix)


def txn_index_path(directory: str, base_offset: int, suffix: str = "") -> str:
    """The index of aborted transactions beside a log file."""
    return segment_path(directory, base_offset, TXN_INDEX, suffix)


def snapshot_path(directory: str, offset: int, suffix: str = "") -> str:
    """The producer state after all records below `offset`."""
    return segment_path(directory, offset, SNAPSHOT, suffix)


def parse_segment_name(name: str) -> SegmentFile | None:
    """The parts of a segment or snapshot file's name; None for any other file."""
    match = _SEGMENT_NAME.fullmatch(name)
    if match is None or (base_offset := int(match[1])) > OFFSET_MAX:
        return None
    return SegmentFile(base_offset, match[2], match[3] or "")


def partition_dir_name(topic: str, partition: int) -> str:
    """The directory of one partition, below a data directory."""
    return f"{topic}-{partition}"


def staging_root(data_dir: str) -> str:
    """The directory beside a data directory in which others make segments for it; see `staged_segment`."""
    return f"{data_dir}.ottla-pipeline"


def deleted_dir_name(topic: str, partition: int, unique_id: str) -> str:
    """The directory of a deleted partition until its files are gone; `unique_id` is 32 lower-case hex digits.

    A topic that would make the name longer than file systems allow is cut.
    """
    return _moving_dir_name(topic, partition, unique_id, "delete")


def stray_dir_name(topic: str, partition: int, unique_id: str) -> str:
    """As `deleted_dir_name`, for a directory that belongs to no topic and is kept."""
    return _moving_dir_name(topic, partition, unique_id, "stray")


def future_dir_name(topic: str, partition: int, unique_id: str) -> str:
    """As `deleted_dir_name`, for a copy of a partition in the making. Not cut: it tells which partition it is."""
    return f"{topic}-{partition}.{unique_id}-future"


def _moving_dir_name(topic: str, partition: int, unique_id: str, role: str) -> str:
    tail = f"-{partition}.{unique_id}-{role}"
    return topic[: FILE_NAME_CHARACTERS_MAX - len(tail)] + tail


def parse_partition_dir(name: str) -> TopicPartition | MovingDir | None:
    """Which partition a directory belongs to; None if it is no partition directory at all."""
    if (match := _MOVING_DIR.fullmatch(name)) and int(match[2]) <= PARTITION_MAX:
        return MovingDir(TopicPartition(match[1], int(match[2])), match[3], match[4])
    if (match := _PARTITION_DIR.fullmatch(name)) and int(match[2]) <= PARTITION_MAX:
        return TopicPartition(match[1], int(match[2]))
    return None
