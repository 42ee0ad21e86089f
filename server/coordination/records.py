"""Records on their way into one batch of a coordinator's topic. A batch of thousands is made in pieces; to append it is then
one short step.

Keys and values are blobs: a number (a key's type, a value's schema version), then a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from struct import Struct
from typing import Any, NamedTuple

from ...protocol.batch_builder import append_records, seal_batch
from ...protocol.errors import ProtocolError
from ...protocol.records import HEADER_BYTES, NO_SEQUENCE, TRANSACTIONAL_BIT
from ...protocol.wire import MessageCodec, codec, uvarint
from .jobs import AT_ONCE, Steps

Pair = tuple[bytes, bytes | None]
"""Key and value of one record; None deletes the key."""


class Producer(NamedTuple):
    """In whose transaction records are written."""

    producer_id: int
    producer_epoch: int


_NOBODY = Producer(-1, -1)


class Records:
    """Records in their order; `sealed` makes a batch of them."""

    __slots__ = ("_block", "_count")

    def __init__(self, pairs: Sequence[Pair] = ()) -> None:
        self._block = bytearray()
        self._count = 0
        if pairs:
            self.add(*pairs)

    def __len__(self) -> int:
        return self._count

    @property
    def batch_bytes(self) -> int:
        """How large the batch would be by now."""
        return HEADER_BYTES + len(self._block)

    def add(self, *pairs: Pair) -> None:
        append_records(self._block, [(at, 0, key, value, ()) for at, (key, value) in enumerate(pairs, self._count)])
        self._count += len(pairs)

    def add_within(self, max_bytes: int, pair: Pair) -> bool:
        """`add`, unless the batch would then be larger than `max_bytes`; an empty one takes any record. Whether it is in."""
        before_bytes = len(self._block)
        self.add(pair)
        if self._count > 1 and self.batch_bytes > max_bytes:
            del self._block[before_bytes:]
            self._count -= 1
            return False
        return True

    def sealed(self, now_ms: int, producer: Producer | None = None, base_sequence: int = NO_SEQUENCE) -> bytearray:
        """The batch: all records of `now_ms`; transactional if there is a `producer`."""
        return seal_batch(
            self._block,
            record_count=self._count,
            base_offset=0,
            last_offset_delta=self._count - 1,
            attributes=0 if producer is None else TRANSACTIONAL_BIT,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
            producer_id=(producer or _NOBODY).producer_id,
            producer_epoch=(producer or _NOBODY).producer_epoch,
            base_sequence=base_sequence,
        )


NUMBER = Struct(">h")


def blob_types(record_types: Mapping[int, tuple[type[Any], type[Any]]]) -> dict[type, tuple[int, MessageCodec]]:
    """Number and codec of each key and value, by class; `record_types` has both classes by the key's type.

    Values have schema version 0, which is flexible.
    """
    return {key: (number, codec(key, 0, False)) for number, (key, _) in record_types.items()} | {
        value: (0, codec(value, 0, True)) for _, value in record_types.values()
    }


def write_blob(number: int, with_codec: MessageCodec, message: object) -> bytes:
    blob = bytearray(NUMBER.pack(number))
    with_codec.write(message, [blob])
    return bytes(blob)


def write_record(types: Mapping[type, tuple[int, MessageCodec]], key: object, value: object | None) -> Pair:
    """Key and value, whose classes are in `types`; a value of None deletes the key."""
    written: list[Any] = []
    for message in key, value:
        if message is None:
            written.append(None)
            continue
        number, with_codec = types[type(message)]
        blob = bytearray(NUMBER.pack(number))
        with_codec.write(message, [blob])
        written.append(bytes(blob))
    return written[0], written[1]


def writing_blob(
    number: int, with_codec: MessageCodec, message: Any, arrays: Mapping[str, Iterable[object]]
) -> Steps[bytes]:
    """`write_blob` in pieces, where arrays are long.

    Args:
        with_codec: Of a flexible version.
        message: Without the elements of these arrays.
        arrays: By field, in the order of the message. Elements are taken one after the other, so they may be made meanwhile.
    """
    blob, parts, done = write_blob(number, with_codec, message), list[bytes | bytearray](), 0
    for array, elements in arrays.items():
        body, count, at, left = bytearray(), 0, len(blob), iter(elements)
        while some := tuple(islice(left, AT_ONCE)):
            piece = write_blob(number, with_codec, replace(message, **{array: some}))
            if not count:
                # They are alike up to the number of elements, which is a single byte where there are none.
                at = next(at for at, (one, other) in enumerate(zip(blob, piece, strict=False)) if one != other)
            body += piece[at + len(uvarint(len(some) + 1)) : len(piece) - (len(blob) - at - 1)]
            count += len(some)
            yield
        if count:
            parts += blob[done:at], uvarint(count + 1), body
            done = at + 1
    return b"".join((*parts, blob[done:]))


def read_number(blob: bytes) -> int:
    """The number in front. ProtocolError if there is none."""
    if len(blob) < NUMBER.size:
        raise ProtocolError(f"record too short for a type or version ({len(blob)} bytes)")
    number: int = NUMBER.unpack_from(blob)[0]
    return number


def read_message(with_codec: MessageCodec, blob: bytes) -> Any:
    """The message behind the number. ProtocolError if it is not all of the blob."""
    message, end = with_codec.read(memoryview(blob), NUMBER.size)
    if end != len(blob):
        raise ProtocolError(f"{len(blob) - end} unexpected bytes after {with_codec.cls.__name__}")
    return message
