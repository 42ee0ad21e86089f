"""Changes of access control entries: they are written to the catalog, and applied to the authorizer.

In one request, DENY entries take effect before ALLOW entries, and ALLOW entries are removed before DENY entries. So no
principal has, even for a moment, a permission that neither the old nor the new entries give.
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
"""Maximum number of entries that one request may add or delete, as in Apache Kafka."""

MEANT_MAX = 10 * CHANGED_MAX
"""Maximum number of entries in the answer to one deletion; an entry counts for each filter that matches it."""

LOOKED_FOR_MAX = 4 * MEANT_MAX
"""Maximum number of filters in one request; each also counts once for each resource pattern of entries that it may match."""

ENTRIES_MAX = 200_000
CHARS_MAX = 16 << 20
"""Maximum number of characters of all entries together. The catalog, which contains each character twice, is written as a whole
at each change."""


class AclChanges:
    """Changes of one broker's access control entries, one at a time, on the Trio thread.

    Args:
        authorizer: Authorizer with the entries of the catalog.
    """

    def __init__(self, cluster: Cluster, authorizer: Authorizer) -> None:
        self._cluster = cluster
        self._authorizer = authorizer
        self._chars = sum(map(_chars, authorizer.index.all()))

    async def create(self, acls: Iterable[Acl], *, at_most: int | None = None) -> list[Acl]:
        """Add these entries, in one write, and apply them. Return those that were new.

        Args:
            at_most: Maximum number of new entries; None: CHANGED_MAX.

        Raises:
            KafkaError: POLICY_VIOLATION (too many, together or at once), KAFKA_STORAGE_ERROR. Then nothing has changed.
        """
        time_slice = TimeSlice()
        wanted = await time_slice.distinct(acls)
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
                await self._write_entries(dict(facts))
                self._chars += chars
                for permission in Permission.DENY, Permission.ALLOW:
                    async for acl in time_slice.each(new):
                        if acl.permission is permission:
                            self._authorizer.add(acl)
        return new

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Delete, in one write, the entries that match the filters. Return the entries that match each filter.

        Raises:
            KafkaError: POLICY_VIOLATION (too many at once), KAFKA_STORAGE_ERROR. Then nothing has changed.
        """
        time_slice = TimeSlice()
        async with self._cluster.change_lock:
            found, gone = await self._matching_entries(filters, time_slice)
            if gone:
                keys = await time_slice.map(lambda acl: (str(acl), None), gone)
                with trio.CancelScope(shield=True):
                    await self._write_entries(dict(keys))
                    for permission in Permission.ALLOW, Permission.DENY:
                        async for acl in time_slice.each(gone):
                            if acl.permission is permission:
                                self._authorizer.remove(acl)
                                self._chars -= _chars(acl)
        return found

    async def matching(self, wanted: AclFilter, time_slice: TimeSlice) -> list[Acl]:
        """Return the entries that match a filter, as they are at one moment."""
        found = []
        async for acl in time_slice.each(wanted.candidates(self._authorizer.index)):
            if wanted.matches(acl):
                found.append(acl)
        return found

    async def _matching_entries(
        self, filters: Sequence[AclFilter], time_slice: TimeSlice
    ) -> tuple[list[list[Acl]], dict[Acl, None]]:
        """Return the entries that match each filter, and all of these together, in one pass over the entries."""
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
                # Each filter's answer has all of its entries, also if another filter matches the same.
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

    async def _write_entries(self, entries: Mapping[str, Mapping[str, Any] | None]) -> None:
        await self._cluster.write(self._cluster.catalog.put_entries, SECTION, entries)


def _too_many() -> KafkaError:
    text = f"Cannot remove more than {CHANGED_MAX} acls in a single delete operation."
    return KafkaError(ErrorCode.POLICY_VIOLATION, text)


def _chars(acl: Acl) -> int:
    return len(acl.name) + len(acl.principal) + len(acl.host)
