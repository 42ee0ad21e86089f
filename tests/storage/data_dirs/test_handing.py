"""A log goes from one process to another, each with a data directory, and power is lost at every step of it."""

from __future__ import annotations

import random

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.paths import LOG_START_CHECKPOINT, TopicPartition
from ottla.storage.logs.log import Log
from support.disk.crash_files import CrashFiles, power_losses
from support.lives.moved_life import CONFIG, TOPIC_ID, A, started
from support.logs.make_log import append, contents

WRITTEN = [(b"k1", b"v"), (b"k2", b"v"), (b"k1", b"w"), (b"k3", b"w")]


def process(files: CrashFiles, data_dir: str) -> LogManager:
    """What one process has."""
    manager = LogManager(files, [data_dir], rng=random.Random(0))
    manager.load(0, 0, config_for=lambda each: CONFIG if each == A else None)
    return manager


def made(files: CrashFiles) -> tuple[LogManager, LogManager, Log]:
    """Two processes, of which the first has a log of two segments; its first record was deleted. All of it is on disk."""
    giver, taker = process(files, "/d"), process(files, "/e")
    (log,) = giver.create([A], topic_id=TOPIC_ID, config=CONFIG, now_ms=0, elapsed_ms=0)
    append(log, ("k1", "v"), ("k2", "v"), roll=True)
    append(log, ("k1", "w"), ("k3", "w"))
    log.flush(0)
    log.advance_log_start(1)
    giver.save_log_starts("/d")
    return giver, taker, log


def handed_over(giver: LogManager, taker: LogManager, log: Log) -> Log:
    leaving, coming = giver.handing(), taker.handing()
    leaving.let_go([log])
    given = leaving.give(log, 0, clean_up_to=None)
    coming.expect([given])
    taken = coming.take(given, CONFIG, TOPIC_ID, 0, 0)
    coming.enter([taken])
    leaving.forget([A])
    giver.checkpoint_log_starts()
    return taken


def values(log: Log) -> list[tuple[bytes | None, bytes | None]]:
    return [(key, value) for _, key, value in contents(log)]


def test_it_goes_on_where_it_came() -> None:
    files = CrashFiles()
    giver, taker, log = made(files)
    taken = handed_over(giver, taker, log)
    assert (dict(giver.logs), taker.logs[A] is taken, taken.directory) == ({}, True, "/e/a-0")
    assert (taken.log_start_offset, taken.log_end_offset) == (1, 4)
    append(taken, ("k4", "x"))
    assert values(taken)[-3:] == [(b"k1", b"w"), (b"k3", b"w"), (b"k4", b"x")]
    starts = [OffsetCheckpoint(files, f"{each}/{LOG_START_CHECKPOINT}").read() for each in ("/d", "/e")]
    assert starts == [{}, {A: 1}]


def test_who_still_has_the_old_one_is_told_to_go_elsewhere() -> None:
    giver, taker, log = made(CrashFiles())
    handed_over(giver, taker, log)
    with pytest.raises(KafkaError) as refused:
        append(log, ("k4", "x"))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log.is_elsewhere


def test_what_lies_in_its_way_is_put_aside() -> None:
    files = CrashFiles()
    giver, taker, log = made(files)
    files.make_dir("/e/a-0")
    assert values(handed_over(giver, taker, log)) == values(log)
    assert [name for name in files.list("/e") if name.endswith("-stray")] != []


@pytest.mark.parametrize("ordered", [True, False])
def test_nothing_is_lost_whenever_the_power_goes(ordered: bool) -> None:
    before = CrashFiles()
    _, _, log = made(before)
    log.files.sync_dir("/d")

    def scenario(files: CrashFiles) -> None:
        giver, taker = process(files, "/d"), process(files, "/e")
        handed_over(giver, taker, giver.logs[A])

    unlocked = before.copy()
    lost = 0
    for files in power_losses(scenario, unlocked, ordered=ordered):
        found = started(files).logs[TopicPartition("a", 0)]
        assert (found.log_start_offset, found.log_end_offset) == (1, 4)
        assert values(found)[-2:] == WRITTEN[-2:]
        lost += 1
    assert lost > 10
