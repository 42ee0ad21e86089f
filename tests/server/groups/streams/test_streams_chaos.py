"""Streams groups on three nodes under random events, compared with a model after every step."""

from __future__ import annotations

import os
from functools import cache

import pytest

from support.broker.in_process_broker import run_in_order, running
from support.disk.crash_files import CrashFiles
from support.groups.streams_chaos import NODES, StreamsChaos
from support.sizes import FULL

LIVES, STEPS = 3, 40
SEEDS = range(int(os.environ.get("OTTLA_STREAMS_CHAOS_SEEDS", "12"))) if FULL else (6, 8)
"""Seeds: more of them for a nightly run; a short run has two in which every event happens."""
SEEN = {
    *("ASSIGNMENT_DELAYED", "MISSING_INTERNAL_TOPICS", "STALE_TOPOLOGY"),
    *("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "another node", "answer lost", "crashed", "given other tasks"),
    *("internal topic deleted", "left", "moved", "node started", "node stopped", "other topology", "refused"),
    *("topic grown", "went on", "stopped", "killed", "power lost", "power lost in a heartbeat"),
}
"""Events that happen in some history."""


async def lives_of(chaos: StreamsChaos) -> None:
    files = CrashFiles()
    for _ in range(LIVES):
        async with running(files, NODES, **chaos.options) as (broker, _):
            await chaos.live(broker, files, STEPS)
            left = chaos.cut or files
            if chaos.cut is None:
                end = chaos.rng.choice(["stopped", "killed", "power lost"])
                chaos.seen.add(end)
                if end == "killed":
                    left = files.copy()
                elif end == "power lost":
                    left = next(files.after_crash(ordered=True))
        files = left
        files.refuse = None
        files.new_process()
    async with running(files, NODES, **chaos.options) as (broker, _):
        await chaos.live(broker, files, 0)
        await chaos.finish()


@cache
def seen_in(seed: int) -> frozenset[str]:
    chaos = StreamsChaos(seed)
    run_in_order(lambda: lives_of(chaos))
    return frozenset(chaos.seen)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_task_has_two_owners_and_finally_each_has_one(seed: int) -> None:
    assert seen_in(seed)


def test_every_kind_of_event_occurs_in_some_history() -> None:
    seen = frozenset[str]().union(*map(seen_in, {*SEEDS, 6, 8}))
    assert seen >= SEEN, f"nothing was seen of {SEEN - seen}"
