"""Names of the types that Protobuf files may import without a reference: those of Google and of Confluent.

Only the names are kept: these types never change, and nothing else of them is compared.
"""

from __future__ import annotations

_GOOGLE = "google.protobuf"
_TYPE = "google.type"
_OPTIONS = (
    "FileOptions MessageOptions FieldOptions OneofOptions EnumOptions EnumValueOptions ServiceOptions MethodOptions"
)
_DESCRIPTORS = (
    "FileDescriptorSet FileDescriptorProto DescriptorProto FieldDescriptorProto OneofDescriptorProto EnumDescriptorProto "
    "EnumValueDescriptorProto ServiceDescriptorProto MethodDescriptorProto ExtensionRangeOptions UninterpretedOption "
    f"FeatureSet FeatureSetDefaults SourceCodeInfo GeneratedCodeInfo {_OPTIONS}"
)
FILES = {
    "google/protobuf/any.proto": (_GOOGLE, "Any"),
    "google/protobuf/api.proto": (_GOOGLE, "Api Method Mixin"),
    "google/protobuf/descriptor.proto": (_GOOGLE, f"{_DESCRIPTORS} enum:Edition"),
    "google/protobuf/duration.proto": (_GOOGLE, "Duration"),
    "google/protobuf/empty.proto": (_GOOGLE, "Empty"),
    "google/protobuf/field_mask.proto": (_GOOGLE, "FieldMask"),
    "google/protobuf/source_context.proto": (_GOOGLE, "SourceContext"),
    "google/protobuf/struct.proto": (_GOOGLE, "Struct Value ListValue enum:NullValue"),
    "google/protobuf/timestamp.proto": (_GOOGLE, "Timestamp"),
    "google/protobuf/type.proto": (_GOOGLE, "Type Field Enum EnumValue Option enum:Syntax"),
    "google/protobuf/wrappers.proto": (
        _GOOGLE,
        "DoubleValue FloatValue Int64Value UInt64Value Int32Value UInt32Value BoolValue StringValue BytesValue",
    ),
    "google/type/calendar_period.proto": (_TYPE, "enum:CalendarPeriod"),
    "google/type/color.proto": (_TYPE, "Color"),
    "google/type/date.proto": (_TYPE, "Date"),
    "google/type/datetime.proto": (_TYPE, "DateTime TimeZone"),
    "google/type/dayofweek.proto": (_TYPE, "enum:DayOfWeek"),
    "google/type/decimal.proto": (_TYPE, "Decimal"),
    "google/type/expr.proto": (_TYPE, "Expr"),
    "google/type/fraction.proto": (_TYPE, "Fraction"),
    "google/type/interval.proto": (_TYPE, "Interval"),
    "google/type/latlng.proto": (_TYPE, "LatLng"),
    "google/type/money.proto": (_TYPE, "Money"),
    "google/type/month.proto": (_TYPE, "enum:Month"),
    "google/type/phone_number.proto": (_TYPE, "PhoneNumber"),
    "google/type/postal_address.proto": (_TYPE, "PostalAddress"),
    "google/type/quaternion.proto": (_TYPE, "Quaternion"),
    "google/type/timeofday.proto": (_TYPE, "TimeOfDay"),
    "confluent/meta.proto": ("confluent", "Meta"),
    "confluent/type/decimal.proto": ("confluent.type", "Decimal"),
    "confluent/type/variant.proto": ("confluent.type", "Variant"),
}
"""Path -> package, and names of its messages and, after "enum:", its enums."""
