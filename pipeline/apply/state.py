"""How far a table has come, as the table itself says it: in the commit that brought its rows.

A checkpoint and a table are two places, and who dies between them has done a batch in one of them. So it is not the
checkpoint that counts. Each commit carries the offsets up to which the topic is in it, and records below them are passed
over, whatever brings them again: a batch run once more, other batches, a new checkpoint.

States are a chain: each names the one it was built upon. Where a table's history shows two that were built upon the same
one, two programs were at work, and the later one may have brought back what the other had deleted. All is right again once
everything since their common base has been applied once more: so that base is where the table stands then (`standing`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

PROPERTY = "ottla.apply"
"""The property of an Iceberg snapshot with a state; in Delta's user metadata it is the one key of a JSON object."""


@dataclass(frozen=True, slots=True)
class AppliedState:
    """
    id: Of this state, at random.
    base: The id of the one before; None of the first.
    generation: The id of the first, which the later ones keep; with `sequence` it tells Delta that a commit was there already.
    topic_id: None where it is not known.
    offsets: Partition -> the offset of the next record that is to be applied.
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
        """Of a table that has none: `offsets` are what its rows say, if it has any."""
        return cls(new_id, topic, new_id, topic_id=topic_id, offsets=dict(offsets))

    def after(self, new_id: str, offsets: Mapping[int, int], *, topic_id: str | None = None) -> AppliedState:
        """The one that is built upon this. An offset never goes back."""
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
        """Of a topic that was made anew: nothing of it is in the table yet."""
        return replace(self, id=new_id, base=self.id, sequence=self.sequence + 1, topic_id=topic_id, offsets={})

    def to_json(self) -> str:
        found = {name: getattr(self, name) for name in ("id", "base", "generation", "sequence", "topic", "topic_id")}
        offsets = {str(each): offset for each, offset in sorted(self.offsets.items())}
        return json.dumps({PROPERTY: {**found, "offsets": offsets}})

    @classmethod
    def from_json(cls, text: str | None) -> AppliedState | None:
        """None where that is no state: others have metadata of their own in a table's history."""
        try:
            found: dict[str, Any] = json.loads(text or "")[PROPERTY]
            offsets = {int(each): int(offset) for each, offset in found.pop("offsets").items()}
            return cls(**found, offsets=offsets)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def standing(newest_first: Iterable[AppliedState]) -> tuple[AppliedState | None, bool]:
    """Where a table stands, and whether its history is one chain.

    Args:
        newest_first: The states of its history. One may be there several times, where a commit of another kind repeats it.
    """
    chain = _each_once(newest_first)
    newest = next(chain, None)
    if newest is None:
        return None, True
    # Who goes on from a fork has begun where this says, and so ends it: the forks that count are those at the top.
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
