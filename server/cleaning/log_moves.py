"""Moves of partitions to another data directory (KIP-113), each in a task of its own.

    requested -> the cleaner and retention are kept off, as by Apache Kafka -> copied in steps, as the throttle allows
          -> in one step of the Trio thread the log continues there -> checkpoints follow, the old directory is deleted

The steps of storage, and the state after a crash, are described in `storage.data_dirs.relocation`. A move that was
interrupted by a stop begins again at the next start. All nodes share the log: it moves for all of them, and is shown by
the node that received the request.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.data_dirs.manager import LogManager
from ...storage.data_dirs.relocation import CHUNK_BYTES, Relocation, RelocationError
from ...storage.disk import paths
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ...storage.topics.options import MAX_LONG
from ..config.live_config import LiveConfig
from ..partitions.waits import FetchWaits
from ..runtime.clock import Clock
from ..runtime.nursery import Tasks
from ..runtime.threads import Work, in_thread
from .cleaning import Cleaning

log = logging.getLogger("ottla.moves")

AT_ONCE_BYTES = 64 << 10
"""Maximum bytes that are copied in the step in which a log continues in its new directory; doubled after each attempt
with more.
"""
DOUBLED_MAX = 6
RETRY_MS, RETRY_MS_MAX = 1_000, 60_000
"""First and longest delay until the last step of a move is retried after an error of the disk; doubled each time."""


@dataclass(eq=False, slots=True)
class LogMove:
    """One move in progress."""

    log: Log
    target_dir: str
    node_id: int
    """The node that received the request, and whose throttle applies."""
    relocation: Relocation | None = None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended: trio.Event = field(default_factory=trio.Event)
    settled: trio.Event = field(default_factory=trio.Event)
    """Set when the move has ended, or its last step was refused."""
    is_given_up: bool = False
    """Whether the move must not continue at the next start."""
    problem: str | None = None
    """Why its last step, which is retried, has not succeeded yet."""
    refusals: int = 0
    """Number of failed attempts of the last step."""

    @property
    def copied_bytes(self) -> int:
        return 0 if self.relocation is None else self.relocation.copied_bytes

    @property
    def offset_lag(self) -> int:
        """Number of offsets that the copy lags behind the log."""
        at = self.log.log_start_offset if self.relocation is None else self.relocation.copied_up_to
        return max(0, self.log.log_end_offset - at)


class Pace:
    """Throttle of one node's moves: `replica.alter.log.dirs.io.max.bytes.per.second`, which they share."""

    def __init__(self, clock: Clock, live_config: LiveConfig, node_id: int) -> None:
        self._clock = clock
        self._live_config = live_config
        self._node_id = node_id
        self._at_ms = clock.elapsed_ms()
        self._balance_bytes = 0.0
        """Allowance at that time; negative if more was copied than allowed, e.g. a large batch."""
        self._rate = self._configured()
        self._changed = trio.Event()
        live_config.watchers.append(self._take_options)

    def _configured(self) -> float:
        rate = self._live_config.node_config(self._node_id).replica_alter_log_dirs_io_max_bytes_per_second
        return math.inf if rate == MAX_LONG else float(rate)

    def _take_options(self) -> None:
        self._settle()
        self._rate = self._configured()
        self._changed.set()
        self._changed = trio.Event()

    def _settle(self) -> None:
        elapsed_ms = self._clock.elapsed_ms()
        if self._rate < math.inf:
            more_bytes = self._rate * (elapsed_ms - self._at_ms) / 1000
            # Unused allowance is kept for one second at most.
            self._balance_bytes = min(max(self._rate, 1.0), self._balance_bytes + more_bytes)
        self._at_ms = elapsed_ms

    async def allowance_bytes(self) -> int:
        """Wait for an allowance, and return how much the next step may copy. Earlier copies are paid for first."""
        while True:
            self._settle()
            if self._rate == math.inf:
                self._balance_bytes = 0.0
                return CHUNK_BYTES
            # A tenth of a second's worth: starting a thread for each byte would cost too much.
            wanted_bytes = max(1.0, min(CHUNK_BYTES, self._rate / 10))
            if self._balance_bytes >= wanted_bytes:
                return int(min(self._balance_bytes, CHUNK_BYTES))
            changed = self._changed
            if not self._rate:
                await changed.wait()
            else:
                wait_ms = math.ceil((wanted_bytes - self._balance_bytes) / self._rate * 1000)
                await self._clock.sleep_until_or(self._at_ms + wait_ms, changed)

    def spend(self, copied_bytes: int) -> None:
        """Subtract copied bytes from the allowance."""
        self._settle()
        if self._rate < math.inf:
            self._balance_bytes -= copied_bytes


class LogMoves:
    """Moves of one broker. On Trio's thread."""

    def __init__(
        self,
        logs: LogManager,
        cleaning: Cleaning,
        waits: FetchWaits,
        live_config: LiveConfig,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        self._logs = logs
        self._cleaning = cleaning
        self._waits = waits
        self._live_config = live_config
        self._clock = clock
        self._tasks = tasks
        self._moves: dict[TopicPartition, LogMove] = {}
        self._paces: dict[int, Pace] = {}

    def shown_by(self, node_id: int, data_dir: str) -> Iterator[LogMove]:
        """Return the moves to a data directory that a node was asked for."""
        return (move for move in self._moves.values() if (move.node_id, move.target_dir) == (node_id, data_dir))

    @property
    def under_way(self) -> Mapping[TopicPartition, LogMove]:
        return self._moves

    async def run(self) -> None:
        """Restart the moves that the last stop has interrupted."""
        node_id = self._live_config.static.node_ids[0]
        for where, data_dir in self._logs.interrupted_moves.items():
            found = self._logs.logs.get(where)
            if found is not None and found.failure is None and found.data_dir != data_dir:
                self._start(found, data_dir, node_id)
        self._logs.interrupted_moves.clear()

    async def move(self, where: TopicPartition, data_dir: str, node_id: int) -> None:
        """Start the move of a partition to a data directory; return once it has begun.

        A partition that is there already needs no move. A move in progress to another directory is given up, and its
        copy is deleted before the return.

        Raises:
            KafkaError: INVALID_TOPIC_EXCEPTION (its name leaves no room), LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR (one of the
                two directories is offline, or an earlier move could not be ended), INVALID_REPLICA_ASSIGNMENT (the directory is
                cordoned), REPLICA_NOT_AVAILABLE (unknown partition).
        """
        self.check(where, data_dir)
        present = self._moves.get(where)
        if present is not None:
            if present.target_dir == data_dir and not present.is_given_up:
                return
            if present.relocation is not None and present.relocation.is_decided:
                # At a start, the log that reaches further counts: until the last step is done, nothing may be cleaned.
                await present.settled.wait()
                if (problem := present.problem) is not None and self._moves.get(where) is present:
                    raise KafkaError(
                        ErrorCode.KAFKA_STORAGE_ERROR, f"cannot complete the last move of {where}: {problem}"
                    )
            await self.give_up([where])
            self.check(where, data_dir)  # conditions may have changed since the first check
        found = self._logs.logs.get(where)
        if found is None:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{where} was deleted during the request")
        if found.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{where} is offline: {found.failure}")
        if found.data_dir != data_dir and where not in self._moves:
            if self._logs.is_in_two_dirs(where):
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"the last move of {where} is incomplete; the next start of the broker completes it",
                )
            self._start(found, data_dir, node_id)

    def check(self, where: TopicPartition, data_dir: str) -> None:
        """Raise if a partition of this name cannot move to this directory. Errors as of `move`, which looks it up afterwards."""
        if len(paths.future_dir_name(*where, "0" * 32)) > paths.FILE_NAME_CHARACTERS_MAX:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        if data_dir not in self._logs.data_dirs:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{data_dir} is not in log.dirs")
        if self._logs.is_offline(data_dir):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {data_dir} is offline")
        if data_dir in self._logs.cordoned:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {data_dir} is cordoned")

    async def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Return once none of these partitions moves; a move that can no longer be undone is completed."""
        ending = [move for where in partitions if (move := self._moves.get(where)) is not None]
        for move in ending:
            move.is_given_up = True
            move.scope.cancel()
        for move in ending:
            await move.ended.wait()

    def _start(self, which: Log, data_dir: str, node_id: int) -> None:
        move = self._moves[which.topic_partition] = LogMove(which, data_dir, node_id)
        if node_id not in self._paces:  # here, so that the throttle's allowance counts from the time of the request
            self._paces[node_id] = Pace(self._clock, self._live_config, node_id)
        self._tasks.start_soon(self._run, move)

    async def _run(self, move: LogMove) -> None:
        where = move.log.topic_partition
        try:
            with move.scope:
                try:
                    await self._cleaning.pause(where)
                    try:
                        await self._move(move)
                    finally:
                        self._cleaning.resume(where)
                except (RelocationError, KafkaError, OSError) as error:
                    move.is_given_up = True
                    log.error("%s", error)
                except Exception:
                    move.is_given_up = True
                    log.exception("cannot move %s to %s", where, move.target_dir)
        finally:
            with trio.CancelScope(shield=True):
                await self._release(move)
            del self._moves[where]
            move.ended.set()
            move.settled.set()

    async def _move(self, move: LogMove) -> None:
        moving, target_dir, old_dir = move.log, move.target_dir, move.log.data_dir
        where = moving.topic_partition
        await in_thread(Work.MOVE, old_dir, moving.make)
        relocation = move.relocation = self._logs.relocation(where, target_dir, self._clock.now_ms())
        pace = self._paces[move.node_id]
        manager = self._cleaning.manager
        await in_thread(Work.MOVE, target_dir, relocation.begin)
        clean_up_to = await in_thread(Work.MOVE, target_dir, manager.about_to_move, moving, target_dir)
        at_once_bytes = AT_ONCE_BYTES
        while True:
            allowed_bytes = await pace.allowance_bytes()
            copied_bytes = await in_thread(Work.MOVE, target_dir, relocation.step, allowed_bytes)
            if copied_bytes:
                pace.spend(copied_bytes)
                continue
            await in_thread(Work.MOVE, target_dir, relocation.prepare)
            await trio.lowlevel.checkpoint_if_cancelled()  # after this the move cannot be undone
            if relocation.finish(at_once_bytes):
                break
            at_once_bytes = min(2 * at_once_bytes, AT_ONCE_BYTES << DOUBLED_MAX)
        self._waits.replaced(moving)
        retry_ms = RETRY_MS
        while True:
            try:
                with trio.CancelScope(shield=True):
                    old = await in_thread(Work.MOVE, target_dir, relocation.complete)
                    self._logs.delete_later(old, self._clock.elapsed_ms() + moving.config.file_delete_delay_ms)
                    await in_thread(Work.MOVE, target_dir, manager.note_moved, moving, old_dir, clean_up_to)
                break
            except Exception as error:
                # E.g. no thread. While a start may choose either log, any error is retried, and nothing is cleaned.
                if not isinstance(error, RelocationError) and moving.is_place_on_disk:
                    raise
                if self._logs.is_offline(target_dir) or (self._logs.is_offline(old_dir) and moving.is_place_on_disk):
                    log.error("%s; the next start completes the move", error)
                    return
                if str(error) != move.problem:
                    log.error("%s; retrying until the disk works", error)
                move.problem = str(error)
                move.refusals += 1
                move.settled.set()
                await self._clock.sleep(retry_ms)
                retry_ms = min(2 * retry_ms, RETRY_MS_MAX)
        log.info("moved %s from %s to %s", where, old_dir, target_dir)

    async def _release(self, move: LogMove) -> None:
        relocation = move.relocation
        if relocation is None:
            return
        try:
            if move.is_given_up and not relocation.is_decided:
                left = await in_thread(Work.MOVE, move.target_dir, relocation.discard)
                self._logs.delete_later(left, self._clock.elapsed_ms())
            else:
                await in_thread(Work.MOVE, move.target_dir, relocation.release)
        except Exception as error:  # noqa: BLE001 - the next start removes the rest
            log.error("%s", error)
