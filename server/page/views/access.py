"""Access control entries, and quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...broker.broker import Broker
from ...control.acls import list_acls, why_allowed
from ...control.quotas import list_quotas, list_throttled
from ...runtime.errors import ControlError
from ...runtime.time_slices import TimeSlice
from ..section import ROWS_MAX, Page, Row, Section


@dataclass(frozen=True, slots=True)
class ShownEntries:
    """Number of shown and of all entries, and the filter."""

    shown: int
    count: int
    principal: str
    resource: str
    refused: str | None


@dataclass(frozen=True, slots=True)
class AccessQuestion:
    """Question whether a principal may do an operation; all fields are empty before it is asked."""

    principal: str
    operation: str
    resource: str
    answer: str | None
    is_allowed: bool | None


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota of one entity."""

    entity: str
    key: str
    value: float


async def acls(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the ACL page: entries, filtered by the fields `principal` and `resource`.

    `who`, `what` and `on` ask a question.
    """
    principal, resource = fields.get("principal", "").strip(), fields.get("resource", "").strip()
    rows: tuple[Row, ...] = ()
    refused, count = None, 0
    try:
        found = (await list_acls(broker, principal=principal or None, resource=resource or None)).acls
        count = len(found)
        rows = tuple(Row(f"acl-{each.acl}", each) for each in found[:ROWS_MAX])
    except ControlError as error:
        refused = str(error)
    sections = [Section("acls", "acls", ShownEntries(len(rows), count, principal, resource, refused), rows)]
    if refused is None or principal or resource:
        sections += [Section("add", "add_acl", None), Section("why", "why_allowed", await _question(broker, fields))]
    return Page("Access control", "/acls", tuple(sections))


async def _question(broker: Broker, fields: Mapping[str, str]) -> AccessQuestion:
    who, what, on = (fields.get(name, "").strip() for name in ("who", "what", "on"))
    if not (who and what and on):
        return AccessQuestion(who, what, on, None, None)
    try:
        decision = await why_allowed(broker, who, what, on)
    except ControlError as error:
        return AccessQuestion(who, what, on, str(error), None)
    return AccessQuestion(who, what, on, decision.sentence, decision.is_allowed)


async def quotas(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page of quotas and of clients that are throttled now."""
    count, rows, time_slice = 0, list[Row](), TimeSlice()
    async for each in time_slice.each((await list_quotas(broker)).quotas):
        count += len(each.quotas)
        if len(rows) < ROWS_MAX:
            rows += [
                Row(f"quota-{each.entity}-{key}", QuotaRow(each.entity, key, value))
                for key, value in each.quotas.items()
            ]
    throttled = (await list_throttled(broker)).throttled
    return Page(
        "Quotas",
        "/quotas",
        (
            Section(
                "quotas",
                "quotas",
                count,
                tuple(rows[:ROWS_MAX]),
            ),
            Section("set", "set_quota", None),
            Section("throttled", "throttled", tuple(each.sentence for each in throttled[:ROWS_MAX])),
        ),
    )
