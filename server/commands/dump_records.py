"""Format of batches and records in `ottla dump-log`: one line each."""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass
from typing import Any

from ...protocol.compression import Codec
from ...protocol.errors import ProtocolError
from ...protocol.messages.share_state_log import ShareSnapshotValue, ShareUpdateValue
from ...protocol.records import Record, RecordBatch
from ...storage.disk.checkpoints import uuid_text
from ..groups.records import GroupRecord, KindRecord, OffsetRecord, read_record
from ..sharing import share_records
from ..sharing.in_flight import State
from ..transactions import records as transactions

_CONTROL_TYPES = {0: "ABORT", 1: "COMMIT", 2: "LEADER_CHANGE", 3: "SNAPSHOT_HEADER", 4: "SNAPSHOT_FOOTER"}
_CONTROL_KEY = struct.Struct(">hh")


def batch_line(position: int, batch: RecordBatch) -> str:
    """Format a batch's header."""
    facts = [
        f"offsets {batch.base_offset}..{batch.last_offset}",
        f"records {batch.record_count}",
        f"position {position}",
        f"size {batch.size_bytes}",
        f"{'append' if batch.is_log_append_time else 'create'} time up to {batch.max_timestamp}",
        f"codec {Codec(batch.codec).name.lower() if batch.codec in list(Codec) else batch.codec}",
        f"leader epoch {batch.partition_leader_epoch}",
        f"crc {batch.crc:08x}",
    ]
    if batch.has_producer:
        facts.append(f"producer {batch.producer_id} epoch {batch.producer_epoch}")
        if batch.base_sequence >= 0:
            facts.append(f"sequence {batch.base_sequence}..{batch.last_sequence}")
    facts += ["transactional"] * batch.is_transactional + ["control"] * batch.is_control
    if batch.delete_horizon_ms is not None:
        facts.append(f"delete horizon {batch.delete_horizon_ms}")
    return "  ".join(facts)


def control_record(record: Record) -> str:
    """Return the name of a control record's type."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        return "control record without a type"
    _, kind = _CONTROL_KEY.unpack_from(record.key)
    return _CONTROL_TYPES.get(kind, f"control type {kind}")


def size(data: bytes | memoryview | None) -> str:
    """Format the size of a key or value; null differs from empty."""
    return "null" if data is None else f"{len(data)} bytes"


def plain_record(record: Record) -> str:
    """Format key, value and headers."""
    line = f"{_format_bytes(record.key)} = {_format_bytes(record.value)}"
    return line + "".join(f"  {name!r}: {_format_bytes(value)}" for name, value in record.headers)


def _format_bytes(data: bytes | memoryview | None) -> str:
    """Return printable UTF-8 in quotes, anything else in hexadecimal."""
    if data is None:
        return "null"
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError:
        return f"0x{bytes(data).hex()}"
    return repr(text) if text.isprintable() else f"0x{bytes(data).hex()}"


def group_record(record: Record) -> str:
    """Format a record of `__consumer_offsets`; its bytes if it cannot be parsed."""
    key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
    try:
        found = read_record(key, value)
    except ProtocolError:
        found = None
    match found:
        case OffsetRecord(key=key_, value=None):
            return f"group {key_.group!r} forgets {key_.topic!r} partition {key_.partition}"
        case OffsetRecord(key=key_, value=committed) if committed is not None:
            return (
                f"group {key_.group!r} is at {committed.offset} of {key_.topic!r} partition {key_.partition}"
                f"  leader epoch {committed.leader_epoch}  metadata {committed.metadata!r}"
            )
        case GroupRecord(key=key_, value=None):
            return f"group {key_.group!r} deleted"
        case GroupRecord(key=key_, value=group) if group is not None:
            members = ", ".join(repr(member.member_id) for member in group.members)
            return (
                f"group {key_.group!r} generation {group.generation}  protocol {group.protocol!r}  members [{members}]"
            )
        case KindRecord(key=key_, value=value_):
            kind, _, what = type(key_).__name__.removesuffix("Key").partition("Group")
            return f"{kind.lower()} group {what} {_fields(key_)} {'deleted' if value_ is None else _fields(value_)}"
        case _:
            return plain_record(record)


def transaction_record(record: Record) -> str:
    """Format a record of `__transaction_state`; its bytes if it cannot be parsed."""
    key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
    try:
        found = transactions.read_record(key, value)
    except ProtocolError:
        found = None
    if found is None:
        return plain_record(record)
    if found.metadata is None:
        return f"transactional id {found.transactional_id!r} deleted"
    one = found.metadata
    line = (
        f"transactional id {found.transactional_id!r} {one.state.title}  producer {one.producer_id}"
        f" epoch {one.producer_epoch}  timeout {one.timeout_ms} ms"
    )
    return line + (f"  partitions {', '.join(map(str, sorted(one.partitions)))}" if one.partitions else "")


def share_state_record(record: Record) -> str:
    """Format a record of `__share_group_state`; its bytes if it cannot be parsed."""
    key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
    try:
        found = share_records.read_record(key, value)
    except ProtocolError:
        found = None
    if found is None:
        return plain_record(record)
    of, said = found
    who = f"share group {of.group_id!r} topic {uuid_text(of.topic_id)} partition {of.partition}"
    match said:
        case ShareSnapshotValue():
            return f"{who} snapshot {said.snapshot_epoch}  state epoch {said.state_epoch}  {_share_state(said)}"
        case ShareUpdateValue():
            return f"{who} update of snapshot {said.snapshot_epoch}  {_share_state(said)}"
        case _:
            return f"{who} deleted"


def _share_state(said: ShareSnapshotValue | ShareUpdateValue) -> str:
    batches = ", ".join(
        f"{each.first_offset}..{each.last_offset} {_delivery(each.delivery_state)} {each.delivery_count}"
        for each in said.state_batches
    )
    return (
        f"leader epoch {said.leader_epoch}  start offset {said.start_offset}"
        f"  delivery complete {said.delivery_complete_count}  batches [{batches}]"
    )


def _delivery(state: int) -> str:
    return State(state).name.lower() if state in list(State) else str(state)


def _fields(message: Any) -> str:
    """Format a message's fields with their values; IDs in hexadecimal."""
    return "{" + ", ".join(f"{one.name}: {_field(getattr(message, one.name))}" for one in fields(message)) + "}"


def _field(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_field, value)) + "]"
    return _fields(value) if is_dataclass(value) else repr(value)
