"""Names that Apache Kafka's hash maps keep in the order in which they are made.

Its assignor iterates over members and processes in the order of its hash maps. Ottla's order is that in which members join, and
the reverse for processes. With names that the hash maps keep in that order as well, both must assign exactly the same tasks. The
same holds for topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

_PLACES = 64
"""In hash tables of up to this size, a power of two, names are in their order."""
_SMALL = 8
NAMES_MAX = 16
"""The most names of one beginning: a hash table has at least this size."""


def in_order(beginning: str, number: int) -> list[str]:
    """Return names, `number` of them, that begin so."""
    assert number <= NAMES_MAX
    return [next(name for name in _salted(f"{beginning}{at}") if _place(name) == at) for at in range(number)]


def in_one_slot(beginning: str, number: int) -> list[str]:
    """Return names, `number` of them, that begin so and that are in one slot of a hash table of up to `_SMALL` slots.

    Apache Kafka's table of processes has as many slots as there are members, and puts a new process first in its slot.
    """
    return [next(name for name in _salted(f"{beginning}{at}") if _place(name) % _SMALL == 0) for at in range(number)]


def _salted(beginning: str) -> Iterator[str]:
    return (f"{beginning}.{salt}" for salt in count())


def _place(name: str) -> int:
    """Return the slot of a name in a java.util.HashMap of `_PLACES` slots."""
    code = 0
    for letter in name:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return (code ^ (code >> 16)) % _PLACES
