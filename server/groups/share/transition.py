"""A member's news on their way into its group: everything is computed and put down as records, nothing is touched.

The steps, in this order: what the member says of itself; if subscriptions, topics or initialized partitions changed, the group's epoch
grows; if that is above the target assignment's, there is another one; the member has at once what it should have; the states of
partitions that are new to the group are asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ...coordination.jobs import to_the_end
from ..assigning.assignment import Assignment
from ..assigning.metadata_hash import MetadataHashes
from ..assigning.topics import TopicView
from ..records import Change, ReadyChange
from ..settings import GROUP_NAMES_MAX, GroupSettings
from . import records, targets
from .group import ShareGroup
from .member import ShareMember
from .states import PARTITIONS_MAX, TOPICS_MAX, StateTable, Topics

log = logging.getLogger("ottla.groups")


class ShareSurroundings(NamedTuple):
    """`now_ms` is written, intervals go by `elapsed_ms`; `max_bytes` fit into a batch.

    Attributes:
        is_asking: The share coordinator was asked to begin states of the group, and has not answered yet.
    """

    settings: GroupSettings
    topics: TopicView
    hashes: MetadataHashes
    now_ms: int
    elapsed_ms: int
    max_bytes: int
    is_asking: bool


class ShareTransition:
    """
    Args:
        old: The member before, as the group knows it, or as one that has just come.
        new: The member with its news.
        ready: What may have been written of it already.

    Attributes:
        changes: What is to be written; complete after `run`.
        member: The member after its step.
        epoch: Of the group.
        names: All topics that are subscribed to.
        has_assigned: There is another target assignment.
        must_assign: There is to be one, which takes too long to make it here.
        has_seen_topics: The group need not look at its topics again unless they change.
        asked_for: Partitions whose states are to be begun, once this is written.
    """

    def __init__(self, group: ShareGroup, old: ShareMember, new: ShareMember, ready: ReadyChange | None = None) -> None:
        self.group = group
        self._ready = ready
        self.old = old
        self.member = new
        self.changes: list[Change | ReadyChange] = []
        self.epoch = group.epoch
        self.names = group.subscribed_topics
        self.has_assigned = False
        self.must_assign = False
        self.has_seen_topics = False
        self.asked_for: Topics = {}
        self._around: ShareSurroundings

    def run(self, around: ShareSurroundings) -> None:
        """Do all the steps, once.

        Raises:
            KafkaError: GROUP_MAX_SIZE_REACHED (names).
        """
        self._around = around
        group, new = self.group, self.member
        must_bump = self._take_news()
        if group.assignment_epoch >= group.epoch:
            must_bump |= group.has_unassigned_states
        must_bump = self._take_topics(must_bump=must_bump)
        epoch, assignment = self._take_target()
        if epoch != new.epoch:
            self.member = replace(
                new, epoch=epoch, previous_epoch=new.epoch, state=0, assigned=self._subscribed(assignment)
            )
        elif must_bump:
            self.member = replace(new, assigned=self._subscribed(assignment))
        if self.member != new:
            self.changes.append(records.current_assignment(group.group_id, self.member))
        self._ask_for_states()

    def _take_news(self) -> bool:
        """Whether the member subscribes to something else than before."""
        group, old, new = self.group, self.old, self.member
        if new != old or new.member_id not in group.members:
            if self._ready is not None and self._ready.made_of == new:
                self.changes.append(self._ready)
            else:
                self.changes.append(records.member_metadata(group.group_id, new))
        if new.topic_names == old.topic_names:
            return False
        lists = group.name_subscribers
        count = sum(map(len, lists)) + (0 if new.topic_names in lists else len(new.topic_names))
        if count > GROUP_NAMES_MAX:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"Members of the group subscribe to too many topics by name in different lists ({count}, limit"
                f" {GROUP_NAMES_MAX}).",
            )
        others = group.subscribed_without(old) if old.member_id in group.members else group.subscribed_topics
        self.names = others | new.topic_names
        return True

    def _take_topics(self, *, must_bump: bool) -> bool:
        """Bring the group to its next epoch if there is a reason; whether there was."""
        group = self.group
        is_refreshed = group.refresh_at_ms is not None and self._around.elapsed_ms < group.refresh_at_ms
        if is_refreshed and not must_bump:
            return False
        self.has_seen_topics = True
        if group.refresh_at_ms is not None and not is_refreshed:
            self._around.hashes.forget()  # It is time to look whether nobody said so.
        topics_hash = self._around.hashes.of(self.names)
        if not must_bump and topics_hash == group.metadata_hash:
            return False
        self.epoch += 1
        self.changes.append(records.group_epoch(group.group_id, self.epoch, topics_hash))
        log.info("group %s: epoch %d", group.group_id, self.epoch)
        return True

    def _take_target(self) -> tuple[int, Assignment]:
        """The target assignment's epoch and the member's part in it: another one if the group's epoch is ahead, the
        last one is old enough, and it does not take long."""
        group, new, around = self.group, self.member, self._around
        held = group.targets.get(new.member_id, {})
        since_ms = inf if group.assigned_at_ms is None else around.elapsed_ms - group.assigned_at_ms
        if group.assignment_epoch >= self.epoch or since_ms < around.settings.of_group(
            group.group_id, "share.assignment.interval.ms"
        ):
            return group.assignment_epoch, held
        members: Mapping[str, ShareMember] = {**group.members, new.member_id: new}
        self.must_assign = group.is_assigning or targets.are_many(len(members), self.names, group.initialized)
        if self.must_assign:
            return group.assignment_epoch, held
        assigned = to_the_end(
            targets.new_targets(members, group.targets, group.initialized, around.topics, around.max_bytes)
        )
        self.changes += targets.changes(group, assigned, self.epoch, around.now_ms)
        self.has_assigned = True
        return self.epoch, assigned[new.member_id]

    def _subscribed(self, assignment: Assignment) -> Assignment:
        """Without topics that the member subscribes to no longer."""
        names, name_of = self.member.topic_names, self._around.topics.name_of
        return {topic_id: partitions for topic_id, partitions in assignment.items() if name_of(topic_id) in names}

    def _ask_for_states(self) -> None:
        group, around = self.group, self._around
        # Its question has ended with the process that asked, or the answer could not be written down.
        is_left = group.states is not None and bool(group.states.initializing) and not around.is_asking
        if group.looked_for == (self.names, group.states, group.topics_known_to) and not is_left:
            return
        known = StateTable() if group.states is None else group.states
        existing = around.hashes.existing(self.names, 2 * TOPICS_MAX + 1)
        self.asked_for = _missing(known, existing, around.topics, is_left=is_left)
        if self.asked_for:
            table = known.asked_for(self.asked_for, around.topics.name_of)
            self.changes.append(records.state_partitions(group.group_id, table))


def _missing(
    known: StateTable, names: Iterable[str], topics: TopicView, *, is_left: bool
) -> dict[bytes, frozenset[int]]:
    """The partitions of these topics, which go by their order, whose states are to be asked for; `is_left`: those
    that are initializing as well."""
    found: dict[bytes, frozenset[int]] = {}
    ids = known.topic_ids()
    topics_left = TOPICS_MAX - len(ids)
    left = PARTITIONS_MAX - known.partition_count
    none = frozenset[int]()
    for name in names:
        topic_id = topics.id_of(name)
        if topic_id is None:
            continue
        has = known.initialized[topic_id].partitions if topic_id in known.initialized else none
        if not is_left and topic_id in known.initializing:
            has |= known.initializing[topic_id].partitions
        count = topics.partition_count(topic_id)
        if len(has) < count:
            wanted = frozenset(range(count)) - has
            again = topic_id in known.initializing
            topics_left -= topic_id not in ids
            left -= 0 if again else len(wanted)
            if topics_left < 0 or left < 0:
                log.warning("the topics of a share group exceed its limit of partition states")
                break
            found[topic_id] = wanted
    return found
