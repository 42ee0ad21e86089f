"""Records of Avro and Protobuf as their clients write them, by the formats' own rules: an encoder that shares nothing with Spark's.

Only what the suite's schemas have: a record, or a message, of texts and whole numbers.
"""

import struct
from collections.abc import Iterable, Sequence

INT64, STRING = 3, 9
"""Types of a field in a FieldDescriptorProto."""


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def avro(values: Iterable[str | int | None]) -> bytes:
    """Return a record's fields in order. A text or a number is a union ["null", …], as each field of the suite's schemas is."""
    found = b""
    for value in values:
        if value is None:
            found += varint(0)
        elif isinstance(value, str):
            found += varint(2) + varint(2 * len(value.encode())) + value.encode()
        else:
            found += varint(2) + varint(value << 1 if value >= 0 else -(value << 1) - 1)
    return found


def avro_envelope(schema_id: int, op: str, after: Sequence[str | int | None] | None) -> bytes:
    """Frame Debezium's envelope, without the row before. The source has a text and a number that may be null."""
    found = avro([None]) + (avro([None]) if after is None else varint(2) + avro(after))
    return struct.pack(">bI", 0, schema_id) + found + _text("shop") + avro([None]) + _text(op)


def _text(text: str) -> bytes:
    return varint(2 * len(text.encode())) + text.encode()


def avro_framed(schema_id: int, values: Iterable[str | int | None]) -> bytes:
    """Frame a value as Confluent's serializer does."""
    return struct.pack(">bI", 0, schema_id) + avro(values)


def _tagged(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(values: Sequence[str | int]) -> bytes:
    """Return fields 1, 2, … of a message; what is empty or 0 is left out, as proto3 does."""
    found = b""
    for number, value in enumerate(values, 1):
        if isinstance(value, str):
            found += _tagged(number, value.encode()) if value else b""
        elif value:
            found += varint(number << 3) + varint(value)
    return found


def message_framed(schema_id: int, values: Sequence[str | int]) -> bytes:
    """Frame a value of the first message of its file: an empty list of indexes is one zero byte."""
    return struct.pack(">bIb", 0, schema_id, 0) + message(values)


def descriptor_set(package: str, name: str, fields: Iterable[tuple[str, int]]) -> bytes:
    """Return `protoc --descriptor_set_out`'s output for a file with one message of these (name, type)."""
    made = _tagged(1, name.encode())
    for number, (field, kind) in enumerate(fields, 1):
        optional = varint(4 << 3) + varint(1)
        made += _tagged(
            2, _tagged(1, field.encode()) + varint(3 << 3) + varint(number) + optional + varint(5 << 3) + varint(kind)
        )
    file = _tagged(1, b"shop.proto") + _tagged(2, package.encode()) + _tagged(4, made) + _tagged(12, b"proto3")
    return _tagged(1, file)
