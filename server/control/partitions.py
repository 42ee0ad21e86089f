"""Which logs an operation is about."""

from __future__ import annotations

from collections.abc import Iterable

from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ..broker.broker import Broker
from ..partitions.topics import Topic, Topics
from ..runtime.errors import ControlError, Kind, did_you_mean

_SHOWN = 249
"""Characters of what a caller gives; no topic's name is longer."""


def topic_named(topics: Topics, name: str) -> Topic:
    """The topic of this name. ControlError NOT_FOUND if there is none."""
    found = topics.get(name)
    if found is None:
        hint = did_you_mean(name, (each.name for each in topics))
        raise ControlError(Kind.NOT_FOUND, f"topic {name[:_SHOWN]!r} not found{hint}")
    return found


def logs_of(broker: Broker, topic: str, partitions: Iterable[int] | None = None) -> list[Log]:
    """The logs of a topic's partitions, all or those given, in the order of their numbers, each once.

    Raises:
        ControlError: NOT_FOUND: there is no such topic, or no such partition; CONFLICT: the topic is being deleted; INVALID: not a
            name, not numbers.
    """
    return logs_among(broker.services.topics, broker.services.logs.logs, topic, partitions)


def one_or_all(partition: int | None) -> list[int] | None:
    """As `logs_of` wants it; None: all."""
    return None if partition is None else [partition]


def logs_among(
    topics: Topics, logs: Iterable[TopicPartition], topic: str, partitions: Iterable[int] | None = None
) -> list[Log]:
    """`logs_of`, where `topics` are all there are, and `logs` the partitions that have any, on their way out or not."""
    if not isinstance(topic, str):
        raise ControlError(Kind.INVALID, f"topic: expected a name, found {topic!r:.{_SHOWN}}")
    if topics.get(topic) is None and any(tp.topic == topic for tp in logs):
        raise ControlError(Kind.CONFLICT, f"topic {topic} is being deleted")
    found = topic_named(topics, topic)
    of_it = [each.log for each in found.partitions]
    if partitions is None:
        return of_it
    wanted = _numbers(partitions)
    for number in wanted:
        if not 0 <= number < len(of_it):
            last = len(of_it) - 1
            has = "only partition 0" if last == 0 else f"partitions 0 to {last}"
            raise ControlError(Kind.NOT_FOUND, f"partition {number} of topic {topic} not found; it has {has}")
    return [of_it[number] for number in wanted]


def _numbers(partitions: Iterable[int]) -> list[int]:
    try:
        found = sorted(set(partitions))
        if found and all(isinstance(each, int) and not isinstance(each, bool) for each in found):
            return found
    except TypeError:
        pass
    raise ControlError(Kind.INVALID, f"partitions: expected numbers, found {partitions!r:.{_SHOWN}}")
