"""Share fetches that wait: a move of the log's start makes room, and a member that comes back gets its records.

In virtual time, on one node.
"""

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
from ottla.server.sharing.share_sessions import FINAL_EPOCH, SessionKey
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


async def begin(broker: Broker, client: InProcessClient) -> bytes:
    """Create a topic that a group has from its first record; return the topic's id."""
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
    return topic.id


async def acquired(
    broker: Broker, connection: Connection, topic_id: bytes, max_wait_ms: int = WAIT_MS
) -> list[tuple[int, int]]:
    """Return the records that the next fetch of a session acquires: first and last offsets."""
    request = fetch_request(
        "g",
        connection,
        topic_id,
        frozenset({0}),
        {},
        max_wait_ms=max_wait_ms,
        max_records=500,
        batch_size=500,
        mode=0,
    )
    answer = await InProcessClient(broker, connection.client).ask(request, 2)
    assert answer.error_code == 0
    connection.epoch, connection.places = connection.epoch + 1, frozenset({0})
    return [
        (one.first_offset, one.last_offset)
        for response in answer.responses
        for row in response.partitions
        for one in row.acquired_records
    ]


@pytest.mark.parametrize("move", [delete_records, retain])
def test_a_fetch_waiting_for_room_wakes_when_the_log_start_moves(
    move: Callable[[Broker, InProcessClient], Awaitable[None]],
) -> None:
    found: list[Any] = []

    async def main() -> None:
        options = {"group_share_partition_max_record_locks": str(LOCKS), "group_share_record_lock_duration_ms": "60000"}
        async with running(CrashFiles(), **options) as (broker, client):
            topic_id = await begin(broker, client)
            for count, at_ms in ((LOCKS, NOW_MS - 2 * RETENTION_MS), (1, NOW_MS)):
                records = batch(*(("k", "v") for _ in range(count)), timestamp=at_ms)
                await client.ask(produce_request("t", records), 12)
                await roll(broker, "t")

            async def fetch(name: str) -> None:
                connection = Connection(Member(name), 0)
                found.append((name, await acquired(broker, connection, topic_id)))

            await fetch("one")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fetch, "two")
                for _ in range(3):
                    await trio.lowlevel.checkpoint()
                assert found == [("one", [(0, LOCKS - 1)])]
                await move(broker, client)

    run_in_order(main)
    assert found[1:] == [("two", [(LOCKS, LOCKS)])]


def test_a_broken_connections_fetch_takes_nothing_from_the_returned_member() -> None:
    found: list[Any] = []

    async def main() -> None:
        async with running(CrashFiles()) as (broker, client):
            topic_id = await begin(broker, client)
            member = Member("m")
            broken, other = Connection(member, 0), Connection(member, 0)
            assert await acquired(broker, broken, topic_id, 0) == []

            async def wait_in_vain() -> None:
                found.append(("broken", await acquired(broker, broken, topic_id, 1_000)))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait_in_vain)
                for _ in range(3):
                    await trio.lowlevel.checkpoint()
                assert await acquired(broker, other, topic_id, 0) == []
                await client.ask(produce_request("t", batch(("k", "v"), timestamp=NOW_MS)), 12)
            found.append(("other", await acquired(broker, other, topic_id, 1_000)))

    run_in_order(main)
    assert found == [("broken", []), ("other", [(0, 0)])]


def test_the_end_of_a_session_keeps_its_members_newer_one() -> None:
    async def main() -> None:
        async with running(CrashFiles()) as (broker, client):
            topic_id = await begin(broker, client)
            await client.ask(produce_request("t", batch(("k", "v"), timestamp=NOW_MS)), 12)
            member = Member("m")
            leaders = broker.services.coordinators.share_leaders
            sessions = leaders.sessions[0]
            await acquired(broker, Connection(member, 0), topic_id, 0)
            before = sessions.acknowledge(SessionKey("g", "m"), FINAL_EPOCH)
            connection = Connection(member, 0)
            await acquired(broker, connection, topic_id, 0)
            await leaders.end_session(0, before)  # Its acknowledgements took until now.
            assert sessions.members("g") == 1
            await acquired(broker, connection, topic_id, 0)

    run_in_order(main)
