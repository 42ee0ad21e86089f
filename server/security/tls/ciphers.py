"""`ssl.cipher.suites`: the suites of TLS by their IANA names, as Java has them, and what OpenSSL calls them."""

from __future__ import annotations

import difflib
import re
import ssl
from dataclasses import dataclass
from functools import cache

_OF_TLS_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""Those that OpenSSL offers."""
CAN_CHOOSE_TLS_1_3 = hasattr(ssl.SSLContext, "set_ciphersuites")
"""From Python 3.15 on; before, a listener offers all suites of TLS 1.3 or none."""
_STEPS = (
    (r"^TLS_", ""),
    (r"^RSA_WITH_", ""),
    (r"_WITH_", "-"),
    (r"AES_(128|256)", r"AES\1"),
    (r"_CBC(?=_)", ""),
    (r"CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    (r"CCM_8", "CCM8"),
    (r"_", "-"),
)
"""How OpenSSL's names come from IANA's."""


@dataclass(frozen=True, slots=True)
class Ciphers:
    """A choice of suites, by OpenSSL's names."""

    of_tls_1_2: tuple[str, ...]
    of_tls_1_3: tuple[str, ...]

    @property
    def versions(self) -> tuple[ssl.TLSVersion, ...]:
        """The versions of TLS that there is a suite for."""
        pairs = (ssl.TLSVersion.TLSv1_2, self.of_tls_1_2), (ssl.TLSVersion.TLSv1_3, self.of_tls_1_3)
        return tuple(version for version, names in pairs if names)

    def choose(self, context: ssl.SSLContext) -> None:
        """Have `context` offer these and no others."""
        if self.of_tls_1_2:
            context.set_ciphers(":".join(self.of_tls_1_2))
        if self.of_tls_1_3 and CAN_CHOOSE_TLS_1_3:
            context.set_ciphersuites(":".join(self.of_tls_1_3))  # type: ignore[attr-defined]


def ciphers_of(suites: tuple[str, ...]) -> Ciphers:
    """The choice that IANA's names make.

    Raises:
        ValueError: OpenSSL has no such suite; or this Python cannot leave out the others of TLS 1.3.
    """
    older: list[str] = []
    newer: list[str] = []
    for suite in suites:
        if suite in _OF_TLS_1_3:
            newer.append(suite)
            continue
        name = suite
        for pattern, replacement in _STEPS:
            name = re.sub(pattern, replacement, name)
        if name not in _known():
            close = difflib.get_close_matches(suite[:100], _OF_TLS_1_3, n=1, cutoff=0.8)
            raise ValueError(
                f"cipher suite {suite} not found in OpenSSL" + (f"; did you mean {close[0]}?" if close else "")
            )
        older.append(name)
    if newer and len(newer) < len(_OF_TLS_1_3) and not CAN_CHOOSE_TLS_1_3:
        raise ValueError(
            f"Python before 3.15 cannot select individual TLS 1.3 cipher suites: list all of {', '.join(_OF_TLS_1_3)},"
            " or none"
        )
    return Ciphers(tuple(older), tuple(newer))


@cache
def _known() -> frozenset[str]:
    """The suites of TLS 1.2 that a server may choose, with a certificate and encryption."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:!aNULL:!eNULL:!PSK:!SRP")
    return frozenset(each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3")
