"""Keys and values of `__consumer_offsets`, in Apache Kafka's format, to and from the tables of this package.

    key    type i16, then by type          value  schema version i16, then by version
           0, 1     committed offset              0-4 (written: 4, and 1 for an expiry time of its own)
           2        classic group                 0-4 (written: 3, `classic.records`)
           3-8, 16  consumer group                0 (`consumer.records`)
           10-15    share group                   0 (`share.records`)
           17, 19-23  streams group               0 (`streams.records`)
           18, 24 …   left alone

A null value deletes the key. Unknown types are skipped, as they may be left over from a newer broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from ...protocol.errors import ProtocolError
from ...protocol.messages import consumer_group_log, share_group_log, streams_group_log
from ...protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ...protocol.wire import MessageCodec, codec
from ..coordination import records as coordinator_records
from ..coordination.jobs import Steps
from ..coordination.records import (
    NUMBER,
    Pair,
    Records,
    blob_types,
    read_message,
    read_number,
    write_blob,
    writing_blob,
)

_OFFSET_KEY_TYPES = (0, 1)
OFFSET_KEY_START = NUMBER.pack(1)
"""How the key of a committed offset begins; type 0 comes from very old brokers only."""
_GROUP_KEY_TYPE = 2
_OFFSET_VALUE_VERSION = 4
_OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3
_NEWEST_VALUE_VERSION = 4
_FIRST_FLEXIBLE_VERSION = 4

RECORD_TYPES: dict[int, tuple[type[Any], type[Any]]] = {
    **consumer_group_log.RECORD_TYPES,
    **share_group_log.RECORD_TYPES,
    **streams_group_log.RECORD_TYPES,
}
"""Classes of key and value of the kinds of groups that have records of several types, whose keys all name their `group_id`."""

_OFFSET_KEY = codec(OffsetCommitKey, 0, False)
_OFFSET_VALUE = codec(OffsetCommitValue, _OFFSET_VALUE_VERSION, _OFFSET_VALUE_VERSION >= _FIRST_FLEXIBLE_VERSION)
_OFFSET_VALUE_WITH_EXPIRY = codec(OffsetCommitValue, _OFFSET_VALUE_VERSION_WITH_EXPIRY, False)
_GROUP_KEY = codec(GroupMetadataKey, 0, False)
_BLOBS = {
    GroupMetadataKey: (_GROUP_KEY_TYPE, _GROUP_KEY),
    GroupMetadataValue: (GROUP_VALUE_VERSION, codec(GroupMetadataValue, GROUP_VALUE_VERSION, False)),
    **blob_types(RECORD_TYPES),
}


class CommittedOffset(NamedTuple):
    """A group's position in one partition, as it was committed.

    `expire_ms` is -1 unless the client set a retention time of its own (OffsetCommit before version 5).
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int
    topic_id: bytes


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return write_blob(1, _OFFSET_KEY, OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def offset_value(committed: CommittedOffset) -> bytes:
    """The value of an offset record."""
    version = _OFFSET_VALUE_VERSION if committed.expire_ms == -1 else _OFFSET_VALUE_VERSION_WITH_EXPIRY
    with_codec = _OFFSET_VALUE if committed.expire_ms == -1 else _OFFSET_VALUE_WITH_EXPIRY
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
        topic_id=committed.topic_id,
    )
    return write_blob(version, with_codec, value)


def group_key(group_id: str) -> bytes:
    return write_blob(_GROUP_KEY_TYPE, _GROUP_KEY, GroupMetadataKey(group=group_id))


class OffsetRecord(NamedTuple):
    key: OffsetCommitKey
    value: OffsetCommitValue | None


class GroupRecord(NamedTuple):
    key: GroupMetadataKey
    value: GroupMetadataValue | None


class KindRecord(NamedTuple):
    """Key and value are a pair of `RECORD_TYPES`."""

    key: Any
    value: Any


def read_record(key: bytes | None, value: bytes | None) -> OffsetRecord | GroupRecord | KindRecord | None:
    """What one record says; None for a type that this broker does not know.

    Raises:
        ProtocolError: Key or value are not of their format.
    """
    if key is None:
        raise ProtocolError("record without a key")
    kind = read_number(key)
    if kind in _OFFSET_KEY_TYPES:
        return OffsetRecord(read_message(_OFFSET_KEY, key), _read_value(OffsetCommitValue, value))
    if kind == _GROUP_KEY_TYPE:
        return GroupRecord(read_message(_GROUP_KEY, key), _read_value(GroupMetadataValue, value))
    if kind in RECORD_TYPES:
        key_class, value_class = RECORD_TYPES[kind]
        return KindRecord(
            read_message(codec(key_class, 0, False), key), _read_value(value_class, value, newest=0, flexible_since=0)
        )
    return None


write_record = partial(coordinator_records.write_record, _BLOBS)
"""Any record of a group but of its offsets, in the version that is written, from key and value."""

Change: TypeAlias = tuple[Any, Any]
"""Key and value, as messages of one pair of RECORD_TYPES, or of a classic group; None deletes the key."""


class ReadyChange(NamedTuple):
    """A change whose record was made in pieces before the step that may write it.

    Attributes:
        made_of: The member as it will be then, or what else it was made of; for another the rest is of no use.
    """

    made_of: object
    change: Change
    pair: Pair


def ready(made_of: object, change: Change, arrays: Mapping[str, tuple[object, ...]]) -> Steps[ReadyChange]:
    """Make it from the change without the elements of its long arrays (`writing_blob`)."""
    key, value = change
    pair = yield from writing_record(key, value, arrays)
    return ReadyChange(made_of, (key, replace(value, **arrays)), pair)


def writing_record(key: object, value: Any, arrays: Mapping[str, Iterable[object]]) -> Steps[Pair]:
    """`write_record` in pieces (`writing_blob`), of a record of one of RECORD_TYPES."""
    value_bytes = yield from writing_blob(*_BLOBS[type(value)], value, arrays)
    return write_record(key, None)[0], value_bytes


def records_of(changes: Iterable[Change | ReadyChange], before: Records | None = None) -> Records:
    """The records of these changes, behind those `before` if there are any."""
    made = Records() if before is None else before
    made.add(*[change.pair if isinstance(change, ReadyChange) else write_record(*change) for change in changes])
    return made


def value_codec(cls: type[Any], version: int) -> MessageCodec:
    """Of the values of offsets and classic groups, which have versions of their own."""
    return codec(cls, version, version >= _FIRST_FLEXIBLE_VERSION)


def _read_value(
    cls: type[Any],
    blob: bytes | None,
    newest: int = _NEWEST_VALUE_VERSION,
    flexible_since: int = _FIRST_FLEXIBLE_VERSION,
) -> Any:
    if blob is None:
        return None
    version = read_number(blob)
    if not 0 <= version <= newest:
        raise ProtocolError(f"unsupported version {version} of {cls.__name__}")
    return read_message(codec(cls, version, version >= flexible_since), blob)
