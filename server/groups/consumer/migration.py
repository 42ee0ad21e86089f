"""A group with members changes between the classic and the consumer protocol, and back (KIP-848, online migration).

Called by `protocol` when a member of the consumer protocol joins a classic group, and when the last of them leaves;
`group.consumer.migration.policy` says which of the two may happen. Members of the other protocol stay where they are
(`classic_members`). Groups without members change without this: their records are deleted, and a new group begins.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode, KafkaError, ProtocolError
from ....protocol.messages.consumer_group_log import ClassicMemberMetadata
from ....protocol.messages.consumer_group_log import ClassicProtocol as SupportedProtocol
from ....protocol.messages.consumer_protocol import TopicPartition
from ...coordination.jobs import to_the_end
from ...coordination.store import RecordStore
from ..classic import ClassicProtocol
from ..group import ClassicGroup, GroupState
from ..group import Member as ClassicMember
from ..records import group_key, group_value, write_record
from ..settings import GroupSettings
from ..subscription import CONSUMER_PROTOCOL_TYPE, read_assignment, read_subscription, write_assignment
from .assignment import Assignment
from .group import ConsumerGroup
from .member import Member
from .metadata_hash import metadata_hash
from .records import tombstones
from .topics import TopicView

if TYPE_CHECKING:
    from ..shard import Shard

log = logging.getLogger("ottla.groups")


class Migration:
    """The rules of changing over; the state is all in the groups."""

    def __init__(
        self, settings: GroupSettings, store: RecordStore, topics: TopicView, classic: ClassicProtocol
    ) -> None:
        self._settings = settings
        self._store = store
        self._topics = topics
        self._classic = classic

    def upgraded(self, old: ClassicGroup) -> ConsumerGroup:
        """The consumer group that a classic group with members becomes; nothing has changed yet.

        Its members are in the epoch that was their generation, with the partitions that their leader gave them.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND: it may not, or cannot, change.
        """
        try:
            problem = self._upgrade_problem(old)
            if problem is None:
                return self._upgraded(old)
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
        if any(read_assignment(member.assignment).user_data for member in old.members.values()):
            return "an unsupported custom assignor is in use"
        return None

    def _upgraded(self, old: ClassicGroup) -> ConsumerGroup:
        new = ConsumerGroup(old.group_id, old.partition)
        new.epoch = new.assignment_epoch = old.generation
        # No protocol is chosen before the first rebalance is over.
        protocol_name = old.protocol_name or old.select_protocol()
        subscriptions = {one.member_id: read_subscription(one.metadata(protocol_name)) for one in old.members.values()}
        owners: dict[tuple[bytes, int], str] = {}
        for member in old.members.values():
            self._claim(owners, member.member_id, read_assignment(member.assignment).assigned_partitions)
        targets = _by_member(owners)
        # In the middle of a rebalance members may still have what they are not given again (KIP-429).
        for member_id, subscription in subscriptions.items():
            self._claim(owners, member_id, subscription.owned_partitions)
        assigned = _by_member(owners)
        for member in old.members.values():
            subscription = subscriptions[member.member_id]
            new.targets[member.member_id] = {
                topic_id: frozenset(indexes) for topic_id, indexes in targets[member.member_id].items()
            }
            new.put(
                Member(
                    member.member_id,
                    epoch=old.generation,
                    previous_epoch=old.generation,
                    instance_id=member.group_instance_id,
                    rack_id=subscription.rack_id or None,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    topic_names=frozenset(subscription.topics),
                    assigned={
                        topic_id: dict.fromkeys(indexes, old.generation)
                        for topic_id, indexes in assigned[member.member_id].items()
                    },
                    classic=ClassicMemberMetadata(
                        session_timeout_ms=member.session_timeout_ms,
                        supported_protocols=tuple(
                            SupportedProtocol(name=name, metadata=metadata) for name, metadata in member.protocols
                        ),
                    ),
                )
            )
        new.metadata_hash = metadata_hash(new.subscribed_topics, self._topics)
        log.info("group %s: upgraded to a consumer group in epoch %d", new.group_id, new.epoch)
        return new

    def _claim(self, owners: dict[tuple[bytes, int], str], member_id: str, topics: Iterable[TopicPartition]) -> None:
        """Give a member those of these partitions that have no owner yet."""
        for topic_id, indexes in self.by_id(topics).items():
            for index in indexes:
                owners.setdefault((topic_id, index), member_id)

    def close(self, old: ClassicGroup, now_ms: int) -> None:
        """A classic group is a consumer group now; members that wait for an answer find out by joining again."""
        self._classic.close(old, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)

    def may_downgrade(self, old: ConsumerGroup, staying: Collection[Member]) -> bool:
        """Whether the group has to become a classic one when only these members are left."""
        if not staying or any(member.classic is None for member in staying):
            return False
        if not self._settings.may_downgrade:
            log.info("group %s: cannot be downgraded because online downgrade is disabled", old.group_id)
            return False
        if len(staying) > self._settings.group_max_size:
            log.info("group %s: cannot be downgraded, it is larger than a classic group may be", old.group_id)
            return False
        return True

    def downgrade(
        self,
        shard: Shard,
        old: ConsumerGroup,
        staying: Sequence[tuple[Member, Assignment]],
        now_ms: int,
        *,
        must_rebalance: bool,
    ) -> ClassicGroup:
        """Make a stable classic group of some members, in the generation that was the group's epoch.

        Args:
            staying: The members of the new group, all of them classic, and what each should have.
            must_rebalance: What they should have is out of date.

        Raises:
            KafkaError: The partition cannot be written; nothing has changed. UNKNOWN_SERVER_ERROR: what a member brought
                along is not of the consumer protocol.
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
        new.protocol_name = new.select_protocol()
        new.state = GroupState.STABLE
        to_the_end(new.read_subscriptions())
        for member, target in staying:
            classic_member = new.members[member.member_id]
            classic_member.assignment = self.assignment(classic_member.metadata(new.protocol_name), target)
        assignments = {one.member_id: one.assignment for one in new.members.values()}
        deleted = [write_record(*change) for change in tombstones(old.group_id, old.members, old.regexes)]
        made = group_key(new.group_id), group_value(new, assignments)
        self._store.append(shard.partition, [*deleted, made], now_ms)
        shard.groups[new.group_id] = new
        to_the_end(self._classic.loaded(new, now_ms))
        if must_rebalance:
            self._classic.rebalancing.start(new, now_ms)
        log.info("group %s: downgraded to a classic group in generation %d", new.group_id, new.generation)
        return new

    def assignment(self, subscription: bytes, partitions: Mapping[bytes, Collection[int]]) -> bytes:
        """Partitions by topic id, as the classic consumer that sent `subscription` is told them; KafkaError
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
        """What a classic consumer names, by topic id; topics that are gone are left out."""
        known: dict[bytes, frozenset[int]] = {}
        for topic in topics:
            if topic.partitions and (topic_id := self._topics.id_of(topic.topic)) is not None:
                known[topic_id] = known.get(topic_id, frozenset()) | frozenset(topic.partitions)
        return known


def _by_member(owners: Mapping[tuple[bytes, int], str]) -> defaultdict[str, dict[bytes, set[int]]]:
    by_member: defaultdict[str, dict[bytes, set[int]]] = defaultdict(dict)
    for (topic_id, index), member_id in owners.items():
        by_member[member_id].setdefault(topic_id, set()).add(index)
    return by_member
