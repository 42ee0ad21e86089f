"""All share partitions of one partition of `__share_group_state`, and how they are loaded from it."""

from __future__ import annotations

import logging

from ...protocol.records import Record, RecordBatch
from ..coordination.jobs import Job
from ..coordination.shard import Shard
from ..partitions.internal_topics import SHARE_STATE_TOPIC
from .share_records import read_record
from .share_states import ShareStates

log = logging.getLogger("ottla.sharing")


class ShareStateShard(Shard):
    """One partition's share partitions."""

    topic = SHARE_STATE_TOPIC

    def __init__(self, partition: int, updates_per_snapshot: int) -> None:
        super().__init__(partition)
        self.states = ShareStates(updates_per_snapshot)

    def drop(self) -> Job:
        yield from self.states.drop()

    def _replay_batch(self, batch: RecordBatch) -> None:
        if batch.is_control:
            log.warning(
                "%s-%d: ignored an unexpected marker at offset %d", self.topic, self.partition, batch.base_offset
            )
            return
        for record in self._records_of(batch):
            self._apply_or_pass(record, self._apply)

    def _apply(self, record: Record) -> None:
        found = read_record(record.key, record.value)
        if found is None:
            log.warning("%s-%d: unknown record type at offset %d", self.topic, self.partition, record.offset)
        else:
            self.states.replay(*found, record.offset)
