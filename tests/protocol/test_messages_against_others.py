"""Ottla's bytes against two independent implementations: kafka-python's classes and kio's, for every API and version.

Both directions at once: the other side must read the value that Ottla wrote, and write the value that it read as the same
bytes; `test_messages.py` tests reading those.
"""

import dataclasses
import datetime
import enum
import importlib
import io
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ottla.protocol.apis import APIS, Api, snake_case
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.schema import fields_of
from ottla.protocol.wire import Parts, codec
from support.noted import each_case, noted
from support.sizes import size
from support.strategies import as_kafka_knows, seen_versions, with_messages

# Both import slowly and with warnings of their own, so they are imported inside the tests.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def of_all_apis_but(names: tuple[str, ...]) -> list[Api]:
    return [api for api in APIS.values() if not api.name.startswith(names)]


SIDES = ("request", "response")


EXAMPLES = size(1, 8)
BEFORE_4_4 = {
    "ApiVersions": 4,
    "DeleteGroups": 2,
    "StreamsGroupDescribe": 0,
    "StreamsGroupHeartbeat": 0,
    "TxnOffsetCommit": 5,
}
"""Newest versions of the release before Apache Kafka 4.4, which is the newest that both know."""
NEW_IN_4_4 = ("StreamsGroupTopologyDescriptionUpdate", "UnregisterController")
NAMES_BEFORE_4_4 = {
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag"): "acceptable_recovery_lag_legacy",
    ("TxnOffsetCommitRequest", "generation_id"): "generation_id_or_member_epoch",
}


def check_each(api: Api, check: Callable[[Api, str, Any, int], None]) -> None:
    """Call `check` with random messages of each side, in each of `seen_versions`."""

    def check_both(*both: Any) -> None:
        for side, full in zip(SIDES, both, strict=True):
            newest = BEFORE_4_4.get(api.name, api.versions[1])
            for version in seen_versions(api, range(api.versions[0], newest + 1)):
                with noted(f"{side}, version {version}"):
                    check(api, side, full, version)

    with_messages((api.request, api.response), EXAMPLES, check_both)


Fields = Callable[[Any, int], list[tuple[str, Any]]]


def write(value: Any, version: int, flexible: bool) -> bytes:
    parts: Parts = [bytearray()]
    codec(type(value), version, flexible).write(value, parts)
    return b"".join(parts)


def assert_agree(ours: Any, theirs: Any, version: int, fields: Fields, scalar: Callable[[Any], Any]) -> None:
    """Compare a value of Ottla with another implementation's, field by field in order.

    `fields` lists names and values of one of its structs, `scalar` returns one of its values in Ottla's form.
    """
    if isinstance(ours, tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_agree(one, other, version, fields, scalar)
    elif dataclasses.is_dataclass(ours):
        here = [field for field in fields_of(type(ours)) if field.exists_in(version) and not field.is_private]
        for field, (name, other) in zip(here, fields(theirs, version), strict=True):
            value = getattr(ours, field.name)
            assert field.name == name
            if (
                field.tag is None or value != field.default or other is not None
            ):  # they may represent a missing tag as None
                assert_agree(value, other, version, fields, scalar)
    elif ours != bytes(16) or theirs is not None:  # both represent the zero UUID as None
        assert ours == scalar(theirs)


# --- kafka-python ----------------------------------------------------------------------------------------------------

# It renames these fields, and represents the bits of the number as a Python set.
KAFKA_PYTHON_NAMES = NAMES_BEFORE_4_4 | {
    ("MetadataResponse", "authorized_operations"): "cluster_authorized_operations",
    ("MetadataResponseTopic", "authorized_operations"): "topic_authorized_operations",
    ("DescribeClusterResponse", "authorized_operations"): "cluster_authorized_operations",
}


def kafka_python_fields(struct: Any, version: int) -> list[tuple[str, Any]]:
    kind = type(struct).__name__
    fields = [field for field in struct._struct._fields if field.for_version_q(version)]
    return [(KAFKA_PYTHON_NAMES.get((kind, field.name), field.name), named(struct, field.name)) for field in fields]


def named(struct: Any, name: str) -> Any:
    value = getattr(struct, name)
    if name != "authorized_operations":
        return value
    bits = {31} if value is None else value
    number = sum(1 << bit for bit in bits)
    return number - (1 << 32) if 31 in bits else number


def kafka_python_scalar(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


def kafka_python_class(name: str) -> Any:
    for package in ("producer", "consumer", "metadata", "admin", "sasl"):
        module = importlib.import_module(f"kafka.protocol.{package}")
        if hasattr(module, name):
            return getattr(module, name)
    raise LookupError(name)


TOKENS = ("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken")

METRICS = ("GetTelemetrySubscriptions", "PushTelemetry")
OF_BROKERS = ("UnregisterBroker", "UnregisterController", "AddRaftVoter", "RemoveRaftVoter")
SHARE_GROUPS = (
    "AlterShareGroupOffsets",
    "DeleteShareGroup",
    "DescribeShareGroupOffsets",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "Share",
    "WriteShareGroupState",
)

# It supports neither the new consumer protocol nor those of share and streams groups; nor delegation tokens, client metrics and
# changes of the quorum.
KAFKA_PYTHON_LACKS = (
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "StreamsGroup",
    *TOKENS,
    *METRICS,
    *OF_BROKERS,
    *SHARE_GROUPS,
)


@each_case("api", of_all_apis_but(KAFKA_PYTHON_LACKS))
def test_kafka_python_reads_our_bytes_and_writes_the_same(api: Api) -> None:
    check_each(api, check_against_kafka_python)


def check_against_kafka_python(api: Api, side: str, full: Any, version: int) -> None:
    cls = getattr(api, side)
    theirs = kafka_python_class(cls.__name__)
    if cls.__name__ == "ApiVersionsResponse":  # with an error, kafka-python reads it as version 0 in any case
        full = dataclasses.replace(full, error_code=0)
    value = as_kafka_knows(full, version)
    raw = write(value, version, api.is_flexible(version))

    read = theirs.decode(raw, version=version)

    assert_agree(value, read, version, kafka_python_fields, kafka_python_scalar)
    read._header = None  # unset by decode, and DeleteTopicsRequest.encode fails on it
    assert raw == bytes(read.encode())


@pytest.mark.parametrize("cls", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
def test_kafka_python_reads_our_consumer_blobs(cls: type[Any]) -> None:
    theirs = getattr(importlib.import_module("kafka.protocol.consumer.metadata"), cls.__name__)

    def check(full: Any) -> None:
        for version in range(4):
            value = as_kafka_knows(full, version)
            raw = version.to_bytes(2, "big") + write(value, version, flexible=False)

            read = theirs.decode(raw)

            assert_agree(value, read, version, kafka_python_fields, kafka_python_scalar)
            assert raw == bytes(read.encode())

    with_messages((cls,), EXAMPLES, check)


# --- kio -------------------------------------------------------------------------------------------------------------


def kio_fields(struct: Any, version: int) -> list[tuple[str, Any]]:
    fields = []
    for field in dataclasses.fields(struct):
        value = getattr(struct, field.name)
        shown_as_time = field.metadata.get("kafka_type", "").startswith(("timedelta", "datetime"))
        if shown_as_time:
            value = -1 if value is None else value
        name = field.name + "_ms" if shown_as_time else field.name
        fields.append((NAMES_BEFORE_4_4.get((type(struct).__name__, name), name), value))
    return fields


def kio_scalar(value: Any) -> Any:
    match value:
        case uuid.UUID():
            return value.bytes
        case datetime.timedelta():
            return round(value.total_seconds() * 1000)
        case datetime.datetime():
            return round(value.timestamp() * 1000)
        case enum.IntEnum():
            return value.value
    return value


# It reads times of 64 bits as Python's, which have a smaller range.
@each_case("api", of_all_apis_but((*TOKENS, *NEW_IN_4_4)))
def test_kio_reads_our_bytes_and_writes_the_same(api: Api) -> None:
    check_each(api, check_against_kio)


def check_against_kio(api: Api, side: str, full: Any, version: int) -> None:
    from kio.serial import entity_reader, entity_writer

    module = importlib.import_module(f"kio.schema.{snake_case(api.name)}.v{version}.{side}")
    theirs = getattr(module, getattr(api, side).__name__)
    value = as_kafka_knows(full, version)
    raw = write(value, version, api.is_flexible(version))

    read, size = entity_reader(theirs)(raw, 0)
    out = io.BytesIO()
    entity_writer(theirs)(out, read)

    assert len(raw) == size
    assert raw == out.getvalue()
    assert_agree(value, read, version, kio_fields, kio_scalar)
