"""All hard cases: what each looks like, what it reveals, and what a right client reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

DAY_MS = 24 * 60 * 60 * 1000
FAR = 2**31 + 10
"""An offset that does not fit behind offset 0 in one segment, whose entries have 31 bits."""

Level = Literal["read_uncommitted", "read_committed"]
"""A consumer's `isolation.level`."""

AT_REST: dict[str, str] = {
    "compression.type": "producer",
    "delete.retention.ms": str(DAY_MS),
    "max.compaction.lag.ms": str(2**63 - 1),
    "message.timestamp.type": "CreateTime",
    # The dirty ratio is never above it: no pass of the broker's own changes the case. One on demand does.
    "min.cleanable.dirty.ratio": "1.0",
    "min.compaction.lag.ms": "0",
    "retention.bytes": "-1",
    "retention.ms": "-1",
}
"""With these options nothing happens to a log by itself, however long one looks at it."""
COMPACTED: Mapping[str, str] = AT_REST | {"cleanup.policy": "compact"}
PLAIN: Mapping[str, str] = AT_REST | {"cleanup.policy": "delete"}


@dataclass(frozen=True, slots=True)
class Expected:
    """A record that a consumer reads."""

    offset: int
    key: str
    value: str | None
    """None is a tombstone."""
    after_ms: int = 0
    """Its timestamp, from the time of the case on (`LoadedCase.time_ms`)."""
    is_committed: bool = True
    """Whether it is read with `read_committed`, too: it is of no transaction that was aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One hard case: a topic of one partition."""

    name: str
    looks_like: str
    """Offsets and batches, in one or two sentences."""
    reveals: str
    """What incorrect clients do."""
    threads: tuple[str, ...]
    """Where that was reported."""
    records: tuple[Expected, ...]
    """All that `read_uncommitted` reads, by offset."""
    start_offset: int = 0
    end_offset: int
    """The high watermark and the last stable offset: every transaction is decided."""
    position: int
    """What a consumer's position is at the end, inclusive of all batches: below `end_offset` where no batch reaches up to it."""
    producers: int = 0
    """How many producer ids its log needs."""
    begins_before_ms: int = 0
    """How much earlier than its load the time of the case is."""
    configs: Mapping[str, str]
    offsets_for_times: tuple[tuple[int, int | None], ...] = ()
    """(time, from the time of the case on; the first offset whose record is not older, None if there is none)."""
    group_epoch: int | None = None
    """The epoch of an empty consumer group of the new protocol (KIP-848) that comes with it."""

    def read_with(self, level: Level) -> tuple[Expected, ...]:
        """The records that a consumer with this isolation level reads."""
        return tuple(each for each in self.records if each.is_committed or level == "read_uncommitted")


def _threads(*paths: str) -> tuple[str, ...]:
    return tuple(f"https://github.com/{path}" for path in paths)


def _rows(*rows: tuple[int, str, str | None]) -> tuple[Expected, ...]:
    return tuple(Expected(*row) for row in rows)


def _aborted(*rows: tuple[int, str, str | None]) -> tuple[Expected, ...]:
    return tuple(Expected(*row, is_committed=False) for row in rows)


_ALL = (
    Case(
        name="trailing-marker",
        looks_like="A committed transaction: records 0 to 2, and the marker at 3, the last offset, which consumers never receive.",
        reveals="A client that reads until the last record's offset + 1 equals the end offset never stops, or reports a lag of 1 forever.",
        threads=_threads(
            "aio-libs/aiokafka/issues/911", "tulios/kafkajs/issues/403", "confluentinc/librdkafka/issues/3171"
        ),
        records=_rows((0, "k1", "a"), (1, "k2", "b"), (2, "k3", "c")),
        end_offset=4,
        position=4,
        producers=1,
        configs=COMPACTED,
    ),
    Case(
        name="gap-at-the-end",
        looks_like="Records 0 to 4, but the log ends at 8: the records after offset 4 were removed by compaction.",
        reveals="No batch moves a consumer's position to the end offset, so recovery that waits for it never ends.",
        threads=_threads("redpanda-data/redpanda/issues/8698", "quixio/quix-streams/issues/1017"),
        records=_rows((0, "k1", "a"), (1, "k2", "b"), (2, "k3", "c"), (3, "k4", "d"), (4, "k5", "e")),
        end_offset=8,
        position=5,
        configs=COMPACTED,
    ),
    Case(
        name="emptied-batch",
        looks_like=(
            "Batches without records at 0 to 1 and at 5, the last offset, kept for their producers' sequence"
            " numbers; records 2 to 4 between them."
        ),
        reveals="A fetch without records is taken for the end of the log, or is repeated at the same offset forever.",
        threads=_threads("tulios/kafkajs/issues/562", "kafka4beam/brod/issues/263"),
        records=_rows((2, "k1", "c"), (3, "k2", "d"), (4, "k3", "e")),
        end_offset=6,
        position=6,
        producers=2,
        begins_before_ms=DAY_MS + 1,
        configs=COMPACTED,
    ),
    Case(
        name="batch-compacted-away",
        looks_like="Record 0, then 3: the batch with offsets 1 and 2 was removed. Records 4 and 5 follow.",
        reveals="A gap is taken for lost data, or a consumer is stuck at an offset that has no batch.",
        threads=_threads("aio-libs/aiokafka/issues/71", "dpkp/kafka-python/issues/1390", "apache/druid/issues/5404"),
        records=_rows((0, "k0", "a"), (3, "k1", "d"), (4, "k2", "e"), (5, "k3", "f")),
        end_offset=6,
        position=6,
        configs=COMPACTED,
    ),
    Case(
        name="aborted-only",
        looks_like="A single aborted transaction: records 0 to 2, and the marker at 3.",
        reveals="With read_committed there are no records, but the log ends at 4: readers wait for a first record.",
        threads=_threads("tulios/kafkajs/issues/619", "Aiven-Open/karapace/issues/1355"),
        records=_aborted((0, "k1", "a"), (1, "k2", "b"), (2, "k3", "c")),
        end_offset=4,
        position=4,
        producers=1,
        configs=COMPACTED,
    ),
    Case(
        name="log-start-inside-batch",
        looks_like="A batch of offsets 0 to 9 whose first four records were deleted (DeleteRecords): the log starts at 4.",
        reveals="A fetch at 4 returns the whole batch; a client that does not skip its first records returns deleted ones.",
        threads=_threads("apache/kafka/pull/5133"),
        records=_rows(*((number, f"k{number}", f"v{number}") for number in range(4, 12))),
        start_offset=4,
        end_offset=12,
        position=12,
        configs=PLAIN,
    ),
    Case(
        name="batch-begins-below-fetch",
        looks_like=(
            "A gzip batch of offsets 0 to 9 of which records 4, 8 and 9 are left, then records 10 to 16: a fetch"
            " at any offset up to 9 returns the batch that starts at 0."
        ),
        reveals="Records below the position are returned (again), or a batch that starts below it is dropped as old.",
        threads=_threads("thomhurst/Dekaf/issues/2074", "zendesk/ruby-kafka/pull/636"),
        records=_rows(
            (4, "k4", "a"),
            (8, "k8", "a"),
            (9, "k9", "a"),
            *((10 + at, f"k{number}", "b") for at, number in enumerate((0, 1, 2, 3, 5, 6, 7))),
        ),
        end_offset=17,
        position=17,
        configs=COMPACTED,
    ),
    Case(
        name="timestamps-out-of-order",
        looks_like="Six records in four batches whose timestamps are out of order, also within a batch.",
        reveals="A search by time that relies on order, or on the largest timestamp of a batch, finds the wrong offset.",
        threads=_threads("redpanda-data/redpanda/issues/4035", "confluentinc/confluent-kafka-dotnet/issues/1872"),
        records=(
            Expected(0, "k0", "a", 5_000),
            Expected(1, "k1", "b", 1_000),
            Expected(2, "k2", "c", 9_000),
            Expected(3, "k3", "d", 3_000),
            Expected(4, "k4", "e", 2_000),
            Expected(5, "k5", "f", 0),
        ),
        end_offset=6,
        position=6,
        begins_before_ms=10_000,
        configs=PLAIN,
        offsets_for_times=((0, 0), (5_000, 0), (5_001, 2), (9_000, 2), (9_001, None)),
    ),
    Case(
        name="transaction-across-segments",
        looks_like=(
            "Two transactions over three segments, one committed (0, 2), one aborted (3, 4); their markers at 5 and 6 are"
            " in the last segment. Records 1 and 7 belong to no transaction."
        ),
        reveals="A client that forgets an aborted transaction at the end of a fetch or a segment returns its records.",
        threads=_threads("AutoMQ/automq/issues/754", "kafka4beam/brod/pull/659"),
        records=(
            *_rows((0, "k1", "a"), (1, "k2", "b"), (2, "k3", "c")),
            *_aborted((3, "k4", "d"), (4, "k5", "e")),
            *_rows((7, "k6", "f")),
        ),
        end_offset=8,
        position=8,
        producers=2,
        configs=PLAIN,
    ),
    Case(
        name="tombstone-at-its-horizon",
        looks_like=(
            "Record 1, the tombstone of k1 at 2, record 3. The tombstone's delete.retention.ms expires at the moment of"
            " the load: the next pass removes it, but readers must not miss it before."
        ),
        reveals="A table that is built from the log keeps k1 forever if it does not treat the null value as a delete.",
        threads=_threads("edenhill/kcat/issues/210", "redpanda-data/redpanda/issues/23231"),
        records=_rows((1, "k2", "b"), (2, "k1", None), (3, "k3", "c")),
        end_offset=4,
        position=4,
        begins_before_ms=DAY_MS,
        configs=COMPACTED,
    ),
    Case(
        name="offsets-far-apart",
        looks_like=f"Records 0 and 1, then {FAR} and {FAR + 1}, then {2 * FAR} and {2 * FAR + 1}: more than 2^31 apart.",
        reveals="Offsets or their differences do not fit into 32 bits; counting from one to the next never ends.",
        threads=_threads("apache/kafka/pull/2210", "AutoMQ/automq/pull/3339"),
        records=_rows(
            (0, "k1", "a"),
            (1, "k2", "b"),
            (FAR, "k3", "c"),
            (FAR + 1, "k4", "d"),
            (2 * FAR, "k5", "e"),
            (2 * FAR + 1, "k6", "f"),
        ),
        end_offset=2 * FAR + 2,
        position=2 * FAR + 2,
        configs=COMPACTED,
    ),
    Case(
        name="group-epoch-near-its-end",
        looks_like=(
            "Records 0 to 2, and an empty consumer group of the new protocol (KIP-848), TOPIC-group, whose epoch is 99 below"
            " the 32-bit maximum: 99 more changes of its members are possible."
        ),
        reveals=(
            "Member epochs that are stored in fewer bits, added to, or taken for a classic generation; a member id that is read past"
            " its end into the epoch, as in librdkafka 2.16."
        ),
        threads=_threads("apache/kafka/pull/14046", "redpanda-data/redpanda/pull/31216"),
        records=_rows((0, "k1", "a"), (1, "k2", "b"), (2, "k3", "c")),
        end_offset=3,
        position=3,
        configs=PLAIN,
        group_epoch=2**31 - 100,
    ),
)

CASES: Mapping[str, Case] = {case.name: case for case in _ALL}
"""By name, in the order in which they are listed."""
