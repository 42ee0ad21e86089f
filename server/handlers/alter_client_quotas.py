"""AlterClientQuotas, API key 49, versions 0-1 (KIP-546).

Behaviour
- Each entity succeeds or fails on its own (INVALID_REQUEST); one that is named twice fails with one row, though its first
  alteration holds.
- All changes are one write of the catalog. They are in effect when the response is sent, also for connected clients.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResponse,
)
from ...protocol.messages.describe_client_quotas import EntityData
from ...protocol.wire import as_array
from ..quotas.entities import TYPES, Entity
from ..quotas.validation import Alteration, entity_problem
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context

CHANGES_MAX = 10_000
"""Largest number of changes in a request; Apache Kafka's controller writes no more records for one request."""


async def handle(ctx: Context, request: Request) -> AlterClientQuotasResponse:
    body: AlterClientQuotasRequest = request.body
    time_slice = TimeSlice()
    try:
        if not ctx.may(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        # An alteration without effect on its entity is work as well.
        counts = await time_slice.map(lambda entry: len(entry.ops), body.entries[: CHANGES_MAX + 1])
        if len(counts) > CHANGES_MAX or sum(counts) > CHANGES_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"Too many changes in one request (limit {CHANGES_MAX}).")
        alterations: list[Alteration] = []
        refused: list[EntryResponse] = []
        async for entry in time_slice.each(body.entries):
            names = await _names(entry, time_slice)
            if len(names) > len(TYPES):  # it is refused anyway, and to compare it with others would be slow
                refused.append(_refused(entry, Entity.from_parts(names)))
            else:
                ops = [(op.key, None if op.remove else op.value) for op in entry.ops]
                alterations.append(Alteration(Entity.from_parts(names), ops))
        outcomes = await ctx.services.quota_changes.alter(alterations, validate_only=body.validate_only)
    except KafkaError as error:
        code, message = error.code, error.message
        rows = await time_slice.map(
            lambda entry: EntryResponse(error_code=code, error_message=message, entity=entry.entity), body.entries
        )
        return AlterClientQuotasResponse(entries=tuple(rows))
    rows = await time_slice.map(_row, outcomes.items())
    await time_slice.empty(alterations, outcomes)
    return AlterClientQuotasResponse(entries=as_array(refused + rows))


async def _names(entry: EntryData, time_slice: TimeSlice) -> dict[str, str | None]:
    """Return the last name of each type; stops once an entity has more types than are known."""
    names: dict[str, str | None] = {}
    async for part in time_slice.each(entry.entity):
        names[part.entity_type] = part.entity_name
        if len(names) > len(TYPES):
            break
    return names


def _refused(entry: EntryData, entity: Entity) -> EntryResponse:
    return EntryResponse(
        error_code=ErrorCode.INVALID_REQUEST, error_message=entity_problem(entity), entity=entry.entity
    )


def _row(outcome: tuple[Entity, str | None]) -> EntryResponse:
    entity, problem = outcome
    return EntryResponse(
        error_code=ErrorCode.NONE if problem is None else ErrorCode.INVALID_REQUEST,
        error_message=problem,
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts),
    )
