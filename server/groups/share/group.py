"""One share group as a table: members, the target assignment, and the partitions that have states (`states`).

This module makes no decisions and writes no records; `replay` changes the table, as the records say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from ....protocol.errors import ErrorCode, KafkaError
from ..assigning.assignment import Assignment
from ..kinds import PartitionCheck
from ..reconciled import ReconciledGroup
from ..records import CommittedOffset, write_record
from .member import ShareMember
from .records import tombstones
from .states import StateTable, TopicStates


class ShareGroup(ReconciledGroup[ShareMember, Assignment]):
    """
    Attributes:
        name_subscribers: Set of topic names -> number of members that name exactly these.
        states: Partitions that have states; None before the first.
        looked_for: Names, states and `topics_known_to` at the last check for missing states. With equal values no further
            states need to be requested.
    """

    type_name: ClassVar[str] = "share"
    state_names: ClassVar[tuple[str, ...]] = ("Empty", "Stable")

    def __init__(self, group_id: str, partition: int) -> None:
        super().__init__(group_id, partition)
        self.states: StateTable | None = None
        self.name_subscribers: Counter[frozenset[str]] = Counter()
        self.looked_for: tuple[frozenset[str], StateTable | None, int] | None = None
        self._subscribed_topics: frozenset[str] | None = None
        self._is_pending: bool | None = None

    # Methods that all kinds of groups have

    @property
    def protocol_type(self) -> str:
        return "share"

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, *, is_transactional: bool
    ) -> PartitionCheck | None:
        """See `kinds.Group`. A share group has no committed offsets."""
        raise self._no_consumers()

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Allow every caller to fetch: no partition has a committed offset."""

    def check_offset_delete(self) -> None:
        raise self._no_consumers()

    def _no_consumers(self) -> KafkaError:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """Topics that any member subscribes to."""
        if self._subscribed_topics is None:
            self._subscribed_topics = _all_of(self.name_subscribers)
        return self._subscribed_topics

    def subscribed_without(self, leaving: ShareMember) -> frozenset[str]:
        """Return the future `subscribed_topics` without this member."""
        if self.name_subscribers[leaving.topic_names] > 1:
            return self.subscribed_topics
        return _all_of(names for names in self.name_subscribers if names != leaving.topic_names)

    def offsets_age_from(self) -> Callable[[CommittedOffset], int] | None:
        return None

    @property
    def may_expire(self) -> bool:
        """Always False: a group without members still stores where the next members continue."""
        return False

    def tombstone_keys(self) -> list[bytes]:
        return [write_record(*change)[0] for change in tombstones(self.group_id, self.members)]

    # Members and partitions

    @property
    def initialized(self) -> Mapping[bytes, TopicStates]:
        return {} if self.states is None else self.states.initialized

    @property
    def has_unassigned_states(self) -> bool:
        """Whether subscribed partitions are initialized and have no member, or members have partitions that are not
        initialized."""
        if self._is_pending is None:
            self._is_pending = bool(self.members) and self._find_unassigned()
        return self._is_pending

    def _find_unassigned(self) -> bool:
        held: dict[bytes, set[int]] = {}
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                held.setdefault(topic_id, set()).update(partitions)
        return any(
            states.name in self.subscribed_topics and held.get(topic_id, set()) != states.partitions
            for topic_id, states in self.initialized.items()
        )

    # For `replay`

    def put(self, member: ShareMember) -> None:
        """Add or replace a member, as its record says."""
        before = self.members.get(member.member_id)
        if before is None or before.topic_names != member.topic_names:
            self._take_out(member.member_id)
            self.name_subscribers[member.topic_names] += 1
        self.members[member.member_id] = member

    def remove(self, member_id: str) -> None:
        self._take_out(member_id)
        self.members.pop(member_id, None)

    def set_target(self, member_id: str, assignment: Assignment | None) -> None:
        """Set a member's target; None removes it."""
        self._is_pending = None
        if assignment is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = assignment

    def set_states(self, states: StateTable | None) -> None:
        self._is_pending = None
        self.states = states

    def _take_out(self, member_id: str) -> None:
        self._subscribed_topics = None
        self._is_pending = None
        member = self.members.get(member_id)
        if member is not None:
            self.name_subscribers[member.topic_names] -= 1
            if not self.name_subscribers[member.topic_names]:
                del self.name_subscribers[member.topic_names]


def _all_of(names: Iterable[frozenset[str]]) -> frozenset[str]:
    lists = list(names)
    # Usually there is one set, which may be long: it is not copied.
    return lists[0] if len(lists) == 1 else frozenset().union(*lists)
