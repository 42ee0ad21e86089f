"""Which data directory belongs to which node, and bringing logs there while nobody has them open."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...storage.data_dirs.handing import Given
from ...storage.data_dirs.partition_dirs import topic_id_in
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
        self._static, self.own, self._files = static, own, files
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
            if owner == self.own
            else self.standing_for(TopicPartition(entry.name, index), entry.topic_id, config, owner)
        )

    def standing_for(self, named: TopicPartition, topic_id: bytes | None, config: LogConfig, owner: int) -> Log:
        directory = paths.join(dir_of(self._static, owner), paths.partition_dir_name(*named))
        return offline_log(LogPlace(self._files, directory, named, topic_id, self._healths[owner]), config)

    def left_by(self, node_id: int, wanted: Sequence[TopicPartition]) -> list[Given]:
        """What a process that has died has left of logs: to be recovered. Blocks.

        Raises:
            OSError: The disk refused.
        """
        data_dir = dir_of(self._static, node_id)
        starts = _read(OffsetCheckpoint(self._files, paths.join(data_dir, paths.LOG_START_CHECKPOINT)))
        return [Given(each, data_dir, False, 0, starts.get(each, 0)) for each in wanted]

    def where_it_lies(self, given: Given, takers: Iterable[int]) -> Given:
        """As it was given, but that the processes of some nodes, which were to take it, have died: it may lie there, and has to be
        recovered. Blocks likewise."""
        name = paths.partition_dir_name(*given.where)
        places = [given.data_dir, *(dir_of(self._static, each) for each in takers)]
        found = next((each for each in places if self._files.exists(paths.join(each, name))), given.data_dir)
        return given._replace(data_dir=found, is_clean=False, recovery_point=0)

    def other_dir_of(self, named: TopicPartition, topic_id: bytes) -> str | None:
        """In which data directory of another process this partition is, if it is in one. Blocks likewise."""
        for data_dir in self.data_dirs:
            directory = paths.join(data_dir, paths.partition_dir_name(*named))
            if self._files.exists(directory) and topic_id_in(self._files, directory, _ignore) in (None, topic_id):
                return data_dir
        return None


def remove_deleted(files: Files, data_dir: str, topics: Mapping[str, TopicEntry], rng: random.Random) -> None:
    """Mark as deleted what a process that was not there has missed: directories with the id of a topic that is no more, whether or
    not another one has its name now. The first process's start has put aside all that no topic of its catalog had. Blocks.

    Raises:
        OSError: The disk refused.
    """
    has_any = False
    for name in files.list(data_dir):
        found, directory = paths.parse_partition_dir(name), paths.join(data_dir, name)
        if not isinstance(found, TopicPartition) or not files.is_dir(directory):
            continue
        topic_id, entry = topic_id_in(files, directory, _ignore), topics.get(found.topic)
        if topic_id is not None and (entry is None or entry.topic_id != topic_id):
            files.rename(directory, paths.join(data_dir, paths.deleted_dir_name(*found, rng.randbytes(16).hex())))
            has_any = True
    if has_any:
        files.sync_dir(data_dir)


def _ignore(_: str) -> None:
    """Who has it open tells of it."""


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
