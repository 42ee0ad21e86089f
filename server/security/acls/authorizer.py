"""Decisions whether a principal at a host may do an operation on a resource. Apache Kafka's StandardAuthorizer.

Super users may do everything. Among the entries whose pattern, principal, host and operation match, one that denies is
stronger than all that allow. If none matches, the operation is denied. If no entry names the resource at all,
`allow.everyone.if.no.acl.found` decides.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import NamedTuple, TypeAlias

from ....storage.steps import Steps
from ...runtime.addresses import java_host
from ...runtime.log_rate_limit import LogRateLimiter
from ..principal import Principal
from .acl import ANYTHING, Acl, quoted
from .index import ALL_BIT, ALLOWING, DENYING, AclIndex, Pattern
from .kinds import AclOperation, Permission, ResourceType

log = logging.getLogger("ottla.authorizer")

MAX_CACHED = 10_000
"""Minimum number of cached decisions; at most twice as many are kept."""

MAX_CACHED_CHARS = 512
"""Maximum characters of a resource's name and of a principal's name in the cache. Decisions about longer ones are made
each time, so that clients cannot fill memory with them.
"""

_Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision on one operation, with its reason."""

    is_allowed: bool
    reason: str
    """SUPER_USER, DENIED_BY, ALLOWED_BY, NO_MATCH (some entry is for the resource, but none matches) or NO_ACL."""
    acl: Acl | None = None
    """The entry that decides, if one does."""


class _Refusal(NamedTuple):
    """Log line on a refusal, formatted only if it is logged: a request may cause a hundred thousand."""

    principal: Principal
    host: str
    operation: AclOperation
    resource_type: ResourceType
    name: str
    decision: Decision

    def __str__(self) -> str:
        who = quoted(str(self.principal)[:300])
        resource = quoted(f"{self.resource_type.name.lower()}:{self.name[:100]}")
        why = str(self.decision.acl or self.decision.reason)[:500]
        return f"{who} is not authorized to {self.operation.name} {resource} from {self.host}: {why}"


class Authorizer:
    """Access control entries, and decisions by them. For one thread.

    Args:
        super_users: Principals, `TYPE:NAME`, that may do everything.
        allow_if_no_acl: The decision if no entry is for the resource.
    """

    def __init__(self, super_users: Collection[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self.index = AclIndex()
        """Public for reading; changed by `add` and `remove`."""
        self._decided: dict[_Key, bool] = {}
        self._decided_before: dict[_Key, bool] = {}
        """Older generation of the cache, dropped next."""
        self._refusals = LogRateLimiter(log)
        self.generation = 0
        """Number of the present set of entries; each change increments it."""

    def load(self, entries: Mapping[str, Mapping[str, object]]) -> list[str]:
        """Load the entries of the catalog; return a line for each that this version refuses."""
        problems = []
        for key, facts in entries.items():
            try:
                self.index.add(Acl.from_facts(facts))
            except ValueError as error:
                problems.append(f"stored ACL {key!r} ignored: {error}")
        self._forget()
        return problems

    def add(self, acl: Acl) -> None:
        """Add an entry, in effect at once."""
        self.index.add(acl)
        self._forget()

    def remove(self, acl: Acl) -> None:
        """Remove an entry, in effect at once."""
        self.index.remove(acl)
        self._forget()

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        is_attempt: bool = True,
    ) -> bool:
        """Return whether the principal may do the operation.

        Args:
            host: The client's address.
            name: The resource's name, not a pattern; the resource need not exist.
            is_attempt: Whether the client has tried the operation: then a refusal is logged.
        """
        key: _Key = (principal, host, operation, resource_type, name)
        decided = self._decided.get(key)
        if decided is None:
            decide = self._logged
            if not is_attempt:
                # Cached under another key: a later attempt at what was refused here must still be logged.
                key, decide = (False, *key), self._unlogged
                decided = self._decided.get(key)
            if decided is None:
                decided = self._decided_before.get(key)
                if decided is None:
                    decided = decide(principal, host, operation, resource_type, name)
                if len(name) <= MAX_CACHED_CHARS:
                    self._remember(principal, key, decided)
        return decided

    def allows_any(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> Steps[bool]:
        """Return whether the principal may do the operation on at least one resource of this type, existing or not.

        Apache Kafka's authorizeByResourceType (KIP-679), in which no operation implies another. In steps, since every
        allowed name may have to be compared with the denied ones. The answer is that of the moment of the call; it is
        cached unless entries have changed since.
        """
        key = (principal, host, operation, resource_type)
        decided, generation = self._decided.get(key), self.generation
        if decided is None:
            decided = self._decided_before.get(key)
            if decided is None:
                decided = yield from self._decide_any(principal, host, operation, resource_type)
            if generation == self.generation:
                self._remember(principal, key, decided)
        return decided

    def allowed(
        self,
        principal: Principal,
        host: str,
        operations: Collection[AclOperation],
        resource_type: ResourceType,
        name: str,
    ) -> list[AclOperation]:
        """Return those of `operations` that the principal may do. This is not an attempt, so refusals are not logged."""
        if str(principal) in self._super_users:
            return list(operations)
        who = self.index.applicable_principals(str(principal), java_host(host))
        denied, allowed, has_rules = 0, 0, False
        for _, rules in self.index.rules_for(resource_type, name):
            has_rules = True
            for each in who:
                if each in rules:
                    denied |= rules[each][0]
                    allowed |= rules[each][1]
        if not has_rules:
            return list(operations) if self._allow_if_no_acl else []
        return [each for each in operations if allowed & ALLOWING[each] and not denied & DENYING[each]]

    def decide(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Decision:
        """Return the decision of `allows` with its reason, without the cache."""
        if str(principal) in self._super_users:
            return Decision(True, "SUPER_USER")
        who = self.index.applicable_principals(str(principal), java_host(host))
        denying, allowing = DENYING[operation], ALLOWING[operation]
        allowed_by: Acl | None = None
        has_rules = False
        for pattern, rules in self.index.rules_for(resource_type, name):
            has_rules = True
            for each in who:
                bits = rules.get(each)
                if bits is None:
                    continue
                if bits[0] & denying:
                    return Decision(
                        False,
                        "DENIED_BY",
                        _acl(resource_type, pattern, each, bits[0] & denying, operation, Permission.DENY),
                    )
                if allowed_by is None and bits[1] & allowing:
                    allowed_by = _acl(resource_type, pattern, each, bits[1] & allowing, operation, Permission.ALLOW)
        if allowed_by is not None:
            return Decision(True, "ALLOWED_BY", allowed_by)
        return Decision(False, "NO_MATCH") if has_rules else Decision(self._allow_if_no_acl, "NO_ACL")

    def _logged(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        decision = self.decide(principal, host, operation, resource_type, name)
        if not decision.is_allowed:
            refusal = _Refusal(principal, host, operation, resource_type, name, decision)
            self._refusals.log(logging.INFO, "%s", refusal)
        return decision.is_allowed

    def _unlogged(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        return self.decide(principal, host, operation, resource_type, name).is_allowed

    def _decide_any(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> Steps[bool]:
        # As in Apache Kafka, with some resource's name: super users may do what is denied to others.
        if self.decide(principal, host, operation, resource_type, "hardcode").is_allowed:
            return True
        who = self.index.applicable_principals(str(principal), java_host(host))
        denied, denied_prefixes = self.index.names(resource_type, who, operation, Permission.DENY)
        literals, prefixes = self.index.names(resource_type, who, operation, Permission.ALLOW)
        if any(ANYTHING in names for names in denied):
            return False
        if any(ANYTHING in names for names in literals):
            return True
        if any(prefixes) and not any(denied_prefixes):
            return True
        # Copied, since entries may change between the steps. Copying sets is quick; merging or comparing them is not.
        by_prefix, by_name = [*chain.from_iterable(prefixes)], [*chain.from_iterable(literals)]
        names_denied, beginnings = [each.copy() for each in denied], [each.copy() for each in denied_prefixes if each]
        lengths = self.index.prefix_lengths(resource_type) if beginnings else []
        for names, others in (by_prefix, []), (by_name, names_denied):
            for name in names:
                yield
                if not any(name in each for each in others) and not _begins_with_one(name, beginnings, lengths):
                    return True
        return False

    def _remember(self, principal: Principal, key: _Key, decided: bool) -> None:
        if len(principal.name) > MAX_CACHED_CHARS:
            return
        if len(self._decided) >= MAX_CACHED:
            self._decided_before, self._decided = self._decided, {}
        self._decided[key] = decided

    def _forget(self) -> None:
        self.generation += 1
        if self._decided or self._decided_before:
            self._decided, self._decided_before = {}, {}


def _begins_with_one(name: str, beginnings: Collection[set[str]], lengths: Iterable[int]) -> bool:
    """Return whether the name begins with one of these prefixes; `lengths`, in order, are the lengths that they may have."""
    fitting = takewhile(len(name).__ge__, lengths)
    return any(name[:length] in each for length in fitting for each in beginnings)


def _acl(
    resource_type: ResourceType,
    pattern: Pattern,
    who: tuple[str, str],
    bits: int,
    operation: AclOperation,
    permission: Permission,
) -> Acl:
    """Return the entry that `bits` stand for: that of the operation itself if it is among them, else the next best."""
    kind, name = pattern
    found = (
        operation
        if bits >> operation & 1
        else AclOperation.ALL
        if bits & ALL_BIT
        else AclOperation(bits.bit_length() - 1)
    )
    return Acl(resource_type, name, kind, *who, found, permission)
