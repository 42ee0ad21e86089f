"""Keys and values of `__consumer_offsets`: the same bytes as Apache Kafka 4.3.1 writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.server.coordination.coordinator import java_hash, partition_of
from ottla.server.groups.classic.group import ClassicGroup
from ottla.server.groups.classic.records import group_value
from ottla.server.groups.records import (
    CommittedOffset,
    GroupRecord,
    OffsetRecord,
    group_key,
    offset_key,
    offset_value,
    read_record,
)
from support.groups.groups import Groups
from support.noted import each_case

# Written by Apache Kafka 4.3.1's own classes.
OFFSET_KEY = bytes.fromhex("000100076772c3bcc39f6500066f726465727300000007")
GROUP_KEY = bytes.fromhex("000200076772c3bcc39f65")
TOPIC_ID = bytes.fromhex("0102030405060708090a0b0c0d0e0f10")
OFFSET_VALUES = {
    0: "00000000011f71fb04cb00056dc3a974610000018bcfe56800",
    1: "00010000011f71fb04cb00056dc3a974610000018bcfe568000000018bcfeae640",
    2: "00020000011f71fb04cb00056dc3a974610000018bcfe56800",
    3: "00030000011f71fb04cb0000000500056dc3a974610000018bcfe56800",
    4: "00040000011f71fb04cb00000005066dc3a974610000018bcfe568000100100102030405060708090a0b0c0d0e0f10",
}
OFFSET_VALUE_WITHOUT_TOPIC_ID = bytes.fromhex("00040000011f71fb04cb00000005066dc3a974610000018bcfe5680000")
GROUP_VALUES = {
    0: "00000008636f6e73756d657200000003000572616e67650003632d31000000020003632d31000163000a2f3132372e302e302e31"
    "0000271000000002010200000001030003692d3200016400042f3a3a3100004e20000000010400000000",
    1: "00010008636f6e73756d657200000003000572616e67650003632d31000000020003632d31000163000a2f3132372e302e302e31"
    "0000ea600000271000000002010200000001030003692d3200016400042f3a3a310000c35000004e20000000010400000000",
    2: "00020008636f6e73756d657200000003000572616e67650003632d310000018bcfe56800000000020003632d31000163000a2f31"
    "32372e302e302e310000ea600000271000000002010200000001030003692d3200016400042f3a3a310000c35000004e20000000010400"
    "000000",
    3: "00030008636f6e73756d657200000003000572616e67650003632d310000018bcfe56800000000020003632d31ffff000163000a"
    "2f3132372e302e302e310000ea600000271000000002010200000001030003692d3200016900016400042f3a3a310000c35000004e20"
    "000000010400000000",
    4: "000409636f6e73756d6572000000030672616e676504632d310000018bcfe568000304632d310002630b2f3132372e302e302e31"
    "0000ea600000271003010202030004692d3202690264052f3a3a310000c35000004e200204010000",
}
EMPTY_GROUP_VALUE = bytes.fromhex("0003000000000000ffffffff00000000000f424000000000")

COMMITTED = CommittedOffset(1234567890123, 5, "méta", 1700000000000, -1, TOPIC_ID)


def test_keys_equal_kafkas() -> None:
    assert offset_key("grüße", "orders", 7) == OFFSET_KEY
    assert group_key("grüße") == GROUP_KEY


def test_offsets_are_written_as_kafka_writes_them() -> None:
    """Offsets use version 4 with the topic id; version 1 only for the retention time of old clients."""
    assert offset_value(COMMITTED) == bytes.fromhex(OFFSET_VALUES[4])
    assert offset_value(COMMITTED._replace(topic_id=bytes(16))) == OFFSET_VALUE_WITHOUT_TOPIC_ID
    assert offset_value(COMMITTED._replace(expire_ms=1700000360000)) == bytes.fromhex(OFFSET_VALUES[1])


@pytest.mark.parametrize("version", OFFSET_VALUES)
def test_offsets_of_every_version_are_read(version: int) -> None:
    record = read_record(OFFSET_KEY, bytes.fromhex(OFFSET_VALUES[version]))
    assert isinstance(record, OffsetRecord)
    assert record.key == OffsetCommitKey(group="grüße", topic="orders", partition=7)
    assert record.value == OffsetCommitValue(
        offset=1234567890123,
        leader_epoch=5 if version >= 3 else -1,
        metadata="méta",
        commit_timestamp=1700000000000,
        expire_timestamp=1700000360000 if version == 1 else -1,
        topic_id=TOPIC_ID if version >= 4 else bytes(16),
    )


@pytest.mark.parametrize("version", GROUP_VALUES)
def test_groups_of_every_version_are_read(version: int) -> None:
    record = read_record(GROUP_KEY, bytes.fromhex(GROUP_VALUES[version]))
    assert isinstance(record, GroupRecord)
    assert record.key == GroupMetadataKey(group="grüße")
    assert record.value == GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="c-1",
        current_state_timestamp=1700000000000 if version >= 2 else -1,
        members=(
            MemberMetadata(
                member_id="c-1",
                client_id="c",
                client_host="/127.0.0.1",
                rebalance_timeout=60000 if version >= 1 else -1,
                session_timeout=10000,
                subscription=b"\1\2",
                assignment=b"\3",
            ),
            MemberMetadata(
                member_id="i-2",
                group_instance_id="i" if version >= 3 else None,
                client_id="d",
                client_host="/::1",
                rebalance_timeout=50000 if version >= 1 else -1,
                session_timeout=20000,
                subscription=b"\4",
            ),
        ),
    )


def test_a_group_is_written_as_kafka_writes_it() -> None:
    """A group in Kafka's version 3, loaded and written again, has the same bytes."""
    groups = Groups()
    partition = groups.coordinator.partition_for("grüße")
    groups.store.append(partition, [(GROUP_KEY, bytes.fromhex(GROUP_VALUES[3]))], 0)
    group = groups.restarted().coordinator.shards[partition].groups["grüße"]
    assert isinstance(group, ClassicGroup)
    assignments = {member.member_id: member.assignment for member in group.members.values()}

    assert group_value(group, assignments) == bytes.fromhex(GROUP_VALUES[3])


def test_a_new_group_is_recorded_empty() -> None:
    groups = Groups(elapsed_ms=1_000_000)
    groups.join("grüße")
    assert [
        (record.key, record.value) for record in groups.store.records(groups.coordinator.partition_for("grüße"))
    ] == [(GROUP_KEY, EMPTY_GROUP_VALUE)]


def test_a_null_value_deletes() -> None:
    assert read_record(OFFSET_KEY, None) == OffsetRecord(
        OffsetCommitKey(group="grüße", topic="orders", partition=7), None
    )
    assert read_record(GROUP_KEY, None) == GroupRecord(GroupMetadataKey(group="grüße"), None)


@pytest.mark.parametrize("kind", [9, 18, 24, 99, -1])
def test_unknown_record_types_are_skipped(kind: int) -> None:
    assert read_record(kind.to_bytes(2, "big", signed=True) + b"anything", b"at all") is None


CONSUMER_GROUP_KEY = b"\0\3\0\1g"
DAMAGED = [
    (CONSUMER_GROUP_KEY + b"!", None),
    (CONSUMER_GROUP_KEY, b"\0\0\0\0"),
    (CONSUMER_GROUP_KEY, b"\0\1\0\0\0\0\0"),
    (None, b""),
    (b"", b""),
    (b"\0", b""),
    (OFFSET_KEY[:-1], None),
    (OFFSET_KEY + b"\0", None),
    (OFFSET_KEY, b""),
    (OFFSET_KEY, b"\0\5" + bytes.fromhex(OFFSET_VALUES[4])[2:]),
    (OFFSET_KEY, b"\xff\xff" + bytes.fromhex(OFFSET_VALUES[4])[2:]),
    (OFFSET_KEY, bytes.fromhex(OFFSET_VALUES[3])[:-1]),
    (OFFSET_KEY, bytes.fromhex(OFFSET_VALUES[3]) + b"\0"),
    (GROUP_KEY, bytes.fromhex(GROUP_VALUES[3])[:-1]),
]


@each_case("key, value", DAMAGED)
def test_a_damaged_record_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        read_record(key, value)


@given(st.binary(max_size=60), st.none() | st.binary(max_size=100))
def test_any_bytes_are_a_record_or_refused(key: bytes, value: bytes | None) -> None:
    """Bytes never raise another exception: a damaged partition must not take the broker down."""
    for kind in (b"\0\1", b"\0\2", b"\0\3", b"\0\5", b"\0\7", b"\0\x08", b"\0\x10"):
        try:
            read_record(kind + key, value)
        except ProtocolError:
            continue


# Java's String.hashCode, and the partition among 50 that Kafka gives the group.
HASHES = [
    ("", 0, 0),
    ("group", 98629247, 47),
    ("my-group", -1906497762, 12),
    ("grüße-组-😀", -1899305854, 4),
    ("polygenelubricants", -(2**31), 0),
    ("GydZG_", -(2**31), 0),
]


@given(st.text(max_size=600))
def test_the_hash_is_the_polynomial_of_the_java_specification(text: str) -> None:
    expected = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        expected = (31 * expected + 256 * high + low) % 2**32
    assert java_hash(text) % 2**32 == expected
    assert -(2**31) <= java_hash(text) < 2**31


@pytest.mark.parametrize(("text", "hashed", "partition"), HASHES)
def test_groups_are_in_the_same_partition_as_in_kafka(text: str, hashed: int, partition: int) -> None:
    """A directory that Kafka filled must find its groups again: the absolute value, and 0 for the number without one."""
    assert java_hash(text) == hashed
    assert partition_of(text, 50) == partition
