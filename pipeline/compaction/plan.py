"""The plan of one compaction: everything that decides the bytes of its result, fixed before anything runs.

    sources      [0 ...] [310 ...] [550 ...] [700 ...]   sealed segments below the upper offset
    groups       \\_______  0  ____________/ \\_  1  _/    the same as those of the server's cleaner; a group is a task
    per source   the CRC of its batch headers, and the state of transactions at its start
    for all      first dirty and upper offset, the clock, config values, producers' last records, the secret of the hash

Made on the driver from a log that is open for reading, then written into the staging directory, from where every task
reads it (`staging`). The same plan gives the same bytes, however often its tasks run; its id is a hash of its contents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

from ...storage.cleaning.cleaner import group_segments
from ...storage.cleaning.dirtiness import dirtiness_of, first_dirty_offset
from ...storage.disk import paths
from ...storage.disk.paths import TopicPartition
from ...storage.filter.offset_map import SECRET_BYTES
from ...storage.filter.transaction_state import CarriedTransactions
from ...storage.kernel import COMPILED
from ...storage.produce.producer_state import LastRecord
from ...storage.segment.index import AbortedTxn
from ...storage.segment.segment import LogSegment
from ...storage.segment.split import overflows
from ...storage.topics.config import LogConfig
from ..errors import CorruptSourceError, UsageError
from ..stores.stored_log import StoredLog
from .survey import Surveying, fold_transactions, survey_segments

VERSION = 3

KEY_HASH = "siphash-1-3-128" if COMPILED else "blake2b-128"
"""Hash that this process's kernel applies to keys. All tasks of a plan must use the same one."""

CONFIGS = (
    "segment_bytes",
    "segment_index_bytes",
    "index_interval_bytes",
    "delete_retention_ms",
    "max_decompressed_message_bytes",
    "preallocate",
)
"""Attributes of LogConfig that affect a pass."""
OTTLAS_CONFIGS = ("ottla_compaction_strategy", "ottla_compaction_strategy_header", "ottla_key_retention_ms")
"""Attributes of LogConfig that affect a pass only if they are set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSegment:
    """One segment that is compacted."""

    base_offset: int
    end_offset: int
    """Start of the next segment, or end of the cleaned range (exclusive)."""
    size_bytes: int
    mtime_ms: int
    headers_crc: int
    """CRC-32C of its batch headers, which contain the CRCs of everything else."""
    record_count: int
    aborted: tuple[AbortedTxn, ...]
    """The aborted transactions that overlap it."""
    transactions: CarriedTransactions
    """The cleaner's state of transactions at the segment's start."""


@dataclass(frozen=True, kw_only=True)
class CompactionPlan:
    """Plan of one partition's compaction; see the module."""

    data_dir: str
    topic: str
    partition: int
    topic_id: str | None
    """Id of the topic that has the name now, in hexadecimal; None if the directory does not have it."""
    first_dirty_offset: int
    """Records below it are removed only for a record of the same key at or above it."""
    upper_offset: int
    """End of the compacted range (exclusive): a segment's base offset."""
    log_start_offset: int
    high_watermark: int
    """End of the log when the plan was made: that of a stopped broker's log is committed as a whole."""
    now_ms: int
    """Clock for delete horizons."""
    secret: bytes
    """Secret of the hash of keys."""
    key_hash: str
    """`KEY_HASH` of the process that made the plan."""
    config: Mapping[str, Any]
    """`CONFIGS` and their values, and those of `OTTLAS_CONFIGS` that are set."""
    last_records: Mapping[int, LastRecord]
    """Producer id -> its last record; producers whose last batch is above the range are left out."""
    sources: tuple[SourceSegment, ...]
    groups: tuple[tuple[int, ...], ...]
    """Numbers of `sources`: neighbours, in order."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def directory(self) -> str:
        """The partition's directory."""
        return paths.join(self.data_dir, paths.partition_dir_name(self.topic, self.partition))

    @property
    def staging(self) -> str:
        """Directory of the result."""
        return paths.join(paths.staging_root(self.data_dir), self.plan_id)

    @cached_property
    def log_config(self) -> LogConfig:
        return replace(LogConfig(), **self.config)

    @cached_property
    def plan_id(self) -> str:
        """32 hex digits; equal plans have equal ids."""
        return blake2b(self.to_json().encode(), digest_size=16).hexdigest()

    @property
    def size_bytes(self) -> int:
        return sum(source.size_bytes for source in self.sources)

    @property
    def record_count(self) -> int:
        return sum(source.record_count for source in self.sources)

    @cached_property
    def group_of_source(self) -> tuple[int, ...]:
        """Number of each source's group."""
        return tuple(number for number, group in enumerate(self.groups) for _ in group)

    def group_base(self, group: int) -> int:
        """Return the base offset of a group's new segment."""
        return self.sources[self.groups[group][0]].base_offset

    def to_json(self) -> str:
        """Return one line for each source and group. Equal plans give equal texts."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["secret"] = self.secret.hex()
        fields["config"] = dict(sorted(self.config.items()))
        fields["last_records"] = sorted((producer_id, *last) for producer_id, last in self.last_records.items())
        fields["sources"] = [asdict(source) for source in self.sources]
        lines = [f'"version": {VERSION}']
        for name, value in fields.items():
            if name in ("sources", "groups", "last_records"):
                rows = ",\n  ".join(json.dumps(row) for row in value)
                lines.append(f'"{name}": [\n  {rows}]')
            else:
                lines.append(f'"{name}": {json.dumps(value)}')
        return "{" + ",\n".join(lines) + "}\n"

    @classmethod
    def from_json(cls, text: str) -> CompactionPlan:
        """Parse the output of `to_json`.

        Raises:
            UsageError: The text is not a plan, or has another version.
        """
        try:
            fields = json.loads(text)
            if (version := fields.pop("version", None)) != VERSION:
                raise UsageError(f"a plan of version {version}; this Ottla reads version {VERSION}")
            fields["secret"] = bytes.fromhex(fields["secret"])
            fields["last_records"] = {row[0]: LastRecord(*row[1:]) for row in fields["last_records"]}
            fields["sources"] = tuple(_source(source) for source in fields["sources"])
            fields["groups"] = tuple(tuple(group) for group in fields["groups"])
            return cls(**fields)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise UsageError(f"not a compaction plan: {error!r}") from error


def make_plan(
    log: StoredLog,
    *,
    data_dir: str,
    checkpoint: int | None,
    now_ms: int,
    secret: bytes,
    survey: Surveying = survey_segments,
) -> CompactionPlan:
    """Plan what a pass of the server's cleaner would do now, if its map held any number of keys.

    A plan without sources has nothing to do.

    Args:
        checkpoint: Offset up to which the log is clean; None if unknown.
        secret: `SECRET_BYTES` random bytes.
        survey: Surveys the segments of a directory with these base offsets, in order.

    Raises:
        UsageError: The topic is not compacted.
        CorruptSourceError: A segment cannot be read.
    """
    if not log.config.is_compact:
        policy = ",".join(log.config.cleanup_policy)
        raise UsageError(f"{log.topic_partition}: cleanup.policy is {policy!r}, only compacted topics can be compacted")
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"expected a secret of {SECRET_BYTES} bytes, found {len(secret)}")
    first_dirty, _ = first_dirty_offset(log, checkpoint)
    found = dirtiness_of(log, first_dirty, now_ms)
    segments = found.segments if found.cleanable_bytes or found.key_overdue_ms else ()
    ends = [segment.base_offset for segment in segments[1:]] + [found.upper_offset]
    for segment, end in zip(segments, ends, strict=False):  # no segment, one end
        if overflows(segment, end):
            raise CorruptSourceError.from_position(
                segment.file_paths()[0],
                None,
                segment.base_offset,
                expected="offsets at most 31 bits above the base (starting the server splits such segments)",
                actual=f"offsets up to {segment.next_offset() - 1}",
            )
    base_offsets = [segment.base_offset for segment in segments]
    surveys = list(survey(log.files, log.directory, base_offsets))
    for segment, end, surveyed in zip(segments, ends, surveys, strict=False):
        if surveyed.next_offset > end:
            raise _beyond(segment, end)
    aborted = [log.aborted_transactions(segment.base_offset, end) for segment, end in zip(segments, ends, strict=False)]
    in_order = list(zip(base_offsets, surveys, aborted, strict=True))
    sources = tuple(
        SourceSegment(
            base_offset=segment.base_offset,
            end_offset=end,
            size_bytes=segment.size_bytes,
            mtime_ms=log.files.mtime_ms(segment.file_paths()[0]),
            headers_crc=survey.headers_crc,
            record_count=survey.record_count,
            aborted=tuple(overlapping),
            transactions=carried,
        )
        for segment, end, (_, survey, overlapping), carried in zip(
            segments, ends, in_order, fold_transactions(log.directory, in_order), strict=False
        )
    )
    numbers = {segment.base_offset: number for number, segment in enumerate(segments)}
    return CompactionPlan(
        data_dir=data_dir,
        topic=log.topic_partition.topic,
        partition=log.topic_partition.partition,
        topic_id=None if log.topic_id is None else log.topic_id.hex(),
        first_dirty_offset=first_dirty,
        upper_offset=found.upper_offset,
        log_start_offset=log.log_start_offset,
        high_watermark=log.log_end_offset,
        now_ms=now_ms,
        secret=secret,
        key_hash=KEY_HASH,
        config={
            name: value
            for name in (*CONFIGS, *OTTLAS_CONFIGS)
            if (value := getattr(log.config, name)) != getattr(_DEFAULTS, name) or name in CONFIGS
        },
        last_records={
            producer_id: last
            for producer_id, last in log.producers.last_records().items()
            if last.last_data_offset is None or last.last_data_offset < found.upper_offset
        },
        sources=sources,
        groups=tuple(
            tuple(numbers[segment.base_offset] for segment in group)
            for group in group_segments(segments, found.upper_offset, log.config)
        ),
    )


_DEFAULTS = LogConfig()


def _beyond(segment: LogSegment, end: int) -> CorruptSourceError:
    """Return the error for a segment that reaches into the next one, as no CRC covers a base offset."""
    position, batch = next((at, batch) for at, batch in segment.headers() if batch.last_offset >= end)
    return CorruptSourceError.from_position(
        segment.file_paths()[0],
        position,
        batch.base_offset,
        expected=f"offsets below {end}, where the next segment begins",
        actual=f"offsets up to {batch.last_offset}",
    )


def _source(fields: dict[str, Any]) -> SourceSegment:
    pending, aborting, committing = fields.pop("transactions")
    return SourceSegment(
        **fields
        | {
            "aborted": tuple(AbortedTxn(*txn) for txn in fields["aborted"]),
            "transactions": CarriedTransactions(
                tuple(AbortedTxn(*txn) for txn in pending),
                tuple((AbortedTxn(*txn), has_data) for txn, has_data in aborting),
                tuple(committing),
            ),
        }
    )
