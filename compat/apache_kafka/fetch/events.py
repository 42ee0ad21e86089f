"""Events while a fetch waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from .asking import Answer, Ask, Side, Want
from .cases import BATCH, LIMIT, SEGMENT

WAIT_MS = 1_000
IN_VAIN_MS = 500
"""An answer this long after the event was not caused by it."""
EVENT_AFTER_S = 0.1


class Event(NamedTuple):
    """A topic of its own, a waiting fetch of it, and an event."""

    prepare: Callable[[Side, str], None]
    wants: tuple[tuple[int, int, int], ...]
    """(partition, offset, max_bytes) each."""
    min_bytes: int
    committed: bool
    happen: Callable[[Side, str], None]


def empty(side: Side, topic: str) -> None:
    side.create(topic, 2)


def nearly_full(side: Side, topic: str) -> None:
    side.create(topic, **SEGMENT)
    side.produce(topic, [BATCH] * 8)


def in_transaction(side: Side, topic: str) -> None:
    side.create(topic)
    side.begin(topic, topic)
    side.produce_in(topic, topic, [10_000])


def batches(*partitions: int, size: int = 10_000) -> Callable[[Side, str], None]:
    def happen(side: Side, topic: str) -> None:
        for partition in partitions:
            side.produce(topic, [size], partition=partition)

    return happen


def ended(*, commit: bool) -> Callable[[Side, str], None]:
    return lambda side, topic: side.end(topic, commit=commit)


EVENTS = {
    "a record": Event(empty, ((0, 0, LIMIT),), 1, False, batches(0)),
    "the third batch fills min_bytes": Event(empty, ((0, 0, LIMIT),), 25_000, False, batches(0, 0, 0)),
    "two partitions fill min_bytes": Event(empty, ((0, 0, LIMIT), (1, 0, LIMIT)), 25_000, False, batches(0, 1, 0)),
    "more than a partition may give": Event(empty, ((0, 0, 15_000),), 25_000, False, batches(0, 0, 0)),
    "what one may not give comes from another": Event(
        empty, ((0, 0, 15_000), (1, 0, LIMIT)), 25_000, False, batches(0, 0, 0, 1)
    ),
    "a batch larger than the limit": Event(empty, ((0, 0, 5_000),), 8_000, False, batches(0)),
    "a roll": Event(nearly_full, ((0, 8, LIMIT),), 2_000_000, False, batches(0, 0, 0, size=BATCH)),
    "a roll, read from the middle": Event(
        nearly_full, ((0, 6, LIMIT),), 2_000_000, False, batches(0, 0, 0, size=BATCH)
    ),
    "growth behind an open transaction": Event(in_transaction, ((0, 0, LIMIT),), 1, True, batches(0, 0)),
    "a commit": Event(in_transaction, ((0, 0, LIMIT),), 1, True, ended(commit=True)),
    "an abort": Event(in_transaction, ((0, 0, LIMIT),), 10_000, True, ended(commit=False)),
    "a commit, read without isolation": Event(in_transaction, ((0, 1, LIMIT),), 1, False, ended(commit=True)),
}


def run(side: Side, event: Event, topic: str) -> tuple[Answer, float]:
    """Return the answer with the topic's name taken out, and the milliseconds from the end of the event to it."""
    event.prepare(side, topic)
    wants = tuple(Want(topic, offset, max_bytes, partition) for partition, offset, max_bytes in event.wants)
    ask = Ask(wants, min_bytes=event.min_bytes, committed=event.committed, wait_ms=WAIT_MS)
    side.send(ask)
    time.sleep(EVENT_AFTER_S)
    event.happen(side, topic)
    begun_s = time.perf_counter()
    answer = side.receive(ask)
    took_ms = (time.perf_counter() - begun_s) * 1000
    return answer._replace(partitions=tuple(row._replace(topic="") for row in answer.partitions)), took_ms
