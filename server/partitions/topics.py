"""The topics, as the nodes see them: names, ids, partitions and their leaders.

They are built at start from the catalog (acknowledged to clients) and the log manager (present on disk). Only
`cluster.topic_admin` changes them, and `cluster.placement` when partitions move. Handlers look partitions up only here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ...storage.segment.leader_epochs import UNDEFINED
from ...storage.topics.catalog_file import PartitionEntry
from .internal_topics import INTERNAL_TOPICS

DELETED_MAX = 10_000
NO_LEADER = -1
"""Value of `Partition.leader` while no live node leads it."""
NAME_CHARS_SHOWN = 249
"""Maximum number of characters of a requested name in a message: no topic has a longer one, but a request may repeat a name of
32 KB a million times."""


@dataclass(slots=True)
class Reassigning:
    """A reassignment of a partition that is in progress (KIP-455). Until it is complete, both lists belong to the replicas.

    All replicas are one log, so nothing is copied. Only the time is emulated: a new replica is in sync when the throttle
    would have let the log's bytes through.
    """

    adding: tuple[int, ...]
    removing: tuple[int, ...]
    copied_bytes: dict[int, float]
    """Node id -> bytes that it has caught up, for the nodes of `adding` that are not in sync yet."""

    @property
    def lagging(self) -> Collection[int]:
        """Nodes of `adding` that are not in sync yet."""
        return self.copied_bytes.keys()


class Partition:
    """One partition: its log and the routing facts around it."""

    __slots__ = (
        "elr",
        "index",
        "is_internal",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "reassigning",
        "replicas",
        "topic_partition",
    )

    def __init__(self, topic: Topic, index: int, entry: PartitionEntry, log: Log) -> None:
        # No reference to the topic, which has the list of its partitions: a deleted topic must be freed at once, with its
        # files, and not all in one step when the garbage collector finds the cycle.
        self.is_internal = topic.is_internal
        """Whether only the broker writes it."""
        self.index = index
        self.topic_partition = TopicPartition(topic.name, index)
        self.replicas = entry.replicas
        self.isr = entry.replicas
        """In-sync replicas; without a leader, those that were in it last."""
        self.elr: tuple[int, ...] = ()
        """Eligible leader replicas in addition to the ISR (KIP-966)."""
        self.reassigning: Reassigning | None = None
        """Move to other replicas that is not complete."""
        self.leader = entry.leader
        self.leader_epoch = entry.leader_epoch
        self.log = log

    @property
    def present_leader(self) -> int:
        """Leader in answers to clients: none while its data directory has failed, which all replicas share."""
        return self.leader if self.log.failure is None else NO_LEADER

    @property
    def able_replicas(self) -> tuple[int, ...]:
        """Replicas without those that must still catch up: those that may be in the ISR, and lead."""
        if self.reassigning is None:
            return self.replicas
        return tuple(node_id for node_id in self.replicas if node_id not in self.reassigning.lagging)

    def check_leader_epoch(self, claimed: int) -> None:
        """Compare the leader epoch that a client sent with the present one (KIP-320); −1 means none.

        Raises:
            KafkaError: FENCED_LEADER_EPOCH (older) or UNKNOWN_LEADER_EPOCH (newer).
        """
        if claimed == -1 or claimed == self.leader_epoch:
            return
        code = ErrorCode.FENCED_LEADER_EPOCH if claimed < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(
            code, f"{self.topic_partition}: leader epoch is {self.leader_epoch}, but the request has {claimed}"
        )

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the end of the records of leader epoch `epoch`, by the log's epochs and the present leader's own (KIP-101,
        KIP-279).

        The log knows an epoch from its first record on. Before that, the leader's epoch begins at the log end, as in Apache
        Kafka, which stores it when the leader is elected.

        Returns:
            (the largest epoch at or below `epoch`, its end offset, exclusive). For an epoch older than all known ones,
            itself and the start of the first. `UNDEFINED` for a negative epoch, and for one above the leader's.
        """
        epochs, end_offset = self.log.leader_epochs, self.log.log_end_offset
        if epoch == self.leader_epoch:
            return epoch, end_offset
        if not epochs.latest_epoch < epoch < self.leader_epoch:
            return epochs.end_offset_for(epoch, end_offset)
        if epoch < 0:
            return UNDEFINED
        of_last_record = epochs.epoch_for_offset(end_offset - 1)
        return (epoch if of_last_record is None else of_last_record), end_offset


class Topic:
    """A topic and its partitions, which are numbered from 0 without gaps."""

    __slots__ = ("hidden_until_s", "id", "name", "partitions")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: list[Partition] = []
        self.hidden_until_s = 0.0
        """Time until which Metadata does not show the topic, by Trio's clock (`Topics.hide`)."""

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class Topics:
    """All topics by name and by id."""

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_flat_name: dict[str, list[Topic]] = {}
        self.changes = 0
        """Number of changes of topics that clients may notice: the topics, their partitions, leaders and replicas."""
        self.hidden_until_s = 0.0
        """Time from which Metadata shows all topics, by Trio's clock."""
        self._deleted: dict[str, None] = {}
        """Names of topics that were deleted and do not exist again, oldest first, at most `DELETED_MAX`."""

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def names_of_run(self) -> list[str]:
        """Return the names of all topics that this run has or has deleted."""
        return [*self._by_name, *self._deleted]

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def changed(self) -> None:
        """Count a change. It must be called in the same step in which partitions were added, or have other leaders or
        replicas."""
        self.changes += 1

    def hide(self, topic: Topic, until_s: float) -> None:
        """Hide `topic` from Metadata until a time of Trio's clock. It must be called in the same step in which the topic is
        added."""
        topic.hidden_until_s = until_s
        self.hidden_until_s = max(self.hidden_until_s, until_s)

    def add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._by_flat_name.setdefault(flat(topic.name), []).append(topic)
        self._deleted.pop(topic.name, None)
        self.changed()

    def remove(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        same = self._by_flat_name[flat(topic.name)]
        same.remove(topic)
        if not same:
            del self._by_flat_name[flat(topic.name)]
        self._deleted[topic.name] = None
        if len(self._deleted) > DELETED_MAX:
            del self._deleted[next(iter(self._deleted))]
        self.changed()

    def colliding(self, name: str) -> Topic | None:
        """Return a topic that has the same name in metrics, where "." is written as "_"; None if none has."""
        return next(iter(self._by_flat_name.get(flat(name), ())), None)

    def partition(self, name: str, index: int) -> Partition:
        """Return the partition `index` of topic `name`.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {name[:NAME_CHARS_SHOWN]}-{index} not found"
            )
        return topic.partitions[index]

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """Return the partition `index` of the topic with this id.

        Raises:
            KafkaError: UNKNOWN_TOPIC_ID, or UNKNOWN_TOPIC_OR_PARTITION for a missing partition.
        """
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic ID {topic_id.hex()} not found")
        if not 0 <= index < len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {topic.name}-{index} not found")
        return topic.partitions[index]


def unknown_topic(name: str) -> KafkaError:
    """Return the error for a topic that does not exist, to be raised or put into an answer."""
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def flat(name: str) -> str:
    """Return the name in the form of metrics; no two topics may have the same."""
    return name.replace(".", "_")


class Watcher:
    """An observer of topics, called before any other task runs after the change.

    A subclass overrides the methods that it needs. None of them may raise.
    """

    def leader_moved(self, partition: Partition) -> None:
        """Another node leads the partition, or none."""

    def topic_created(self, topic: Topic) -> None:
        """A topic was created."""

    def topic_grew(self, topic: Topic) -> None:
        """A topic got more partitions."""

    def topic_deleted(self, topic: Topic) -> None:
        """The topic was removed from the table; it still has its partitions."""

    def lost(self, partition: Partition, now_ms: int) -> None:
        """Records appended to a partition of an internal topic will never be on disk."""
