"""Stage 3 of a compaction: one group of segments becomes one new segment, in the staging directory.

The batches pass through the server's own `BatchFilter`, with dead bits from stages 1 and 2 instead of the server's map.
Transactions, producers, the clock and the configs are the plan's. So the bytes, indexes included, equal those of a
pass of the server, and are the same every time.

    <staging>/00000000000000000310.<attempt>.part/      during the write; after a crash until all groups are done
    <staging>/00000000000000000310/                     finished: renamed as a whole, after all files are on disk
        00000000000000000310.log  .index  .timeindex  [.txnindex]
        manifest.json                                   their sizes and CRCs, and the result

Memory: two bits for each record of the group, and buffers of a few MiB.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict

import numpy as np

from ...protocol.errors import CorruptRecordError
from ...storage.disk import paths
from ...storage.disk.checkpoints import write_atomically
from ...storage.disk.files import File, Files
from ...storage.disk.size_only import SizeOnlyFile
from ...storage.filter.batch_chunks import ChunkReader
from ...storage.filter.clean_rules import BatchFilter
from ...storage.filter.copy_group import copy_group
from ...storage.filter.dead_bits import DeadBits
from ...storage.logs.staged_segment import MANIFEST_FILE, size_and_crc
from ...storage.segment.cleaned import set_mtime
from ...storage.segment.segment import LogSegment
from ..errors import CorruptSourceError, PipelineError
from ..stores.reading_files import ReadingFiles
from .exchange import BITS, WINNERS, Blob, set_superseded
from .group_results import GroupResult, check_finished_group
from .key_scan import CHUNK_BYTES, open_source
from .plan import CompactionPlan
from .segment_bits import BitTable, SegmentBits
from .staging import group_directory

PART = ".part"


def rewrite_groups(
    plan: CompactionPlan, blobs: Iterable[Blob], *, source_files: Files, files: Files, attempt: str
) -> Iterable[GroupResult]:
    """Run stage 3 for the groups of these blobs.

    All blobs of each group must be given, in any order. See `finished_or_rewritten`.
    """
    for group, found in by_group(blobs):
        yield finished_or_rewritten(plan, group, found, source_files=source_files, files=files, attempt=attempt)


def finished_or_rewritten(
    plan: CompactionPlan, group: int, blobs: Sequence[Blob], *, source_files: Files, files: Files, attempt: str
) -> GroupResult:
    """Rewrite a group as `rewrite_group`, unless an earlier attempt of this task has finished it."""
    return check_finished_group(plan, group, files) or rewrite_group(
        plan, group, blobs, source_files=source_files, files=files, attempt=attempt
    )


def by_group(blobs: Iterable[Blob]) -> Iterator[tuple[int, list[Blob]]]:
    """Yield each group with all of its blobs, to which no other reference is kept."""
    groups: dict[int, list[Blob]] = defaultdict(list)
    for blob in blobs:
        groups[blob.task].append(blob)
    while groups:
        yield groups.popitem()


def rewrite_group(
    plan: CompactionPlan, group: int, blobs: Sequence[Blob], *, source_files: Files, files: Files, attempt: str
) -> GroupResult:
    """Write the new segment of a group. It is on disk on return.

    An existing result is kept: of two attempts the first one counts, and they are equal.

    Args:
        source_files: For the data directory, which is not changed.
        files: For the staging directory.
        attempt: Part of a directory name that is unique to this attempt of the task.

    Raises:
        CorruptSourceError: A batch cannot be read, or stage 1 has seen other records.
        SourceChangedError: A segment is not the one that was planned.
        PipelineError: The disk failed. The group's partial output was deleted.
    """
    directory = paths.join(plan.staging, f"{plan.group_base(group):020}.{attempt}{PART}")
    try:
        files.remove_dir(directory)
        files.make_dir(directory)
        result = write_segment(plan, group, blobs, directory, source_files=source_files, files=files)
        write_atomically(files, paths.join(directory, MANIFEST_FILE), result.to_json())
    except OSError as error:
        with suppress(OSError):
            files.remove_dir(directory)
        raise PipelineError(f"{error.filename or directory}: {error.strerror or error}") from error
    final = group_directory(plan, group)
    was_there = files.exists(final)
    if check_finished_group(plan, group, files) is None:
        if was_there:  # damaged
            files.remove_dir(final)
        try:
            files.rename(directory, final)
            files.sync_dir(plan.staging)
            return result
        except OSError:  # another attempt was faster
            if check_finished_group(plan, group, files) is None:
                raise
    files.remove_dir(directory)
    return result


def remove_attempts(plan: CompactionPlan, files: Files) -> None:
    """Delete the files of dead attempts. Called when every group is finished, so that no running attempt is needed."""
    for name in files.list(plan.staging):
        if name.endswith(PART):
            with suppress(
                OSError
            ):  # an attempt that Spark has abandoned may still write: the next call deletes its files
                files.remove_dir(paths.join(plan.staging, name))


def dead_bits_of(plan: CompactionPlan, group: int, blobs: Sequence[Blob]) -> DeadBits:
    """Combine the bits of a group's segments, and set those that other segments have superseded.

    Args:
        blobs: All of the group's, in any order.
    """
    bits = {blob.source: SegmentBits.from_bytes(blob.data) for blob in blobs if blob.kind == BITS}
    starts, ends, count = dict[int, int](), dict[int, int](), 0
    for source in plan.groups[group]:
        starts[source] = count
        count += bits[source].numbered
        ends[plan.sources[source].base_offset] = count
    dead, tombstones = BitTable(count), BitTable(count)
    for source, found in bits.items():
        dead.put(starts[source], found.dead)
        tombstones.put(starts[source], found.tombstones)
    held = BitTable(count)
    for blob in blobs:
        if blob.kind != BITS:
            set_superseded(blob, held if blob.kind == WINNERS else dead, starts[blob.source])
    for source, found in bits.items():
        echoes = found.echoes.astype(np.uint64).reshape(-1, 2) + np.uint64(starts[source])
        dead.set(echoes[dead.are_set(echoes[:, 1]) | held.are_set(echoes[:, 1]), 0])
    has_versions = plan.log_config.version_source is not None
    for source, found in bits.items() if has_versions else ():
        held.set(np.arange(found.clean, found.numbered, dtype=np.uint64) + np.uint64(starts[source]))
    return DeadBits.from_arrays(
        dead.to_array(),
        tombstones.to_array(),
        numbered=count,
        keyless=sum(found.keyless for found in bits.values()),
        latest=plan.upper_offset - 1,
        ordinal_ends=ends,
        held=held.to_array() if has_versions else None,
    )


def write_segment(
    plan: CompactionPlan, group: int, blobs: Sequence[Blob], directory: str, *, source_files: Files, files: Files
) -> GroupResult:
    """Write the new segment of a group into a directory. Arguments and errors as of `rewrite_group`."""
    bits = dead_bits_of(plan, group, blobs)
    numbers = plan.groups[group]
    sources = {plan.sources[number].base_offset: plan.sources[number] for number in numbers}
    rules = BatchFilter(
        bits,
        last_records=plan.last_records,
        kept_end_offset=plan.high_watermark,
        now_ms=plan.now_ms,
        delete_retention_ms=plan.log_config.delete_retention_ms,
        record_bytes_max=plan.log_config.max_decompressed_message_bytes,
        chunk_bytes=CHUNK_BYTES,
        aged_up_to_ms=plan.log_config.aged_up_to_ms(plan.now_ms),
        transactions=plan.sources[numbers[0]].transactions,
    )
    segments = [open_source(plan, number, source_files) for number in numbers]
    cleaned = LogSegment.create(files, directory, plan.group_base(group), plan.log_config, plan.now_ms)
    try:
        with closing(cleaned.log_file):
            bytes_read = copy_group(
                segments,
                cleaned,
                rules,
                reader=ChunkReader(CHUNK_BYTES),
                aborted_in=lambda segment: sources[segment.base_offset].aborted,
            )
            set_mtime(cleaned, plan.sources[numbers[-1]].mtime_ms)
            cleaned.flush()
            bytes_written = cleaned.size_bytes
    except CorruptRecordError as error:
        raise CorruptSourceError(f"{plan.directory}: {error.message}") from error
    finally:
        for segment in segments:
            segment.log_file.close()
    made = [path for path in cleaned.file_paths() if files.exists(path)]
    return GroupResult(
        group=group,
        base_offset=cleaned.base_offset,
        source_base_offsets=tuple(sources),
        files={path.rpartition("/")[2]: size_and_crc(files, path) for path in made},
        bytes_read=bytes_read,
        bytes_written=bytes_written,
        records_read=rules.records_read,
        removed=asdict(rules.removed),
    )


def preview_groups(plan: CompactionPlan, blobs: Iterable[Blob], *, source_files: Files) -> Iterator[GroupResult]:
    """Run stage 3 as a dry run, into files that keep only their sizes.

    Expired tombstones and markers, and aborted data, are known only after the filter has read them. So the figures are those of
    `rewrite_groups`, and the log is read as often. Arguments and errors are the same.
    """
    for group, found in by_group(blobs):
        yield write_segment(plan, group, found, plan.staging, source_files=source_files, files=_Nowhere())


class _Nowhere(ReadingFiles):
    """Files that accept writes and keep nothing but sizes. None of them exists."""

    def __init__(self) -> None:
        self._files: dict[str, SizeOnlyFile] = {}

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:  # type: ignore[override]
        return self._files.setdefault(path, SizeOnlyFile())

    def exists(self, path: str) -> bool:
        return False

    def remove(self, path: str) -> None:
        self._files.pop(path, None)

    def sync_dir(self, path: str) -> None: ...
