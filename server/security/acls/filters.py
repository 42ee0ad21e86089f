"""Filters on access control entries: Apache Kafka's AclBindingFilter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from ...runtime.time_slices import TimeSlice
from .acl import ANYTHING, Acl
from .index import AclIndex, Pattern
from .kinds import AclOperation, PatternType, Permission, ResourceType


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Filter on entries. A text of None matches any text, a kind of ANY any kind; UNKNOWN matches none.

    The pattern MATCH matches the entries that apply to the resource `name`: by its name, a prefix of it, or `*`.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter matches this entry."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.pattern in (PatternType.ANY, PatternType.MATCH, acl.pattern)
            and (self.name is None or self._matches_name(acl))
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    @property
    def unknown(self) -> str | None:
        """The half of the filter, by Apache Kafka's name, that has a kind of UNKNOWN; None if neither has."""
        if ResourceType.UNKNOWN is self.resource_type or PatternType.UNKNOWN is self.pattern:
            return "patternFilter"
        return (
            "entryFilter" if AclOperation.UNKNOWN is self.operation or Permission.UNKNOWN is self.permission else None
        )

    def candidates(self, index: AclIndex) -> Iterable[Acl]:
        """Return entries that include all matching ones, as they are now. They are mostly few if the filter has a name."""
        if self.name is None:
            return index.all()
        kinds = list(ResourceType)[2:] if self.resource_type is ResourceType.ANY else [self.resource_type]
        return chain.from_iterable([index.about(kind, self.name) for kind in kinds])

    def _matches_name(self, acl: Acl) -> bool:
        assert self.name is not None
        if self.pattern is not PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, ANYTHING)


_Fields: TypeAlias = tuple[str, ...]
_Values: TypeAlias = tuple[object, ...]


class ManyFilters:
    """Filters, numbered in the order of `add`, over the entries of `index`, which must not change during the use.

    One pass over the entries finds the matches of thousands of filters: the work grows with the sum of both, not with
    their product. Filters on the same fields are looked up together, by their values. A filter on a name and a kind of
    pattern becomes one on the patterns of present entries.
    """

    def __init__(self, index: AclIndex) -> None:
        self._index = index
        self._numbers: defaultdict[_Fields, defaultdict[_Values, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._patterns: dict[tuple[ResourceType, Pattern], None] = {}
        self._is_for_all = False
        self._count = 0
        self.size = 0
        """Amount of work: the number of filters, plus for each filter with a name the number of matching patterns."""

    def add(self, wanted: AclFilter) -> None:
        number, self._count = self._count, self._count + 1
        self.size += 1
        of_all: dict[str, object | None] = {"principal": wanted.principal, "host": wanted.host}
        if wanted.operation is not AclOperation.ANY:
            of_all["operation"] = wanted.operation
        if wanted.permission is not Permission.ANY:
            of_all["permission"] = wanted.permission
        asked: dict[str, object] = {field: value for field, value in of_all.items() if value is not None}
        if wanted.name is None:
            self._is_for_all = True
            if wanted.resource_type is not ResourceType.ANY:
                asked["resource_type"] = wanted.resource_type
            if wanted.pattern not in (PatternType.ANY, PatternType.MATCH):
                asked["pattern"] = wanted.pattern
            self._look_for(asked, number)
            return
        kinds = list(ResourceType)[2:] if wanted.resource_type is ResourceType.ANY else [wanted.resource_type]
        for kind in kinds:
            for pattern in self._index.patterns(kind, wanted.pattern, wanted.name):
                self._patterns[kind, pattern] = None
                self._look_for(asked | {"resource_type": kind, "pattern": pattern[0], "name": pattern[1]}, number)
                self.size += 1

    def candidates(self) -> Iterable[Acl]:
        """Return entries that include all that the filters match, each once."""
        if self._is_for_all:
            return self._index.all()
        return chain.from_iterable(self._index.entries_of(kind, pattern) for kind, pattern in self._patterns)

    def meaning(self, acl: Acl) -> Iterator[Sequence[int]]:
        """Return the numbers of the filters that match this entry, each once; filters on the same values together."""
        for fields, numbers in self._numbers.items():
            found = numbers.get(tuple([getattr(acl, field) for field in fields]))
            if found is not None:
                yield found

    async def clear(self, time_slice: TimeSlice) -> None:
        """Delete all filters, in time slices: deleting hundreds of thousands of values at once would block the thread."""
        for numbers in self._numbers.values():
            await time_slice.empty(numbers)
        await time_slice.empty(self._patterns)

    def _look_for(self, asked: dict[str, object], number: int) -> None:
        self._numbers[tuple(asked)][tuple(asked.values())].append(number)
