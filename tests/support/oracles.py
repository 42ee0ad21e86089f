"""Record formats of other Kafka implementations, for comparison with Ottla's.

kafka-python warns on import (it reads its schemas through a deprecated function), which Ottla's warnings filter would
make an error; therefore its modules are imported here and nowhere else.
"""

import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    from aiokafka.record import default_records as aiokafka_records
    from kafka.record import default_records as kafka_python_records
    from kafka.record import util as kafka_python_varints

kafka_python_codec: ModuleType = kafka.codec
IMPLEMENTATIONS: dict[str, Any] = {"kafka-python": kafka_python_records, "aiokafka": aiokafka_records}

Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""(offset, timestamp, key, value, headers)"""


def encode_varint(value: int) -> bytes:
    """Encode a signed integer with kafka-python."""
    out: list[int] = []
    kafka_python_varints.encode_varint(value, out.append)
    return bytes(out)


def decode_varint(data: bytes) -> tuple[int, int]:
    """Decode a signed integer with kafka-python: return the value and the position after it."""
    value, at = kafka_python_varints.decode_varint(bytearray(data), 0)
    return value, at


def build(
    name: str,
    rows: Iterable[Row],
    *,
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """Return one batch as that implementation's producer writes it; offsets count from 0."""
    builder = IMPLEMENTATIONS[name].DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=1 << 30,
    )
    for offset, timestamp, key, value, headers in rows:
        builder.append(offset, timestamp, key, value, headers)
    return bytes(builder.build())


def read(name: str, data: bytes) -> tuple[dict[str, Any], list[Row]]:
    """Read a batch with that implementation's consumer: return header fields and records. Its CRC must be right."""
    batch = IMPLEMENTATIONS[name].DefaultRecordBatch(data)
    assert batch.validate_crc()
    header = {
        field: getattr(batch, field)
        for field in (
            "base_offset",
            "attributes",
            "last_offset_delta",
            "max_timestamp",
            "producer_id",
            "producer_epoch",
            "base_sequence",
            "is_transactional",
            "is_control_batch",
        )
    }
    return header, [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
