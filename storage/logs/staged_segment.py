"""Segment that another process made from segments of this log, and its way into the log's directory.

    <data dir>.ottla-pipeline/<plan>/00000000000000000310/      next to the data directory, on the same file system
        00000000000000000310.log  .index  .timeindex  [.txnindex]
        manifest.json           names, sizes and CRCs of these, and the bases of the segments that they replace

Hard links with the suffix `.cleaned` bring it in; from there the swap is the same as after a pass of the cleaner. The staged
files stay until `remove_files`, so a swap that a crash has undone can be done again. A rename could leave the files in two
directories after a power loss, each with only some of them; links cannot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...protocol.checksum import crc32c
from ..disk import paths
from ..disk.files import DamagedFileError, Files
from ..produce import producer_snapshots
from ..segment.cleaned import discard, discard_cleaned
from ..segment.segment import LogSegment
from ..topics.config import LogConfig
from .flush import Flush
from .log import Log

MANIFEST_FILE = "manifest.json"
MANIFEST_BYTES_MAX = 16 << 20
"""Larger manifests are refused unread. A manifest of 100 000 sources has a tenth of this size."""

_CRC_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StagedSegment:
    """Contents of a manifest."""

    directory: str
    base_offset: int
    source_base_offsets: tuple[int, ...]
    """Base offsets of the segments that it was made from, in order; the first is `base_offset`."""
    files: Mapping[str, tuple[int, int]]
    """Name -> bytes, CRC-32C. The log file and the offset index are always present."""

    @property
    def log_size_and_crc(self) -> tuple[int, int]:
        return self.files[paths.segment_file_name(self.base_offset, paths.LOG)]

    def check(self, files: Files, *, is_read: bool = True) -> None:
        """Check size and CRC of every file; without `is_read` only the size, where another process has read the bytes.

        Raises:
            DamagedFileError: A file is missing or differs.
        """
        for name, (size_bytes, crc) in self.files.items():
            path = paths.join(self.directory, name)
            # A symbolic link would be linked as such into the log's directory, and its target may be deleted.
            found = None
            if files.is_file(path):
                found = size_and_crc(files, path) if is_read else (files.size(path), crc)
            if found != (size_bytes, crc):
                there = "no regular file" if found is None else f"{found[0]} bytes with CRC {found[1]:#x}"
                raise DamagedFileError(f"{path}: expected {size_bytes} bytes with CRC {crc:#x}, found {there}")

    def link_into(self, files: Files, directory: str, config: LogConfig, now_ms: int) -> LogSegment:
        """Link the files into a log's directory, under `.cleaned`, as `swap_files` needs them. On disk on return.

        Raises:
            OSError: The disk refused, or `directory` is on another file system (EXDEV). Names under `.cleaned` may be
                left; a start removes them, and so does the next call.
        """
        for kind in paths.SEGMENT_KINDS:
            target = paths.segment_path(directory, self.base_offset, kind, paths.CLEANED)
            files.remove(target)
            name = paths.segment_file_name(self.base_offset, kind)
            if name in self.files:
                files.link(paths.join(self.directory, name), target)
        # While a `.cleaned` file is on disk, a start undoes all renames. Without this sync an index under `.swap` might be
        # alone on disk, and would be taken for that of the old segment.
        files.sync_dir(directory)
        return LogSegment.open(files, directory, self.base_offset, config, now_ms, paths.CLEANED)

    def remove_files(self, files: Files) -> None:
        """Remove the staged files, once the segment is in the log; the manifest stays."""
        for name in self.files:
            files.remove(paths.join(self.directory, name))


def read_staged(files: Files, directory: str, *, manifest_crc: int | None = None) -> StagedSegment:
    """Read the manifest of a staging directory; the files that it lists are not read.

    Args:
        manifest_crc: CRC-32C of the manifest's bytes, where the caller knows it.

    Raises:
        DamagedFileError: The manifest is missing or invalid.
    """
    path = paths.join(directory, MANIFEST_FILE)
    if not files.is_file(path):
        raise DamagedFileError(f"{path}: expected a manifest, found no regular file")
    if (size_bytes := files.size(path)) > MANIFEST_BYTES_MAX:
        raise DamagedFileError(f"{path}: manifest too large ({size_bytes} bytes, limit {MANIFEST_BYTES_MAX})")
    file = files.open(path)
    try:
        data = file.read_at(0, size_bytes)
    finally:
        file.close()
    if manifest_crc is not None and (crc := crc32c(data)) != manifest_crc:
        raise DamagedFileError(f"{path}: expected a manifest with CRC {manifest_crc:#x}, found {crc:#x}")
    try:
        fields = json.loads(data)
        found = StagedSegment(
            directory,
            int(fields["base_offset"]),
            tuple(int(base_offset) for base_offset in fields["source_base_offsets"]),
            {str(name): (int(size_bytes), int(crc)) for name, (size_bytes, crc) in fields["files"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFileError(f"{path}: invalid manifest: {error!r}") from error
    _check_sense(found, path)
    return found


def _check_sense(found: StagedSegment, path: str) -> None:
    sources = found.source_base_offsets
    if not sources or sources[0] != found.base_offset or list(sources) != sorted(set(sources)):
        raise DamagedFileError(
            f"{path}: expected source segments in order from {found.base_offset}, found {list(sources)[:10]}"
        )
    of_segment = {paths.segment_file_name(found.base_offset, kind) for kind in paths.SEGMENT_KINDS}
    needed = {paths.segment_file_name(found.base_offset, kind) for kind in (paths.LOG, paths.INDEX)}
    if not needed <= set(found.files) <= of_segment:
        raise DamagedFileError(
            f"{path}: expected the files of segment {found.base_offset}, found {sorted(found.files)}"
        )


def size_and_crc(files: Files, path: str) -> tuple[int, int]:
    """Return the size in bytes and the CRC-32C of a file's content."""
    file = files.open(path)
    try:
        crc = position = 0
        while data := file.read_at(position, _CRC_CHUNK_BYTES):
            crc = crc32c(data, crc)
            position += len(data)
        return position, crc
    finally:
        file.close()


def bring_in(
    log: Log,
    old: Sequence[LogSegment],
    directory: str,
    manifest_crc: int,
    *,
    end_offset: int,
    unsynced: Flush | None,
    now_ms: int,
) -> LogSegment:
    """Check every byte of a staged segment, and link it into the log's directory for `Log.prepare_swap`. In any thread.

    Args:
        old: Sealed segments of the log that it will replace: neighbours, in order.
        directory: The directory with the manifest.
        end_offset: Base offset of the segment after `old`; all offsets must be below it.
        unsynced: Flush of what is not on disk yet; None if all is.

    Raises:
        DamagedFileError, CorruptRecordError, OldFormatError: The segment is damaged, or was not made from `old`.
        OSError: The disk refused, or the log is on another file system (EXDEV).
        After any error no name is left in the log's directory, if the disk allows that.
    """
    staged = read_staged(log.files, directory, manifest_crc=manifest_crc)
    bases = [segment.base_offset for segment in old]
    if staged.base_offset != bases[0] or not set(bases).issubset(staged.source_base_offsets):
        made_of = list(staged.source_base_offsets)
        raise DamagedFileError(
            f"{directory}: expected a replacement for segments {bases[:10]}, found one for {made_of[:10]}"
        )
    staged.check(log.files)
    # An old value must not be removed because of a newer one that a power loss could still destroy.
    if unsynced is not None:
        unsynced.sync()
    producer_snapshots.remove_undecided(log.files, log.directory, end_offset)
    discard_cleaned(log.files, log.directory)
    try:
        return _linked(log, staged, end_offset, now_ms)
    except BaseException:
        discard(log.files, log.directory, ())
        raise


def _linked(log: Log, staged: StagedSegment, end_offset: int, now_ms: int) -> LogSegment:
    new = staged.link_into(log.files, log.directory, log.config, now_ms)
    try:
        new.sanity_check()
        if (found := new.next_offset()) > end_offset:
            raise DamagedFileError(f"{staged.directory}: expected offsets below {end_offset}, found {found - 1}")
    except BaseException:
        new.log_file.close()
        raise
    return new
