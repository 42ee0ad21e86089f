"""Share requests that take many time slices, and members' requests during them: in virtual time, on one node."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from ottla.protocol.connection import encode_request, parse_request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.server.broker.broker import Broker
from ottla.server.client.connection import api_of
from ottla.server.control.nodes import move_leader
from ottla.server.coordination import service
from ottla.server.coordination.jobs import Steps, to_the_end
from ottla.server.coordination.shard import ShardState
from ottla.server.handlers import share_fetch
from ottla.server.handlers.share_sessions import TYPES_AT_ONCE
from ottla.server.network.dispatcher import finished
from ottla.server.runtime.time_slices import TimeSlice, passes, run_cooperatively
from ottla.server.services.share_persister import SharePersister
from ottla.server.sharing import leaders, share_sessions
from ottla.server.sharing.acknowledging import ACCEPT, RENEW
from ottla.server.sharing.leaders import Visitor
from ottla.server.sharing.loading import LeadSharePartition, ShareStateLoader
from ottla.server.sharing.share_records import SharePartitionKey
from ottla.server.sharing.share_sessions import FINAL_EPOCH, FULL_EPOCH, SessionKey, SharedPartition
from ottla.storage.disk.os_files import OsFiles
from support.broker.contexts import context_of
from support.broker.conversation import create_topic, produce_request
from support.broker.in_process_broker import NOW_MS, InProcessClient, run_in_order, running
from support.broker.served import serving
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch
from support.sharing.chaos_members import Connection, Member, acknowledge_request, fetch_request
from support.sizes import size

RECORDS = 20
LOCK_MS = 30_000
GROUPS = ("g", "h", "i", "j")


async def begin_state(broker: Broker, group: str, topic_id: bytes) -> SharePartitionKey:
    """Give the group partition 0 of the topic from its beginning."""
    key = SharePartitionKey(group, topic_id, 0)
    assert not await SharePersister(broker.services.coordinators.share_states).initialize(group, 0, {topic_id: {0: 0}})
    return key


async def shared_topic(broker: Broker, client: InProcessClient) -> bytes:
    """Create one partition with some records, each in a batch of its own, that the group g has from its beginning."""
    made = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await client.ask(CreateTopicsRequest(topics=(made,)), 7)
    topic = broker.services.topics.get("t")
    assert topic is not None
    await begin_state(broker, "g", topic.id)
    for _ in range(RECORDS):
        await client.ask(produce_request("t", batch(("k", "v"), timestamp=NOW_MS)), 12)
    return topic.id


@pytest.mark.parametrize(
    "how", ["its connection breaks", "it ends its session", "its connection breaks while the new session begins"]
)
def test_a_returning_member_keeps_its_newly_acquired_records(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "RUNS_AT_ONCE", 1)

    async def main() -> None:
        async with running(CrashFiles()) as (broker, client):
            topic_id = await shared_topic(broker, client)

            async def fetch(connection: Connection, places: frozenset[int] = frozenset({0})) -> list[tuple[int, int]]:
                request = fetch_request(
                    "g", connection, topic_id, places, {}, max_wait_ms=5_000, max_records=500, batch_size=1, mode=0
                )
                answer: Any = await InProcessClient(broker, connection.client).ask(request, 2)
                connection.epoch, connection.places = connection.epoch + 1, places
                (row,) = answer.responses[0].partitions
                return [(one.first_offset, one.last_offset) for one in row.acquired_records]

            async def end(connection: Connection) -> None:
                request = acknowledge_request("g", connection, topic_id, {}, FINAL_EPOCH, renews=False)
                await InProcessClient(broker, connection.client).ask(request, 2)

            member = Member("m")
            before, after = Connection(member, 0), Connection(member, 0)
            assert len(await fetch(before)) == RECORDS
            async with trio.open_nursery() as nursery:
                if how == "its connection breaks":
                    before.close()
                elif how == "its connection breaks while the new session begins":
                    monkeypatch.setattr(share_sessions, "AT_ONCE", 1)

                    async def broken(steps: Steps[Any], time_slice: TimeSlice) -> Any:
                        next(steps)
                        before.close()
                        return await run_cooperatively(steps, time_slice)

                    monkeypatch.setattr(share_fetch, "run_cooperatively", broken)
                else:
                    nursery.start_soon(end, before)
                    sessions = broker.services.coordinators.share_leaders.sessions[0]
                    while sessions.members("g"):
                        await trio.lowlevel.checkpoint()
                acquired = await fetch(after)
            assert acquired[0][0] == 0 and acquired[-1][1] == RECORDS - 1, "nothing waits longer than it has to"
            says = {0: {offset: ACCEPT for first, last in acquired for offset in range(first, last + 1)}}
            request = acknowledge_request("g", after, topic_id, says, after.epoch, renews=False)
            answer: Any = await InProcessClient(broker, after.client).ask(request, 2)
            (row,) = answer.responses[0].partitions
            assert (row.error_code, row.error_message) == (0, None)

    run_in_order(main)


def test_a_session_may_end_again_during_its_earlier_release() -> None:
    """The second release replaced the first in a table.

    The first to end removed it, so the other one failed, and the broker with it.
    """

    async def main() -> None:
        async with running(CrashFiles()) as (broker, client):
            topic_id = await shared_topic(broker, client)
            shares, states = broker.services.coordinators.share_leaders, broker.services.coordinators.share_states
            connection = Connection(Member("m"), 0)
            request = fetch_request(
                "g", connection, topic_id, frozenset({0}), {}, max_wait_ms=5_000, max_records=500, batch_size=1, mode=0
            )
            await InProcessClient(broker, connection.client).ask(request, 2)
            home = states.coordinator.partition_for(SharePartitionKey("g", topic_id, 0).text)
            states.coordinator.unload(home, ErrorCode.NOT_COORDINATOR, NOW_MS)
            connection.close()
            await trio.testing.wait_all_tasks_blocked()
            key, again = SessionKey("g", "m"), Visitor(shares, 0)
            begins = shares.sessions[0].fetch(
                key, FULL_EPOCH, again, places=[SharedPartition(topic_id, 0)], has_acknowledgements=False
            )
            to_the_end(begins)
            again()
            states.leadership_changed(home)
            other = Connection(Member("n"), 0)
            request = fetch_request(
                "g", other, topic_id, frozenset({0}), {}, max_wait_ms=5_000, max_records=500, batch_size=1, mode=0
            )
            answer: Any = await InProcessClient(broker, other.client).ask(request, 2)
            assert answer.responses[0].partitions[0].acquired_records
            await shares.released(0, key)
            assert broker.clock.elapsed_ms() < LOCK_MS

    run_in_order(main)


class Watched(TimeSlice):
    """A time slice that is always over, and counts how often other tasks ran."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def is_over(self) -> bool:
        return True

    async def next(self) -> None:
        self.count += 1


TURNS = size(8, 50)


def test_acknowledgement_types_are_examined_in_time_slices_for_any_batch_size() -> None:
    found: list[int] = []

    async def main() -> None:
        async with running(CrashFiles()) as (broker, client):
            topic_id = await shared_topic(broker, client)
            connection, watched = Connection(Member("m"), 0), Watched()
            context = replace(context_of(broker, connection.client), time_slice=watched)
            fetch = fetch_request(
                "g", connection, topic_id, frozenset({0}), {}, max_wait_ms=0, max_records=500, batch_size=1, mode=0
            )
            await InProcessClient(broker, connection.client).ask(fetch, 2)
            for count in 1, TURNS * TYPES_AT_ONCE:
                connection.epoch += 1
                says = {0: dict.fromkeys(range(count - 1), ACCEPT) | {count - 1: RENEW + 1}}
                request = acknowledge_request("g", connection, topic_id, says, connection.epoch, renews=False)
                api, before = api_of(request), watched.count
                frame = bytearray(encode_request(api, 2, 0, "client", request))
                answer: Any = await finished(broker.handlers[api.key](context, parse_request(memoryview(frame)[4:])))
                (row,) = answer.responses[0].partitions
                assert row.error_code == ErrorCode.INVALID_REQUEST
                found.append(watched.count - before)

    run_in_order(main)
    assert found[1] - found[0] == TURNS - 1


@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_waiting_fetches_hear_of_a_lost_partition_with_many_groups(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "LET_GO_AT_ONCE", 1)
    heard: list[int] = []

    async def main() -> None:
        async with running(CrashFiles(), 2) as (broker, client):
            made = CreatableTopic(name="t", num_partitions=1, replication_factor=2)
            await client.ask(CreateTopicsRequest(topics=(made,)), 7)
            topic = broker.services.topics.get("t")
            assert topic is not None
            node = topic.partitions[0].leader
            keys = [await begin_state(broker, group, topic.id) for group in GROUPS]

            async def fetch(group: str) -> None:
                connection = Connection(Member(group), node)
                asking = InProcessClient(broker, connection.client, node=node)
                request = fetch_request(
                    group,
                    connection,
                    topic.id,
                    frozenset({0}),
                    {},
                    max_wait_ms=10**9,
                    max_records=9,
                    batch_size=9,
                    mode=0,
                )
                answer: Any = await asking.ask(request, 2)
                heard.append(answer.responses[0].partitions[0].error_code)

            shares = broker.services.coordinators.share_leaders
            async with trio.open_nursery() as nursery:
                for group in GROUPS:
                    nursery.start_soon(fetch, group)
                while not all((led := shares.find(key)) and led.share and led.waiters for key in keys):
                    await trio.lowlevel.checkpoint()
                if how == "moved":
                    await move_leader(broker, "t", 0, 1 - node)
                else:
                    await client.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),)), 6)
            assert len(shares) == 0

    run_in_order(main)
    assert len(heard) == len(GROUPS)
    # A task that checks once more before the node has released its partition finds that the log was deleted.
    assert set(heard) <= {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        *([ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] if how == "deleted" else []),
    }


def test_acknowledgements_during_the_share_coordinators_load_are_written_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "INLINE_LOAD_BYTES", 0)

    async def main() -> None:
        async with running(CrashFiles()) as (broker, client):
            topic_id = await shared_topic(broker, client)
            connection = Connection(Member("m"), 0)
            asking = InProcessClient(broker, connection.client)
            fetch = fetch_request(
                "g", connection, topic_id, frozenset({0}), {}, max_wait_ms=5_000, max_records=500, batch_size=1, mode=0
            )
            await asking.ask(fetch, 2)
            states = broker.services.coordinators.share_states
            home = states.coordinator.partition_for(SharePartitionKey("g", topic_id, 0).text)
            states.leadership_changed(home)
            assert states.coordinator.shards[home].state is ShardState.LOADING
            says = {0: dict.fromkeys(range(RECORDS), ACCEPT)}
            answer: Any = await asking.ask(acknowledge_request("g", connection, topic_id, says, 1, renews=False), 2)
            (row,) = answer.responses[0].partitions
            assert (row.error_code, row.error_message) == (0, None)

    run_in_order(main)


async def test_partitions_of_a_first_fetch_are_loaded_a_few_per_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(leaders, "BEGUN_AT_ONCE", 2)
    begun: list[int] = []
    begin = ShareStateLoader.begin

    async def noted(self: ShareStateLoader, led: LeadSharePartition) -> None:
        begun.append(passes())
        await begin(self, led)

    monkeypatch.setattr(ShareStateLoader, "begin", noted)
    async with serving(tmp_path, OsFiles(), log_cleaner_enable="false") as served:
        broker = served.broker
        await served.ask(create_topic, "t", partitions=9)
        topic = broker.services.topics.get("t")
        assert topic is not None
        await broker.services.coordinators.share_states.ensure_topic()
        shares = broker.services.coordinators.share_leaders
        found = [shares.get_or_load(SharePartitionKey("g", topic.id, one.index), one) for one in topic.partitions]
        await trio.testing.wait_all_tasks_blocked()
        assert all(led.share is not None or led.error is not None for led in found)
        assert len(begun) == 9
        assert max(Counter(begun).values()) == 2


def test_records_released_without_a_share_coordinator_become_available_later() -> None:

    async def main() -> None:
        async with running(CrashFiles()) as (broker, client):
            topic_id = await shared_topic(broker, client)
            one, other = Connection(Member("m"), 0), Connection(Member("n"), 0)

            async def fetch(connection: Connection) -> int:
                request = fetch_request(
                    "g",
                    connection,
                    topic_id,
                    frozenset({0}),
                    {},
                    max_wait_ms=5_000,
                    max_records=500,
                    batch_size=500,
                    mode=0,
                )
                answer: Any = await InProcessClient(broker, connection.client).ask(request, 2)
                return len(answer.responses[0].partitions[0].acquired_records)

            assert await fetch(one) == 1
            states = broker.services.coordinators.share_states
            home = states.coordinator.partition_for(SharePartitionKey("g", topic_id, 0).text)
            states.coordinator.unload(home, ErrorCode.NOT_COORDINATOR, NOW_MS)

            async def end() -> None:
                request = acknowledge_request("g", one, topic_id, {}, FINAL_EPOCH, renews=False)
                await InProcessClient(broker, one.client).ask(request, 2)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(end)
                await trio.testing.wait_all_tasks_blocked()
                states.leadership_changed(home)
                assert await fetch(other) == 1
            assert broker.clock.elapsed_ms() < LOCK_MS

    run_in_order(main)
