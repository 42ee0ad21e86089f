"""Which data directory belongs to which node, and bringing logs there while nobody has them open."""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...storage.disk import paths
from ...storage.disk.checkpoints import CorruptCheckpointError, OffsetCheckpoint
from ...storage.disk.files import Files
from ...storage.disk.health import Health
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ...storage.logs.log_parts import LogPlace
from ...storage.logs.recovery import offline_log
from ...storage.topics.catalog_file import TopicEntry
from ...storage.topics.config import LogConfig
from ..cluster.opening import OpenStore, Start
from ..config.static_config import StaticConfig
from ..partitions.internal_topics import INTERNAL_TOPICS
from ..runtime.disk import side_by_side

CHECKPOINTS = (
    paths.RECOVERY_POINT_CHECKPOINT,
    paths.LOG_START_CHECKPOINT,
    paths.REPLICATION_CHECKPOINT,
    paths.CLEANER_CHECKPOINT,
)


def dir_of(static: StaticConfig, node_id: int) -> str:
    """The data directory of a node; the first has the catalog."""
    dirs = static.node(static.node_ids[0]).data_dirs
    return dirs[static.node_ids.index(node_id)].rstrip("/")


class Owners:
    """Which logs the process of node `own` has, and what stands in for the others."""

    def __init__(self, static: StaticConfig, own: int, files: Files) -> None:
        self._static, self._own, self._files = static, own, files
        self.data_dirs = [dir_of(static, each) for each in static.node_ids if each != own]
        self._healths = {
            each: Health(f"node {each} has it, in a process of its own", ErrorCode.NOT_LEADER_OR_FOLLOWER)
            for each in static.node_ids
            if each != own
        }

    def owner(self, name: str, leader: int) -> int:
        """The node whose process has the log of a partition: internal ones are the first's."""
        first = self._static.node_ids[0]
        return first if name in INTERNAL_TOPICS or leader not in self._static.node_ids else leader

    def stand_in(self, entry: TopicEntry, config: LogConfig, index: int, leader: int) -> Log | None:
        owner = self.owner(entry.name, leader)
        return (
            None
            if owner == self._own
            else self.standing_for(TopicPartition(entry.name, index), entry.topic_id, config, owner)
        )

    def standing_for(self, named: TopicPartition, topic_id: bytes | None, config: LogConfig, owner: int) -> Log:
        directory = paths.join(dir_of(self._static, owner), paths.partition_dir_name(*named))
        return offline_log(LogPlace(self._files, directory, named, topic_id, self._healths[owner]), config)


def bring(static: StaticConfig, store: OpenStore, start: Start) -> None:
    """Close all logs, and have each in the directory of the node whose process gets it. Blocks.

    Raises:
        OSError: The disk refused; each log is in one of both directories.
    """
    owners = Owners(static, static.node_ids[0], start.files)
    moves: list[Move] = []
    for topic in store.topics:
        for partition in topic.partitions:
            where, log = partition.topic_partition, partition.log
            target = dir_of(static, owners.owner(topic.name, partition.leader))
            if log.failure is None and log.data_dir != target:
                moves.append(Move(where, log.data_dir, target))
    store.logs.close(start.clock.now_ms(), side_by_side)
    if moves:
        _move(start.files, moves)


class Move(NamedTuple):
    where: TopicPartition
    source: str
    target: str


def _move(files: Files, moves: list[Move]) -> None:
    """Rename directories of closed logs. First what checkpoints say of them: a line too many vouches for nothing."""
    for name in CHECKPOINTS:
        offsets = {
            data_dir: _read(OffsetCheckpoint(files, paths.join(data_dir, name)))
            for data_dir in {path for each in moves for path in (each.source, each.target)}
        }
        for each in moves:
            if (offset := offsets[each.source].get(each.where)) is not None:
                offsets[each.target][each.where] = offset
        for data_dir in dict.fromkeys(each.target for each in moves):
            OffsetCheckpoint(files, paths.join(data_dir, name)).write(offsets[data_dir])
    for each in moves:
        folder = paths.partition_dir_name(*each.where)
        files.rename(paths.join(each.source, folder), paths.join(each.target, folder))
    for data_dir in {path for each in moves for path in (each.source, each.target)}:
        files.sync_dir(data_dir)


def _read(checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
    try:
        return dict(checkpoint.read())
    except CorruptCheckpointError:
        return {}  # as a start takes it
