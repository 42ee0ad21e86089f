"""Records of `__transaction_state`: their bytes equal those of Apache Kafka 4.3.1's `TransactionLog`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.protocol.errors import ProtocolError
from ottla.server.transactions.metadata import TransactionMetadata, TransactionState
from ottla.server.transactions.records import read_record, transaction_key, transaction_value
from support.transactions.transactions import A0, A1

KEY = bytes.fromhex("0000000178")
TWO = frozenset({A0, A1})
EMPTY = TransactionMetadata(
    transactional_id="x",
    producer_id=1000,
    producer_epoch=0,
    previous_producer_id=1000,
    timeout_ms=60_000,
    updated_ms=5_000,
)
ONGOING = replace(
    EMPTY,
    producer_epoch=3,
    state=TransactionState.ONGOING,
    partitions=TWO,
    start_ms=5_000,
    updated_ms=6_000,
    client_version=2,
)
PREPARED = replace(
    ONGOING,
    producer_epoch=32_767,
    next_producer_id=2000,
    state=TransactionState.PREPARE_COMMIT,
    updated_ms=7_000,
)
COMPLETE = replace(
    PREPARED,
    producer_id=2000,
    producer_epoch=0,
    next_producer_id=-1,
    state=TransactionState.COMPLETE_COMMIT,
    partitions=frozenset(),
    updated_ms=8_000,
)
VALUES = [
    (EMPTY, 0, "000000000000000003e800000000ea6000ffffffff0000000000001388ffffffffffffffff"),
    (EMPTY, 1, "000100000000000003e800000000ea6000000000000000001388ffffffffffffffff01000800000000000003e8"),
    (
        ONGOING,
        2,
        (
            "000100000000000003e800030000ea60010202610300000001000000000000000000000017700000000000001388"
            "02000800000000000003e802020002"
        ),
    ),
    (
        PREPARED,
        2,
        (
            "000100000000000003e87fff0000ea600202026103000000010000000000000000000000"
            "1b58000000000000138803000800000000000003e8010800000000000007d002020002"
        ),
    ),
    (
        COMPLETE,
        2,
        "000100000000000007d000000000ea6004010000000000001f40000000000000138802000800000000000003e802020002",
    ),
]
IDS = ["empty, version 0", "empty, version 1", "ongoing", "prepared", "complete"]


def reversed_partitions(value: str) -> str:
    """Return the value in Kafka's order: it writes the partitions of a topic in no order; here it was 1, 0."""
    return value.replace("0261030000000100000000", "0261030000000000000001")


@pytest.mark.parametrize("metadata, version, value", VALUES, ids=IDS)
def test_values_are_written_as_kafka_writes_them(metadata: TransactionMetadata, version: int, value: str) -> None:
    assert transaction_key("x") == KEY
    assert transaction_value(metadata, version).hex() == reversed_partitions(value)


@pytest.mark.parametrize("metadata, version, value", VALUES, ids=IDS)
def test_records_of_kafka_can_be_read(metadata: TransactionMetadata, version: int, value: str) -> None:
    found = read_record(KEY, bytes.fromhex(value))
    expected = metadata if version else replace(metadata, previous_producer_id=-1)
    assert found == ("x", expected)


def test_a_null_value_deletes() -> None:
    assert read_record(KEY, None) == ("x", None)


@pytest.mark.parametrize("key, value", [(b"\0\1rest", b"\0\0"), (KEY, b"\0\2rest")], ids=["key", "value"])
def test_newer_records_are_skipped(key: bytes, value: bytes) -> None:
    assert read_record(key, value) is None


@pytest.mark.parametrize("cut", [0, 1, 2, 10, 30])
def test_truncated_values_are_refused(cut: int) -> None:
    with pytest.raises(ProtocolError):
        read_record(KEY, transaction_value(ONGOING, 2)[:cut])


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_states_that_are_never_written_are_refused(status: int) -> None:
    value = bytearray(transaction_value(EMPTY, 0))
    value[16] = status & 0xFF
    with pytest.raises(ProtocolError, match="invalid persisted transaction state"):
        read_record(KEY, bytes(value))
