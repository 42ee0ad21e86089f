"""Pauses of partitions whose clean pass failed for a reason that may pass."""

from __future__ import annotations

from ottla.storage.cleaning.retries import PAUSE_MS_MAX, PAUSE_MS_MIN, Retries
from ottla.storage.disk.paths import TopicPartition

T, U = TopicPartition("t", 0), TopicPartition("u", 0)


def test_each_failure_doubles_the_pause_up_to_a_limit() -> None:
    retries, now_ms, pauses_ms = Retries(), 1_000, []
    for _ in range(8):
        now_ms = retries.put_off(T, "disk full", now_ms).at_ms
        found = retries.waiting(T, now_ms - 1)
        assert found is not None and retries.waiting(T, now_ms) is None
        pauses_ms.append(found.pause_ms)
    assert pauses_ms == [15_000, 30_000, 60_000, 120_000, 240_000, 480_000, 600_000, 600_000]
    assert (pauses_ms[0], pauses_ms[-1]) == (PAUSE_MS_MIN, PAUSE_MS_MAX)


def test_a_success_forgets_the_failures() -> None:
    retries = Retries()
    retries.put_off(T, "disk full", 0)
    assert retries.waiting(T, 1) == ("disk full", PAUSE_MS_MIN, PAUSE_MS_MIN)
    assert retries.waiting(U, 1) is None
    retries.end(T)
    assert retries.waiting(T, 1) is None
    assert retries.put_off(T, "disk full", 0).pause_ms == PAUSE_MS_MIN


def test_a_clock_that_is_set_back_ends_the_pause() -> None:
    retries = Retries()
    retries.put_off(T, "disk full", 1_000_000)
    assert retries.waiting(T, 1_000_000) is not None
    assert retries.waiting(T, 999_999) is None
