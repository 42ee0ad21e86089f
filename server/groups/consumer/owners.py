"""Which member of a consumer group has which partition. It follows from what the members have."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from ...coordination.jobs import AT_ONCE, Job, Steps, to_the_end
from .member import ConsumerMember

_NONE: Mapping[int, int] = {}
UNSETTLED_MAX = 16
"""Changes that are kept for later. Each holds what a member had before."""


class Owners:
    """A change of thousands of topics goes into the table in pieces later (`settling`), or when the table is asked for: the
    step that brings the change stays short."""

    def __init__(self) -> None:
        self._table: dict[bytes, dict[int, str]] = {}
        self._unsettled: deque[tuple[ConsumerMember, ConsumerMember]] = deque()
        self._settling: Steps[None] | None = None

    @property
    def is_settled(self) -> bool:
        """Whether no change waits to be brought into the table."""
        return not self._unsettled

    @property
    def table(self) -> Mapping[bytes, Mapping[int, str]]:
        """Topic id -> partition -> member id, for all that is assigned or being revoked."""
        if self._unsettled:
            to_the_end(self.settling())
        return self._table

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Whether no member has the partition, nor has still to give it up."""
        if self._unsettled:
            to_the_end(self.settling())
        return partition not in self._table.get(topic_id, _NONE)

    def note(self, before: ConsumerMember, after: ConsumerMember) -> None:
        """Take over what a member has now."""
        owned = before.assigned, before.revoking, after.assigned, after.revoking
        if not any(owned) or (before.assigned is after.assigned and before.revoking is after.revoking):
            return
        waiting = self._unsettled
        if not waiting and max(map(len, owned)) <= AT_ONCE:
            to_the_end(self._taking(before, after))
            return
        waiting.append((before, after))
        if len(waiting) > UNSETTLED_MAX:
            self._settle_first()

    def settling(self) -> Job:
        """Bring the table up to date, a topic a piece. Several may do so at once."""
        while self._unsettled:
            if self._settling is None:
                self._settling = self._taking(*self._unsettled[0])
            try:
                next(self._settling)
            except StopIteration:
                self._settling = None
                self._unsettled.popleft()
            yield

    def _settle_first(self) -> None:
        """Bring the oldest change into the table alone: all at once take as long as they are many."""
        left, settling = len(self._unsettled) - 1, self.settling()
        while len(self._unsettled) > left:
            next(settling)

    def _taking(self, before: ConsumerMember, after: ConsumerMember) -> Job:
        pairs = (before.assigned, after.assigned), (before.revoking, after.revoking)
        changed = [(owned, owns) for owned, owns in pairs if owned is not owns]
        # All that has gone goes first: what is being revoked now was assigned before.
        for owned, owns in changed:
            for topic_id, had in owned.items():
                if (has := owns.get(topic_id, _NONE)) is not had:
                    if has.keys() != had.keys():
                        self._drop(topic_id, had, before.member_id)
                    yield
        for owned, owns in changed:
            for topic_id, has in owns.items():
                if (had := owned.get(topic_id, _NONE)) is not has:
                    if has.keys() != had.keys():
                        self._add(topic_id, has, after.member_id)
                    yield

    def _add(self, topic_id: bytes, partitions: Mapping[int, int], member_id: str) -> None:
        mine = dict.fromkeys(partitions, member_id)
        if mine and self._table.setdefault(topic_id, mine) is not mine:
            self._table[topic_id].update(mine)

    def _drop(self, topic_id: bytes, partitions: Mapping[int, int], member_id: str) -> None:
        row = self._table.get(topic_id, {})
        if row == dict.fromkeys(partitions, member_id):
            self._table.pop(topic_id, None)
            return
        for index in partitions:
            if row.get(index) == member_id:
                del row[index]
        if not row:
            self._table.pop(topic_id, None)
