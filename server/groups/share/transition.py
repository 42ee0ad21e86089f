"""The effects of a member's changes on its group, computed as records. The group itself is not changed here.

The steps, in this order: the member's metadata is updated. If subscriptions, topics or initialized partitions changed, the
group's epoch grows. If that is above the target assignment's epoch, a new target is made. The member gets its target at once.
The states of partitions that are new to the group are requested.
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


class ShareHeartbeatContext(NamedTuple):
    """The state outside the group. `now_ms` is written to records, intervals are measured by `elapsed_ms`, and `max_bytes` is
    the limit of a batch.

    Attributes:
        is_asking: Whether a request for states of the group is open at the share coordinator.
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
        old: The member before the heartbeat, as the group knows it, or a new member.
        new: The member with the heartbeat's changes.
        ready: The member's record, if it was prepared.

    Attributes:
        changes: Changes that must be written; complete after `run`.
        member: The member after its step.
        epoch: Epoch of the group.
        names: All topics that members subscribe to.
        has_assigned: Whether a new target assignment was made.
        must_assign: Whether a job must make a new one, since it takes too long here.
        has_seen_topics: Whether the group's topics were looked up, so that it need not be done again unless they change.
        asked_for: Partitions whose states must be requested once the changes are written.
        known_topics: Topics of `asked_for` that have other states, initialized or requested.
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
        self.known_topics = frozenset[bytes]()
        self._around: ShareHeartbeatContext

    def run(self, around: ShareHeartbeatContext) -> None:
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
        """Apply the member's changes, and return whether its subscription differs from the one before."""
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
        """Bring the group to its next epoch if there is a reason, and return whether there was."""
        group = self.group
        is_refreshed = group.refresh_at_ms is not None and self._around.elapsed_ms < group.refresh_at_ms
        if is_refreshed and not must_bump:
            return False
        self.has_seen_topics = True
        if group.refresh_at_ms is not None and not is_refreshed:
            self._around.hashes.forget()  # The interval has ended: look up all topics, also without a notified change.
        topics_hash = self._around.hashes.hash_of(self.names)
        if not must_bump and topics_hash == group.metadata_hash:
            return False
        self.epoch += 1
        self.changes.append(records.group_epoch(group.group_id, self.epoch, topics_hash))
        log.info("group %s: epoch %d", group.group_id, self.epoch)
        return True

    def _take_target(self) -> tuple[int, Assignment]:
        """Return the target assignment's epoch and the member's part of it. A new target is made if the group's epoch is ahead,
        the last target is old enough, and the work does not take long."""
        group, new, around = self.group, self.member, self._around
        held = group.targets.get(new.member_id, {})
        since_ms = inf if group.assigned_at_ms is None else around.elapsed_ms - group.assigned_at_ms
        interval_ms = around.settings.of_group(group.group_id)["share.assignment.interval.ms"]
        if group.assignment_epoch >= self.epoch or since_ms < interval_ms:
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
        """Return the assignment without topics that the member no longer subscribes to."""
        names, name_of = self.member.topic_names, self._around.topics.name_of
        return {topic_id: partitions for topic_id, partitions in assignment.items() if name_of(topic_id) in names}

    def _ask_for_states(self) -> None:
        group, around = self.group, self._around
        # States without an open request: the process that sent it has ended, or the answer could not be written.
        is_left = group.states is not None and bool(group.states.initializing) and not around.is_asking
        if group.looked_for == (self.names, group.states, group.topics_known_to) and not is_left:
            return
        known = StateTable() if group.states is None else group.states
        existing = around.hashes.existing_names(self.names, 2 * TOPICS_MAX + 1)
        self.asked_for = _missing(known, existing, around.topics, is_left=is_left)
        if self.asked_for:
            self.known_topics = frozenset(self.asked_for.keys() & {*known.initialized, *known.initializing})
            table = known.with_requested(self.asked_for, around.topics.name_of)
            self.changes.append(records.state_partitions(group.group_id, table))


def _missing(
    known: StateTable, names: Iterable[str], topics: TopicView, *, is_left: bool
) -> dict[bytes, frozenset[int]]:
    """Return the partitions of these topics, in their order, whose states must be requested; with `is_left` also those that are
    initializing."""
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
