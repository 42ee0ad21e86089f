"""Keys and values of `__share_group_state`, in Apache Kafka's format.

    key    type i16, then group, topic id, partition     value  version i16 (0), then
           0  snapshot                                          whole state of a share partition
           1  update                                            changes of the state

A snapshot's key without a value deletes the share partition. Unknown types are skipped.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from ...protocol.errors import ErrorCode, KafkaError, ProtocolError
from ...protocol.messages.share_state_log import RECORD_TYPES
from ...protocol.messages.write_share_group_state import StateBatch as StateBatchMessage
from ...protocol.wire import codec
from ...storage.disk.checkpoints import uuid_text
from ..coordination import records as coordinator_records
from ..coordination.records import blob_types, read_message, read_number
from .state_batches import ShareStateBatch

_BLOBS = blob_types(RECORD_TYPES)

Change: TypeAlias = tuple[Any, Any]
"""Key and value, as messages of `share_state_log`; the value None deletes the key."""

_UUID_BYTES, _UUID_CHARS_MAX = 16, 24
_NUMBER = re.compile(r"[+-]?[0-9]{1,12}")
_CHARS_IN_MESSAGE = 1024


class SharePartitionKey(NamedTuple):
    group_id: str
    topic_id: bytes
    partition: int

    @property
    def text(self) -> str:
        """Key for `FindCoordinator` (key type 2), which also selects the partition of `__share_group_state`."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"

    @classmethod
    def from_text(cls, text: str) -> SharePartitionKey:
        """Parse a `text`. Raises KafkaError INVALID_REQUEST if it is not one."""
        *group, topic_id, partition = ["", "", *text.rstrip(":").split(":")]
        group_id = ":".join(group[2:])
        try:
            if not group_id.strip() or len(topic_id) > _UUID_CHARS_MAX or not _NUMBER.fullmatch(partition):
                raise ValueError(text)
            key = cls(group_id, urlsafe_b64decode(topic_id + "=" * (-len(topic_id) % 4)), int(partition))
            if len(key.topic_id) != _UUID_BYTES or not -(2**31) <= key.partition < 2**31:
                raise ValueError(text)
        except ValueError as error:
            shown = text[:_CHARS_IN_MESSAGE]
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{shown!r}: invalid key; expected GROUP:TOPIC-ID:PARTITION"
            ) from error
        return key


def read_record(key: bytes | None, value: bytes | None) -> Change | None:
    """Decode one record; None for a type that this broker does not know.

    Raises:
        ProtocolError: The key or the value does not have its format.
    """
    if key is None:
        raise ProtocolError("record without a key")
    known = RECORD_TYPES.get(read_number(key))
    if known is None:
        return None
    key_class, value_class = known
    if value is not None and read_number(value) != 0:
        raise ProtocolError(f"unsupported version {read_number(value)} of {value_class.__name__}")
    said = None if value is None else read_message(codec(value_class, 0, True), value)
    return read_message(codec(key_class, 0, False), key), said


write_record = partial(coordinator_records.write_record, _BLOBS)
"""Function that encodes a record from key and value."""


def key_of(cls: type[Any], key: SharePartitionKey) -> Any:
    return cls(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def write_batches(batches: Iterable[ShareStateBatch]) -> tuple[StateBatchMessage, ...]:
    return tuple(
        StateBatchMessage(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_state=batch.delivery_state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    )


def read_batches(batches: Iterable[StateBatchMessage]) -> tuple[ShareStateBatch, ...]:
    return tuple(
        ShareStateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in batches
    )
