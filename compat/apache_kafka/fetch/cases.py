"""The topics, and the fetches of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

from .asking import Ask, Side, Want

BATCH = 100_000
"""Bytes of a value in the topics of large batches; ten batches fill a segment."""
SEGMENT = {"segment_bytes": str(1 << 20)}
LIMIT = 50 << 20
VERSIONS = (4, 7, 11, 12, 13, 17)

ENDS = {"segments": 35, "one_segment": 20, "small": 40, "empty": 0, "decided": 15, "open": 16, "open_old": 36}
"""The log end of each topic."""
STABLE = {"open": 7, "open_old": 13}
"""The last stable offset, where it is not the end."""


def fill(side: Side) -> None:
    side.create("segments", **SEGMENT)
    side.produce("segments", [BATCH] * 35)
    side.create("one_segment")
    side.produce("one_segment", [10_000] * 20)
    side.create("small")
    side.produce("small", [50] * 40)
    side.create("empty")
    side.create("decided")
    for number, commit in enumerate((True, False, True, False, False)):
        side.begin(f"decided-{number}", "decided")
        side.produce_in(f"decided-{number}", "decided", [3_000, 3_000])
        side.end(f"decided-{number}", commit=commit)
        wait_for_marker(side, "decided", 3 * (number + 1))
    side.create("open")
    side.produce("open", [3_000] * 7)
    side.begin("open", "open")
    side.produce_in("open", "open", [3_000] * 4)
    side.produce("open", [3_000] * 5)
    side.create("open_old", **SEGMENT)
    side.produce("open_old", [BATCH] * 13)
    side.begin("open_old", "open_old")
    side.produce_in("open_old", "open_old", [BATCH])
    side.produce("open_old", [BATCH] * 22)


def wait_for_marker(side: Side, topic: str, end: int) -> None:
    asked = Ask((Want(topic, 0, 1),), min_bytes=0)
    while side.ask(asked)[0].partitions[0].last_stable_offset < end:
        pass


def differs_on_purpose(ask: Ask) -> bool:
    """Return whether a difference is intended: above the last stable offset Ottla waits, and Apache Kafka answers at once."""
    return ask.committed and any(
        STABLE.get(want.topic, 1 << 60) < want.offset <= ENDS[want.topic] for want in ask.wants
    )


def one_partition() -> Iterator[Ask]:
    """Yield every combination of offset, `min_bytes`, limits and isolation level."""
    offsets = {
        "segments": (0, 5, 9, 10, 29, 30, 33, 34, 35, 36),
        "one_segment": (0, 10, 19, 20),
        "small": (0, 39, 40),
        "empty": (0, 1),
        "decided": (0, 4, 15),
        "open": (0, 6, 7, 11, 16),
        "open_old": (0, 9, 10, 12, 13, 29, 30, 35),
    }
    sizes = {"small": 119, "one_segment": 10_073, "decided": 3_073, "open": 3_073}
    for topic, wanted in offsets.items():
        size = sizes.get(topic, BATCH + 75)
        limits = (1, int(2.5 * size), 1 << 20, LIMIT)
        for offset, max_bytes, least, committed in product(
            wanted, limits, (0, 1, 2 * size, int(2.5 * size), 10 * size, 2_000_000), (False, True)
        ):
            yield Ask((Want(topic, offset, max_bytes),), min_bytes=least, committed=committed)


def limits() -> Iterator[Ask]:
    """Yield limits of the whole answer, waiting or not, in every version."""
    for version, max_bytes, least, wait_ms in product(VERSIONS, (0, 1, 250_000, LIMIT), (1, 300_000, LIMIT), (0, 250)):
        wants = Want("one_segment", 3, 1 << 20), Want("small", 0, 1 << 20)
        yield Ask(wants, min_bytes=least, max_bytes=max_bytes, version=version, wait_ms=wait_ms)


def errors() -> Iterator[Ask]:
    """Yield fetches of one partition with an error, alone or with another partition that has records, not enough, or none."""
    wrongs = (
        Want("nowhere", 0, LIMIT),
        Want("small", 0, LIMIT, partition=7),
        Want("small", 41, LIMIT),
        Want("small", -1, LIMIT),
        Want("small", 0, LIMIT, leader_epoch=9),
        Want("small", 0, LIMIT, last_fetched_epoch=9),
        Want("small", 40, LIMIT, last_fetched_epoch=0),
    )
    for wrong, version in product(wrongs, (12, 13, 17)):
        for beside in ((), (Want("empty", 0, LIMIT),), (Want("one_segment", 0, LIMIT),)):
            for least in (1, 1 << 20):
                yield Ask((wrong, *beside), min_bytes=least, version=version)


def several(rng: random.Random) -> Iterator[Ask]:
    """Yield fetches of random partitions, without end."""
    while True:
        topics = rng.sample([*ENDS], rng.randint(2, 5))
        yield Ask(
            tuple(
                Want(topic, rng.randint(0, ENDS[topic]), rng.choice((1, 5_000, 30_000, 250_000, 1 << 20)))
                for topic in topics
            ),
            min_bytes=rng.choice((0, 1, 1, 5_000, 60_000, 400_000, 3_000_000)),
            max_bytes=rng.choice((1, 40_000, 250_000, LIMIT, LIMIT)),
            committed=rng.random() < 0.5,
            version=rng.choice(VERSIONS),
        )


def session(rng: random.Random, steps: int) -> Iterator[Ask]:
    """Yield the fetches of one session: all partitions first, then changes, additions and removals, often none."""
    version, committed = rng.choice(VERSIONS[1:]), rng.random() < 0.5
    present = rng.sample([*ENDS], 4)

    def want(topic: str) -> Want:
        return Want(topic, rng.randint(0, STABLE.get(topic, ENDS[topic])), rng.choice((5_000, 250_000, 1 << 20)))

    yield Ask(tuple(map(want, present)), version=version, committed=committed)
    for _ in range(steps):
        moved = rng.sample(present, rng.choice((0, 0, 1, 2)))
        forget: tuple[tuple[str, int], ...] = ()
        if rng.random() < 0.3 and len(present) > 2:
            gone = rng.choice([topic for topic in present if topic not in moved] or present)
            present.remove(gone)
            moved, forget = [topic for topic in moved if topic != gone], ((gone, 0),)
        elif rng.random() < 0.3:
            new = [topic for topic in ENDS if topic not in present]
            if new:
                present.append(rng.choice(new))
                moved.append(present[-1])
        yield Ask(
            tuple(map(want, moved)),
            min_bytes=rng.choice((1, 1, 400_000)),
            version=version,
            committed=committed,
            forget=forget,
        )
