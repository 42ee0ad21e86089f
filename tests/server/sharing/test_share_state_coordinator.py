"""The share coordinator: a refused request changes nothing, an answered one is there after a load, and the log stays short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.coordination.shard import ShardState
from ottla.server.partitions.internal_topics import SHARE_STATE_TOPIC
from ottla.server.runtime.clock import Clock
from ottla.server.services.share_persister import SharePersister
from ottla.server.sharing.share_records import SharePartitionKey
from ottla.server.sharing.share_states import ShareState, WrittenState
from ottla.server.sharing.state_batches import ShareStateBatch
from ottla.storage.disk.os_files import OsFiles
from support.broker.conversation import create_topic
from support.broker.served import Served, serving
from support.noted import each_case
from support.sharing.states import OTHER, TOPIC, PrunedStore, States, key
from support.transactions.transactions import Power, PowerLossError

ACKNOWLEDGED, ARCHIVED = 2, 4


def by_log(states: States) -> dict[SharePartitionKey, ShareState]:
    """Return the states without what may have been pruned."""
    return {
        one: replace(state, updates=0, state_fence=0, leader_fence=0, snapshot_offset=0)
        for one, state in states.all().items()
    }


def test_its_coordinator_is_found_by_the_text_that_apache_kafka_hashes() -> None:
    assert key(3, "a:b").text == "a:b:AAECAwQFBgcICQoLDA0ODw:3"


def test_all_that_was_told_is_there_after_a_load() -> None:
    states = States()
    for partition in range(8):
        states.begin(key(partition), start_offset=10)
        states.write(key(partition), ShareStateBatch(10, 12, ACKNOWLEDGED, 1), leader_epoch=2, start_offset=10)
        states.coordinator.read(key(partition), 5, states.now_ms)
    states.coordinator.delete(key(6), states.now_ms)
    assert len(states.all()) == 7
    assert by_log(States(states.store)) == by_log(states)


REFUSED: dict[str, tuple[Callable[[States], object], ErrorCode]] = {
    "a write of what never began": (lambda states: states.write(key(1)), ErrorCode.INVALID_REQUEST),
    "a read of what never began": (lambda states: states.coordinator.read(key(1), 0, 0), ErrorCode.INVALID_REQUEST),
    "a negative partition": (lambda states: states.begin(key(-1)), ErrorCode.INVALID_REQUEST),
    "a leader that was replaced": (lambda states: states.write(key(), leader_epoch=1), ErrorCode.FENCED_LEADER_EPOCH),
    "a read of such a leader": (lambda states: states.coordinator.read(key(), 1, 0), ErrorCode.FENCED_LEADER_EPOCH),
    "a state that began anew": (lambda states: states.begin(key(), state_epoch=3), ErrorCode.FENCED_STATE_EPOCH),
    "a partition that is not there": (lambda states: states.begin(key(8)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "a topic that is not there": (
        lambda states: states.begin(key(topic_id=bytes(16))),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    "a summary of it": (
        lambda states: states.coordinator.summary(key(topic_id=bytes(16))),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    "the deletion of it": (
        lambda states: states.coordinator.delete(key(topic_id=bytes(16)), 0),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
}


@each_case("name", REFUSED)
def test_what_is_refused_is_not_written(name: str) -> None:
    act, code = REFUSED[name]
    states = States()
    states.begin(key(), state_epoch=4)
    states.coordinator.read(key(), 2, states.now_ms)
    before, appends = states.all(), states.store.appends
    with pytest.raises(KafkaError) as refused:
        act(states)
    assert (refused.value.code, states.all(), states.store.appends) == (code, before, appends)


@pytest.mark.parametrize("what", ["begin", "write", "read", "delete"])
def test_what_the_log_does_not_take_has_not_happened(what: str) -> None:
    states = States()
    states.begin(key())
    states.write(key(), ShareStateBatch(0, 4, ACKNOWLEDGED, 1))
    acts: dict[str, Callable[[], object]] = {
        "begin": lambda: states.begin(key(1)),
        "write": lambda: states.write(key(), ShareStateBatch(5, 5, ARCHIVED, 1)),
        "read": lambda: states.coordinator.read(key(), 7, states.now_ms),
        "delete": lambda: states.coordinator.delete(key(), states.now_ms),
    }
    before = states.all()
    states.store.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for _ in range(2):
        with pytest.raises(KafkaError):
            acts[what]()
        assert states.all() == before
    states.store.failure = None
    acts[what]()
    assert by_log(States(states.store)) == by_log(states) != before


def test_a_shard_that_is_away_answers_for_nothing() -> None:
    states = States()
    states.begin(key())
    for shard in states.coordinator.shards:
        states.coordinator.unload(shard.partition, ErrorCode.NOT_COORDINATOR, states.now_ms)
    with pytest.raises(KafkaError) as refused:
        states.write(key())
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


def test_what_nobody_needs_any_more_is_pruned_and_a_load_finds_the_same() -> None:
    states = States()
    for partition in range(8):
        states.begin(key(partition))
    for at in range(40):
        for partition in range(8):
            states.write(key(partition), ShareStateBatch(at, at, ACKNOWLEDGED, 1), start_offset=at)
    states.advance(10_000)
    ends, starts = states.store.end_offsets, states.store.starts
    for end, start in zip(ends, starts, strict=True):
        assert end - start < 8 * 4 * 2, "a snapshot after three updates"
    assert by_log(States(states.store)) == by_log(states)


def test_a_share_partition_that_nobody_uses_does_not_keep_the_log_of_the_others() -> None:
    states = States()
    crowd = [key(partition, group) for partition in range(8) for group in "gh"]
    for one in crowd:
        states.begin(one)
    busy = crowd[:8]
    for minute in range(3):
        for at in range(10):
            for one in busy:
                states.write(one, ShareStateBatch(at, at, ACKNOWLEDGED, 1), start_offset=10 * minute + at)
        states.advance(60_000)
    states.advance(10_000)
    assert all(start > 0 for start in states.store.starts)
    assert by_log(States(states.store)) == by_log(states)
    assert set(states.all()) == set(crowd)


def test_a_deleted_topic_is_forgotten_also_if_nobody_coordinated_its_partitions_then() -> None:
    states = States()
    for topic_id in (TOPIC, OTHER):
        for partition in range(8):
            states.begin(key(partition, topic_id=topic_id))
    later = States(states.store)
    del states.topics[TOPIC]
    states.coordinator.topic_deleted(TOPIC, states.now_ms)
    states.advance(0)
    assert {one.topic_id for one in states.all()} == {OTHER}
    assert {one.topic_id for one in States(states.store).all()} == {OTHER}
    assert {one.topic_id for one in later.all()} == {TOPIC, OTHER}, "this one was not told"
    del later.topics[TOPIC]
    later.load()
    assert {one.topic_id for one in later.all()} == {OTHER}


def test_a_topic_deleted_while_the_log_took_nothing_is_forgotten_later() -> None:
    states = States()
    for topic_id in (TOPIC, OTHER):
        states.begin(key(topic_id=topic_id))
    states.store.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    del states.topics[TOPIC]
    states.coordinator.topic_deleted(TOPIC, states.now_ms)
    states.advance(0)
    states.store.failure = None
    states.advance(60_000)
    assert {one.topic_id for one in States(states.store).all()} == {OTHER}


def test_jobs_wait_for_a_log_that_takes_records_again() -> None:
    states = States()
    states.begin(key())
    states.store.failure = ErrorCode.NOT_COORDINATOR
    states.advance(60_000)
    states.store.failure = None
    before = states.all()[key()].snapshot_epoch
    states.advance(60_000)
    assert states.all()[key()].snapshot_epoch == before + 1


def test_a_state_that_changes_while_snapshots_are_made_keeps_what_it_was_told() -> None:
    states = States()
    crowd = [key(partition, group) for partition in range(8) for group in "ghij"]
    for one in crowd:
        states.begin(one)
    states.elapsed_ms += 60_000
    states.coordinator.run_due(states.now_ms, is_over=lambda: True)
    for one in crowd:
        states.write(one, ShareStateBatch(0, 4, ACKNOWLEDGED, 1))
    states.advance(0)
    assert all(state.batches == (ShareStateBatch(0, 4, ACKNOWLEDGED, 1),) for state in states.all().values())
    assert by_log(States(states.store)) == by_log(states)


def test_nothing_is_pruned_before_what_makes_it_superfluous_is_on_disk() -> None:
    states = States()
    states.begin(key())
    for at in range(10):
        states.write(key(), ShareStateBatch(at, at, ACKNOWLEDGED, 1), start_offset=at)
    states.flushes.is_asked_for = True
    states.advance(10_000)
    assert states.store.starts == [0] * len(states.store.starts)
    lost = states.flushes.waiting[0][0]
    states.flushes.done(0, failed=lost)
    assert states.store.starts == [0] * len(states.store.starts)
    states.advance(10_000)
    states.coordinator.reload(
        states.coordinator.shard_of(key().text).partition, ErrorCode.NOT_COORDINATOR, states.now_ms
    )
    states.flushes.done(0)
    assert states.store.starts == [0] * len(states.store.starts), "another shard is in its place"
    states.load()
    states.advance(10_000)
    states.flushes.done(0)
    assert max(states.store.starts) == 8


def live(states: States, answered: dict[SharePartitionKey, ShareState]) -> None:
    """Do everything that can happen to states; `answered` has each state as last answered."""

    def told(*keys: SharePartitionKey) -> None:
        now = by_log(states)
        for one in keys:
            answered.pop(one, None)
            if one in now:
                answered[one] = now[one]

    for partition in range(4):
        states.begin(key(partition), start_offset=5)
        told(key(partition))
    for at in range(5, 10):
        for partition in range(3):
            states.write(key(partition), ShareStateBatch(at, at, ACKNOWLEDGED, 1), start_offset=at)
            told(key(partition))
    states.coordinator.read(key(1), 6, states.now_ms)
    told(key(1))
    states.begin(key(2), state_epoch=2, start_offset=90)
    told(key(2))
    states.coordinator.delete(key(0), states.now_ms)
    told(key(0))
    states.advance(10_000)
    states.write(key(1), ShareStateBatch(11, 12, ARCHIVED, 3), leader_epoch=6, start_offset=10)
    told(key(1))


def said(state: ShareState) -> ShareState:
    """Return the state without the parts that a new snapshot changes."""
    return replace(state, snapshot_epoch=0, create_ms=0, write_ms=0)


def test_after_a_power_loss_at_any_record_all_that_was_answered_is_there_and_life_goes_on() -> None:
    whole = States(PrunedStore(Power()))
    live(whole, {})
    for survived in range(whole.store.power.used):
        states = States(PrunedStore(Power(survived)))
        answered: dict[SharePartitionKey, ShareState] = {}
        with pytest.raises(PowerLossError):
            live(states, answered)
        states.store.power = Power()
        later = States(states.store)
        assert by_log(later) == answered
        for one in list(later.all()):
            later.coordinator.delete(one, 0)
        again: dict[SharePartitionKey, ShareState] = {}
        live(later, again)
        assert {one: said(state) for one, state in by_log(later).items()} == {
            one: said(state) for one, state in again.items()
        }


# In a broker


async def topic_key(served: Served, partition: int = 0) -> SharePartitionKey:
    if (topic := served.broker.services.topics.get("t")) is None:
        await served.ask(create_topic, "t", 4)
        topic = served.broker.services.topics.get("t")
    assert topic is not None
    return SharePartitionKey("g", topic.id, partition)


@pytest.mark.parametrize("flush", [{}, {"log.flush.interval.messages": "1"}])
async def test_a_broker_that_starts_again_goes_on_where_it_was(tmp_path: Path, flush: dict[str, str]) -> None:
    options = {name.replace(".", "_"): text for name, text in flush.items()}
    batch = ShareStateBatch(5, 9, ACKNOWLEDGED, 2)
    async with serving(tmp_path, OsFiles(), **options) as served:
        states = served.broker.services.coordinators.share_states
        one = await topic_key(served)
        assert not await SharePersister(states).initialize(one.group_id, 0, {one.topic_id: {one.partition: 5}})
        states.write(one, WrittenState(0, 3, 5, 5, (batch,)))
        await states.settled(one)
        log_config = served.broker.services.topics.partition(SHARE_STATE_TOPIC, 0).log.config
        assert (log_config.is_compact, log_config.is_delete, log_config.retention_ms) == (False, True, -1)
    async with serving(tmp_path, OsFiles(), **options) as served:
        found = await served.broker.services.coordinators.share_states.read(await topic_key(served), 4)
        assert (found.start_offset, found.batches, found.delivery_complete_count) == (5, (batch,), 5)


async def test_the_log_is_pruned_by_time_that_is_moved_and_the_deleted_topic_leaves_nothing(tmp_path: Path) -> None:
    clock = Clock()
    async with serving(tmp_path, OsFiles(), clock, share_coordinator_state_topic_num_partitions="1") as served:
        states = served.broker.services.coordinators.share_states
        one = await topic_key(served)
        assert not await SharePersister(states).initialize(one.group_id, 0, {one.topic_id: {one.partition: 0}})
        for at in range(600):
            states.write(one, WrittenState(0, 0, at, 0, (ShareStateBatch(at, at, ACKNOWLEDGED, 1),)))
        log = served.broker.services.topics.partition(SHARE_STATE_TOPIC, 0).log
        assert (log.log_start_offset, log.log_end_offset) == (0, 601)
        clock.advance(300_000)
        with trio.fail_after(60):
            while log.log_start_offset < 501:
                await trio.lowlevel.checkpoint()
        (shard,) = states.coordinator.shards
        assert (shard.state, len(shard.states)) == (ShardState.ACTIVE, 1)
        topic = served.broker.services.topics.get("t")
        assert topic is not None
        await served.broker.services.topic_admin.delete(topic)
        with trio.fail_after(60):
            while len(shard.states):
                await trio.lowlevel.checkpoint()
