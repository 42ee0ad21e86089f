"""Who logs in by SCRAM: salted credentials by user and mechanism, as the catalog has them in its section `scram_users`."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ....protocol.scram import HASHES, ITERATIONS_MAX, ITERATIONS_MIN, ScramCredential, credential_of, digest, salted

if TYPE_CHECKING:
    from ...config.sasl.users import User

SCRAM_USERS = "scram_users"
_RANDOM_BYTES = 32

Credentials = Mapping[str, ScramCredential]
"""Of one user, by mechanism."""
Facts = dict[str, dict[str, Any]]


class ScramUsers:
    """Those of one broker; `services.scram_changes` writes what changes."""

    def __init__(self) -> None:
        self._users: dict[str, Credentials] = {}

    def load(self, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Take what the catalog says; returns a line on each user of whom that makes no sense."""
        problems = []
        for user, facts in entries.items():
            try:
                self._users[user] = {mechanism: _credential(mechanism, each) for mechanism, each in facts.items()}
            except (KeyError, TypeError, ValueError, AttributeError):
                problems.append(f"stored SCRAM credentials of user {user!r} ignored: this version does not take them")
        return problems

    def of(self, user: str) -> Credentials:
        """Those of a user; none if there is no such user."""
        return self._users.get(user, {})

    def names(self) -> Iterator[str]:
        """All users."""
        return iter(self._users)

    def __len__(self) -> int:
        return len(self._users)

    def missing(self, users: Iterable[User], rng: random.Random) -> dict[str, Credentials]:
        """The credentials of these users, as far as they are not there. Takes milliseconds for each: for a worker thread."""
        wanted: dict[str, Credentials] = {}
        for user in users:
            wanted[user.name] = _renewed(wanted.get(user.name, self.of(user.name)), user, rng)
        return {name: credentials for name, credentials in wanted.items() if credentials != self.of(name)}

    def put(self, changed: Mapping[str, Credentials]) -> None:
        """Replace the credentials of these users; who has none is gone."""
        for user, credentials in changed.items():
            if credentials:
                self._users[user] = credentials
            else:
                self._users.pop(user, None)


def _renewed(present: Credentials, user: User, rng: random.Random) -> Credentials:
    """The credentials of a user with that password; those that are of it already stay as they are."""
    found = dict(present)
    for mechanism in user.mechanisms:
        if mechanism not in HASHES:
            continue
        old = present.get(mechanism)
        if old is not None and old == _made(mechanism, user.password, old.salt, old.iterations):
            continue
        found[mechanism] = _made(mechanism, user.password, salt_from(rng.randbytes(_RANDOM_BYTES)), ITERATIONS_MIN)
    return found


def salt_from(random_bytes: bytes) -> bytes:
    """A salt as tools make them, 26 characters. Users that are not there have such ones, too: theirs must not look otherwise."""
    return b64encode(random_bytes).translate(None, b"+/=").lower()[:26]


def _made(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    return credential_of(mechanism, salted(mechanism, password, salt, iterations), salt, iterations)


def facts_of(credentials: Credentials) -> Facts:
    """As the catalog has them."""
    return {
        mechanism: {
            "iterations": each.iterations,
            "salt": b64encode(each.salt).decode(),
            "server_key": b64encode(each.server_key).decode(),
            "stored_key": b64encode(each.stored_key).decode(),
        }
        for mechanism, each in credentials.items()
    }


def _credential(mechanism: str, facts: Mapping[str, Any]) -> ScramCredential:
    salt, stored_key, server_key = (
        b64decode(facts[name], validate=True) for name in ("salt", "stored_key", "server_key")
    )
    iterations = facts["iterations"]
    size = len(digest(mechanism, b"")) if mechanism in HASHES else 0
    if type(iterations) is not int or not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ValueError(iterations)
    if len(stored_key) != size or len(server_key) != size:
        raise ValueError(mechanism)
    return ScramCredential(salt, stored_key, server_key, iterations)
