"""Measurement of a topic of any Kafka by reading it, for `ottla advise`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from ....protocol.errors import KafkaError
from ....protocol.messages.fetch import PartitionData
from ....storage.advice.simulating import CLEANED_BYTES_PER_S, CleanerSettings
from ....storage.advice.summary import Summary
from ....storage.advice.tallying import BatchTally
from ....storage.disk.paths import TopicPartition
from ....storage.topics.config import LogConfig
from ...client.nodes import NodeConnections
from ...client.reading import EARLIEST, LATEST, LEVELS, fetches, whole_batches
from ..frame.errors import CommandError
from .asking import ClusterViews

_LEVEL = LEVELS["read_uncommitted"]
_LOOK_BYTES = 256 << 10
"""Bytes that are read to see whether a part of the log has gaps."""


class ServedLog(NamedTuple):
    """One partition."""

    of: TopicPartition
    start: int
    end: int


class ServedTopic(NamedTuple):
    """A topic, and what its brokers say about it."""

    logs: list[ServedLog]
    config: LogConfig
    cleaner: CleanerSettings
    notes: list[str]
    """Sentences on what is assumed or left out."""


def look_up(cluster: ClusterViews, name: str) -> ServedTopic:
    """Look up a topic. Errors as of `Kafka.topic`; CommandError for one without a leader."""
    topic = cluster.kafka.topic(name)
    starts, ends = cluster.offsets_at(name, EARLIEST), cluster.offsets_at(name, LATEST)
    logs = [
        ServedLog(TopicPartition(name, index), start, ends[index])
        for index, start in sorted(starts.items())
        if index in ends
    ]
    if not logs:
        raise CommandError(f"topic {name}: no partition has a leader")
    configs = {each.name: each.value for each in cluster.kafka.configs("topic", name)}
    config, _ = LogConfig.from_stored({name: value for name, value in configs.items() if value is not None})
    cleaner, notes = None, []
    leader = next((each.leader for each in topic.partitions if each.leader >= 0), None)
    with suppress(KafkaError):
        cleaner = _cleaner(
            {each.name: each.value for each in cluster.kafka.configs("broker", "" if leader is None else str(leader))}
        )
    if cleaner is None:
        notes.append("The brokers do not show the options of their cleaner: the defaults are assumed.")
    if len(logs) < len(topic.partitions):
        notes.append(f"{len(topic.partitions) - len(logs)} partitions have no leader, and are left out.")
    return ServedTopic(logs, config, cleaner or CleanerSettings(), notes)


def _cleaner(configs: Mapping[str, str | None]) -> CleanerSettings | None:
    """Return the settings of a broker's cleaner; None if it does not show them."""

    def value(name: str) -> str:
        found = configs[f"log.cleaner.{name}"]
        if found is None:
            raise KeyError(name)
        return found

    try:
        return CleanerSettings(
            threads=max(1, int(value("threads"))),
            dedupe_buffer_bytes=int(value("dedupe.buffer.size")),
            load_factor=float(value("io.buffer.load.factor")),
            bytes_per_s=min(CLEANED_BYTES_PER_S, max(1.0, float(value("io.max.bytes.per.second")))),
            backoff_ms=max(1, int(value("backoff.ms"))),
        )
    except (KeyError, ValueError):
        return None


def measure(nodes: NodeConnections, log: ServedLog, config: LogConfig, say: Callable[[str], None]) -> Summary:
    """Read a partition, and count it. The files are unknown, and so is why its segments rolled.

    Args:
        say: Called with the progress.

    Raises:
        CorruptRecordError: A batch cannot be read.
        KafkaError, OSError: A broker refuses, or does not answer.
    """
    of, start, end = log
    tally = BatchTally(
        log_start_offset=start,
        dirty_from=first_dirty_offset(nodes, log),
        record_bytes_max=config.max_decompressed_message_bytes,
        now_ms=time.time_ns() // 1_000_000,
        secret=os.urandom(16),
    )
    size_bytes = 0
    for offset, data in fetches(nodes, of.topic, of.partition, _LEVEL, start, end):
        say(f"reading {of}: offset {offset} of {end} …")
        if data.records:
            view = memoryview(data.records)  # type: ignore[arg-type]
            size_bytes += tally.take(view, len(view), str(of))
    return tally.summary(size_bytes=size_bytes, end_offset=end)


def first_dirty_offset(nodes: NodeConnections, log: ServedLog) -> int:
    """Return about the offset up to which the log was cleaned: no offset is absent from there on.

    A clean pass leaves gaps, so this needs about 30 small reads.
    """
    of, low, high = log
    while low < high:
        middle = (low + high) // 2
        after = None
        for _, data in fetches(nodes, of.topic, of.partition, _LEVEL, middle, middle + 1, fetch_bytes=_LOOK_BYTES):
            after = _end_of_gaps(data, middle)
        if after is None:
            high = middle
        else:
            low = max(after, middle + 1)
    return min(low, log.end)


def _end_of_gaps(data: PartitionData, start: int) -> int | None:
    """Return the end of the last batch from `start` on that follows a gap or has one; None without one."""
    expected, found = start, None
    for batch in whole_batches(data):
        if batch.base_offset > expected or batch.record_count <= batch.last_offset_delta:
            found = batch.next_offset
        expected = batch.next_offset
    return found
