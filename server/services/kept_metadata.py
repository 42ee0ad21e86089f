"""Answers about many partitions, kept until anything changes that they tell of: made once, written once, and sent as bytes after it.

A producer of a topic of thousands of partitions asks anew every few minutes, thousands of clients do after a restart, and
a console asks for everything again and again.

All that an answer says follows from `MetadataFacts` and from its key: who makes an answer say more puts that into one of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # No broker shall wait for the answers' classes before it is asked.
    from ...protocol.messages.metadata import MetadataResponse

ROWS_MIN = 100
"""Topics and partitions of an answer that is kept; what has fewer takes a quarter of a millisecond at most."""
ROWS_MAX = 50_000
"""Of all that are kept together; each takes some 150 bytes, with those that it is sent as."""
ANSWERS_MAX = 16


class MetadataFacts(NamedTuple):
    """What all answers tell of, as far as it changes."""

    topics: int
    """`Topics.changes`: which there are, their partitions, who leads and holds those."""
    failures: int
    """`Health.changes`: which logs are offline."""
    has_eligible_replicas: bool
    """Of a partition without leader the ISR is told, or not."""
    rights: int | None
    """`Authorizer.generation`; what a client may is not told anybody else, and its principal and host are in the key."""


class KeptAnswers:
    """Those of one broker; the oldest make room for others."""

    def __init__(self) -> None:
        self._facts: MetadataFacts | None = None
        self._answers: dict[Hashable, tuple[MetadataResponse, int]] = {}
        self.rows = 0
        """Of all of them."""

    def find(self, facts: MetadataFacts, key: Hashable) -> MetadataResponse | None:
        """The answer to this question, if it would be the same now."""
        if facts != self._facts:
            self._answers.clear()
            self._facts, self.rows = facts, 0
        found = self._answers.get(key)
        return None if found is None else found[0]

    def keep(self, facts: MetadataFacts, key: Hashable, answer: MetadataResponse, rows: int) -> None:
        """An answer of so many topics and partitions, which was made of these facts."""
        if facts != self._facts or rows > ROWS_MAX or key in self._answers:
            return
        self._answers[key] = answer, rows
        self.rows += rows
        while self.rows > ROWS_MAX or len(self._answers) > ANSWERS_MAX:
            self.rows -= self._answers.pop(next(iter(self._answers)))[1]
