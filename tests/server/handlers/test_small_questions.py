"""Small requests do not cause answers of gigabytes: repeated names add no information, and error messages are few.

The broker's data may be long (a group's commits carry text, a topic has thousands of partitions), and an answer contains it
once, however often the request names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.protocol.messages.describe_topic_partitions import (
    TopicRequest as TopicPartitionsRequest,
)
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.storage.produce.record_checks import RECORD_ERRORS_MAX
from support.broker.admin import create, wanted
from support.broker.conversation import address, produce
from support.broker.raw_client import RawClient
from support.logs.batches import batch

PARTITIONS = 60
TIMES = 400
A_ROW_BYTES = 64
"""Bytes that a row may add to an answer that contains only a code."""
LONG_NAME = "n" * 32_000
REASONS_BYTES = 512 << 10


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    """Run a broker with data of every kind: partitions, commits, members, producers, a transaction."""
    overrides = dict.fromkeys(("offsets.topic.num.partitions", "transaction.state.log.num.partitions"), "1")
    with (
        ottla.Broker(str(tmp_path_factory.mktemp("filled")), overrides=overrides) as broker,
        RawClient(*address(broker)) as client,
    ):
        fill(client)
        yield client


def fill(client: RawClient) -> None:
    create(client, wanted("t", PARTITIONS))
    commits = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="m" * 1000)
        for index in range(PARTITIONS)
    )
    topics = (OffsetCommitRequestTopic(name="t", partitions=commits),)
    assert eventually_asked(client, OffsetCommitRequest(group_id="g", topics=topics), 8).topics[0].partitions
    join = JoinGroupRequest(
        group_id="classic",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=bytes(5000)),),
    )
    assert client.ask(join, 3).error_code == ErrorCode.NONE
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="new",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    assert client.ask(heartbeat).error_code == ErrorCode.NONE
    for producer_id in range(50):
        assert produce(client, "t", ("k", "v"), producer_id=producer_id, producer_epoch=0, base_sequence=0) is not None
    identity = eventually_asked(client, InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000))
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=(AddPartitionsToTxnTopic(name="t", partitions=tuple(range(PARTITIONS))),),
    )
    client.ask(add, 3)


def eventually_asked(client: RawClient, request: Any, version: int | None = None) -> Any:
    answer = client.ask(request, version)
    while getattr(answer, "error_code", 0) in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        answer = client.ask(request, version)
    return answer


@dataclass(frozen=True)
class Question:
    ask: Callable[[int, bytes], Any]
    """A function that sends the request which names a thing the given number of times; it receives the id of topic t."""
    version: int | None = None


def groups_of(rows: int) -> tuple[OffsetFetchRequestGroup, ...]:
    return tuple(OffsetFetchRequestGroup(group_id="g", topics=None) for _ in range(rows))


TWICE: dict[str, Question] = {
    "ConsumerGroupDescribe": Question(lambda n, _: ConsumerGroupDescribeRequest(group_ids=("new",) * n)),
    "DescribeConfigs": Question(
        lambda n, _: DescribeConfigsRequest(
            resources=(DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None),) * n
        )
    ),
    "DescribeGroups": Question(lambda n, _: DescribeGroupsRequest(groups=("classic",) * n)),
    "DescribeLogDirs": Question(
        lambda n, _: DescribeLogDirsRequest(topics=(DescribableLogDirTopic(topic="t", partitions=(0,) * n),))
    ),
    "DescribeProducers": Question(
        lambda n, _: DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0,) * n),))
    ),
    "DescribeProducers, topics": Question(
        lambda n, _: DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0,)),) * n)
    ),
    "DescribeTopicPartitions": Question(
        lambda n, _: DescribeTopicPartitionsRequest(topics=(TopicPartitionsRequest(name="t"),) * n)
    ),
    "DescribeTransactions": Question(lambda n, _: DescribeTransactionsRequest(transactional_ids=("x",) * n)),
    "Metadata by name": Question(lambda n, _: MetadataRequest(topics=(MetadataRequestTopic(name="t"),) * n)),
    "Metadata by id": Question(
        lambda n, topic_id: MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=f"{i}", topic_id=topic_id) for i in range(n))
        )
    ),
    "Metadata by name, version 9": Question(
        lambda n, _: MetadataRequest(topics=tuple(MetadataRequestTopic(name="t") for _ in range(n))), 9
    ),
    "OffsetFetch, groups": Question(lambda n, _: OffsetFetchRequest(groups=groups_of(n)), 9),
    "OffsetFetch, topics": Question(
        lambda n, _: OffsetFetchRequest(
            groups=(
                OffsetFetchRequestGroup(
                    group_id="g", topics=(OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),) * n
                ),
            )
        ),
        9,
    ),
    "OffsetFetch, partitions by id": Question(
        lambda n, topic_id: OffsetFetchRequest(
            groups=(
                OffsetFetchRequestGroup(
                    group_id="g", topics=(OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=(0,) * n),)
                ),
            )
        ),
        10,
    ),
    "OffsetFetch, partitions of one group": Question(
        lambda n, _: OffsetFetchRequest(
            group_id="g", topics=(OffsetFetchRequestTopic(name="t", partition_indexes=(0,) * n),)
        ),
        7,
    ),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_repeated_name_is_answered_once(filled: RawClient, name: str) -> None:
    question = TWICE[name]
    topic_id = filled.ask(MetadataRequest(topics=(MetadataRequestTopic(name="t"),))).topics[0].topic_id
    once = filled.answer_bytes(question.ask(1, topic_id), question.version)
    often = filled.answer_bytes(question.ask(TIMES, topic_id), question.version)
    assert once > A_ROW_BYTES, "there is something to fill"
    assert often <= once + TIMES * A_ROW_BYTES


REFUSED: dict[str, Callable[[int], Any]] = {
    "AlterPartitionReassignments": lambda n: AlterPartitionReassignmentsRequest(
        topics=(
            ReassignableTopic(
                name=LONG_NAME,
                partitions=tuple(ReassignablePartition(partition_index=i, replicas=None) for i in range(n)),
            ),
        )
    ),
    "DescribeProducers": lambda n: DescribeProducersRequest(
        topics=(TopicRequest(name=LONG_NAME, partition_indexes=tuple(range(n))),)
    ),
    "ElectLeaders": lambda n: ElectLeadersRequest(
        topic_partitions=(TopicPartitions(topic=LONG_NAME, partitions=tuple(range(n))),)
    ),
    "Produce": lambda n: unproduced(None, n),
    "Produce of a transaction": lambda n: unproduced(LONG_NAME, n),
}


def unproduced(transactional_id: str | None, rows: int) -> ProduceRequest:
    data = tuple(PartitionProduceData(index=index, records=b"") for index in range(rows))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=1,
        timeout_ms=1000,
        topic_data=(TopicProduceData(name=LONG_NAME, partition_data=data),),
    )


@pytest.mark.parametrize("name", REFUSED)
def test_many_refusals_have_few_reasons(client: RawClient, name: str) -> None:
    rows = 3000
    version = 9 if name.startswith("Produce") else None
    assert client.answer_bytes(REFUSED[name](rows), version) <= REASONS_BYTES + rows * A_ROW_BYTES


def test_the_number_of_reported_keyless_records_is_limited_for_all_partitions(client: RawClient) -> None:
    create(client, wanted("c", 3, configs={"cleanup.policy": "compact"}))
    keyless = [(None, "v")] * (RECORD_ERRORS_MAX // 2 + 1)
    data = tuple(PartitionProduceData(index=index, records=bytes(batch(*keyless))) for index in range(3))
    answer = client.ask(
        ProduceRequest(acks=1, timeout_ms=1000, topic_data=(TopicProduceData(name="c", partition_data=data),)), 9
    )
    rows = answer.responses[0].partition_responses
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_RECORD] * 3
    assert sum(len(row.record_errors) for row in rows) == RECORD_ERRORS_MAX
