"""Other quotas for clients: into the catalog, and on to whoever throttles them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ..cluster.cluster import Cluster
from ..network.hosts import Hosts
from ..quotas.entities import IP, Entity
from ..quotas.table import SECTION, Holding, QuotaTable, entries_of
from ..quotas.validation import Alteration, alter, is_literal_address


class QuotaChanges:
    """The only writer of the quotas of one broker."""

    def __init__(self, cluster: Cluster, table: QuotaTable, hosts: Hosts) -> None:
        self._cluster = cluster
        self._table = table
        self._hosts = hosts

    async def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> dict[Entity, str | None]:
        """Change the quotas of each entity, which hold from the next request on, or say why not (INVALID_REQUEST).

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; nothing has changed.
        """
        table, cluster = self._table, self._cluster
        addresses = await self._hosts.addresses(each.entity.names.get(IP) for each in alterations)
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
