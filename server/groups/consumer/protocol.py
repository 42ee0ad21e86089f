"""The consumer group protocol (KIP-848): the effects of heartbeats, leaves, time-outs and topic changes on a group.

`groups.coordinator` calls it with an active shard. Every event becomes a list of records, computed without changing the group
(`transition` for heartbeats). They are appended as one batch and only then applied, by the same code that applies them at a
load. An event that fails changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ...coordination.deadlines import Deadlines
from ...coordination.jobs import AT_ONCE, Job, Steps, to_the_end
from ...coordination.store import RecordStore
from ..assigning.assignors import ASSIGNORS
from ..assigning.regexes import REFRESH_AT_MOST_EVERY_MS, resolve
from ..assigning.topics import TopicView
from ..classic.group import ClassicGroup
from ..classic.protocol import Caller
from ..reconciled_protocol import ReconciledProtocol, assigning
from ..records import Change, ReadyChange, records_of, write_record
from ..settings import GroupSettings
from . import records, targets
from .group import ConsumerGroup, all_topics
from .member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, ConsumerMember, ConsumerMemberState, ResolvedRegex, away
from .membership import claim_of, claiming, consumer_group, member_for, with_news
from .migration import TRIES, Migration, Upgrade, is_large
from .reconciliation import Claim, PrecomputedStep, PreparedHeartbeat, Target, has_many, precomputed_step
from .transition import ConsumerHeartbeatContext, ConsumerTransition, is_subscription_changed

if TYPE_CHECKING:
    from ..shard import GroupShard

log = logging.getLogger("ottla.groups")

# Topics are looked up again after this time even without a notified change.
_REFRESH_AFTER_MS = 2**31 - 1


class ConsumerProtocol(ReconciledProtocol[ConsumerGroup]):
    """See `ReconciledProtocol`."""

    kind = "consumer"

    def __init__(
        self,
        settings: GroupSettings,
        store: RecordStore,
        deadlines: Deadlines,
        topics: TopicView,
        migration: Migration,
        new_id: Callable[[], str],
        start_job: Callable[[GroupShard, Job], None],
        start_farewell: Callable[[Job], None],
    ) -> None:
        super().__init__(settings, store, deadlines, topics, self._remove_one)
        self._start_job = start_job
        self._start_farewell = start_farewell
        self._migration = migration
        self._new_id = new_id
        self._topics_version = 0
        """Version of the topics. It grows with every new topic, also beyond a restart: regular expressions may match other
        topics now."""

    # Groups

    def activated(self, now_ms: int) -> None:
        """Prepare for loaded groups: topics may have been created since they were written, so the topics get a new version."""
        self._topics_version = max(self._topics_version, now_ms)

    def loaded(self, shard: GroupShard, group: ConsumerGroup, now_ms: int) -> Job:
        """See `ReconciledProtocol.loaded`."""
        for regex in group.regexes.values():
            group.resolved_at_ms = self._elapsed_ms() - max(0, now_ms - regex.resolved_ms)
            # Versions come from the wall clock, which may have been set back.
            self._topics_version = max(self._topics_version, regex.version + 1)
        yield from super().loaded(shard, group, now_ms)
        self._settle(shard, group)

    def _settle(self, shard: GroupShard, group: object) -> None:
        """Apply the waiting changes of owners soon: members of the classic protocol read them at once."""
        if isinstance(group, ConsumerGroup) and not group.owners.is_settled:
            self._start_job(shard, group.owners.apply_waiting())

    def _take_up(self, shard: GroupShard, group: ConsumerGroup, now_ms: int) -> None:
        loading = self.loaded(shard, group, now_ms)
        if is_large(group.members):
            self._start_job(shard, loading)
        else:
            to_the_end(loading)

    def keep_alive(self, shard: GroupShard, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Restart the member's session, as it has sent something. A classic member has set its own session time-out."""
        if member.classic is None:
            super().keep_alive(shard, group, member)
        else:
            self.timers.keep_alive(shard, group, member.member_id, member.classic.session_timeout_ms)

    def is_quiet(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """See `ReconciledProtocol.is_quiet`."""
        is_stable = member.state is ConsumerMemberState.STABLE
        return is_stable and group.epoch <= group.assignment_epoch == member.epoch

    def is_waiting(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """See `ReconciledProtocol.is_waiting`."""
        if member.state is ConsumerMemberState.STABLE:
            return super().is_waiting(group, member)
        return member.state is ConsumerMemberState.UNRELEASED_PARTITIONS

    def _await_revocation(self, shard: GroupShard, group: ConsumerGroup, member: ConsumerMember) -> None:
        self.timers.unlimit(group, member.member_id)
        if member.state is ConsumerMemberState.UNREVOKED_PARTITIONS and member.classic is None:
            self.timers.limit(shard, group, member)

    def take_leave(self, group: ClassicGroup | ConsumerGroup, closing: Job) -> None:
        """Run the job that closes a replaced group: at once if the group is small."""
        if is_large(group.members):
            self._start_farewell(closing)
        else:
            to_the_end(closing)

    def topics_are_new(self, now_ms: int) -> None:
        """Give the topics a new version, as some were created."""
        self._topics_version = max(self._topics_version + 1, now_ms)

    # Heartbeats

    def unchanged(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> ConsumerGroupHeartbeatResponse | None:
        """Return the answer to a heartbeat that changes nothing but the member's session; None if `heartbeat` may have more to
        do. `heartbeat` would return the same answer."""
        group = shard.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup) or (member := group.members.get(request.member_id)) is None:
            return None
        if (
            not 0 < member.epoch == request.member_epoch
            or group.group_id in shard.groups_going
            or not group.is_at_rest(member.epoch, self._changes.count, self._elapsed_ms())
            or member.state is not ConsumerMemberState.STABLE
            or request.topic_partitions is not None
            or group.regex_subscribers
            or with_news(member, request, caller) != member
        ):
            return None
        self.keep_alive(shard, group, member)
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._settings.of_group(group.group_id)["consumer.heartbeat.interval.ms"],
        )

    def preparing(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> Steps[PreparedHeartbeat]:
        """Look up the topics that the group will subscribe to, which may be thousands, as `heartbeat` will. Also prepare the
        records of a member that names thousands, and the step of a member that has or gets as many partitions."""
        group, named = shard.groups.get(request.group_id), frozenset(request.subscribed_topic_names or ())
        names, old = named, None
        if isinstance(group, ConsumerGroup):
            old = group.members.get(request.member_id)
            is_other = old is not None and (request.member_epoch == LEAVE_EPOCH or (named and named != old.topic_names))
            others = group.subscribed_without([old]) if old is not None and is_other else group.subscribed_topics
            names = named | others if named else others  # No copy of thousands of names without changes.
        yield from self._hashes.preparing(names)
        claim, member_id, made = (
            (yield from claiming(request)),
            request.member_id or self._new_id(),
            list[ReadyChange](),
        )
        if len(named) > AT_ONCE:
            member = with_news(old or ConsumerMember(member_id), request, caller)
            if member != old:
                made.append((yield from records.writing_member(request.group_id, member)))
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            return PreparedHeartbeat(claim, away=(yield from self._preparing_leave(shard, request)))
        for _ in range(TRIES):
            group = shard.groups.get(request.group_id)
            version = group.version if isinstance(group, ConsumerGroup) else 0
            more, step = yield from self._preparing_step(group, replace(request, member_id=member_id), caller, claim)
            if not isinstance(group, ConsumerGroup) or group.version == version:
                break
        return PreparedHeartbeat(claim, member_id, (*made, *more), step=step)

    def _preparing_leave(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest
    ) -> Steps[tuple[ConsumerMember, ReadyChange] | None]:
        group = shard.groups.get(request.group_id)
        known = group.static_member(request.instance_id) if isinstance(group, ConsumerGroup) else None
        if known is None or not has_many(known, {}):
            return None
        return known, (yield from records.writing_current(request.group_id, away(known)))

    def _preparing_step(
        self, group: object, request: ConsumerGroupHeartbeatRequest, caller: Caller, claim: Claim
    ) -> Steps[tuple[list[ReadyChange], PrecomputedStep | None]]:
        """Prepare the step that `heartbeat` makes while the group's target stays the same; a small group's target may change in
        that same call. Also prepare the records of a static member that returned."""
        made = list[ReadyChange]()
        if not isinstance(group, ConsumerGroup) or request.member_epoch == LEAVE_EPOCH:
            return made, None
        # Also for a member with few partitions: its step looks up owners, and would apply all changes in one piece.
        if not group.owners.is_settled:
            yield from group.owners.apply_waiting()
        known = group.static_member(request.instance_id) or group.members.get(request.member_id)
        if known is None or not has_many(known, group.targets.get(known.member_id, {})):
            return made, None
        try:
            old, replaced = member_for(group, request, self._new_id)
            assignment = group.targets.get((replaced or old).member_id, {})
            if not has_many(old, assignment):
                return made, None
            new, epoch = with_news(old, request, caller), group.assignment_epoch
            if replaced is not None:
                made.append((yield from records.writing_member(group.group_id, old)))
                made.append((yield from records.writing_target(group.group_id, old.member_id, assignment)))
                made.append((yield from records.writing_current(group.group_id, old)))
                if new != old:
                    made.append((yield from records.writing_member(group.group_id, new)))
            has_new_subscription = is_subscription_changed(old, new)
            if new.is_reconciled_to(epoch) and not has_new_subscription:
                return made, None
            subscribes_to = targets.subscribing(new, group.regexes, self._topics)
            target = Target(epoch, assignment, subscribes_to, has_new_subscription, group.owners.is_free)
            return made, (yield from precomputed_step(group, new, target, claim))
        except KafkaError:  # `heartbeat` raises it again
            return made, None

    def heartbeat(
        self,
        shard: GroupShard,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        now_ms: int,
        upgrade: Upgrade | None = None,
        prepared: PreparedHeartbeat | None = None,
    ) -> ConsumerGroupHeartbeatResponse:
        """Let a member join, stay or leave.

        Args:
            upgrade: Upgrade of the classic group that will become a consumer group with this member.
            prepared: Result of `preparing` for the request.

        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID,
                COORDINATOR_LOAD_IN_PROGRESS (a classic group without an upgrade), FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID,
                FENCED_INSTANCE_ID, or the error of writing the records. Then nothing has changed.
        """
        prepared = prepared or PreparedHeartbeat(claim_of(request))
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(shard, request, now_ms, prepared)
        changes: list[Change | ReadyChange] = []
        group, used = self._group_for(shard, request, changes, upgrade)
        old, replaced = member_for(group, request, lambda: prepared.member_id or self._new_id())
        new = with_news(old, request, caller)
        if request.member_epoch == 0:
            log.info("group %s: member %s joins, instance id %s", group.group_id, new.member_id, request.instance_id)
        transition = ConsumerTransition(group, old, new, replaced, changes, prepared.made, prepared.step)
        member = self.advance(shard, transition, prepared.claim, caller, now_ms, used)
        is_full = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        kept = shard.groups[request.group_id]
        assert isinstance(kept, ConsumerGroup)
        must_tell = request.member_epoch == 0 or is_full or member.assigned != old.assigned
        if self._settings.ottla_hold_heartbeats and not must_tell:
            # Intervals are short, and librdkafka drops an answer that comes after the next heartbeat is due.
            must_tell = request.member_epoch < old.epoch or member.state is ConsumerMemberState.UNREVOKED_PARTITIONS
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.heartbeat_interval_ms(kept, member, self._settings.of_group(request.group_id)),
            assignment=prepared.answer_for(member) if must_tell else None,
        )

    def advance(
        self,
        shard: GroupShard,
        transition: ConsumerTransition,
        claim: Claim,
        caller: Caller,
        now_ms: int,
        upgrade: Upgrade | None = None,
    ) -> ConsumerMember:
        """Apply a member's changes, make its next step towards its target, and restart its session.

        Args:
            upgrade: Upgrade of the transition's group, if that is not in the tables yet.

        Returns:
            The member as it is now.

        Raises:
            KafkaError: As `Transition.run`, or the error of writing the records. Then nothing has changed.
        """
        elapsed_ms = self._elapsed_ms()
        self._changes.notify(transition.group)
        around = ConsumerHeartbeatContext(
            self._settings, self._topics, self._hashes, self._topics_version, now_ms, elapsed_ms
        )
        transition.run(around, claim)
        group_id, member = transition.group.group_id, transition.member
        self.write(shard, group_id, transition.changes, now_ms, upgrade)
        group = consumer_group(group_id, shard.groups.get(group_id))
        group.topics_known_to = transition.group.topics_known_to  # it may be a new group
        if transition.has_seen_topics:
            group.refresh_at_ms = elapsed_ms + _REFRESH_AFTER_MS
        if transition.has_assigned:
            group.assigned_at_ms = elapsed_ms
        if transition.replaced is not None:
            self.timers.stop(group, transition.replaced.member_id)
        self.keep_alive(shard, group, member)
        if transition.has_stepped or transition.old.classic is not None:
            self._await_revocation(shard, group, member)
        if transition.must_resolve and not group.is_resolving and elapsed_ms >= group.resolve_again_ms:
            group.is_resolving = True
            self._start_job(shard, self._resolve_regexes(shard, group, caller.sees, now_ms))
        if transition.must_assign and not group.is_assigning:
            group.is_assigning = True
            self._start_job(shard, self._assign(shard, group, now_ms))
        return member

    def check_size(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
        """Raise KafkaError GROUP_MAX_SIZE_REACHED if the group is full and has neither this member nor this static member."""
        limit = self._settings.group_consumer_max_size
        is_full = len(group.members) >= limit
        if is_full and member_id not in group.members and group.static_member(instance_id) is None:
            message = f"The consumer group has reached its maximum capacity of {limit} members."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)

    def _group_for(
        self,
        shard: GroupShard,
        request: ConsumerGroupHeartbeatRequest,
        changes: list[Change | ReadyChange],
        upgrade: Upgrade | None,
    ) -> tuple[ConsumerGroup, Upgrade | None]:
        """Return the group and the upgrade used for it. For a member that joins, the group may be new, or replace a classic
        group."""
        group_id = request.group_id
        known = shard.groups.get(group_id)
        group, used = known, None
        if request.member_epoch == 0 and (known is None or isinstance(known, ClassicGroup)):
            group = ConsumerGroup(group_id, shard.partition)
            # Not `is_empty`: all members may have left a rebalance that still waits for others.
            if known is not None and known.members:
                used = self._upgrade_of(known, upgrade)
                group = used.group
            elif known is not None:
                changes.append(records.classic_tombstone(group_id))
        found = consumer_group(group_id, group, "Consumer group")
        self.check_size(found, request.member_id, request.instance_id)
        return found, used

    def _upgrade_of(self, group: ClassicGroup, upgrade: Upgrade | None) -> Upgrade:
        if upgrade is not None and upgrade.old is group:
            return upgrade
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {group.group_id} was just changed")

    def _resolve_regexes(
        self, shard: GroupShard, group: ConsumerGroup, sees: Callable[[str], bool] | None, now_ms: int
    ) -> Job:
        """Match the group's regular expressions with all topics; members get the new matches at their next heartbeats."""
        version = self._topics_version
        made: dict[str, tuple[ResolvedRegex, ReadyChange]] = {}
        try:
            found = yield from resolve(tuple(group.regex_subscribers), self._topics.names(), sees)
            for pattern, topics in found.items():
                one = ResolvedRegex(topics, version, now_ms)
                made[pattern] = one, (yield from records.writing_regex(group.group_id, pattern, one))
                yield from self._hashes.preparing(topics)
        except KafkaError as error:
            self._note_unresolved(group, error)
            return
        finally:
            group.is_resolving = False
        if shard.groups.get(group.group_id) is not group:
            return
        # An expression that was added during the job is matched at the next heartbeat; a removed one needs nothing.
        in_use = {pattern: both for pattern, both in made.items() if pattern in group.regex_subscribers}
        resolved = {pattern: one for pattern, (one, _) in in_use.items()}
        changes: list[Change | ReadyChange] = [ready for _, ready in in_use.values()]
        names = all_topics(group.name_subscribers, {**group.regexes, **resolved}.values())
        topics_hash = self._hashes.hash_of(names)
        is_news = any(
            one.topics != (group.regexes[pattern].topics if pattern in group.regexes else frozenset())
            for pattern, one in resolved.items()
        )
        if is_news or topics_hash != group.metadata_hash:
            changes.append(records.group_epoch(group.group_id, group.epoch + 1, topics_hash))
        try:
            self.write(shard, group.group_id, changes, now_ms)
            group.resolved_at_ms = self._elapsed_ms()
        except KafkaError as error:
            self._note_unresolved(group, error)

    def _note_unresolved(self, group: ConsumerGroup, error: KafkaError) -> None:
        """Note a failure: the next heartbeat finds the expressions unresolved, or old. If they match too much, heartbeats wait
        before they try again."""
        log.warning("group %s: cannot resolve regular expressions: %s", group.group_id, error)
        if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            group.resolve_again_ms = self._elapsed_ms() + REFRESH_AT_MOST_EVERY_MS

    def _assign(self, shard: GroupShard, group: ConsumerGroup, now_ms: int) -> Job:
        """Make a target assignment for the group in its present state; members get their parts at their next heartbeats.

        Any change of the group during the job brings it to a later epoch, for which another target is made.
        """
        epoch, members, before, regexes = group.epoch, dict(group.members), dict(group.targets), dict(group.regexes)
        name = targets.preferred_assignor(group.assignor_votes, self._settings.group_consumer_assignors[0])
        with assigning(group, self._elapsed_ms):
            found = yield from targets.new_targets(regexes, members, before, ASSIGNORS[name], self._topics)
            whole = yield from targets.target_records(group, found, self._store.max_batch_bytes(shard.partition))
            # A group that has lost its last member has a later target.
            if shard.groups.get(group.group_id) is group and group.assignment_epoch < epoch:
                targets.amended(group, whole, found, members)
                last = records.target_metadata(group.group_id, epoch, now_ms)
                whole.records.add(write_record(*last))
                self._store.append(shard.partition, whole.records, now_ms)
                group.targets.update(whole.given)
                shard.apply([last])

    # Leaving

    def _leave(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, now_ms: int, prepared: PreparedHeartbeat
    ) -> ConsumerGroupHeartbeatResponse:
        group = consumer_group(request.group_id, shard.groups.get(request.group_id))
        member = group.identified(request.member_id, request.instance_id)
        if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
            log.info("group %s: static member %s leaves temporarily", group.group_id, request.instance_id)
            ready = prepared.away[1] if prepared.away is not None and prepared.away[0] is member else None
            change = records.current_assignment(group.group_id, away(member)) if ready is None else ready
            self.write(shard, group.group_id, [change], now_ms)
        else:
            log.info("group %s: member %s leaves", group.group_id, member.member_id)
            self.remove(shard, group, [member], now_ms)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def _remove_one(self, shard: GroupShard, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        self.remove(shard, group, [group.members[member_id]], now_ms)

    def remove(self, shard: GroupShard, group: ConsumerGroup, leaving: Collection[ConsumerMember], now_ms: int) -> None:
        """Remove members from the group; their partitions are free at once. If only members of the classic protocol are left,
        the group becomes a classic group.

        Raises:
            KafkaError: The partition cannot be written; the members are still in the group.
        """
        gone = {member.member_id for member in leaving}
        classic_left = group.classic_count - sum(member.classic is not None for member in leaving)
        # The members are not counted for each removal: thousands may leave one after the other.
        is_mixed = classic_left < len(group.members) - len(gone)
        stay = [] if is_mixed else [one for one in group.members.values() if one.member_id not in gone]
        must_downgrade = self._migration.may_downgrade(group, stay)
        if must_downgrade and not is_large(stay):
            staying = [(member, group.targets.get(member.member_id, {})) for member in stay]
            try:
                made = to_the_end(self._migration.downgrade(group, staying, now_ms))
                self._migration.install(shard, made, now_ms, must_rebalance=True)
            except KafkaError as error:
                if error.code is not ErrorCode.UNKNOWN_SERVER_ERROR:
                    raise
                # The group cannot be a classic one, or is too large for one record, and never will. That must not keep a member
                # from leaving.
                log.warning("group %s: cannot be downgraded: %s", group.group_id, error)
            else:
                self.take_leave(group, self.close(group))
                return
        dropped = sorted(group.regexes_dropped_with(leaving))
        changes = [change for member_id in gone for change in records.member_tombstones(group.group_id, member_id)]
        changes += [records.regex(group.group_id, pattern, None) for pattern in dropped]
        names, topics_hash = group.subscribed_without(leaving), group.metadata_hash
        # If thousands of topics must be looked up again, the next heartbeat does that.
        if names != group.subscribed_topics or self._hashes.is_soon_known(names):
            topics_hash = self._hashes.hash_of(names)
        changes.append(records.group_epoch(group.group_id, group.epoch + 1, topics_hash))
        if len(gone) == len(group.members):
            # As in Apache Kafka since 4.4.0: without members nothing is left to assign. The next member gets partitions at once.
            changes.append(records.target_metadata(group.group_id, group.epoch + 1, 0))
        self.write(shard, group.group_id, changes, now_ms)
        if not group.members:
            group.assigned_at_ms = None
        for member_id in gone:
            self.timers.stop(group, member_id)
        if must_downgrade and is_large(stay):
            group.cannot_downgrade = False
            self.start_downgrade(shard, group, now_ms)

    def start_downgrade(self, shard: GroupShard, group: ConsumerGroup, now_ms: int) -> None:
        """Start the downgrade of a group of many members, all of them classic, if it is possible; until it is done, they stay
        in this group."""
        if self._settings.may_downgrade and not group.is_downgrading and not group.cannot_downgrade:
            group.is_downgrading = True
            self._start_job(shard, self._downgrade(shard, group, now_ms))

    def _downgrade(self, shard: GroupShard, group: ConsumerGroup, now_ms: int) -> Job:
        try:
            for _ in range(TRIES):
                if not self._migration.may_downgrade(group, group.members.values()):
                    return
                members, epochs = dict(group.members), (group.epoch, group.assignment_epoch)
                staying = [(member, group.targets.get(member.member_id, {})) for member in members.values()]
                made = yield from self._migration.downgrade(group, staying, now_ms)
                if shard.groups.get(group.group_id) is not group:
                    return
                if members == group.members and epochs == (group.epoch, group.assignment_epoch):
                    is_current = group.epoch == group.assignment_epoch
                    self._migration.install(shard, made, now_ms, must_rebalance=not is_current)
                    self.take_leave(group, self.close(group))
                    return
            log.warning("group %s: not downgraded, because the group keeps changing", group.group_id)
        except KafkaError as error:
            log.warning("group %s: cannot be downgraded: %s", group.group_id, error)
            group.cannot_downgrade = error.code is ErrorCode.UNKNOWN_SERVER_ERROR
        finally:
            group.is_downgrading = False

    # Records

    def write(
        self,
        shard: GroupShard,
        group_id: str,
        changes: Collection[Change | ReadyChange],
        now_ms: int,
        upgrade: Upgrade | None = None,
    ) -> None:
        """Append changes of one group as one batch, then apply them; errors as `RecordStore.append`.

        Args:
            upgrade: Upgrade whose records are written before the changes, and whose group then replaces the classic one. It
                must not be used again.
        """
        if not changes and upgrade is None:
            return
        before = shard.groups.get(group_id)
        made = records_of(changes, None if upgrade is None else upgrade.records)
        self._store.append(shard.partition, made, now_ms)
        if upgrade is not None:
            shard.groups[group_id] = upgrade.group
            log.info("group %s: upgraded to a consumer group in epoch %d", group_id, upgrade.group.epoch)
        shard.apply(changes)
        self._settle(shard, shard.groups.get(group_id))
        if isinstance(before, ClassicGroup):
            after = consumer_group(group_id, shard.groups.get(group_id))
            self.take_leave(before, self._migration.close(before, now_ms))
            # The members of the classic group have their session time-outs here from now on.
            self._take_up(shard, after, now_ms)
