"""Reader of the metadata log of Apache Kafka's controller: a cluster's topics and clients.

    __cluster_metadata-0/
        00000000000000000123-0000000004.checkpoint    snapshot of everything below offset 123 (epoch 4)
        00000000000000000000.log …                    record batches; those from 123 on change the snapshot

The server reads it once, when it takes over a data directory without a catalog. Nothing here is ever written. Kafka may have
been stopped in the middle of a write: a torn tail ends the log, and an unfinished transaction does not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...protocol.errors import CorruptRecordError, ProtocolError
from ...protocol.messages.cluster_metadata import (
    FRAME_VERSION,
    RECORD_TYPES,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from ...protocol.records import HEADER_BYTES, RecordBatch
from ...protocol.wire import codec
from ..disk import paths
from ..disk.files import File, Files
from ..disk.health import DataDirectoryError
from ..disk.paths import TopicPartition
from .catalog_file import CatalogState, PartitionEntry, TopicEntry
from .client_records import ClientRecord, ClientRecords
from .entries import Entries

BATCH_BYTES_MAX = 64 << 20
"""Largest batch that is read: Kafka's controller writes at most 8 MiB at a time."""

_TOPIC, _BROKER = 2, 4  # resource types of configs
_SECTIONS = {16: "client_metrics", 32: "group_configs"}
"""Section of the catalog for each other resource type of configs."""
_UNCHANGED = -2
_RESERVED_DIRECTORY_IDS = 100
"""Directory IDs below this number mean "unassigned", "lost" and the like (KIP-858)."""
_LOG = re.compile(r"([0-9]{20})\.log")
_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


def read_cluster_metadata(files: Files, data_dir: str, *, cluster_id: str) -> CatalogState | None:
    """Read Kafka's metadata log in `data_dir` as the catalog of `cluster_id`; None if it does not exist.

    Node IDs are Kafka's. The leader of a partition without one is its first replica.

    Raises:
        DataDirectoryError: Damage that a crash cannot cause, or records of an unknown, newer Kafka.
        OSError: A file cannot be read.
    """
    replay = replay_cluster_metadata(files, data_dir)
    return None if replay is None else replay.state(cluster_id)


def replay_cluster_metadata(files: Files, data_dir: str) -> MetadataReplay | None:
    """Replay the whole metadata log in `data_dir`; None if it does not exist. Errors as for `read_cluster_metadata`."""
    directory = paths.join(data_dir, paths.partition_dir_name(paths.CLUSTER_METADATA_TOPIC, 0))
    if not files.is_dir(directory):
        return None
    names = files.list(directory)
    snapshots = sorted(match.groups() for name in names if (match := _SNAPSHOT.fullmatch(name)))
    logs = sorted(name for name in names if _LOG.fullmatch(name))
    if not snapshots and not logs:
        return None
    replay = MetadataReplay()
    next_offset = 0
    if snapshots:
        end_offset, epoch = snapshots[-1]
        path = paths.join(directory, f"{end_offset}-{epoch}.checkpoint")
        for _, batch in _batches(files, path, may_be_torn=False):
            replay.apply_batch(batch, path)
        next_offset = int(end_offset)
    for number, name in enumerate(logs):
        path = paths.join(directory, name)
        for position, batch in _batches(files, path, may_be_torn=number == len(logs) - 1):
            if batch.next_offset <= next_offset:
                continue
            if batch.base_offset > next_offset:
                raise DataDirectoryError(
                    f"{path}: offset {batch.base_offset} at position {position}, expected {next_offset}"
                )
            replay.apply_batch(batch, path)
            next_offset = batch.next_offset
    return replay


def _batches(files: Files, path: str, *, may_be_torn: bool) -> Iterator[tuple[int, RecordBatch]]:
    """Yield the batches of a file with their positions; a torn end ends it, or is an error unless `may_be_torn`."""
    file = files.open(path)
    try:
        size = file.size()
        position = 0
        while position < size:
            try:
                batch = _batch_at(file, position, size)
            except CorruptRecordError as error:
                if may_be_torn:
                    return
                raise DataDirectoryError(f"{path}: position {position}: {error.message}") from error
            yield position, batch
            position += batch.size_bytes
    finally:
        file.close()


def _batch_at(file: File, position: int, size: int) -> RecordBatch:
    header = RecordBatch(file.read_at(position, HEADER_BYTES))
    if header.size_bytes > min(BATCH_BYTES_MAX, size - position):
        raise CorruptRecordError(f"batch of {header.size_bytes} bytes, but only {size - position} bytes are left")
    batch = RecordBatch(memoryview(file.read_at(position, header.size_bytes)))
    if not batch.is_whole or not batch.is_crc_valid():
        raise CorruptRecordError("the batch does not match its checksum")
    return batch


@dataclass(slots=True)
class _Topic:
    name: str
    partitions: dict[int, PartitionEntry] = field(default_factory=dict)
    directories: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    """Partition -> directory.id of the data directory of each replica."""


class MetadataReplay:
    """State after the metadata records so far, applied in order."""

    def __init__(self) -> None:
        self._topics: dict[bytes, _Topic] = {}
        self._topic_configs: dict[str, dict[str, str]] = {}
        self._broker_configs: dict[str, dict[str, str]] = {}
        self._other_configs: dict[int, dict[str, dict[str, str]]] = {kind: {} for kind in _SECTIONS}
        self.clients = ClientRecords()
        """Client settings: not part of `state`, as only the server can interpret them."""
        self._features: dict[str, int] = {}
        self._next_producer_id = 0
        self._transaction: list[Any] | None = None

    def apply_batch(self, batch: RecordBatch, path: str) -> None:
        """Apply the records of a batch; `path` is for error texts."""
        if batch.is_control:  # leader changes, snapshot headers and footers
            return
        try:
            for record in batch.records():
                self._apply_record(memoryview(record.value if record.value is not None else b""))
        except (CorruptRecordError, ProtocolError) as error:
            raise DataDirectoryError(f"{path}: batch at offset {batch.base_offset}: {error}") from error

    def _apply_record(self, value: memoryview) -> None:
        """Apply one record. Undeclared types are ignored."""
        frame_version, at = _read_uvarint(value, 0)
        if frame_version != FRAME_VERSION:
            raise ProtocolError(f"unsupported frame version {frame_version}, expected {FRAME_VERSION}")
        kind, at = _read_uvarint(value, at)
        version, at = _read_uvarint(value, at)
        known = RECORD_TYPES.get(kind)
        if known is None:
            return
        if version > known.version_max:
            raise ProtocolError(
                f"{known.record.__name__}: unsupported version {version}, expected 0 to {known.version_max}"
            )
        message, _ = codec(known.record, version, True).read(value, at)
        self._in_transaction(message)

    def _in_transaction(self, message: Any) -> None:
        """Apply a record, or hold it until the end of its transaction; records of an aborted transaction do not count."""
        match message:
            case BeginTransactionRecord():
                self._transaction = []
            case EndTransactionRecord():
                whole, self._transaction = self._transaction or [], None
                for held in whole:
                    self._apply(held)
            case AbortTransactionRecord():
                self._transaction = None
            case _ if self._transaction is not None:
                self._transaction.append(message)
            case _:
                self._apply(message)

    def _apply(self, message: Any) -> None:
        apply: Callable[[Any], None] = _APPLY[type(message)].__get__(self)
        apply(message)

    def _add_topic(self, record: TopicRecord) -> None:
        self._topics[record.topic_id] = _Topic(record.name)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        self._topic_configs.pop(self._topic(record.topic_id).name, None)
        del self._topics[record.topic_id]

    def _set_partition(self, record: PartitionRecord) -> None:
        topic = self._topic(record.topic_id)
        topic.partitions[record.partition_id] = PartitionEntry(record.replicas, record.leader, record.leader_epoch)
        topic.directories[record.partition_id] = record.directories

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        partitions = topic.partitions
        old = partitions.get(record.partition_id)
        if old is None:
            raise ProtocolError(f"change of unknown partition {record.partition_id}")
        replicas = old.replicas if record.replicas is None else record.replicas
        if record.directories is not None:
            topic.directories[record.partition_id] = record.directories
        # Each change of leadership, also to the same leader, starts an epoch.
        if record.leader == _UNCHANGED:
            partitions[record.partition_id] = PartitionEntry(replicas, old.leader, old.leader_epoch)
        else:
            partitions[record.partition_id] = PartitionEntry(replicas, record.leader, old.leader_epoch + 1)

    def _set_config(self, record: ConfigRecord) -> None:
        by_type = {_TOPIC: self._topic_configs, _BROKER: self._broker_configs, **self._other_configs}
        resources = by_type.get(record.resource_type)
        if resources is None:
            return
        configs = resources.setdefault(record.resource_name, {})
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    def _take_of_client(self, record: ClientRecord) -> None:
        self.clients.take(record)

    def _set_feature(self, record: FeatureLevelRecord) -> None:
        self._features.pop(record.name, None)
        if record.feature_level > 0:
            self._features[record.name] = record.feature_level

    def _set_producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    def _topic(self, topic_id: bytes) -> _Topic:
        topic = self._topics.get(topic_id)
        if topic is None:
            raise ProtocolError(f"unknown topic ID {topic_id.hex()}")
        return topic

    def directories_of(self, node_id: int) -> dict[TopicPartition, bytes]:
        """Return the directory.id of the data directory of each replica of a node, if known."""
        return {
            TopicPartition(topic.name, index): directory
            for topic in self._topics.values()
            for index, directories in topic.directories.items()
            for replica, directory in zip(topic.partitions[index].replicas, directories, strict=False)
            if replica == node_id and int.from_bytes(directory) >= _RESERVED_DIRECTORY_IDS
        }

    def state(self, cluster_id: str) -> CatalogState:
        """Return the state as a catalog. Topics without partitions, or with gaps between them, are left out."""
        topics = {
            topic.name: TopicEntry(
                topic.name,
                topic_id,
                tuple(_with_leader(topic.partitions[index]) for index in range(len(topic.partitions))),
                self._topic_configs.get(topic.name, {}),
            )
            for topic_id, topic in self._topics.items()
            if topic.partitions and max(topic.partitions) == len(topic.partitions) - 1
        }
        broker_configs = {name: configs for name, configs in self._broker_configs.items() if configs}
        sections = {
            _SECTIONS[kind]: Entries.from_mapping(entries)
            for kind, resources in self._other_configs.items()
            if (entries := {name: configs for name, configs in resources.items() if configs})
        }
        return CatalogState(
            cluster_id, topics, broker_configs, self._next_producer_id, self._features, sections=sections
        )


def _with_leader(partition: PartitionEntry) -> PartitionEntry:
    if partition.leader >= 0:
        return partition
    return PartitionEntry(partition.replicas, partition.replicas[0], partition.leader_epoch)


def _read_uvarint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ProtocolError("truncated")


_APPLY: dict[type[Any], Any] = {
    TopicRecord: MetadataReplay._add_topic,
    RemoveTopicRecord: MetadataReplay._remove_topic,
    PartitionRecord: MetadataReplay._set_partition,
    PartitionChangeRecord: MetadataReplay._change_partition,
    ConfigRecord: MetadataReplay._set_config,
    FeatureLevelRecord: MetadataReplay._set_feature,
    ProducerIdsRecord: MetadataReplay._set_producer_ids,
    **dict.fromkeys(
        (
            AccessControlEntryRecord,
            ClientQuotaRecord,
            DelegationTokenRecord,
            RemoveAccessControlEntryRecord,
            RemoveDelegationTokenRecord,
            RemoveUserScramCredentialRecord,
            UserScramCredentialRecord,
        ),
        MetadataReplay._take_of_client,
    ),
}
