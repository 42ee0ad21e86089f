"""Bytes to JSON by a schema of any kind."""

from __future__ import annotations

from collections.abc import Callable

from .frames import Frame
from .plain_json import MAX_BYTES, MAX_CHARACTERS, NotDecodable
from .values import Budget, InvalidSchema, Schema, read_json, write_json

CHARACTERS_PER_STEP = 10
"""Characters of a schema, or of a value in JSON, whose parsing costs one step."""

Read = Callable[[Frame, Budget], str]


def json_of(frame: Frame, read: Read, budget: Budget) -> str:
    """Return the key or value of a frame as JSON.

    Raises:
        NotDecodable: The bytes are not a value of the schema, or it is too large.
        SchemaTooLarge: The budget is spent.
    """
    data = frame.head if frame.data is None else frame.data
    if len(data) > MAX_BYTES:
        raise NotDecodable(f"too large to be decoded ({len(data)} bytes, limit {MAX_BYTES})")
    text = read(frame, budget)
    if len(text) > MAX_CHARACTERS:
        raise NotDecodable(f"too large to be shown ({len(text)} characters of JSON, limit {MAX_CHARACTERS})")
    return text


def read_text(frame: Frame, budget: Budget) -> str:
    """Return the JSON after the frame of a JSON Schema as it is written. Raises as `json_of`."""
    data = _rest(frame)
    budget.spend(len(data) // CHARACTERS_PER_STEP)
    try:
        text = data.decode()
        read_json(text)
    except UnicodeDecodeError as error:
        raise NotDecodable(f"not JSON: invalid UTF-8 at byte {error.start}") from None
    except InvalidSchema as error:
        raise NotDecodable(str(error).removeprefix("schema: ")) from None
    return text.strip()


def reader_of(schema: Schema) -> Read:
    """Return the function that reads values of a schema. It raises as `json_of`."""
    return _READERS[schema.kind](schema)


def _rest(frame: Frame) -> bytes:
    return frame.head[frame.start :] if frame.data is None else frame.data


def _avro(schema: Schema) -> Read:
    from .avro_values import decode_avro  # Here and below, as most users have schemas of one kind.

    return lambda frame, budget: write_json(decode_avro(schema.parsed, _rest(frame), budget))


def _protobuf(schema: Schema) -> Read:
    from .proto_values import ProtobufDecoder, message_at, read_indexes

    decoder = ProtobufDecoder(schema)

    def read(frame: Frame, budget: Budget) -> str:
        indexes, end = read_indexes(frame.head, frame.start)
        data = frame.head[end:] if frame.data is None else frame.data
        return write_json(decoder.decode(message_at(decoder.file, indexes), data, budget))

    return read


_READERS: dict[str, Callable[[Schema], Read]] = {"AVRO": _avro, "JSON": lambda _: read_text, "PROTOBUF": _protobuf}
