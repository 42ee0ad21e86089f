"""Public keys that sign tokens (RFC 7517), from a file or over HTTP.

They are read at the start, and refreshed in the background.

Logins use the present keys. A token that names another key is refused, and triggers a fetch for the next login.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import unquote, urlsplit

import trio

from ....storage.topics.options import ConfigError
from ...config.sasl.oauth import URL, OauthConfig
from ...runtime.clock import Clock
from .fetching import FETCH_BYTES_MAX, fetched

log = logging.getLogger("ottla.sasl")

_FAMILIES = {"RS": ("RSA", None), "PS": ("RSA", None), "Ed": ("OKP", None)}
_CURVES = {"ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"), "ES512": ("EC", "P-521")}
_PUBLIC = ("RSA", "EC", "OKP")
UNKNOWN_KEY_MS = 10_000
"""Minimum interval between fetches that are triggered by unknown keys: any client may name one."""
RSA_BITS_MIN = 2048
"""Minimum size of an RSA key. Shorter keys can be broken by an attacker; Apache Kafka refuses them also."""
RETRY_MS_MIN = 100
"""Minimum interval between retries, however short the configured back-off: a failing server must not keep the broker busy."""

KEPT_MAX = 500
CHARS_MAX = 4_096
"""Maximum length of a remembered token: all of them together take two megabytes at most."""


@dataclass(frozen=True, slots=True)
class ProvedToken:
    """Header of a verified token, the key that verified its signature, and the token's content."""

    key_id: str | None
    algorithm: str
    key: Any
    content: bytes


class ProvedTokens:
    """The last tokens whose signatures were valid, without the tokens themselves.

    A client sends the same token on each of its connections, until it has expired. Only the signature's check is saved:
    the caller checks each time whether the key is still valid, and what the token contains.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[bytes, ProvedToken] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, text: str) -> ProvedToken | None:
        """Return the verified token; None: its signature must be checked."""
        if len(text) > CHARS_MAX:
            return None
        digest = _digest(text)
        found = self._found.get(digest)
        if found is not None:
            self._found.move_to_end(digest)
        return found

    def put(self, text: str, found: ProvedToken) -> None:
        """Remember a token whose signature was valid."""
        if len(text) > CHARS_MAX:
            return
        digest = _digest(text)
        self._found[digest] = found
        self._found.move_to_end(digest)
        if len(self._found) > KEPT_MAX:
            self._found.popitem(last=False)

    def clear(self) -> None:
        """Forget all tokens because the keys have changed; each signature must be checked again."""
        self._found.clear()


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


@dataclass(frozen=True, slots=True)
class _Key:
    id: str | None
    type: str
    curve: str | None
    algorithm: str | None
    """The algorithm that the key is for; None: any that fits its type."""
    public: Any
    """Public key object of `cryptography`."""

    def fits(self, key_id: str | None, algorithm: str) -> bool:
        """Return whether this key may have signed a token with this key ID and algorithm."""
        kind, curve = _CURVES.get(algorithm) or _FAMILIES.get(algorithm[:2], ("", None))
        return self.type == kind and curve in (None, self.curve) and key_id in (None, self.id)


class Jwks:
    """Keys of one address. For the Trio thread, except `load`."""

    def __init__(self, config: OauthConfig, clock: Clock) -> None:
        assert config.url is not None
        self._config = config
        self._url = config.url
        self._clock = clock
        self.proved = ProvedTokens()
        """Tokens whose signatures were checked with the present keys."""
        self._keys: list[_Key] = []
        self._fetched_ms = -math.inf
        self._tried_ms = -math.inf
        """Time of the last attempt, in elapsed time."""
        self._failures = 0
        self._told = ""
        """Reason of the last failure."""
        self._wanted = trio.Event()
        """Set to fetch at once, before the next fetch is due."""
        self._path = unquote(urlsplit(self._url).path) if self._url.startswith("file:") else None
        self._stamp: tuple[int, int, int] | None = None
        """Stamp of the file from before it was read."""
        self._looking = trio.Lock()
        self._looks_begun = 0
        self._last_look = 0
        """Number of the last check of the file that was completed."""
        self._fetching = trio.Lock()
        self._threads = trio.CapacityLimiter(1)
        self._running = trio.CancelScope()

    def load(self) -> None:
        """Fetch the keys now, at a start. Blocks. ConfigError: they cannot be fetched."""
        self._stamp = None if self._path is None else _stamp(self._path)
        try:
            self._take(_read(self._config))
        except (OSError, ValueError) as error:
            raise ConfigError(f"Invalid value {self._url} for configuration {URL}: {error}") from None

    def begin_with(self, other: Jwks) -> None:
        """Use the keys of another instance until these are fetched, which is due now."""
        self._keys = other._keys

    async def run(self) -> None:
        """Fetch the keys whenever that is due, until `stop` or cancelled."""
        with self._running:
            while True:
                self._wanted = trio.Event()
                await self._clock.sleep_until_or(self._due_ms(), self._wanted)
                with self._clock.at_work():
                    await self._refresh()

    def stop(self) -> None:
        """Stop fetching the keys: only clients that have already begun to log in still use them."""
        self._running.cancel()

    async def key(self, key_id: str | None, algorithm: str) -> Any:
        """Return the key of this ID that fits an algorithm; without an ID the first that fits. None: no such key.

        The call never waits for a server, only for a check of a file.
        """
        if self._path is not None:
            await self._look_at_file(self._path)
        found = self._find(key_id, algorithm)
        if found is None and self._path is None and self._clock.elapsed_ms() - self._tried_ms >= UNKNOWN_KEY_MS:
            self._wanted.set()
        return found

    async def _look_at_file(self, path: str) -> None:
        """Read the file again if it has changed: a key that was removed from it must no longer be valid.

        Concurrent callers share a check that begins after their calls.
        """
        begun = self._looks_begun
        async with self._looking:
            if self._last_look > begun:
                return
            self._looks_begun += 1
            stamp = await trio.to_thread.run_sync(_stamp, path, limiter=self._threads, abandon_on_cancel=True)
            before = self._stamp
            if stamp not in (None, before):
                self._stamp = stamp
                try:
                    await self._refresh()
                except trio.Cancelled:  # This client's time is over, but the next client must find the new file.
                    self._stamp = before
                    raise
            self._last_look = self._looks_begun

    def _find(self, key_id: str | None, algorithm: str) -> Any:
        fitting = [key for key in self._keys if key.fits(key_id, algorithm)]
        meant = [key for key in fitting if key.algorithm in (None, algorithm)]
        return next((key.public for key in meant or fitting), None)

    def _due_ms(self) -> int:
        """Return when the next fetch is due, by elapsed time; now if keys were never fetched."""
        if self._failures:
            backoff_ms = min(self._config.backoff_ms << min(self._failures - 1, 30), self._config.backoff_max_ms)
            return int(self._tried_ms) + max(backoff_ms, RETRY_MS_MIN)
        if self._fetched_ms == -math.inf:
            return self._clock.elapsed_ms()
        return int(self._fetched_ms) + self._config.refresh_ms

    async def _refresh(self) -> None:
        tried_ms = self._tried_ms
        async with self._fetching:
            if self._tried_ms != tried_ms:
                return  # another task has just tried
            self._tried_ms = self._clock.elapsed_ms()
            try:
                found = await trio.to_thread.run_sync(
                    _read, self._config, limiter=self._threads, abandon_on_cancel=True
                )
                self._take(found)
            except (OSError, ValueError) as error:
                self._failed(str(error))
            except Exception as error:
                log.debug("keys of %s", self._url, exc_info=True)
                self._failed(type(error).__name__)
            else:
                if self._failures:
                    log.info("%s: key set available again", self._url)
                self._failures, self._told = 0, ""

    def _failed(self, why: str) -> None:
        self._failures += 1
        if why != self._told:  # logged once: it is tried again every few seconds
            log.warning("%s: cannot load the key set, keeping the current keys: %s", self._url, why)
        self._told = why

    def _take(self, keys: list[_Key]) -> None:
        if not keys:
            log.warning("%s: key set contains no signing keys; OAUTHBEARER logins will fail", self._url)
        self._keys = keys
        self.proved.clear()
        self._fetched_ms = self._clock.elapsed_ms()


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Return a stamp that changes with the file; None if the file does not exist. Blocks."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(config: OauthConfig) -> list[_Key]:
    """Read the keys that sign tokens.

    Blocks: a response may have thousands, each of which takes a hundredth of a millisecond or more.

    Raises:
        OSError, ValueError: The keys cannot be fetched.
    """
    import jwt

    rows = _document(config).get("keys")
    if not isinstance(rows, list):
        raise ValueError("not a JSON Web Key Set: member keys is missing or not a list")  # noqa: TRY004 -- of what was fetched
    keys: list[_Key] = []
    for row in rows:
        if not isinstance(row, dict) or row.get("kty") not in _PUBLIC or not _is_to_verify(row):
            continue
        try:
            key = jwt.PyJWK(row).key
            # Private keys do not belong there, but their public halves are valid.
            public = key.public_key() if hasattr(key, "public_key") else key
        except Exception:  # noqa: BLE001, S112 -- malformed, or of an unknown kind: the libraries raise many types
            continue
        if row["kty"] == "RSA" and public.key_size < RSA_BITS_MIN:
            continue
        name = row.get("kid")
        if name is None or isinstance(name, str):
            keys.append(_Key(name, row["kty"], row.get("crv"), row.get("alg"), public))
    return keys


def _is_to_verify(row: dict[str, Any]) -> bool:
    operations = row.get("key_ops")
    may_verify = operations is None or (isinstance(operations, list) and "verify" in operations)
    return may_verify and row.get("use", "sig") == "sig"


def _document(config: OauthConfig) -> dict[str, Any]:
    """Fetch the JSON document. Blocks. Raises OSError, ValueError."""
    url = config.url
    assert url is not None
    if url.startswith("file:"):
        with open(unquote(urlsplit(url).path), "rb") as file:
            data = file.read(FETCH_BYTES_MAX + 1)
    else:
        data = fetched(url, dict(config.tls))
    if len(data) > FETCH_BYTES_MAX:
        raise ValueError(f"larger than {FETCH_BYTES_MAX} bytes")
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not valid JSON ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON Web Key Set: not a JSON object")  # noqa: TRY004 -- of what was fetched
    return found
