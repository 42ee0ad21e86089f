"""Dry run of the cleaner on a topic: what a pass would remove now, and why, without writing anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

from ...protocol.errors import KafkaError
from ...storage.cleaning.clean_stats import DryPass
from ...storage.disk.files import AbortedError
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ..broker.broker import Broker
from ..cleaning import dry_runs
from ..cleaning.threads import CleanerSettings
from ..runtime.errors import ControlError, Kind, check_number
from .operation import PartitionId, Range, TopicName, operation
from .partitions import logs_of, one_or_all

LISTED = 100
LISTED_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDryRun:
    """Result of a dry run on one partition, whether a pass is due or not."""

    partition: int
    would_pass: DryPass
    sentences: tuple[str, ...]
    """One sentence for the whole pass, then one for each new segment and each listed removal."""

    def __str__(self) -> str:
        return "\n  ".join(self.sentences)


def _sentences(tp: TopicPartition, found: DryPass) -> Iterator[str]:
    stats = found.stats
    if not stats.segments_before and not found.segments_to_split:
        yield f"{tp}: a pass would find nothing to clean now"
        return
    gone = ", ".join(f"{count} {reason}" for reason, count in asdict(stats.removed).items() if count)
    yield (
        f"{tp}: a pass from offset {found.first_dirty_offset} to {found.upper_offset} would keep"
        f" {stats.records_written} of {stats.records_read} records, {stats.bytes_written} of {stats.bytes_read} bytes"
        f" ({gone or 'nothing'} removed), {stats.segments_before} segments become {stats.segments_after}"
    )
    if found.segments_to_split:
        yield f"it would only split {found.segments_to_split} segments, and leave cleaning to the next pass"
    if found.end_offset < found.upper_offset:
        yield f"it would end at offset {found.end_offset}: the offset map has no room for more keys"
    for group in found.groups:
        yield (
            f"segments {', '.join(map(str, group.source_base_offsets))}: {group.bytes_before} -> {group.bytes_after}"
            f" bytes, {group.records_before} -> {group.records_before - group.removed.total} records"
        )
    for removal in found.removals:
        yield f"offset {removal.offset}: {removal.reason}"
    if not found.are_all_listed:
        yield f"and {stats.removed.total - len(found.removals)} more"


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """Result of a dry run on the partitions of a topic."""

    topic: str
    now_ms: int
    """The broker's clock, in ms since 1970; delete horizons are compared with it."""
    is_forced: bool
    partitions: tuple[PartitionDryRun, ...]

    @property
    def removed(self) -> int:
        """Number of records that would be removed from all partitions."""
        return sum(each.would_pass.stats.removed.total for each in self.partitions)

    def __str__(self) -> str:
        return "\n".join(str(each) for each in self.partitions)

    def _repr_html_(self) -> str:
        """Return a drawing for notebooks, before and after; see `storage.pictures.page`."""
        from ...storage.pictures.page import plan_fragment
        from ...storage.pictures.passes import pass_tried

        passes = [(f"{self.topic}-{each.partition}", pass_tried(each.would_pass)) for each in self.partitions]
        return plan_fragment(f"Records that the next pass over {self.topic} would remove", passes)


@operation("GET", "/v1/topics/{topic}/dry-run", statuses=(404, 409), only_waits=True)
async def dry_run(
    broker: Broker,
    topic: TopicName,
    partition: PartitionId | None = None,
    *,
    force: bool = False,
    records_max: Annotated[int, Range(0, LISTED_MAX)] = LISTED,
) -> DryRun:
    """Show what a pass of the cleaner would remove now, without writing anything.

    Partitions are read one after another, whether a pass is due or not, at the throttled rate of passes.

    Args:
        partition: Partition number (default: all partitions of the topic).
        force: Simulate a forced pass, which rolls the active segment first and includes young segments.
        records_max: Maximum number of removals to list for each partition.

    Raises:
        ControlError: NOT_FOUND: topic or partition not found; INVALID: `records_max` is out of bounds; CONFLICT: the topic is not
            compacted, or the partition is held by a pass, a lease or a deletion; FAILED: the log cannot be read.
    """
    check_number("records_max", records_max, 0, LISTED_MAX)
    logs, now_ms = logs_of(broker, topic, one_or_all(partition)), broker.clock.now_ms()
    found = [await _dry_run_partition(broker, log, force, records_max) for log in logs]
    return DryRun(topic=topic, now_ms=now_ms, is_forced=force, partitions=tuple(found))


async def _dry_run_partition(broker: Broker, log: Log, force: bool, records_max: int) -> PartitionDryRun:

    cleaning, tp = broker.services.cleaning, log.topic_partition
    if not log.config.is_compact:
        policy = ",".join(log.config.cleanup_policy)
        raise ControlError(Kind.CONFLICT, f"{tp} is not compacted: cleanup.policy is {policy or 'empty'}")
    # A dry run holds nothing while it waits for its turn: another operation on the partition would wait for all earlier dry
    # runs.
    async with cleaning.dry_running:
        if cleaning.logs.get(tp) is not log:
            raise ControlError(Kind.CONFLICT, f"{tp} was deleted")
        if cleaning.manager.is_held(tp):
            raise ControlError(Kind.CONFLICT, f"{tp} is {cleaning.manager.state_name(tp)}; retry when it is free")
        settings = CleanerSettings.from_config(broker.config)
        try:
            found = await dry_runs.dry_run(
                cleaning, settings, log, broker.clock.now_ms(), is_forced=force, records_max=records_max
            )
        except AbortedError as error:
            raise ControlError(Kind.CONFLICT, f"{tp}: {error}; retry") from error
        except KafkaError as error:
            raise ControlError(Kind.FAILED, error.message) from error
        except (OSError, ValueError) as error:
            raise ControlError(Kind.FAILED, f"{tp}: {error}") from error
    sentences = tuple(_sentences(tp, found))
    return PartitionDryRun(partition=tp.partition, would_pass=found, sentences=sentences)
