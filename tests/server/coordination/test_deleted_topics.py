"""The broker's own topics are deleted like any other, with all their content, and created again when they are needed."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from support.broker.admin import delete
from support.broker.conversation import address, create_topic
from support.broker.raw_client import RawClient

GROUP, TRANSACTION = 0, 1
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=20_000,
    protocol_type="consumer",
    protocols=(JoinGroupRequestProtocol(name="range"),),
)


def find(client: RawClient, key: str, kind: int) -> None:
    assert client.ask(FindCoordinatorRequest(key=key, key_type=kind), 3).error_code == 0


def remove(client: RawClient, topic: str) -> None:
    (row,) = delete(client, topic)
    assert row.error_code == 0


def commit(client: RawClient, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="t", partitions=(partition,))
    answer = client.ask(OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=(topic,)), 9)
    assert answer.topics[0].partitions[0].error_code == 0


def committed(client: RawClient) -> int:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=(0,))
    group = OffsetFetchRequestGroup(group_id="g", topics=(topic,))
    (answer,) = client.ask(OffsetFetchRequest(groups=(group,)), 9).groups
    found: int = answer.topics[0].partitions[0].committed_offset
    return found


@pytest.mark.parametrize("times", [1, 3])
def test_offsets_are_deleted_with_their_topic_and_new_ones_stored(tmp_path: Path, times: int) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        for offset in range(times):
            find(client, "g", GROUP)
            assert committed(client) == -1
            commit(client, offset)
            assert committed(client) == offset
            remove(client, "__consumer_offsets")
            assert client.ask(ListGroupsRequest()).groups == ()
        find(client, "g", GROUP)
        commit(client, 9)
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert committed(client) == 9


def test_a_member_waiting_in_a_group_receives_not_coordinator(tmp_path: Path) -> None:
    overrides = {"group.initial.rebalance.delay.ms": "600000"}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        find(client, "g", GROUP)
        told: list[Any] = []

        def join() -> None:
            with RawClient(*address(broker)) as member:
                told.append(member.ask(JOIN, 3))

        member = Thread(target=join)
        member.start()
        while not client.ask(ListGroupsRequest()).groups:
            pass
        remove(client, "__consumer_offsets")
        member.join()
        assert [answer.error_code for answer in told] == [ErrorCode.NOT_COORDINATOR]


def test_transactional_ids_are_deleted_with_their_topic(tmp_path: Path) -> None:
    begun = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        for _ in range(2):
            find(client, "tx", TRANSACTION)
            assert [client.ask(begun).producer_epoch for _ in range(2)] == [0, 1]
            remove(client, "__transaction_state")
            assert client.ask(ListTransactionsRequest()).transaction_states == ()
