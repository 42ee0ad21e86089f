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
_OF_START = "of_start"
"""Beside a credential in the catalog: it is there because a start was told of the user, and goes with one that is not."""
_RANDOM_BYTES = 32

Credentials = Mapping[str, ScramCredential]
"""Of one user, by mechanism."""
Facts = dict[str, dict[str, Any]]


class ScramUsers:
    """Those of one broker; `services.changes` writes what changes."""

    def __init__(self) -> None:
        self._users: dict[str, Credentials] = {}
        self._of_start: set[tuple[str, str]] = set()
        """Users and mechanisms that the start was told of, and nobody has set since."""

    def load(self, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Take what the catalog says; returns a line on each user of whom that makes no sense."""
        problems = []
        for user, facts in entries.items():
            try:
                self._users[user] = {mechanism: _credential(mechanism, each) for mechanism, each in facts.items()}
                self._of_start |= {(user, mechanism) for mechanism, each in facts.items() if each.get(_OF_START)}
            except (KeyError, TypeError, ValueError, AttributeError):
                problems.append(f"stored SCRAM credentials of user {user!r} ignored: not supported by this version")
        return problems

    def of(self, user: str) -> Credentials:
        """Those of a user; none if there is no such user."""
        return self._users.get(user, {})

    def names(self) -> Iterator[str]:
        """All users."""
        return iter(self._users)

    def __len__(self) -> int:
        return len(self._users)

    def begin_with(self, users: Iterable[User], rng: random.Random) -> dict[str, Facts | None]:
        """Have these users, and none any more whom an earlier start was told of and this one is not. Takes milliseconds for
        each: for a worker thread.

        Returns:
            The entries of the catalog that are others now, None for users that are gone.
        """
        told = {(user.name, mechanism): user for user in users for mechanism in user.mechanisms if mechanism in HASHES}
        names = {name for name, _ in (*told, *self._of_start)}
        before = {name: self.facts(name, self.of(name)) for name in names}
        for name, mechanism in self._of_start - told.keys():
            self._users[name] = {other: each for other, each in self.of(name).items() if other != mechanism}
        for (name, mechanism), user in told.items():
            present = self.of(name)
            self._users[name] = {**present, mechanism: _renewed(present.get(mechanism), mechanism, user.password, rng)}
        self._of_start = {*told}
        after = {name: self.facts(name, self.of(name)) for name in names}
        for name in names:
            if not self._users[name]:
                del self._users[name]
        return {name: facts or None for name, facts in after.items() if facts != before[name]}

    def facts(self, user: str, credentials: Credentials) -> Facts:
        """As the catalog is to have them, for a user that has these from now on."""
        found, present = facts_of(credentials), self.of(user)
        for mechanism, each in credentials.items():
            if (user, mechanism) in self._of_start and each is present.get(mechanism):
                found[mechanism][_OF_START] = True
        return found

    def put(self, user: str, credentials: Credentials) -> None:
        """Replace the credentials of a user; one without any is gone."""
        for mechanism, each in self.of(user).items():
            if credentials.get(mechanism) is not each:
                self._of_start.discard((user, mechanism))
        if credentials:
            self._users[user] = credentials
        else:
            self._users.pop(user, None)


def _renewed(old: ScramCredential | None, mechanism: str, password: str, rng: random.Random) -> ScramCredential:
    """That of a password; one that is of it already stays as it is."""
    if old is not None and old == _made(mechanism, password, old.salt, old.iterations):
        return old
    return _made(mechanism, password, salt_from(rng.randbytes(_RANDOM_BYTES)), ITERATIONS_MIN)


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
