"""What `ottla-spark` says of its work on partitions: a line for people, a field of JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...storage.pictures.log_picture import GroupPicture, PassPicture
from ...storage.pictures.page import plan_fragment
from ...storage.pictures.passes import pass_of
from ..compaction.group_results import GroupResult
from ..compaction.plan import CompactionPlan


@dataclass(kw_only=True)
class PartitionResult:
    """What a command did about one partition."""

    topic: str
    partition: int
    outcome: str
    """`nothing to do`, `planned`, `would be compacted`, `staged`, `installed`, `partly installed`, `skipped`, or `failed`."""
    plan_id: str = ""
    reason: str = ""
    """Why it was skipped, or has failed, or there was nothing to do."""
    groups: int = 0
    segments: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    removed: dict[str, int] = field(default_factory=dict)
    """Records that went, or would, by reason."""

    def __post_init__(self) -> None:
        # No field: programs have the figures.
        self.picture: PassPicture | None = None
        """Of a plan, and of a dry run: what goes, segment by segment."""

    def _repr_html_(self) -> str:
        """For notebooks."""
        return html_of([self])

    def __str__(self) -> str:
        text = f"{self.topic}-{self.partition}: {self.outcome}"
        if self.plan_id:
            text += f": plan {self.plan_id}, {self.segments} segments in {self.groups} groups, {self.bytes_read} bytes"
        if self.removed:
            gone = ", ".join(f"{count} {reason}" for reason, count in self.removed.items() if count)
            text += f" -> {self.bytes_written}, {self.records_read} records -> {self.records_written}"
            text += f" (gone: {gone})" if gone else ""
        return text + (f": {self.reason}" if self.reason else "")


RESULT_DDL = (
    "topic string, partition int, outcome string, plan_id string, reason string, groups int, segments int, "
    "bytes_read bigint, bytes_written bigint, records_read bigint, records_written bigint, removed map<string,bigint>"
)
"""The fields of `PartitionResult`, in their order."""


def result_of(plan: CompactionPlan, outcome: str, results: Sequence[GroupResult] = ()) -> PartitionResult:
    if not plan.sources:
        return PartitionResult(
            topic=plan.topic,
            partition=plan.partition,
            outcome="nothing to do",
            reason=f"clean up to offset {plan.first_dirty_offset}; what lies from offset {plan.upper_offset} on is active,"
            " too young, of open transactions, or not known to be safe on disk",
        )
    made = PartitionResult(
        topic=plan.topic,
        partition=plan.partition,
        outcome=outcome,
        plan_id=plan.plan_id,
        groups=len(plan.groups),
        segments=len(plan.sources),
        bytes_read=plan.size_bytes,
        records_read=plan.record_count,
    )
    for result in results:
        made.bytes_written += result.bytes_written
        for reason, count in result.removed.items():
            made.removed[reason] = made.removed.get(reason, 0) + count
    if results:
        made.records_read = sum(result.records_read for result in results)
        made.records_written = sum(result.records_written for result in results)
    made.picture = picture_of(plan, results)
    return made


def picture_of(plan: CompactionPlan, results: Iterable[GroupResult] = ()) -> PassPicture:
    """Before and after. Without the results of all groups nobody knows what comes after, and none is drawn."""
    by_group = {result.group: result for result in results}
    groups, removed = [], Counter[str]()
    for number, members in enumerate(plan.groups):
        sources = [plan.sources[each] for each in members]
        result = by_group.get(number)
        records = sum(source.record_count for source in sources)
        if result is not None:
            records = result.records_read
            removed.update(result.removed)
        groups.append(
            GroupPicture(
                base_offset=sources[0].base_offset,
                end_offset=sources[-1].end_offset,
                segments_before=len(sources),
                segments_after=1,
                source_bytes=tuple(source.size_bytes for source in sources),
                bytes_before=sum(source.size_bytes for source in sources),
                bytes_after=None if result is None else result.bytes_written,
                records_before=records,
                records_after=None if result is None else result.records_written,
            )
        )
    return pass_of(groups, first_dirty_offset=plan.first_dirty_offset, upper_offset=plan.upper_offset, removed=removed)


def html_of(results: Sequence[PartitionResult]) -> str:
    """What plans would do, drawn: a fragment that needs nothing else."""
    drawn = [(f"{each.topic}-{each.partition}", each.picture) for each in results if each.picture is not None]
    others = "; ".join(str(each) for each in results if each.picture is None)
    return plan_fragment(f"What a compaction would do. {others}".rstrip(), drawn)


def group_line(plan: CompactionPlan, result: GroupResult) -> str:
    return (
        f"{plan.topic}-{plan.partition}: group {result.group + 1} of {len(plan.groups)}:"
        f" {len(result.source_base_offsets)} segments, {result.bytes_read} bytes -> {result.bytes_written},"
        f" {result.records_read} records -> {result.records_written}"
    )


def as_json(results: Sequence[PartitionResult]) -> dict[str, Any]:
    """One object for all partitions."""
    return {"partitions": [asdict(each) for each in results]}
