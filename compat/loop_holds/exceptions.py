"""What may hold the others for longer than 20 ms, each with its reason and the most that it may take.

An entry that is no longer needed fails the suite.
"""

from typing import NamedTuple


class Allowed(NamedTuple):
    limit_ms: float
    reason: str


EXCEPTIONS: dict[str, Allowed] = {}
