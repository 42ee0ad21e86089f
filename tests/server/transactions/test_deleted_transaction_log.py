"""`__transaction_state` is deleted while a transaction is open: as in Apache Kafka 4.3.1, it is found, and can be aborted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from support.broker.admin import delete
from support.broker.conversation import address, create_topic, fetch, records_of
from support.broker.raw_client import RawClient
from support.broker.served import FEW_PARTITIONS
from support.transactions.transactional_client import TransactionalClient

LOG = "__transaction_state"


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(overrides=FEW_PARTITIONS) as broker:
        yield broker


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[RawClient]:
    with RawClient(*address(broker)) as client:
        yield client


def pinned(client: RawClient) -> TransactionalClient:
    """Open a transaction, and delete the log that knows of it."""
    create_topic(client, "t", cleanup_policy="compact")
    open_one = TransactionalClient(client, "x", version=2)
    open_one.begin()
    open_one.produce("t", ("k", "open"))
    assert [row.error_code for row in delete(client, LOG)] == [ErrorCode.NONE]
    return open_one


def stable(client: RawClient) -> int:
    offset: int = fetch(client, "t", 0).last_stable_offset
    return offset


def aborted(client: RawClient, producer: TransactionalClient) -> int:
    """Abort as `kafka-transactions abort --start-offset 0` does, with the answer of DescribeProducers."""
    asked = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0,)),))
    ((partition,),) = (topic.partitions for topic in client.ask(asked).topics)
    (found,) = [each for each in partition.active_producers if each.current_txn_start_offset == 0]
    assert (found.producer_id, found.coordinator_epoch) == (producer.producer_id, -1)
    marker = WritableTxnMarker(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name="t", partition_indexes=(0,)),),
        coordinator_epoch=max(0, found.coordinator_epoch),
    )
    (row,) = client.ask(WriteTxnMarkersRequest(markers=(marker,)), 1).markers
    code: int = row.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_no_producer_is_blocked_forever(client: RawClient, is_made_anew: bool) -> None:
    lost = pinned(client)
    other = TransactionalClient(client, "y", version=2)
    if is_made_anew:
        other.begin()
    assert lost.try_to_end(commit=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert stable(client) == 0
    assert aborted(client, lost) == ErrorCode.NONE
    assert stable(client) == 2
    lost.begin()
    lost.produce("t", ("k", "after"))
    lost.end(commit=True)
    data, marker = records_of(fetch(client, "t", 2))
    assert data[2] == b"after" and marker[0] == 3
    assert stable(client) == 4


def test_the_explanation_names_the_remedy(broker: ottla.Broker, client: RawClient) -> None:
    pinned(client)
    broker.roll("t")
    (found,) = broker.explain("t").partitions
    (open_one,) = found.transactions
    assert open_one.transactional_id is None
    commands = [command for remedy in found.remedies for command in remedy.commands]
    assert any(
        "kafka-transactions" in each and "abort --topic t --partition 0 --start-offset 0" in each for each in commands
    )


def test_a_restart_changes_nothing(broker: ottla.Broker, client: RawClient) -> None:
    lost = pinned(client)
    broker.crash()
    with RawClient(*address(broker)) as again:
        assert stable(again) == 0
        assert aborted(again, lost) == ErrorCode.NONE
        assert stable(again) == 2
