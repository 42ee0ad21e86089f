"""Whether there is an authorizer, and what it is told: `authorizer.class.name`, and the options that Apache Kafka hands
on to that class.

Those are no options of the broker: DescribeConfigs shows them as it shows any name that it does not know, and what clients
set of them at run time means nothing (Apache Kafka's StandardAuthorizer reads them once).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...storage.topics.options import ConfigError

CLASS_NAME = "authorizer.class.name"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUPER_USERS = "super.users"
ALLOW_IF_NO_ACL = "allow.everyone.if.no.acl.found"

HANDED_ON = frozenset({SUPER_USERS, ALLOW_IF_NO_ACL})
"""Options that mean something only where there is an authorizer."""


class Authorization(NamedTuple):
    """What the authorizer is told."""

    super_users: frozenset[str]
    allow_if_no_acl: bool


def authorization_of(class_name: str, texts: Mapping[str, str]) -> Authorization | None:
    """What the authorizer is told by the static `texts`; None: there is none.

    Raises:
        ConfigError: Another class than the one there is, a super user that is no principal, a boolean that is none.
    """
    if not class_name:
        return None
    if class_name != STANDARD:
        raise ConfigError(
            f"Invalid value {class_name} for configuration {CLASS_NAME}: Java classes are not supported; must be"
            f" {STANDARD}, or empty for no authorization"
        )
    users = [each.strip() for each in texts.get(SUPER_USERS, "").split(";")]
    for user in filter(None, users):
        if user.find(":") < 1:
            raise ConfigError(
                f"Invalid value {user} for configuration {SUPER_USERS}: must be TYPE:NAME, e.g. User:alice"
            )
    allow = texts.get(ALLOW_IF_NO_ACL, "false").strip().lower()
    if allow not in ("true", "false"):
        raise ConfigError(f"Invalid value {allow} for configuration {ALLOW_IF_NO_ACL}: must be true or false")
    return Authorization(frozenset(filter(None, users)), allow == "true")
