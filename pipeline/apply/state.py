"""Progress of a table, stored in the table itself: in the commit that contains the rows.

A checkpoint and a table are two places, and a process that dies between the two writes has done a batch in only one of them.
So the checkpoint does not count. Each commit carries the offsets up to which the topic is in it, and records below them are
skipped in any case: in a repeated batch, in other batches, or with a new checkpoint.

States are a chain: each names the one before it. If a table's history shows two with the same predecessor, two programs were
at work, and the later one may have restored what the other had deleted. Applying everything since their common base again
repairs that, so that base is the table's position then (`standing`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

PROPERTY = "ottla.apply"
"""Property of an Iceberg snapshot that has the state. In Delta's user metadata it is the only key of a JSON object."""


@dataclass(frozen=True, slots=True)
class AppliedState:
    """State of a table after a commit.

    id: A random id of this state.
    base: The id of the state before; None for the first.
    generation: The id of the first state, which later ones keep. With `sequence` it lets Delta detect a repeated commit.
    topic_id: None if unknown.
    offsets: Partition -> the offset of the next record to apply.
    """

    id: str
    topic: str
    generation: str
    base: str | None = None
    sequence: int = 0
    topic_id: str | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def first(cls, new_id: str, topic: str, topic_id: str | None, offsets: Mapping[int, int]) -> AppliedState:
        """Make the state of a table that has none. `offsets` are those of its rows, if it has any."""
        return cls(new_id, topic, new_id, topic_id=topic_id, offsets=dict(offsets))

    def after(self, new_id: str, offsets: Mapping[int, int], *, topic_id: str | None = None) -> AppliedState:
        """Return the next state. An offset never decreases."""
        further = {each: max(offset, self.offsets.get(each, 0)) for each, offset in offsets.items()}
        return replace(
            self,
            id=new_id,
            base=self.id,
            sequence=self.sequence + 1,
            topic_id=topic_id or self.topic_id,
            offsets={**self.offsets, **further},
        )

    def from_the_beginning(self, new_id: str, topic_id: str | None) -> AppliedState:
        """Return the next state for a recreated topic, of which nothing is in the table yet."""
        return replace(self, id=new_id, base=self.id, sequence=self.sequence + 1, topic_id=topic_id, offsets={})

    def to_json(self) -> str:
        found = {name: getattr(self, name) for name in ("id", "base", "generation", "sequence", "topic", "topic_id")}
        offsets = {str(each): offset for each, offset in sorted(self.offsets.items())}
        return json.dumps({PROPERTY: {**found, "offsets": offsets}})

    @classmethod
    def from_json(cls, text: str | None) -> AppliedState | None:
        """Parse a state; None if the text is not one, as other programs store metadata in a table's history."""
        try:
            found: dict[str, Any] = json.loads(text or "")[PROPERTY]
            offsets = {int(each): int(offset) for each, offset in found.pop("offsets").items()}
            return cls(**found, offsets=offsets)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def standing(newest_first: Iterable[AppliedState]) -> tuple[AppliedState | None, bool]:
    """Return a table's state, and whether its history is one chain.

    Args:
        newest_first: The states of its history. One may occur several times, if commits of other kinds repeat it.
    """
    chain = _each_once(newest_first)
    newest = next(chain, None)
    if newest is None:
        return None, True
    # A program that continues after a fork began at the state returned here, which ends the fork: only those at the top count.
    above, bases = newest, list[str | None]()
    below = list[AppliedState]()
    for state in chain:
        below.append(state)
        if above.base == state.id:
            break
        bases.append(above.base)
        above = state
    if not bases:
        return newest, True
    below.extend(chain)
    offsets = [next((each.offsets for each in below if each.id == base), {}) for base in bases]
    common = set(offsets[0]).intersection(*offsets)
    return replace(newest, offsets={each: min(found[each] for found in offsets) for each in common}), False


def _each_once(states: Iterable[AppliedState]) -> Iterator[AppliedState]:
    last = None
    for state in states:
        if state.id != last:
            yield state
        last = state.id
