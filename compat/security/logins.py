"""The listeners of logins, and their credentials: the cells of the matrix of logins, as names.

`Scene.login(cell)` in `scene.py` makes the driver's request from a cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
TOKEN = "token over SCRAM-SHA-512"
"""A delegation token."""
SCRAMS = (SCRAM_256, SCRAM_512)


@dataclass(frozen=True)
class Listener:
    """One listener of the broker.

    client_auth: `ssl.client.auth`.
    mechanisms: The enabled SASL mechanisms.
    """

    protocol: str
    client_auth: str = "none"
    mechanisms: tuple[str, ...] = ()

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")


ALL = (PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER)
LISTENERS = {
    "PLAINTEXT": Listener("PLAINTEXT"),
    "SSL": Listener("SSL"),
    "SSL_REQUESTED": Listener("SSL", "requested"),
    "SSL_REQUIRED": Listener("SSL", "required"),
    "SSL_ELSEWHERE": Listener("SSL"),
    "SASL_PLAINTEXT": Listener("SASL_PLAINTEXT", mechanisms=ALL),
    "SASL_SSL": Listener("SASL_SSL", mechanisms=ALL),
    "SASL_SSL_REQUIRED": Listener("SASL_SSL", "required", mechanisms=ALL),
    "SCRAM_ONLY": Listener("SASL_PLAINTEXT", mechanisms=(SCRAM_256,)),
    "SHORT": Listener("SASL_PLAINTEXT", mechanisms=ALL),
}
"""`SSL_ELSEWHERE` shows the certificate of another host; sessions of `SHORT` end after `SHORT_SESSION_MS`."""
SHORT_SESSION_MS = 3_000

PASSWORDS = ("good", "wrong password", "unknown user", "empty password")
SCRAM_CREDENTIALS = (*PASSWORDS, "deleted user", "user of the other SCRAM mechanism")
TOKENS = ("good", "wrong HMAC", "expired", "revoked", "not said to be a token")
BEARER_TOKENS = (
    "good",
    "expired",
    "of another key",
    "of another audience",
    "of another issuer",
    "without a subject",
    "no token",
)
CREDENTIALS = {
    PLAIN: PASSWORDS,
    SCRAM_256: SCRAM_CREDENTIALS,
    SCRAM_512: SCRAM_CREDENTIALS,
    TOKEN: TOKENS,
    OAUTHBEARER: BEARER_TOKENS,
}
CERTIFICATES = ("no certificate", "good certificate", "expired certificate", "certificate of another CA")
BECOMES_BAD = "becomes bad"
STAYS_GOOD = "stays good"
SLOW = ("plain client", "TLS client", "SASL client", "client without SASL")
"""Neither side understands the other: several clients wait for their time-out."""


@dataclass(frozen=True)
class Cell:
    """One login. `mechanism` is empty without SASL."""

    listener: str
    mechanism: str
    credentials: str

    @property
    def id(self) -> str:
        return " / ".join(part for part in (self.listener, self.mechanism, self.credentials) if part)

    @property
    def is_brief(self) -> bool:
        """Whether the short run has this cell: it waits for no time-out, and no other cell of the run is nearly the same."""
        if self.credentials in (*SLOW, BECOMES_BAD, STAYS_GOOD):
            return False
        return self.credentials == "good" or not (self.listener.startswith("SASL_SSL") or self.mechanism == SCRAM_512)


def cells() -> Iterator[Cell]:
    """Yield all cells."""
    yield Cell("PLAINTEXT", "", "none")
    for name, listener in LISTENERS.items():
        if listener.protocol == "SSL":
            shown = CERTIFICATES if listener.client_auth != "none" else CERTIFICATES[:2]
            yield from (Cell(name, "", one) for one in shown)
    for name in ("SASL_PLAINTEXT", "SASL_SSL"):
        for mechanism, credentials in CREDENTIALS.items():
            yield from (Cell(name, mechanism, one) for one in credentials)
    for mechanism in CREDENTIALS:
        yield Cell("SASL_SSL_REQUIRED", mechanism, "good")
    for one in CERTIFICATES:
        yield Cell("SASL_SSL_REQUIRED", PLAIN, one)
    for name in ("SSL", "SASL_SSL"):
        mechanism = PLAIN if name == "SASL_SSL" else ""
        yield from (Cell(name, mechanism, one) for one in ("wrong CA", "no CA"))
    for mechanism in (PLAIN, SCRAM_512, OAUTHBEARER):
        yield Cell("SCRAM_ONLY", mechanism, "good")
    yield Cell("SSL", "", "plain client")
    yield Cell("PLAINTEXT", "", "TLS client")
    yield Cell("PLAINTEXT", PLAIN, "SASL client")
    yield Cell("SASL_PLAINTEXT", "", "client without SASL")
    yield Cell("SASL_SSL", "", "client without SASL")
    for mechanism in (*SCRAMS, TOKEN):
        yield Cell("SHORT", mechanism, BECOMES_BAD)
    for mechanism in (PLAIN, SCRAM_256, OAUTHBEARER):
        yield Cell("SHORT", mechanism, STAYS_GOOD)
