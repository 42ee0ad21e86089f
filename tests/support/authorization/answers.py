"""The parts of an answer that are compared: error codes and messages, operations, and which resources are named or hidden.

Everything else (offsets, ids, addresses, times) does not depend on rights, and differs from run to run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import ZERO_UUID, fields_of

_NAMES = frozenset(
    {
        "name",
        "topic",
        "topic_name",
        "group_id",
        "transactional_id",
        "resource_name",
        "resource_type",
        "key",
        "num_partitions",
        "partition",
        "partition_index",
        "partition_id",
        "index",
    }
)
_ROWS_WITHOUT_RIGHTS = frozenset(
    {
        "active_producers",
        "api_keys",
        "brokers",
        "current_voters",
        "finalized_features",
        "node_endpoints",
        "nodes",
        "observers",
        "record_errors",
        "supported_features",
    }
)
"""Arrays whose content is the same for every user who may ask at all, or that contain nothing about resources."""

_OF_TOKENS = ("DescribedDelegationToken", "principal_name")
"""In other structs this field is the name of the sender."""
TOLD = "told"
"""The replacement for configs that are shown, whichever they are."""

_REQUEST = re.compile(r"Request .* needs (\w+) permission\.", re.DOTALL)
REQUEST = r"Request … needs \1 permission."
"""The replacement for a message in which Apache Kafka repeats the whole request, and the sender's address."""
_PARTITIONS_FOR_ROUTING = frozenset({"MetadataResponsePartition", "DescribeTopicPartitionsResponsePartition"})
"""Arrays of partitions: a user who sees the topic sees all of its partitions."""


def reduced(answer: Any, names: Mapping[bytes, str]) -> Any:
    """Return the answer as JSON, with the names of topics in place of their ids."""
    return None if answer is None else _struct(answer, names)


def _struct(value: Any, names: Mapping[bytes, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields_of(type(value)):
        one = getattr(value, field.name)
        if field.name.endswith("error_code"):
            found[field.name] = ErrorCode(one).name
        elif field.name.endswith(("error_message", "authorized_operations")):
            if one not in (None, "", field.default):
                found[field.name] = _REQUEST.sub(REQUEST, one) if isinstance(one, str) else one
        elif field.name in _NAMES or (type(value).__name__, field.name) == _OF_TOKENS:
            if one not in (None, ""):
                found[field.name] = one
        elif field.name == "topic_id":
            if one != ZERO_UUID:
                found[field.name] = names.get(one, "?")
        elif field.name == "configs":
            if one:
                found[field.name] = TOLD
        elif field.name in _ROWS_WITHOUT_RIGHTS:
            continue
        elif field.type.item is not None and (struct := field.type.item.struct) is not None:
            if struct.__name__ in _PARTITIONS_FOR_ROUTING:
                continue
            rows = [_struct(row, names) for row in one or ()]
            if rows:
                found[field.name] = sorted(rows, key=as_text)
    return found


def as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
