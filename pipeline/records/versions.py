"""Versions of records as a column (KIP-280; see `storage.topics.versions`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...storage.topics.versions import BY_OFFSET, NO_VERSION, STRATEGY, VersionSource
from ..errors import UsageError
from .batch_window import Int64s

COLUMNS = ("timestampMs", "headers")
"""Columns of the format "ottla" that have versions."""

_VERSION_BYTES = 8


def versions_of(batch: pa.RecordBatch, source: VersionSource) -> Int64s:
    """Return the version of each record of a batch that has the columns COLUMNS."""
    if source.header is None:
        timestamps: Int64s = batch.column("timestampMs").to_numpy()
        return timestamps
    headers = batch.column("headers")
    flat = headers.flatten()
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    return header_versions(source.header, counts, flat.field("key"), flat.field("value"))


def check_goes_by_offset(topic: str, strategy: str, job: str) -> None:
    """Check that a topic keeps the newest record of each key, for a job that knows no versions. Raises UsageError if not."""
    if strategy != BY_OFFSET:
        raise UsageError(
            f"{topic} has {STRATEGY}={strategy}, so it may keep an older record of a key, but {job} goes by the newest one"
        )


def header_versions(header: bytes, counts: Int64s, names: pa.Array, values: pa.Array) -> Int64s:
    """Return the version of each record, from the names and values of all their headers, one record after the other.

    Args:
        counts: Number of headers of each record.
    """
    found = np.full(len(counts), NO_VERSION, np.int64)
    named = np.flatnonzero(_mask(pc.equal(names.cast(pa.binary()), pa.scalar(header, pa.binary()))))
    last = np.full(len(counts), -1, np.int64)
    last[np.repeat(np.arange(len(counts)), counts)[named]] = named  # of several the last one stays
    rows = np.flatnonzero(last >= 0)
    own = values.take(pa.array(last[rows]))
    is_valid = _mask(pc.equal(pc.binary_length(own), _VERSION_BYTES))
    found[rows[is_valid]] = np.frombuffer(b"".join(own.filter(pa.array(is_valid)).to_pylist()), ">i8")
    return found


def _mask(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    mask: np.ndarray[tuple[int], np.dtype[np.bool_]] = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return mask.astype(np.bool_)
