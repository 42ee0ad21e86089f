"""Timers of the broker around the coordinators: how each is started, how long it takes, how a test sees that it has ended.

The time of such a broker stands still unless a test advances it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
import trio
import trio.testing

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.server.broker.broker import Broker
from ottla.server.client.connection import Client
from ottla.server.partitions.fetch_sessions import EVICTION_AGE_MS
from ottla.server.transactions.writes import TransactionalWrites
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.produce.record_checks import EarlyRefusalError
from support.broker.conversation import create_topic, fetch_request, produce
from support.broker.served import Served
from support.broker.steppable_wall import START_MS
from support.security.logging_in import PLAIN_LINE, log_in

MINUTE_MS = 60_000
T_0 = TopicPartition("t", 0)
SEGMENT = {"internal_segment_bytes": 1_000}
VALUE = "v" * 600

IsOver = Callable[[], Awaitable[bool]]


class BrokerTimer(NamedTuple):
    where: str
    """The function that starts it; see `Timer`."""
    delay_ms: int
    begin: Callable[[Served, Path, trio.Nursery], Awaitable[IsOver]]
    overrides: Mapping[str, str] = MappingProxyType({})


async def fill(served: Served, *, age_ms: int = 0, **configs: Any) -> None:
    """Write three segments of a topic; the last one is active."""
    await served.ask(create_topic, "t", **configs)
    for number in range(3):
        await served.ask(produce, "t", (f"k{number % 2}", VALUE), timestamp=START_MS - age_ms)


def after_a_tick(broker: Broker, holds: Callable[[], bool]) -> IsOver:
    async def is_over() -> bool:
        await broker.background_jobs.tick()
        return holds()

    return is_over


def at_rest(holds: Callable[[], bool]) -> IsOver:
    """Return a check that first waits until all tasks are blocked."""

    async def is_over() -> bool:
        await trio.testing.wait_all_tasks_blocked()
        return holds()

    return is_over


def has_no(directory: Path, pattern: str) -> Callable[[], bool]:
    return lambda: not list(directory.glob(pattern))


async def retained_segments(served: Served, data: Path, nursery: trio.Nursery) -> IsOver:
    await fill(served, age_ms=2 * MINUTE_MS, retention_ms=MINUTE_MS, file_delete_delay_ms=MINUTE_MS, **SEGMENT)
    await served.broker.background_jobs.retain()
    assert list(data.glob("t-0/*.deleted"))
    return after_a_tick(served.broker, has_no(data, "t-0/*.deleted"))


async def compacted_segments(served: Served, data: Path, nursery: trio.Nursery) -> IsOver:
    dirty: dict[str, Any] = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0, **SEGMENT}
    await fill(served, file_delete_delay_ms=MINUTE_MS, **dirty)
    served.broker.clock.advance(MINUTE_MS)
    with trio.fail_after(60):
        while not list(data.glob("t-0/*.deleted")) or served.broker.services.cleaning.manager.is_busy(T_0):
            await trio.sleep(0.001)
    return after_a_tick(served.broker, has_no(data, "t-0/*.deleted"))


async def deleted_topic(served: Served, data: Path, nursery: trio.Nursery) -> IsOver:
    await fill(served, file_delete_delay_ms=MINUTE_MS)
    topic = served.broker.services.topics.get("t")
    assert topic is not None
    await served.broker.services.topic_admin.delete(topic)
    assert list(data.glob("t-0.*-delete"))
    return after_a_tick(served.broker, has_no(data, "t-0.*-delete"))


async def flush_ms(served: Served, data: Path, nursery: trio.Nursery) -> IsOver:
    await fill(served, flush_ms=MINUTE_MS)
    log = served.broker.services.logs.logs[T_0]
    assert log.log_end_offset - log.recovery_point == 3
    return after_a_tick(served.broker, lambda: log.recovery_point == log.log_end_offset)


async def flush_ms_again(served: Served, data: Path, nursery: trio.Nursery) -> IsOver:
    await fill(served, flush_ms=MINUTE_MS)
    log = served.broker.services.logs.logs[T_0]
    served.broker.clock.advance(MINUTE_MS // 2)
    await served.broker.services.appends.flusher.flush([log])
    await served.ask(produce, "t", ("k", VALUE), timestamp=START_MS)
    return after_a_tick(served.broker, lambda: log.recovery_point == log.log_end_offset)


async def lease(served: Served, data: Path, nursery: trio.Nursery) -> IsOver:
    await fill(served, cleanup_policy="compact")
    leases = served.broker.leases
    await leases.pause(T_0, MINUTE_MS)
    return at_rest(lambda: leases.get(T_0) is None)


async def cleaner_back_off(served: Served, data: Path, nursery: trio.Nursery) -> IsOver:
    cleaning = served.broker.services.cleaning
    with trio.fail_after(60):
        while cleaning.looked_at_ms is None:
            await trio.sleep(0.001)
    first_ms = cleaning.looked_at_ms
    return at_rest(lambda: cleaning.looked_at_ms != first_ms)


async def fetch_session(served: Served, data: Path, nursery: trio.Nursery) -> IsOver:
    """Take the only place for a session. The next client gets the place when the first has been silent for long."""
    await fill(served)
    opening = replace(fetch_request("t", 0), session_epoch=0)

    async def is_over() -> bool:
        answer = await trio.to_thread.run_sync(partial(served.client.ask, opening, version=12))
        return bool(answer.session_id)

    assert await is_over()
    return is_over


async def next_transaction(served: Served, data: Path, nursery: trio.Nursery) -> IsOver:
    """Send a Produce that waits for the end of its producer's last transaction."""

    def check(_: TopicPartition) -> None:
        raise EarlyRefusalError(ErrorCode.CONCURRENT_TRANSACTIONS, "not yet")

    writes = TransactionalWrites(
        served.broker.clock,
        served.broker.config.current,
        SimpleNamespace(check=check),  # type: ignore[arg-type]
        waits=True,
    )
    refused = trio.Event()

    async def wait() -> None:
        with pytest.raises(EarlyRefusalError):
            await writes.check(T_0)
        refused.set()

    nursery.start_soon(wait)
    return at_rest(refused.is_set)


async def session(served: Served, data: Path, nursery: trio.Nursery) -> IsOver:
    assert (await served.ask(log_in)).session_lifetime_ms == MINUTE_MS

    async def is_over() -> bool:
        try:
            await served.ask(Client.ask, MetadataRequest(topics=()), 12)
        except ConnectionError:
            return True
        return False

    return is_over


BACK_OFF = {"log_cleaner_backoff_ms": str(MINUTE_MS)}
PATIENCE = dict.fromkeys(
    ["add_partitions_to_txn_retry_backoff_ms", "add_partitions_to_txn_retry_backoff_max_ms"], str(MINUTE_MS)
)

SESSIONS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl_enabled_mechanisms": "PLAIN",
    "sasl_jaas_config": PLAIN_LINE,
    "connections_max_reauth_ms": str(MINUTE_MS),
}

BROKER_TIMERS = {
    "segments after retention": BrokerTimer("cleaning/cleaning.py _delete_some", MINUTE_MS, retained_segments),
    "segments after a clean pass": BrokerTimer("cleaning/clean_pass.py clean", MINUTE_MS, compacted_segments, BACK_OFF),
    "deleted topic": BrokerTimer("cluster/partition_logs.py delete", MINUTE_MS, deleted_topic),
    "flush.ms of a new log": BrokerTimer("cluster/partition_logs.py promise", MINUTE_MS, flush_ms),
    "flush.ms after a flush": BrokerTimer("partitions/flusher.py _sync", MINUTE_MS, flush_ms_again),
    "lease": BrokerTimer("cleaning/leases.py pause", MINUTE_MS, lease),
    "back-off of the cleaner": BrokerTimer("cleaning/cleaning.py _work", MINUTE_MS, cleaner_back_off, BACK_OFF),
    "fetch session": BrokerTimer(
        "handlers/fetch.py _fetch_few",
        EVICTION_AGE_MS + 1,
        fetch_session,
        {"max_incremental_fetch_session_cache_slots": "1"},
    ),
    "session of a client": BrokerTimer("network/authentication/session.py _begin", MINUTE_MS, session, SESSIONS),
    "transaction before": BrokerTimer("transactions/writes.py check", MINUTE_MS, next_transaction, PATIENCE),
}
