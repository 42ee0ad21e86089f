"""The record of a classic group: one value holds the whole group."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from ....protocol.messages.consumer_offsets import GroupMetadataValue, MemberMetadata
from ....protocol.wire import codec
from ...coordination.records import write_blob
from ..records import GROUP_VALUE_VERSION, value_codec
from .group import ClassicGroup, ClassicMember

_MEMBER = codec(MemberMetadata, GROUP_VALUE_VERSION, False)
_LENGTH = Struct(">i")

LEAST_MEMBER_BYTES = 40
"""Minimum size of a member in the group's record. Its id alone has nearly as many bytes."""


def group_value(group: ClassicGroup, assignments: Mapping[str, bytes]) -> bytes:
    """Return the value of a group record, with `assignments` by member id instead of those in `group`.

    A group of thousands is encoded in one piece, during which other requests wait. So the parts of a member that seldom change
    are encoded once and kept.
    """
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=(),
    )
    # Lengths come before their values: the last bytes are the number of members, which is 0.
    start = write_blob(GROUP_VALUE_VERSION, value_codec(GroupMetadataValue, GROUP_VALUE_VERSION), value)
    parts = [start[: -_LENGTH.size], _LENGTH.pack(len(group.members))]
    name, pack = group.protocol_name, _LENGTH.pack
    for member in group.members.values():
        assignment = assignments.get(member.member_id, b"")
        parts += (_write_metadata(member, name), pack(len(assignment)), assignment)
    return b"".join(parts)


def _write_metadata(member: ClassicMember, protocol_name: str | None) -> bytes:
    written = member.written
    if written is None or written[0] != protocol_name:
        written = member.written = protocol_name, _write_member(member, protocol_name)
    return written[1]


def make_ready(member: ClassicMember, protocol_name: str | None) -> None:
    """Encode a member's part of the group's record, without its assignment, and keep it."""
    _write_metadata(member, protocol_name)


def _write_member(member: ClassicMember, protocol_name: str | None) -> bytes:
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
    written = bytearray()
    _MEMBER.write(value, [written])
    subscription = member.metadata(protocol_name)
    return b"".join((written[: -2 * _LENGTH.size], _LENGTH.pack(len(subscription)), subscription))
