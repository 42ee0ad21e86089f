"""DescribeClientQuotas, API key 48, versions 0-1 (KIP-546).

Behaviour
- Returns all entities that the filter matches, with their own quotas; not the quotas that apply to a client by precedence.
- A filter that contradicts itself is refused (INVALID_REQUEST), as is an unknown type (UNSUPPORTED_VERSION).
- The values of an entity are in Apache Kafka's order, not in the order in which they were set.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from ..quotas.entities import Entity
from ..quotas.filters import Component, filter_of
from ..quotas.validation import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> DescribeClientQuotasResponse:
    body: DescribeClientQuotasRequest = request.body
    time_slice = TimeSlice()
    if not ctx.may(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        return DescribeClientQuotasResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None, entries=None
        )
    try:
        components = [Component(each.entity_type, each.match_type, each.match) for each in body.components[:MOST]]
        wanted = filter_of(components, body.strict)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    entries = []
    async for entity, values in time_slice.each(ctx.services.quotas.quotas.items()):
        if wanted.takes(entity):
            entries.append(_entry(entity, values))
    return DescribeClientQuotasResponse(entries=tuple(entries))


MOST = 4
"""Number of components that are read. There are three types, and none may be named twice, so four are enough to find an
error."""


# Apache Kafka keeps the values of an entity in a Java HashMap, and lists them bucket by bucket: four buckets for up to three
# values, eight for four. Two keys of one bucket are in the order of a single request.
_ORDER = (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    REQUEST_PERCENTAGE,
    PRODUCER_BYTE_RATE,
)
_ORDER_OF_FOUR = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONTROLLER_MUTATION_RATE, REQUEST_PERCENTAGE)


def _entry(entity: Entity, values: Mapping[str, float]) -> EntryData:
    order = _ORDER_OF_FOUR if len(values) == len(_ORDER_OF_FOUR) else _ORDER
    return EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts),
        values=tuple(ValueData(key=key, value=values[key]) for key in order if key in values),
    )
