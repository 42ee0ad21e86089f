"""Creation, renewal and expiry of delegation tokens: they are written to the catalog, and applied to the table that logins use.

Times are those of the broker's clock. Durations that a client leaves out (0 or less) are `delegation.token.max.lifetime.ms` and
`delegation.token.expiry.time.ms`, which are also the upper bounds.
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
"""Maximum number of renewers of one token. Every client that has logged in may create tokens, and could fill disk and memory
without bounds."""

RENEWERS_CHARS_MAX = 16_384
RENEWERS_TOGETHER_MAX = 100_000
"""Maximum number of renewers of all tokens: one answer may contain them all."""

_INT64_MAX = 2**63 - 1


class TokenChanges:
    """Changes of one broker's delegation tokens, one at a time, on the Trio thread.

    Args:
        tokens: Table with the tokens of the catalog.
    """

    def __init__(self, cluster: Cluster, tokens: Tokens, live_config: LiveConfig, rng: random.Random) -> None:
        self.tokens = tokens
        self._cluster = cluster
        self._live_config = live_config
        self._rng = rng

    async def create(
        self, owner: Principal, requester: Principal, renewers: Collection[Principal], lifetime_ms: int, now_ms: int
    ) -> Token:
        """Create and return a new token.

        Raises:
            KafkaError: POLICY_VIOLATION (too many tokens or renewers), KAFKA_STORAGE_ERROR. Then no token was created.
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
            await self._write_token(token)
        return token

    async def renew(self, hmac: bytes, by: Principal, period_ms: int, now_ms: int) -> int:
        """Renew a token, so that it expires `period_ms` from now. Return the time of its expiry.

        Raises:
            KafkaError: DELEGATION_TOKEN_NOT_FOUND, _EXPIRED, _OWNER_MISMATCH, KAFKA_STORAGE_ERROR. Then nothing has changed.
        """
        longest_ms = self._live_config.current.delegation_token_expiry_time_ms
        async with self._cluster.change_lock:
            token = self._require_token(hmac)
            if token.is_over(now_ms):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            _check_is_of(token, by)
            period_ms = min(longest_ms, period_ms) if period_ms > 0 else longest_ms
            return await self._expire_at(token, _sum(now_ms, period_ms))

    async def expire(self, hmac: bytes, by: Principal, period_ms: int, now_ms: int) -> int:
        """Let a token expire `period_ms` from now; a negative period deletes it at once. Return the time of its expiry.

        Raises:
            KafkaError: as `renew`.
        """
        async with self._cluster.change_lock:
            token = self._require_token(hmac)
            _check_is_of(token, by)
            if period_ms < 0:
                await self._remove([token])
                return now_ms
            if token.is_over(now_ms):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            return await self._expire_at(token, _sum(now_ms, period_ms))

    async def sweep(self, now_ms: int) -> None:
        """Delete expired tokens. Raises KafkaError KAFKA_STORAGE_ERROR; the tokens then stay in the table, but cannot be used
        to log in."""
        time_slice = TimeSlice()
        async with self._cluster.change_lock:
            over = []
            async for token in time_slice.each(self.tokens.all()):
                if token.is_over(now_ms):
                    over.append(token)
            if over:
                await self._remove(over)

    def _require_token(self, hmac: bytes) -> Token:
        token = self.tokens.by_hmac(hmac)
        if token is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token

    async def _expire_at(self, token: Token, at_ms: int) -> int:
        changed = replace(token, expires_ms=min(token.max_ms, at_ms))
        await self._write_token(changed)
        return changed.expires_ms

    async def _write_token(self, token: Token) -> None:
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
