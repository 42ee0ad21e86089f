"""Access to the admin listener: by clients of this machine, or by clients with the token.

Without a token the listener is on a loopback address only, and no web page except its own status page can use it from a
browser. It refuses requests of other pages, detected by `Origin` and `Sec-Fetch-Site`, and requests with a `Host` that
is not a name of this machine: the name of a foreign page may resolve to this machine ("DNS rebinding"). With a token it
may have any address and name, and every call needs `Authorization: Bearer TOKEN`.

The status page has a token of its own, drawn for each listener. Requests with an `Origin` need it even if other
requests need none, so a page that cannot read the status page cannot change anything through the browser. If the
listener has a token, a browser that sends it once gets a cookie, which is sufficient for reading pages, but not for
calls. But pages contain the token of their calls, so the cookie is as powerful as the token for a program that obtains
it. Servers on other ports of this host can, since browsers send it to them.
"""

from __future__ import annotations

import base64
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
"""`Host` (RFC 9110, section 7.2), for the names and addresses that this machine may have."""


class HttpRefusal(Exception):
    """A refused request, with its HTTP status.

    Args:
        sentence: The problem; a function if it takes long to determine, called only for a client that may read it.
        headers: Headers of the response.
    """

    def __init__(self, status: int, sentence: str | Callable[[], str], *headers: tuple[str, str]) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers
        self._sentence = sentence

    def __str__(self) -> str:
        return self._sentence if isinstance(self._sentence, str) else self._sentence()


def checked_token(token: str, where: str) -> str:
    """Return a token if it can be sent in a header; errors name `where` it comes from instead of the token.

    Raises:
        ConfigError: It cannot be sent.
    """
    if not _TOKEN.fullmatch(token) or len(token) > TOKEN_CHARACTERS_MAX:
        raise ConfigError(f"{where}: must be 1 to {TOKEN_CHARACTERS_MAX} visible ASCII characters without spaces")
    return token


def parse_address(text: str, *, has_token: bool = False, option: str = "--admin") -> tuple[str, int]:
    """Parse `[HOST:]PORT` of an HTTP listener, the value of `option`. The default host is localhost, which means both loopback addresses.

    Raises:
        ConfigError: Malformed, or without a token not a loopback address.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "localhost"
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise ConfigError(f"Invalid value {text} for {option}: must be [HOST:]PORT, port up to 65535")
    if not has_token and not _is_loopback(host):
        raise ConfigError(
            f"Invalid value {text} for {option}: must be a loopback address unless --admin-token-file FILE or"
            " OTTLA_ADMIN_TOKEN is set"
        )
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """Access checks, made before anything else of a request is looked at.

    Args:
        token: The token that every call needs; None: no token.
        page_token: The token that the status page's calls need: visible ASCII, drawn for this listener.
        takes_basic: Whether the token may also be the password of Basic authentication, with any user name. Only for a
            listener without pages: browsers remember such a password.
    """

    def __init__(self, token: str | None, page_token: str, *, takes_basic: bool = False) -> None:
        self.page_token = page_token
        self.has_token = token is not None
        tokens = (page_token,) if token is None else (page_token, token)
        self._digests = tuple(map(_digest, tokens))
        self._takes_basic = takes_basic
        self._session = hmac.new(page_token.encode(), b"who has shown the token", hashlib.sha256).hexdigest()

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Refuse requests that another web page may have sent. Raises HttpRefusal 403."""
        host = headers.get("host")
        # A browser sends whose page makes the request: "none" is a user, by the address bar.
        is_other = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if is_other or ("origin" in headers and not _is_of(headers["origin"], host)):
            raise HttpRefusal(403, "cross-site requests are not allowed")
        # HTTP/1.0 needs no Host, and no browser speaks it. A rebound page knows no token.
        if not self.has_token and host is not None and not _names_loopback(host):
            raise HttpRefusal(403, f"Host: expected localhost or a loopback address, found {host[:100]!r}")

    def check_token(self, headers: Mapping[str, str]) -> None:
        """Refuse clients without the token. Takes the same time for any wrong token. Raises HttpRefusal 401."""
        if not self.has_token and "origin" not in headers:
            return
        if not self._is_shown(headers):
            raise HttpRefusal(
                401,
                "Authorization: expected the bearer token of this listener",
                ("www-authenticate", 'Basic realm="ottla"' if self._takes_basic else "Bearer"),
            )

    def may_read(self, headers: Mapping[str, str]) -> bool:
        """Return whether the client may read pages; changes need more than this."""
        if not self.has_token or self._is_shown(headers):
            return True
        # Not `http.cookies`: it stops at the first malformed cookie of another server of this host.
        pairs = (each.strip().partition("=") for each in headers.get("cookie", "").split(";"))
        name, session = self._cookie_name(headers), _digest(self._session)
        return any(hmac.compare_digest(_digest(value), session) for found, _, value in pairs if found == name)

    def cookie(self, headers: Mapping[str, str]) -> str:
        """Return `Set-Cookie` for a client that has sent the token.

        The cookie lasts for the browser's session, and is never sent with requests from other sites.
        """
        return f"{self._cookie_name(headers)}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def _is_shown(self, headers: Mapping[str, str]) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_basic = self._takes_basic and scheme.lower() == "basic"
        digest = _digest(_password(given.strip()) if is_basic else given.strip())
        found = [hmac.compare_digest(digest, each) for each in self._digests]
        return any(found) and (is_basic or scheme.lower() == "bearer")

    @staticmethod
    def _cookie_name(headers: Mapping[str, str]) -> str:
        # Cookies of a host are shared by all its ports: two brokers must not overwrite each other's.
        port = headers.get("host", "").rpartition(":")[2]
        return f"ottla-{port if port.isascii() and port.isdigit() else 'page'}"


def _is_of(origin: str, host: str | None) -> bool:
    """Return whether `Origin` is that of a page from `Host`."""
    try:
        return host is not None and urlsplit(origin).scheme in ("http", "https") and urlsplit(origin).netloc == host
    except ValueError:
        return False


def _password(credentials: str) -> str:
    """Return the password of Basic authentication; "" if it is malformed."""
    try:
        return base64.b64decode(credentials, validate=True).decode("latin-1").partition(":")[2]
    except ValueError:
        return ""


def _digest(token: str) -> bytes:
    """Return a digest, which has the same length for all tokens, so that the time of a comparison reveals nothing."""
    return hashlib.sha256(token.encode("latin-1", "replace")).digest()


def _names_loopback(host: str) -> bool:
    """Return whether the whole `Host` header is a name of this machine."""
    found = _HOST.fullmatch(host)
    return found is not None and _is_loopback(found["name"] or found["ipv6"])
