"""How many partitions repartition topics have that do not say it themselves: those of the largest topic that is read by whoever
writes to them, along the topology.

Apache Kafka goes over all subtopologies again and again until nothing is left, and takes what is known when it comes by; here a
subtopology is looked at when it would be come by first with something known, so a long chain costs no more than its length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heappop, heappush
from operator import attrgetter

from .....protocol.errors import ErrorCode, KafkaError
from .....protocol.messages.streams_group_heartbeat import Subtopology

_FAILED = "Failed to compute number of partitions for all repartition topics"


def repartition_counts(subtopologies: Collection[Subtopology], existing: Callable[[str], int | None]) -> dict[str, int]:
    """By name of each repartition topic that is read or written.

    Args:
        subtopologies: In the order in which they are gone over.
        existing: Partition count of a topic that exists; None if it does not.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY: topics feed each other, or one is read that nobody writes.
    """
    order = list(subtopologies)
    counts: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    for at, one in enumerate(order):
        for topic in one.repartition_source_topics:
            readers.setdefault(topic.name, []).append(at)
            if topic.partitions:
                counts[topic.name] = topic.partitions
    if not readers and not any(map(attrgetter("repartition_sink_topics"), order)):
        return {}
    # (pass, place in it) in which a subtopology is come by with something known.
    due = [(0, at) for at, one in enumerate(order) if one.source_topics or _known(one, counts)]
    queued = {at for _, at in due}
    while due:
        time_slice, at = heappop(due)
        one = order[at]
        known = _known(one, counts) + [count for name in one.source_topics if (count := existing(name)) is not None]
        for sink in one.repartition_sink_topics if known else ():
            if sink in counts:
                continue
            counts[sink] = max(known)
            for reader in readers.get(sink, ()):
                if reader not in queued:
                    queued.add(reader)
                    heappush(due, (time_slice if reader > at else time_slice + 1, reader))
    if any(sink not in counts for one in order for sink in one.repartition_sink_topics):
        message = f"{_FAILED}. There may be loops in the topology that cannot be resolved."
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    if any(topic.name not in counts for one in order for topic in one.repartition_source_topics):
        message = f"{_FAILED}, because a repartition source topic is never used as a sink topic."
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    return counts


def _known(one: Subtopology, counts: dict[str, int]) -> list[int]:
    return [counts[topic.name] for topic in one.repartition_source_topics if topic.name in counts]
