"""Keys and values of `__consumer_offsets`, in Apache Kafka's format, to and from the tables of this package.

    key    type i16, then by type          value  schema version i16, then by version
           0, 1     committed offset              0-4 (written: 4, and 1 for an expiry time of its own)
           2        classic group                 0-4 (written: 3)
           3-8, 16  consumer group                0 (`consumer.records`)
           9 …      other kinds of group          left alone

A null value deletes the key. Unknown types are skipped, as they may be left over from a newer broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ProtocolError
from ...protocol.messages.consumer_group_log import RECORD_TYPES
from ...protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ...protocol.wire import Codec, Parts, codec
from ..coordination.blobs import NUMBER, read_message, read_number, write_blob
from ..coordination.store import Pair

if TYPE_CHECKING:
    from .classic.group import ClassicGroup, Member

_OFFSET_KEY_TYPES = (0, 1)
OFFSET_KEY_START = NUMBER.pack(1)
"""How the key of a committed offset begins; type 0 comes from very old brokers only."""
_GROUP_KEY_TYPE = 2
_OFFSET_VALUE_VERSION = 4
_OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
_GROUP_VALUE_VERSION = 3
_NEWEST_VALUE_VERSION = 4
_FIRST_FLEXIBLE_VERSION = 4

_KEY_TYPES: dict[type, int] = {GroupMetadataKey: _GROUP_KEY_TYPE} | {
    key: number for number, (key, _) in RECORD_TYPES.items()
}

_OFFSET_KEY = codec(OffsetCommitKey, 0, False)
_OFFSET_VALUE = codec(OffsetCommitValue, _OFFSET_VALUE_VERSION, _OFFSET_VALUE_VERSION >= _FIRST_FLEXIBLE_VERSION)
_OFFSET_VALUE_WITH_EXPIRY = codec(OffsetCommitValue, _OFFSET_VALUE_VERSION_WITH_EXPIRY, False)
_GROUP_KEY = codec(GroupMetadataKey, 0, False)
_MEMBER = codec(MemberMetadata, _GROUP_VALUE_VERSION, False)
_LENGTH = Struct(">i")

LEAST_MEMBER_BYTES = 40
"""What a member takes in the group's record at the least; its id alone has nearly as many."""


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


def group_value(group: ClassicGroup, assignments: Mapping[str, bytes]) -> bytes:
    """The value of a group record, with `assignments` by member id in place of those in `group`.

    A group of thousands is written at once, for everybody: so what seldom changes of a member is not encoded each time.
    """
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=(),
    )
    # Lengths stand before what they are of: that of no members is the last of this.
    start = write_blob(_GROUP_VALUE_VERSION, _value_codec(GroupMetadataValue, _GROUP_VALUE_VERSION), value)
    parts = [start[: -_LENGTH.size], _LENGTH.pack(len(group.members))]
    name, pack = group.protocol_name, _LENGTH.pack
    for member in group.members.values():
        assignment = assignments.get(member.member_id, b"")
        parts += (_written(member, name), pack(len(assignment)), assignment)
    return b"".join(parts)


def _written(member: Member, protocol_name: str | None) -> bytes:
    written = member.written
    if written is None or written[0] != protocol_name:
        written = member.written = protocol_name, _write_member(member, protocol_name)
    return written[1]


def make_ready(member: Member, protocol_name: str | None) -> None:
    """Encode what the group's record will say of a member, all but its assignment, and keep it."""
    _written(member, protocol_name)


def _write_member(member: Member, protocol_name: str | None) -> bytes:
    value = MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=b"",
        assignment=b"",
    )
    parts = Parts()
    _MEMBER.write(value, parts)
    subscription = member.metadata(protocol_name)
    return b"".join((parts.tail[: -2 * _LENGTH.size], _LENGTH.pack(len(subscription)), subscription))


class OffsetRecord(NamedTuple):
    key: OffsetCommitKey
    value: OffsetCommitValue | None


class GroupRecord(NamedTuple):
    key: GroupMetadataKey
    value: GroupMetadataValue | None


class ConsumerGroupRecord(NamedTuple):
    """Key and value are a pair of `consumer_group_log.RECORD_TYPES`."""

    key: Any
    value: Any


def read_record(key: bytes | None, value: bytes | None) -> OffsetRecord | GroupRecord | ConsumerGroupRecord | None:
    """What one record says; None for a type that this broker does not know.

    Raises:
        ProtocolError: Key or value are not of their format.
    """
    if key is None:
        raise ProtocolError("a record without a key")
    kind = read_number(key)
    if kind in _OFFSET_KEY_TYPES:
        return OffsetRecord(read_message(_OFFSET_KEY, key), _read_value(OffsetCommitValue, value))
    if kind == _GROUP_KEY_TYPE:
        return GroupRecord(read_message(_GROUP_KEY, key), _read_value(GroupMetadataValue, value))
    if kind in RECORD_TYPES:
        key_class, value_class = RECORD_TYPES[kind]
        return ConsumerGroupRecord(
            read_message(codec(key_class, 0, False), key), _read_value(value_class, value, newest=0, flexible_since=0)
        )
    return None


def write_record(key: object, value: object | None) -> Pair:
    """Any record of a group but of its offsets, in the version that is written."""
    written = None
    if value is not None:
        version = _GROUP_VALUE_VERSION if isinstance(value, GroupMetadataValue) else 0
        written = write_blob(version, codec(type(value), version, not isinstance(value, GroupMetadataValue)), value)
    return write_blob(_KEY_TYPES[type(key)], codec(type(key), 0, False), key), written


def _value_codec(cls: type[Any], version: int) -> Codec:
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
        raise ProtocolError(f"version {version} of {cls.__name__}")
    return read_message(codec(cls, version, version >= flexible_since), blob)
