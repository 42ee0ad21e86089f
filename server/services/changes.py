"""Changes of client quotas and of SCRAM credentials: written to the catalog, then put into effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.scram import ScramCredential
from ..cluster.cluster import Cluster
from ..network.connection_limits import Hosts
from ..quotas.entities import IP, Entity
from ..quotas.table import SECTION, Holding, QuotaTable, entries_of
from ..quotas.validation import Alteration, alter, is_literal_address
from ..runtime.time_slices import TimeSlice
from ..security.sasl.scram_users import SCRAM_USERS, Credentials, ScramUsers


class QuotaChanges:
    """Changes of the quotas of one broker."""

    def __init__(self, cluster: Cluster, table: QuotaTable, hosts: Hosts) -> None:
        self._cluster = cluster
        self._table = table
        self._hosts = hosts

    async def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> dict[Entity, str | None]:
        """Change the quotas of each entity, with effect from the next request on; return the reason for each refusal
        (INVALID_REQUEST).

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
        """Write the change to the catalog, in a thread. Returns the outcomes, and the new quotas if anything has changed."""
        outcomes, changed = alter(
            before.quotas, alterations, lambda name: name in addresses or is_literal_address(name)
        )
        if not changed or not is_kept:
            return outcomes, None
        holding = before.with_changes(changed, addresses)
        self._cluster.catalog.put_entries(SECTION, entries_of(changed, addresses))
        return outcomes, holding


USERS_MAX = 10_000
"""Largest number of users: each change writes the whole catalog."""


class ScramChanges:
    """Changes of one broker's SCRAM users, one at a time, on Trio's thread.

    Args:
        users: The users in the catalog.
    """

    def __init__(self, cluster: Cluster, users: ScramUsers) -> None:
        self._cluster = cluster
        self.users = users

    async def alter(
        self, deletions: Iterable[tuple[str, str]], upsertions: Mapping[str, Mapping[str, ScramCredential]]
    ) -> list[tuple[str, str]]:
        """Delete credentials by user and mechanism, and set others by user, in one write.

        They come into use one user after the other, so others may see a part of the change before this returns.

        Returns:
            The deletions of credentials that did not exist.

        Raises:
            KafkaError: POLICY_VIOLATION (too many users), KAFKA_STORAGE_ERROR; nothing has changed then.
        """
        time_slice, missing = TimeSlice(), []
        async with self._cluster.change_lock:
            changed: dict[str, Credentials] = {}
            async for user, mechanism in time_slice.each(deletions):
                present = changed.get(user, self.users.credentials_of(user))
                if mechanism in present:
                    changed[user] = {name: each for name, each in present.items() if name != mechanism}
                else:
                    missing.append((user, mechanism))
            async for user, credentials in time_slice.each(upsertions.items()):
                changed[user] = {**changed.get(user, self.users.credentials_of(user)), **credentials}
            new = 0
            async for user, credentials in time_slice.each(changed.items()):
                new += bool(credentials) and not self.users.credentials_of(user)
            if len(self.users) + new > USERS_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"too many SCRAM users ({len(self.users) + new}, limit {USERS_MAX})",
                )
            if changed:
                facts = await time_slice.map(lambda each: (each[0], self.users.facts(*each) or None), changed.items())
                with trio.CancelScope(shield=True):
                    await self._cluster.write(self._cluster.catalog.put_entries, SCRAM_USERS, dict(facts))
                    time_slice.begin()
                    async for user, credentials in time_slice.each(changed.items()):
                        self.users.put(user, credentials)
        return missing
