"""Names that Apache Kafka's hash maps keep in the order in which they are made.

Its assignor goes over members and processes as its hash maps have them. With names that these maps keep in the order in which members
join, which is the order at Ottla, both must give everybody the very same tasks. So with topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

_PLACES = 64
"""In tables of so many places or fewer, powers of two, names lie in their order."""
NAMES_MAX = 16
"""Of one beginning: a table has so many places at least."""


def in_order(beginning: str, number: int) -> list[str]:
    """Names, `number` of them, that begin so."""
    assert number <= NAMES_MAX
    return [next(name for name in _salted(f"{beginning}{at}") if _place(name) == at) for at in range(number)]


def _salted(beginning: str) -> Iterator[str]:
    return (f"{beginning}.{salt}" for salt in count())


def _place(name: str) -> int:
    """Where java.util.HashMap has it, of `_PLACES`."""
    code = 0
    for letter in name:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return (code ^ (code >> 16)) % _PLACES
