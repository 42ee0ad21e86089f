"""Which entries a request means: Apache Kafka's AclBindingFilter."""

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
    """None of a text stands for any, as ANY does of kinds; UNKNOWN stands for none.

    With the pattern MATCH the entries are meant that speak of the resource `name`: by its name, a prefix of it, or `*`.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether it means this entry."""
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
        """Which half of it, as Apache Kafka calls it, has a kind of UNKNOWN."""
        if ResourceType.UNKNOWN is self.resource_type or PatternType.UNKNOWN is self.pattern:
            return "patternFilter"
        return (
            "entryFilter" if AclOperation.UNKNOWN is self.operation or Permission.UNKNOWN is self.permission else None
        )

    def candidates(self, index: AclIndex) -> Iterable[Acl]:
        """Entries among which all are that it means, as they are now: mostly few where it says a name."""
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
    """Filters, numbered as they are added, over the entries of `index`, which must not change meanwhile.

    One pass over the entries says what thousands of filters mean: the work grows with their sum, not with their product. Filters
    that ask for the same fields are looked up together, by the values that they ask for; a name and its kind of pattern are asked
    for as the patterns of entries that there are.
    """

    def __init__(self, index: AclIndex) -> None:
        self._index = index
        self._numbers: defaultdict[_Fields, defaultdict[_Values, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._patterns: dict[tuple[ResourceType, Pattern], None] = {}
        self._is_for_all = False
        self._count = 0
        self.size = 0
        """How much there is to look for: filters, each as often as there are patterns of entries that it means."""

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
        """Entries among which all are that the filters mean, each once."""
        if self._is_for_all:
            return self._index.all()
        return chain.from_iterable(self._index.of(kind, pattern) for kind, pattern in self._patterns)

    def meaning(self, acl: Acl) -> Iterator[Sequence[int]]:
        """The numbers of the filters that mean this entry, each once; those together that ask for the same."""
        for fields, numbers in self._numbers.items():
            found = numbers.get(tuple([getattr(acl, field) for field in fields]))
            if found is not None:
                yield found

    async def clear(self, time_slice: TimeSlice) -> None:
        """Forget all filters, in turns: hundreds of thousands of values would go in one go."""
        for numbers in self._numbers.values():
            await time_slice.empty(numbers)
        await time_slice.empty(self._patterns)

    def _look_for(self, asked: dict[str, object], number: int) -> None:
        self._numbers[tuple(asked)][tuple(asked.values())].append(number)
