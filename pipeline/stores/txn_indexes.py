"""Repair of a log's transaction indexes as at a start of the server, in memory only."""

from __future__ import annotations

from collections.abc import Mapping

from ...storage.disk.files import DamagedFileError
from ...storage.disk.paths import OFFSET_MAX
from ...storage.logs.replay import replayed
from ...storage.produce.producers import ProducerStates
from ...storage.segment.index import AbortedTxn
from ...storage.segment.segment import LogSegment


def complete_txn_indexes(producers: ProducerStates, segments: list[LogSegment], up_to: int = OFFSET_MAX) -> None:
    """Replay a log (see `replayed`), and add missing entries to its transaction indexes, in memory.

    Raises:
        CorruptRecordError: There are bytes that are not a batch. Batches before them count.
        DamagedFileError: An index is invalid, and the replay does not cover all its entries.
    """
    begins = producers.end_offset
    found: dict[int, dict[int, AbortedTxn]] = {
        segment.base_offset: {} for segment in segments if segment.base_offset >= begins
    }
    try:
        for segment, txn in replayed(producers, segments, up_to):
            found.setdefault(segment.base_offset, {})[txn.last_offset] = txn
    finally:
        for segment in segments:
            if (own := found.get(segment.base_offset)) is not None:
                _add(segment, own, is_all=begins <= segment.base_offset < up_to)


def _add(segment: LogSegment, txns: Mapping[int, AbortedTxn], *, is_all: bool) -> None:
    """Add these transactions, by their last offsets, to a segment's index, in memory. `is_all` if it can have no others."""
    index = segment.txn_index
    try:
        known = {txn.last_offset: txn for txn in index.entries()}
    except DamagedFileError:
        if not is_all:
            raise
        known = {}
    if known.keys() >= txns.keys() and known:
        return
    index.reset()
    for _, txn in sorted((known | dict(txns)).items()):
        index.append(txn)
