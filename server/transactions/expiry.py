"""Forgetting transactional ids that nobody has used for long: tombstones in the log, then the tables."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from ...protocol.errors import KafkaError
from ..coordination.jobs import Job
from ..coordination.store import RecordStore
from .metadata import CLOSED
from .records import transaction_key
from .settings import IDS_A_PIECE, TOMBSTONE_BATCH_BYTES
from .shard import TransactionShard

log = logging.getLogger("ottla.transactions")


def expire(shard: TransactionShard, store: RecordStore, expiration_ms: int, now_ms: int) -> Job:
    """Forget the ids without open transaction that have not changed for `expiration_ms`.

    What the log does not take stays for the next time.
    """
    ids = tuple(shard.transactions)
    for at in range(0, len(ids), IDS_A_PIECE):
        for batch in _batches(shard, ids[at : at + IDS_A_PIECE], now_ms - expiration_ms):
            try:
                store.append(shard.partition, [(key, None) for key in batch.values()], now_ms)
            except KafkaError as error:
                log.warning("transactional ids cannot be forgotten yet: %s", error)
                return
            for transactional_id in batch:
                shard.remove(transactional_id)
        yield


def _batches(shard: TransactionShard, ids: Iterable[str], unchanged_since_ms: int) -> Iterator[dict[str, bytes]]:
    """Keys of those `ids` that expire, by id, so many at a time as one append takes."""
    batch: dict[str, bytes] = {}
    size = 0
    for transactional_id in ids:
        metadata = shard.transactions.get(transactional_id)
        if metadata is not None and metadata.state in CLOSED and metadata.updated_ms <= unchanged_since_ms:
            key = batch[transactional_id] = transaction_key(transactional_id)
            size += len(key)
            if size >= TOMBSTONE_BATCH_BYTES:
                yield batch
                batch, size = {}, 0
    if batch:
        yield batch
