"""A consumer of the classic protocol, like a client library: joins, syncs, sends heartbeats, assigns when it leads.

It does one request at each `act`, in a classic group and in a consumer group alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.protocol.wire import codec
from ottla.server.groups.subscription import read_assignment, read_subscription, write_assignment
from support.groups.consumer_groups import ConsumerGroups
from support.groups.groups import Reply

SUBSCRIPTION_VERSION = 3
SESSION_MS = 10_000
REBALANCE_MS = 10_000


def subscription_of(
    topics: Iterable[str], owned: Iterable[tuple[str, int]] = (), *, version: int = SUBSCRIPTION_VERSION
) -> bytes:
    """Return the subscription that a classic consumer sends in its JoinGroup."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(owned):
        by_topic.setdefault(topic, []).append(partition)
    message = ConsumerProtocolSubscription(
        topics=tuple(topics),
        owned_partitions=tuple(TopicPartition(topic=one, partitions=tuple(each)) for one, each in by_topic.items()),
    )
    blob = bytearray(version.to_bytes(2, "big"))
    codec(ConsumerProtocolSubscription, version, False).write(message, [blob])
    return bytes(blob)


class ClassicMember:
    """A consumer of the classic protocol; see the module.

    Attributes:
        is_cooperative: Whether it keeps its partitions during a rebalance (KIP-429).
        owned: (topic, partition) of all that it consumes right now.
    """

    def __init__(
        self,
        name: str,
        *,
        topics: Iterable[str] = ("orders",),
        instance_id: str | None = None,
        is_cooperative: bool = False,
    ) -> None:
        self.name = name
        self.topics = tuple(topics)
        self.instance_id = instance_id
        self.is_cooperative = is_cooperative
        self.member_id = ""
        self.generation = -1
        self.owned: set[tuple[str, int]] = set()
        self._join: Reply[JoinGroupResponse] | None = None
        self._sync: Reply[SyncGroupResponse] | None = None
        self._joined: JoinGroupResponse | None = None
        self._must_join = True

    @property
    def protocol(self) -> str:
        return "cooperative-sticky" if self.is_cooperative else "range"

    @property
    def is_stable(self) -> bool:
        return not self._must_join and self._join is None and self._sync is None and self._joined is None

    def act(self, groups: ConsumerGroups) -> None:
        """Send one request, unless the answer to the last is outstanding."""
        self.receive()
        if self._join is not None or self._sync is not None:
            return
        try:
            if self._joined is not None:
                joined, self._joined = self._joined, None
                self._sync = groups.sync(
                    self.member_id, self.generation, self._assign(groups, joined), instance=self.instance_id
                )
            elif self._must_join:
                self._send_join(groups)
            else:
                self._refused(groups.heartbeat(self.member_id, self.generation, instance=self.instance_id))
        except KafkaError as error:
            self._refused(ErrorCode(error.code))

    def receive(self) -> None:
        """Take the answer for which it waits, if that has arrived."""
        if self._join is not None and not self._join.is_parked:
            join, self._join = self._join, None
            self._take_join(join.answer)
        if self._sync is not None and not self._sync.is_parked:
            sync, self._sync = self._sync, None
            self._take_sync(sync.answer)

    def settle(self, groups: ConsumerGroups) -> None:
        """Act until only heartbeats are left to do."""
        for _ in range(20):
            self.act(groups)
            if self.is_stable:
                return

    def disconnected(self) -> None:
        """Prepare to join again: parked requests will not be answered."""
        self._must_join = self._must_join or not self.is_stable
        self._join = self._sync = self._joined = None

    def leave(self, groups: ConsumerGroups) -> None:
        self.owned.clear()
        groups.leave((self.member_id, self.instance_id))

    def _send_join(self, groups: ConsumerGroups) -> None:
        if not self.is_cooperative:
            self.owned.clear()
        self._must_join = False
        self._join = groups.join(
            member=self.member_id,
            instance=self.instance_id,
            client=self.name,
            protocols=[(self.protocol, subscription_of(self.topics, self.owned))],
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            version=9,
        )

    def _take_join(self, answer: JoinGroupResponse) -> None:
        if answer.error_code:
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            self._refused(ErrorCode(answer.error_code))
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self._joined = answer

    def _take_sync(self, answer: SyncGroupResponse) -> None:
        if answer.error_code:
            self._refused(ErrorCode(answer.error_code))
            return
        topics = read_assignment(answer.assignment).assigned_partitions
        given = {(topic.topic, index) for topic in topics for index in topic.partitions}
        gave_up, self.owned = self.owned - given, given
        # Others only get what it gave up if it joins again.
        self._must_join = bool(gave_up) and self.is_cooperative

    def _refused(self, error: ErrorCode) -> None:
        """Join again after any error, as a new member if the member id is unknown."""
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.ILLEGAL_GENERATION):
            self.owned.clear()
            if error is not ErrorCode.ILLEGAL_GENERATION:
                self.member_id = ""
        self._must_join = self._must_join or bool(error)

    def _assign(self, groups: ConsumerGroups, joined: JoinGroupResponse) -> dict[str, bytes]:
        """Return the leader's assignment: partitions one by one to the members in turn, but none that another still owns."""
        if joined.leader != self.member_id:
            return {}
        subscriptions = {one.member_id: read_subscription(one.metadata) for one in joined.members}
        owners = {
            (topic.topic, index): member_id
            for member_id, one in subscriptions.items()
            for topic in one.owned_partitions
            for index in topic.partitions
        }
        given: dict[str, dict[str, set[int]]] = {member_id: {} for member_id in subscriptions}
        for topic in sorted({topic for one in subscriptions.values() for topic in one.topics}):
            topic_id = groups.topics.id_of(topic)
            takers = [member_id for member_id, one in subscriptions.items() if topic in one.topics]
            for index in range(groups.topics.partition_count(topic_id) if topic_id is not None else 0):
                taker = takers[index % len(takers)]
                if owners.get((topic, index), taker) == taker:
                    given[taker].setdefault(topic, set()).add(index)
        return {one.member_id: write_assignment(one.metadata, given[one.member_id]) for one in joined.members}
