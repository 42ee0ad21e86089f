"""The effects of a member's changes on its group, computed as records. The group itself is not changed here.

`protocol` makes one for each heartbeat. Its steps, in this order: the member's metadata is updated. If subscriptions or topics
changed, the group's epoch grows. If that is above the target assignment's epoch, a new target is made. The member makes one
step towards its target.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from math import inf
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
)
from ...coordination.jobs import to_the_end
from ..assigning.assignors import ASSIGNORS
from ..assigning.metadata_hash import MetadataHashes
from ..assigning.regexes import REFRESH_AT_MOST_EVERY_MS, check_regex
from ..assigning.topics import TopicView
from ..records import Change, ReadyChange
from ..settings import GROUP_NAMES_MAX, GroupSettings
from . import records, targets
from .group import ConsumerGroup
from .member import ConsumerMember
from .reconciliation import Claim, PrecomputedStep, Target, next_step

log = logging.getLogger("ottla.groups")


class ConsumerHeartbeatContext(NamedTuple):
    """The state outside the group. `topics_version` grows with every new topic: regular expressions may match other topics now.
    `now_ms` is written to records; intervals are measured by `elapsed_ms`."""

    settings: GroupSettings
    topics: TopicView
    hashes: MetadataHashes
    topics_version: int
    now_ms: int
    elapsed_ms: int


class ConsumerTransition:
    """
    Args:
        old: The member before the heartbeat, as the group knows it, or a new member.
        new: The member with the heartbeat's changes.
        replaced: The static member that it replaces (`membership.returned_member`).
        changes: Changes that must be written first.
        made: Changes that were prepared.
        ahead: The member's step, if it was prepared.

    Attributes:
        changes: Changes that must be written; complete after `run`.
        member: The member after its step.
        has_stepped: Whether the member's assignment, state or epoch changed.
        has_assigned: Whether a new target assignment was made.
        must_assign: Whether a job must make a new one, since it takes too long here.
        has_seen_topics: Whether the group's topics were looked up, so that it need not be done again unless they change.
        must_resolve: Whether the group's regular expressions must be matched again once the changes are written.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        old: ConsumerMember,
        new: ConsumerMember,
        replaced: ConsumerMember | None,
        changes: list[Change | ReadyChange],
        made: Collection[ReadyChange] = (),
        ahead: PrecomputedStep | None = None,
    ) -> None:
        self.group = group
        self.old = old
        self.member = new
        self.replaced = replaced
        self.changes = changes
        self._made = made
        self._ahead = ahead
        self.has_assigned = False
        self.must_assign = False
        self.has_seen_topics = False
        self.has_stepped = False
        self.must_resolve = False
        self._around: ConsumerHeartbeatContext
        self._epoch = group.epoch
        self._dropped_regex: str | None = None
        self._must_bump = False

    def run(self, around: ConsumerHeartbeatContext, claim: Claim) -> None:
        """Do all the steps, once.

        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION, GROUP_MAX_SIZE_REACHED (names), FENCED_MEMBER_EPOCH (a state that this
                coordinator does not know).
        """
        self._around = around
        new = self.member
        if self.replaced is not None:
            self._replace_static(self.replaced)
        if new != self.old:
            self._put_member(new)
        has_new_subscription = self._take_subscription()
        self._take_topics(has_new_subscription=has_new_subscription)
        epoch, assignment = self._take_target()
        if has_new_subscription or not new.is_reconciled_to(epoch):
            ahead, group = self._ahead, self.group
            if ahead is not None and ahead.leads(
                group, new, epoch, assignment, has_new_subscription=has_new_subscription
            ):
                self._take(ahead)
                return
            subscribes_to = targets.subscribing(new, group.regexes, around.topics)
            self.member = next_step(
                new, Target(epoch, assignment, subscribes_to, has_new_subscription, group.owners.is_free), claim
            )
        self.has_stepped = self.member != new
        if self.has_stepped:
            self.changes.append(records.current_assignment(self.group.group_id, self.member))

    def _replace_static(self, replaced: ConsumerMember) -> None:
        """Replace a static member by `old`, its successor, which takes over its target and its partitions."""
        group_id, heir, held = self.group.group_id, self.old, self.group.targets.get(replaced.member_id, {})
        self.changes += records.member_tombstones(group_id, replaced.member_id)
        self._put_member(heir)
        made = self._ready(ConsumerGroupTargetAssignmentMemberKey, (heir.member_id, held))
        self.changes.append(made or records.target(group_id, heir.member_id, held))
        made = self._ready(ConsumerGroupCurrentMemberAssignmentKey, heir)
        self.changes.append(made or records.current_assignment(group_id, heir))

    def _put_member(self, member: ConsumerMember) -> None:
        made = self._ready(ConsumerGroupMemberMetadataKey, member)
        self.changes.append(made or records.member_metadata(self.group.group_id, member))

    def _ready(self, key: type, made_of: object) -> ReadyChange | None:
        """Return the prepared change with a key of this class that was made of this object, if there is one."""
        for one in self._made:
            if type(one.change[0]) is key and one.made_of == made_of:
                return one
        return None

    def _take(self, ahead: PrecomputedStep) -> None:
        self.member, self.has_stepped = ahead.after, ahead.made is not None
        if ahead.made is not None:
            self.changes.append(ahead.made)

    def _take_subscription(self) -> bool:
        """Check the member's subscription, and return whether it differs from the one before.

        A new regular expression brings the group to its next epoch only once it has been matched with the topics.
        """
        group, old, new = self.group, self.old, self.member
        has_new_names = new.topic_names != old.topic_names
        has_new_regex = new.topic_regex != old.topic_regex
        is_unknown = False
        self._must_bump = has_new_names or self._is_other_assignor()
        if has_new_names:
            self._check_names()
        if has_new_regex:
            if old.topic_regex and group.regex_subscribers.get(old.topic_regex) == 1:
                self._dropped_regex = old.topic_regex
                self.changes.append(records.regex(group.group_id, old.topic_regex, None))
            if not new.topic_regex:
                self._must_bump |= bool(old.topic_regex)
            elif new.topic_regex not in group.regex_subscribers:
                check_regex(new.topic_regex)
                is_unknown = True
            else:
                self._must_bump |= new.topic_regex in group.regexes
        if is_unknown or group.regex_subscribers:
            self.must_resolve = self._is_time_to_resolve(is_unknown=is_unknown)
        return is_subscription_changed(old, new)

    def _is_other_assignor(self) -> bool:
        """Whether the member's vote gives the group another assignor, as counts in Apache Kafka since 4.4.0."""
        if self.member.assignor == self.old.assignor:
            return False
        group, default = self.group, self._around.settings.group_consumer_assignors[0]
        before = targets.preferred_assignor(group.assignor_votes, default)
        return targets.preferred_with(group, self.old, self.member, default) != before

    def _subscribed_topics(self) -> frozenset[str]:
        """Return the topics that any member subscribes to, with this member's changes."""
        group = self.group
        before = self.replaced or group.members.get(self.old.member_id)
        others = group.subscribed_topics if before is None else group.subscribed_without([before])
        return others | targets.names_of(self.member, group.regexes)

    def _check_names(self) -> None:
        """Raise GROUP_MAX_SIZE_REACHED if the group would name too many topics. Members that name the same topics count
        once."""
        lists = self.group.name_subscribers
        count = sum(map(len, lists)) + (0 if self.member.topic_names in lists else len(self.member.topic_names))
        if count > GROUP_NAMES_MAX:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"Members of the group subscribe to too many topics by name in different lists ({count}, limit"
                f" {GROUP_NAMES_MAX}).",
            )

    def _is_time_to_resolve(self, *, is_unknown: bool) -> bool:
        in_use = set(self.group.regex_subscribers) - {self._dropped_regex}
        if self.member.topic_regex:
            in_use.add(self.member.topic_regex)
        if not in_use or not self.group.regexes:
            return bool(in_use)
        last = next(iter(self.group.regexes.values()))
        since_ms = _since(self.group.resolved_at_ms, self._around.elapsed_ms)
        if since_ms <= REFRESH_AT_MOST_EVERY_MS:
            return False
        return (
            is_unknown
            or len(in_use) != len(self.group.regexes)
            or last.version < self._around.topics_version
            or since_ms > self._around.settings.group_consumer_regex_refresh_interval_ms
        )

    def _take_topics(self, *, has_new_subscription: bool) -> None:
        """Bring the group to its next epoch if subscriptions or topics have changed."""
        group = self.group
        is_refreshed = group.refresh_at_ms is not None and self._around.elapsed_ms < group.refresh_at_ms
        if is_refreshed and not self._must_bump:
            return
        self.has_seen_topics = True
        if group.refresh_at_ms is not None and not is_refreshed:
            self._around.hashes.forget()  # The interval has ended: look up all topics, also without a notified change.
        names = self._subscribed_topics() if has_new_subscription else group.subscribed_topics
        topics_hash = self._around.hashes.hash_of(names)
        if self._must_bump or topics_hash != group.metadata_hash:
            self._epoch += 1
            self.changes.append(records.group_epoch(group.group_id, self._epoch, topics_hash))
            log.info("group %s: epoch %d", group.group_id, self._epoch)
        if group.has_old_metadata:
            self.changes.append(records.old_metadata_tombstone(group.group_id))

    def _take_target(self) -> tuple[int, Mapping[bytes, frozenset[int]]]:
        """Return the target assignment's epoch and the member's part of it. A new target is made if the group's epoch is ahead,
        the last target is old enough, and the work does not take long."""
        group, new, settings = self.group, self.member, self._around.settings
        holder = self.replaced or new
        held = group.targets.get(holder.member_id, {})
        since_ms = _since(group.assigned_at_ms, self._around.elapsed_ms)
        interval_ms = settings.of_group(group.group_id)["consumer.assignment.interval.ms"]
        if group.assignment_epoch >= self._epoch or since_ms < interval_ms:
            return group.assignment_epoch, held
        members = dict(group.members)
        if self.replaced is not None:
            del members[self.replaced.member_id]
        members[new.member_id] = new
        self.must_assign = group.is_assigning or targets.are_many(
            len(members), group.subscribed_topics | new.topic_names, self._around.topics
        )
        if self.must_assign:
            return group.assignment_epoch, held
        name = targets.preferred_with(group, self.old, new, settings.group_consumer_assignors[0])
        before = group.targets if self.replaced is None else {**group.targets, new.member_id: held}
        assigned = to_the_end(targets.new_targets(group.regexes, members, before, ASSIGNORS[name], self._around.topics))
        self.changes += targets.changes(group.group_id, before, assigned, self._epoch, self._around.now_ms)
        self.has_assigned = True
        return self._epoch, assigned[new.member_id]


def is_subscription_changed(old: ConsumerMember, new: ConsumerMember) -> bool:
    return new.topic_names != old.topic_names or new.topic_regex != old.topic_regex


def _since(at_ms: int | None, elapsed_ms: int) -> float:
    return inf if at_ms is None else elapsed_ms - at_ms
