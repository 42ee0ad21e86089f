"""One broker that gets `steps`, and its answers as plain tuples.

Member ids from a broker differ between brokers, so in steps and answers they are numbered in the order in which
each broker first returned them: `#0`, `#1`, …
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.wire import ZERO_UUID, codec
from ottla.server.client.connection import Client
from ottla.server.groups.subscription import read_assignment, write_assignment

from .steps import Alive, Beat, Commit, Delete, Describe, Fetch, Join, Leave, Place, Places, Step, Sync

GROUP = "g"
TIMEOUT_MS = 600_000
"""Session and rebalance time-outs: no member expires while the requests run."""
PATIENCE_S = 20.0
PAUSE_S = 0.05
SUBSCRIPTION_VERSION = 3

Answer = tuple[Any, ...]


class Side:
    """One broker."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.client = Client(host, int(port), timeout_s=60)
        self.topic_ids: dict[str, bytes] = {}
        self.numbered: dict[str, str] = {}
        """Member ids that the broker made -> `#n`."""

    def prepare(self, topics: dict[str, int]) -> None:
        """Make the topics, and wait for the group's coordinator."""
        request = CreateTopicsRequest(
            topics=tuple(
                CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in topics.items()
            ),
            timeout_ms=60_000,
        )
        self.topic_ids = {topic.name: topic.topic_id for topic in self.client.ask(request).topics}
        deadline_s = time.monotonic() + PATIENCE_S
        while self.ask(Alive("nobody", 0, None)) != ("UNKNOWN_MEMBER_ID",):
            self.client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=(GROUP,)), 4)
            if time.monotonic() > deadline_s:
                raise TimeoutError("the coordinator does not come up")
            time.sleep(PAUSE_S)

    def ask(self, step: Step) -> Answer:
        match step:
            case Beat():
                return self._beat(step)
            case Join():
                return self._join(step)
            case Sync():
                return self._sync(step)
            case Alive(member, generation, instance):
                request = HeartbeatRequest(
                    group_id=GROUP, member_id=self._id(member), generation_id=generation, group_instance_id=instance
                )
                return (_code(self.client.ask(request, 4).error_code),)
            case Leave():
                return self._leave(step)
            case Commit():
                return self._commit(step)
            case Fetch():
                return self._fetch(step)
            case Delete():
                return self._delete(step)
            case Describe():
                return (*self._describe_consumer(), *self._describe_classic(), *self._list())

    def _id(self, name: str) -> str:
        return next((known for known, number in self.numbered.items() if number == name), name)

    def _name(self, member_id: str | None) -> str | None:
        if member_id is None or len(member_id) < 20:  # Those that we chose are short.
            return member_id
        return self.numbered.setdefault(member_id, f"#{len(self.numbered)}")

    def _message(self, text: str | None) -> str | None:
        for member_id, number in self.numbered.items():
            text = text and text.replace(member_id, number)
        return text

    def _partitions(self, topics: Iterable[Any]) -> list[Place]:
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        return sorted((names[topic.topic_id], index) for topic in topics for index in topic.partitions)

    def _beat(self, step: Beat) -> Answer:
        owns = None
        if step.owns is not None:
            owns = tuple(
                TopicPartitions(topic_id=self.topic_ids[topic], partitions=indexes)
                for topic, indexes in _by_topic(step.owns)
            )
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._id(step.member),
            member_epoch=step.epoch,
            instance_id=step.instance,
            rebalance_timeout_ms=TIMEOUT_MS if step.is_full else -1,
            subscribed_topic_names=step.topics,
            topic_partitions=owns,
        )
        answer = self.client.ask(request, 1)
        return (
            _code(answer.error_code),
            self._message(answer.error_message),
            answer.member_epoch,
            None if answer.assignment is None else self._partitions(answer.assignment.topic_partitions),
        )

    def _join(self, step: Join) -> Answer:
        blob = _subscription(step.topics, step.owns)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=TIMEOUT_MS,
            rebalance_timeout_ms=TIMEOUT_MS,
            member_id=self._id(step.member),
            group_instance_id=step.instance,
            protocol_type="consumer",
            protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=blob) for name in step.protocols),
        )
        answer = self.client.ask(request, step.version)
        return (
            _code(answer.error_code),
            answer.generation_id,
            self._name(answer.member_id),
            answer.protocol_type,
            answer.protocol_name,
            self._name(answer.leader),
            len(answer.members),
        )

    def _sync(self, step: Sync) -> Answer:
        given = write_assignment(_subscription((), ()), dict(_by_topic(step.gives)))
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=step.generation,
            member_id=self._id(step.member),
            group_instance_id=step.instance,
            protocol_type="consumer",
            protocol_name=step.protocol,
            assignments=(SyncGroupRequestAssignment(member_id=self._id(step.member), assignment=given),)
            if step.gives
            else (),
        )
        answer = self.client.ask(request, 5)
        topics = read_assignment(answer.assignment).assigned_partitions
        owned = sorted((topic.topic, index) for topic in topics for index in topic.partitions)
        return _code(answer.error_code), answer.protocol_type, answer.protocol_name, owned

    def _leave(self, step: Leave) -> Answer:
        members = tuple(
            MemberIdentity(member_id=self._id(member), group_instance_id=instance) for member, instance in step.members
        )
        answer = self.client.ask(LeaveGroupRequest(group_id=GROUP, members=members), 5)
        each = [(self._name(one.member_id), one.group_instance_id, _code(one.error_code)) for one in answer.members]
        return _code(answer.error_code), each

    def _commit(self, step: Commit) -> Answer:
        topics = tuple(
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=self.topic_ids[topic] if step.version >= 10 else ZERO_UUID,
                partitions=tuple(
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="")
                    for index in indexes
                ),
            )
            for topic, indexes in _by_topic(step.places)
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=step.epoch,
            member_id=self._id(step.member),
            group_instance_id=step.instance,
            topics=topics,
        )
        answer = self.client.ask(request, step.version)
        return tuple(_code(one.error_code) for topic in answer.topics for one in topic.partitions)

    def _fetch(self, step: Fetch) -> Answer:
        member = None if step.member is None else self._id(step.member)
        topics = tuple(OffsetFetchRequestTopics(name=name, partition_indexes=(0, 1)) for name in self.topic_ids)
        group = OffsetFetchRequestGroup(group_id=GROUP, member_id=member, member_epoch=step.epoch, topics=topics)
        (answer,) = self.client.ask(OffsetFetchRequest(groups=(group,)), 9).groups
        offsets = [(one.committed_offset, one.error_code) for topic in answer.topics for one in topic.partitions]
        return _code(answer.error_code), offsets

    def _delete(self, step: Delete) -> Answer:
        topics = tuple(
            OffsetDeleteRequestTopic(
                name=topic, partitions=tuple(OffsetDeleteRequestPartition(partition_index=index) for index in indexes)
            )
            for topic, indexes in _by_topic(step.places)
        )
        answer = self.client.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics), 0)
        codes = sorted(
            (topic.name, one.partition_index, _code(one.error_code))
            for topic in answer.topics
            for one in topic.partitions
        )
        return _code(answer.error_code), codes

    def _describe_consumer(self) -> Answer:
        (group,) = self.client.ask(ConsumerGroupDescribeRequest(group_ids=(GROUP,)), 1).groups
        members = sorted(
            (
                self._name(one.member_id) or "",
                one.instance_id,
                one.member_epoch,
                sorted(one.subscribed_topic_names),
                one.member_type,
                self._partitions(one.assignment.topic_partitions),
                self._partitions(one.target_assignment.topic_partitions),
            )
            for one in group.members
        )
        return _code(group.error_code), group.group_state, group.group_epoch, group.assignment_epoch, members

    def _describe_classic(self) -> Answer:
        (group,) = self.client.ask(DescribeGroupsRequest(groups=(GROUP,)), 6).groups
        return _code(group.error_code), group.error_message, group.group_state, group.protocol_type

    def _list(self) -> Answer:
        groups = self.client.ask(ListGroupsRequest(), 5).groups
        return tuple((one.group_id, one.protocol_type, one.group_state, one.group_type) for one in groups)


def _code(number: int) -> str:
    return ErrorCode(number).name


def _by_topic(places: Places) -> list[tuple[str, tuple[int, ...]]]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(places):
        by_topic.setdefault(topic, []).append(index)
    return [(topic, tuple(indexes)) for topic, indexes in by_topic.items()]


def _subscription(topics: tuple[str, ...], owns: Places) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=topics,
        owned_partitions=tuple(TopicPartition(topic=topic, partitions=indexes) for topic, indexes in _by_topic(owns)),
    )
    blob = bytearray(SUBSCRIPTION_VERSION.to_bytes(2, "big"))
    codec(ConsumerProtocolSubscription, SUBSCRIPTION_VERSION, False).write(message, [blob])
    return bytes(blob)
