"""Other access control entries: into the catalog, and on to the authorizer.

What is denied holds before what is allowed in the same request, and what is allowed goes before what was denied: nobody may
for a moment what no entries said that he might.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ..runtime.time_slices import TimeSlice
from ..security.acls.acl import Acl
from ..security.acls.authorizer import Authorizer
from ..security.acls.filters import AclFilter, ManyFilters
from ..security.acls.kinds import Permission
from .cluster import Cluster

SECTION = "acls"

CHANGED_MAX = 10_000
"""Entries that one request may add, or take away, as in Apache Kafka."""

MEANT_MAX = 10 * CHANGED_MAX
"""Entries in the answer to one request that takes some away, as often as filters mean them."""

LOOKED_FOR_MAX = 4 * MEANT_MAX
"""Filters of one request, each as often as there are patterns of entries that it means."""

ENTRIES_MAX = 200_000
CHARS_MAX = 16 << 20
"""Of all entries together: the catalog, which says each character twice, is written whole at each change."""


class AclChanges:
    """Those of one broker. One change at a time, on the Trio thread.

    Args:
        authorizer: Has what the catalog has.
    """

    def __init__(self, cluster: Cluster, authorizer: Authorizer) -> None:
        self._cluster = cluster
        self._authorizer = authorizer
        self._chars = sum(map(_chars, authorizer.index.all()))

    async def create(self, acls: Iterable[Acl], *, at_most: int | None = None) -> list[Acl]:
        """Add these entries, in one write, and have them hold; returns those that were not there.

        Args:
            at_most: So many that were not there; without it CHANGED_MAX.

        Raises:
            KafkaError: POLICY_VIOLATION (too many, together or at once), KAFKA_STORAGE_ERROR; nothing has changed then.
        """
        time_slice = TimeSlice()
        wanted = await time_slice.once(acls)
        async with self._cluster.change_lock:
            new, chars = [], 0
            async for acl in time_slice.each(wanted):
                if acl not in self._authorizer.index:
                    new.append(acl)
                    chars += _chars(acl)
            self._check_room(len(new), chars, CHANGED_MAX if at_most is None else at_most)
            if not new:
                return []
            facts = await time_slice.map(lambda acl: (str(acl), acl.facts()), new)
            with trio.CancelScope(shield=True):
                await self._put(dict(facts))
                self._chars += chars
                for permission in Permission.DENY, Permission.ALLOW:
                    async for acl in time_slice.each(new):
                        if acl.permission is permission:
                            self._authorizer.add(acl)
        return new

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Take away, in one write, the entries that filters mean; returns those that each of them does.

        Raises:
            KafkaError: POLICY_VIOLATION (too many at once), KAFKA_STORAGE_ERROR; nothing has changed then.
        """
        time_slice = TimeSlice()
        async with self._cluster.change_lock:
            found, gone = await self._meant(filters, time_slice)
            if gone:
                keys = await time_slice.map(lambda acl: (str(acl), None), gone)
                with trio.CancelScope(shield=True):
                    await self._put(dict(keys))
                    for permission in Permission.ALLOW, Permission.DENY:
                        async for acl in time_slice.each(gone):
                            if acl.permission is permission:
                                self._authorizer.remove(acl)
                                self._chars -= _chars(acl)
        return found

    async def matching(self, wanted: AclFilter, time_slice: TimeSlice) -> list[Acl]:
        """The entries that a filter means, as they are at one moment."""
        found = []
        async for acl in time_slice.each(wanted.candidates(self._authorizer.index)):
            if wanted.matches(acl):
                found.append(acl)
        return found

    async def _meant(
        self, filters: Sequence[AclFilter], time_slice: TimeSlice
    ) -> tuple[list[list[Acl]], dict[Acl, None]]:
        """What each of the filters means, and all of it together, in one pass over the entries for them all."""
        wanted = ManyFilters(self._authorizer.index)
        try:
            async for each in time_slice.each(filters):
                wanted.add(each)
                if wanted.size > LOOKED_FOR_MAX:
                    raise _too_many()
            return await self._meant_by(wanted, len(filters), time_slice)
        finally:
            await wanted.clear(time_slice)

    async def _meant_by(
        self, wanted: ManyFilters, count: int, time_slice: TimeSlice
    ) -> tuple[list[list[Acl]], dict[Acl, None]]:
        found = await time_slice.map(lambda _: list[Acl](), range(count))
        gone, meant = dict[Acl, None](), 0
        async for acl in time_slice.each(wanted.candidates()):
            for numbers in wanted.meaning(acl):
                gone[acl] = None
                meant += len(numbers)
                # Filters that mean the same entries are answered with them each.
                if len(gone) > CHANGED_MAX or meant > MEANT_MAX:
                    raise _too_many()
                async for number in time_slice.each(numbers):
                    found[number].append(acl)
        return found, gone

    def _check_room(self, count: int, chars: int, at_most: int) -> None:
        there = len(self._authorizer.index)
        if count > at_most:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        if there + count > ENTRIES_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"too many ACLs ({there + count}, limit {ENTRIES_MAX})")
        if self._chars + chars > CHARS_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"ACLs are too long in total ({self._chars + chars} characters, limit {CHARS_MAX})",
            )

    async def _put(self, entries: Mapping[str, Mapping[str, Any] | None]) -> None:
        await self._cluster.write(self._cluster.catalog.put_entries, SECTION, entries)


def _too_many() -> KafkaError:
    text = f"Cannot remove more than {CHANGED_MAX} acls in a single delete operation."
    return KafkaError(ErrorCode.POLICY_VIOLATION, text)


def _chars(acl: Acl) -> int:
    return len(acl.name) + len(acl.principal) + len(acl.host)
