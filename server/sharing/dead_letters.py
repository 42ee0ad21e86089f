"""Dead letters (KIP-1191): for each record that a share group gives up, a record in the group's dead letter topic.

    rejected, or delivered too often    ARCHIVING is written, and the member has its answer
    here                                a dead letter is appended, and on disk as `flush.messages` requires
    afterwards                          ARCHIVED is written; until then the start offset does not pass the record

If the topic cannot be written, the records are archived without dead letters, as in Apache Kafka: a group must not hang. A record
that is ARCHIVING when its state is loaded gets its dead letter then, so a crash may repeat dead letters but loses none.

The waiting records of a share partition are in flight, so `share.partition.max.record.locks` limits them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.disk.paths import OFFSET_MAX
from ...storage.topics.config import COMPACT
from ..coordination.deps import CoordinatorDeps
from ..partitions.large_appends import append_later
from ..partitions.topics import NO_LEADER, Partition, Topic
from ..runtime.nursery import Tasks
from ..runtime.threads import Work, in_thread
from ..runtime.time_slices import TimeSlice
from .letters import Copies, Letters, copy_records
from .loading import LeadSharePartition, ShareGroupConfig
from .share_partition import DeadRecords

log = logging.getLogger("ottla.sharing")

RECORDS_AT_ONCE = 500
"""Maximum number of dead letters in one batch: some milliseconds."""
ROUNDS_AT_ONCE = 8
"""Maximum number of share partitions whose records are copied at one time, each with a batch in memory."""
BACKOFF_MS = (2_000, 4_000, 8_000, 16_000)
"""Times between tries while the partition has no leader, as in Apache Kafka."""

_ENABLED = "errors.deadletterqueue.group.enable"
_OF_A_NEW_TOPIC = {_ENABLED: "true", "message.timestamp.type": "CreateTime"}
_TEMPORARY = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.TOPIC_ALREADY_EXISTS})
"""Errors after which the write is tried again. The second: the topic is being deleted, or not shown yet."""

Bury: TypeAlias = Callable[[LeadSharePartition, Sequence[DeadRecords]], None]


class DeadLetters:
    """Dead letters of all share partitions of a broker.

    Args:
        config_of: Function that returns a group's present options.
        bury: Function that archives records whose dead letters are written, or cannot be written.
        ended: Function that is called when no record of a share partition waits for its dead letter any more.
    """

    def __init__(
        self,
        deps: CoordinatorDeps,
        config_of: Callable[[str], ShareGroupConfig],
        bury: Bury,
        ended: Callable[[LeadSharePartition], None],
        tasks: Tasks,
    ) -> None:
        self._deps = deps
        self._config_of = config_of
        self._bury = bury
        self._ended = ended
        self._tasks = tasks
        self._waiting: dict[LeadSharePartition, deque[DeadRecords]] = {}
        self._places = trio.CapacityLimiter(ROUNDS_AT_ONCE)

    def add(self, led: LeadSharePartition, dead: Iterable[DeadRecords]) -> None:
        """Write dead letters for these records soon, then archive them."""
        waiting = self._waiting.get(led)
        if waiting is not None:
            waiting.extend(dead)
        elif first := deque(dead):
            self._waiting[led] = first
            self._tasks.start_soon(self._write_all, led, first)

    def is_writing(self, led: LeadSharePartition) -> bool:
        """Whether records of a share partition wait for their dead letters."""
        return led in self._waiting

    async def _write_all(self, led: LeadSharePartition, waiting: deque[DeadRecords]) -> None:
        try:
            await trio.lowlevel.checkpoint()  # a broker that is killed must not write any more
            while waiting and led.error is None:
                await self._write_some(led, waiting)
        except Exception:
            log.exception("cannot archive records of %s", led.key.text)
        finally:
            del self._waiting[led]
        self._ended(led)

    async def _write_some(self, led: LeadSharePartition, waiting: deque[DeadRecords]) -> None:
        """Write one batch, and archive its records. If the share partition is dropped, its next leader does it."""
        some = _take(waiting, RECORDS_AT_ONCE)
        left: list[DeadRecords] = []
        try:
            left = await self._write_patiently(led, some)
        except KafkaError as error:
            _note_lost(led, some, error.message)
            if error.code in _TEMPORARY:  # The others have waited as long.
                while waiting and led.error is None:
                    self._bury(led, some)
                    await trio.lowlevel.checkpoint()
                    some = _take(waiting, RECORDS_AT_ONCE)
                    _note_lost(led, some, error.message)
        except Exception:
            log.exception("cannot write dead letters of %s", led.key.text)
        waiting.extendleft(reversed(left))
        if led.error is None:
            self._bury(led, _before(some, left))

    async def _write_patiently(self, led: LeadSharePartition, some: Sequence[DeadRecords]) -> list[DeadRecords]:
        """Write dead letters, and wait while the partition has no leader. Return the records that are left."""
        for wait_ms in BACKOFF_MS:
            try:
                return await self._write(led, some)
            except KafkaError as error:
                if error.code not in _TEMPORARY:
                    raise
            await self._deps.clock.sleep(wait_ms)
            if led.error is not None:
                return []
        return await self._write(led, some)

    async def _write(self, led: LeadSharePartition, some: Sequence[DeadRecords]) -> list[DeadRecords]:
        """Write one batch, as large as the topic allows. Return the records that are left."""
        config = self._config_of(led.key.group_id)
        partition = await self._destination(config.dead_letter_topic, led.key.partition)
        async with self._places:
            max_bytes = partition.log.config.max_message_bytes
            copies = Copies({}, OFFSET_MAX)
            if config.copies_records:
                offsets = [offset for one in some for offset in range(one.first, one.last + 1)]
                copies = await copy_records(led.partition.log, offsets, max_bytes)
            letters = Letters(led.partition.topic_partition, led.key.group_id, self._deps.clock.now_ms())
            needs_keys = COMPACT in partition.log.config.cleanup_policy
            build = partial(letters.batch, some, copies, max_bytes, needs_keys=needs_keys)
            if copies.records:
                made = await in_thread(Work.READ, data_dir_of(partition.log), build)
            else:
                await TimeSlice().next()  # The batches of several share partitions would add up in one pass.
                made = build()
            if made.keyless:
                reason = f"compacted topic {partition.topic_partition.topic} accepts no records without keys"
                _note_lost(led, made.keyless, reason)
            if not made.data:
                return made.left
            appends = self._deps.appends
            appends.check_insync(partition)
            done = await append_later(appends, partition, memoryview(made.data), None)
        await appends.complete(partition.log, done)
        return made.left

    async def _destination(self, name: str, index: int) -> Partition:
        """Return the partition for the dead letters of a partition, and create its topic if necessary.

        Raises:
            KafkaError: The group may not write to the topic; NOT_LEADER_OR_FOLLOWER: the partition has no leader.
        """
        config = self._deps.config.current
        topic = self._deps.topics.get(name)
        prefix = config.errors_deadletterqueue_topic_name_prefix
        if not name:
            raise _refusal("the group has no dead letter topic any more")
        if topic is None and not config.errors_deadletterqueue_auto_create_topics_enable:
            raise _refusal(
                f"topic {name} not found; create it, or set errors.deadletterqueue.auto.create.topics.enable"
            )
        if not name.startswith(prefix) or name.startswith("__"):
            raise _refusal(
                f"the name of topic {name} must begin with {prefix} (errors.deadletterqueue.topic.name.prefix)"
            )
        if topic is None:
            topic = await self._create(name)
        partition = topic.partitions[index % len(topic.partitions)]
        if not partition.log.config.errors_deadletterqueue_group_enable:
            raise _refusal(f"topic {name} must have {_ENABLED}=true")
        if partition.leader == NO_LEADER:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.topic_partition} has no leader")
        return partition

    async def _create(self, name: str) -> Topic:
        try:
            return await self._deps.create_topic(name, _OF_A_NEW_TOPIC)
        except KafkaError as error:
            topic = self._deps.topics.get(name)
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or topic is None:
                raise
            return topic  # another share partition, or a client, was faster


def _take(waiting: deque[DeadRecords], count: int) -> list[DeadRecords]:
    """Take the first `count` records, or those before the first one that is out of order."""
    some: list[DeadRecords] = []
    while waiting and count and (not some or waiting[0].first > some[-1].last):
        one = waiting.popleft()
        last = min(one.last, one.first + count - 1)
        if last < one.last:
            waiting.appendleft(one._replace(first=last + 1))
        some.append(one._replace(last=last))
        count -= last - one.first + 1
    return some


def _before(some: Sequence[DeadRecords], left: Sequence[DeadRecords]) -> list[DeadRecords]:
    """Return the records before those that are left."""
    if not left:
        return [*some]
    end = left[0].first
    return [one._replace(last=min(one.last, end - 1)) for one in some if one.first < end]


def _note_lost(led: LeadSharePartition, some: Sequence[DeadRecords], reason: str | None) -> None:
    count = sum(one.last - one.first + 1 for one in some)
    which = f"{count} of the records from offset {some[0].first} to {some[-1].last}"
    log.error("%s: %s are archived without dead letters: %s", led.key.text, which, reason)


def _refusal(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, reason)
