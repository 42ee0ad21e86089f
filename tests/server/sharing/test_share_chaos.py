"""Share groups on several nodes under random events, compared with a model after every step."""

from __future__ import annotations

import pytest

from ottla.server.handlers import share_sessions
from ottla.server.sharing import leaders
from support.broker.in_process_broker import run_in_order, running
from support.disk.crash_files import CrashFiles
from support.sharing.chaos import Chaos
from support.sharing.chaos_broker import NODES, OPTIONS
from support.sizes import size

LIVES, STEPS = size((3, 100), (4, 150))
SEEN = {"accepted", "crash", "delivered", "expelled", "node restarted", "released", "t moved", "woken"}
"""Events that happen in every history, among others."""


async def lives_of(chaos: Chaos) -> None:
    files = CrashFiles()
    for _ in range(LIVES):
        async with running(files, NODES, **OPTIONS) as (broker, _):
            await chaos.live(broker, files, STEPS)
            end = chaos.rng.choice(["stopped", "killed", "power lost"])
            chaos.seen.add(end)
            left = files
            if end == "killed":
                left = files.copy()
            elif end == "power lost":
                left = next(files.after_crash(ordered=True))
        files = left
        files.refuse = None
        files.new_process()
    async with running(files, NODES, **OPTIONS) as (broker, _):
        await chaos.live(broker, files, 0)
        await chaos.finish()


@pytest.mark.parametrize("seed", size((1,), range(8)))
def test_no_record_is_lost_and_no_finished_record_returns(seed: int) -> None:
    chaos = Chaos(seed)
    run_in_order(lambda: lives_of(chaos))
    assert chaos.seen >= SEEN, f"nothing was seen of {SEEN - chaos.seen}"


@pytest.mark.parametrize("seed", size([101], [100, 101]))
def test_no_record_is_lost_or_returns_when_work_needs_many_slices(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in leaders, share_sessions:
        monkeypatch.setattr(module, "RUNS_AT_ONCE", 1)
    monkeypatch.setattr(leaders, "LET_GO_AT_ONCE", 0)
    test_no_record_is_lost_and_no_finished_record_returns(seed)
