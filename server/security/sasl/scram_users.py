"""SCRAM users: salted credentials by user and mechanism, as in the catalog's section `scram_users`."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ....protocol.scram import HASHES, ITERATIONS_MAX, ITERATIONS_MIN, ScramCredential, credential_of, digest, salted

if TYPE_CHECKING:
    from ...config.sasl.users import User

SCRAM_USERS = "scram_users"
_OF_START = "of_start"
"""Key in a credential's catalog entry: the credential comes from a start's options, and is deleted by a start without
this user.
"""
_RANDOM_BYTES = 32

Credentials = Mapping[str, ScramCredential]
"""Credentials of one user, by mechanism."""
Facts = dict[str, dict[str, Any]]


class ScramUsers:
    """SCRAM users of one broker; `services.changes` writes changes."""

    def __init__(self) -> None:
        self._users: dict[str, Credentials] = {}
        self._of_start: set[tuple[str, str]] = set()
        """(user, mechanism) of the credentials that come from the start's options and were not changed since."""

    def load(self, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Load the entries of the catalog; return a line for each user whose entry is invalid."""
        problems = []
        for user, facts in entries.items():
            try:
                self._users[user] = {mechanism: _credential(mechanism, each) for mechanism, each in facts.items()}
                self._of_start |= {(user, mechanism) for mechanism, each in facts.items() if each.get(_OF_START)}
            except (KeyError, TypeError, ValueError, AttributeError):
                problems.append(f"stored SCRAM credentials of user {user!r} ignored: not supported by this version")
        return problems

    def credentials_of(self, user: str) -> Credentials:
        """Return the credentials of a user; empty if the user does not exist."""
        return self._users.get(user, {})

    def names(self) -> Iterator[str]:
        """Return the names of all users."""
        return iter(self._users)

    def __len__(self) -> int:
        return len(self._users)

    def begin_with(self, users: Iterable[User], rng: random.Random) -> dict[str, Facts | None]:
        """Add the users of a start, and delete those that an earlier start added and this one does not.

        Takes milliseconds for each: for a worker thread.

        Returns:
            The changed entries of the catalog, None for deleted users.
        """
        told = {(user.name, mechanism): user for user in users for mechanism in user.mechanisms if mechanism in HASHES}
        names = {name for name, _ in (*told, *self._of_start)}
        before = {name: self.facts(name, self.credentials_of(name)) for name in names}
        for name, mechanism in self._of_start - told.keys():
            self._users[name] = {other: each for other, each in self.credentials_of(name).items() if other != mechanism}
        for (name, mechanism), user in told.items():
            present = self.credentials_of(name)
            self._users[name] = {**present, mechanism: _renewed(present.get(mechanism), mechanism, user.password, rng)}
        self._of_start = {*told}
        after = {name: self.facts(name, self.credentials_of(name)) for name in names}
        for name in names:
            if not self._users[name]:
                del self._users[name]
        return {name: facts or None for name, facts in after.items() if facts != before[name]}

    def facts(self, user: str, credentials: Credentials) -> Facts:
        """Return the catalog entry for a user that will have these credentials."""
        found, present = facts_of(credentials), self.credentials_of(user)
        for mechanism, each in credentials.items():
            if (user, mechanism) in self._of_start and each is present.get(mechanism):
                found[mechanism][_OF_START] = True
        return found

    def put(self, user: str, credentials: Credentials) -> None:
        """Replace the credentials of a user; a user without any is deleted."""
        for mechanism, each in self.credentials_of(user).items():
            if credentials.get(mechanism) is not each:
                self._of_start.discard((user, mechanism))
        if credentials:
            self._users[user] = credentials
        else:
            self._users.pop(user, None)


def _renewed(old: ScramCredential | None, mechanism: str, password: str, rng: random.Random) -> ScramCredential:
    """Return the credential of a password; `old` itself if it already is."""
    if old is not None and old == _make_credential(mechanism, password, old.salt, old.iterations):
        return old
    return _make_credential(mechanism, password, salt_from(rng.randbytes(_RANDOM_BYTES)), ITERATIONS_MIN)


def salt_from(random_bytes: bytes) -> bytes:
    """Return a salt as Kafka's tools make them, 26 characters.

    Users that do not exist get such salts also, which must not look different.
    """
    return b64encode(random_bytes).translate(None, b"+/=").lower()[:26]


def _make_credential(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    return credential_of(mechanism, salted(mechanism, password, salt, iterations), salt, iterations)


def facts_of(credentials: Credentials) -> Facts:
    """Return credentials in the catalog's form."""
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
