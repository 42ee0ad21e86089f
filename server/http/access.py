"""Who may ask: whoever is on this machine, or whoever knows the token.

Without a token the listener is on a loopback address only, and a web page in somebody's browser cannot use it: requests with
an `Origin`, or with a `Host` that is no name of this machine (to which a page's own name may have been made to lead, "DNS
rebinding"), are refused. With a token it may be anywhere, under any name, and every call needs `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping

from ...storage.topics.options import ConfigError

TOKEN_CHARACTERS_MAX = 4096
_TOKEN = re.compile(r"[\x21-\x7e]+")


class Refused(Exception):
    """Somebody who may not ask, with the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def checked_token(token: str, where: str) -> str:
    """A token as it may come in a header; `where` it comes from is named instead of it.

    Raises:
        ConfigError: It could not be sent.
    """
    if not _TOKEN.fullmatch(token) or len(token) > TOKEN_CHARACTERS_MAX:
        raise ConfigError(f"{where}: must be 1 to {TOKEN_CHARACTERS_MAX} characters of visible ASCII without blanks")
    return token


def parse_address(text: str, *, has_token: bool = False) -> tuple[str, int]:
    """`[HOST:]PORT` of the admin listener; 127.0.0.1 unless given.

    Raises:
        ConfigError: Malformed, or without a token not an address of this machine alone.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise ConfigError(f"Invalid value {text} for --admin: must be [HOST:]PORT, port up to 65535")
    if not has_token and not _is_loopback(host):
        raise ConfigError(
            f"Invalid value {text} for --admin: must be a loopback address, as it asks nobody who he is; for another one"
            " give --admin-token-file FILE or OTTLA_ADMIN_TOKEN"
        )
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """What is asked of every request before anything else of it is looked at."""

    def __init__(self, token: str | None) -> None:
        self._digest = None if token is None else _digest(token)

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Refuse what a web page may have sent. Raises Refused: 403."""
        if "origin" in headers:
            raise Refused(403, "requests of web pages are not answered")
        host = headers.get("host")
        # HTTP/1.0 needs none, and no browser speaks it. A page that was led here knows no token.
        if self._digest is None and host is not None and not _is_loopback(_without_port(host)):
            raise Refused(403, f"Host: expected localhost or a loopback address, found {host[:100]!r}")

    def check_token(self, headers: Mapping[str, str]) -> None:
        """Refuse who does not know the token. Takes as long whatever is wrong with it. Raises Refused: 401."""
        if self._digest is None:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(_digest(given.strip()), self._digest)
        if not is_right or scheme.lower() != "bearer":
            raise Refused(401, "Authorization: expected Bearer and the token of this listener")


def _digest(token: str) -> bytes:
    """Of equal length for all, so that a comparison tells nothing of the token."""
    return hashlib.sha256(token.encode("latin-1", "replace")).digest()


def _without_port(host: str) -> str:
    """The host of a `Host` header, an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
