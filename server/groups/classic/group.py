"""One classic consumer group as a table: its members, their votes, its state and generation.

Its callers are `protocol` (which has the rules over time), `groups.descriptions`, and `groups.coordinator`, which expires
groups. This module sets no deadlines, writes no records and reads no clock.

    Empty ──────────► PreparingRebalance ◄────────────┐
      ▲                 │           ▲                 │
      │  no member      │           │ a member joins, │
      └─────────────────┤           │ leaves or fails │
                        ▼           │                 │
              CompletingRebalance ──┘     Stable ─────┘
                        └────────────────►
                         the leader's assignment

Source: KIP-62, KIP-345 (static members), KIP-394 (required member ids).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import ClassVar

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.join_group import JoinGroupResponse
from ....protocol.messages.sync_group import SyncGroupResponse
from ...coordination.bell import Bell
from ...coordination.deadlines import Deadline
from ...coordination.jobs import Job
from ..records import CommittedOffset, group_key
from ..subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics

Protocols = tuple[tuple[str, bytes], ...]
"""The assignment strategies that a member offers, best first: (name, metadata)."""


def size_of(protocols: Protocols) -> int:
    """Return roughly the number of bytes that these protocols take."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)


JoinReply = Callable[[JoinGroupResponse], None]
SyncReply = Callable[[SyncGroupResponse], None]


class ClassicState(Enum):
    """States of a classic group, by the names that Kafka shows to users."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# State -> states from which it may be entered. Every state may end in DEAD: deleted, or unloaded with its partition.
ENTERED_FROM = {
    ClassicState.EMPTY: {ClassicState.PREPARING_REBALANCE},
    ClassicState.PREPARING_REBALANCE: {ClassicState.EMPTY, ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE},
    ClassicState.COMPLETING_REBALANCE: {ClassicState.PREPARING_REBALANCE},
    ClassicState.STABLE: {ClassicState.COMPLETING_REBALANCE},
    ClassicState.DEAD: set(ClassicState),
}


class ClassicMember:
    """One member of a classic group; static (KIP-345) when it has a `group_instance_id`.

    Attributes:
        assignment: The member's part of the leader's assignment in this generation; empty while a rebalance runs.
        is_new: Whether no JoinGroup of the member has been answered, so it cannot send heartbeats yet.
        join_reply: Callback for the answer to its parked JoinGroup; None if none is parked.
        sync_reply: The same for SyncGroup.
        session: Deadline at which the member counts as failed. The creator of the member must set it.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_reply",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "sync_reply",
        "written",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.session: Deadline
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.join_reply: JoinReply | None = None
        self.sync_reply: SyncReply | None = None
        self.written: tuple[str | None, bytes] | None = None
        """The member's part of the group's record for a protocol, without its assignment (`records.make_ready`)."""

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the member's metadata for that protocol; empty if the member does not offer it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    @property
    def awaits_rebalance(self) -> bool:
        """Whether the member waits for the coordinator's answer, so that silence is no sign of failure."""
        return not self.is_new and (self.join_reply is not None or self.sync_reply is not None)


class ClassicGroup:
    """The members, votes and state of one classic group.

    A group without protocol type is a "simple" one: it exists only because a client without group membership committed offsets.

    Attributes:
        partition: Partition of `__consumer_offsets` that contains the group's records.
        members: Members by member id, in the order of joining.
        static_members: Group instance id -> member id, for members that have one.
        pending: Member ids that were returned (KIP-394) and not used yet, each with the deadline until which it is valid.
        pending_sync: Members that are notified of this generation and have not sent SyncGroup yet.
        previous_state: State before the present one; it distinguishes the first rebalance of an empty group from later ones.
        new_member_added: Whether a member joined during the initial delay, so that the delay must be extended.
        delay_ms, delay_left_ms: Length of the present initial delay, and how much may still be added.
        subscribed_topics: Topics of all members, for consumer groups whose subscriptions can be read; else None.
        protocol_bytes: Size of the protocols of all members, see `size_of`.
        rejoin: Deadline of a rebalance for JoinGroups. `sync_by`: the same for SyncGroups.
    """

    type_name: ClassVar[str] = "classic"
    state_names: ClassVar[tuple[str, ...]] = tuple(state.value for state in ClassicState)

    def __init__(self, group_id: str, now_ms: int, *, partition: int, rejoin: Deadline, sync_by: Deadline) -> None:
        self.group_id = group_id
        self.partition = partition
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.DEAD
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending: dict[str, Deadline] = {}
        self.pending_sync: set[str] = set()
        self.new_member_added = False
        self.delay_ms = 0
        self.delay_left_ms = 0
        self.subscribed_topics: frozenset[str] | None = None
        self.rejoin = rejoin
        self.sync_by = sync_by
        self.awaiting_join_count = 0
        self.protocol_bytes = 0
        self.is_completing = False
        """Whether a job is removing the members that did not join."""
        self.bell = Bell()
        """Rings when the state changes, or a member is removed or gets another id."""
        self._supporters: dict[str, int] = {}

    # States

    def enter(self, state: ClassicState, now_ms: int) -> None:
        """Change the state. The table of allowed changes protects against errors of this code."""
        if self.state not in ENTERED_FROM[state]:
            raise RuntimeError(f"{self.group_id}: {self.state} -> {state}")
        self.previous_state, self.state = self.state, state
        self.state_since_ms = now_ms
        self.bell.ring()

    def is_current_generation(self, generation: int) -> bool:
        """Whether this is the present generation, and no rebalance towards the next one has begun."""
        return self.generation == generation and self.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)

    @property
    def can_rebalance(self) -> bool:
        return self.state in ENTERED_FROM[ClassicState.PREPARING_REBALANCE]

    def next_generation(self, now_ms: int) -> None:
        """End the joining phase: choose the protocol, or become empty if no member is left. The caller must run
        `read_subscriptions` next."""
        self.generation = self.generation + 1 & 0x7FFF_FFFF
        self.pending_sync.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = None
        self.enter(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now_ms)

    # Members

    def has(self, member: ClassicMember) -> bool:
        """Whether this very member object is still in the group."""
        return self.members.get(member.member_id) is member

    def add(self, member: ClassicMember, reply: JoinReply | None = None) -> None:
        """Add a new member. The first one gives the group its protocol type and becomes the leader."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.members[member.member_id] = member
        self._count_supporters(member, 1)
        self.await_join(member, reply)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member or pending member id. If the member was the leader, the member that joined next becomes the
        leader."""
        self.pending.pop(member_id, None)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count_supporters(member, -1)
        self.await_join(member, None)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.bell.ring()
        return member

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """Give a static member that returned its new id; it keeps place, leadership and assignment."""
        assert member.group_instance_id is not None
        if self.leader == member.member_id:
            self.leader = member_id
        self.members = {member_id if known == member.member_id else known: one for known, one in self.members.items()}
        if member.member_id in self.pending_sync:
            self.pending_sync.remove(member.member_id)
            self.pending_sync.add(member_id)
        self.static_members[member.group_instance_id] = member_id
        member.member_id = member_id
        member.written = None
        self.bell.ring()

    def update(
        self, member: ClassicMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Replace the protocols and time-outs of a member that joins again."""
        self._count_supporters(member, -1)
        member.protocols = protocols
        self._count_supporters(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        member.written = None

    def await_join(self, member: ClassicMember, reply: JoinReply | None) -> None:
        """Park the member's JoinGroup; with None, mark it as no longer parked."""
        self.awaiting_join_count += (reply is not None) - (member.join_reply is not None)
        member.join_reply = reply

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, else choose a member that has. Return False if no member has joined."""
        leader = None if self.leader is None else self.members[self.leader]
        if leader is not None and leader.join_reply is None:
            joined = (member.member_id for member in self.members.values() if member.join_reply is not None)
            chosen = next(joined, None)
            self.leader = chosen or self.leader
            return chosen is not None
        return leader is not None

    @property
    def all_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance time-out of any member."""
        return max((0, *(member.rebalance_timeout_ms for member in self.members.values())))

    # Protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols is compatible with all present members."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        size = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._supporters.get(name, 0) == size for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Return the protocol that all members offer and most of them prefer; of several, the one that was voted for first."""
        size = len(self.members)
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(name for name, _ in member.protocols if self._supporters[name] == size)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=votes.__getitem__)

    def read_subscriptions(self) -> Job:
        """Read the topics that the members of a consumer group subscribe to. Until then every topic counts as subscribed to."""
        self.subscribed_topics = None
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            if not self.members:
                self.subscribed_topics = frozenset()
            elif self.protocol_name is not None:
                generation = self.generation
                blobs = [member.metadata(self.protocol_name) for member in self.members.values()]
                topics = yield from subscribed_topics(blobs)
                if self.generation == generation:
                    self.subscribed_topics = topics

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic. True also for a consumer group whose subscriptions cannot be read: its
        offsets must not be deleted."""
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def _count_supporters(self, member: ClassicMember, by: int) -> None:
        self.protocol_bytes += by * size_of(member.protocols)
        # A set, because a member that names a protocol twice is still one supporter.
        for name in {name for name, _ in member.protocols}:
            self._supporters[name] = self._supporters.get(name, 0) + by
            if not self._supporters[name]:
                del self._supporters[name]

    # Checks of requests

    def member_error(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE if the request comes from a member, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when a newer member has
        taken over the instance id."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # Methods of `kinds.Group`

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def may_expire(self) -> bool:
        return self.state is ClassicState.EMPTY and not self.pending

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, *, is_transactional: bool
    ) -> None:
        """See `kinds.Group`.

        Generation -1 with an empty member id is a consumer that assigns partitions by hand, or an admin client; it may
        commit while the group has no members. A producer that names no member (KIP-447) may always commit.
        """
        if error := self._commit_error(member_id, instance_id, epoch, is_transactional=is_transactional):
            raise KafkaError(error, f"group {self.group_id} in generation {self.generation}: {error.name}")

    def _commit_error(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool
    ) -> ErrorCode:
        if generation < 0 and self.state is ClassicState.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
        if error := self.member_error(member_id, instance_id):
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is ClassicState.COMPLETING_REBALANCE and not is_transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Allow every caller to fetch."""

    def check_offset_delete(self) -> None:
        if self.state is not ClassicState.EMPTY and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id} has members")

    def offsets_age_from(self) -> Callable[[CommittedOffset], int] | None:
        """Offsets of an empty group age from the moment it became empty (KIP-211); offsets of an active consumer group, or of a
        group without protocol type, age from their commit."""
        if self.protocol_type is not None and self.state is ClassicState.EMPTY:
            since_ms = self.state_since_ms
            return lambda committed: committed.commit_ms if since_ms < 0 else since_ms
        is_read = self.protocol_type == CONSUMER_PROTOCOL_TYPE and self.subscribed_topics is not None
        if self.protocol_type is None or (is_read and self.state is ClassicState.STABLE):
            return lambda committed: committed.commit_ms
        return None

    def tombstone_keys(self) -> list[bytes]:
        return [group_key(self.group_id)]
