"""Who a client is, as access control and quotas see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

USER = "User"


class UnprovenError(Exception):
    """A client has not proved who it is, and is to be sent away.

    Args:
        is_told: The client reads why. Else the reason is for us alone: it would tell who has an account, or what is wrong with a
            password.
    """

    def __init__(self, why: str, *, is_told: bool = False) -> None:
        super().__init__(why)
        self.is_told = is_told


@dataclass(frozen=True, slots=True)
class Principal:
    """A type and a name, written `User:alice`; Apache Kafka's KafkaPrincipal."""

    type: str
    name: str
    is_by_token: bool = False
    """Whether it logged in with a delegation token, which may neither make nor renew others (KIP-48). Not part of its text."""

    def is_same(self, other: Principal) -> bool:
        """Whether both are one user, however each has logged in: what KafkaPrincipal's equality means."""
        return (self.type, self.name) == (other.type, other.name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """`TYPE:NAME`; the name may have colons.

        Raises:
            ValueError: There is no colon, or nothing before it.
        """
        kind, colon, name = text.partition(":")
        if not colon or not kind:
            raise ValueError(f"{text!r}: invalid principal; expected TYPE:NAME, e.g. User:alice")
        return cls(kind, name)


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""Who has proved nothing: on plain listeners everybody."""
