"""Memory that clients cause is freed with its cause, without Python's cycle collector.

A full collection stops every task, the longer the more objects exist; memory of a broker must not need one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.storage.disk.os_files import OsFiles
from support.broker.admin import delete
from support.broker.conversation import address, create_topic
from support.broker.raw_client import RawClient
from support.broker.served import Served, serving
from support.left_behind import left_to_the_collector
from support.sizes import size

MANY = size(10, 20)


async def ask(served: Served, request: Any, version: int) -> Any:
    return await trio.to_thread.run_sync(lambda: served.client.ask(request, version=version))


async def topic(served: Served, name: str) -> None:
    await served.ask(create_topic, name, partitions=1)
    await served.ask(delete, name)


async def group_with_offsets(served: Served, name: str) -> None:
    offsets = (OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
    commit = OffsetCommitRequest(group_id=name, topics=(OffsetCommitRequestTopic(name="t", partitions=offsets),))
    answer = await ask(served, commit, 9)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    await delete_group(served, name)


async def group_of_a_classic_member(served: Served, name: str) -> None:
    joined = await ask(
        served,
        JoinGroupRequest(
            group_id=name,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            group_instance_id="static",
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=bytes(2)),),
        ),
        5,
    )
    assert joined.error_code == ErrorCode.NONE
    member = MemberIdentity(member_id=joined.member_id, group_instance_id="static")
    left = await ask(served, LeaveGroupRequest(group_id=name, members=(member,)), 4)
    assert left.error_code == ErrorCode.NONE
    await delete_group(served, name)


async def group_of_a_consumer(served: Served, name: str) -> None:
    joining = ConsumerGroupHeartbeatRequest(
        group_id=name,
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    for beat in (joining, ConsumerGroupHeartbeatRequest(group_id=name, member_id="m", member_epoch=-1)):
        assert (await ask(served, beat, 1)).error_code == ErrorCode.NONE
    await delete_group(served, name)


async def delete_group(served: Served, name: str) -> None:
    answer = await ask(served, DeleteGroupsRequest(groups_names=(name,)), 2)
    assert answer.results[0].error_code == ErrorCode.NONE


async def transaction(served: Served, name: str) -> None:
    begun = await ask(
        served, InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=9_000, producer_id=-1), 4
    )
    of_it: dict[str, Any] = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_topics=(AddPartitionsToTxnTopic(name="t", partitions=(0,)),),
        **{f"v3_and_below_{field}": value for field, value in of_it.items()},
    )
    (row,) = (await ask(served, added, 3)).results_by_topic_v3_and_below
    assert row.results_by_partition[0].partition_error_code == ErrorCode.NONE
    ended = await ask(served, EndTxnRequest(transactional_id="x", committed=True, **of_it), 3)
    assert ended.error_code == ErrorCode.NONE


def fetch(**fields: Any) -> FetchRequest:
    partitions = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20),)
    return FetchRequest(max_wait_ms=1, min_bytes=1, topics=(FetchTopic(topic="t", partitions=partitions),), **fields)


async def fetch_session(served: Served, name: str) -> None:
    opened = await ask(served, fetch(session_epoch=0), 12)
    assert opened.session_id
    await ask(served, FetchRequest(max_wait_ms=0, session_id=opened.session_id, session_epoch=-1), 12)


async def fetch_that_waits(served: Served, name: str) -> None:
    await ask(served, fetch(), 11)


async def connection(served: Served, name: str) -> None:
    with await trio.to_thread.run_sync(RawClient, *address(served.broker)) as client:
        await trio.to_thread.run_sync(lambda: client.ask(fetch(), version=11))
    while len(served.broker.connections) > 1:
        await trio.lowlevel.checkpoint()


async def config(served: Served, name: str) -> None:
    value = str(10**12 + int(name.partition("-")[2]))
    change = AlterableConfig(name="log.retention.ms", config_operation=0, value=value)
    everywhere = AlterConfigsResource(resource_type=4, resource_name="", configs=(change,))
    answer = await ask(served, IncrementalAlterConfigsRequest(resources=(everywhere,)), 1)
    assert answer.responses[0].error_code == ErrorCode.NONE


Life = Callable[[Served, str], Awaitable[None]]
LIVES: tuple[Life, ...] = (
    topic,
    group_with_offsets,
    group_of_a_classic_member,
    group_of_a_consumer,
    transaction,
    fetch_session,
    fetch_that_waits,
    connection,
    config,
)


@pytest.mark.parametrize("life", LIVES, ids=[life.__name__ for life in LIVES])
async def test_freed_memory_leaves_no_cycles_for_the_collector(tmp_path: Path, life: Life) -> None:
    quiet = {
        "log_cleaner_enable": "false",
        "group_initial_rebalance_delay_ms": "0",
        "offsets_topic_num_partitions": "1",
        "transaction_state_log_num_partitions": "1",
    }
    async with serving(tmp_path, OsFiles(), **quiet) as served:
        await served.ask(create_topic, "t", partitions=1)
        await served.broker.services.coordinators.groups.ensure_topic()
        await served.broker.services.coordinators.transactions.ensure_topic()
        await life(served, "first-0")  # modules that it loads
        numbers = count()

        async def many_lives() -> None:
            for number in islice(numbers, MANY):
                await life(served, f"n-{number}")

        assert await left_to_the_collector(many_lives, enough=MANY // 2) < MANY
