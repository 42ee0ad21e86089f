"""A run of the whole server on a disk that loses power, whose process is killed, or that refuses one operation.

Tests a part of all cases; `python -m compat.server_crashes` goes through all. `pytest -s` prints their number.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from ottla.server.sharing.state_batches import ShareStateBatch
from ottla.storage.disk.paths import CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_CHECKPOINT
from support.broker.in_process_broker import run_in_order
from support.disk.crash_files import CrashFiles
from support.disk.crash_subsets import CHANGES_MAX
from support.lives import moving_life, share_life
from support.lives.server_crashes import (
    DAYS,
    FLUSHED,
    MOVES,
    SHARES,
    operations_of,
    power_losses,
    refusals,
)
from support.lives.server_life import Found, Ledger, check, live, restart_and_look
from support.sizes import size

CHANGES_MAX_SEEN = size(6, CHANGES_MAX)


@pytest.fixture(scope="module")
def whole_life() -> tuple[Found, Ledger]:
    """Return the result of an undisturbed run, and its answers."""
    files, ledger = CrashFiles(), Ledger()

    async def work() -> None:
        await live(files, ledger, **FLUSHED)

    run_in_order(work)
    return restart_and_look(files.copy(), **FLUSHED), ledger


def test_an_undisturbed_run_is_restored_as_acknowledged(whole_life: tuple[Found, Ledger]) -> None:
    found, ledger = whole_life
    check(found, ledger.owed)
    assert ledger.told == 28, "not everything in it was answered well"
    assert found.records == {"a": ("plain-2", "txn-1", "txn-3"), "b": ("plain-2",)}
    assert found.offsets["transactional", "a"] == 33


def test_with_flush_messages_everything_answered_survives_power_losses_and_kills() -> None:
    counts = power_losses(thinned_to=size(800, 80), moments_thinned_to=5, killed_thinned_to=size(96, 16))
    print(counts)
    assert not counts.failures
    assert counts.after_one_loss > size(5, 80) and counts.settled > size(2, 20)


@pytest.mark.parametrize("code, for_good", [(errno.ENOSPC, False), (errno.EIO, True)], ids=["once", "for good"])
def test_acknowledgements_of_a_refusing_disk_are_found_later(code: int, for_good: bool) -> None:
    refused = refusals(
        code,
        first=7 * for_good + 3,
        step=size(184, 23),
        for_good=for_good,
        thinned_to=size(32, 64),
        changes_max=CHANGES_MAX_SEEN,
    )
    print(refused)
    assert not refused.failures
    assert refused.disks >= refused.lives > size(1, 9)


OPERATIONS = """
from support.lives.server_crashes import DAYS, MOVES, SHARES, operations_of

for script in (DAYS, MOVES, SHARES):
    print(*operations_of(script), sep="\\n")
"""


def test_a_run_has_the_same_operations_in_every_process() -> None:
    """Otherwise each run would lose power before other operations: the order of sets of names depends on the hash seed."""
    here = [str(each) for script in (DAYS, MOVES, SHARES) for each in operations_of(script)]
    assert len(here) > 1_000, "all three lives"
    for seed in [seed for seed in ("0", "1", "2") if seed != os.environ.get("PYTHONHASHSEED")][: size(1, 2)]:
        there = subprocess.run(
            [sys.executable, "-c", OPERATIONS],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.splitlines()
        assert there == here, f"seed {seed}"


def test_a_stray_client_does_not_change_the_operations_of_a_run() -> None:
    """Ports are reused: a client that looks for the broker of another test may find this one."""
    files, knocks = CrashFiles(), list[socket.socket]()

    async def knock(life: share_life.ShareLife) -> None:
        knocks.append(socket.create_connection(("127.0.0.1", life.broker.nodes[0].listeners[0].port)))
        await share_life.DAYS[len(knocks) - 1](life)

    run_in_order(partial(share_life.live, files, Ledger(), [knock] * len(share_life.DAYS)))
    for each in knocks:
        each.close()
    assert tuple(files.operations) == operations_of(SHARES)


@pytest.mark.parametrize("lost", ["a-0", "b-0", "__consumer_offsets-0"])
def test_losses_are_noticed(lost: str) -> None:
    """A check that finds nothing wrong must be able to find something."""
    files, ledger = CrashFiles(), Ledger()

    async def work() -> None:
        await live(files, ledger, **FLUSHED)

    run_in_order(work)
    for name in files.list(f"/data/{lost}"):
        if name.endswith(".log"):
            files.open(f"/data/{lost}/{name}", truncate=True)
    files.remove(f"/data/{CLEAN_SHUTDOWN_FILE}")
    files.remove(f"/data/{RECOVERY_POINT_CHECKPOINT}")
    with pytest.raises(AssertionError):
        check(restart_and_look(files, **FLUSHED), ledger.owed)


# Moves between data directories


def test_an_undisturbed_run_of_moves_is_restored_as_acknowledged() -> None:
    files, ledger = CrashFiles(), Ledger()
    run_in_order(partial(moving_life.live, files, ledger))
    found = moving_life.restart_and_look(files.copy())
    moving_life.check(found, ledger.owed)
    assert ledger.told == 16, "not everything in it was answered well"
    assert found.records == {"a": tuple("23456789"), "b": ("2",)}


def test_moves_outlive_power_losses_and_kills() -> None:
    counts = power_losses(MOVES, thinned_to=400, moments_thinned_to=size(80, 40), killed_thinned_to=size(160, 80))
    print(counts)
    assert not counts.failures
    assert counts.settled > size(1, 3)


@pytest.mark.parametrize("code, for_good", [(errno.ENOSPC, False), (errno.EIO, True)], ids=["once", "for good"])
def test_moves_outlive_a_disk_that_refuses(code: int, for_good: bool) -> None:
    refused = refusals(
        code,
        MOVES,
        first=11 * for_good + 5,
        step=size(291, 97),
        for_good=for_good,
        thinned_to=size(64, 512),
        changes_max=CHANGES_MAX_SEEN,
    )
    print(refused)
    assert not refused.failures
    assert refused.disks >= refused.lives > size(1, 5)


# States of share partitions


def test_an_undisturbed_run_of_share_states_is_restored_as_acknowledged() -> None:
    files, ledger = CrashFiles(), Ledger()
    run_in_order(partial(share_life.live, files, ledger))
    share_life.check(share_life.restart_and_look(files.copy()), ledger.owed)
    assert ledger.told == 18, "not everything in it was answered well"


def test_share_states_are_pruned_and_their_losses_noticed() -> None:
    files, ledger = CrashFiles(), Ledger()

    async def work() -> None:
        await share_life.live(files, ledger, share_life.DAYS[:2])

    run_in_order(work)
    found = share_life.restart_and_look(files.copy())
    assert found.states == {"g": (12, (ShareStateBatch(12, 12, share_life.ACKNOWLEDGED, 1),))}
    assert found.start_offset > 10
    for name in files.list("/data/__share_group_state-0"):
        if name.endswith(".log"):
            files.open(f"/data/__share_group_state-0/{name}", truncate=True)
    files.remove(f"/data/{CLEAN_SHUTDOWN_FILE}")
    with pytest.raises(AssertionError):
        share_life.check(share_life.restart_and_look(files), ledger.owed)


def test_share_states_outlive_power_losses_and_kills() -> None:
    counts = power_losses(
        SHARES,
        thinned_to=size(200, 400),
        moments_thinned_to=size(220, 40),
        killed_thinned_to=size(480, 80),
    )
    print(counts)
    assert not counts.failures
    assert counts.after_one_loss > size(1, 80) and counts.settled > size(0, 3)


@pytest.mark.parametrize("code, for_good", [(errno.ENOSPC, False), (errno.EIO, True)], ids=["once", "for good"])
def test_share_states_outlive_a_disk_that_refuses(code: int, for_good: bool) -> None:
    refused = refusals(
        code,
        SHARES,
        first=11 * for_good + 5,
        step=size(236, 59),
        for_good=for_good,
        thinned_to=size(256, 2048),
        changes_max=CHANGES_MAX_SEEN,
    )
    print(refused)
    assert not refused.failures
    assert refused.disks >= refused.lives > size(1, 3)
