"""Delegation tokens: secrets of limited life that log in in their owner's stead (KIP-48, KIP-373).

Clients log in with the token's id as user, and its HMAC, in base64, as password. An HMAC is made of the id with
`delegation.token.secret.key` (HMAC-SHA-512), and kept nowhere on disk: under another key all tokens have other passwords.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from .principal import Principal


@dataclass(frozen=True, slots=True)
class Token:
    """One token: whose it is, who asked for it, who may put off its expiry. It has no secret: that is made of its id."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    """It is good at this time still."""
    max_ms: int
    """No expiry is put off beyond it."""

    def is_over(self, now_ms: int) -> bool:
        """Whether it has expired."""
        return self.max_ms < now_ms or self.expires_ms < now_ms

    def is_of(self, principal: Principal) -> bool:
        """Whether it is its owner's, or he may put off its expiry."""
        return principal == self.owner or principal in self.renewers

    def facts(self) -> dict[str, Any]:
        """As the catalog keeps it, by its id."""
        return {
            "owner": _pair(self.owner),
            "requester": _pair(self.requester),
            "renewers": [_pair(each) for each in self.renewers],
            "issued_ms": self.issued_ms,
            "expires_ms": self.expires_ms,
            "max_ms": self.max_ms,
        }

    @classmethod
    def from_facts(cls, token_id: str, facts: Mapping[str, Any]) -> Self:
        """What `facts` are of. ValueError if they are of none."""
        try:
            times = [facts[name] for name in ("issued_ms", "expires_ms", "max_ms")]
            if not all(isinstance(time, int) for time in times):
                raise ValueError("times must be numbers")
            return cls(
                token_id,
                _principal(facts["owner"]),
                _principal(facts["requester"]),
                tuple(map(_principal, facts["renewers"])),
                *times,
            )
        except KeyError as error:
            raise ValueError(f"{error} is missing") from None
        except (TypeError, AttributeError) as error:
            raise ValueError(str(error)) from None


def _pair(principal: Principal) -> list[str]:
    return [principal.type, principal.name]  # Clients may name types that are empty, or have colons.


def _principal(pair: Any) -> Principal:
    kind, name = pair
    if not isinstance(kind, str) or not isinstance(name, str):
        raise TypeError("a principal must consist of a type and a name")
    return Principal(kind, name)


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """What a client must prove to log in with a token (SCRAM with the extension `tokenauth=true`), and who it is then."""

    principal: Principal
    """The owner, marked as logged in by a token."""
    password: str = field(repr=False)
    expires_ms: int
    """By the broker's clock: the login is good until then (KIP-368)."""


class Tokens:
    """The tokens there are. For one thread; `cluster.token_changes` changes them."""

    def __init__(self, secret_key: str) -> None:
        self._secret_key = secret_key.encode()
        self._by_id: dict[str, Token] = {}
        self._ids: dict[bytes, str] = {}
        """By HMAC."""

    def __len__(self) -> int:
        return len(self._by_id)

    def load(self, entries: Mapping[str, Mapping[str, object]]) -> list[str]:
        """Take over what the catalog has; returns a line on each entry that this version does not take."""
        problems = []
        for token_id, facts in entries.items():
            try:
                token = Token.from_facts(token_id, facts)
            except ValueError as error:
                problems.append(f"stored delegation token {token_id!r} ignored: {error}")
            else:
                self.put(token)
        return problems

    def all(self) -> list[Token]:
        """Those there are now, expired ones that nobody has taken away yet among them."""
        return list(self._by_id.values())

    def by_hmac(self, hmac_bytes: bytes) -> Token | None:
        """The token with this HMAC."""
        token_id = self._ids.get(bytes(hmac_bytes))
        return None if token_id is None else self._by_id[token_id]

    def hmac_of(self, token_id: str) -> bytes:
        """The secret of a token with this id."""
        return hmac.digest(self._secret_key, token_id.encode(), hashlib.sha512)

    def login(self, token_id: str, now_ms: int) -> TokenLogin | None:
        """What logs in with a token; None if there is none of this id, or it has expired."""
        token = self._by_id.get(token_id)
        if token is None or token.is_over(now_ms):
            return None
        password = base64.b64encode(self.hmac_of(token_id)).decode()
        return TokenLogin(replace(token.owner, is_by_token=True), password, min(token.expires_ms, token.max_ms))

    def put(self, token: Token) -> None:
        """Have this token, in the place of the one with its id."""
        self._by_id[token.token_id] = token
        self._ids[self.hmac_of(token.token_id)] = token.token_id

    def remove(self, token: Token) -> None:
        """Have this token no more."""
        del self._by_id[token.token_id]
        del self._ids[self.hmac_of(token.token_id)]
