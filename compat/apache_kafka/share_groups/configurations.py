"""The three kinds of configuration, each with brokers of its own."""

from __future__ import annotations

from typing import NamedTuple

OF_ALL = {
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
EARLIEST, LATEST, AGO = "earliest", "latest", "by_duration:PT30M"


class Kind(NamedTuple):
    """One kind of configuration.

    Attributes:
        overrides: Options of the brokers.
        configs: Configs of groups: a name, and the values to choose from for each group; None keeps the default.
        lock_ms: How long records stay acquired.
        session_ms: A member's session time-out.
        records_max: The most records in a batch.
        transactions: Whether there are transactions, and a topic that was compacted.
        pause: The share of all steps that wait.
        lanes: The number of groups that run at a time.
    """

    overrides: dict[str, str]
    configs: tuple[tuple[str, tuple[str | None, ...]], ...]
    members: int = 3
    lock_ms: int = 6_000
    session_ms: int = 45_000
    records_max: int = 20
    transactions: bool = False
    pause: float = 0.01
    lanes: int = 3


KINDS = {
    "batches": Kind(
        overrides=OF_ALL | {"group.share.record.lock.duration.ms": "6000"},
        configs=(("share.auto.offset.reset", (EARLIEST, EARLIEST, LATEST, AGO, None)),),
    ),
    "committed": Kind(
        overrides=OF_ALL
        | {
            "group.share.record.lock.duration.ms": "6000",
            "share.coordinator.snapshot.update.records.per.snapshot": "5",
        },
        configs=(
            ("share.auto.offset.reset", (EARLIEST, EARLIEST, AGO)),
            ("share.isolation.level", ("read_committed", "read_committed", "read_uncommitted")),
        ),
        transactions=True,
    ),
    "limits": Kind(
        overrides=OF_ALL
        | {
            "group.share.max.size": "10",
            "group.share.max.share.sessions": "10",
            "group.share.record.lock.duration.ms": "2000",
            "group.share.min.session.timeout.ms": "1000",
            "group.share.min.heartbeat.interval.ms": "500",
            "group.share.heartbeat.interval.ms": "500",
            "group.share.session.timeout.ms": "4000",
        },
        configs=(
            ("share.auto.offset.reset", (EARLIEST,)),
            ("share.delivery.count.limit", ("2", "2", "3", "4")),
            ("share.partition.max.record.locks", ("100",)),
            ("share.renew.acknowledge.enable", ("false", "true", None)),
        ),
        members=12,
        lock_ms=2_000,
        session_ms=4_000,
        records_max=60,
        pause=0.04,
        lanes=1,  # The number of sessions that there may be is the broker's.
    ),
}
