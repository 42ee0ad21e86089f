"""The broker's own topics are deleted while requests use them: no request waits for ever, and everything works again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from support.broker.admin import delete
from support.broker.conversation import address, create_topic, fetch
from support.broker.raw_client import RawClient
from support.transactions.transactional_client import TransactionalClient

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        yield client


def remove(client: RawClient, topic: str) -> None:
    (row,) = delete(client, topic)
    assert row.error_code == 0


def find(client: RawClient, key: str, kind: int) -> None:
    assert client.ask(FindCoordinatorRequest(key=key, key_type=kind), 3).error_code == 0


def begun(client: RawClient, version: int) -> TransactionalClient:
    find(client, "tx", 1)
    producer = TransactionalClient(client, "tx", version=version)
    producer.begin()
    return producer


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_without_the_offsets_of_the_deleted_topic(client: RawClient, commit: bool) -> None:
    find(client, "g", 0)
    producer = begun(client, 0)
    assert producer.add("t", 0) is ErrorCode.NONE
    assert producer.add_group("g") is ErrorCode.NONE
    producer.produce("t", ("k", "v"))
    remove(client, OFFSETS)
    producer.end(commit=commit)
    row = fetch(client, "t", 0)
    assert row.last_stable_offset == row.high_watermark  # no transaction is open
    find(client, "g", 0)
    producer.begin()


def test_an_id_whose_transaction_was_deleted_restarts(client: RawClient) -> None:
    producer = begun(client, 2)
    producer.produce("t", ("k", "v"))
    remove(client, TRANSACTIONS)
    assert producer.try_to_end(commit=True) is not ErrorCode.NONE
    find(client, "tx", 1)
    again = TransactionalClient(client, "tx", version=2)
    again.begin()


def test_a_member_of_a_consumer_group_rejoins(client: RawClient) -> None:
    def beat(epoch: int) -> tuple[ErrorCode, int]:
        answer = client.ask(
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="m",
                member_epoch=epoch,
                rebalance_timeout_ms=1000,
                subscribed_topic_names=("t",) if not epoch else None,
                topic_partitions=() if not epoch else None,
            )
        )
        return ErrorCode(answer.error_code), answer.member_epoch

    find(client, "g", 0)
    code, epoch = beat(0)
    assert (code, epoch > 0) == (ErrorCode.NONE, True)
    remove(client, OFFSETS)
    code, _ = beat(epoch)
    assert code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR)
    for _ in itertools.takewhile(lambda _: beat(0)[0] is not ErrorCode.NONE, range(100)):
        find(client, "g", 0)
    assert [group.group_id for group in client.ask(ListGroupsRequest()).groups] == ["g"]
