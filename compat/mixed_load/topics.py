"""The topics of the load, and what was acknowledged in them."""

import threading
from collections import defaultdict

from confluent_kafka import Message

from ..support.clients.steps import ReadRecord, create_topic

PARTITIONS = 3
KEYS = 400
KEPT, COPIED, COMPACTED, BOTH, SHARED = "kept", "copied", "compacted", "both", "shared"
SMALL = {"segment.bytes": str(1 << 20), "segment.ms": "30000", "file.delete.delay.ms": "5000"}
"""A segment has half a minute: Apache Kafka has none smaller than 1 MiB."""
CLEANED = {"min.cleanable.dirty.ratio": "0.2", "delete.retention.ms": "10000"}
TOPICS = {
    KEPT: {**SMALL, "cleanup.policy": "delete", "retention.bytes": str(2 << 20)},
    COPIED: {**SMALL, "cleanup.policy": "delete", "retention.bytes": str(2 << 20)},
    SHARED: {**SMALL, "cleanup.policy": "delete", "retention.ms": "180000"},
    COMPACTED: {**SMALL, **CLEANED, "cleanup.policy": "compact"},
    BOTH: {**SMALL, **CLEANED, "cleanup.policy": "compact,delete", "retention.ms": "300000"},
}


def create(bootstrap: str) -> None:
    for topic, configs in TOPICS.items():
        create_topic(bootstrap, topic, partitions=PARTITIONS, configs=configs)


class Ledger:
    """The sent and acknowledged records. Values begin with a number, of a partition (delete) or of a key (compact)."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.acknowledged: defaultdict[tuple[str, int], int] = defaultdict(int)
        """(topic, partition) -> how many, which were numbered from 0 on."""
        self.newest: dict[tuple[str, bytes], tuple[int, bool]] = {}
        """(topic, key) -> offset of the newest record that was acknowledged, and whether it is no tombstone."""
        self.refused: list[str] = []

    def delivered(self, error: object, message: Message) -> None:
        """Note a delivery: the producer's callback."""
        with self.lock:
            if error is not None:
                self.refused.append(str(error))
            elif message.key() is None:
                self.acknowledged[message.topic(), message.partition()] += 1
            else:
                place = (message.topic(), message.key())
                had, _ = self.newest.get(place, (-1, False))
                if message.offset() > had:
                    self.newest[place] = (message.offset(), message.value() is not None)


def numbered(number: int, size: int) -> bytes:
    return b"%d %s" % (number, b"v" * size)


def number_of(value: bytes) -> int:
    return int(value.partition(b" ")[0])


class Sequence:
    """Numbers of one partition as a reader sees them: each follows the one before, or, read again, was there before."""

    def __init__(self, *, again: bool = False) -> None:
        self.again, self.next, self.first = again, -1, -1
        self.wrong: list[str] = []

    def see(self, number: int) -> None:
        if self.next == -1:
            self.first = self.next = number
        if number > self.next or (number < self.next and not self.again):
            self.wrong.append(f"{number} in place of {self.next}")
        self.next = max(self.next, number + 1)


def missing(records: list[ReadRecord], expected: int) -> str:
    """Return the error of a partition whose records are numbered: gaps, or an end that is not `expected`; empty if correct."""
    sequence = Sequence()
    for record in records:
        sequence.see(number_of(record.value or b"-1"))
    if sequence.wrong:
        return f"{len(sequence.wrong)} times out of order, first {sequence.wrong[0]}"
    return "" if sequence.next == expected else f"ends before {sequence.next}, not {expected}"


def stale(records: list[ReadRecord], topic: str, ledger: Ledger) -> list[str]:
    """Return the keys whose newest acknowledged value is not the newest in the log, or whose deleted value has reappeared."""
    found = {record.key: (record.offset, record.value is not None) for record in records}
    wrong = []
    for (of, key), (offset, lives) in ledger.newest.items():
        if of == topic and (lives or key in found):
            at, is_there = found.get(key, (-1, False))
            if at != offset or is_there != lives:
                wrong.append(f"{key.decode()}: offset {at}, not {offset}")
    return wrong
