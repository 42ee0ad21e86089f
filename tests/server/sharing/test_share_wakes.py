"""Share fetches that wait for room: what moves the start of the log makes some. In virtual time, on one node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from ottla.protocol.messages import initialize_share_group_state as initialize
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.server.broker.broker import Broker
from ottla.server.control.segments import apply_retention, roll
from ottla.server.sharing.share_records import SharePartitionKey
from support.broker.conversation import produce_request
from support.broker.in_process_broker import NOW_MS, InProcessClient, run_in_order, running
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch
from support.sharing.chaos_members import Connection, Member, fetch_request

LOCKS = 100
RETENTION_MS = 3_600_000
WAIT_MS = 100_000_000


async def delete_records(broker: Broker, client: InProcessClient) -> None:
    row = DeleteRecordsPartition(partition_index=0, offset=LOCKS // 2)
    topic = DeleteRecordsTopic(name="t", partitions=(row,))
    answer = await client.ask(DeleteRecordsRequest(topics=(topic,), timeout_ms=1_000), 2)
    assert answer.topics[0].partitions[0].low_watermark == LOCKS // 2


async def retain(broker: Broker, client: InProcessClient) -> None:
    answer = await apply_retention(broker, "t")
    assert [row.segments_deleted for row in answer.partitions] == [1]


@pytest.mark.parametrize("move", [delete_records, retain])
def test_a_fetch_that_waits_for_room_is_woken_when_the_log_begins_elsewhere(
    move: Callable[[Broker, InProcessClient], Awaitable[None]],
) -> None:
    found: list[Any] = []

    async def main() -> None:
        options = {"group_share_partition_max_record_locks": str(LOCKS), "group_share_record_lock_duration_ms": "60000"}
        async with running(CrashFiles(), **options) as (broker, client):
            hour = CreatableTopicConfig(name="retention.ms", value=str(RETENTION_MS))
            made = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=(hour,))
            await client.ask(CreateTopicsRequest(topics=(made,)), 7)
            topic = broker.services.topics.get("t")
            assert topic is not None
            key = SharePartitionKey("g", topic.id, 0)
            await client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=(key.text,)), 6)
            row = initialize.PartitionData(partition=0, state_epoch=0, start_offset=0)
            states = (initialize.InitializeStateData(topic_id=topic.id, partitions=(row,)),)
            await client.ask(initialize.InitializeShareGroupStateRequest(group_id="g", topics=states), 0)
            for count, at_ms in ((LOCKS, NOW_MS - 2 * RETENTION_MS), (1, NOW_MS)):
                records = batch(*(("k", "v") for _ in range(count)), timestamp=at_ms)
                await client.ask(produce_request("t", records), 12)
                await roll(broker, "t")

            async def fetch(name: str) -> None:
                connection = Connection(Member(name), 0)
                asking = InProcessClient(broker, connection.client)
                request = fetch_request(
                    "g",
                    connection,
                    topic.id,
                    frozenset({0}),
                    {},
                    max_wait_ms=WAIT_MS,
                    max_records=500,
                    batch_size=500,
                    mode=0,
                )
                answer = await asking.ask(request, 2)
                acquired = answer.responses[0].partitions[0].acquired_records
                found.append((name, [(one.first_offset, one.last_offset) for one in acquired]))

            await fetch("one")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fetch, "two")
                for _ in range(3):
                    await trio.lowlevel.checkpoint()
                assert found == [("one", [(0, LOCKS - 1)])]
                await move(broker, client)

    run_in_order(main)
    assert found[1:] == [("two", [(LOCKS, LOCKS)])]
