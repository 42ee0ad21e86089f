"""The share partitions of the partitions that nodes of this process lead. They are loaded at their first fetch. They are
dropped with the leadership, with the connection that had the last session of their group, and when their state was replaced.

Changes of records are written to the share coordinator and applied in one step (`commit`); answers wait for the disk
(`ShareStateService.settled`). A share partition that was dropped is loaded again, from its written state, by the next request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ..config.features import SHARE_GROUPS
from ..coordination.deadlines import Deadline, Deadlines
from ..coordination.deps import CoordinatorDeps
from ..partitions.topics import Partition
from ..runtime.nursery import Tasks
from ..runtime.time_slices import TimeSlice
from .dead_letters import DeadLetters
from .loading import (
    STATE_RETRY_MS,
    STATE_TRIES,
    LeadSharePartition,
    ShareGroupConfig,
    ShareStateLoader,
    error_for_members,
    present_group_config,
)
from .share_partition import RUNS_AT_ONCE, DeadRecords, SharePartition, Update
from .share_records import SharePartitionKey
from .share_sessions import SessionKey, SharedPartition, ShareSession, ShareSessions
from .share_states import WrittenState
from .state_service import ShareStateService

Name = TypeVar("Name")

log = logging.getLogger("ottla.sharing")

# Number of share partitions that are dropped in one step when partitions move or are deleted: some milliseconds, as each may
# have waiting fetches. Until the others are dropped, no member gets records of them.
LET_GO_AT_ONCE = 100
# Number of share partitions whose states are read in one pass of the scheduler: each read by a new leader writes a record.
BEGUN_AT_ONCE = 50


class Visitor:
    """A connection with share sessions. The object must be called when it disconnects.

    Attributes:
        groups: Groups of its sessions that have ended, while share partitions of these groups are kept.
    """

    __slots__ = ("_leaders", "_node_id", "groups")

    def __init__(self, leaders: ShareLeaders, node_id: int) -> None:
        self._leaders = leaders
        self._node_id = node_id
        self.groups: set[str] = set()

    def __call__(self) -> None:
        self._leaders.disconnected(self._node_id, self)


class ShareLeaders:
    """The share partitions and share sessions of all nodes of a broker.

    Args:
        states: The share coordinator.
    """

    def __init__(self, deps: CoordinatorDeps, states: Callable[[], ShareStateService], tasks: Tasks) -> None:
        self._deps = deps
        self._states = states
        self._tasks = tasks
        self._led: dict[SharePartitionKey, LeadSharePartition] = {}
        self._of_groups: dict[str, set[SharePartitionKey]] = {}
        self._of_partitions: dict[tuple[bytes, int], set[SharePartitionKey]] = {}
        self._to_begin: list[LeadSharePartition] = []
        self._leaving: dict[tuple[int, SessionKey], trio.Event] = {}
        """Node id and session -> event that is set when the member's records there are released. For two sessions that end in
        succession, it is that of the later one."""
        self._beginning = ShareStateLoader(deps, states, self.config_of)
        self._dead_letters = DeadLetters(deps, self.config_of, self._bury, self._letters_written, tasks)
        self._unused: set[LeadSharePartition] = set()
        """Share partitions to drop when their dead letters are written, if their group has no members then."""
        self._is_closed = False
        self._sleep = trio.CancelScope()
        self._deadlines = Deadlines(deps.clock.elapsed_ms, self._wake)
        most = deps.config.current.group_share_max_share_sessions
        self.sessions = {node.node_id: ShareSessions(most) for node in deps.nodes}
        """Share sessions by node id."""
        deps.config.feature_watchers.append(self._apply_features)

    def __len__(self) -> int:
        return len(self._led)

    async def run(self) -> None:
        """Expire acquisition locks at their deadlines, until cancelled."""
        clock, time_slice = self._deps.clock, TimeSlice()
        while True:
            due_ms = self._deadlines.next_due_ms()
            with trio.CancelScope() as self._sleep:
                if due_ms is None:
                    await trio.sleep_forever()
                else:
                    await clock.sleep_until(due_ms)
            await time_slice.next()
            try:
                self._deadlines.run_due(clock.now_ms(), time_slice.is_over)
            except Exception:
                log.exception("cannot expire acquisition locks")

    def config_of(self, group_id: str) -> ShareGroupConfig:
        """Return the group's present configs."""
        return present_group_config(self._deps.config, group_id)

    # Share partitions

    def find(self, key: SharePartitionKey) -> LeadSharePartition | None:
        """Return the share partition with this key, if it is in use."""
        return self._led.get(key)

    def check(self, led: LeadSharePartition) -> None:
        """Raise KafkaError with the reason if the share partition was dropped."""
        if led.leader_epoch != led.partition.leader_epoch:  # It is not dropped yet.
            self._drop(led, _moved_error(led.partition))
        if led.error is not None:
            raise led.error

    def get_or_load(self, key: SharePartitionKey, partition: Partition) -> LeadSharePartition:
        """Return the share partition with this key; the first call starts the loading of its state."""
        led = self._led.get(key)
        if led is not None and (led.partition is not partition or led.leader_epoch != partition.leader_epoch):
            self._drop(led, _moved_error(partition))
            led = None
        if led is None:
            led = self._led[key] = LeadSharePartition(key, partition, Deadline(_nothing))
            led.deadline.action = partial(self._expire, led)
            self._of_groups.setdefault(key.group_id, set()).add(key)
            self._of_partitions.setdefault(key[1:], set()).add(key)
            self._to_begin.append(led)
            if len(self._to_begin) == 1:
                self._tasks.start_soon(self._begin_all)
        return led

    def share_of(self, led: LeadSharePartition) -> SharePartition | None:
        """Return its records, with the present limits and without those that the log no longer has; None until they are
        loaded."""
        share = led.share
        if share is not None:
            share.limits = self.config_of(led.key.group_id).limits
            share.log_starts_at(led.partition.log.log_start_offset)
        return share

    def commit(self, led: LeadSharePartition, update: Update) -> None:
        """Write and apply a change of records, and wake fetches that may find records then.

        Raises:
            KafkaError: The error for members; nothing has changed, or the share partition was dropped.
        """
        assert led.share is not None
        self.check(led)
        if update.state_batches:
            try:
                self._states().write(led.key, _state_to_write(led, update))
            except KafkaError as error:
                raise self._failed(led, error) from error
        if led.share.apply(update):
            led.wake()
        if update.dead:
            self._dead_letters.add(led, update.dead)
        self.locks_changed(led)

    def commit_unrequested(self, led: LeadSharePartition, update: Update) -> None:
        """Write and apply a change that no member requested. If it cannot be written, it is applied in memory only, as in
        Apache Kafka.

        Raises:
            KafkaError: The share partition was dropped.
        """
        try:
            self.commit(led, update)
        except KafkaError as error:
            log.warning("%s: cannot persist the outcome of records: %s", led.key.text, error)
            if led.error is not None:
                raise
            self.commit(led, update._replace(state_batches=[]))

    def _bury(self, led: LeadSharePartition, dead: Sequence[DeadRecords]) -> None:
        assert led.share is not None
        with suppress(KafkaError):  # It was dropped: the next leader writes their dead letters again.
            self.commit_unrequested(led, led.share.bury(dead))

    async def settle(self, led: LeadSharePartition) -> None:
        """Wait until the written state is on disk. Raises KafkaError with the error for members."""
        try:
            await self._states().settled(led.key)
        except KafkaError as error:
            raise self._failed(led, error) from error

    def locks_changed(self, led: LeadSharePartition) -> None:
        """Update the deadline after records were acquired, or their locks renewed."""
        due_ms = None if led.share is None else led.share.next_expiry_ms()
        if due_ms is not None and led.error is None:
            self._deadlines.start(led.deadline, max(due_ms - self._deps.clock.elapsed_ms(), 0))

    def partitions_gone(self, topic_id: bytes, partitions: Iterable[Partition]) -> None:
        """Drop all share partitions of these partitions, which other nodes lead now, which have no leader, or whose topic was
        deleted."""
        keys = (key for one in partitions for key in self._of_partitions.get((topic_id, one.index), ()))
        all_of_it = [self._led[key] for key in keys]
        for led in all_of_it[:LET_GO_AT_ONCE]:
            self._drop(led, _moved_error(led.partition))
        if left := all_of_it[LET_GO_AT_ONCE:]:
            self._tasks.start_soon(self._drop_all, left)

    async def _drop_all(self, left: list[LeadSharePartition]) -> None:
        time_slice = TimeSlice()
        async for led in time_slice.each(left):
            self._drop(led, _moved_error(led.partition))

    def drop_replaced(self, key: SharePartitionKey) -> None:
        """Drop a share partition whose state was replaced."""
        if (led := self._led.get(key)) is not None:
            self._drop(led, _moved_error(led.partition))

    # Sessions

    async def end_session(self, node_id: int, session: ShareSession) -> None:
        """End a session, unless it has ended before, and release its member's records in its partitions."""
        key, sessions = session.key, self.sessions[node_id]
        if sessions.has(session):
            sessions.close(key)
            if key.group_id in self._of_groups and isinstance(session.connection, Visitor):
                session.connection.groups.add(key.group_id)
            done = self._leaving[node_id, key] = trio.Event()
            await self._release(node_id, session, done)

    async def released(self, node_id: int, key: SessionKey) -> None:
        """Wait until the records of a member's ended session are released: otherwise the release would take records that it
        acquires now."""
        while (leaving := self._leaving.get((node_id, key))) is not None:
            await leaving.wait()

    def disconnected(self, node_id: int, visitor: Visitor) -> None:
        """End a connection's sessions, and release their members' records soon. Share partitions of groups that it had sessions
        of, now or before, and that have none left are dropped, as in Apache Kafka: records acquired in partitions that the
        session had forgotten are offered again."""
        sessions = self.sessions[node_id].disconnected(visitor)
        if not self._is_closed:
            leaving = [(session, trio.Event()) for session in sessions]
            self._leaving |= {(node_id, session.key): done for session, done in leaving}
            self._tasks.start_soon(self._leave, node_id, leaving, visitor.groups)

    def _apply_features(self) -> None:
        """End all sessions when share groups are no longer served, as in Apache Kafka. Everything is loaded again once they
        are."""
        if not self._deps.config.feature_level(SHARE_GROUPS):
            for sessions in self.sessions.values():
                sessions.clear()
            self._tasks.start_soon(self._forget_all)

    async def _forget_all(self) -> None:
        time_slice = TimeSlice()
        async for key in time_slice.each(tuple(self._led)):
            self.drop_replaced(key)

    def close(self) -> None:
        """Stop: the next start offers acquired records again."""
        self._is_closed = True

    async def _leave(self, node_id: int, leaving: list[tuple[ShareSession, trio.Event]], groups: set[str]) -> None:
        for session, done in leaving:
            await self._release(node_id, session, done)
        time_slice = TimeSlice()
        for group_id in {*groups, *(session.key.group_id for session, _ in leaving)}:
            async for key in time_slice.each(tuple(self._of_groups.get(group_id, ()))):
                if self._has_members(group_id):
                    break
                if (led := self._led.get(key)) is not None and self._dead_letters.is_writing(led):
                    self._unused.add(led)
                else:
                    self.drop_replaced(key)

    def _letters_written(self, led: LeadSharePartition) -> None:
        if led in self._unused:
            self._unused.remove(led)
            if not self._has_members(led.key.group_id):
                self._drop(led, _moved_error(led.partition))

    def _has_members(self, group_id: str) -> bool:
        return any(of_node.members(group_id) for of_node in self.sessions.values())

    async def _release(self, node_id: int, session: ShareSession, done: trio.Event) -> None:
        """Release a member's records. Raises nothing: the locks release the records that could not be released here. The method
        waits while the share coordinator loads."""
        try:
            await trio.lowlevel.checkpoint()  # a broker that is killed must not write any more
            time_slice, tries_left = TimeSlice(), STATE_TRIES
            for place in session.places:
                has_more = True
                while has_more:
                    if time_slice.is_over():
                        await time_slice.next()
                    try:
                        if has_more := self._release_some(node_id, session, place):
                            await time_slice.next()
                    except KafkaError as error:
                        has_more = error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE and tries_left > 0
                        if not has_more:
                            log.warning("cannot release records of %s: %s", session.key.member_id, error)
                        elif self._is_closed:
                            return
                        else:
                            tries_left -= 1
                            await self._deps.clock.sleep(STATE_RETRY_MS)
        except Exception:
            log.exception("cannot release records of %s", session.key.member_id)
        finally:
            if self._leaving.get((node_id, session.key)) is done:
                del self._leaving[node_id, session.key]
            done.set()

    def _release_some(self, node_id: int, session: ShareSession, place: SharedPartition) -> bool:
        """Release some of a member's records in a partition, and return whether more are left. Raises KafkaError if they are
        not released."""
        led = self._led.get(SharePartitionKey(session.key.group_id, *place))
        share = None if led is None else self.share_of(led)
        # If the partition has moved, it is in the member's session with another node now.
        if led is None or share is None or led.partition.leader != node_id:
            return False
        update = share.release(session.key.member_id, RUNS_AT_ONCE)
        self.commit(led, update)
        return len(update.changes) == RUNS_AT_ONCE

    # Beginning and ending

    async def _begin_all(self) -> None:
        """Load all waiting share partitions. A fetch may name thousands for the first time, and tasks that start together run
        in one pass."""
        time_slice = TimeSlice()
        while some := self._to_begin[:BEGUN_AT_ONCE]:
            for led in some:
                self._tasks.start_soon(self._begin, led)
            await time_slice.next()
            del self._to_begin[: len(some)]

    async def _begin(self, led: LeadSharePartition) -> None:
        try:
            await self._beginning.begin(led)
            if led.share is not None:
                self._dead_letters.add(led, led.share.dying())
        except KafkaError as error:
            self._drop(led, error_for_members(error))
        except Exception as error:
            log.exception("cannot load %s", led.key.text)
            self._drop(led, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
        led.wake()

    def _failed(self, led: LeadSharePartition, error: KafkaError) -> KafkaError:
        """Return the error for members after a failed write, in Apache Kafka's words. A share partition that does not own its
        state is dropped."""
        said = error_for_members(KafkaError(error.code, f"Error in write state RPC. {error.message}"))
        if said.code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self._drop(led, said)
        return said

    def _drop(self, led: LeadSharePartition, error: KafkaError) -> None:
        if led.error is not None:
            return
        led.error = error
        self._deadlines.forget(led.deadline)
        if self._led.get(led.key) is led:
            del self._led[led.key]
            _discard(self._of_groups, led.key.group_id, led.key)
            _discard(self._of_partitions, led.key[1:], led.key)
        led.wake()

    # Time

    def _expire(self, led: LeadSharePartition, _now_ms: int) -> None:
        share = self.share_of(led)
        if share is None:
            return
        with suppress(KafkaError):  # It was dropped.
            self.commit_unrequested(led, share.expire(self._deps.clock.elapsed_ms(), RUNS_AT_ONCE))

    def _wake(self) -> None:
        self._sleep.cancel()


def _state_to_write(led: LeadSharePartition, update: Update) -> WrittenState:
    return WrittenState(
        update.state_epoch,
        led.leader_epoch,
        update.start_offset,
        update.delivery_complete_count,
        tuple(update.state_batches),
    )


def _moved_error(partition: Partition) -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.topic_partition} must be loaded again")


def _discard(table: dict[Name, set[SharePartitionKey]], name: Name, key: SharePartitionKey) -> None:
    keys = table[name]
    keys.discard(key)
    if not keys:
        del table[name]


def _nothing(_now_ms: int) -> None:
    """Do nothing: the action of a deadline before its share partition is set."""
