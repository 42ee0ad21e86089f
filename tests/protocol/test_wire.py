"""The codec on small messages of the test's own: the bytes of values, and input that is refused."""

import math
import threading
import tracemalloc
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.codegen import MAX_BYTES_BYTES
from ottla.protocol.errors import ProtocolError
from ottla.protocol.schema import fields_of
from ottla.protocol.wire import (
    MAX_ELEMENTS,
    ZERO_UUID,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    MessageCodec,
    Parts,
    Records,
    String,
    UInt16,
    UInt32,
    Uuid,
    codec,
    nullable_since,
    read_uvarint,
    since,
    tag,
    until,
    uvarint,
)
from support.noted import each_case


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    a: Bool = False
    b: Int8 = 0
    c: Int16 = 0
    d: UInt16 = 0
    e: Int32 = 0
    f: UInt32 = 0
    g: Int64 = 0
    h: Float64 = 0.0
    i: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    plain: String = ""
    maybe: String | None = None
    raw: Bytes = b""
    raw_maybe: Bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: Int32 = 0
    name: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    numbers: tuple[Int32, ...] = ()
    texts: tuple[String, ...] = ()
    points: tuple[Point, ...] = ()
    maybe: tuple[Int16, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changing:
    always: Int16 = 0
    old: Annotated[String, until(1)] = "gone"
    new: Annotated[Int64, since(2)] = -1
    maybe: Annotated[String | None, nullable_since(2)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    plain: Int16 = 0
    first: Annotated[Int32, tag(0)] = -1
    texts: Annotated[tuple[String, ...], tag(1)] = ()
    point: Annotated[Point, tag(2)] = Point()
    maybe: Annotated[String | None, tag(3)] = None
    later: Annotated[Int8, since(5), tag(200)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    point: Point = Point()
    maybe: Point | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    index: Int32 = 0
    records: Records | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    value: Bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    batches: tuple[Batch, ...] = ()
    after: Int8 = 0


def write(value: Any, version: int = 0, *, flexible: bool = False) -> bytes:
    parts: Parts = [bytearray()]
    codec(type(value), version, flexible).write(value, parts)
    return b"".join(parts)


def read(cls: Any, raw: bytes, version: int = 0, *, flexible: bool = False) -> Any:
    value, end = codec(cls, version, flexible).read(memoryview(raw), 0)
    assert end == len(raw)
    return value


OLD, FLEXIBLE = False, True
ALL_NUMBERS = Numbers(a=True, b=-2, c=-3, d=65535, e=-4, f=2**32 - 1, g=-5, h=1.5, i=bytes(range(16)))
ALL_NUMBERS_BYTES = (
    "01 fe fffd ffff fffffffc ffffffff fffffffffffffffb 3ff8000000000000 000102030405060708090a0b0c0d0e0f"
)


@each_case(
    "value, version, flexible, raw",
    [
        (ALL_NUMBERS, 0, OLD, ALL_NUMBERS_BYTES),
        (ALL_NUMBERS, 0, FLEXIBLE, ALL_NUMBERS_BYTES + "00"),
        (Texts(plain="ä", maybe="", raw=b"\0", raw_maybe=b""), 0, OLD, "0002 c3a4  0000  00000001 00  00000000"),
        (Texts(plain="ä", maybe="", raw=b"\0", raw_maybe=b""), 0, FLEXIBLE, "03 c3a4  01  02 00  01  00"),
        (Texts(), 0, OLD, "0000 ffff 00000000 ffffffff"),
        (Texts(), 0, FLEXIBLE, "01 00 01 00 00"),
        (Texts(plain="a" * 127), 0, FLEXIBLE, "8001" + "61" * 127 + "00 01 00 00"),
        (
            Arrays(numbers=(1, -1), texts=("a", ""), points=(Point(x=7, name="p"),), maybe=(2,)),
            0,
            OLD,
            "00000002 00000001 ffffffff  00000002 0001 61 0000  00000001 00000007 0001 70  00000001 0002",
        ),
        (
            Arrays(numbers=(1, -1), texts=("a", ""), points=(Point(x=7, name="p"),), maybe=(2,)),
            0,
            FLEXIBLE,
            "03 00000001 ffffffff  03 02 61 01  02 00000007 02 70 00  02 0002  00",
        ),
        (Arrays(), 0, OLD, "00000000 00000000 00000000 ffffffff"),
        (Arrays(), 0, FLEXIBLE, "01 01 01 00 00"),
        (Changing(always=1, old="o", maybe="m"), 1, OLD, "0001 0001 6f 0001 6d"),
        (Changing(always=1, new=5), 2, OLD, "0001 0000000000000005 0000"),
        (Changing(always=1, new=5, maybe=None), 2, OLD, "0001 0000000000000005 ffff"),
        (Tagged(plain=1), 5, FLEXIBLE, "0001 00"),
        (Tagged(plain=1, first=3), 5, FLEXIBLE, "0001 01 00 04 00000003"),
        (Tagged(texts=("a",), maybe="m"), 5, FLEXIBLE, "0000 02  01 03 02 02 61  03 02 02 6d"),
        (Tagged(point=Point(x=1), later=7), 5, FLEXIBLE, "0000 02  02 06 00000001 01 00  c801 01 07"),
        (Tagged(plain=1), 5, OLD, "0001"),
        (Holder(point=Point(x=1, name="a")), 0, OLD, "00000001 0001 61 ff"),
        (Holder(maybe=Point(x=1)), 0, OLD, "00000000 0000 01 00000001 0000"),
        (Holder(), 0, FLEXIBLE, "00000000 01 00 ff 00"),
        (Holder(maybe=Point()), 0, FLEXIBLE, "00000000 01 00 01 00000000 01 00 00"),
        (Batches(batches=(Batch(records=None),)), 0, OLD, "00000001 00000000 ffffffff 00"),
        (Batches(batches=(Batch(records=b"rr"), Batch(index=1, records=b""))), 0, OLD, "00000002 00000000 00000002 7272 00000001 00000000 00"),
        (Batches(batches=(Batch(records=b"rr"),), after=9), 0, FLEXIBLE, "02 00000000 03 7272 00 09 00"),
    ],
)  # fmt: skip
def test_values_have_the_expected_bytes(value: Any, version: int, flexible: bool, raw: str) -> None:
    assert write(value, version, flexible=flexible) == bytes.fromhex(raw)
    assert read(type(value), bytes.fromhex(raw), version, flexible=flexible) == value


@pytest.mark.parametrize(
    "cls, version, flexible, raw, value",
    [
        (Texts, 0, OLD, "0000 fffe 00000000 80000000", Texts()),  # Kafka reads any negative length as null
        (Numbers, 0, OLD, "02" + "00" * 45, Numbers(a=True)),  # and any byte except 0 as true
        (Holder, 0, OLD, "00000000 0000 7f 00000001 0000", Holder(maybe=Point(x=1))),
        (Tagged, 5, FLEXIBLE, "0001 01 05 03 010203", Tagged(plain=1)),  # unknown tags are skipped
        (Tagged, 5, FLEXIBLE, "0001 02 05 00 00 04 00000003", Tagged(plain=1, first=3)),  # in any order
        (Tagged, 5, FLEXIBLE, "0001 02 00 04 00000002 00 04 00000003", Tagged(plain=1, first=3)),  # the last one counts
        (Tagged, 5, FLEXIBLE, "0001 01 ffffffff0f 00", Tagged(plain=1)),
        (Tagged, 5, FLEXIBLE, "0001 8100 00 04 00000003", Tagged(plain=1, first=3)),  # varints may be padded
        (Texts, 0, FLEXIBLE, "8100 8000 01 00 00", Texts()),
    ],
)
def test_valid_bytes_that_are_never_written_can_be_read(
    cls: Any, version: int, flexible: bool, raw: str, value: Any
) -> None:
    assert read(cls, bytes.fromhex(raw), version, flexible=flexible) == value


@each_case(
    "cls, version, flexible, raw, why",
    [
        (Numbers, 0, OLD, "00", "cut short"),
        (Texts, 0, OLD, "ffff", "null plain"),
        (Texts, 0, FLEXIBLE, "00", "null plain"),
        (Texts, 0, OLD, "0002 61", "cut short"),
        (Texts, 0, OLD, "0401" + "ff" * 0x401 + "0000", "utf-8.*1025 bytes"),
        (Texts, 0, FLEXIBLE, "8208" + "ff" * 0x401 + "00 01 00 00", "utf-8.*1025 bytes"),
        (Texts, 0, FLEXIBLE, "818002" + "61" * 32768, "string too large .32768 bytes"),
        (Texts, 0, FLEXIBLE, "808080808001", "varint is longer than 5 bytes"),
        (Texts, 0, FLEXIBLE, "8080", "cut short"),
        (Texts, 0, OLD, "0000 ffff ffffffff", "null raw"),
        (Texts, 0, OLD, "0000 ffff 7fffffff 00", "cut short"),
        (Arrays, 0, OLD, "ffffffff", "null numbers"),
        (Arrays, 0, OLD, "7fffffff 00000000", "2147483647 elements in 4 bytes"),
        (Arrays, 0, OLD, "00000002 00000000 0000", "cut short"),
        (Arrays, 0, FLEXIBLE, "01 ffffffff0f 00", "4294967294 elements in 1 bytes"),
        (Changing, 1, OLD, "0001 0000 ffff", "null maybe"),
        (Tagged, 5, FLEXIBLE, "0001 01 00 03 000000", "cut short"),  # the field runs past the end of the tag and frame
        (Tagged, 5, FLEXIBLE, "0001 01 00 03 00000000", "does not match its content"),
        (Tagged, 5, FLEXIBLE, "0001 01 00 05 0000000000", "does not match its content"),
        (Tagged, 5, FLEXIBLE, "0001 01 05 05 00", "cut short"),
        (Tagged, 5, FLEXIBLE, "0001 05 00 00", "5 elements in 2 bytes"),
        (Tagged, 4, FLEXIBLE, "0001 01 c801 01 07", "tagged field of a different version"),
        (Batches, 0, OLD, "00000001 00000000 00000003 7272", "cut short"),
    ],
)
def test_invalid_bytes_are_refused(cls: Any, version: int, flexible: bool, raw: str, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        read(cls, bytes.fromhex(raw), version, flexible=flexible)


@pytest.mark.parametrize(
    "value, version, flexible, why",
    [
        (Texts(plain="a" * 32768), 0, OLD, "Texts v0"),
        (Texts(plain="a" * 32768), 0, FLEXIBLE, "string too large .32768 bytes"),
        (Texts(plain="\ud800"), 0, OLD, "surrogates"),
        (Numbers(c=1 << 15), 0, OLD, "Numbers v0"),
        (Numbers(e="1"), 0, OLD, "Numbers v0"),  # type: ignore[arg-type]
        (Changing(maybe=None), 1, OLD, "Changing v1"),
        (Texts(raw=None), 0, FLEXIBLE, "Texts v0"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_is_a_programming_error(value: Any, version: int, flexible: bool, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        write(value, version, flexible=flexible)


@given(st.integers(0, (1 << 35) - 1))
def test_varints_are_read_back(value: int) -> None:
    raw = uvarint(value) + b"\xff"
    if value > 127:
        assert read_uvarint(memoryview(raw), 1, raw[0]) == (value, len(raw) - 1)
    else:
        assert raw[0] == value
    assert len(raw) - 1 == max(1, math.ceil(value.bit_length() / 7))


def test_records_are_passed_through_untouched() -> None:
    """The value may be a slice of a file: the codec only asks for its length."""

    class Slice:
        def __len__(self) -> int:
            return 3

    piece, view, parts = Slice(), memoryview(b"view"), [bytearray()]
    batches = (Batch(records=piece), Batch(records=view), Batch(records=b""), Batch())

    codec(Batches, 0, False).write(Batches(batches=batches, after=1), parts)

    ours = [bytes(one) for one in parts if isinstance(one, bytearray)]
    assert [one for one in parts if not isinstance(one, bytearray)] == [piece, view]
    assert ours[0] == bytes.fromhex("00000004 00000000 00000003")
    assert ours[1] == bytes.fromhex("00000000 00000004")
    assert ours[2] == bytes.fromhex("00000000 00000000 00000000 ffffffff 01")


def test_read_records_are_a_writable_view_into_the_frame() -> None:
    frame = bytearray(write(Batches(batches=(Batch(records=b"rr"),))))

    value, _ = codec(Batches, 0, False).read(memoryview(frame), 0)
    value.batches[0].records[0] = ord("x")

    assert b"xr" in frame


@pytest.mark.parametrize("flexible", [OLD, FLEXIBLE])
def test_a_message_of_too_many_elements_is_refused_before_memory_is_used(flexible: bool) -> None:
    count = MAX_ELEMENTS + 1
    prefix = uvarint(1) + uvarint(count + 1) if flexible else bytes(4) + count.to_bytes(4, "big")
    raw = prefix + bytes(4 * count)
    view = memoryview(raw)

    tracemalloc.start()
    with pytest.raises(ProtocolError, match=f"more than {MAX_ELEMENTS} elements"):
        codec(Arrays, 0, flexible).read(view, 0)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak_bytes < 1 << 20


@pytest.mark.parametrize("flexible", [OLD, FLEXIBLE])
def test_a_long_bytes_field_is_refused_and_long_records_are_accepted(flexible: bool) -> None:
    def raw(count: int) -> bytes:
        return (uvarint(count + 1) if flexible else count.to_bytes(4, "big")) + bytes(count)

    blob, records = codec(Blob, 0, flexible), codec(Batch, 0, flexible)
    assert len(blob.read(memoryview(raw(MAX_BYTES_BYTES) + b"\0"), 0)[0].value) == MAX_BYTES_BYTES
    with pytest.raises(ProtocolError, match=f"field too large .{MAX_BYTES_BYTES + 1} bytes, limit {MAX_BYTES_BYTES}"):
        blob.read(memoryview(raw(MAX_BYTES_BYTES + 1) + b"\0"), 0)
    assert len(records.read(memoryview(bytes(4) + raw(MAX_BYTES_BYTES + 1) + b"\0"), 0)[0].records) > MAX_BYTES_BYTES


def test_elements_are_counted_over_all_arrays_of_a_message() -> None:
    half = MAX_ELEMENTS // 2 + 1
    numbers = half.to_bytes(4, "big") + bytes(4 * half)
    texts = half.to_bytes(4, "big") + bytes(2 * half)
    with pytest.raises(ProtocolError, match=f"more than {MAX_ELEMENTS} elements"):
        codec(Arrays, 0, False).read(memoryview(numbers + texts), 0)


def test_long_arrays_are_packed_like_short_ones() -> None:
    for count in (0, 1, 16, 17, 1000):
        value = Arrays(numbers=tuple(range(count)))
        raw = write(value)
        assert raw[:4] == count.to_bytes(4, "big")
        assert raw[4 : 4 + 4 * count] == b"".join(n.to_bytes(4, "big") for n in range(count))
        assert read(Arrays, raw) == value


def test_reading_starts_at_any_position_and_returns_its_end() -> None:
    raw = b"header" + write(Point(x=1, name="p")) + b"next"
    assert codec(Point, 0, False).read(memoryview(raw), 6) == (Point(x=1, name="p"), len(raw) - 4)


def test_read_messages_are_as_frozen_and_hashable_as_new_ones() -> None:
    made = Arrays(points=(Point(x=1),))
    got = read(Arrays, write(made))
    assert type(got) is Arrays and got == made and hash(got) == hash(made) and repr(got) == repr(made)
    with pytest.raises(AttributeError):
        got.numbers = (1,)  # type: ignore[misc]


def test_a_codec_is_made_once() -> None:
    assert codec(Point, 0, True) is codec(Point, 0, True)
    assert codec(Point, 0, True) is not codec(Point, 0, False)


def test_no_thread_waits_for_a_codec_that_another_thread_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python 3.11 `functools.cached_property` would have one lock for all codecs."""
    begun, may_end, made = threading.Event(), threading.Event(), list[str]()
    theirs, ours, compile_ = MessageCodec(Numbers, 0, False), MessageCodec(Texts, 0, False), MessageCodec._compile

    def noted(self: MessageCodec, direction: Any) -> Any:
        if self is theirs:
            begun.set()
            may_end.wait(2)
        made.append(self.cls.__name__)
        return compile_(self, direction)

    monkeypatch.setattr(MessageCodec, "_compile", noted)
    other = threading.Thread(target=lambda: theirs.read_within)
    other.start()
    begun.wait()
    assert callable(ours.read_within)
    may_end.set()
    other.join()
    assert made == ["Texts", "Numbers"]


def test_markers_of_different_kinds_are_never_equal() -> None:
    """If they were equal, Python 3.11.2 would take `Annotated[Int32, until(3)]` for `Annotated[Int32, since(3)]`."""
    kinds = (since, until, nullable_since, tag)
    assert [(one, other) for one in kinds for other in kinds if one is not other and one(3) == other(3)] == []


def test_annotations_without_a_schema_are_refused() -> None:
    @dataclass
    class Untyped:
        x: int = 0

    @dataclass
    class Unmarked:
        x: Annotated[Int32, "not a marker"] = 0

    @dataclass
    class NeverNull:
        x: Annotated[String, nullable_since(1)] = ""

    for cls, why in ((Untyped, "no wire type"), (Unmarked, "not a marker"), (NeverNull, "nullable_since without")):
        with pytest.raises(TypeError, match=why):
            fields_of(cls)
