"""What takes many turns, and what members do meanwhile: in virtual time, on one node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio

from ottla.protocol.connection import encode_request, parse_request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import initialize_share_group_state as initialize
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.server.broker.broker import Broker
from ottla.server.client.connection import api_of
from ottla.server.handlers.share_sessions import TYPES_AT_ONCE
from ottla.server.runtime.turns import Turn
from ottla.server.sharing import leaders
from ottla.server.sharing.acknowledging import ACCEPT, RENEW
from ottla.server.sharing.share_records import SharePartitionKey
from ottla.server.sharing.share_sessions import FINAL_EPOCH
from support.broker.contexts import context_of
from support.broker.conversation import produce_request
from support.broker.in_process_broker import NOW_MS, InProcessClient, run_in_order, running
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch
from support.sharing.chaos_members import Connection, Member, acknowledge_request, fetch_request

RECORDS = 20


async def shared_topic(broker: Broker, client: InProcessClient) -> bytes:
    """One partition with some records, each in a batch of its own, that the group g has from its beginning."""
    made = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await client.ask(CreateTopicsRequest(topics=(made,)), 7)
    topic = broker.services.topics.get("t")
    assert topic is not None
    key = SharePartitionKey("g", topic.id, 0)
    await client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=(key.text,)), 6)
    row = initialize.PartitionData(partition=0, state_epoch=0, start_offset=0)
    states = (initialize.InitializeStateData(topic_id=topic.id, partitions=(row,)),)
    await client.ask(initialize.InitializeShareGroupStateRequest(group_id="g", topics=states), 0)
    for _ in range(RECORDS):
        await client.ask(produce_request("t", batch(("k", "v"), timestamp=NOW_MS)), 12)
    return topic.id


@pytest.mark.parametrize("how", ["its connection breaks", "it ends its session"])
def test_a_member_that_comes_again_keeps_what_it_acquires_then(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


class Watched(Turn):
    """A turn that is always over, and counts how often the others were let in."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def is_over(self) -> bool:
        return True

    async def next(self) -> None:
        self.count += 1


def test_types_of_acknowledgements_are_looked_at_in_turns_however_many_a_batch_has() -> None:
    found: list[int] = []

    async def main() -> None:
        async with running(CrashFiles()) as (broker, client):
            topic_id = await shared_topic(broker, client)
            connection, watched = Connection(Member("m"), 0), Watched()
            context = replace(context_of(broker, connection.client), turn=watched)
            fetch = fetch_request(
                "g", connection, topic_id, frozenset({0}), {}, max_wait_ms=0, max_records=500, batch_size=1, mode=0
            )
            await InProcessClient(broker, connection.client).ask(fetch, 2)
            for count in 1, 50 * TYPES_AT_ONCE:
                connection.epoch += 1
                says = {0: dict.fromkeys(range(count - 1), ACCEPT) | {count - 1: RENEW + 1}}
                request = acknowledge_request("g", connection, topic_id, says, connection.epoch, renews=False)
                api, before = api_of(request), watched.count
                frame = bytearray(encode_request(api, 2, 0, "client", request))
                answer: Any = await broker.handlers[api.key](context, parse_request(memoryview(frame)[4:]))
                (row,) = answer.responses[0].partitions
                assert row.error_code == ErrorCode.INVALID_REQUEST
                found.append(watched.count - before)

    run_in_order(main)
    assert found[1] - found[0] == 49
