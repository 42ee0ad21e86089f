"""One consumer group as a table: the contents of its records, and values derived from them.

Only `replay` changes it, with records that are in the log, so a reload makes the same table. `protocol` keeps the state that is
not in the log, which a load resets: deadlines, and whether topics must be looked up again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import ClassVar, TypeVar

from ....protocol.errors import ErrorCode, KafkaError
from ...coordination.jobs import AT_ONCE, Job, Steps, to_the_end
from ..assigning.assignment import Assignment
from ..kinds import PartitionCheck
from ..reconciled import ReconciledGroup
from ..records import write_record
from ..subscription import CONSUMER_PROTOCOL_TYPE
from .member import ConsumerMember, ResolvedRegex
from .records import tombstones

Counted = TypeVar("Counted", str, frozenset[str])

# From this version of OffsetCommit on, the generation may be a member epoch (KIP-848).
_MEMBER_EPOCH_VERSION = 9


class ConsumerGroup(ReconciledGroup[ConsumerMember, Assignment]):
    """
    Attributes:
        regexes: Regular expressions in use that have been resolved.
        regex_subscribers: Regular expression in use -> number of members that use it.
        name_subscribers: Set of topic names -> number of members that name exactly these.
        assignor_votes: Assignor -> number of members that ask for it.
        classic_count: Number of members that use the classic protocol.
        owners: Owner of each partition, including partitions that must still be given up.
        version: Number that grows with each change of the other inputs of a member's step: the owners of partitions, and the
            topics that an expression matches. The member and its target are not counted.
        has_old_metadata: Whether the log has a record of type 4, which brokers before 4.1 wrote.
        resolved_at_ms: Elapsed time at which the expressions were resolved; None: never.
        is_resolving, is_downgrading: Whether a job is resolving the expressions, or downgrading the group.
        cannot_downgrade: Whether the present members cannot form a classic group.
        resolve_again_ms: Elapsed time before which the expressions are not resolved again, after a failure.
    """

    type_name: ClassVar[str] = "consumer"
    state_names: ClassVar[tuple[str, ...]] = ("Empty", "Assigning", "Stable", "Reconciling")

    def __init__(self, group_id: str, partition: int) -> None:
        super().__init__(group_id, partition)
        self.regexes: dict[str, ResolvedRegex] = {}
        self.regex_subscribers: dict[str, int] = {}
        self.name_subscribers: dict[frozenset[str], int] = {}
        self.assignor_votes: dict[str, int] = {}
        self.classic_count = 0
        self.version = 0
        self.has_old_metadata = False
        self.is_resolving = False
        self.resolve_again_ms = 0
        self.is_downgrading = False
        self.cannot_downgrade = False
        self.resolved_at_ms: int | None = None
        self.owners = PartitionOwners()
        self._subscribed_topics: frozenset[str] | None = None

    # Methods that all kinds of groups have

    @property
    def protocol_type(self) -> str:
        return CONSUMER_PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, *, is_transactional: bool
    ) -> PartitionCheck | None:
        """See `kinds.Group`. A member may commit with an older epoch if it has owned the partition since that epoch
        (KIP-1251)."""
        if epoch < 0 and not self.members:
            return None
        if is_transactional and epoch == -1 and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if not is_transactional and member.classic is None and version < _MEMBER_EPOCH_VERSION:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"OffsetCommit version {version} is not supported for members of a consumer group; use version"
                f" {_MEMBER_EPOCH_VERSION} or later",
            )
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise _stale(member, f"epoch {epoch} is greater than {member.epoch}, the epoch of member {member_id}")
        return partial(_check_assignment_epoch, member, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            raise _stale(member, f"epoch {epoch} does not match {member.epoch}, the epoch of member {member_id}")

    def check_offset_delete(self) -> None:
        """Allow it at any time: only offsets of subscribed topics are protected."""

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """Topics that any member subscribes to, by name or by regular expression."""
        if self._subscribed_topics is None:
            self._subscribed_topics = all_topics(self.name_subscribers, self.regexes.values())
        return self._subscribed_topics

    def subscribed_without(self, leaving: Collection[ConsumerMember]) -> frozenset[str]:
        """Return the future `subscribed_topics` without these members, and without the expressions that only they use."""
        names = Counter(member.topic_names for member in leaving)
        dropped = self.regexes_dropped_with(leaving)
        stay = [one for one, count in self.name_subscribers.items() if count > names[one]]
        if not dropped and len(stay) == len(self.name_subscribers):
            return self.subscribed_topics
        return all_topics(stay, [one for pattern, one in self.regexes.items() if pattern not in dropped])

    def regexes_dropped_with(self, leaving: Collection[ConsumerMember]) -> frozenset[str]:
        """Return the expressions that only these members use."""
        used = Counter(member.topic_regex for member in leaving if member.topic_regex)
        return frozenset(pattern for pattern, count in used.items() if self.regex_subscribers.get(pattern) == count)

    def tombstone_keys(self) -> list[bytes]:
        return [write_record(*change)[0] for change in tombstones(self.group_id, self.members, self.regexes)]

    # Members

    # For `replay`

    def put(self, member: ConsumerMember) -> None:
        """Add or replace a member, as its record says."""
        before = self.members.get(member.member_id)
        if before is None or _counted(before) != _counted(member):
            if before is not None:
                self._count(before, -1)
            self._count(member, 1)
        if before is not None and before.instance_id != member.instance_id:
            self._forget_instance(before)
        self.members[member.member_id] = member
        self.version += 1
        if self.released and before is not None:
            self.ring_if_moved(before, member)
        self.owners.note(before or ConsumerMember(member.member_id), member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member, -1)
        self.version += 1
        if self.released:
            self.released.ring()
        self.owners.note(member, ConsumerMember(member_id))
        self._forget_instance(member)

    def _forget_instance(self, member: ConsumerMember) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def resolve(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Set the topics that a regular expression matches, or forget the expression."""
        self.version += 1
        self._subscribed_topics = None
        if resolved is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = resolved

    def _count(self, member: ConsumerMember, by: int) -> None:
        """Count one member more, or one less, with this subscription, assignor and protocol."""
        self._subscribed_topics = None
        self.classic_count += by * (member.classic is not None)
        _add(self.name_subscribers, member.topic_names, by)
        if member.topic_regex:
            _add(self.regex_subscribers, member.topic_regex, by)
        if member.assignor is not None:
            _add(self.assignor_votes, member.assignor, by)


def _counted(member: ConsumerMember) -> tuple[object, ...]:
    """Return what a group counts of its members."""
    return member.topic_names, member.topic_regex, member.assignor, member.classic


def all_topics(names: Iterable[frozenset[str]], regexes: Iterable[ResolvedRegex]) -> frozenset[str]:
    """Return the topics that are in any of these lists, or match any of the regular expressions."""
    lists = list(filter(None, chain(names, map(attrgetter("topics"), regexes))))
    # Usually there is one list, which may be long: it is not copied.
    return lists[0] if len(lists) == 1 else frozenset().union(*lists)


def _add(counts: dict[Counted, int], what: Counted, by: int) -> None:
    count = counts.get(what, 0) + by
    if count:
        counts[what] = count
    else:
        del counts[what]


def _stale(member: ConsumerMember, message: str) -> KafkaError:
    code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    return KafkaError(code, message)


def _check_assignment_epoch(member: ConsumerMember, epoch: int, _topic: str, topic_id: bytes, partition: int) -> None:
    since = member.assignment_epoch(topic_id, partition)
    if since is None:
        raise _stale(
            member, f"partition {partition} of topic {topic_id.hex()} is not assigned to member {member.member_id}"
        )
    if epoch < since:
        raise _stale(
            member, f"epoch {epoch} is before {since}, when the partition was assigned to member {member.member_id}"
        )


_NONE: Mapping[int, int] = {}
UNSETTLED_MAX = 16
"""Maximum number of changes that wait to be applied. Each contains the member's earlier assignment."""


class PartitionOwners:
    """Which member has which partition, as it follows from what the members have. A change of thousands of topics goes into the table in pieces later (`apply_waiting`), or when the table is asked for: the
    step that brings the change stays short."""

    def __init__(self) -> None:
        self._table: dict[bytes, dict[int, str]] = {}
        self._unsettled: deque[tuple[ConsumerMember, ConsumerMember]] = deque()
        self._settling: Steps[None] | None = None

    @property
    def is_settled(self) -> bool:
        """Whether all changes are applied to the table."""
        return not self._unsettled

    @property
    def table(self) -> Mapping[bytes, Mapping[int, str]]:
        """Topic id -> partition -> member id, for all partitions that are assigned or being revoked."""
        if self._unsettled:
            to_the_end(self.apply_waiting())
        return self._table

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Whether no member has the partition or must still give it up."""
        if self._unsettled:
            to_the_end(self.apply_waiting())
        return partition not in self._table.get(topic_id, _NONE)

    def note(self, before: ConsumerMember, after: ConsumerMember) -> None:
        """Note a member's new assignment."""
        owned = before.assigned, before.revoking, after.assigned, after.revoking
        if not any(owned) or (before.assigned is after.assigned and before.revoking is after.revoking):
            return
        waiting = self._unsettled
        if not waiting and max(map(len, owned)) <= AT_ONCE:
            to_the_end(self._apply_change(before, after))
            return
        waiting.append((before, after))
        if len(waiting) > UNSETTLED_MAX:
            self._apply_oldest()

    def apply_waiting(self) -> Job:
        """Apply the waiting changes to the table, a topic a piece. Several such jobs may run at the same time."""
        while self._unsettled:
            if self._settling is None:
                self._settling = self._apply_change(*self._unsettled[0])
            try:
                next(self._settling)
            except StopIteration:
                self._settling = None
                self._unsettled.popleft()
            yield

    def _apply_oldest(self) -> None:
        """Apply only the oldest change: the time for all of them grows with their number."""
        left, settling = len(self._unsettled) - 1, self.apply_waiting()
        while len(self._unsettled) > left:
            next(settling)

    def _apply_change(self, before: ConsumerMember, after: ConsumerMember) -> Job:
        pairs = (before.assigned, after.assigned), (before.revoking, after.revoking)
        changed = [(owned, owns) for owned, owns in pairs if owned is not owns]
        # Remove all that is gone first: partitions that are being revoked now were assigned before.
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
