"""Explanations of the cleaner's decisions on the partitions of a topic (see `services.explaining`), and the history of one key.

The history has each record of the key, the record that supersedes it, and what the next pass does with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from ...protocol.errors import KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.cleaning.dirtiness import BoundBy, dirtiness_in_pieces, find_bound_in_pieces
from ...storage.cleaning.key_history import (
    KeyHistory,
    KeyRecord,
    KeySearch,
    RemovalReason,
    RetentionReason,
    TransactionOutcome,
)
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ..broker.broker import Broker
from ..cleaning.advice import moment
from ..client.values import partition_of
from ..runtime.errors import ControlError, Kind, check_number
from ..runtime.threads import Work, in_thread, search
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..services.explaining import Explaining, PartitionExplanation
from .operation import Encoding, PartitionId, Range, TopicName, decoded, operation
from .partitions import logs_of, one_or_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why the partitions of a topic are or are not cleaned; str() of it is readable text."""

    topic: str
    now_ms: int
    """The broker's clock, in ms since 1970."""
    partitions: tuple[PartitionExplanation, ...]

    @property
    def is_eligible(self) -> bool:
        """Whether the next round of the cleaner may take any partition."""
        return any(each.eligible for each in self.partitions)

    def __str__(self) -> str:
        return "\n".join(str(each) for each in self.partitions)

    def __repr__(self) -> str:
        return f"<Explanation of {self.topic}\n{self}\n>"


@operation("GET", "/v1/topics/{topic}/explain", statuses=(404, 409), only_waits=True)
async def explain(broker: Broker, topic: TopicName, partition: PartitionId | None = None) -> Explanation:
    """Explain why each partition is or is not eligible for the cleaner, when it will be, and what makes it eligible.

    Print the result to read it.

    Args:
        partition: Partition number (default: all partitions of the topic).

    Raises:
        ControlError: NOT_FOUND: topic or partition not found, with the nearest name; FAILED: the disk failed.
    """
    logs = logs_of(broker, topic, one_or_all(partition))
    now_ms = broker.clock.now_ms()
    explaining = await Explaining.load(broker.services, logs, TimeSlice())
    found = tuple([await explaining.next() for _ in logs])
    return Explanation(topic=topic, now_ms=now_ms, partitions=found)


RECORDS = 1_000
RECORDS_MAX = 100_000

_BOUNDS = {
    BoundBy.ACTIVE_SEGMENT: "the active segment",
    BoundBy.OPEN_TRANSACTION: "an open transaction",
    BoundBy.MIN_COMPACTION_LAG: "min.compaction.lag.ms",
    BoundBy.DAMAGE: "damage",
}

_PASSES = " (a pass starts when something is dirty, or when forced)"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyExplanation:
    """The records of one key in a partition; str() of it is readable text."""

    topic: str
    partition: int
    """The requested partition, or the one that clients choose for the key."""
    now_ms: int
    """The broker's clock, in ms since 1970."""
    history: KeyHistory
    sentences: tuple[str, ...]
    """One sentence for the whole key, then one for each record."""

    def __str__(self) -> str:
        return "\n  ".join(self.sentences)


def _sentences(tp: TopicPartition, found: KeyHistory) -> Iterator[str]:
    shown = "" if found.record_count == len(found.records) else f" (showing the newest {len(found.records)})"
    yield (
        f"{tp}, key {found.key!r}: {found.record_count} {'record' if found.record_count == 1 else 'records'}{shown}; a pass now"
        f" would cover offsets {found.first_dirty_offset} to {found.upper_offset}, limited by {_BOUNDS[found.bound_by]}"
    )
    for each in found.records:
        yield _sentence(each, found)


def _sentence(record: KeyRecord, history: KeyHistory) -> str:
    """Return the sentence on one record."""
    what = "tombstone" if record.value_bytes is None else f"value of {record.value_bytes} bytes"
    at = "without a timestamp" if record.timestamp_ms < 0 else moment(record.timestamp_ms)
    part = "clean" if record.is_in_clean_part else "dirty"
    facts = [f"offset {record.offset}: {what}, {at}, segment {record.segment_base_offset} ({part})"]
    if record.transaction is not TransactionOutcome.NONE:
        facts.append(f"transaction of producer {record.producer_id} {record.transaction}")
    if record.superseded_by is not None:
        facts.append(f"superseded by offset {record.superseded_by}")
    facts.append(outlook(record, history))
    return "; ".join(facts)


def outlook(record: KeyRecord, history: KeyHistory) -> str:
    """Return what the next pass does with a record of `history`: part of its sentence."""
    if record.goes is not None:
        whys = {
            RemovalReason.SUPERSEDED: "",
            RemovalReason.TOMBSTONE: f": its delete horizon has passed{_PASSES}",
            RemovalReason.AGED: f": it is older than ottla.key.retention.ms={history.key_retention_ms}",
            RemovalReason.ABORTED: ": its transaction was aborted",
        }
        return f"the next pass removes it{whys[record.goes]}"
    bound = _BOUNDS[history.bound_by]
    match record.stays:
        case RetentionReason.NEWEST:
            if history.key_retention_ms < 0 or record.value_bytes is None or record.timestamp_ms < 0:
                return "kept: newest record of its key"
            aged_ms = record.timestamp_ms + history.key_retention_ms
            return (
                f"kept: newest record of its key; removed for its age by the first pass at or after {moment(aged_ms)}"
            )
        case RetentionReason.BOUND:
            return f"kept by the next pass, which ends at offset {history.upper_offset} because of {bound}"
        case RetentionReason.SUPERSEDED_BEYOND_BOUND:
            return f"kept by the next pass, which ends before the record that supersedes it, because of {bound}"
        case RetentionReason.SUPERSEDED_IN_CLEAN_PART:
            return "kept: a pass looks for newer records only in the dirty part, and the one that supersedes this record is not there"
        case RetentionReason.DELETE_HORIZON:
            return f"removed by the first pass at or after {moment(record.delete_horizon_ms)}{_PASSES}"
        case RetentionReason.SUPERSEDES_NOW:
            return (
                "its time has passed, but the next pass may remove later records for it; the pass after that removes it"
            )
        case _:
            return (
                f"the next pass sets its delete horizon, delete.retention.ms={history.delete_retention_ms} later; the first pass"
                " after that removes it"
            )


@operation("GET", "/v1/topics/{topic}/explain-key", statuses=(404, 409), only_waits=True)
async def explain_key_text(
    broker: Broker,
    topic: TopicName,
    key: str,
    encoding: Encoding = Encoding.TEXT,
    partition: PartitionId | None = None,
    records_max: Annotated[int, Range(1, RECORDS_MAX)] = RECORDS,
) -> KeyExplanation:
    """Explain each record of one key: what supersedes it, and whether the next pass removes it.

    Args:
        encoding: Encoding of the key.
        partition: Default: the one that the clients' default partitioner chooses for the key.
        records_max: Maximum number of records to report; the newest are kept.
    """
    found = decoded("key", key, encoding)
    return await explain_key(broker, topic, found, partition=partition, records_max=records_max)


async def explain_key(
    broker: Broker, topic: str, key: bytes, *, partition: int | None = None, records_max: int = RECORDS
) -> KeyExplanation:
    """Search a partition for a key. Reads the whole log in steps; may be cancelled at any time.

    Args:
        partition: None: the partition that the clients' default partitioner (murmur2) chooses for the key.
        records_max: Maximum number of records in the result, the newest; from 1 to `RECORDS_MAX`.

    Raises:
        ControlError: NOT_FOUND: unknown topic or partition; INVALID: `records_max`; FAILED: the log cannot be read.
    """
    if not isinstance(key, bytes):
        raise ControlError(Kind.INVALID, f"key: expected str or bytes, found {key!r:.100}")
    check_number("records_max", records_max, 1, RECORDS_MAX)
    if partition is None:
        partition = partition_of(key, len(logs_of(broker, topic)))
    (log,) = logs_of(broker, topic, [partition])
    try:
        history = await _search(broker, log, key, records_max)
    except KafkaError as error:
        raise ControlError(Kind.FAILED, error.message) from error
    except OSError as error:
        raise ControlError(Kind.FAILED, f"{log.topic_partition}: {error}") from error
    return KeyExplanation(
        topic=topic,
        partition=partition,
        now_ms=broker.clock.now_ms(),
        history=history,
        sentences=tuple(_sentences(log.topic_partition, history)),
    )


async def _search(broker: Broker, log: Log, key: bytes, records_max: int) -> KeyHistory:
    data_dir, now_ms = data_dir_of(log), broker.clock.now_ms()
    if not log.is_surveyed:
        await in_thread(Work.READ, data_dir, log.survey)
    dirty_from, time_slice = broker.services.cleaning.manager.first_dirty_offset(log), TimeSlice()
    bound = await run_cooperatively(find_bound_in_pieces(log, dirty_from, now_ms), time_slice)
    measured = await run_cooperatively(dirtiness_in_pieces(log, dirty_from, now_ms, bound), time_slice)
    searching = KeySearch(
        log,
        key,
        now_ms,
        first_dirty_offset=dirty_from,
        upper_offset=measured.upper_offset,
        bound_by=bound.by,
        records_max=records_max,
    )
    return await search(data_dir, searching.steps())
