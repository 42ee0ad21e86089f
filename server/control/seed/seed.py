"""Parser of seeds: topics with configs and records, groups' committed offsets, hard cases.

    topics:
      orders:
        partitions: 3
        configs: {cleanup.policy: compact}
        records:
          - {key: order-1, value: {json: {total: 3}}, headers: {source: web}, timestamp: -25h}
          - {key: "order-{n}", value: x, repeat: 100}     # {n} is 0 to 99
    groups:
      billing:
        orders: {0: 1, 1: latest}                         # or earliest or latest, for all partitions
    cases:
      - trailing-marker                                   # or {name: trailing-marker, topic: t}
    acls:
      - User:alice allow READ,WRITE topic:orders*         # one line each, as in `security.acls.acl`
    quotas:
      client-id=app: {producer_byte_rate: 1048576}        # by entity, as in `control.quotas`
    schemas:
      orders-value:                                       # versions of a subject, oldest first; or only one
        - {type: record, name: Order, fields: [...]}      # Avro; or a text
        - {kind: PROTOBUF, schema: 'syntax = "proto3"; …', references: [{name: n, subject: s, version: 1}]}

Checks that need no broker are made here, the others by `seeding`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Any

from ....protocol.schemas import KINDS
from ....storage.disk.paths import PARTITION_MAX
from ...broker.broker import Broker
from ...registry.errors import RegistryError
from ...registry.names import normalized
from ...registry.records import Content, UnreadableRecordError, content_of, references_of
from ...runtime.errors import ControlError, Kind
from ...runtime.time_slices import TimeSlice
from ...security.acls.acl import parse_new
from ..cases.load import case_of
from ..quotas import check_all, list_quotas
from .fields import NOT_FINITE, SEED_BYTES_MAX, SeedField, field_of, field_of_text
from .values import bytes_of, plain_value, timestamp_of

RECORDS_MAX = 1_000_000
RECORD_BYTES_MAX = 256 << 20
"""Maximum bytes of all keys and values, repetitions included."""
REPEAT = "{n}"

FIELDS = ("topics", "groups", "cases", "acls", "quotas", "schemas")
TOPIC_FIELDS = ("partitions", "replication_factor", "configs", "records")
SCHEMA_FIELDS = ("schema", "kind", "references")
SCHEMAS_MAX = 10_000
RECORD_FIELDS = ("key", "value", "headers", "partition", "timestamp", "repeat")
EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class SeedRecord:
    """A record, or `repeat` of them."""

    field: SeedField
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    timestamp_ms: Callable[[int], int] | None
    """Function from the time of seeding to the timestamp, both in ms since 1970; None: the time of seeding."""
    repeat: int
    numbered: bool
    """Whether `{n}` in key and value is the number of the repetition."""

    def repetitions(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Yield key and value of every repetition."""
        return map(self.repetition, range(self.repeat))

    def repetition(self, number: int) -> tuple[bytes | None, bytes | None]:
        """Return key and value of one repetition, from 0 on."""
        return self._numbered(self.key, number), self._numbered(self.value, number)

    def _numbered(self, data: bytes | None, number: int) -> bytes | None:
        return data.replace(REPEAT.encode(), str(number).encode()) if self.numbered and data is not None else data


@dataclass(frozen=True, slots=True)
class SeedTopic:
    field: SeedField
    name: str
    partitions: int
    """Number of partitions; −1: the broker's default."""
    replication_factor: int
    configs: Mapping[str, str]
    config_fields: Mapping[str, SeedField]
    records: tuple[SeedRecord, ...]
    record_count: int
    """Number of records, repetitions included."""


@dataclass(frozen=True, slots=True)
class SeedOffset:
    """Committed offset of a group in a partition, or in all of a topic."""

    field: SeedField
    topic: str
    partition: int | None
    offset: int | str
    """A number, EARLIEST or LATEST."""


@dataclass(frozen=True, slots=True)
class SeedGroup:
    field: SeedField
    name: str
    offsets: tuple[SeedOffset, ...]


@dataclass(frozen=True, slots=True)
class SeedCase:
    field: SeedField
    name: str
    topic: str


@dataclass(frozen=True, slots=True)
class SeedAcl:
    field: SeedField
    text: str
    """A valid line of an access control entry."""


@dataclass(frozen=True, slots=True)
class SeedQuotas:
    field: SeedField
    entity: str
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class SeedSchema:
    """A version of a subject of the schema registry."""

    field: SeedField
    subject: str
    content: Content
    """The schema; it is parsed when it is registered."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A parsed seed with valid fields; whether a broker can create it is checked later."""

    source: str
    topics: tuple[SeedTopic, ...] = ()
    groups: tuple[SeedGroup, ...] = ()
    cases: tuple[SeedCase, ...] = ()
    acls: tuple[SeedAcl, ...] = ()
    quotas: tuple[SeedQuotas, ...] = ()
    schemas: tuple[SeedSchema, ...] = ()


SeedSource = str | os.PathLike[str] | Mapping[str, Any]
"""The path of a YAML or JSON file, or its content."""


def seed_from(source: SeedSource) -> Seed:
    """Read the seed in a file or a mapping. Blocks.

    Raises:
        ControlError: NOT_FOUND (no such file), INVALID (one line that names file, line and field).
    """
    if isinstance(source, Mapping):
        return seed_of(field_of(source, "seed"))
    path = os.fspath(source)
    try:
        with open(path, "rb") as file:
            data = file.read(SEED_BYTES_MAX + 1)
    except OSError as error:
        raise ControlError(Kind.NOT_FOUND, f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:  # a path that contains a null character
        raise ControlError(Kind.NOT_FOUND, f"cannot read {path!r}: {error}") from error
    if len(data) > SEED_BYTES_MAX:
        raise ControlError(Kind.INVALID, f"{path}: seed too large (limit {SEED_BYTES_MAX} bytes)")
    try:
        return seed_from_text(data.decode(), path)
    except UnicodeDecodeError as error:
        raise ControlError(Kind.INVALID, f"{path} is not UTF-8 at byte {error.start}") from None


def seed_from_text(text: str, source: str) -> Seed:
    """Parse the seed in a text of YAML or JSON; `source` names it in messages. ControlError INVALID as above."""
    return seed_of(field_of_text(text, source))


def seed_of(field: SeedField) -> Seed:
    """Return the seed of these fields."""
    if field.value is None:
        raise field.error(f"the seed is empty; fields: {', '.join(FIELDS)}")
    members = field.mapping(FIELDS)
    topics = tuple(_topic(name, each) for name, each in _members(members.get("topics")))
    cases = tuple(_case(each) for each in (members["cases"].items() if _is_there(members.get("cases")) else ()))
    groups = tuple(_group(name, each) for name, each in _members(members.get("groups")))
    _check_bounds(field, topics)
    taken = {topic.name for topic in topics}
    for case in cases:
        if case.topic in taken:
            raise case.field.error(f"duplicate topic {case.topic}")
        taken.add(case.topic)
    acls = tuple(_acl(each) for each in (members["acls"].items() if _is_there(members.get("acls")) else ()))
    quotas = tuple(_quotas(entity, each) for entity, each in _members(members.get("quotas")))
    schemas = tuple(each for subject, found in _members(members.get("schemas")) for each in _schemas(subject, found))
    if len(schemas) > SCHEMAS_MAX:
        raise members["schemas"].error(f"too many schemas ({len(schemas)}, limit {SCHEMAS_MAX})")
    return Seed(field.source, topics, groups, cases, acls, quotas, schemas)


def _is_there(field: SeedField | None) -> bool:
    return field is not None and field.value is not None


def _members(field: SeedField | None) -> list[tuple[str, SeedField]]:
    return list(field.mapping().items()) if field is not None and field.value is not None else []


def _topic(name: str, field: SeedField) -> SeedTopic:
    members: Mapping[str, SeedField] = {} if field.value is None else field.mapping(TOPIC_FIELDS)
    partitions = members["partitions"].integer(1, 10_000) if "partitions" in members else -1
    factor = members["replication_factor"].integer(1, 2**15 - 1) if "replication_factor" in members else -1
    configs = dict(_members(members.get("configs")))
    records = tuple(map(_record, members["records"].items() if _is_there(members.get("records")) else []))
    return SeedTopic(
        field,
        name,
        partitions,
        factor,
        {option: _config(each) for option, each in configs.items()},
        configs,
        records,
        sum(record.repeat for record in records),
    )


def _config(field: SeedField) -> str:
    if isinstance(field.value, bool):
        return str(field.value).lower()
    if isinstance(field.value, list):
        return ",".join(each.text() for each in field.value)
    if not isinstance(field.value, str | int | float):
        raise field.expected("a string, a number or a boolean")
    return str(field.value)


def _record(field: SeedField) -> SeedRecord:
    members = field.mapping(RECORD_FIELDS)
    if not members:
        raise field.error(f"the record is empty; fields: {', '.join(RECORD_FIELDS)}")
    nothing = SeedField(None, field.path, field.line, field.source)
    repeat = members["repeat"].integer(1, RECORDS_MAX) if "repeat" in members else 1
    return SeedRecord(
        field,
        bytes_of(members.get("key", nothing)),
        bytes_of(members.get("value", nothing)),
        tuple((name, bytes_of(each)) for name, each in _members(members.get("headers"))),
        members["partition"].integer(0, PARTITION_MAX) if "partition" in members else None,
        timestamp_of(members["timestamp"]) if "timestamp" in members else None,
        repeat,
        "repeat" in members,
    )


def _group(name: str, field: SeedField) -> SeedGroup:
    if not name:
        raise field.error("group name is empty")
    return SeedGroup(field, name, tuple(_offsets(field)))


def _offsets(field: SeedField) -> Iterator[SeedOffset]:
    for topic, each in field.mapping().items():
        if isinstance(each.value, dict):
            for partition, offset in each.mapping().items():
                if not (partition.isascii() and partition.isdigit() and int(partition) <= PARTITION_MAX):
                    raise offset.error("expected a partition number as name")
                yield SeedOffset(offset, topic, int(partition), _offset(offset))
        else:
            yield SeedOffset(each, topic, None, _offset(each))


def _offset(field: SeedField) -> int | str:
    if field.value in (EARLIEST, LATEST):
        return str(field.value)
    if isinstance(field.value, str):
        raise field.expected(f"an offset, {EARLIEST} or {LATEST}")
    return field.integer(0, 2**63 - 1)


def _case(field: SeedField) -> SeedCase:
    if isinstance(field.value, str):
        name_field, topic = field, field.value
    else:
        members = field.mapping(("name", "topic"))
        if "name" not in members:
            raise field.error("a case requires a name")
        name_field = members["name"]
        topic = members["topic"].text() if "topic" in members else name_field.text()
    try:
        case_of(name_field.text())
    except ControlError as error:
        raise name_field.error(str(error), error.kind) from None
    return SeedCase(field, name_field.text(), topic)


def _quotas(entity: str, field: SeedField) -> SeedQuotas:
    values = {key: each.number() for key, each in field.mapping().items()}
    try:
        check_all({entity: values})
    except ControlError as error:
        raise field.error(str(error)) from None
    return SeedQuotas(field, entity, values)


def _schemas(subject: str, field: SeedField) -> Iterator[SeedSchema]:
    try:
        name = normalized(subject)
    except RegistryError as error:
        raise field.error(str(error)) from None
    for each in field.items() if isinstance(field.value, list) else [field]:
        yield SeedSchema(each, name, _schema(each))


def _schema(field: SeedField) -> Content:
    if not isinstance(field.value, dict) or "schema" not in field.value:
        return content_of("AVRO", _schema_text(field))
    members = field.mapping(SCHEMA_FIELDS)
    kind = members["kind"].text() if "kind" in members else "AVRO"
    if kind not in KINDS:
        raise members["kind"].error(f"expected one of {', '.join(KINDS)}, found {kind[:60]!r}")
    found = plain_value(members["references"]) if "references" in members else None
    try:
        return content_of(kind, _schema_text(members["schema"]), references_of(found))
    except UnreadableRecordError as error:
        raise field.error(str(error)) from None


def _schema_text(field: SeedField) -> str:
    """Return the text of a schema, which may be a mapping or a list instead."""
    if isinstance(field.value, dict | list):
        return json.dumps(plain_value(field))
    return field.text()


def _acl(field: SeedField) -> SeedAcl:
    text = field.text()
    try:
        list(parse_new(text))
    except ValueError as error:
        raise field.error(str(error)) from None
    return SeedAcl(field, text)


def _check_bounds(field: SeedField, topics: tuple[SeedTopic, ...]) -> None:
    records = size_bytes = 0
    for topic in topics:
        for record in topic.records:
            records += record.repeat
            size_bytes += record.repeat * (len(record.key or b"") + len(record.value or b""))
            if records > RECORDS_MAX:
                raise record.field.error(f"too many records, counting repetitions (limit {RECORDS_MAX})")
            if size_bytes > RECORD_BYTES_MAX:
                raise record.field.error(f"keys and values are too large (limit {RECORD_BYTES_MAX} bytes)")


async def export(broker: Broker) -> dict[str, Any]:
    """Return a seed of the broker's topics, ACLs and quotas, without records.

    It has each topic that is not internal, with partitions, replicas and the configs that are set.
    """
    services, time_slice = broker.services, TimeSlice()
    topics: dict[str, Any] = {}
    async for topic in time_slice.each(sorted(services.topics, key=lambda each: each.name)):
        if topic.is_internal or services.topics.get(topic.name) is not topic:
            continue
        entry: dict[str, Any] = {
            "partitions": len(topic.partitions),
            "replication_factor": len(topic.partitions[0].replicas),
        }
        if configs := dict(services.cluster.topic_configs(topic.name)):
            entry["configs"] = configs
        topics[topic.name] = entry
    exported: dict[str, Any] = {"topics": topics}
    if services.authorizer is not None and len(services.authorizer.index):
        exported["acls"] = await time_slice.sorted(await time_slice.map(str, services.authorizer.index.all()))
    if quotas := (await list_quotas(broker)).quotas:
        exported["quotas"] = {
            state.entity: {
                key: value if isfinite(value) else NOT_FINITE[isnan(value)] for key, value in state.quotas.items()
            }
            for state in quotas
        }
    return exported
