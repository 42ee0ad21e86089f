"""The topics as the nodes see them: names, ids, partitions and who leads them.

Built at start from the catalog (what was promised to clients) and the log manager (what is on
disk); changed only by `cluster.topic_admin`, and by `cluster.placement` where partitions change hands. Handlers look partitions up here,
and nowhere else.
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

NO_LEADER = -1
"""`Partition.leader` while no live node leads it."""
NAME_CHARS_SHOWN = 249
"""Of a name that a request brings, in a message: no topic has a longer one, but a request may repeat one of 32 KB a million times."""


@dataclass(slots=True)
class Reassigning:
    """What becomes of a partition's replicas (KIP-455), of which both of these are a part until it has become so.

    All replicas are one log, so nothing is copied. What is played is the time: a new replica is in step when the throttle
    would have let the log's bytes through.
    """

    adding: tuple[int, ...]
    removing: tuple[int, ...]
    copied_bytes: dict[int, float]
    """By node, of those of `adding` that are not in step yet: how much each has caught up."""

    @property
    def lagging(self) -> Collection[int]:
        """Those of `adding` that are not in step yet."""
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
        # It does not refer to the topic, which has the list of them: what is deleted is to go at once, with its files, and
        # not when the collector finds it, all in one go.
        self.is_internal = topic.is_internal
        """Whether the broker alone writes it."""
        self.index = index
        self.topic_partition = TopicPartition(topic.name, index)
        self.replicas = entry.replicas
        self.isr = entry.replicas
        """Without a leader: those that were in it last."""
        self.elr: tuple[int, ...] = ()
        """The eligible leader replicas beside the ISR (KIP-966)."""
        self.reassigning: Reassigning | None = None
        """Of other replicas that it is on its way to."""
        self.leader = entry.leader
        self.leader_epoch = entry.leader_epoch
        self.log = log

    @property
    def present_leader(self) -> int:
        """Who leads it, as clients are told: nobody while its data directory has failed, which all replicas share."""
        return self.leader if self.log.failure is None else NO_LEADER

    @property
    def able_replicas(self) -> tuple[int, ...]:
        """The replicas without those that have yet to catch up: who may be in the ISR, and lead."""
        if self.reassigning is None:
            return self.replicas
        return tuple(node_id for node_id in self.replicas if node_id not in self.reassigning.lagging)

    def check_leader_epoch(self, claimed: int) -> None:
        """Compare the epoch that a client believes in with ours (KIP-320); −1 claims nothing.

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
        """Where the records of leader epoch `epoch` end, by the log's epochs and the present leader's own (KIP-101, KIP-279).

        The log knows an epoch from its first record on. The leader's begins at the log end until then, as in Apache Kafka,
        which notes it when the leader is elected.

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
        """Until when Metadata does not know the topic, by Trio's clock (`Topics.hide`)."""

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
        """How often anything has changed that clients are told of topics: which there are, their partitions, leaders and replicas."""
        self.hidden_until_s = 0.0
        """When Metadata knows all topics, by Trio's clock."""

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def changed(self) -> None:
        """To be called in the turn in which partitions have come, or other nodes lead or hold some."""
        self.changes += 1

    def hide(self, topic: Topic, until_s: float) -> None:
        """Let Metadata not know `topic` until then, by Trio's clock; to be called in the turn in which it is added."""
        topic.hidden_until_s = until_s
        self.hidden_until_s = max(self.hidden_until_s, until_s)

    def add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._by_flat_name.setdefault(flat(topic.name), []).append(topic)
        self.changed()

    def remove(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        same = self._by_flat_name[flat(topic.name)]
        same.remove(topic)
        if not same:
            del self._by_flat_name[flat(topic.name)]
        self.changed()

    def colliding(self, name: str) -> Topic | None:
        """A topic that metrics could not tell from one of this name: they write "." as "_"."""
        return next(iter(self._by_flat_name.get(flat(name), ())), None)

    def partition(self, name: str, index: int) -> Partition:
        """The partition `index` of topic `name`.

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
        """The partition `index` of the topic with this id.

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
    """That there is no topic of this name; to be raised, or to stand in an answer."""
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def flat(name: str) -> str:
    """The name as metrics have it; no two topics may have the same."""
    return name.replace(".", "_")


class Watcher:
    """Whoever keeps something that hangs on topics, told in the turn in which everybody sees the change.

    What it need not know of it leaves as it is here. Nothing may raise.
    """

    def leader_moved(self, partition: Partition) -> None:
        """Another node leads the partition, or none."""

    def topic_created(self, topic: Topic) -> None:
        """A topic was created."""

    def topic_grew(self, topic: Topic) -> None:
        """A topic got more partitions."""

    def topic_deleted(self, topic: Topic) -> None:
        """Nobody finds the topic any more; it still has its partitions."""

    def lost(self, partition: Partition, now_ms: int) -> None:
        """What was appended to a partition of the broker's own will never be on disk."""
