"""The public keys that sign tokens (RFC 7517): from a file or over HTTP, kept, and fetched anew when that is due."""

from __future__ import annotations

import json
import logging
import math
import time
from typing import Any
from urllib.parse import unquote, urlsplit

import trio

from ....storage.topics.options import ConfigError
from ...config.sasl.oauth import URL, OauthConfig
from ...runtime.clock import Clock

log = logging.getLogger("ottla.sasl")

FETCH_S = 8.0
"""However slowly they come. A client that logs in is waited for a little longer."""
FETCH_BYTES_MAX = 1 << 20
_PUBLIC = ("RSA", "EC", "OKP")
UNKNOWN_KEY_MS = 10_000
"""A token by an unknown key has the keys fetched, at most so often: anybody may name one."""


class Jwks:
    """Those of one address. For the Trio thread, but `load`."""

    def __init__(self, config: OauthConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._keys: dict[str | None, Any] = {}
        """By key id, as `cryptography` has them."""
        self._fetched_ms = -math.inf
        self._tried_ms = -math.inf
        self._failures = 0
        self._fetching = trio.Lock()
        self._threads = trio.CapacityLimiter(1)

    def load(self) -> None:
        """Read a file now, at a start. Raises ConfigError: it cannot be read, or has no keys."""
        assert self._config.url is not None
        if self._config.url.startswith("file:"):
            try:
                self._take(_fetched(self._config.url))
            except (OSError, ValueError) as error:
                raise ConfigError(f"Invalid value {self._config.url} for configuration {URL}: {error}") from None

    async def key(self, key_id: str | None) -> Any:
        """The key of this id; without one the only key there is. None: there is no such key."""
        present_ms = self._clock.elapsed_ms()
        if self._is_due(present_ms) or (self._find(key_id) is None and present_ms - self._tried_ms >= UNKNOWN_KEY_MS):
            await self._refresh()
        return self._find(key_id)

    def _find(self, key_id: str | None) -> Any:
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _is_due(self, present_ms: int) -> bool:
        if self._failures:
            backoff_ms = min(self._config.backoff_ms << min(self._failures, 30), self._config.backoff_max_ms)
            return present_ms - self._tried_ms >= backoff_ms
        return present_ms - self._fetched_ms >= self._config.refresh_ms

    async def _refresh(self) -> None:
        tried_ms = self._tried_ms
        async with self._fetching:
            if self._tried_ms != tried_ms:
                return  # somebody else has just tried
            self._tried_ms = self._clock.elapsed_ms()
            try:
                assert self._config.url is not None
                found = await trio.to_thread.run_sync(
                    _fetched, self._config.url, limiter=self._threads, abandon_on_cancel=True
                )
                self._take(found)
                self._failures = 0
            except (OSError, ValueError) as error:
                self._failures += 1
                log.warning("keys of %s cannot be had: %s", self._config.url, error)

    def _take(self, document: dict[str, Any]) -> None:
        import jwt

        keys: dict[str | None, Any] = {}
        rows = document.get("keys")
        for row in rows if isinstance(rows, list) else ():
            if not isinstance(row, dict) or row.get("kty") not in _PUBLIC or row.get("use", "sig") != "sig":
                continue
            try:
                keys[row.get("kid")] = jwt.PyJWK(row).key
            except (jwt.PyJWTError, KeyError, TypeError, ValueError):
                continue  # malformed, or of a kind that nobody knows
        if not keys:
            raise ValueError("it has no keys that sign tokens")
        self._keys = keys
        self._fetched_ms = self._clock.elapsed_ms()


def _fetched(url: str) -> dict[str, Any]:
    """Blocks. Raises OSError, ValueError."""
    if url.startswith("file:"):
        with open(unquote(urlsplit(url).path), "rb") as file:
            data = file.read(FETCH_BYTES_MAX + 1)
    else:
        data = _answered(url)
    if len(data) > FETCH_BYTES_MAX:
        raise ValueError(f"it is larger than {FETCH_BYTES_MAX} bytes")
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("its JSON is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("it is no set of keys in JSON")  # noqa: TRY004 -- of what was fetched
    return found


def _answered(url: str) -> bytes:
    from http.client import HTTPException
    from urllib.request import urlopen

    due_s, data = time.monotonic() + FETCH_S, bytearray()
    try:
        with urlopen(url, timeout=FETCH_S) as answer:
            while len(data) <= FETCH_BYTES_MAX and (piece := answer.read1(FETCH_BYTES_MAX)):
                data += piece
                if time.monotonic() >= due_s:  # the limit of a socket is for each byte of it
                    raise ValueError(f"it has not come whole in {FETCH_S:g} s")
    except HTTPException as error:
        raise ValueError(f"its answer is no HTTP ({type(error).__name__})") from None
    return bytes(data)
