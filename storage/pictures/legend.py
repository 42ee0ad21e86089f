"""Pictures in words: descriptions for users who cannot see them, and the legend for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..cleaning.progress import Phase
from ..logs.record_counts import RecordCounts
from .log_picture import Contents, LogPicture, Part, PassPicture, RunningPass
from .scale import grouped

MEANINGS: Mapping[Part, tuple[str, str]] = {
    Part.CLEAN: ("clean", "compacted: the newest record of each key, and gaps"),
    Part.DIRTY: ("dirty", "written since the last pass; the next pass cleans it"),
    Part.HELD: ("held", "dirty, but not cleanable yet"),
    Part.ACTIVE: ("active", "the segment being written; it is cleaned only after it has rolled"),
    Part.CLOSED: ("closed", "closed, not compacted; deleted by retention"),
}
LETTERS: Mapping[Part, str] = {part: name[0].upper() for part, (name, _) in MEANINGS.items()} | {Part.CLOSED: "S"}


def parts_in(*pictures: LogPicture) -> list[Part]:
    """List the parts that are visible in the pictures, in order: an active segment without records has no width."""
    there = {bar.part for picture in pictures for bar in picture.bars if bar.end_offset > bar.base_offset}
    return [part for part in Part if part in there]


def size(count_bytes: int) -> str:
    """Format a number of bytes, as `1.5 MiB`."""
    if count_bytes < 1024:
        return f"{count_bytes} B"
    count = float(count_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:,.1f} TiB".replace(",", "\N{NARROW NO-BREAK SPACE}")


def counted(count: int, noun: str) -> str:
    """Format a count with its noun, as `1 segment` or `2 segments`."""
    return f"{grouped(count)} {noun}{'s' * (count != 1)}"


def percent(part: float) -> str:
    """Format a share, as `12 %`. Only 0 is shown as `0 %`, and only 1 as `100 %`."""
    if 0 < part < 0.005:
        return "< 1 %"
    if 0.995 <= part < 1:
        return "> 99 %"
    return f"{100 * part:.0f} %"


def sentences(picture: LogPicture) -> Iterator[str]:
    """Describe the picture of a log in sentences."""
    yield (
        f"{picture.name}: {counted(picture.segments, 'segment')} with {size(picture.size_bytes)}, offsets from"
        f" {grouped(picture.log_start_offset)} to {grouped(picture.log_end_offset)} (exclusive)."
    )
    yield f"Last stable offset {grouped(picture.last_stable_offset)}, high watermark {grouped(picture.high_watermark)}."
    yield f"{counts_sentence(picture.counts, is_compacted=picture.is_compacted)}."
    if picture.is_compacted:
        yield (
            f"First dirty offset {grouped(picture.first_dirty_offset)}, uncleanable from"
            f" {grouped(picture.first_uncleanable_offset)}; dirty ratio {picture.dirty_ratio:.2f}, must be above"
            f" {picture.min_cleanable_dirty_ratio:g}."
        )
    if picture.running is not None:
        yield f"{running_sentence(picture.running)}."


def counts_sentence(counts: RecordCounts, *, is_compacted: bool) -> str:
    """Describe the number of records."""
    records = f"{between(counts.records_min, counts.records_max)} records"
    if not is_compacted:
        return records
    live_keys = between(counts.live_keys_min, counts.live_keys_max)
    return f"{records}, {live_keys} live keys, {between(counts.tombstones_min, counts.tombstones_max)} tombstones"


def between(at_least: int, at_most: int) -> str:
    """Format a number that is known exactly, or only within bounds."""
    return grouped(at_least) if at_least == at_most else f"{grouped(at_least)} to {grouped(at_most)}"


def running_sentence(running: RunningPass) -> str:
    """Describe the progress of a pass."""
    if running.phase is Phase.PREPARING:
        return "A pass is starting: unsynced data is synced to disk"
    if running.phase is Phase.MAP:
        done = running.map_bytes_read / running.map_bytes if running.map_bytes else 1.0
        return (
            f"A pass is reading keys, offsets {grouped(running.first_dirty_offset)} to {grouped(running.upper_offset)}:"
            f" {percent(done)} of {size(running.map_bytes)}"
        )
    done = running.bytes_read / running.bytes_to_read if running.bytes_to_read else 1.0
    return (
        f"A pass is copying the records to keep, group {grouped(running.group)} of {grouped(running.group_count)}: {percent(done)} of"
        f" {size(running.bytes_to_read)} read, {size(running.bytes_written)} written"
    )


def running_words(running: RunningPass) -> str:
    """Describe the progress of a pass in few words."""
    if running.phase is Phase.PREPARING:
        return "a pass is starting"
    if running.phase is Phase.MAP:
        done = running.map_bytes_read / running.map_bytes if running.map_bytes else 1.0
        return f"a pass is reading keys: {percent(done)}"
    done = running.bytes_read / running.bytes_to_read if running.bytes_to_read else 1.0
    return f"a pass is copying group {grouped(running.group)} of {grouped(running.group_count)}: {percent(done)}"


def pass_sentence(picture: PassPicture) -> str:
    """Describe the result of a pass, or of a dry run."""
    verb = "kept" if picture.ended_at_ms is not None else "would keep"
    if not picture.groups:
        return "A pass would find nothing to clean."
    before = f"{grouped(picture.records_before)} records, {size(picture.bytes_before)} in {counted(picture.segments_before, 'segment')}"
    if picture.bytes_after is None or picture.records_after is None:
        return f"A pass would read {before}, and split them into {counted(picture.segments_after, 'segment')}."
    gone = ", ".join(f"{grouped(count)} {reason}" for reason, count in picture.removed)
    return (
        f"The pass {verb} {grouped(picture.records_after)} of {before}: {size(picture.bytes_after)} in"
        f" {counted(picture.segments_after, 'segment')} ({gone or 'nothing'} removed)."
    )


def contents_sentence(found: Contents) -> str:
    """Describe the survivors in a range."""
    span = found.looked_at_to_offset - found.from_offset
    if not span:
        return "No offsets, no records."
    tombstones = sum(bucket.tombstones for bucket in found.buckets)
    text = (
        f"Of {grouped(span)} offsets from {grouped(found.from_offset)} to {grouped(found.looked_at_to_offset)} (exclusive)"
        f" {counted(found.records, 'record')} {'is' if found.records == 1 else 'are'} left ({percent(found.records / span)})"
    )
    text += f", including {counted(tombstones, 'tombstone')}." if tombstones else "."
    if found.looked_at_to_offset < found.to_offset:
        text += f" The rest, up to {grouped(found.to_offset)}, is too much for one search."
    return text


def key_of(parts: Iterable[Part]) -> Iterator[tuple[Part, str, str, str]]:
    """Yield part, letter, name and meaning for the legend."""
    for part in parts:
        name, meaning = MEANINGS[part]
        yield part, LETTERS[part], name, meaning
