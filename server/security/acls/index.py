"""Index of all entries for decisions: bits of operations by pattern, principal and host.

A decision over a hundred thousand entries looks into a few dicts, and a change of one entry changes a few bits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from .acl import ANYTHING, EVERYBODY, Acl
from .kinds import AclOperation, PatternType, Permission, ResourceType
from .networks import Networks

Pattern: TypeAlias = tuple[PatternType, str]
Who: TypeAlias = tuple[str, str]
"""Principal and host, each as in the entry."""
Bits: TypeAlias = tuple[int, int]
"""Bits of the denied and of the allowed operations."""

_NONE: Bits = (0, 0)

ALL_BIT = 1 << AclOperation.ALL

_TO_DESCRIBE = (AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
_TO_DESCRIBE_CONFIGS = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
_IMPLIED_BY = {AclOperation.DESCRIBE: _TO_DESCRIBE, AclOperation.DESCRIBE_CONFIGS: _TO_DESCRIBE_CONFIGS}

ALLOWING = {
    operation: ALL_BIT | sum(1 << each for each in _IMPLIED_BY.get(operation, (operation,)))
    for operation in AclOperation
}
"""Bits by operation: the operations that imply it when they are allowed."""

DENYING = {operation: ALL_BIT | 1 << operation for operation in AclOperation}
"""Bits by operation: the operations that deny it when they are denied. Denying an operation implies nothing else."""


class AclIndex:
    """All present entries. Adding a present entry or removing an absent one changes nothing."""

    def __init__(self) -> None:
        self._acls: dict[Acl, None] = {}
        self._rules: dict[tuple[ResourceType, Pattern], dict[Who, Bits]] = {}
        self._prefix_chars: defaultdict[ResourceType, Counter[int]] = defaultdict(Counter)
        """Number of prefix patterns by the prefix's length in characters."""
        self._networks = Networks()
        self._names: dict[tuple[ResourceType, Who, AclOperation, Permission], dict[PatternType, set[str]]] = {}

    def __len__(self) -> int:
        return len(self._acls)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._acls

    def all(self) -> list[Acl]:
        """Return the present entries in the order in which they were added."""
        return list(self._acls)

    def add(self, acl: Acl) -> None:
        if acl in self._acls:
            return
        self._acls[acl] = None
        self._networks.add(acl.host)
        key = acl.resource_type, (acl.pattern, acl.name)
        rules = self._rules.get(key)
        if rules is None:
            rules = self._rules[key] = {}
            if acl.pattern is PatternType.PREFIXED:
                self._prefix_chars[acl.resource_type][len(acl.name)] += 1
        who, bit = (acl.principal, acl.host), 1 << acl.operation
        denied, allowed = rules.get(who, _NONE)
        rules[who] = (denied, allowed | bit) if acl.permission is Permission.ALLOW else (denied | bit, allowed)
        by_pattern = self._names.setdefault(_names_key(acl), {PatternType.LITERAL: set(), PatternType.PREFIXED: set()})
        by_pattern[acl.pattern].add(acl.name)

    def remove(self, acl: Acl) -> None:
        if acl not in self._acls:
            return
        del self._acls[acl]
        self._networks.remove(acl.host)
        key, who = (acl.resource_type, (acl.pattern, acl.name)), (acl.principal, acl.host)
        rules, left = self._rules[key], ~(1 << acl.operation)
        denied, allowed = rules[who]
        rules[who] = (denied, allowed & left) if acl.permission is Permission.ALLOW else (denied & left, allowed)
        if rules[who] == _NONE:
            del rules[who]
        if not rules:
            del self._rules[key]
            if acl.pattern is PatternType.PREFIXED:
                lengths = self._prefix_chars[acl.resource_type]
                lengths[len(acl.name)] -= 1
                if not lengths[len(acl.name)]:
                    del lengths[len(acl.name)]
        by_pattern = self._names[_names_key(acl)]
        by_pattern[acl.pattern].discard(acl.name)
        if not any(by_pattern.values()):
            del self._names[_names_key(acl)]

    def rules_for(self, resource_type: ResourceType, name: str) -> Iterator[tuple[Pattern, Mapping[Who, Bits]]]:
        """Return the rules of each pattern that matches the resource `name`: literal ones first, then ever shorter prefixes."""
        patterns: list[Pattern] = [(PatternType.LITERAL, name)]
        if name != ANYTHING:
            patterns.append((PatternType.LITERAL, ANYTHING))
        lengths = self._prefix_chars.get(resource_type, ())
        patterns += [
            (PatternType.PREFIXED, name[:length]) for length in sorted(lengths, reverse=True) if length <= len(name)
        ]
        for pattern in patterns:
            rules = self._rules.get((resource_type, pattern))
            if rules is not None:
                yield pattern, rules

    def prefix_lengths(self, resource_type: ResourceType) -> list[int]:
        """Return the lengths in characters of all prefixes, in order."""
        return sorted(self._prefix_chars.get(resource_type, ()))

    def patterns(self, resource_type: ResourceType, pattern: PatternType, name: str) -> list[Pattern]:
        """Return the present patterns that a filter on this name matches.

        With MATCH these are those of `rules_for`, else those with exactly this name.
        """
        if pattern is PatternType.MATCH:
            return [each for each, _ in self.rules_for(resource_type, name)]
        kinds = (PatternType.LITERAL, PatternType.PREFIXED) if pattern is PatternType.ANY else (pattern,)
        return [(kind, name) for kind in kinds if (resource_type, (kind, name)) in self._rules]

    def entries_of(self, resource_type: ResourceType, pattern: Pattern) -> Iterator[Acl]:
        """Return the entries of this pattern, as they are at the call; each is made when the iterator reaches it."""
        return _entries(resource_type, [(pattern, dict(self._rules.get((resource_type, pattern), {})))])

    def about(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """Return the entries whose pattern matches the resource `name`, or has exactly this name, as they are at the call.

        Each is made when the iterator reaches it: a hundred thousand may have one name.
        """
        patterns = dict(self.rules_for(resource_type, name))
        own = PatternType.PREFIXED, name
        patterns.setdefault(own, self._rules.get((resource_type, own), {}))
        return _entries(resource_type, [(pattern, dict(rules)) for pattern, rules in patterns.items()])

    def applicable_principals(self, principal: str, host: str) -> tuple[Who, ...]:
        """Return every (principal, host) under which entries may apply to this principal at this address."""
        hosts = (host, ANYTHING, *self._networks.containing(host))
        return tuple({(one, where): None for one in (principal, EVERYBODY) for where in hosts})

    def names(
        self, resource_type: ResourceType, who: Collection[Who], operation: AclOperation, permission: Permission
    ) -> tuple[list[set[str]], list[set[str]]]:
        """Return literal names, and prefixes, in entries for this operation or ALL; nothing else is implied.

        Callers must not change them.
        """
        found = [
            self._names[key]
            for each in who
            for asked in (operation, AclOperation.ALL)
            if (key := (resource_type, each, asked, permission)) in self._names
        ]
        return [by[PatternType.LITERAL] for by in found], [by[PatternType.PREFIXED] for by in found]


_Snapshot: TypeAlias = tuple[Pattern, dict[Who, Bits]]


def _entries(resource_type: ResourceType, present: list[_Snapshot]) -> Iterator[Acl]:
    for (kind, name), rules in present:
        for (principal, host), (denied, allowed) in rules.items():
            for permission, bits in (Permission.DENY, denied), (Permission.ALLOW, allowed):
                while bits:
                    lowest = bits & -bits
                    operation = AclOperation(lowest.bit_length() - 1)
                    yield Acl(resource_type, name, kind, principal, host, operation, permission)
                    bits ^= lowest


def _names_key(acl: Acl) -> tuple[ResourceType, Who, AclOperation, Permission]:
    return acl.resource_type, (acl.principal, acl.host), acl.operation, acl.permission
