"""What a plan would do, or a dry run says of it, as the picture that the server draws of a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...storage.pictures.log_picture import GroupPicture, PassPicture
from ...storage.pictures.passes import pass_of
from ..compaction.group_results import GroupResult
from ..compaction.plan import CompactionPlan


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
