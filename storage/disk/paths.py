"""Names of all files and directories in a data directory. No other module contains such a name.

    <data dir>/
        .lock  meta.properties  .kafka_cleanshutdown
        recovery-point-offset-checkpoint  log-start-offset-checkpoint
        replication-offset-checkpoint     cleaner-offset-checkpoint
        <topic>-<partition>/
            00000000000000000042.log        record batches from offset 42 on
            00000000000000000042.index      .timeindex  .txnindex  .snapshot
            leader-epoch-checkpoint  partition.metadata
        <topic>-<partition>.<32 hex digits>-delete/     being deleted
        <topic>-<partition>.<32 hex digits>-future/     an unfinished copy that is moving from another data directory
        .ottla-next/  .ottla-next-in/                   new content that will replace the whole directory

A new or deleted segment file has one more suffix after its full name: `.cleaned` while the cleaner writes it, `.swap`
while it replaces others, `.deleted` until it is removed. All names are Apache Kafka's.
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
"""Files of a data directory, apart from its logs and the lock."""
SNAPSHOT_FILE: Final = "ottla-snapshot.json"
"""Manifest in a snapshot of data directories; see `data_dirs.snapshots`."""
NEXT_CONTENT: Final = ".ottla-next"
NEXT_CONTENT_IN: Final = ".ottla-next-in"
EXCHANGE_FILE: Final = "exchange"
"""File in one of these two directories that decides an exchange; see `data_dirs.exchange`."""

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"

MOVED_FILE: Final = "ottla-moved"
"""File in a partition directory that was moved from another data directory; see `data_dirs.relocation`."""

MOVING_FILE: Final = "ottla-moving"
"""File in a partition directory with the data directory to which its log is moving; see `data_dirs.relocation`."""

RECORDS_FILE: Final = "ottla-records"
"""File in a partition directory with the numbers of records that the last clean pass left; see `logs.record_counts`."""

TEMPORARY: Final = ".tmp"
"""Suffix of a file that is being written and will be renamed into place."""
PRIVATE: Final = frozenset({CATALOG_FILE, CATALOG_FILE + TEMPORARY})
"""Files with secrets, the keys of SCRAM users and of delegation tokens: only their owner may read them."""

OFFSET_MAX: Final = 2**63 - 1
PARTITION_MAX: Final = 2**31 - 1
FILE_NAME_CHARACTERS_MAX: Final = 255

_SEGMENT_NAME = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.cleaned|\.swap|\.deleted)?")
_PARTITION_DIR = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,9})")
_MOVING_DIR = re.compile(r"([a-zA-Z0-9._-]*)-(0|[1-9][0-9]{0,9})\.([0-9a-f]{32})-(delete|future|stray)")


class TopicPartition(NamedTuple):
    """Name of a log: topic and partition number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return partition_dir_name(self.topic, self.partition)


class MovingDir(NamedTuple):
    """Name of a partition directory that is not an open log: being deleted, being moved, or put aside.

    The topic may be cut off, as a file name has at most 255 characters.
    """

    topic_partition: TopicPartition
    unique_id: str
    role: str
    """`delete` (a deleted partition), `future` (an unfinished copy of a move) or `stray` (put aside)."""


class SegmentFile(NamedTuple):
    """The parts of a segment file's name."""

    base_offset: int
    kind: str
    """Kind of file: a member of SEGMENT_KINDS, or SNAPSHOT."""
    suffix: str
    """`""`, CLEANED, SWAP or DELETED."""


def join(directory: str, name: str) -> str:
    """Return the path of `name` in `directory`."""
    return f"{directory}/{name}"


def parent(path: str) -> str:
    """Return the directory of a path that `join` made; `.` for a bare name."""
    directory, slash, _ = path.rpartition("/")
    return directory or ("/" if slash else ".")


def segment_file_name(base_offset: int, kind: str, suffix: str = "") -> str:
    """Return the name of a segment's file; `kind` as in SegmentFile."""
    return f"{base_offset:020}{kind}{suffix}"


def segment_path(directory: str, base_offset: int, kind: str, suffix: str = "") -> str:
    """Return the path of a segment's file in its partition directory."""
    return f"{directory}/{base_offset:020}{kind}{suffix}"


def log_path(directory: str, base_offset: int, suffix: str = "") -> str:
    """Return the path of the log file with the record batches from `base_offset` on."""
    return segment_path(directory, base_offset, LOG, suffix)


def offset_index_path(directory: str, base_offset: int, suffix: str = "") -> str:
    """Return the path of the offset index of a segment."""
    return segment_path(directory, base_offset, INDEX, suffix)


def time_index_path(directory: str, base_offset: int, suffix: str = "") -> str:
    """Return the path of the time index of a segment."""
    return segment_path(directory, base_offset, TIME_INDEX, suffix)


def txn_index_path(directory: str, base_offset: int, suffix: str = "") -> str:
    """Return the path of the transaction index of a segment."""
    return segment_path(directory, base_offset, TXN_INDEX, suffix)


def snapshot_path(directory: str, offset: int, suffix: str = "") -> str:
    """Return the path of the producer snapshot after all records below `offset`."""
    return segment_path(directory, offset, SNAPSHOT, suffix)


def parse_segment_name(name: str) -> SegmentFile | None:
    """Parse the name of a segment or snapshot file; None for any other file."""
    match = _SEGMENT_NAME.fullmatch(name)
    if match is None or (base_offset := int(match[1])) > OFFSET_MAX:
        return None
    return SegmentFile(base_offset, match[2], match[3] or "")


def partition_dir_name(topic: str, partition: int) -> str:
    """Return the name of a partition's directory in a data directory."""
    return f"{topic}-{partition}"


def staging_root(data_dir: str) -> str:
    """Return the directory next to a data directory in which other processes make segments; see `staged_segment`."""
    return f"{data_dir}.ottla-pipeline"


def deleted_dir_name(topic: str, partition: int, unique_id: str) -> str:
    """Return the directory name of a deleted partition until its removal; `unique_id` is 32 lower-case hex digits.

    A topic that would make the name longer than file systems allow is cut off.
    """
    return _moving_dir_name(topic, partition, unique_id, "delete")


def stray_dir_name(topic: str, partition: int, unique_id: str) -> str:
    """Return a name like `deleted_dir_name`, for a directory that belongs to no topic and is kept."""
    return _moving_dir_name(topic, partition, unique_id, "stray")


def future_dir_name(topic: str, partition: int, unique_id: str) -> str:
    """Return a name like `deleted_dir_name`, for an unfinished copy of a partition. Not cut off, as a start parses it."""
    return f"{topic}-{partition}.{unique_id}-future"


def _moving_dir_name(topic: str, partition: int, unique_id: str, role: str) -> str:
    tail = f"-{partition}.{unique_id}-{role}"
    return topic[: FILE_NAME_CHARACTERS_MAX - len(tail)] + tail


def parse_partition_dir(name: str) -> TopicPartition | MovingDir | None:
    """Parse the name of a partition directory; None for any other name."""
    if (match := _MOVING_DIR.fullmatch(name)) and int(match[2]) <= PARTITION_MAX:
        return MovingDir(TopicPartition(match[1], int(match[2])), match[3], match[4])
    if (match := _PARTITION_DIR.fullmatch(name)) and int(match[2]) <= PARTITION_MAX:
        return TopicPartition(match[1], int(match[2]))
    return None
