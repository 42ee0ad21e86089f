"""A broker that compacts while a test observes it: topics whose every batch is a segment, a consumer, the idle cleaner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.records import Record, RecordBatch, batches
from ottla.server.broker.broker import Broker
from ottla.server.client.connection import Client
from ottla.server.config.resources import ConfigResourceType
from ottla.storage.cleaning.eligibility import BlockedReason
from support.broker.background_jobs import TRIES
from support.broker.conversation import create_topic, fetch
from support.logs.batches import ABORT

QUICK = {"log.cleaner.backoff.ms": "1", "log.retention.check.interval.ms": str(10**12)}
"""Options of a broker whose cleaner begins at once and leaves retention of other logs alone."""

VALUE = "v" * 600
"""A value so large that two batches do not fit into one of the segments below."""


def create_compacted(client: Client, name: str, **configs: Any) -> None:
    """Create a topic whose every batch with a `VALUE` gets a segment of its own; it is due as soon as anything is dirty."""
    defaults: dict[str, Any] = {
        "cleanup_policy": "compact",
        "internal_segment_bytes": 1000,
        "min_cleanable_dirty_ratio": 0,
    }
    assert create_topic(client, name, **defaults | configs).error_code == ErrorCode.NONE


def alter(client: Client, topic: str, **configs: Any) -> None:
    """Change configs of a topic; underscores in names stand for dots."""
    changes = tuple(AlterableConfig(name=name.replace("_", "."), value=str(value)) for name, value in configs.items())
    resource = AlterConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=topic, configs=changes)
    (row,) = client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    assert row.error_code == ErrorCode.NONE, row.error_message


def let_clean(broker: ottla.Broker) -> None:
    """Return when the cleaner has nothing to do; checks at every millisecond of the broker's clock."""
    assert broker.run(_came_to_rest, broker.inner), "the cleaner does not come to rest"


async def _came_to_rest(broker: Broker) -> bool:
    clock, manager = broker.clock, broker.services.cleaning.manager
    for _ in range(TRIES):
        found = manager.eligibility(list(broker.services.logs.logs.values()), clock.now_ms())
        if not any(each.eligible or each.waits_for is BlockedReason.HELD for each in found):
            return True
        await clock.sleep(1)
    return False


def consume(client: Client, topic: str, offset: int = 0, partition: int = 0, **options: Any) -> Iterator[Record]:
    """Yield the records that a consumer reads from `offset` to the end; client libraries leave out markers, and so does this.

    With `committed=True` aborted records are left out, by the broker's list of aborted transactions.
    """
    while True:
        data = fetch(client, topic, offset, partition, **options)
        assert data.error_code == ErrorCode.NONE, (offset, data.error_code)
        assert isinstance(data.records, bytes | memoryview)
        found = list(batches(data.records))
        if not found:
            return
        yield from (record for record in _records(found, data, **options) if record.offset >= offset)
        assert found[-1].next_offset > offset, "a consumer would never get on"
        offset = found[-1].next_offset


def _records(found: list[RecordBatch], data: Any, *, committed: bool = False, **_: Any) -> Iterator[Record]:
    beginning = (
        {(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()} if committed else set()
    )
    aborting: set[int] = set()
    for batch in found:
        aborting |= {producer_id for producer_id, first in beginning if first <= batch.last_offset}
        if batch.is_control:
            if any(record.key == bytes((0, 0, 0, ABORT)) for record in batch.records()):
                aborting.discard(batch.producer_id)
                beginning = {each for each in beginning if each[0] != batch.producer_id or each[1] > batch.last_offset}
        elif not (batch.is_transactional and batch.producer_id in aborting):
            yield from batch.records()


def last_values(client: Client, topic: str, **options: Any) -> dict[bytes | None, bytes | None]:
    """Return the last value of each key, as a consumer of the whole topic sees it; deleted keys are left out."""
    latest = {record.key: record.value for record in consume(client, topic, **options)}
    return {key: value for key, value in latest.items() if value is not None}


def offsets(client: Client, topic: str, offset: int = 0, **options: Any) -> list[int]:
    """Return the offsets of all records that a consumer reads from `offset` on."""
    return [record.offset for record in consume(client, topic, offset, **options)]


def log_bytes(directory: Path) -> int:
    """Return the size of a partition's segments."""
    return sum(path.stat().st_size for path in directory.glob("*.log"))
