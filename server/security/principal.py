"""Identity of a client, for access control and quotas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

USER = "User"


class UnprovenError(Exception):
    """Authentication of a client failed; the broker must close the connection.

    Args:
        is_told: The client receives the reason. Otherwise only the log has it: it would reveal which users exist, or what is
            wrong with a password.
        missing_scopes: Scopes that an OAUTHBEARER token lacks, in the form that the client receives.
    """

    def __init__(self, why: str, *, is_told: bool = False, missing_scopes: str = "") -> None:
        super().__init__(why)
        self.is_told = is_told
        self.missing_scopes = missing_scopes


@dataclass(frozen=True, slots=True)
class Principal:
    """A type and a name, written `User:alice`; Apache Kafka's KafkaPrincipal."""

    type: str
    name: str
    is_by_token: bool = False
    """Whether the client logged in with a delegation token. Such a client may neither create nor renew tokens (KIP-48).
    Not part of the text.
    """

    def is_same(self, other: Principal) -> bool:
        """Return whether both are the same user, regardless of how each has logged in: the equality of KafkaPrincipal."""
        return (self.type, self.name) == (other.type, other.name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `TYPE:NAME`; the name may contain colons.

        Raises:
            ValueError: No colon, or nothing before it.
        """
        kind, colon, name = text.partition(":")
        if not colon or not kind:
            raise ValueError(f"{text!r}: invalid principal; expected TYPE:NAME, e.g. User:alice")
        return cls(kind, name)


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""Principal of a client that is not authenticated: every client of a plain listener."""
