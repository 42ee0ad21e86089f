"""Delegation tokens made, put off and taken away: into the catalog, and on to those who log in with them.

Times are those of the broker's clock; what is not told (0 or less) is `delegation.token.max.lifetime.ms` and
`delegation.token.expiry.time.ms`, which are the bounds, too.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.checkpoints import uuid_text
from ..config.live_config import LiveConfig
from ..runtime.time_slices import TimeSlice
from ..security.principal import Principal
from ..security.tokens import Token, Tokens
from .cluster import Cluster

SECTION = "delegation_tokens"

TOKENS_MAX = 10_000
RENEWERS_MAX = 1_000
"""Of one token. Whoever has logged in may ask for tokens of his own: without bounds he could fill disk and memory."""

RENEWERS_CHARS_MAX = 16_384
RENEWERS_TOGETHER_MAX = 100_000
"""Of all tokens: one answer may have them all."""

_INT64_MAX = 2**63 - 1


class TokenChanges:
    """Those of one broker. One change at a time, on the Trio thread.

    Args:
        tokens: Has what the catalog has.
    """

    def __init__(self, cluster: Cluster, tokens: Tokens, live_config: LiveConfig, rng: random.Random) -> None:
        self.tokens = tokens
        self._cluster = cluster
        self._live_config = live_config
        self._rng = rng

    async def create(
        self, owner: Principal, requester: Principal, renewers: Collection[Principal], lifetime_ms: int, now_ms: int
    ) -> Token:
        """A new token.

        Raises:
            KafkaError: POLICY_VIOLATION (too many tokens or renewers), KAFKA_STORAGE_ERROR; there is none then.
        """
        most = f"too many renewers (limit {RENEWERS_MAX} renewers with {RENEWERS_CHARS_MAX} characters)"
        if len(renewers) > RENEWERS_MAX or sum(len(str(each)) for each in (owner, *renewers)) > RENEWERS_CHARS_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, most)
        config = self._live_config.current
        longest_ms = config.delegation_token_max_lifetime_ms
        max_ms = _sum(now_ms, min(longest_ms, lifetime_ms) if lifetime_ms > 0 else longest_ms)
        expires_ms = min(max_ms, _sum(now_ms, config.delegation_token_expiry_time_ms))
        async with self._cluster.change_lock:
            if len(self.tokens) >= TOKENS_MAX:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, f"too many delegation tokens (limit {TOKENS_MAX})")
            together = sum(len(token.renewers) for token in self.tokens.all()) + len(renewers)
            if together > RENEWERS_TOGETHER_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"too many renewers in all tokens ({together}, limit {RENEWERS_TOGETHER_MAX})",
                )
            token_id = uuid_text(self._rng.randbytes(16))
            token = Token(token_id, owner, requester, tuple(renewers), now_ms, expires_ms, max_ms)
            await self._put(token)
        return token

    async def renew(self, hmac: bytes, by: Principal, period_ms: int, now_ms: int) -> int:
        """Put off the expiry of a token to `period_ms` from now; returns when it is.

        Raises:
            KafkaError: DELEGATION_TOKEN_NOT_FOUND, _EXPIRED, _OWNER_MISMATCH, KAFKA_STORAGE_ERROR; nothing has changed then.
        """
        longest_ms = self._live_config.current.delegation_token_expiry_time_ms
        async with self._cluster.change_lock:
            token = self._found(hmac)
            if token.is_over(now_ms):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            _check_is_of(token, by)
            period_ms = min(longest_ms, period_ms) if period_ms > 0 else longest_ms
            return await self._expire_at(token, _sum(now_ms, period_ms))

    async def expire(self, hmac: bytes, by: Principal, period_ms: int, now_ms: int) -> int:
        """Have a token expire `period_ms` from now, or (negative) take it away at once; returns when it expires.

        Raises:
            KafkaError: as `renew`.
        """
        async with self._cluster.change_lock:
            token = self._found(hmac)
            _check_is_of(token, by)
            if period_ms < 0:
                await self._remove([token])
                return now_ms
            if token.is_over(now_ms):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            return await self._expire_at(token, _sum(now_ms, period_ms))

    async def sweep(self, now_ms: int) -> None:
        """Take away those that have expired. KafkaError: KAFKA_STORAGE_ERROR; they stay, and log nobody in."""
        time_slice = TimeSlice()
        async with self._cluster.change_lock:
            over = []
            async for token in time_slice.each(self.tokens.all()):
                if token.is_over(now_ms):
                    over.append(token)
            if over:
                await self._remove(over)

    def _found(self, hmac: bytes) -> Token:
        token = self.tokens.by_hmac(hmac)
        if token is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token

    async def _expire_at(self, token: Token, at_ms: int) -> int:
        changed = replace(token, expires_ms=min(token.max_ms, at_ms))
        await self._put(changed)
        return changed.expires_ms

    async def _put(self, token: Token) -> None:
        with trio.CancelScope(shield=True):
            await self._cluster.write(self._cluster.catalog.put_entries, SECTION, {token.token_id: token.facts()})
            self.tokens.put(token)

    async def _remove(self, tokens: Collection[Token]) -> None:
        with trio.CancelScope(shield=True):
            gone = {token.token_id: None for token in tokens}
            await self._cluster.write(self._cluster.catalog.put_entries, SECTION, gone)
            time_slice = TimeSlice()
            async for token in time_slice.each(tokens):
                self.tokens.remove(token)


def _check_is_of(token: Token, principal: Principal) -> None:
    if not token.is_of(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _sum(now_ms: int, duration_ms: int) -> int:
    return min(_INT64_MAX, now_ms + duration_ms)
