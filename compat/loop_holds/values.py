"""The values of the fields in a large request: unknown names, or names of a broker that was filled for it.

A field gets the value of its API and name in the tables, else of its name, else the schema's default. Requests that would
change the broker for good are sent with validate-only, if the API has that; the jobs make the changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.protocol.schema import ZERO_UUID, Field

from .shapes import Form, Number, Text, Values

TOPICS, BIG_PARTITIONS, GROUPS = 100, 1_000, 2_000
"""The contents of the filled broker: topics `t…` of one partition, partitions of `big`, groups `g…` with an offset."""


@dataclass(frozen=True)
class World:
    """The known names and ids of the filled broker."""

    big_id: bytes
    producer_id: int
    producer_epoch: int
    batch: bytes
    """A small record batch."""


_TOPIC_FIELDS = ("topic", "topic_name", "topic_names", "subscribed_topic_names", "resource_name")
_GROUP_FIELDS = ("group_id", "groups", "groups_names", "group_ids", "key", "coordinator_keys")
_TRANSACTION_FIELDS = ("transactional_id", "transactional_ids", "v3_and_below_transactional_id")
_PARTITION_FIELDS = ("partition", "partition_index", "partitions", "partition_indexes", "index")

_ANYWHERE: dict[str, Any] = {
    "allow_auto_topic_creation": False,
    "validate_only": True,
    "timeout_ms": 10_000,
    "resource_type": 2,
    "partition_max_bytes": 1024,
    "offset": -1,
    "protocol_type": "consumer",
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "num_partitions": 1,
    "replication_factor": 1,
    "timestamp": -1,
    "acks": 1,
    "count": BIG_PARTITIONS + 1,
}
_OF_API: dict[tuple[str, str], Any] = {
    ("Metadata", "topic_id"): ZERO_UUID,
    ("Metadata", "name"): "topic",
    ("DeleteTopics", "topic_id"): ZERO_UUID,
    ("DeleteTopics", "name"): "topic",
    ("ListOffsets", "replica_id"): -1,
    ("JoinGroup", "group_instance_id"): "holds",
    ("JoinGroup", "metadata"): b"\0\1\0\0\0\0\0\0\0\0",
    ("ConsumerGroupHeartbeat", "member_id"): "holds",
    ("ConsumerGroupHeartbeat", "subscribed_topic_regex"): None,
    ("Fetch", "session_epoch"): -1,
    ("ShareFetch", "member_id"): "holds",
    ("ShareFetch", "max_bytes"): 1 << 20,
    ("ShareFetch", "max_records"): 500,
    ("ShareFetch", "batch_size"): 500,
    ("ShareAcknowledge", "member_id"): "holds",
    ("ShareAcknowledge", "share_session_epoch"): -1,
    ("ShareGroupHeartbeat", "member_id"): "holds",
    ("StreamsGroupHeartbeat", "member_id"): "holds",
    ("ListConfigResources", "resource_types"): 2,
}
_NULL_EVEN_IN_CELLS = {("DescribeConfigs", "configuration_keys")}
_BY_ASSIGNMENT = {"num_partitions": -1, "replication_factor": -1}


class Unknown(Values):
    """Names, ids and numbers of nothing."""

    def has_element(self, form: Form, field: Field, *, in_cell: bool) -> bool | None:
        if in_cell and (form.api.name, field.name) not in _NULL_EVEN_IN_CELLS:
            return True
        return None if field.is_nullable_in(form.version) else False

    def of(self, form: Form, cls: type[Any], field: Field, *, in_cell: bool) -> Any:
        if "assignments" in form.path and field.name in _BY_ASSIGNMENT:
            return _BY_ASSIGNMENT[field.name]
        given = _OF_API.get((form.api.name, field.name), "none")
        if given == "topic" or (given == "none" and self._is_topic(cls, field)):
            return self.topic(form, in_cell)
        if given != "none":
            return given
        if field.name in _GROUP_FIELDS:
            return self.group(form, in_cell)
        if field.name in _TRANSACTION_FIELDS and field.type.name == "string":
            return None if field.is_nullable_in(form.version) else self.transaction(in_cell)
        if field.name in _PARTITION_FIELDS:
            return self.partition(form, in_cell)
        if field.name == "topic_id":
            return self.topic_id(in_cell)
        if field.name == "records":
            return self.records()
        if field.name in _ANYWHERE:
            return _ANYWHERE[field.name]
        if field.name == "producer_id" or field.name == "v3_and_below_producer_id":
            return self.producer()[0]
        if field.name == "producer_epoch" or field.name == "v3_and_below_producer_epoch":
            return self.producer()[1]
        if field.type.name == "string":
            return None if field.is_nullable_in(form.version) else Text("x") if in_cell else ""
        if field.type.name in ("bytes", "records"):
            return None if field.is_nullable_in(form.version) else b""
        if field.type.name == "struct":
            return None
        return field.default if field.default is not None else Number()

    @staticmethod
    def _is_topic(struct: type[Any], field: Field) -> bool:
        return field.name in _TOPIC_FIELDS or (
            field.name == "name" and "Topic" in struct.__name__ and "Config" not in struct.__name__
        )

    def topic(self, form: Form, in_cell: bool) -> Any:
        return Text("u") if in_cell else "u0000000"

    def topic_id(self, in_cell: bool) -> Any:
        return Number()

    def partition(self, form: Form, in_cell: bool) -> Any:
        return Number() if in_cell else 0

    def group(self, form: Form, in_cell: bool) -> Any:
        return Text("u") if in_cell else "u0000000"

    def transaction(self, in_cell: bool) -> Any:
        return Text("u") if in_cell else "u0000000"

    def producer(self) -> tuple[int, int]:
        return 1 << 40, 0

    def records(self) -> bytes | None:
        return None


class Known(Unknown):
    """Names, ids and numbers of a filled broker, again and again."""

    def __init__(self, world: World) -> None:
        self._world = world

    def topic(self, form: Form, in_cell: bool) -> Any:
        return Text("t", TOPICS) if in_cell else "big"

    def topic_id(self, in_cell: bool) -> Any:
        return self._world.big_id

    def partition(self, form: Form, in_cell: bool) -> Any:
        one_a_topic = form.path[-1] in ("topics", "topic_data", "topic_partitions", "v3_and_below_topics")
        return Number(BIG_PARTITIONS) if in_cell and not one_a_topic else 0

    def group(self, form: Form, in_cell: bool) -> Any:
        return Text("g", GROUPS) if in_cell else "g0000000"

    def transaction(self, in_cell: bool) -> Any:
        return "holds"

    def producer(self) -> tuple[int, int]:
        return self._world.producer_id, self._world.producer_epoch

    def records(self) -> bytes | None:
        return self._world.batch


DESTRUCTIVE = {"DeleteTopics", "DeleteGroups", "CreateTopics"}
"""APIs that get no known names: the jobs delete, and a topic to be created has no known name."""
