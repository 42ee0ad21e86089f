"""Erasure of keys: the pass that also removes their tombstones, and the search for all that is left of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial
from typing import Annotated

from ...storage.data_dirs.inspection import unique
from ...storage.disk.os_files import ReadOnlyFiles
from ...storage.erasure.places import KEYS_MAX, KeyReport
from ...storage.erasure.record_fates import LogState
from ...storage.erasure.search import Search
from ..broker.broker import Broker
from ..runtime.errors import ControlError, Kind
from ..runtime.threads import search
from ..runtime.time_slices import TimeSlice
from .compaction import Compaction, compact_logs
from .operation import Encoding, Length, Partitions, TopicName, decoded, operation
from .partitions import logs_of

PAUSE_S = 0.1
"""Pause of a search after files have changed under it, in seconds."""

Keys = Annotated[tuple[Annotated[str, Length(0, 1 << 21)], ...], Length(1, KEYS_MAX)]


@operation("POST", "/v1/topics/{topic}/find-keys", statuses=(404, 409), only_waits=True)
async def find_keys_text(broker: Broker, topic: TopicName, keys: Keys, encoding: Encoding = Encoding.TEXT) -> KeyReport:
    """Find all that is left of some keys in the broker's data directories: where, why, and when it goes.

    Each log file of the topic is read and unpacked: segments, files that the broker is about to remove, unfinished copies, and
    directories of deleted partitions. Snapshots elsewhere are not searched.

    Args:
        keys: The keys.
        encoding: Encoding of the keys.
    """
    return await find_keys(broker, topic, _decoded(keys, encoding))


async def find_keys(broker: Broker, topic: str, keys: Iterable[bytes]) -> KeyReport:
    """Search the data directories for these keys; may be cancelled at any time.

    Raises:
        ControlError: NOT_FOUND: topic not found.
    """
    logs, time_slice = logs_of(broker, topic), TimeSlice()
    clean_below = broker.services.cleaning.manager.first_dirty_offsets(logs)
    states = {}
    async for log, offset in time_slice.each(zip(logs, clean_below, strict=True)):
        states[log.topic_partition] = LogState(
            config=log.config, clean_below=offset, log_start_offset=log.log_start_offset
        )
    data_dirs = unique(broker.config.current.data_dirs)
    searching = Search(
        ReadOnlyFiles(),
        data_dirs,
        topic,
        keys,
        broker.clock.now_ms(),
        config=logs[0].config,
        states=states,
        partitions=[log.topic_partition.partition for log in logs if log.log_end_offset],
        pause=partial(threading.Event().wait, PAUSE_S),  # in the thread of the search
    )
    return await search(data_dirs[0], searching.steps())


@operation("POST", "/v1/topics/{topic}/erase-keys", statuses=(404, 409))
async def erase_keys(
    broker: Broker,
    topic: TopicName,
    keys: Keys,
    encoding: Encoding = Encoding.TEXT,
    partitions: Partitions | None = None,
) -> Compaction:
    """Clean a compacted topic by force, and remove the tombstones of some keys in the same pass.

    Write a tombstone of each key first: this call removes no value that is the newest of its key. Of these keys it also removes the
    tombstones that no pass has covered yet, as if `delete.retention.ms` were over. A consumer that has not read such a tombstone
    never sees that the key was deleted. All other keys are cleaned as by `compact` with `force`.

    Args:
        keys: The keys.
        encoding: Encoding of the keys.
        partitions: Partition numbers (default: all partitions of the topic).

    Raises:
        ControlError: CONFLICT: the topic has an `ottla.compaction.strategy`, by which an older value may win against a tombstone.
    """
    config = logs_of(broker, topic)[0].config
    if config.version_source is not None:
        raise ControlError(
            Kind.CONFLICT,
            f"topic {topic} has ottla.compaction.strategy={config.ottla_compaction_strategy}: a tombstone removes only values"
            " with lower versions; write one with the highest version of its key, then compact the topic",
        )
    return await compact_logs(broker, topic, partitions, force=True, erased_keys=_decoded(keys, encoding))


def _decoded(keys: Iterable[str], encoding: Encoding) -> frozenset[bytes]:
    found = frozenset(decoded("keys", key, encoding) for key in keys)
    if not found:
        raise ControlError(Kind.INVALID, "keys: expected at least one key")
    return found
