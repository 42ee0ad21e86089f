"""The public keys that sign tokens (RFC 7517): from a file or over HTTP, read at the start, and anew in the background.

Logins take the keys that there are; whose token names another one is refused, and has them fetched for the next.
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
"""A token by an unknown key has the keys of a server fetched, at most so often: anybody may name one."""
RSA_BITS_MIN = 2048
"""Shorter ones can be found out by whoever wants to sign; nor does Apache Kafka take them."""
RETRY_MS_MIN = 100
"""However short the back-off: a server that refuses is not to keep us busy."""

KEPT_MAX = 500
CHARS_MAX = 4_096
"""Of a token that is kept: all of them together take two megabytes at most."""


@dataclass(frozen=True, slots=True)
class ProvedToken:
    """What its header says, the very key that its signature was checked with, and what that is for."""

    key_id: str | None
    algorithm: str
    key: Any
    content: bytes


class ProvedTokens:
    """The last tokens whose signatures have been found good, without the tokens themselves.

    A client shows the same one on each of its connections, until it has expired. This spares the work alone: whether the key still
    counts, and what the token says, is for whoever asks, each time.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[bytes, ProvedToken] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, text: str) -> ProvedToken | None:
        """None: it has to be checked."""
        if len(text) > CHARS_MAX:
            return None
        digest = _digest(text)
        found = self._found.get(digest)
        if found is not None:
            self._found.move_to_end(digest)
        return found

    def put(self, text: str, found: ProvedToken) -> None:
        """Keep a token whose signature was found good."""
        if len(text) > CHARS_MAX:
            return
        digest = _digest(text)
        self._found[digest] = found
        self._found.move_to_end(digest)
        if len(self._found) > KEPT_MAX:
            self._found.popitem(last=False)

    def clear(self) -> None:
        """Keys are others: all are to be checked anew."""
        self._found.clear()


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


@dataclass(frozen=True, slots=True)
class _Key:
    id: str | None
    type: str
    curve: str | None
    algorithm: str | None
    """The one it is for; None: any that it fits."""
    public: Any
    """As `cryptography` has it."""

    def fits(self, key_id: str | None, algorithm: str) -> bool:
        """Whether a token that says this may be signed by it."""
        kind, curve = _CURVES.get(algorithm) or _FAMILIES.get(algorithm[:2], ("", None))
        return self.type == kind and curve in (None, self.curve) and key_id in (None, self.id)


class Jwks:
    """Those of one address. For the Trio thread, but `load`."""

    def __init__(self, config: OauthConfig, clock: Clock) -> None:
        assert config.url is not None
        self._config = config
        self._url = config.url
        self._clock = clock
        self.proved = ProvedTokens()
        """What has been checked with those there are."""
        self._keys: list[_Key] = []
        self._fetched_ms = -math.inf
        self._tried_ms = -math.inf
        """As those that follow, since the start."""
        self._failures = 0
        self._told = ""
        """Why it failed last."""
        self._wanted = trio.Event()
        """Set when it is not to be waited for until it is due."""
        self._path = unquote(urlsplit(self._url).path) if self._url.startswith("file:") else None
        self._stamp: tuple[int, int, int] | None = None
        """What the file looked like before it was read."""
        self._looking = trio.Lock()
        self._looks_begun = 0
        self._last_look = 0
        """The number of the last one that came to its end."""
        self._fetching = trio.Lock()
        self._threads = trio.CapacityLimiter(1)
        self._running = trio.CancelScope()

    def load(self) -> None:
        """Fetch them now, at a start. Blocks. Raises ConfigError: they cannot be had."""
        self._stamp = None if self._path is None else _stamp(self._path)
        try:
            self._take(_read(self._config))
        except (OSError, ValueError) as error:
            raise ConfigError(f"Invalid value {self._url} for configuration {URL}: {error}") from None

    def begin_with(self, other: Jwks) -> None:
        """Take the keys that another one has until they are fetched, which is due now."""
        self._keys = other._keys

    async def run(self) -> None:
        """Fetch them whenever that is due, until `stop` or cancelled."""
        with self._running:
            while True:
                self._wanted = trio.Event()
                await self._clock.sleep_until_or(self._due_ms(), self._wanted)
                with self._clock.at_work():
                    await self._refresh()

    def stop(self) -> None:
        """Fetch them no more: nobody asks for them from now on but who has begun to log in."""
        self._running.cancel()

    async def key(self, key_id: str | None, algorithm: str) -> Any:
        """The key of this id that fits an algorithm; without an id the first that does. None: there is no such key.

        Nobody waits for a server, only for a file to be looked at.
        """
        if self._path is not None:
            await self._look_at_file(self._path)
        found = self._find(key_id, algorithm)
        if found is None and self._path is None and self._clock.elapsed_ms() - self._tried_ms >= UNKNOWN_KEY_MS:
            self._wanted.set()
        return found

    async def _look_at_file(self, path: str) -> None:
        """Read it, if it is another one than before: a key that was taken out of it is to count no longer.

        Those who wait for the same thing share a look that begins after they have come.
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
                except trio.Cancelled:  # Its client had no more time, but the next one's is to be read by.
                    self._stamp = before
                    raise
            self._last_look = self._looks_begun

    def _find(self, key_id: str | None, algorithm: str) -> Any:
        fitting = [key for key in self._keys if key.fits(key_id, algorithm)]
        meant = [key for key in fitting if key.algorithm in (None, algorithm)]
        return next((key.public for key in meant or fitting), None)

    def _due_ms(self) -> int:
        """By elapsed time. Never fetched: now."""
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
                return  # somebody else has just tried
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
        if why != self._told:  # it is tried again every few seconds
            log.warning("%s: cannot load the key set, keeping the current keys: %s", self._url, why)
        self._told = why

    def _take(self, keys: list[_Key]) -> None:
        if not keys:
            log.warning("%s: key set contains no signing keys; OAUTHBEARER logins will fail", self._url)
        self._keys = keys
        self.proved.clear()
        self._fetched_ms = self._clock.elapsed_ms()


def _stamp(path: str) -> tuple[int, int, int] | None:
    """What tells a file from the same one after a change; None if there is none. Blocks."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(config: OauthConfig) -> list[_Key]:
    """Those that sign tokens. Blocks: thousands fit into what is fetched, each for a hundredth of a millisecond or more.

    Raises:
        OSError, ValueError: They cannot be had.
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
            # Private ones have no place there, but whoever has put them there means their public halves.
            public = key.public_key() if hasattr(key, "public_key") else key
        except Exception:  # noqa: BLE001, S112 -- malformed, or of a kind that nobody knows: the libraries say so in many ways
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
    """Blocks. Raises OSError, ValueError."""
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
