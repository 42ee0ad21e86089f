"""One access control entry, as a value, as text for people, and in the catalog's form.

User:alice allow READ topic:orders           exactly the topic orders
User:alice allow READ topic:orders-*         topics whose names begin with "orders-"
User:* deny ALL topic:* from 10.0.0.7        every topic, for every user at that address
User:alice allow READ "topic:a b*" literal   a literal name, with its blank and its star
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from typing import Any, Self, TypeVar

from ..principal import Principal
from .kinds import CLUSTER_NAME, AclOperation, PatternType, Permission, ResourceType
from .networks import check_host

ANYTHING = "*"
"""Wildcard: as a name, every resource; as a host, every address."""

EVERYBODY = "User:*"

MAX_TEXT_CHARS = 65_536
_ALIASES = {"transactionalid": ResourceType.TRANSACTIONAL_ID, "token": ResourceType.DELEGATION_TOKEN}

_Kind = TypeVar("_Kind", bound=IntEnum)


@dataclass(frozen=True, slots=True)
class Acl:
    """Access control entry: allows or denies a principal one operation on the matching resources.

    No field is UNKNOWN, ANY or MATCH.
    """

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: Permission

    def __str__(self) -> str:
        """Return the text that `parse` reads; different entries have different texts."""
        return text_of(self, self.operation.name)

    def facts(self) -> dict[str, str]:
        """Return the entry as the catalog stores it."""
        return {
            "resource_type": self.resource_type.name,
            "name": self.name,
            "pattern": self.pattern.name,
            "principal": self.principal,
            "host": self.host,
            "operation": self.operation.name,
            "permission": self.permission.name,
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Return the entry of `facts`. ValueError if they are not those of an entry, or of one that is refused."""
        try:
            found = cls(
                ResourceType[facts["resource_type"]],
                facts["name"],
                PatternType[facts["pattern"]],
                facts["principal"],
                facts["host"],
                AclOperation[facts["operation"]],
                Permission[facts["permission"]],
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"{error} is unknown") from None
        found.check()
        return found

    def check(self) -> None:
        """Raise ValueError unless an entry of this kind may be stored, with Apache Kafka's message where it has one."""
        if self.resource_type <= ResourceType.ANY:
            raise ValueError(f"Invalid resourceType {self.resource_type.name}")
        if self.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise ValueError(f"Invalid patternType {self.pattern.name}")
        if self.operation <= AclOperation.ANY:
            raise ValueError(f"Invalid operation {self.operation.name}")
        if self.permission not in (Permission.DENY, Permission.ALLOW):
            raise ValueError(f"Invalid permissionType {self.permission.name}")
        texts = (self.name, self.principal, self.host)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("name, principal and host must be strings")
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            raise ValueError("name, principal and host must be valid Unicode") from None
        if not self.name:
            raise ValueError("Invalid empty resource name")
        if ":" not in self.principal:
            raise ValueError(
                f"Could not parse principal from `{self.principal}` (no colon is present separating the principal type"
                " from the principal name)"
            )


def check_cluster_name(name: str) -> None:
    """Raise ValueError, with Apache Kafka's message, unless `name` is that of the one resource of type CLUSTER."""
    if name != CLUSTER_NAME:
        raise ValueError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")


def text_of(acl: Acl, operations: str) -> str:
    """Return an entry as text, with `operations` instead of its own operation."""
    star = ANYTHING if acl.pattern is PatternType.PREFIXED else ""
    resource = quoted(f"{acl.resource_type.name.lower()}:{acl.name}{star}")
    literal = acl.pattern is PatternType.LITERAL and acl.name != ANYTHING and acl.name.endswith(ANYTHING)
    parts = [quoted(acl.principal), acl.permission.name.lower(), operations, resource]
    parts += ["literal"] if literal else []
    return " ".join(parts + ([] if acl.host == ANYTHING else ["from", quoted(acl.host)]))


def parse(text: str) -> Iterator[Acl]:
    """Parse the entries of a line, one for each of its operations.

    `PRINCIPAL allow|deny OPERATION[,OPERATION…] TYPE:NAME [literal] [from HOST]`. A star at the end of NAME makes it a
    prefix, a star alone means all names, `literal` keeps the name as it is. `cluster` needs no name. A part with blanks
    is quoted as in JSON. Operations, types and permissions are read in any case, `-` for `_`.

    Raises:
        ValueError: Names the problem and what is expected.
    """
    words = _words(text)
    if len(words) < 4:
        raise ValueError(
            f"{text!r}: invalid ACL; expected PRINCIPAL allow|deny OPERATIONS TYPE:NAME [literal] [from HOST]"
        )
    who, permission, operations, resource, *rest = words
    Principal.parse(who)
    kind, name = _type_and_name(resource)
    pattern = PatternType.LITERAL
    if rest[:1] == ["literal"]:
        del rest[0]
    elif name != ANYTHING and name.endswith(ANYTHING):
        pattern, name = PatternType.PREFIXED, name[:-1]
    if kind is ResourceType.CLUSTER:
        check_cluster_name(name)
    host = ANYTHING
    if rest[:1] == ["from"] and len(rest) == 2:
        host = rest[1]
    elif rest:
        raise ValueError(f"{text!r}: unexpected {' '.join(rest)!r}; only literal and from HOST may follow the resource")
    may = kind_of(Permission, permission, "permission")
    for operation in operations.split(","):
        found = Acl(kind, name, pattern, who, host, kind_of(AclOperation, operation, "operation"), may)
        found.check()
        yield found


def parse_new(text: str) -> Iterator[Acl]:
    """Parse the entries of a line that will be added. ValueError as `parse`, and for a host that a new entry may not have."""
    for found in parse(text):
        check_host(found.host)
        yield found


def resource_of(text: str) -> tuple[ResourceType, str]:
    """Parse type and name of one resource, `TYPE:NAME`; `cluster` needs no name. ValueError if the text is invalid."""
    kind, name = _type_and_name(text)
    if not name:
        raise ValueError(f"{text!r}: invalid resource; expected TYPE:NAME, e.g. topic:orders")
    return kind, name


def _type_and_name(text: str) -> tuple[ResourceType, str]:
    kind_text, _, name = text.partition(":")
    kind = _ALIASES.get(kind_text.lower()) or kind_of(ResourceType, kind_text, "resource type")
    return kind, CLUSTER_NAME if kind is ResourceType.CLUSTER and not name else name


def kind_of(kinds: type[_Kind], text: str, what: str) -> _Kind:
    """Return the kind of this name, in any case.

    ValueError for UNKNOWN, ANY, MATCH and other names; it lists the valid ones.
    """
    there = [kind for kind in kinds if kind.name not in ("UNKNOWN", "ANY", "MATCH")]
    plain = text.strip().replace("-", "_").upper()
    for kind in there:
        if plain in (kind.name, kind.name.replace("_", "")):
            return kind
    names = [kind.name for kind in there]
    like = get_close_matches(plain[:100], names, 1)
    hint = f"; did you mean {like[0]}?" if like else ""
    raise ValueError(f"{text!r}: invalid {what}; expected one of: {', '.join(names)}{hint}")


def quoted(text: str) -> str:
    """Return a part of a line, in JSON quotes if it has blanks or characters that cannot be printed."""
    is_plain = re.fullmatch(r'[^\s"]+', text) and text.isprintable()
    return text if is_plain else json.dumps(text)


_WORD = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([^\s"]+))(?=\s|$)')


def _words(text: str) -> list[str]:
    if len(text) > MAX_TEXT_CHARS:
        raise ValueError(f"ACL too long ({len(text)} characters, limit {MAX_TEXT_CHARS})")
    words, at = [], 0
    text = text.strip()
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None:
            raise ValueError(f"{text!r}: invalid quotes at {text[at : at + 20]!r}")
        try:
            words.append(json.loads(match[1]) if match[1] else match[2])
        except ValueError:
            raise ValueError(f"{text!r}: {match[1]} is not a valid JSON string") from None
        at = match.end()
    return words
