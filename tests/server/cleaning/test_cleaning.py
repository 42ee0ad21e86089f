"""A clean pass over a partition that another operation needs: it is aborted, and every waiting operation completes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla.server.broker.broker import Broker
from ottla.storage.disk.paths import TopicPartition
from support.broker.admin import set_topic_configs
from support.broker.conversation import create_topic, fetch, produce, records_of
from support.broker.served import Served, serving
from support.disk.gated_files import GatedFiles

T_0 = TopicPartition("t", 0)
BATCHES = 20


@asynccontextmanager
async def in_a_pass(tmp_path: Path) -> AsyncIterator[tuple[Served, GatedFiles]]:
    """Run a broker that is in the middle of its first pass, over topic t."""
    files = GatedFiles()
    async with serving(tmp_path, files, log_cleaner_backoff_ms="1") as served:
        await served.ask(
            create_topic, "t", cleanup_policy="compact", internal_segment_bytes=1000, min_cleanable_dirty_ratio=0
        )
        for number in range(BATCHES):
            await served.ask(produce, "t", (f"k{number % 3}", "v" * 600))
        await files.reached()
        yield served, files


async def set_policy(broker: Broker, policy: str) -> None:
    await set_topic_configs(broker, "t", {"cleanup.policy": policy, "internal.segment.bytes": "1000"})


async def until_free(broker: Broker) -> None:
    while broker.services.cleaning.manager.state_name(T_0) != "not held":
        await trio.lowlevel.checkpoint()


async def offsets(served: Served) -> list[int]:
    found: list[int] = []
    position = 0
    while records := records_of(await served.ask(fetch, "t", position)):
        found += [offset for offset, _, _ in records]
        position = found[-1] + 1
    return found


@pytest.mark.scenario(174)
async def test_a_topic_that_is_no_longer_compacted_keeps_its_records(tmp_path: Path) -> None:
    async with in_a_pass(tmp_path) as (served, files):
        await set_policy(served.broker, "delete")
        files.let_on()
        await until_free(served.broker)
        assert await offsets(served) == list(range(BATCHES))


async def test_a_topic_switched_to_compaction_is_compacted_in_the_end(tmp_path: Path) -> None:
    async with in_a_pass(tmp_path) as (served, files):
        for policy in ("delete", "compact", "delete", "compact"):
            await set_policy(served.broker, policy)
        files.let_on()
        while await offsets(served) == list(range(BATCHES)):
            pass
        assert len(await offsets(served)) < BATCHES
        assert (await offsets(served))[-1] == BATCHES - 1


async def test_a_deletion_waits_for_the_pass_and_not_for_other_waiters(tmp_path: Path) -> None:
    async with in_a_pass(tmp_path) as (served, files):
        broker = served.broker
        topic = broker.services.topics.get("t")
        assert topic is not None
        await set_policy(broker, "delete")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.services.topic_admin.delete, topic)
            while broker.services.topics.get("t") is not None:
                await trio.lowlevel.checkpoint()
            assert (tmp_path / "t-0").exists()
            files.let_on()
        assert not (tmp_path / "t-0").exists()
        assert broker.services.cleaning.manager.state_name(T_0) == "not held"
        assert (await served.ask(create_topic, "t")).error_code == 0
