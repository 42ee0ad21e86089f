"""The consumer group protocol: what heartbeats, leaves, time-outs and changed topics do to a group (KIP-848).

Called by `coordinator` with an active shard. Every event becomes a list of records, computed without touching anything;
they are appended as one batch and only then applied, by the same code that applies them at a load. An event that fails
leaves no trace.

What happens at a heartbeat, in this order: the member is found or joins; its news are taken; if subscriptions or topics
changed, the group's epoch grows; if that is above the target assignment's, another one is computed; the member does one
step towards it (`reconciliation`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_group_heartbeat import (
    Assignment as AssignmentMessage,
)
from ....protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ...coordination.deadlines import Deadline, Deadlines
from ...coordination.store import RecordStore
from ..classic import Caller
from ..group import ClassicGroup
from ..records import write_record
from ..settings import GroupSettings
from . import records, targets
from .assignment import Assignment
from .assignors import ASSIGNORS
from .group import ConsumerGroup, ResolvedRegex, Timers, subscribed_topics
from .member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, Member, MemberState, Owned
from .metadata_hash import metadata_hash
from .reconciliation import Claim, Target, next_step
from .records import Change
from .regexes import REFRESH_AT_MOST_EVERY_MS, check_regex, resolve
from .topics import TopicView

if TYPE_CHECKING:
    from ..shard import Shard

log = logging.getLogger("ottla.groups")

# Topics are looked at again after this time even if nobody said that they changed.
_REFRESH_AFTER_MS = 2**31 - 1
# When a member is to be removed and the partition cannot be written, it is tried again after this time.
_RETRY_MS = 500


class ConsumerProtocol:
    """The rules of consumer groups over time; the state is all in the groups.

    Args:
        close_classic: Called with a classic group that has become a consumer group.
    """

    def __init__(
        self,
        settings: GroupSettings,
        store: RecordStore,
        deadlines: Deadlines,
        topics: TopicView,
        new_id: Callable[[], str],
        close_classic: Callable[[ClassicGroup, int], None],
    ) -> None:
        self._settings = settings
        self._store = store
        self._deadlines = deadlines
        self._topics = topics
        self._new_id = new_id
        self._close_classic = close_classic
        self._topics_version = 0
        """Grows with every new topic, beyond a restart: what regular expressions match may have changed."""

    # Groups

    def activated(self, now_ms: int) -> None:
        """Groups are about to be taken up: which topics came since they were written down nobody knows."""
        self._topics_version = max(self._topics_version, now_ms)

    def loaded(self, shard: Shard, group: ConsumerGroup, now_ms: int) -> None:
        """Take up a group as it was written down: its members have a full session time to show up."""
        for member in group.members.values():
            self._keep_alive(shard, group, member.member_id, now_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._await_revocation(shard, group, member, now_ms)

    def close(self, group: ConsumerGroup) -> None:
        """The group is gone or not ours any more."""
        for member_id in tuple(group.timers):
            self._stop_timers(group, member_id)

    def topics_changed(self, shards: Iterable[Shard], names: Collection[str], now_ms: int, *, has_new: bool) -> None:
        """Topics were created (`has_new`), deleted or got more partitions: the groups concerned find out by the next
        heartbeat of any member."""
        if has_new:
            self._topics_version = max(self._topics_version + 1, now_ms)
        for shard in shards:
            for group in shard.groups.values():
                if isinstance(group, ConsumerGroup) and any(map(group.subscribes_to, names)):
                    group.refresh_ms = 0

    def default_assignor(self) -> str:
        return self._settings.group_consumer_assignors[0]

    # Heartbeats

    def heartbeat(
        self, shard: Shard, request: ConsumerGroupHeartbeatRequest, caller: Caller, now_ms: int
    ) -> ConsumerGroupHeartbeatResponse:
        """Let a member join, stay or leave.

        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID,
                FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, or what writing it down failed with.
                Nothing has changed then.
        """
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(shard, request, now_ms)
        changes: list[Change] = []
        group = self._group_for(shard, request, changes)
        old, replaced = self._member_for(group, request, changes)
        new = _with_news(old, request, caller)
        event = _Event(group, old, new, replaced, changes)
        has_new_subscription = self._take_subscription(event, now_ms)
        epoch, is_refreshed = self._take_topics(event, now_ms)
        target = self._take_target(event, epoch, now_ms)
        claim = _claim(request)
        stepped = new
        if has_new_subscription or not new.is_reconciled_to(target.epoch):
            subscribed = targets.Subscriptions(self._topics, group.regexes).topic_ids(new)
            stepped = next_step(
                new, Target(target.epoch, target.assignment, subscribed, has_new_subscription, group.is_free), claim
            )
        if stepped != new:
            changes.append(records.current_assignment(group.group_id, stepped))
        self.write(shard, group.group_id, changes, now_ms)
        group = _consumer_group(group.group_id, shard.groups.get(group.group_id))
        if is_refreshed:
            group.refresh_ms = now_ms + _REFRESH_AFTER_MS
        if replaced is not None:
            self._stop_timers(group, replaced.member_id)
        self._keep_alive(shard, group, stepped.member_id, now_ms)
        if stepped != new:
            self._await_revocation(shard, group, stepped, now_ms)
        if event.must_resolve:
            self._resolve_regexes(shard, group, now_ms)
        is_full = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        return ConsumerGroupHeartbeatResponse(
            member_id=stepped.member_id,
            member_epoch=stepped.epoch,
            heartbeat_interval_ms=self._settings.group_consumer_heartbeat_interval_ms,
            assignment=_message(stepped.assigned)
            if request.member_epoch == 0 or is_full or stepped.assigned != old.assigned
            else None,
        )

    def _group_for(self, shard: Shard, request: ConsumerGroupHeartbeatRequest, changes: list[Change]) -> ConsumerGroup:
        """The group; a new one, or one in place of an empty classic group, for a member that joins."""
        group_id = request.group_id
        group = shard.groups.get(group_id)
        is_joining = request.member_epoch == 0
        if is_joining and (group is None or (isinstance(group, ClassicGroup) and group.is_empty)):
            if group is not None:
                changes.append(records.classic_tombstone(group_id))
            group = ConsumerGroup(group_id, shard.partition)
        group = _consumer_group(group_id, group)
        limit = self._settings.group_consumer_max_size
        if len(group.members) >= limit and request.member_id not in group.members:
            message = f"The consumer group has reached its maximum capacity of {limit} members."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        return group

    def _member_for(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, changes: list[Change]
    ) -> tuple[Member, Member | None]:
        """The member that sends this, new or known, and the static one that it takes the place of."""
        member_id = request.member_id or self._new_id()
        instance_id = request.instance_id
        is_joining = request.member_epoch == 0
        if instance_id is None:
            member = group.members.get(member_id)
            if member is None and is_joining:
                log.info("group %s: member %s joins", group.group_id, member_id)
                return Member(member_id), None
            member = group.member(member_id)
            _check_epoch(member, request)
            return member, None
        known = group.static_member(instance_id)
        if not is_joining:
            return _check_static(known, request), None
        log.info("group %s: static member %s joins as %s", group.group_id, instance_id, member_id)
        if known is None:
            return group.members.get(member_id) or Member(member_id), None
        if known.classic is None and known.epoch != STATIC_LEAVE_EPOCH:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {known.member_id} member.",
            )
        member = replace(known, member_id=member_id, epoch=0, previous_epoch=0)
        changes += records.member_tombstones(group.group_id, known.member_id)
        changes.append(records.member_metadata(group.group_id, member))
        changes.append(records.target(group.group_id, member_id, group.targets.get(known.member_id, {})))
        changes.append(records.current_assignment(group.group_id, member))
        return member, known

    def _take_subscription(self, event: _Event, now_ms: int) -> bool:
        """Write down the member's news; whether it subscribes to something else than before."""
        group, old, new, changes = event.group, event.old, event.new, event.changes
        if new != old:
            changes.append(records.member_metadata(group.group_id, new))
        has_new_names = new.topic_names != old.topic_names
        has_new_regex = new.topic_regex != old.topic_regex
        event.must_bump = has_new_names
        must_resolve = False
        if has_new_regex:
            if old.topic_regex and group.regex_subscribers.get(old.topic_regex) == 1:
                event.dropped_regex = old.topic_regex
                changes.append(records.regex(group.group_id, old.topic_regex, None))
            if not new.topic_regex:
                event.must_bump = event.must_bump or bool(old.topic_regex)
            elif new.topic_regex not in group.regex_subscribers:
                check_regex(new.topic_regex)
                must_resolve = True
            elif new.topic_regex in group.regexes:
                event.must_bump = True
        if must_resolve or group.regex_subscribers:
            event.must_resolve = self._must_resolve(event, must_resolve, now_ms)
        return has_new_names or has_new_regex

    def _must_resolve(self, event: _Event, is_new: bool, now_ms: int) -> bool:
        """Whether the group's regular expressions are to be matched again with all topics; not too often."""
        group = event.group
        last = next(iter(group.regexes.values()), None)
        if last is not None and now_ms <= last.resolved_ms + REFRESH_AT_MOST_EVERY_MS:
            return False
        in_use = set(group.regex_subscribers) - {event.dropped_regex} | {event.new.topic_regex or None}
        in_use.discard(None)
        return bool(in_use) and (
            is_new
            or last is None
            or len(in_use) != len(group.regexes)
            or last.version < self._topics_version
            or now_ms > last.resolved_ms + self._settings.group_consumer_regex_refresh_interval_ms
        )

    def _take_topics(self, event: _Event, now_ms: int) -> tuple[int, bool]:
        """The group's epoch, which grows if subscriptions or topics have changed; and whether topics were looked at."""
        group, changes = event.group, event.changes
        epoch = group.epoch
        if not event.must_bump and now_ms < group.refresh_ms:
            return epoch, False
        regexes = (one for pattern, one in group.regexes.items() if pattern != event.dropped_regex)
        topics_hash = metadata_hash(subscribed_topics(event.members().values(), regexes), self._topics)
        if event.must_bump or topics_hash != group.metadata_hash:
            epoch += 1
            changes.append(records.group_epoch(group.group_id, epoch, topics_hash))
            log.info("group %s: epoch %d", group.group_id, epoch)
        if group.has_old_metadata:
            changes.append(records.old_metadata_tombstone(group.group_id))
        return epoch, True

    def _take_target(self, event: _Event, epoch: int, now_ms: int) -> _MemberTarget:
        """The target assignment: another one if the group's epoch is ahead of it, and the last is old enough."""
        group, new = event.group, event.new
        holder = event.replaced or group.static_member(new.instance_id) or new
        interval_ms = self._settings.group_consumer_assignment_interval_ms
        is_too_early = bool(group.assignment_ms) and now_ms < group.assignment_ms + interval_ms
        if group.assignment_epoch >= epoch or is_too_early:
            return _MemberTarget(group.assignment_epoch, group.targets.get(holder.member_id, {}))
        members = event.members()
        before = dict(group.targets)
        before[new.member_id] = group.targets.get(holder.member_id, {})
        name = targets.preferred_assignor(members.values(), self.default_assignor())
        assigned = targets.new_targets(group, members, before, ASSIGNORS[name], self._topics)
        event.changes += targets.changes(group, assigned, epoch, now_ms)
        return _MemberTarget(epoch, assigned[new.member_id])

    def _resolve_regexes(self, shard: Shard, group: ConsumerGroup, now_ms: int) -> None:
        """Match the group's regular expressions with all topics; members get what is new at their next heartbeats."""
        resolved = {
            pattern: ResolvedRegex(topics, self._topics_version, now_ms)
            for pattern, topics in resolve(group.regex_subscribers, self._topics.names()).items()
        }
        changes = [records.regex(group.group_id, pattern, one) for pattern, one in resolved.items()]
        names = subscribed_topics(group.members.values(), {**group.regexes, **resolved}.values())
        topics_hash = metadata_hash(names, self._topics)
        is_news = any(
            one.topics != (group.regexes[pattern].topics if pattern in group.regexes else frozenset())
            for pattern, one in resolved.items()
        )
        if is_news or topics_hash != group.metadata_hash:
            changes.append(records.group_epoch(group.group_id, group.epoch + 1, topics_hash))
        try:
            self.write(shard, group.group_id, changes, now_ms)
        except KafkaError as error:
            # The next heartbeat finds them unresolved, or old.
            log.warning("group %s: regular expressions cannot be resolved: %s", group.group_id, error)

    # Leaving

    def _leave(
        self, shard: Shard, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> ConsumerGroupHeartbeatResponse:
        group = _consumer_group(request.group_id, shard.groups.get(request.group_id))
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = _check_identity(group.static_member(request.instance_id), request)
        if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
            log.info("group %s: static member %s leaves for a while", group.group_id, request.instance_id)
            # What it owns stays with it, and a commit of whoever takes its place is as good as its own.
            kept = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
            away = replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=kept, revoking={})
            self.write(shard, group.group_id, [records.current_assignment(group.group_id, away)], now_ms)
        else:
            log.info("group %s: member %s leaves", group.group_id, member.member_id)
            self.remove(shard, group, [member], now_ms)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def remove(self, shard: Shard, group: ConsumerGroup, leaving: Collection[Member], now_ms: int) -> None:
        """Take members out of the group; what they had is free at once.

        Raises:
            KafkaError: The partition cannot be written; they are still in.
        """
        gone = {member.member_id for member in leaving}
        stay = [member for member in group.members.values() if member.member_id not in gone]
        dropped = {member.topic_regex for member in leaving} - {member.topic_regex for member in stay}
        changes = [change for member_id in gone for change in records.member_tombstones(group.group_id, member_id)]
        changes += [records.regex(group.group_id, pattern, None) for pattern in dropped if pattern]
        regexes = (one for pattern, one in group.regexes.items() if pattern not in dropped)
        topics_hash = metadata_hash(subscribed_topics(stay, regexes), self._topics)
        changes.append(records.group_epoch(group.group_id, group.epoch + 1, topics_hash))
        self.write(shard, group.group_id, changes, now_ms)
        for member_id in gone:
            self._stop_timers(group, member_id)

    # Time

    def _keep_alive(self, shard: Shard, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        timers = group.timers.get(member_id)
        if timers is None:
            timers = group.timers[member_id] = Timers(Deadline(partial(self._session_is_over, shard, group, member_id)))
        self._deadlines.set(timers.session, now_ms + self._settings.group_consumer_session_timeout_ms)

    def _await_revocation(self, shard: Shard, group: ConsumerGroup, member: Member, now_ms: int) -> None:
        """Give the member its time to give up partitions, if it has to; it begins anew with each of its steps."""
        timers = group.timers[member.member_id]
        if timers.revocation is not None:
            self._deadlines.clear(timers.revocation)
            timers.revocation = None
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            action = partial(self._revocation_is_over, shard, group, member.member_id, member.epoch)
            timers.revocation = Deadline(action)
            self._deadlines.set(timers.revocation, now_ms + member.rebalance_timeout_ms)

    def _stop_timers(self, group: ConsumerGroup, member_id: str) -> None:
        timers = group.timers.pop(member_id, None)
        if timers is not None:
            self._deadlines.clear(timers.session)
            if timers.revocation is not None:
                self._deadlines.clear(timers.revocation)

    def _session_is_over(self, shard: Shard, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        log.info("group %s: member %s failed", group.group_id, member_id)
        try:
            self.remove(shard, group, [group.members[member_id]], now_ms)
        except KafkaError as error:
            log.warning("group %s: member %s stays for now: %s", group.group_id, member_id, error)
            self._deadlines.set(group.timers[member_id].session, now_ms + _RETRY_MS)

    def _revocation_is_over(self, shard: Shard, group: ConsumerGroup, member_id: str, epoch: int, now_ms: int) -> None:
        member = group.members[member_id]
        if member.epoch == epoch:
            log.info("group %s: member %s did not give up partitions in time", group.group_id, member_id)
            try:
                self.remove(shard, group, [member], now_ms)
            except KafkaError as error:
                log.warning("group %s: member %s stays for now: %s", group.group_id, member_id, error)
                if (revocation := group.timers[member_id].revocation) is not None:
                    self._deadlines.set(revocation, now_ms + _RETRY_MS)

    # Records

    def write(self, shard: Shard, group_id: str, changes: Collection[Change], now_ms: int) -> None:
        """Append changes of one group as one batch, then apply them; errors as `RecordStore.append`."""
        if not changes:
            return
        before = shard.groups.get(group_id)
        self._store.append(shard.partition, [write_record(*change) for change in changes], now_ms)
        for key, value in changes:
            shard.apply(key, value)
        if isinstance(before, ClassicGroup):
            self._close_classic(before, now_ms)


class _MemberTarget(NamedTuple):
    epoch: int
    assignment: Assignment


class _Event:
    """One heartbeat on its way: the group as it is, the member before and after its news, and what is to be written."""

    def __init__(
        self, group: ConsumerGroup, old: Member, new: Member, replaced: Member | None, changes: list[Change]
    ) -> None:
        self.group = group
        self.old = old
        self.new = new
        self.replaced = replaced
        self.changes = changes
        self.must_bump = False
        self.must_resolve = False
        self.dropped_regex: str | None = None

    def members(self) -> Mapping[str, Member]:
        """The members as they will be."""
        members = {**self.group.members, self.new.member_id: self.new}
        if self.replaced is not None and self.replaced.member_id != self.new.member_id:
            del members[self.replaced.member_id]
        return members


def _consumer_group(group_id: str, group: object) -> ConsumerGroup:
    """Raises KafkaError GROUP_ID_NOT_FOUND if it is none."""
    if isinstance(group, ConsumerGroup):
        return group
    message = f"Consumer group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _with_news(member: Member, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> Member:
    """The member with what the request says; what it leaves out has not changed."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _claim(request: ConsumerGroupHeartbeatRequest) -> Claim:
    if request.topic_partitions is None:
        return None
    claim: dict[bytes, set[int]] = {}
    for topic in request.topic_partitions:
        claim.setdefault(topic.topic_id, set()).update(topic.partitions)
    return claim


def _check_epoch(member: Member, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise FENCED_MEMBER_EPOCH for a member that knows another epoch than we do, unless our last answer may have been
    lost: then it names the epoch before, and owns nothing but what it was given since."""
    epoch = request.member_epoch
    if epoch in (0, member.epoch):
        return
    is_greater = epoch > member.epoch
    if not is_greater and epoch == member.previous_epoch:
        claim = _claim(request)
        if claim is not None and all(
            partitions <= member.assigned.get(topic_id, {}).keys() for topic_id, partitions in claim.items()
        ):
            return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if is_greater else 'smaller'} member epoch ({epoch}) than the one "
        f"known by the group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _check_identity(known: Member | None, request: ConsumerGroupHeartbeatRequest) -> Member:
    """The static member of that instance id, if it is the one that sends this."""
    if known is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
    if known.member_id != request.member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member "
            f"{known.member_id}.",
        )
    return known


def _check_static(known: Member | None, request: ConsumerGroupHeartbeatRequest) -> Member:
    member = _check_identity(known, request)
    _check_epoch(member, request)
    return member


def _message(assigned: Owned) -> AssignmentMessage:
    return AssignmentMessage(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(epochs)))
            for topic_id, epochs in sorted(assigned.items())
        )
    )
