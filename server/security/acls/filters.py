"""Which entries a request means: Apache Kafka's AclBindingFilter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from .acl import ANYTHING, Acl
from .index import AclIndex
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
