"""Messages of Google and Confluent that any Protobuf file may import: their fields, and their form in Protobuf's JSON.

Types that are not here, e.g. those of descriptors, are shown by the numbers of their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from .avro_logical import moment_text
from .plain_json import base64_text, decimal_text
from .proto import Type, check
from .proto_text import parse_text

_TEXTS = (
    """syntax = "proto3"; package google.protobuf;
    message Any { string type_url = 1; bytes value = 2; }
    message Timestamp { int64 seconds = 1; int32 nanos = 2; }
    message Duration { int64 seconds = 1; int32 nanos = 2; }
    message Empty {}
    message FieldMask { repeated string paths = 1; }
    message SourceContext { string file_name = 1; }
    enum NullValue { NULL_VALUE = 0; }
    message Struct { map<string, Value> fields = 1; }
    message ListValue { repeated Value values = 1; }
    message Value { oneof kind { NullValue null_value = 1; double number_value = 2; string string_value = 3; bool bool_value = 4;
        Struct struct_value = 5; ListValue list_value = 6; } }
    message DoubleValue { double value = 1; }
    message FloatValue { float value = 1; }
    message Int64Value { int64 value = 1; }
    message UInt64Value { uint64 value = 1; }
    message Int32Value { int32 value = 1; }
    message UInt32Value { uint32 value = 1; }
    message BoolValue { bool value = 1; }
    message StringValue { string value = 1; }
    message BytesValue { bytes value = 1; }""",
    """syntax = "proto3"; package google.type;
    import "google/protobuf/wrappers.proto"; import "google/protobuf/duration.proto";
    message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }
    message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
    message TimeZone { string id = 1; string version = 2; }
    message DateTime { int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5; int32 seconds = 6;
        int32 nanos = 7; oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } }
    message Decimal { string value = 1; }
    message Fraction { int64 numerator = 1; int64 denominator = 2; }
    message LatLng { double latitude = 1; double longitude = 2; }
    message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }
    message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }
    enum DayOfWeek { DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4; FRIDAY = 5; SATURDAY = 6;
        SUNDAY = 7; }
    enum Month { MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6; JULY = 7; AUGUST = 8;
        SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12; }""",
    """syntax = "proto3"; package confluent.type;
    message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }""",
)

ANY, DECIMAL = "google.protobuf.Any", "confluent.type.Decimal"


@cache
def known_types() -> Mapping[str, Type]:
    """Return the types by full name."""
    found: dict[str, Type] = {}
    for text in _TEXTS:
        file = parse_text(text)
        check(file, {})
        found |= file.names
    return found


def plain(name: str, fields: dict[str, Any]) -> Any:
    """Return the JSON value of a message of one of these types.

    Args:
        name: Full name of the type.
        fields: JSON values of its fields. Bytes are in base64.
    """
    form = _FORMS.get(name)
    return fields if form is None else form(fields)


def _moment(fields: dict[str, Any]) -> Any:
    seconds, nanos = fields["seconds"], fields["nanos"]
    text = moment_text(seconds * 10**9 + nanos, 9) if 0 <= nanos < 10**9 else None
    if text is None:
        return fields
    head, _, fraction = text.partition(".")
    return f"{head}{_fraction(fraction)}Z"


def _duration(fields: dict[str, Any]) -> Any:
    seconds, nanos = fields["seconds"], fields["nanos"]
    if abs(nanos) >= 10**9 or seconds * nanos < 0:
        return fields
    sign = "-" if seconds < 0 or nanos < 0 else ""
    return f"{sign}{abs(seconds)}{_fraction(f'{abs(nanos):09}')}s"


def _fraction(digits: str) -> str:
    """Return nine digits after the point as none, three, six or nine, as Protobuf's JSON has them."""
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""


def _value(fields: dict[str, Any]) -> Any:
    return next((None if name == "null_value" else value for name, value in fields.items()), None)


def _wrapped(fields: dict[str, Any]) -> Any:
    return fields["value"]


_FORMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "google.protobuf.Timestamp": _moment,
    "google.protobuf.Duration": _duration,
    "google.protobuf.FieldMask": lambda fields: ",".join(fields["paths"]),
    "google.protobuf.Struct": lambda fields: fields["fields"],
    "google.protobuf.ListValue": lambda fields: fields["values"],
    "google.protobuf.Value": _value,
    **{
        f"google.protobuf.{name}Value": _wrapped
        for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
    },
}


PLAIN = frozenset({ANY, DECIMAL, *_FORMS})
"""Types whose JSON is not an object of their fields."""


def decimal(value: bytes, scale: int) -> str:
    """Return a `confluent.type.Decimal`: a decimal, or bytes in base64 if it is too long."""
    return decimal_text(value, scale) or base64_text(value)
