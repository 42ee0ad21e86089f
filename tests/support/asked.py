"""Requests of any API in any version, made from the schemas: each names topic "t" and its first partition, group "g" and
transactional id "x", once."""

from __future__ import annotations

from typing import Any

from ottla.protocol.apis import Api
from ottla.protocol.connection import Request, encode_request, parse_request
from ottla.protocol.schema import Type, fields_of
from support.logs.batches import batch

NAMES: dict[str, Any] = {
    "acks": -1,
    "client_software_name": "test",
    "client_software_version": "1",
    "config_operation": 0,
    "configs": (),
    "coordinator_keys": "g",
    "cursor": None,
    "group_id": "g",
    "group_ids": "g",
    "groups": "g",
    "groups_names": "g",
    "key": "g",
    "max_bytes": 1 << 20,
    "name": "t",
    "operation": 3,
    "partition_max_bytes": 1 << 20,
    "permission_type": 3,
    "records": batch(("k", "v"), timestamp=1_700_000_000_000),
    "replica_id": -1,
    "resource_name": "t",
    "resource_type": 2,
    "resource_type_filter": 2,
    "response_partition_limit": 100,
    "session_epoch": -1,
    "topic": "t",
    "topic_name": "t",
    "topic_names": "t",
    "transactional_id": "x",
    "transactional_ids": "x",
    "v3_and_below_transactional_id": "x",
}
"""Values by the names of fields; for an array, the value of its one element. Fields that are not listed have their defaults."""
ROWS = {
    "dirs",
    "topics",
    "topic_data",
    "topic_partitions",
    "v3_and_below_topics",
    "partitions",
    "partition_data",
    "partition_indexes",
    "creations",
    "filters",
    "upsertions",
}
ROWS |= {
    "entries",
    "resources",
    "transactions",
    "markers",
    *(name for name, value in NAMES.items() if name.endswith("s")),
}
"""Arrays that have one element."""


def asked(api: Api, version: int, topic_id: bytes, **values: Any) -> Request:
    """Return a request as the broker reads it; `values` are set in its body's own fields."""
    body = _filled(api.request, version, topic_id, values)
    return parse_request(memoryview(bytearray(encode_request(api, version, 7, "client", body)))[4:])


def _filled(cls: type[Any], version: int, topic_id: bytes, values: dict[str, Any]) -> Any:
    made: dict[str, Any] = {}
    for field in fields_of(cls):
        if not field.exists_in(version):
            continue
        if field.name in values:
            made[field.name] = values[field.name]
        elif field.name == "topic_id":
            made["topic_id"] = topic_id
        elif field.type.name == "array" and field.name in ROWS and NAMES.get(field.name) != ():
            assert field.type.item is not None
            made[field.name] = (_element(field.name, field.type.item, version, topic_id),)
        elif field.name in NAMES and field.type.name != "array":
            made[field.name] = NAMES[field.name]
    # Of an id and a name one is null, where both are there.
    if "topic_id" in made and made.get("name") and any(each.nullable_from is not None for each in fields_of(cls)):
        made |= {"name": None} if version >= 12 or cls.__name__ == "DeleteTopicState" else {"topic_id": bytes(16)}
    return cls(**made)


def _element(name: str, kind: Type, version: int, topic_id: bytes) -> Any:
    if kind.struct is not None:
        return _filled(kind.struct, version, topic_id, {})
    return NAMES[name] if kind.name == "string" else 0
