"""Forgetting transactional ids that nobody has used for long: tombstones in the log, then the tables."""

from __future__ import annotations

import logging

from ..coordination.jobs import Job
from ..coordination.store import RecordStore
from ..coordination.tombstones import Tombstones
from .metadata import CLOSED
from .records import transaction_key
from .settings import IDS_A_PIECE
from .shard import TransactionShard

log = logging.getLogger("ottla.transactions")


def expire(shard: TransactionShard, store: RecordStore, expiration_ms: int, now_ms: int) -> Job:
    """Forget the ids without open transaction that have not changed for `expiration_ms`.

    What the log does not take stays for the next time.
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
            "%d transactional ids cannot be forgotten yet: %s", tombstones.refused_count, tombstones.refusal.message
        )
