"""Requests about consumer groups as plain tuples, and one broker that gets them.

Topic ids differ between brokers: in steps and answers topics have their names.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.server.client.connection import Client

PAUSE_S = 0.01
# The time of a topic change, on a busy machine, until Apache Kafka's coordinator knows of it.
TOPICS_CHANGE_S = 1.0

TRANSACTIONAL_ID = "t"
# From this version on, TxnOffsetCommit adds the group to the transaction.
ADDS_ITSELF_VERSION = 5

Places = tuple[tuple[str, tuple[int, ...]], ...]
"""Topic names, each with partitions; sorted."""
Answer = tuple[Any, ...]


class Beat(NamedTuple):
    group: str
    member: str
    epoch: int
    version: int
    instance: str | None = None
    rack: str | None = None
    rebalance_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owns: Places | None = None


class Commit(NamedTuple):
    group: str
    member: str
    epoch: int
    version: int
    topic: str
    partition: int


class TxnCommit(NamedTuple):
    """Commit in a transaction, and end that before the next step."""

    group: str
    member: str
    epoch: int
    version: int
    topic: str
    partition: int


class FetchOffsets(NamedTuple):
    group: str
    member: str | None
    epoch: int
    topic: str
    partition: int


class DeleteOffsets(NamedTuple):
    group: str
    topic: str
    partition: int


class Look(NamedTuple):
    """Describe the group by both APIs, and list it."""

    group: str


class DeleteGroup(NamedTuple):
    group: str


class Topic(NamedTuple):
    """Make the topic, let it grow, or with no partitions delete it."""

    name: str
    before: int
    after: int


Step = Beat | Commit | TxnCommit | FetchOffsets | DeleteOffsets | Look | DeleteGroup | Topic


class Side:
    """One broker."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._client = Client(host, int(port))
        self._ids: dict[str, bytes] = {}

    def prepare(self, group: str) -> None:
        """Wait until the coordinator of the group is there."""
        while self._client.ask(FindCoordinatorRequest(key=group, key_type=0), 3).error_code:
            time.sleep(PAUSE_S)
        while self._client.ask(FindCoordinatorRequest(key=TRANSACTIONAL_ID, key_type=1), 3).error_code:
            time.sleep(PAUSE_S)
        while self.ask(Look(group))[0] == "COORDINATOR_LOAD_IN_PROGRESS":
            time.sleep(PAUSE_S)

    def ask(self, step: Step) -> Answer:
        """Take the step; again while Apache Kafka, just started, still moves the coordinator."""
        while (answer := self._ask(step))[0] == "NOT_COORDINATOR":
            time.sleep(PAUSE_S)
        return answer

    def _ask(self, step: Step) -> Answer:
        match step:
            case Beat():
                return self._beat(step)
            case Commit():
                return self._commit(step)
            case TxnCommit():
                return self._commit_in_transaction(step)
            case FetchOffsets():
                return self._fetch(step)
            case DeleteOffsets():
                return self._delete_offsets(step)
            case Look(group):
                return self._look(group)
            case DeleteGroup(group):
                answer = self._client.ask(DeleteGroupsRequest(groups_names=(group,)), 2)
                return (_name(answer.results[0]),)
            case Topic():
                return self._change_topic(step)

    def _beat(self, step: Beat) -> Answer:
        request = ConsumerGroupHeartbeatRequest(
            group_id=step.group,
            member_id=step.member,
            member_epoch=step.epoch,
            instance_id=step.instance,
            rack_id=step.rack,
            rebalance_timeout_ms=step.rebalance_ms,
            subscribed_topic_names=step.topics,
            subscribed_topic_regex=step.regex,
            server_assignor=step.assignor,
            topic_partitions=None
            if step.owns is None
            else tuple(
                TopicPartitions(topic_id=self._ids.get(name, bytes(16)), partitions=indexes)
                for name, indexes in step.owns
            ),
        )
        answer = self._client.ask(request, step.version)
        return (
            _name(answer),
            _said(answer.error_message),
            answer.member_id,
            answer.member_epoch,
            answer.heartbeat_interval_ms,
            None if answer.assignment is None else self._places(answer.assignment),
        )

    def _commit(self, step: Commit) -> Answer:
        partition = OffsetCommitRequestPartition(
            partition_index=step.partition, committed_offset=step.epoch + 7, committed_metadata="m"
        )
        named = {"topic_id": self._ids[step.topic]} if step.version >= 10 else {"name": step.topic}
        request = OffsetCommitRequest(
            group_id=step.group,
            generation_id_or_member_epoch=step.epoch,
            member_id=step.member,
            topics=(OffsetCommitRequestTopic(**named, partitions=(partition,)),),
        )
        return (_name(self._client.ask(request, step.version).topics[0].partitions[0]),)

    def _commit_in_transaction(self, step: TxnCommit) -> Answer:
        producer = self._producer()
        if step.version < ADDS_ITSELF_VERSION:
            add = AddOffsetsToTxnRequest(transactional_id=TRANSACTIONAL_ID, group_id=step.group, **producer)
            assert not self._client.ask(add, 3).error_code
        partition = TxnOffsetCommitRequestPartition(
            partition_index=step.partition, committed_offset=step.epoch + 7, committed_metadata="t"
        )
        named = {"topic_id": self._ids.get(step.topic, b"\1" * 16)} if step.version >= 6 else {"name": step.topic}
        request = TxnOffsetCommitRequest(
            transactional_id=TRANSACTIONAL_ID,
            group_id=step.group,
            generation_id_or_member_epoch=step.epoch,
            member_id=step.member,
            topics=(TxnOffsetCommitRequestTopic(**named, partitions=(partition,)),),
            **producer,
        )
        answer = self._client.ask(request, step.version).topics[0].partitions[0]
        end = EndTxnRequest(transactional_id=TRANSACTIONAL_ID, committed=True, **producer)
        self._client.ask(end, 4 if step.version < ADDS_ITSELF_VERSION else 5)
        self._producer()  # not before the markers are written
        return (_name(answer),)

    def _producer(self) -> dict[str, Any]:
        request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
        while (answer := self._client.ask(request, 4)).error_code:
            time.sleep(PAUSE_S)
        return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}

    def _fetch(self, step: FetchOffsets) -> Answer:
        group = OffsetFetchRequestGroup(
            group_id=step.group,
            member_id=step.member,
            member_epoch=step.epoch,
            topics=(OffsetFetchRequestTopics(name=step.topic, partition_indexes=(step.partition,)),),
        )
        (answer,) = self._client.ask(OffsetFetchRequest(groups=(group,)), 9).groups
        rows = [(_name(one), one.committed_offset) for topic in answer.topics for one in topic.partitions]
        return _name(answer), *rows

    def _delete_offsets(self, step: DeleteOffsets) -> Answer:
        topic = OffsetDeleteRequestTopic(
            name=step.topic, partitions=(OffsetDeleteRequestPartition(partition_index=step.partition),)
        )
        answer = self._client.ask(OffsetDeleteRequest(group_id=step.group, topics=(topic,)))
        return _name(answer), *(_name(one) for topic in answer.topics for one in topic.partitions)

    def _look(self, group: str) -> Answer:
        (found,) = self._client.ask(ConsumerGroupDescribeRequest(group_ids=(group,)), 1).groups
        members = sorted(
            (
                one.member_id,
                one.instance_id,
                one.rack_id,
                one.member_epoch,
                one.client_id,
                one.client_host,
                tuple(sorted(one.subscribed_topic_names)),
                one.subscribed_topic_regex,
                self._places(one.assignment),
                self._places(one.target_assignment),
                one.member_type,
            )
            for one in found.members
        )
        (classic,) = self._client.ask(DescribeGroupsRequest(groups=(group,)), 6).groups
        listed = self._client.ask(ListGroupsRequest(), 5).groups
        return (
            _name(found),
            found.error_message,
            found.group_state,
            found.group_epoch,
            found.assignment_epoch,
            found.assignor_name,
            tuple(members),
            (_name(classic), classic.error_message, classic.group_state, classic.protocol_type),
            [(one.protocol_type, one.group_state, one.group_type) for one in listed if one.group_id == group],
        )

    def _change_topic(self, step: Topic) -> Answer:
        if not step.after:
            deleted = DeleteTopicsRequest(topics=(DeleteTopicState(name=step.name),), timeout_ms=10_000)
            answer = self._client.ask(deleted).responses[0]
        elif not step.before:
            topic = CreatableTopic(name=step.name, num_partitions=step.after, replication_factor=1)
            answer = self._client.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)).topics[0]
            self._ids[step.name] = answer.topic_id
        else:
            grown = CreatePartitionsTopic(name=step.name, count=step.after, assignments=None)
            answer = self._client.ask(CreatePartitionsRequest(topics=(grown,), timeout_ms=10_000)).results[0]
        while self._partition_count(step.name) != step.after:
            time.sleep(PAUSE_S)
        return (_name(answer),)

    def _partition_count(self, name: str) -> int:
        request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
        return len(self._client.ask(request).topics[0].partitions)

    def _places(self, assignment: Any) -> Places:
        names = {topic_id: name for name, topic_id in self._ids.items()}
        return tuple(
            sorted(
                (names.get(one.topic_id, "a topic that is gone"), tuple(sorted(one.partitions)))
                for one in assignment.topic_partitions
            )
        )


def _said(message: str | None) -> str | None:
    """Return an error message without what differs: the order of assignors, and "Consumer group" or "Group"."""
    if message is None:
        return None
    return message.partition(" Supported assignors:")[0].replace("Consumer group", "Group")


def _name(answer: Any) -> str:
    return ErrorCode(answer.error_code).name
