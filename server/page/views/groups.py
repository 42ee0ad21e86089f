"""Groups, one group, and open transactions."""

from __future__ import annotations

from collections.abc import Mapping

from ...broker.broker import Broker
from ...control.groups import describe_group, list_groups
from ...control.transactions import list_open_transactions
from ..section import ROWS_MAX, Page, Row, Section


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page of all groups."""
    groups = (await list_groups(broker)).groups
    rows = tuple(Row(f"group-{each.group_id}", each) for each in groups[:ROWS_MAX])
    return Page("Groups", "/groups", (Section("groups", "groups", len(groups), rows),))


async def group_page(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page of the group in the field `group`."""
    found = await describe_group(broker, fields["group"])
    members = tuple(Row(f"member-{each.member_id}", each) for each in found.members[:ROWS_MAX])
    offsets = tuple(Row(f"offset-{each.topic}-{each.partition}", each) for each in found.offsets[:ROWS_MAX])
    return Page(
        found.group.group_id,
        "/groups",
        (
            Section("group", "group", (found.group, found.dead_letters)),
            Section("offsets", "group_offsets", len(found.offsets), offsets),
            Section("members", "members", len(found.members), members),
        ),
        trail=(("Groups", "/groups"),),
    )


async def transactions(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page of open transactions."""
    found = (await list_open_transactions(broker)).transactions
    rows = tuple(Row(f"producer-{each.producer_id}", each) for each in found[:ROWS_MAX])
    return Page("Transactions", "/transactions", (Section("transactions", "transactions", len(found), rows),))
