"""Apache Kafka's metadata log, byte by byte."""

from __future__ import annotations

from typing import Any

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.messages.cluster_metadata import RECORD_TYPES
from ottla.protocol.wire import Parts, codec


def value(record: Any, version: int | None = None, kind: int | None = None, frame: int = 1) -> bytes:
    """Return the bytes of a metadata record."""
    found, known = next((k, t) for k, t in RECORD_TYPES.items() if t.record is type(record))
    version = known.version_max if version is None else version
    parts: Parts = [bytearray()]
    codec(known.record, min(version, known.version_max), True).write(record, parts)
    return bytes([frame, found if kind is None else kind, version]) + b"".join(bytes(part) for part in parts)


def batch(base_offset: int, *values: bytes, **options: Any) -> bytes:
    records = [(base_offset + index, 0, None, data, ()) for index, data in enumerate(values)]
    return bytes(build_batch(records, base_offset=base_offset, **options))


def log_of(*records: Any) -> bytes:
    return b"".join(batch(offset, value(record)) for offset, record in enumerate(records))
