"""Members of consumer groups: heartbeats without the arguments that rarely matter, and a client that reconciles.

groups = ConsumerGroups(orders=4)
answer = groups.enter("a")
assert owned_by(answer) == {"orders": {0, 1, 2, 3}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_describe import DescribedGroup
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.server.coordination.jobs import never, to_the_end
from ottla.server.groups.classic.protocol import Caller
from ottla.server.groups.consumer.group import ConsumerGroup
from support.groups.groups import FakeTopics, Groups, MemoryStore

SESSION_MS = 45_000
REBALANCE_MS = 10_000

Places = Mapping[str, Iterable[int]]
"""Topic name -> partitions."""


class ConsumerGroups(Groups):
    """`Groups` over topics with these partition counts. By default a target assignment may follow the last at once. Other
    keyword arguments are GroupSettings.
    """

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        elapsed_ms: int = 1_000_000,
        wall_ahead_ms: int = 0,
        topics: FakeTopics | None = None,
        loads: bool = True,
        settings: Mapping[str, Any] | None = None,
        **partition_counts: int,
    ) -> None:
        self.works_at_once = True
        """Whether the work that a heartbeat leaves is done as soon as it is answered."""
        self.settings = {"group_consumer_assignment_interval_ms": 0, **(settings or {})}
        super().__init__(
            store,
            elapsed_ms=elapsed_ms,
            wall_ahead_ms=wall_ahead_ms,
            topics=topics or FakeTopics(**partition_counts),
            loads=loads,
            **self.settings,
        )

    def restarted(self, **settings: Any) -> ConsumerGroups:
        """Return a new coordinator that finds what this one has written; the given settings replace the old ones."""
        return ConsumerGroups(
            self.store,
            elapsed_ms=self.elapsed_ms,
            wall_ahead_ms=self._wall_ahead_ms,
            topics=self.topics,
            settings={**self.settings, **settings},
        )

    def beat(
        self,
        member: str,
        epoch: int,
        *,
        owns: Places | None = None,
        topics: Iterable[str] | None = None,
        group: str = "g",
        version: int = 1,
        client: str = "c",
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """Send one heartbeat; `owns` is what the member reports as owned, None if it reports nothing."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else tuple(topics),
            topic_partitions=None if owns is None else self.topic_partitions(owns),
            **fields,
        )
        answer = self.heartbeat_of(request, Caller(client, "/host", version))
        if self.works_at_once:
            self.coordinator._jobs.run(never)
        return answer

    def heartbeat_of(self, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerGroupHeartbeatResponse:
        """Handle a heartbeat at once, as the handler does."""
        shard = self.coordinator.shard_for(request.group_id)
        return to_the_end(self.coordinator.consumer_heartbeat(shard, request, caller, lambda: self.now_ms))

    def enter(self, member: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Send the first heartbeat of a member; by default it subscribes to "orders"."""
        subscription = {} if "subscribed_topic_regex" in fields else {"topics": topics or ("orders",)}
        return self.beat(member, 0, owns={}, **{"rebalance_timeout_ms": REBALANCE_MS, **subscription, **fields})

    def error(self, *arguments: Any, **fields: Any) -> tuple[ErrorCode, str]:
        """Return code and message of the error that `beat` raises."""
        return raised(lambda: self.beat(*arguments, **fields))

    def enter_error(self, *arguments: Any, **fields: Any) -> ErrorCode:
        return raised(lambda: self.enter(*arguments, **fields))[0]

    def topic_partitions(self, places: Places) -> tuple[TopicPartitions, ...]:
        return tuple(
            TopicPartitions(topic_id=self.topics.id_of(name) or b"\xff" * 16, partitions=tuple(partitions))
            for name, partitions in places.items()
        )

    def names(self, assignment: Any) -> dict[str, set[int]]:
        """Return an assignment by topic name."""
        return {
            self.topics.name_of(one.topic_id) or one.topic_id.hex(): set(one.partitions)
            for one in assignment.topic_partitions
        }

    def given(self, answer: ConsumerGroupHeartbeatResponse) -> dict[str, set[int]] | None:
        """Return the assignment in an answer, by topic name; None if the answer has none."""
        assert not answer.error_code
        return None if answer.assignment is None else self.names(answer.assignment)

    def described(self, group: str = "g") -> DescribedGroup:
        return to_the_end(self.coordinator.describe_consumer_group(group))

    def table(self, group: str = "g") -> ConsumerGroup:
        found = self.coordinator.shard_of(group).groups[group]
        assert isinstance(found, ConsumerGroup)
        return found

    def create_topic(self, name: str, partition_count: int) -> None:
        self.topics.put(name, partition_count)
        self.coordinator.topics_changed([name], self.now_ms, has_new=True)

    def grow_topic(self, name: str, partition_count: int) -> None:
        self.topics.put(name, partition_count)
        self.coordinator.topics_changed([name], self.now_ms, has_new=False)

    def delete_topic(self, name: str) -> None:
        topic_id = self.topics.id_of(name)
        assert topic_id is not None
        self.topics.delete(name)
        self.coordinator.topics_changed([name], self.now_ms, has_new=False)
        self.coordinator.topic_deleted(name, topic_id, self.now_ms)
        self.advance(0)


def raised(call: Callable[[], object]) -> tuple[ErrorCode, str]:
    """Return code and message of the KafkaError that `call` raises; NONE if it raises none."""
    try:
        call()
    except KafkaError as error:
        return ErrorCode(error.code), error.message
    return ErrorCode.NONE, ""


class ConsumerMember:
    """A client of the consumer protocol (KIP-848). It gives up revoked partitions, reports that with its next heartbeat, and
    joins again when it is fenced.

    Attributes:
        owned: (topic id, partition) of all that it consumes right now.
        slowness: Number of heartbeats before it has given up its revoked partitions; 0 once it is fenced.
    """

    def __init__(self, member_id: str, *, instance_id: str | None = None, topics: Iterable[str] = ("orders",)) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.topics = tuple(topics)
        self.epoch = 0
        self.owned: set[tuple[bytes, int]] = set()
        self.slowness = 0
        self._given: set[tuple[bytes, int]] = set()
        self._beats_to_go = 0
        self._has_news = True
        self._has_lost_answer = False

    def act(self, groups: ConsumerGroups, *, is_answer_lost: bool = False) -> None:
        """Send one heartbeat. If its answer gets lost, the next request contains all fields."""
        says_all = self.epoch == 0 or self._has_lost_answer
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if says_all else -1,
            subscribed_topic_names=self.topics if says_all or self._has_news else None,
            topic_partitions=self._claim(),
        )
        try:
            answer = groups.heartbeat_of(request, Caller("c", "/host", 1))
        except KafkaError as error:
            self._fenced(ErrorCode(error.code))
            return
        self._has_lost_answer = is_answer_lost
        if not is_answer_lost:
            self._answered(answer)
        self._reconcile()

    def subscribe(self, *topics: str) -> None:
        self.topics = topics
        self._has_news = True

    def leave(self, groups: ConsumerGroups, epoch: int = -1) -> None:
        """Leave, for good or (-2, static members) temporarily; errors are ignored."""
        raised(lambda: groups.beat(self.member_id, epoch, instance_id=self.instance_id))
        self._abandon()

    def _abandon(self) -> None:
        self.owned, self._given = set(), set()
        self.epoch = 0

    def _claim(self) -> tuple[TopicPartitions, ...]:
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(self.owned):
            by_topic.setdefault(topic_id, []).append(partition)
        return tuple(TopicPartitions(topic_id=one, partitions=tuple(indexes)) for one, indexes in by_topic.items())

    def _answered(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self._has_news = False
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._given = _places(answer.assignment)
            self._beats_to_go = self.slowness

    def _reconcile(self) -> None:
        """Take new partitions only after all revoked ones are given up."""
        if self.owned <= self._given or not self._beats_to_go:
            self.owned = set(self._given)
        else:
            self._beats_to_go -= 1

    def _fenced(self, error: ErrorCode) -> None:
        assert error in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.UNRELEASED_INSTANCE_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ), error
        self.slowness = 0
        self._abandon()


def _places(assignment: Assignment) -> set[tuple[bytes, int]]:
    return {(topic.topic_id, partition) for topic in assignment.topic_partitions for partition in topic.partitions}
