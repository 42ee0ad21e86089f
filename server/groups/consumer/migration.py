"""Migration of a group with members between the classic and the consumer protocol (KIP-848, online migration).

`protocol` calls it when a member of the consumer protocol joins a classic group, and when the last such member leaves;
`group.consumer.migration.policy` says which of the two is allowed. Members of the other protocol stay in the group
(`classic_members`). A group without members does not need it: its records are deleted, and a new group begins.

The change is one batch, and takes effect for all members at once. For a group of hundreds it is prepared in pieces; if the
group changes during that, the preparation restarts.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import ErrorCode, KafkaError, ProtocolError
from ....protocol.messages.consumer_group_log import ClassicMemberMetadata
from ....protocol.messages.consumer_group_log import ClassicProtocol as SupportedProtocol
from ....protocol.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from ...coordination.jobs import Job, Steps
from ...coordination.records import Pair, Records
from ...coordination.store import RecordStore
from ..assigning.assignment import Assignment
from ..assigning.metadata_hash import hashing
from ..assigning.topics import TopicView
from ..classic.group import ClassicGroup, ClassicMember, ClassicState
from ..classic.protocol import ClassicProtocol
from ..classic.records import group_value, make_ready
from ..records import Change, ReadyChange, group_key, write_record
from ..settings import MEMBERS_A_PIECE, GroupSettings
from ..subscription import CONSUMER_PROTOCOL_TYPE, read_assignment, read_subscription, write_assignment
from . import records
from .group import ConsumerGroup
from .member import ConsumerMember
from .records import classic_tombstone, tombstones

if TYPE_CHECKING:
    from ..shard import GroupShard

log = logging.getLogger("ottla.groups")


def is_large(members: Sized) -> bool:
    """Whether a job over this many members is done in pieces."""
    return len(members) > MEMBERS_A_PIECE


# Attempts to prepare a group that changes each time. After that the client gets an error and asks again.
TRIES = 3

CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use."
    " Please refer to the documentation or switch to a default assignor before re-attempting the upgrade"
)
"""Reason why a group whose assignments carry user data is not upgraded, in Apache Kafka's words, which clients show."""


class Upgrade(NamedTuple):
    """A classic group, the consumer group that will replace it, and the records of the change."""

    old: ClassicGroup
    group: ConsumerGroup
    records: Records


class Downgrade(NamedTuple):
    """The classic group that will replace a consumer group, and the records of the change."""

    group: ClassicGroup
    records: Records


class Migration:
    """The rules of migration. All state is in the groups."""

    def __init__(
        self, settings: GroupSettings, store: RecordStore, topics: TopicView, classic: ClassicProtocol
    ) -> None:
        self._settings = settings
        self._store = store
        self._topics = topics
        self._classic = classic

    def upgrade(self, old: ClassicGroup) -> Steps[Upgrade]:
        """Return the consumer group that will replace a classic group with members. Nothing is changed yet.

        Its members are in an epoch equal to their generation, with the partitions that their leader assigned.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND: the upgrade is not allowed or not possible. COORDINATOR_LOAD_IN_PROGRESS: the group
                changed during each attempt. UNKNOWN_SERVER_ERROR: the new group would be too large for a batch.
        """
        for _ in range(TRIES):
            seen = _group_properties(old)
            made = yield from self._upgrade(old)
            if _group_properties(old) == seen:
                return made
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {old.group_id} is rebalancing")

    def _upgrade(self, old: ClassicGroup) -> Steps[Upgrade]:
        members = tuple(old.members.values())
        try:
            problem = self._upgrade_problem(old)
            assignments: list[ConsumerProtocolAssignment] = []
            for member in members:
                if problem is not None:
                    break
                assignments.append(read_assignment(member.assignment))
                if assignments[-1].user_data:
                    problem = CUSTOM_ASSIGNOR
                yield
            if problem is None:
                return (yield from self._made_of(old, members, assignments))
        except ProtocolError as error:
            problem = f"the embedded consumer protocol is malformed: {error}"
        message = f"Cannot upgrade classic group {old.group_id} to consumer group because {problem}."
        log.info("%s", message)
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)

    def _upgrade_problem(self, old: ClassicGroup) -> str | None:
        if not self._settings.may_upgrade:
            return "online upgrade is disabled"
        if old.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return "the group does not use the consumer embedded protocol"
        if len(old.members) > self._settings.group_consumer_max_size:
            return "the group size exceeds the consumer group maximum size"
        return None

    def _made_of(
        self, old: ClassicGroup, members: Sequence[ClassicMember], assignments: Sequence[ConsumerProtocolAssignment]
    ) -> Steps[Upgrade]:
        new = ConsumerGroup(old.group_id, old.partition)
        new.epoch = new.assignment_epoch = old.generation
        # No protocol is chosen before the first rebalance has ended.
        protocol_name = old.protocol_name or old.select_protocol()
        taken: set[tuple[bytes, int]] = set()
        has: list[dict[bytes, dict[int, int]]] = []
        for member, assignment in zip(members, assignments, strict=True):
            has.append({})
            self._claim(taken, has[-1], assignment.assigned_partitions, new.epoch)
            new.targets[member.member_id] = {topic_id: frozenset(indexes) for topic_id, indexes in has[-1].items()}
            yield
        subscriptions = []
        for member in members:
            subscriptions.append(read_subscription(member.metadata(protocol_name)))
            yield
        for member, subscription, assigned in zip(members, subscriptions, has, strict=True):
            # During a rebalance, members may still own partitions that they are not assigned again (KIP-429).
            self._claim(taken, assigned, subscription.owned_partitions, new.epoch)
            new.put(
                ConsumerMember(
                    member.member_id,
                    epoch=new.epoch,
                    previous_epoch=new.epoch,
                    instance_id=member.group_instance_id,
                    rack_id=subscription.rack_id or None,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    topic_names=frozenset(subscription.topics),
                    assigned=assigned,
                    classic=ClassicMemberMetadata(
                        session_timeout_ms=member.session_timeout_ms,
                        supported_protocols=tuple(
                            SupportedProtocol(name=name, metadata=metadata) for name, metadata in member.protocols
                        ),
                    ),
                )
            )
            yield
        new.metadata_hash = yield from hashing(new.subscribed_topics, self._topics)
        max_bytes = self._store.max_batch_bytes(old.partition)
        written = Records([write_record(*classic_tombstone(old.group_id))])
        for change in group_conversion_records(new):
            written.add((yield from change))
            if written.batch_bytes > max_bytes:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"consumer group with {len(members)} members is too large (limit {max_bytes} bytes in one batch)",
                )
            yield
        return Upgrade(old, new, written)

    def _claim(
        self,
        taken: set[tuple[bytes, int]],
        assigned: dict[bytes, dict[int, int]],
        topics: Iterable[TopicPartition],
        epoch: int,
    ) -> None:
        """Give a member the partitions, of these, that have no owner yet."""
        for topic_id, indexes in self.by_id(topics).items():
            for index in indexes:
                if (topic_id, index) not in taken:
                    taken.add((topic_id, index))
                    assigned.setdefault(topic_id, {})[index] = epoch

    def close(self, old: ClassicGroup, now_ms: int) -> Job:
        """End a classic group that is a consumer group now; its parked members get an error and join again."""
        return self._classic.close(old, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)

    def may_downgrade(self, old: ConsumerGroup, staying: Collection[ConsumerMember]) -> bool:
        """Whether the group must become a classic one when only these members are left."""
        if not staying or any(member.classic is None for member in staying):
            return False
        if not self._settings.may_downgrade:
            log.info("group %s: cannot be downgraded because online downgrade is disabled", old.group_id)
            return False
        if len(staying) > self._settings.group_max_size:
            log.info(
                "group %s: cannot be downgraded because it exceeds the maximum size of a classic group", old.group_id
            )
            return False
        return True

    def downgrade(
        self, old: ConsumerGroup, staying: Sequence[tuple[ConsumerMember, Assignment]], now_ms: int
    ) -> Steps[Downgrade]:
        """Return a stable classic group of some members, in a generation equal to the group's epoch. Nothing is changed yet.

        Args:
            staying: The members of the new group, all of them classic, each with its target.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR: a member's metadata is not of the consumer protocol.
        """
        new = self._classic.new_group(old.group_id, old.partition, now_ms)
        new.generation = old.epoch
        for member, _ in staying:
            assert member.classic is not None
            new.add(
                self._classic.adopt(
                    new,
                    ClassicMember(
                        member.member_id,
                        group_instance_id=member.instance_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        rebalance_timeout_ms=member.rebalance_timeout_ms,
                        session_timeout_ms=member.classic.session_timeout_ms,
                        protocol_type=CONSUMER_PROTOCOL_TYPE,
                        protocols=tuple((one.name, one.metadata) for one in member.classic.supported_protocols),
                    ),
                )
            )
            yield
        new.protocol_name = new.select_protocol()
        new.state = ClassicState.STABLE
        yield from new.read_subscriptions()
        assignments: dict[str, bytes] = {}
        for (_, target), classic_member in zip(staying, new.members.values(), strict=True):
            assignment = self.assignment(classic_member.metadata(new.protocol_name), target)
            assignments[classic_member.member_id] = classic_member.assignment = assignment
            make_ready(classic_member, new.protocol_name)
            yield
        written = Records()
        for change in tombstones(old.group_id, tuple(old.members), tuple(old.regexes)):
            written.add(write_record(*change))
            yield
        written.add((group_key(new.group_id), group_value(new, assignments)))
        return Downgrade(new, written)

    def install(self, shard: GroupShard, made: Downgrade, now_ms: int, *, must_rebalance: bool) -> ClassicGroup:
        """Replace the consumer group with the classic group that was made of it.

        Args:
            must_rebalance: Whether the members' assignments are out of date.

        Raises:
            KafkaError: The partition cannot be written; nothing has changed.
        """
        new = made.group
        self._store.append(shard.partition, made.records, now_ms)
        shard.groups[new.group_id] = new
        self._classic.take_up(new, now_ms)
        if must_rebalance:
            self._classic.rebalancing.start(new, now_ms)
        log.info("group %s: downgraded to a classic group in generation %d", new.group_id, new.generation)
        return new

    def assignment(self, subscription: bytes, partitions: Mapping[bytes, Collection[int]]) -> bytes:
        """Return partitions by topic id in the form for the classic consumer that sent `subscription`. Raises KafkaError
        UNKNOWN_SERVER_ERROR if that is not of the consumer protocol."""
        by_name = {
            name: indexes
            for topic_id, indexes in partitions.items()
            if (name := self._topics.name_of(topic_id)) is not None
        }
        try:
            return write_assignment(subscription, by_name)
        except ProtocolError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    def by_id(self, topics: Iterable[TopicPartition]) -> dict[bytes, frozenset[int]]:
        """Return the partitions that a classic consumer names, by topic id; topics that do not exist are left out."""
        known: dict[bytes, frozenset[int]] = {}
        for topic in topics:
            if topic.partitions and (topic_id := self._topics.id_of(topic.topic)) is not None:
                known[topic_id] = known.get(topic_id, frozenset()) | frozenset(topic.partitions)
        return known


def _group_properties(group: ClassicGroup) -> tuple[object, ...]:
    """Return the properties of a group that its upgrade is made of."""
    members = [
        (one, one.member_id, one.protocols, one.assignment, one.rebalance_timeout_ms, one.session_timeout_ms)
        for one in group.members.values()
    ]
    return group.generation, group.protocol_name, members


def group_conversion_records(group: ConsumerGroup) -> Iterator[Steps[Pair]]:
    """Return all records of a group, for one that was not made by heartbeats; each record in pieces."""
    group_id, members = group.group_id, group.members.values()
    yield from (_pair_of(records.writing_member(group_id, member)) for member in members)
    yield _write_change(records.group_epoch(group_id, group.epoch, group.metadata_hash))
    yield from (
        _pair_of(records.writing_target(group_id, member.member_id, group.targets.get(member.member_id, {})))
        for member in members
    )
    yield _write_change(records.target_metadata(group_id, group.assignment_epoch, group.assignment_ms))
    yield from (_pair_of(records.writing_current(group_id, member)) for member in members)


def _pair_of(writing: Steps[ReadyChange]) -> Steps[Pair]:
    return (yield from writing).pair


def _write_change(change: Change) -> Steps[Pair]:
    yield
    return write_record(*change)
