"""Logs with everything in them that a cleaner has to mind, written through Ottla's storage floor.

No client can make these: time is given, transactions need no coordinator, and one stays open. Chance is seeded by the
topic's name.
"""

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from ottla.protocol.batch_builder import RecordParts, build_batch
from ottla.storage.cleaning.cleaner import Cleaner
from ottla.storage.cleaning.dirtiness import measure
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.logs.log_parts import LogPlace, ShutdownState
from ottla.storage.logs.recovery import load_log
from ottla.storage.produce.validation import AppendOrigin
from ottla.storage.topics.config import LogConfig

from ..support.clients.steps import CODECS

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
KEYS, BATCHES_A_SEGMENT = 400, 25
COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": str(HOUR_MS), "index.interval.bytes": "512"}
PRODUCERS = (1, 2, 3)
ONCE_ONLY = 100
"""Ids from here on write one batch each, of keys that others write again: its sequence number outlives its records."""
ABORT, COMMIT = 0, 1

Version = tuple[int, bytes | None]
"""(offset of the batch, value), None in a tombstone. Of one batch the last counts."""


@dataclass
class Partition:
    """Partition 0 of a topic, and what it should hold when all is written."""

    topic: str
    codec: int
    configs: dict[str, str]
    transactional: bool = False
    newest: dict[bytes, Version] = field(default_factory=dict)
    """Key -> its newest version that is not aborted."""


def partitions() -> list[Partition]:
    stamped = COMPACTED | {"message.timestamp.type": "LogAppendTime"}
    return [
        *(Partition(f"cleaned-{name}", codec, COMPACTED) for codec, name in enumerate(CODECS)),
        *(Partition(f"cleaned-txn-{name}", codec, COMPACTED, True) for codec, name in enumerate(CODECS)),
        *(Partition(f"cleaned-stamped-{name}", codec, stamped) for codec, name in enumerate(CODECS)),
    ]


class Writer:
    """The open log of one partition: more segments, or a clean pass."""

    def __init__(self, data: Path, partition: Partition) -> None:
        self.partition = partition
        self.rng = Random(partition.topic)
        self.now_ms = START_MS
        self.first_dirty = 0
        self.sequences: dict[int, int] = {}
        self.undecided: dict[int, dict[bytes, Version]] = {}
        directory = data / f"{partition.topic}-0"
        directory.mkdir(exist_ok=True)
        self.directory = str(directory)
        self.log = self._load()

    def _load(self) -> Log:
        return load_log(
            LogPlace(OsFiles(), self.directory, TopicPartition(self.partition.topic, 0)),
            LogConfig.from_texts(self.partition.configs),
            ShutdownState(is_clean=True),
            now_ms=self.now_ms,
            rng=self.rng,
        )

    def write_segments(self, count: int, *, first: int) -> None:
        """Write `count` segments; `first` numbers them on over several calls. The active segment stays empty."""
        for number in range(first, first + count):
            self._append(ONCE_ONLY + number, [(b"key-%d" % key, b"once") for key in range(20)])
            for _ in range(BATCHES_A_SEGMENT):
                self.now_ms += self.rng.randrange(2_000)
                producer = self.rng.choice(PRODUCERS if self.partition.transactional else (-1, *PRODUCERS))
                self._append(producer, [self._pair() for _ in range(self.rng.randrange(1, 30))])
                if producer in self.undecided and self.rng.random() < 0.3:
                    self._end(producer, self.rng.choice((ABORT, COMMIT)))
            self.log.roll(self.now_ms)

    def leave_one_open(self) -> None:
        """End all transactions but one that begins now."""
        for producer in list(self.undecided):
            self._end(producer, COMMIT)
        if self.partition.transactional:
            self._append(PRODUCERS[0], [(b"key-0", b"undecided")])

    def _pair(self) -> tuple[bytes, bytes | None]:
        rng = self.rng
        number = rng.randrange(KEYS)
        key = b"" if number == 0 else b"key-%d" % number + bytes(100 * (number % 10 == 0))
        value = None if rng.random() < 0.2 else rng.randbytes(rng.choice((0, 1, 10, 200))) * rng.choice((1, 1, 5))
        return key, value

    def _append(self, producer_id: int, pairs: list[tuple[bytes, bytes | None]]) -> None:
        rng = self.rng
        transactional = self.partition.transactional and 0 <= producer_id < ONCE_ONLY
        rows: list[RecordParts] = [
            (at, self.now_ms - rng.randrange(500), key, value, [("h", b"%d" % at), ("null", None)] * rng.randrange(3))
            for at, (key, value) in enumerate(pairs)
        ]
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        self.sequences[producer_id] = sequence + len(rows)
        sent = build_batch(
            rows,
            codec=self.partition.codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
        offset = self.log.append(memoryview(sent), now_ms=self.now_ms).base_offset
        versions = self.undecided.setdefault(producer_id, {}) if transactional else self.partition.newest
        versions.update({key: (offset, value) for key, value in pairs})

    def _end(self, producer_id: int, kind: int) -> None:
        key, value = b"\0\0" + kind.to_bytes(2, "big"), bytes(6)  # versions 0; the coordinator's epoch is 0
        marker = build_batch(
            [(0, self.now_ms, key, value, ())],
            producer_id=producer_id,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
        self.log.append(memoryview(marker), now_ms=self.now_ms, origin=AppendOrigin.COORDINATOR)
        written = self.undecided.pop(producer_id)
        if kind == COMMIT:
            newest = self.partition.newest
            newest.update(
                {key: version for key, version in written.items() if version[0] > newest.get(key, (-1, None))[0]}
            )

    def clean(self, *, hours_later: int) -> None:
        """Clean all that is dirty in one pass, after the clock moves on by that many hours."""
        self.now_ms += hours_later * HOUR_MS
        cleaner = Cleaner(dedupe_buffer_bytes=8 << 20, load_factor=0.9, io_buffer_bytes=1 << 14)
        self.first_dirty, _ = cleaner.clean(
            measure(self.log, self.first_dirty, self.now_ms).for_worker(),
            self.now_ms,
            secret=self.rng.randbytes(16),
            swap=lambda new, old: self.log.replace_segments(new, old, self.now_ms),
            checkpoint=lambda _: None,
        )

    def reopen(self) -> None:
        """Write the files of a clean stop, so that they can be inspected, and continue."""
        self.log.close(self.now_ms)
        self.log = self._load()

    def close(self) -> None:
        self.log.close(self.now_ms)
