"""One delegation token, as a value and as the catalog keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ..principal import Principal


@dataclass(frozen=True, slots=True)
class Token:
    """Whose it is, who asked for it, who may put off its expiry. It has no secret: that is made of its id."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    """It is good at this time still."""
    max_ms: int
    """No expiry is put off beyond it."""

    def is_over(self, now_ms: int) -> bool:
        """Whether it has expired."""
        return self.max_ms < now_ms or self.expires_ms < now_ms

    def is_of(self, principal: Principal) -> bool:
        """Whether it is its owner's, or he may put off its expiry."""
        return principal == self.owner or principal in self.renewers

    def facts(self) -> dict[str, Any]:
        """As the catalog keeps it, by its id."""
        return {
            "owner": _pair(self.owner),
            "requester": _pair(self.requester),
            "renewers": [_pair(each) for each in self.renewers],
            "issued_ms": self.issued_ms,
            "expires_ms": self.expires_ms,
            "max_ms": self.max_ms,
        }

    @classmethod
    def from_facts(cls, token_id: str, facts: Mapping[str, Any]) -> Self:
        """What `facts` are of. ValueError if they are of none."""
        try:
            times = [facts[name] for name in ("issued_ms", "expires_ms", "max_ms")]
            if not all(isinstance(time, int) for time in times):
                raise ValueError("times must be numbers")
            return cls(
                token_id,
                _principal(facts["owner"]),
                _principal(facts["requester"]),
                tuple(map(_principal, facts["renewers"])),
                *times,
            )
        except KeyError as error:
            raise ValueError(f"{error} is missing") from None
        except (TypeError, AttributeError) as error:
            raise ValueError(str(error)) from None


def _pair(principal: Principal) -> list[str]:
    return [principal.type, principal.name]  # Clients may name types that are empty, or have colons.


def _principal(pair: Any) -> Principal:
    kind, name = pair
    if not isinstance(kind, str) or not isinstance(name, str):
        raise TypeError("a principal must consist of a type and a name")
    return Principal(kind, name)
