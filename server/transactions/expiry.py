"""Forgetting transactional ids that nobody has used for long: tombstones in the log, then the tables."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ...protocol.errors import KafkaError
from ..coordination.store import RecordStore
from .metadata import CLOSED
from .records import transaction_key
from .settings import TOMBSTONE_BATCH_BYTES
from .shard import TransactionShard

log = logging.getLogger("ottla.transactions")


def expire(shard: TransactionShard, store: RecordStore, expiration_ms: int, now_ms: int) -> None:
    """Forget the ids without open transaction that have not changed for `expiration_ms`.

    What the log does not take stays for the next time.
    """
    for batch in _batches(shard, now_ms - expiration_ms):
        try:
            store.append(shard.partition, [(key, None) for key in batch.values()], now_ms)
        except KafkaError as error:
            log.warning("transactional ids cannot be forgotten yet: %s", error)
            return
        for transactional_id in batch:
            shard.remove(transactional_id)


def _batches(shard: TransactionShard, unchanged_since_ms: int) -> Iterator[dict[str, bytes]]:
    """Keys by id, so many at a time as one append takes."""
    batch: dict[str, bytes] = {}
    size = 0
    for transactional_id, metadata in tuple(shard.transactions.items()):
        if metadata.state in CLOSED and metadata.updated_ms <= unchanged_since_ms:
            key = batch[transactional_id] = transaction_key(transactional_id)
            size += len(key)
            if size >= TOMBSTONE_BATCH_BYTES:
                yield batch
                batch, size = {}, 0
    if batch:
        yield batch
