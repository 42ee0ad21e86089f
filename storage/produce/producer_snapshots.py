"""Producer state on disk: `<offset>.snapshot`, the state after all records below that offset.

    i16 version 1 | u32 CRC-32C of all that follows | i32 count | entries of 46 bytes

    entry = i64 producer id | i16 epoch | i32 last sequence | i64 last offset | i32 offset delta | i64 timestamp
            | i32 coordinator epoch | i64 first offset of the open transaction, or -1

Written at roll and at clean stop, read at start: recovery takes the newest valid one and replays the log from there. Only
the newest batch of each producer is kept. A snapshot is a cache of the log with a CRC, so it is written in place. If a power
loss damages it, it is removed, and more of the log is replayed. The cleaner removes markers from that part of the log, so it
also removes the snapshots with open transactions that these markers end.
"""

import struct
from collections.abc import Container, Iterable
from contextlib import suppress

from ...protocol.checksum import crc32c
from ..disk import paths
from ..disk.files import DamagedFileError, Files
from .producer_state import ENTRY, BatchMetadata, ProducerState
from .producers import ProducerStates

_VERSION = 1
_PREFIX = struct.Struct(">hI")
_COUNT = struct.Struct(">i")


def encode(states: Iterable[ProducerState]) -> bytes:
    """Return the snapshot file's content for these producers."""
    entries = [state.entry or state.pack() for state in states]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _PREFIX.pack(_VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerState]:
    """Return the producers of a snapshot file.

    Raises:
        DamagedFileError: Another version, a wrong CRC, or a size that does not fit the count.
    """
    return [_decode_entry(*entry) for entry in ENTRY.iter_unpack(_entries(data))]


def _entries(data: bytes) -> memoryview:
    if len(data) < _PREFIX.size + _COUNT.size:
        raise DamagedFileError(f"too short for a producer snapshot ({len(data)} bytes)")
    version, crc = _PREFIX.unpack_from(data)
    if version != _VERSION:
        raise DamagedFileError(f"unknown version {version}")
    body = memoryview(data)[_PREFIX.size :]
    if crc32c(body) != crc:
        raise DamagedFileError("the CRC does not match")
    (count,) = _COUNT.unpack_from(body)
    entries = body[_COUNT.size :]
    if len(entries) != count * ENTRY.size:
        raise DamagedFileError(f"expected {count} entries, found {len(entries)} bytes")
    return entries


def _decode_entry(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerState:
    state = ProducerState(
        producer_id,
        producer_epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        current_txn_first_offset=txn_first_offset if txn_first_offset >= 0 else None,
        batches=[BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)] if last_offset >= 0 else [],
    )
    state.pack()  # now, while the log is loaded, instead of all at once with the first roll
    return state


def take(files: Files, directory: str, producers: ProducerStates, *, sync: bool) -> None:
    """Write the state at `producers.end_offset`, unless that snapshot exists.

    Args:
        sync: Wait until the file's bytes are on disk. The directory is not synced.

    Raises:
        OSError: The disk refused. If the file cannot even be removed, a part of it is left; `load_newest` finds it damaged.
    """
    path = paths.snapshot_path(directory, producers.end_offset)
    if files.exists(path):
        return
    try:
        file = files.open(path, create=True, truncate=True)
        try:
            file.append(encode(producers))
            if sync:
                file.sync()
        finally:
            file.close()
    except OSError:
        with suppress(OSError):
            files.remove(path)
        raise


def load_newest(
    files: Files,
    directory: str,
    producers: ProducerStates,
    *,
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int | None,
    tidies: bool = True,
) -> None:
    """Set `producers` to the newest usable snapshot, or to the empty state at the log start.

    The caller then replays the log from `producers.end_offset` on. Unless `tidies` is False, this removes snapshots beyond
    `log_end_offset` or not above `log_start_offset`, and damaged ones newer than the one used. Producers that have expired
    by `now_ms` are left out; with None all stay. A snapshot that the server removes during the call is skipped.
    """
    usable = []
    for offset in offsets(files, directory):
        if log_start_offset < offset <= log_end_offset:
            usable.append(offset)
        elif tidies:
            _remove(files, directory, offset)
    for offset in reversed(usable):
        try:
            states = decode(_read(files, paths.snapshot_path(directory, offset)))
        except (DamagedFileError, FileNotFoundError):
            if tidies:
                _remove(files, directory, offset)
            continue
        producers.reset(offset, states, now_ms=now_ms)
        return
    producers.reset(log_start_offset)


def _read(files: Files, path: str) -> bytes:
    file = files.open(path)
    try:
        return file.read_at(0, file.size())
    finally:
        file.close()


def offsets(files: Files, directory: str) -> list[int]:
    """Return the offsets of the snapshots in a partition directory, ascending."""
    names = [name for name in files.list(directory) if name.endswith(paths.SNAPSHOT)]
    return sorted(found.base_offset for name in names if (found := paths.parse_segment_name(name)))


def _remove(files: Files, directory: str, offset: int) -> None:
    files.remove(paths.snapshot_path(directory, offset))


def remove_stray(files: Files, directory: str, segment_base_offsets: Container[int], *, last_base_offset: int) -> None:
    """Remove snapshots that belong to no segment, except the newest one above all segments: a clean stop wrote it.

    Args:
        segment_base_offsets: The base offsets of all segments; `last_base_offset` is the largest.
    """
    stray = [offset for offset in offsets(files, directory) if offset not in segment_base_offsets]
    if stray and stray[-1] > last_base_offset:
        stray.pop()
    for offset in stray:
        _remove(files, directory, offset)


def remove_undecided(files: Files, directory: str, below: int) -> None:
    """Remove the snapshots below offset `below` that contain an open transaction, so that its marker may be removed.

    Called before markers without data are removed from the log. A replay from such a snapshot would find the transaction
    open for ever; a replay from an earlier one finds neither the transaction nor its marker. Durable on return.

    Raises:
        OSError: The disk refused; some snapshots may be removed, which does no harm.
    """
    removed = False
    for offset in offsets(files, directory):
        if offset < below:
            try:
                entries = _entries(_read(files, paths.snapshot_path(directory, offset)))
            except DamagedFileError:
                continue  # no start will use it
            # Each clean pass does this, so it makes no object for each producer in each snapshot.
            if any(entry[-1] >= 0 for entry in ENTRY.iter_unpack(entries)):
                _remove(files, directory, offset)
                removed = True
    if removed:
        files.sync_dir(directory)


def remove_all(files: Files, directory: str) -> None:
    """Remove every snapshot, when the log is emptied."""
    for offset in offsets(files, directory):
        _remove(files, directory, offset)
