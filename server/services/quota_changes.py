"""Other quotas for clients: into the catalog, and on to whoever throttles them."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import trio

from ..cluster.cluster import Cluster
from ..quotas.entities import IP, Entity
from ..quotas.table import SECTION, Holding, QuotaTable, entries_of
from ..quotas.validation import Alteration, alter, is_literal_address
from ..runtime.turns import Turn

RESOLVED_AT_ONCE = 4
"""One that its resolver never answers keeps its thread."""
RESOLVED_WITHIN_S = 10.0
"""All names of hosts of one request, together; those that are not found by then count as none."""


class QuotaChanges:
    """Those of one broker."""

    def __init__(self, cluster: Cluster, table: QuotaTable) -> None:
        self._cluster = cluster
        self._table = table
        self._resolving = trio.CapacityLimiter(RESOLVED_AT_ONCE)

    async def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> dict[Entity, str | None]:
        """Change the quotas of each entity, which hold from the next request on, or say why not (INVALID_REQUEST).

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; nothing has changed.
        """
        table, cluster = self._table, self._cluster
        addresses = await self._addresses(each.entity.names.get(IP) for each in alterations)
        async with cluster.change_lock:
            work = partial(self._alter, table.holding, alterations, addresses, is_kept=not validate_only)
            outcomes, holding = await cluster.write(work)
            if holding is not None:
                table.hold(holding)
        return outcomes

    def _alter(
        self, before: Holding, alterations: Sequence[Alteration], addresses: Mapping[str, str], *, is_kept: bool
    ) -> tuple[dict[Entity, str | None], Holding | None]:
        """In a thread: what comes of it, and what holds then if that is something else, and in the catalog."""
        outcomes, changed = alter(
            before.quotas, alterations, lambda name: name in addresses or is_literal_address(name)
        )
        if not changed or not is_kept:
            return outcomes, None
        holding = before.with_changes(changed, addresses)
        self._cluster.catalog.put_entries(SECTION, entries_of(changed, addresses))
        return outcomes, holding

    async def _addresses(self, names: Iterable[str | None]) -> dict[str, str]:
        """Of those that are no addresses themselves, and that are found in time."""
        found: dict[str, str] = {}
        turn = Turn()
        distinct = await turn.once(names)
        with trio.move_on_after(RESOLVED_WITHIN_S):
            for name in distinct:
                if turn.is_over():
                    await turn.next()
                if name and not is_literal_address(name):
                    address = await trio.to_thread.run_sync(
                        partial(resolve, name), limiter=self._resolving, abandon_on_cancel=True
                    )
                    if address is not None:
                        found[name] = address
        return found


def resolve(name: str) -> str | None:
    """The address of a host, None if it has none. Blocks."""
    try:
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, ValueError):  # UnicodeError among them: no name of a host
        return None
