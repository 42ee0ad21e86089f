"""A history of a server whose states of share partitions are initialized, written, pruned and deleted.

Segments of their log have a few records. Whatever happens, the next start finds each state as answered last, or as requested
since.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import trio.testing

from ottla.protocol.errors import KafkaError
from ottla.server.coordination.shard import ShardState
from ottla.server.partitions.internal_topics import SHARE_STATE_TOPIC
from ottla.server.services.share_persister import SharePersister
from ottla.server.sharing.share_records import SharePartitionKey
from ottla.server.sharing.share_states import ShareState, WrittenState
from ottla.server.sharing.state_batches import ShareStateBatch
from support.broker.in_process_broker import pass_time, run_in_order, running
from support.disk.crash_files import CrashFiles
from support.lives.server_life import NOTHING, Key, Ledger, Life, Owed

OPTIONS = {
    "log_flush_interval_messages": "1",
    "log_segment_delete_delay_ms": "1000",
    "share_coordinator_snapshot_update_records_per_snapshot": "2",
    "share_coordinator_state_topic_num_partitions": "1",
    "share_coordinator_state_topic_segment_bytes": "600",
}
TIDIED_UP_MS = 900_000
GROUPS = ("g", "h")
ACKNOWLEDGED = 2


def state(group_id: str) -> Key:
    """Return the key of a state of the only partition: (its start offset, the delivery states of its records)."""
    return "state", group_id


def told(there: ShareState | None) -> Hashable:
    return None if there is None else (there.start_offset, there.batches)


class ShareLife(Life):
    def key(self, group_id: str) -> SharePartitionKey:
        there = self.broker.services.topics.get("t")
        return SharePartitionKey(group_id, bytes(16) if there is None else there.id, 0)

    @property
    def persister(self) -> SharePersister:
        return SharePersister(self.broker.services.coordinators.share_states)

    async def begin(self, group_id: str) -> bool:
        async def request() -> None:
            topic_id = self.key(group_id).topic_id
            for error in (await self.persister.initialize(group_id, 0, {topic_id: {0: 0}})).values():
                raise error

        return await self.done(request, {state(group_id): (0, ())})

    async def write(self, group_id: str, at: int) -> bool:
        """Write a state in which every record up to `at` is finished."""
        states, batches = self.broker.services.coordinators.share_states, (ShareStateBatch(at, at, ACKNOWLEDGED, 1),)

        async def request() -> None:
            key = self.key(group_id)
            states.write(key, WrittenState(0, 0, at, 0, batches))
            await states.settled(key)

        return await self.done(request, {state(group_id): (at, batches)})

    async def forget(self, group_id: str) -> bool:
        async def request() -> None:
            topic_id = self.key(group_id).topic_id
            for error in (await self.persister.delete(group_id, {topic_id: frozenset({0})})).values():
                raise error

        return await self.done(request, {state(group_id): None})

    async def done(self, ask: Callable[[], Awaitable[object]], changes: Mapping[Key, Hashable]) -> bool:
        async def request() -> bool:
            try:
                await ask()
            except KafkaError:
                return False
            return True

        return await self.do(request, changes)


async def first_day(life: ShareLife) -> None:
    """Write until most of the log is superfluous and pruned; then continue."""
    await life.create("t", 1)
    for group_id in GROUPS:
        await life.begin(group_id)
    for at in range(1, 7):
        await life.write("g", at)
    await pass_time(life.broker, TIDIED_UP_MS)
    await life.write("h", 1)
    await life.write("g", 7)


async def second_day(life: ShareLife) -> None:
    """Continue with the states; delete one by request, and one with its topic."""
    for at in range(8, 12):
        await life.write("g", at)
    await life.forget("h")
    await pass_time(life.broker, TIDIED_UP_MS)
    await life.write("g", 12)


async def third_day(life: ShareLife) -> None:
    life.ledger.ask({state(group_id): None for group_id in GROUPS})
    await life.delete("t", {})
    await trio.testing.wait_all_tasks_blocked()


DAYS = (first_day, second_day, third_day)


async def live(
    files: CrashFiles, ledger: Ledger, days: Sequence[Callable[[ShareLife], Awaitable[None]]] = DAYS
) -> None:
    """Run each day as a start and a stop of its own."""
    for day in days:
        files.new_process()
        async with running(files, **OPTIONS) as (broker, client):
            await day(ShareLife(broker, client, ledger))


@dataclass(frozen=True)
class Found:
    """The data of a restarted server."""

    states: Mapping[str, Hashable]
    """States by group."""
    has_topic: bool
    are_served: bool
    start_offset: int
    """Start offset of the states' log, after it has been pruned."""


def restart_and_look(files: CrashFiles) -> Found:
    async def work() -> Found:
        async with running(files, **OPTIONS) as (broker, _):
            await trio.testing.wait_all_tasks_blocked()
            coordinator = broker.services.coordinators.share_states.coordinator
            await trio.testing.wait_all_tasks_blocked()
            found = {key.group_id: told(one.states.get(key)) for one in coordinator.shards for key in one.states}
            await pass_time(broker, TIDIED_UP_MS)
            later = {key.group_id: told(one.states.get(key)) for one in coordinator.shards for key in one.states}
            assert found == later, "tidying up says nothing new"
            there = broker.services.topics.get(SHARE_STATE_TOPIC)
            return Found(
                states=found,
                has_topic=broker.services.topics.get("t") is not None,
                are_served=all(one.state is ShardState.ACTIVE for one in coordinator.shards),
                start_offset=0 if there is None else there.partitions[0].log.log_start_offset,
            )

    return run_in_order(work)


def check(found: Found, owed: Owed) -> None:
    """Raise AssertionError if a state is lost or invented, or outlives its topic."""
    assert found.are_served, "a partition of states cannot be loaded"
    for group_id in GROUPS:
        value, allowed = found.states.get(group_id), owed.get(state(group_id), NOTHING)
        if found.has_topic:
            assert value in allowed, f"{group_id} is {value!r}, may be {sorted(map(str, allowed))}"
        else:
            assert value is None, f"{group_id} outlives its topic"
            assert None in allowed, f"{group_id} is lost with its topic"
