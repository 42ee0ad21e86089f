"""Delegation tokens: secrets with a limited lifetime by which a client logs in as their owner (KIP-48, KIP-373).

Clients log in with the token's ID as user, and its HMAC, in base64, as password. An HMAC is made from the ID with
`delegation.token.secret.key` (HMAC-SHA-512), and is never stored on disk: a change of the key changes the passwords of
all tokens.
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
    """One token: its owner, its requester, its renewers and its times. It contains no secret: that is made from its ID."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    """The last time at which the token is valid."""
    max_ms: int
    """Limit up to which its expiry can be extended."""

    def is_over(self, now_ms: int) -> bool:
        """Return whether the token has expired."""
        return self.max_ms < now_ms or self.expires_ms < now_ms

    def is_of(self, principal: Principal) -> bool:
        """Return whether the principal is its owner or one of its renewers."""
        return principal == self.owner or principal in self.renewers

    def facts(self) -> dict[str, Any]:
        """Return the token as the catalog stores it under its ID."""
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
        """Return the token of `facts`. ValueError if they are not those of a token."""
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
    return [principal.type, principal.name]  # As a pair: clients may name types that are empty, or contain colons.


def _principal(pair: Any) -> Principal:
    kind, name = pair
    if not isinstance(kind, str) or not isinstance(name, str):
        raise TypeError("a principal must consist of a type and a name")
    return Principal(kind, name)


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """Credential that a client needs to log in with a token (SCRAM with the extension `tokenauth=true`), and its principal."""

    principal: Principal
    """The owner, marked as logged in by a token."""
    password: str = field(repr=False)
    expires_ms: int
    """When the login expires, by the broker's clock (KIP-368)."""


class Tokens:
    """All tokens. For one thread; `cluster.token_changes` changes them."""

    def __init__(self, secret_key: str) -> None:
        self._secret_key = secret_key.encode()
        self._by_id: dict[str, Token] = {}
        self._ids: dict[bytes, str] = {}
        """Token IDs by HMAC."""

    def __len__(self) -> int:
        return len(self._by_id)

    def load(self, entries: Mapping[str, Mapping[str, object]]) -> list[str]:
        """Load the entries of the catalog; return a line for each that this version refuses."""
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
        """Return all tokens, including expired ones that are not deleted yet."""
        return list(self._by_id.values())

    def by_hmac(self, hmac_bytes: bytes) -> Token | None:
        """Return the token with this HMAC; None if unknown."""
        token_id = self._ids.get(bytes(hmac_bytes))
        return None if token_id is None else self._by_id[token_id]

    def hmac_of(self, token_id: str) -> bytes:
        """Return the secret of a token with this ID."""
        return hmac.digest(self._secret_key, token_id.encode(), hashlib.sha512)

    def login(self, token_id: str, now_ms: int) -> TokenLogin | None:
        """Return the login with a token; None if the ID is unknown or the token has expired."""
        token = self._by_id.get(token_id)
        if token is None or token.is_over(now_ms):
            return None
        password = base64.b64encode(self.hmac_of(token_id)).decode()
        return TokenLogin(replace(token.owner, is_by_token=True), password, min(token.expires_ms, token.max_ms))

    def put(self, token: Token) -> None:
        """Add or replace a token."""
        self._by_id[token.token_id] = token
        self._ids[self.hmac_of(token.token_id)] = token.token_id

    def remove(self, token: Token) -> None:
        """Delete a token."""
        del self._by_id[token.token_id]
        del self._ids[self.hmac_of(token.token_id)]
