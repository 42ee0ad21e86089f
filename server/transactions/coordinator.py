"""The entry of transaction coordination: the effect of each request on a transactional id.

The request handlers and `service`, which supplies the time, call it. Every change is in the log before it is in the tables, and
an append that fails changes nothing.

Every method raises KafkaError if the whole request fails: INVALID_REQUEST (an empty transactional id), NOT_COORDINATOR (the
partition does not exist, or could not be loaded), COORDINATOR_LOAD_IN_PROGRESS, and the error of the append.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from ...storage.disk.paths import TopicPartition
from ..coordination.coordinator import Coordinator
from ..coordination.deadlines import Deadline
from ..coordination.jobs import Job, Steps
from ..coordination.records import Producer
from ..coordination.shard import ShardState
from ..coordination.store import RecordStore, Tombstones, WhenFlushed, call_at_once
from ..partitions.internal_topics import TRANSACTIONS_TOPIC
from .completer import TransactionCompleter, WriteMarker
from .decisions import check_not_prepared, check_producer, decide
from .listing import TransactionFilter, UnclosedTransaction, described
from .metadata import CLOSED, NO_EPOCH, NO_TIMEOUT_MS, TransactionMetadata, TransactionState, is_exhausted
from .records import transaction_key, transaction_value
from .settings import IDS_A_PIECE, TransactionSettings
from .shard import TransactionShard


class TransactionCoordinator(Coordinator[TransactionShard]):
    """All transactional ids, by partition of `__transaction_state`.

    Args:
        write_marker, when_flushed, take_producer_id, transaction_version: Arguments of `TransactionCompleter`.
        elapsed_ms: Monotonic time; see `Coordinator`.
    """

    topic = TRANSACTIONS_TOPIC

    def __init__(
        self,
        settings: TransactionSettings,
        store: RecordStore,
        *,
        write_marker: WriteMarker,
        when_flushed: WhenFlushed = call_at_once,
        take_producer_id: Callable[[], int],
        transaction_version: Callable[[], int],
        elapsed_ms: Callable[[], int],
        on_earlier: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(store, elapsed_ms, on_earlier)
        self._settings = settings
        self._take_producer_id = take_producer_id
        self._transaction_version = transaction_version
        self._expiry = Deadline(self._expire)
        self._completer = TransactionCompleter(
            settings,
            self._deadlines,
            self._jobs,
            shards=lambda: self.shards,
            persist=self._persist,
            write_marker=write_marker,
            when_flushed=when_flushed,
            take_producer_id=take_producer_id,
            transaction_version=transaction_version,
        )

    def shard_for(self, key: str) -> TransactionShard:
        """Return the shard of a transactional id. Raises INVALID_REQUEST for an empty id."""
        check_id(key)
        return super().shard_for(key)

    def _new_shard(self, partition: int) -> TransactionShard:
        return TransactionShard(partition)

    def _activated(self, shard: TransactionShard, now_ms: int) -> None:
        shard.coordinator_epoch = self._store.leader_epoch(shard.partition)
        self._start_job(shard, self._completer.loaded(shard, now_ms))
        if self._expiry.due_ms is None:
            self._repeat_expiry()

    def _unloaded(self, shard: TransactionShard, error: ErrorCode, now_ms: int) -> Job:
        """Do nothing: no request is parked, and the deadlines use the present shards."""
        yield from ()

    # Producers

    def init_producer_id(
        self,
        shard: TransactionShard,
        transactional_id: str,
        timeout_ms: int,
        expected: Producer | None,
        now_ms: int,
        *,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> Producer:
        """Give the transactional id to a producer, and fence the producer that had it before.

        Args:
            expected: Id and epoch that the producer claims to have (KIP-360); None if it sends none.
            two_phase: Whether its transactions never time out, whatever `timeout_ms` is (KIP-939).
            keep_prepared: Whether to keep the open transaction, which Apache Kafka does not support yet.

        Raises:
            KafkaError: also INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS while the earlier transaction
                is not closed (an open one is aborted by this call), TRANSACTIONAL_ID_AUTHORIZATION_FAILED for two phases if
                they are not enabled, and UNSUPPORTED_VERSION for `keep_prepared`.
        """
        if two_phase and not self._settings.transaction_two_phase_commit_enable:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transaction.two.phase.commit.enable is false"
            )
        if keep_prepared:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "keeping a prepared transaction is not supported")
        if two_phase:
            timeout_ms = NO_TIMEOUT_MS
        elif not 0 < timeout_ms <= self._settings.transaction_max_timeout_ms:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"transaction timeout {timeout_ms} ms is not between 1 and {self._settings.transaction_max_timeout_ms}",
            )
        shard.check_active()
        metadata = shard.transactions.get(transactional_id)
        if metadata is None:
            metadata = TransactionMetadata(
                transactional_id=transactional_id,
                producer_id=self._take_producer_id(),
                timeout_ms=timeout_ms,
                updated_ms=now_ms,
            )
        check_not_prepared(metadata)
        if expected is not None:
            _check_expected(metadata, expected)
        if metadata.state is TransactionState.ONGOING:
            self._completer.fence(shard, metadata, now_ms)
            # Apache Kafka's clients expect to ask twice, even if the first request has already aborted the transaction.
            raise KafkaError(
                ErrorCode.CONCURRENT_TRANSACTIONS, f"the open transaction of {transactional_id} is being aborted"
            )
        expected_epoch = None if expected is None else expected.producer_epoch
        if metadata.is_epoch_exhausted and expected_epoch in (None, metadata.producer_epoch):
            following = metadata.with_producer_id(
                self._take_producer_id(), timeout_ms, now_ms, keeps_last_epoch=expected is not None
            )
        else:
            following = metadata.with_next_epoch(timeout_ms, expected_epoch, now_ms)
        self._persist(shard, following, now_ms)
        return Producer(following.producer_id, following.producer_epoch)

    # Transactions

    def add_partitions(
        self,
        shard: TransactionShard,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> None:
        """Add partitions to the producer's transaction, which begins with the first ones.

        Raises:
            KafkaError: also INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        metadata = _require_metadata(shard, transactional_id)
        check_not_prepared(metadata)
        check_producer(metadata, producer)
        if metadata.state is TransactionState.ONGOING and metadata.partitions.issuperset(partitions):
            return
        following = metadata.with_partitions(frozenset(partitions), client_version, now_ms)
        self._persist(shard, following, now_ms)
        self._completer.watch(shard, following, now_ms)

    def verify_partitions(
        self, shard: TransactionShard, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Return the members of `partitions` that are not in the producer's transaction (KIP-890).

        Raises:
            KafkaError: also INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        metadata = _require_metadata(shard, transactional_id)
        check_producer(metadata, producer)
        check_not_prepared(metadata)
        return [one for one in partitions if one not in metadata.partitions]

    def end_transaction(
        self,
        shard: TransactionShard,
        transactional_id: str,
        producer: Producer,
        commit: bool,
        client_version: int,
        now_ms: int,
    ) -> Producer:
        """Commit or abort the producer's transaction; the decision is final when this returns.

        Returns:
            The producer's id and epoch from now on: unchanged up to transaction version 1, with a new epoch from version 2 on.

        Raises:
            KafkaError: also INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
        """
        metadata = _require_metadata(shard, transactional_id)
        decision = decide(metadata, producer, commit, client_version)
        if decision is not None:
            self._completer.end(shard, metadata, decision, client_version, now_ms)
            metadata = shard.transactions[transactional_id]
            if metadata.is_prepared:
                metadata = metadata.completed(now_ms)
        return Producer(metadata.producer_id, metadata.producer_epoch)

    # Queries

    def list_transactions(
        self, partitions: Sequence[int], wanted: TransactionFilter, now_ms: int
    ) -> Steps[list[TransactionMetadata]]:
        """List the transactional ids of these partitions that pass the filter.

        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION; COORDINATOR_LOAD_IN_PROGRESS if one of the partitions is loading, or is
                unloaded before it has been listed.
        """
        shards = [self.shards[partition] for partition in partitions]
        for shard in shards:
            if shard.state is ShardState.LOADING:
                raise KafkaError(
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{TRANSACTIONS_TOPIC}-{shard.partition} is loading"
                )
        # The metadata are values: each is as it was at some moment of the search.
        return (yield from wanted.select(self._each_in(shards, lambda shard: shard.transactions), now_ms))

    def open_transactions(self, now_ms: int) -> Steps[dict[int, UnclosedTransaction]]:
        """Return every transaction that is not closed, by producer id; for shards that are being loaded, those known so far."""
        found: dict[int, UnclosedTransaction] = {}
        for shard in tuple(self.shards):
            for transactional_id in tuple(shard.open):
                yield
                metadata, due_ms = shard.transactions.get(transactional_id), shard.time_outs.get(transactional_id)
                if metadata is None:
                    continue
                aborted_at_ms, elapsed_ms = None, self._deadlines.elapsed_ms()
                if due_ms is not None:
                    # A transaction is aborted not at its time-out, but at the first check after it.
                    aborted_at_ms = now_ms - elapsed_ms + max(due_ms + 1, self._completer.looks_at_ms or elapsed_ms)
                found[metadata.producer_id] = UnclosedTransaction(
                    transactional_id=transactional_id,
                    producer_id=metadata.producer_id,
                    state=metadata.state.title,
                    started_ms=metadata.start_ms,
                    timeout_ms=metadata.timeout_ms,
                    aborted_at_ms=aborted_at_ms,
                )
        return found

    @staticmethod
    def describe(shard: TransactionShard, transactional_id: str) -> DescribedTransaction:
        """Describe one transactional id. Raises KafkaError: also TRANSACTIONAL_ID_NOT_FOUND."""
        shard.check_active()
        metadata = shard.transactions.get(transactional_id)
        if metadata is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"transactional ID {transactional_id} not found")
        return described(metadata)

    # Helpers

    def _persist(self, shard: TransactionShard, metadata: TransactionMetadata, now_ms: int) -> None:
        value = transaction_value(metadata, self._transaction_version())
        self._store.append(shard.partition, [(transaction_key(metadata.transactional_id), value)], now_ms)
        shard.put(metadata)

    def _expire(self, now_ms: int) -> None:
        self._repeat_expiry()
        for shard in self.shards:
            if shard.state is ShardState.ACTIVE:
                expiring = expire(shard, self._store, self._settings.transactional_id_expiration_ms, now_ms)
                self._start_job(shard, expiring)

    def _repeat_expiry(self) -> None:
        interval_ms = self._settings.transaction_remove_expired_transaction_cleanup_interval_ms
        self._deadlines.start(self._expiry, interval_ms)


def _require_metadata(shard: TransactionShard, transactional_id: str) -> TransactionMetadata:
    shard.check_active()
    metadata = shard.transactions.get(transactional_id)
    if metadata is None:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"transactional ID {transactional_id} has no producer ID"
        )
    return metadata


def check_id(transactional_id: str) -> None:
    """Raise INVALID_REQUEST for an empty transactional id."""
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional ID is empty")


def _check_expected(metadata: TransactionMetadata, expected: Producer) -> None:
    """Raise PRODUCER_FENCED unless the producer has the id, had it until its epochs were exhausted, or no producer has used the
    transactional id yet."""
    if metadata.producer_epoch == NO_EPOCH or expected.producer_id == metadata.producer_id:
        return
    if expected.producer_id == metadata.previous_producer_id and is_exhausted(expected.producer_epoch):
        return
    raise KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"{metadata.transactional_id} has producer ID {metadata.producer_id}, not {expected.producer_id}",
    )


log = logging.getLogger("ottla.transactions")


def expire(shard: TransactionShard, store: RecordStore, expiration_ms: int, now_ms: int) -> Job:
    """Forget the transactional ids without open transaction that have not changed for `expiration_ms`.

    If the log refuses a tombstone, its id stays until the next run.
    """
    tombstones = Tombstones(store, shard.partition, now_ms, shard.remove)
    ids = tuple(shard.transactions)
    for at in range(0, len(ids), IDS_A_PIECE):
        for transactional_id in ids[at : at + IDS_A_PIECE]:
            metadata = shard.transactions.get(transactional_id)
            is_closed = metadata is not None and metadata.state in CLOSED
            if metadata is not None and is_closed and metadata.updated_ms <= now_ms - expiration_ms:
                tombstones.add(transactional_id, transaction_key(transactional_id))
        tombstones.write()
        yield
    if tombstones.refusal is not None:
        log.warning(
            "%d transactional IDs cannot be expired yet: %s", tombstones.refused_count, tombstones.refusal.message
        )
