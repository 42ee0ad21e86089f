"""Signed variable-length integers: the format's own examples, comparison with kafka-python, and bad input."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.errors import CorruptRecordError
from ottla.protocol.varints import append_fields, read_varint, read_varlong
from support.noted import each_case
from support.oracles import decode_varint, encode_varint

EXAMPLES = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (-2, "03"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (8192, "808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
LONG_EXAMPLES = [
    *EXAMPLES,
    (2**31, "8080808010"),
    (2**63 - 1, "feffffffffffffffff01"),
    (-(2**63), "ffffffffffffffffff01"),
]


def varint(value: int) -> bytes:
    out = bytearray()
    append_fields(out, [value])
    return bytes(out)


@each_case("value, raw", LONG_EXAMPLES)
def test_varints_have_the_expected_bytes(value: int, raw: str) -> None:
    assert varint(value).hex() == raw
    assert read_varlong(bytes.fromhex(raw), 0) == (value, len(raw) // 2)


@each_case("value, raw", EXAMPLES)
def test_32_bit_values_are_read_from_the_middle_of_a_buffer(value: int, raw: str) -> None:
    data = b"\xff\xff" + bytes.fromhex(raw) + b"\xff"

    assert read_varint(data, 2) == (value, len(data) - 1)


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_kafka_python_writes_and_reads_the_same_varints(value: int) -> None:
    assert varint(value) == encode_varint(value)
    assert decode_varint(varint(value)) == read_varlong(encode_varint(value), 0)


@each_case("value, raw", LONG_EXAMPLES)
def test_a_truncated_varint_is_an_index_error(value: int, raw: str) -> None:
    for length in range(len(raw) // 2):
        with pytest.raises(IndexError):
            read_varlong(bytes.fromhex(raw)[:length], 0)


@pytest.mark.parametrize(("read", "byte_count"), [(read_varint, 5), (read_varlong, 10)])
def test_an_overlong_varint_is_corrupt(read, byte_count: int) -> None:  # type: ignore[no-untyped-def]
    assert read(b"\x80" * (byte_count - 1) + b"\x00", 0) == (0, byte_count)
    with pytest.raises(CorruptRecordError):
        read(b"\x80" * byte_count + b"\x00", 0)


def test_bits_beyond_the_width_are_dropped_as_in_java() -> None:
    assert read_varint(b"\xfe\xff\xff\xff\x7f", 0) == (2**31 - 1, 5)
    assert read_varlong(b"\xfe" + b"\xff" * 8 + b"\x7f", 0) == (2**63 - 1, 10)
