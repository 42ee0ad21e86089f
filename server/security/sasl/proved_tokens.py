"""Tokens whose signatures have been found good: a client shows the same one on each of its connections, until it has expired.

That spares the work alone. Whether the key still counts, and what the token says, is for whoever asks, each time.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

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
    """The last ones, without the tokens themselves."""

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
        """Note a token that was proved."""
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
