"""Record batches made by kafka-python's builder, for requests over a bare socket."""

import time

from kafka.record.memory_records import MemoryRecordsBuilder


def one_record_batch(value: bytes, key: bytes | None = None) -> bytes:
    """Return a v2 batch with one record, uncompressed, timestamp now."""
    builder = MemoryRecordsBuilder(2, 0, len(value) + 1024)
    builder.append(int(time.time() * 1000), key, value, headers=[])
    builder.close()
    return bytes(builder.buffer())
