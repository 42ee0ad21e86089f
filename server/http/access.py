"""Who may ask: whoever is on this machine, or whoever knows the token.

Without a token the listener is on a loopback address only, and no web page in somebody's browser can use it but its own status
page: requests that another page has sent, as `Origin` and `Sec-Fetch-Site` tell, or with a `Host` that is no name of this
machine (to which a page's own name may have been made to lead, "DNS rebinding"), are refused. With a token it may be anywhere,
under any name, and every call needs `Authorization: Bearer TOKEN`.

The status page has a token of its own, drawn for each listener: requests with an `Origin` need it even where nothing else needs one,
so that who cannot read the page cannot change anything by a browser. Where the listener has a token, who shows it once is given a
cookie, with which pages may be read, and calls need more. But pages have the token of their calls in them: a cookie is as good as
the token to who takes it from a browser, as servers on other ports of this host can, to which browsers send it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from ...storage.topics.options import ConfigError

TOKEN_CHARACTERS_MAX = 4096
_TOKEN = re.compile(r"[\x21-\x7e]+")
_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)\]|(?P<name>[0-9A-Za-z.-]+))(?::[0-9]{0,5})?")
"""`Host` (RFC 9110, section 7.2), of the names and addresses that this machine may have."""


class HttpRefusal(Exception):
    """A request that is not carried out, with the HTTP status.

    Args:
        sentence: What is wrong; a function where that takes long to find out, called only for a client that may read it.
        headers: Of the answer.
    """

    def __init__(self, status: int, sentence: str | Callable[[], str], *headers: tuple[str, str]) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers
        self._sentence = sentence

    def __str__(self) -> str:
        return self._sentence if isinstance(self._sentence, str) else self._sentence()


def checked_token(token: str, where: str) -> str:
    """A token as it may come in a header; `where` it comes from is named instead of it.

    Raises:
        ConfigError: It could not be sent.
    """
    if not _TOKEN.fullmatch(token) or len(token) > TOKEN_CHARACTERS_MAX:
        raise ConfigError(f"{where}: must be 1 to {TOKEN_CHARACTERS_MAX} visible ASCII characters without spaces")
    return token


def parse_address(text: str, *, has_token: bool = False) -> tuple[str, int]:
    """`[HOST:]PORT` of the admin listener; localhost unless given, which is both loopback addresses.

    Raises:
        ConfigError: Malformed, or without a token not an address of this machine alone.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "localhost"
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise ConfigError(f"Invalid value {text} for --admin: must be [HOST:]PORT, port up to 65535")
    if not has_token and not _is_loopback(host):
        raise ConfigError(
            f"Invalid value {text} for --admin: must be a loopback address unless --admin-token-file FILE or"
            " OTTLA_ADMIN_TOKEN is set"
        )
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """What is asked of every request before anything else of it is looked at.

    Args:
        token: What every call has to know, if anything.
        page_token: What the status page's calls have to know: visible ASCII, drawn for this listener.
    """

    def __init__(self, token: str | None, page_token: str) -> None:
        self.page_token = page_token
        self.has_token = token is not None
        tokens = (page_token,) if token is None else (page_token, token)
        self._digests = tuple(map(_digest, tokens))
        self._session = hmac.new(page_token.encode(), b"who has shown the token", hashlib.sha256).hexdigest()

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Refuse what another web page than ours may have sent. Raises HttpRefusal 403."""
        host = headers.get("host")
        # A browser tells whose page has it ask: "none" is a person, by the address bar.
        is_other = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if is_other or ("origin" in headers and not _is_of(headers["origin"], host)):
            raise HttpRefusal(403, "cross-site requests are not allowed")
        # HTTP/1.0 needs none, and no browser speaks it. A page that was led here knows no token.
        if not self.has_token and host is not None and not _names_loopback(host):
            raise HttpRefusal(403, f"Host: expected localhost or a loopback address, found {host[:100]!r}")

    def check_token(self, headers: Mapping[str, str]) -> None:
        """Refuse who does not know the token. Takes as long whatever is wrong with it. Raises HttpRefusal 401."""
        if not self.has_token and "origin" not in headers:
            return
        if not self._is_shown(headers):
            raise HttpRefusal(
                401, "Authorization: expected the bearer token of this listener", ("www-authenticate", "Bearer")
            )

    def may_read(self, headers: Mapping[str, str]) -> bool:
        """Whether pages are for the sender: changes need more than this."""
        if not self.has_token or self._is_shown(headers):
            return True
        # Not by `http.cookies`: that reads no further than the first cookie of another server of this host that is odd.
        pairs = (each.strip().partition("=") for each in headers.get("cookie", "").split(";"))
        name, session = self._cookie_name(headers), _digest(self._session)
        return any(hmac.compare_digest(_digest(value), session) for found, _, value in pairs if found == name)

    def cookie(self, headers: Mapping[str, str]) -> str:
        """`Set-Cookie` for who has shown the token: for this browser's session, and never sent for another page's sake."""
        return f"{self._cookie_name(headers)}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def _is_shown(self, headers: Mapping[str, str]) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        digest = _digest(given.strip())
        found = [hmac.compare_digest(digest, each) for each in self._digests]
        return any(found) and scheme.lower() == "bearer"

    @staticmethod
    def _cookie_name(headers: Mapping[str, str]) -> str:
        # Cookies of one machine are the same for all ports: two brokers must not take each other's.
        port = headers.get("host", "").rpartition(":")[2]
        return f"ottla-{port if port.isascii() and port.isdigit() else 'page'}"


def _is_of(origin: str, host: str | None) -> bool:
    """Whether `Origin` is of a page that came from `Host`."""
    try:
        return host is not None and urlsplit(origin).scheme in ("http", "https") and urlsplit(origin).netloc == host
    except ValueError:
        return False


def _digest(token: str) -> bytes:
    """Of equal length for all, so that a comparison tells nothing of the token."""
    return hashlib.sha256(token.encode("latin-1", "replace")).digest()


def _names_loopback(host: str) -> bool:
    """Whether the whole of a `Host` header names this machine."""
    found = _HOST.fullmatch(host)
    return found is not None and _is_loopback(found["name"] or found["ipv6"])
