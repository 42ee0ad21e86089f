"""Pictures of passes: before and after of a finished pass, or of a dry run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from ..cleaning.clean_stats import CleanStats, DryPass, GroupPreview
from .log_picture import GroupPicture, PassPicture

PIECES_MAX = 160
"""Largest number of source segments, and of groups, that are listed singly; more are merged with their neighbours."""


def pass_done(
    groups: Sequence[GroupPreview],
    stats: CleanStats,
    *,
    first_dirty_offset: int,
    upper_offset: int,
    ended_at_ms: int,
) -> PassPicture:
    """Make the picture of a finished pass."""
    return _picture(groups, stats, first_dirty_offset, upper_offset, ended_at_ms=ended_at_ms, seconds=stats.seconds)


def pass_tried(found: DryPass) -> PassPicture:
    """Make the picture of a dry run."""
    return _picture(found.groups, found.stats, found.first_dirty_offset, found.upper_offset)


def _picture(
    groups: Sequence[GroupPreview],
    stats: CleanStats,
    first_dirty_offset: int,
    upper_offset: int,
    *,
    ended_at_ms: int | None = None,
    seconds: float | None = None,
) -> PassPicture:
    pictures = [
        GroupPicture(
            base_offset=each.base_offset,
            end_offset=each.end_offset,
            segments_before=len(each.source_base_offsets),
            segments_after=1,
            source_bytes=each.source_bytes,
            bytes_before=each.bytes_before,
            bytes_after=each.bytes_after,
            records_before=each.records_before,
            records_after=each.records_before - each.removed.total,
        )
        for each in groups
    ]
    return pass_of(
        pictures,
        first_dirty_offset=first_dirty_offset,
        upper_offset=upper_offset,
        removed=asdict(stats.removed),
        ended_at_ms=ended_at_ms,
        seconds=seconds,
    )


def pass_of(
    groups: Sequence[GroupPicture],
    *,
    first_dirty_offset: int,
    upper_offset: int,
    removed: Mapping[str, int],
    ended_at_ms: int | None = None,
    seconds: float | None = None,
) -> PassPicture:
    """Make the picture of a pass from its groups; of very many groups, neighbours are merged."""
    return PassPicture(
        first_dirty_offset=first_dirty_offset,
        upper_offset=upper_offset,
        groups=tuple(_bundled(groups)),
        segments_before=sum(each.segments_before for each in groups),
        segments_after=sum(each.segments_after for each in groups),
        bytes_before=sum(each.bytes_before for each in groups),
        bytes_after=_sum([each.bytes_after for each in groups]),
        records_before=sum(each.records_before for each in groups),
        records_after=_sum([each.records_after for each in groups]),
        removed=tuple((reason, count) for reason, count in removed.items() if count),
        ended_at_ms=ended_at_ms,
        seconds=seconds,
    )


def _bundled(groups: Sequence[GroupPicture]) -> list[GroupPicture]:
    at_once = max(1, -(-len(groups) // PIECES_MAX))
    found = [_together(groups[at : at + at_once]) for at in range(0, len(groups), at_once)]
    sources = sum(len(each.source_bytes) for each in found)
    pieces_at_once = max(1, -(-sources // PIECES_MAX))
    return [_with_fewer_sources(each, pieces_at_once) for each in found]


def _together(groups: Sequence[GroupPicture]) -> GroupPicture:
    if len(groups) == 1:
        return groups[0]
    return GroupPicture(
        base_offset=groups[0].base_offset,
        end_offset=groups[-1].end_offset,
        segments_before=sum(each.segments_before for each in groups),
        segments_after=sum(each.segments_after for each in groups),
        source_bytes=tuple(sum(each.source_bytes) for each in groups),
        bytes_before=sum(each.bytes_before for each in groups),
        bytes_after=_sum([each.bytes_after for each in groups]),
        records_before=sum(each.records_before for each in groups),
        records_after=_sum([each.records_after for each in groups]),
    )


def _with_fewer_sources(group: GroupPicture, at_once: int) -> GroupPicture:
    if at_once == 1:
        return group
    found = group.source_bytes
    return GroupPicture(
        base_offset=group.base_offset,
        end_offset=group.end_offset,
        segments_before=group.segments_before,
        segments_after=group.segments_after,
        source_bytes=tuple(sum(found[at : at + at_once]) for at in range(0, len(found), at_once)),
        bytes_before=group.bytes_before,
        bytes_after=group.bytes_after,
        records_before=group.records_before,
        records_after=group.records_after,
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [each for each in counts if each is not None]
    return sum(known) if len(known) == len(counts) else None
