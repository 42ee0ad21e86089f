"""The end of transactions: the decision is written, every partition gets its marker, and the transaction is closed.

The decision is final. If a partition does not accept its marker (no node leads it, its disk refuses), the marker is retried; a
deleted partition needs none. Until the last marker is written, the transactional id stays prepared, and its producer gets
CONCURRENT_TRANSACTIONS.

Each step waits until the one before is on disk, if `flush.messages` of the topic requires that. No marker may survive without
its decision, and no transaction may be closed while a power loss could remove its markers.

    decision in __transaction_state -> flush -> markers in the partitions -> flush of each -> closed
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records import NO_PRODUCER_ID
from ...storage.disk.paths import TopicPartition
from ..coordination.deadlines import Deadline, Deadlines
from ..coordination.jobs import Job, Jobs, for_each, to_the_end
from ..coordination.shard import ShardState
from ..coordination.store import WhenFlushed
from ..partitions.appends import Flushed
from ..partitions.internal_topics import TRANSACTIONS_TOPIC
from .metadata import NO_TIMEOUT_MS, TransactionMetadata, TransactionState, bumps_epoch
from .records import partitions_by_topic
from .settings import MARKER_RETRY_MS, MARKERS_A_PIECE, TransactionSettings
from .shard import TransactionShard

log = logging.getLogger("ottla.transactions")

UNEXPECTED = "cannot complete the transaction of %s now"

# A transaction may have written to thousands of partitions.
PARTITIONS_IN_MESSAGE = 5

NEEDS_NO_MARKER = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION})
"""Errors of a partition that was deleted, or that never took part: an older version let clients name any partition."""

Persist = Callable[[TransactionShard, TransactionMetadata, int], None]
"""Function that writes metadata, then puts them into the shard's table. Raises KafkaError; then the table is unchanged."""


class WriteMarker(Protocol):
    """Function that writes one marker. Raises KafkaError: the partition refuses it, for ever if the code is in
    NEEDS_NO_MARKER."""

    def __call__(
        self,
        topic_partition: TopicPartition,
        /,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int,
    ) -> None: ...


class TransactionCompleter:
    """Ends transactions: those that a client ends, those that time out, and those that are decided at a load.

    Args:
        shards: Function that returns all present shards.
        when_flushed: Function that runs the next step after a flush.
        take_producer_id: Function that returns a producer id that was never used. Raises KafkaError if none is available; the
            caller may retry.
        transaction_version: Function that returns the present finalized level of the feature.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        deadlines: Deadlines,
        jobs: Jobs,
        *,
        shards: Callable[[], Sequence[TransactionShard]],
        persist: Persist,
        write_marker: WriteMarker,
        when_flushed: WhenFlushed,
        take_producer_id: Callable[[], int],
        transaction_version: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._jobs = jobs
        self._shards = shards
        self._persist = persist
        self._write_marker = write_marker
        self._when_flushed = when_flushed
        self._take_producer_id = take_producer_id
        self._transaction_version = transaction_version
        self._is_trying = False
        self._must_retry = False
        self._retry = Deadline(self._try_again)
        self._timeouts = Deadline(self._abort_timed_out)

    def end(
        self,
        shard: TransactionShard,
        metadata: TransactionMetadata,
        decision: TransactionState,
        client_version: int,
        now_ms: int,
    ) -> None:
        """Decide a transaction, and write the markers that partitions accept: now, or when the decision is on disk.

        Raises:
            KafkaError: Nothing was decided.
        """
        next_producer_id = NO_PRODUCER_ID
        if bumps_epoch(client_version) and metadata.is_epoch_exhausted:
            next_producer_id = self._take_producer_id()
        self._persist(shard, metadata.prepared(decision, client_version, next_producer_id, now_ms), now_ms)
        self._finish_decided(shard, metadata.transactional_id, now_ms)

    def fence(self, shard: TransactionShard, metadata: TransactionMetadata, now_ms: int) -> None:
        """Abort an open transaction under an epoch that its producer does not have.

        Raises:
            KafkaError: Nothing was decided.
        """
        version = self._transaction_version()
        if bumps_epoch(version):
            self.end(shard, metadata, TransactionState.PREPARE_ABORT, version, now_ms)
        else:
            self.end(shard, metadata.fenced(), TransactionState.PREPARE_ABORT, 0, now_ms)

    def watch(self, shard: TransactionShard, metadata: TransactionMetadata, now_ms: int) -> None:
        """Start the time-out of an open transaction.

        The time before a load can only be measured by the wall clock. After this call a step of the wall clock changes nothing.
        Apache Kafka reads the wall clock each time.
        """
        if metadata.timeout_ms == NO_TIMEOUT_MS:
            return
        if metadata.transactional_id not in shard.time_outs:
            left_ms = min(metadata.start_ms + metadata.timeout_ms - now_ms, metadata.timeout_ms)
            shard.time_outs[metadata.transactional_id] = self._deadlines.elapsed_ms() + left_ms
        self._look_again()

    @property
    def looks_at_ms(self) -> int | None:
        """Elapsed time of the next check for transactions that have timed out; None if no check is scheduled."""
        return self._timeouts.due_ms

    def _look_again(self) -> None:
        if self._timeouts.due_ms is None:
            interval_ms = self._settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
            self._deadlines.start(self._timeouts, interval_ms)

    def loaded(self, shard: TransactionShard, now_ms: int) -> Job:
        """Continue the open transactions of a loaded shard; requests may have reached some of them before."""

        def take_up(transactional_id: str) -> Job:
            metadata = shard.transactions.get(transactional_id)
            if metadata is not None and metadata.is_prepared and transactional_id not in shard.waiting:
                log.info("%s: writing the markers of a transaction that was decided before", transactional_id)
                self._finish_decided(shard, transactional_id, now_ms)
            elif metadata is not None and metadata.state is TransactionState.ONGOING:
                self.watch(shard, metadata, now_ms)
            yield

        failing = f"cannot resume transactions in {TRANSACTIONS_TOPIC}-{shard.partition}"
        yield from for_each(tuple(shard.open), take_up, failing)

    def _finish_decided(
        self, shard: TransactionShard, transactional_id: str, now_ms: int, *, is_first: bool = True
    ) -> None:
        """Run `_finish` once the decision is on disk. If it cannot be flushed, the coordinator unloads the partition."""

        def go_on(failed: Collection[TopicPartition], now_ms: int) -> None:
            if not failed:
                self._finish(shard, transactional_id, now_ms, is_first=is_first)

        decided_in = [TopicPartition(TRANSACTIONS_TOPIC, shard.partition)]
        self._take_step(shard, transactional_id, decided_in, go_on, now_ms)

    def _finish(self, shard: TransactionShard, transactional_id: str, now_ms: int, *, is_first: bool) -> None:
        """Write the missing markers of a decided transaction. Once they are on disk, close it if none is missing. For many
        partitions this is a job; nothing else handles the transaction during it, as it is in `waiting`."""
        steps = self._write_markers(shard, transactional_id, now_ms, is_first=is_first)
        if len(shard.transactions[transactional_id].partitions) <= MARKERS_A_PIECE:
            to_the_end(steps)
        else:
            shard.waiting.add(transactional_id)
            self._jobs.start(steps)

    def _write_markers(self, shard: TransactionShard, transactional_id: str, now_ms: int, *, is_first: bool) -> Job:
        if not self._is_served(shard):
            return
        metadata = shard.transactions[transactional_id]
        by_topic = partitions_by_topic(metadata.partitions)
        left = (TopicPartition(one.topic, index) for one in by_topic for index in one.partition_ids)
        marked: list[TopicPartition] = []
        some = list(islice(left, MARKERS_A_PIECE))
        while some:
            marked.extend(one for one in some if self._mark(shard, metadata, one))
            some = list(islice(left, MARKERS_A_PIECE))
            if some:
                yield
            if not self._is_served(shard):
                return

        def go_on(failed: Collection[TopicPartition], now_ms: int) -> None:
            unmarked = metadata.partitions.difference(marked).union(failed)
            self._close(shard, transactional_id, unmarked, now_ms)
            if is_first:
                self._log_delay(shard, transactional_id)

        self._take_step(shard, transactional_id, marked, go_on, now_ms)

    def _take_step(
        self,
        shard: TransactionShard,
        transactional_id: str,
        flushed: Collection[TopicPartition],
        step: Flushed,
        now_ms: int,
    ) -> None:
        """Call `step` once `flushed` are on disk, if the shard is still served then.

        An unexpected exception is logged, and the transaction is retried later: it is decided, and its producer would otherwise
        wait for ever.
        """

        def go_on(failed: Collection[TopicPartition], now_ms: int) -> None:
            shard.waiting.discard(transactional_id)
            if self._is_served(shard):
                try:
                    step(failed, now_ms)
                except Exception:
                    log.exception(UNEXPECTED, transactional_id)
                    self._retry_later()

        shard.waiting.add(transactional_id)
        try:
            self._when_flushed(flushed, go_on, now_ms)
        except Exception:
            log.exception(UNEXPECTED, transactional_id)
            shard.waiting.discard(transactional_id)
            self._retry_later()

    def _close(
        self, shard: TransactionShard, transactional_id: str, unmarked: frozenset[TopicPartition], now_ms: int
    ) -> None:
        """Write that a transaction is closed, unless partitions without marker are left."""
        metadata = shard.transactions[transactional_id]
        if unmarked != metadata.partitions:
            metadata = replace(metadata, partitions=unmarked)
            shard.put(metadata)
        if not unmarked:
            try:
                self._persist(shard, metadata.completed(now_ms), now_ms)
                return
            except KafkaError as error:
                log.debug("%s: cannot complete the transaction yet: %s", transactional_id, error)
        self._retry_later()

    def _is_served(self, shard: TransactionShard) -> bool:
        """Whether the shard is still the one of its partition: it may have been unloaded or reloaded."""
        return any(one is shard for one in self._shards())

    def _mark(self, shard: TransactionShard, metadata: TransactionMetadata, topic_partition: TopicPartition) -> bool:
        """Write one marker. Return False if it must be retried."""
        try:
            self._write_marker(
                topic_partition,
                producer_id=metadata.producer_id,
                producer_epoch=metadata.producer_epoch,
                coordinator_epoch=shard.coordinator_epoch,
                commit=metadata.is_commit,
                transaction_version=metadata.client_version,
            )
        except KafkaError as error:
            if error.code in NEEDS_NO_MARKER:
                return True
            log.debug("%s: cannot write the marker of %s: %s", topic_partition, metadata.transactional_id, error)
            return False
        except Exception:
            # After any exception the other partitions must get their markers.
            log.exception("cannot write the marker of %s to %s", metadata.transactional_id, topic_partition)
            return False
        return True

    @staticmethod
    def _log_delay(shard: TransactionShard, transactional_id: str) -> None:
        """Log a transaction that could not be closed at once. Retries are not logged: they may continue for a long time."""
        metadata = shard.transactions[transactional_id]
        if metadata.is_prepared:
            partitions = [str(one) for one in sorted(metadata.partitions)[:PARTITIONS_IN_MESSAGE]]
            log.warning(
                "%s: transaction decided, its markers are waiting for %s",
                transactional_id,
                ", ".join(partitions) or "the log",
            )

    def _try_again(self, now_ms: int) -> None:
        self._jobs.start(self._finish_all(now_ms))

    def _finish_all(self, now_ms: int) -> Job:
        self._is_trying = True
        self._must_retry = False
        try:
            for shard in self._active_shards():
                for transactional_id in tuple(shard.open):
                    metadata = shard.transactions.get(transactional_id)
                    if not self._is_served(shard) or metadata is None:
                        continue
                    if metadata.is_prepared and transactional_id not in shard.waiting:
                        self._finish_decided(shard, transactional_id, now_ms, is_first=False)
                    yield
        finally:
            self._is_trying = False
        if self._must_retry:
            self._retry_later()

    def _retry_later(self) -> None:
        """Schedule a retry. The time starts after the last try has ended, which may have taken longer than that."""
        self._must_retry = True
        if self._retry.due_ms is None and not self._is_trying:
            self._deadlines.start(self._retry, MARKER_RETRY_MS)

    def _abort_timed_out(self, now_ms: int) -> None:
        if any(shard.time_outs for shard in self._active_shards()):
            self._look_again()
        self._jobs.start(self._abort_all(now_ms))

    def _abort_all(self, now_ms: int) -> Job:
        elapsed_ms = self._deadlines.elapsed_ms()
        for shard in self._active_shards():
            for transactional_id in tuple(shard.time_outs):
                due_ms = shard.time_outs.get(transactional_id)
                if due_ms is not None and due_ms < elapsed_ms and self._is_served(shard):
                    self._abort(shard, shard.transactions[transactional_id], now_ms)
                yield

    def _abort(self, shard: TransactionShard, metadata: TransactionMetadata, now_ms: int) -> None:
        try:
            self.fence(shard, metadata, now_ms)
        except KafkaError as error:
            log.warning("%s timed out, but cannot be aborted yet: %s", metadata.transactional_id, error)
        except Exception:
            log.exception("%s timed out, but cannot be aborted yet", metadata.transactional_id)
        else:
            log.info("%s timed out after %d ms", metadata.transactional_id, metadata.timeout_ms)

    def _active_shards(self) -> list[TransactionShard]:
        return [shard for shard in self._shards() if shard.state is ShardState.ACTIVE]
