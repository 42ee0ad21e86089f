"""Hard cases as topics: which there are, and how one is made."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import trio

from ....protocol.errors import KafkaError
from ....storage.disk.paths import TopicPartition
from ....storage.logs.log_parts import LogPlace
from ....storage.topics.config import LogConfig
from ...broker.broker import Broker
from ...partitions.topics import Topic
from ...runtime.errors import ControlError, Kind, did_you_mean, refusal
from ..groups import Position, begin_group_at, commit_offsets, remove_group
from ..operation import Name, TopicName, operation
from .table import CASES, Case, Expected, Level


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """A record that a correct client reads."""

    offset: int
    key: str
    value: str | None
    """null for a tombstone."""
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class OffsetForTime:
    """Result of a search by time."""

    timestamp_ms: int
    offset: int | None
    """First offset whose record has this timestamp or a later one; null if there is none."""


@dataclass(frozen=True, slots=True)
class LoadedCase:
    """A topic with one partition that contains a hard case, and what a correct client reads from it."""

    topic: str
    case: str
    start_offset: int
    """Start of the log: `earliest`."""
    end_offset: int
    """End of the log at both isolation levels: `latest`."""
    position: int
    """Position of a consumer that has read all batches; below `end_offset` if the last offsets have no batch."""
    time_ms: int
    """Reference time of the case, which the timestamps of records are relative to."""
    read_uncommitted: tuple[CaseRecord, ...]
    """Records that a consumer receives with `read_uncommitted`."""
    read_committed: tuple[CaseRecord, ...]
    """Records that a consumer receives with `read_committed`."""
    offsets_for_times: tuple[OffsetForTime, ...] = ()
    """Searches by time, if the case is about them."""
    group_id: str | None = None
    """Consumer group that was created with the case."""
    group_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class CaseInfo:
    """A hard case that can be loaded."""

    name: str
    looks_like: str
    reveals: str
    """What incorrect clients do."""
    threads: tuple[str, ...]
    """Links to reports of the bug."""


@dataclass(frozen=True, slots=True)
class CaseList:
    """All hard cases."""

    cases: tuple[CaseInfo, ...]


def cases() -> tuple[CaseInfo, ...]:
    """Return the cases for `load_case`."""
    return tuple(CaseInfo(case.name, case.looks_like, case.reveals, case.threads) for case in CASES.values())


@operation("GET", "/v1/cases", only_waits=True)
async def list_cases(_: Broker) -> CaseList:
    """List the hard cases that can be loaded."""
    return CaseList(cases())


@operation("POST", "/v1/cases/{name}", statuses=(404, 409))
async def load_case(broker: Broker, name: Name, topic: TopicName | None = None) -> LoadedCase:
    """Create a topic whose log is a hard case; the response contains what a correct client reads.

    The topic becomes visible to clients together with its content.

    Args:
        name: Name of the case.
        topic: Topic to create (default: the name of the case).

    Raises:
        ControlError: NOT_FOUND (no such case), CONFLICT (the topic exists, or the group that the case needs), INVALID (invalid topic
            name, or the broker does not support the group type), UNAVAILABLE, FAILED. Nothing was created.
    """
    case = case_of(name)
    services, topic = broker.services, name if topic is None else topic
    now_ms = services.clock.now_ms()
    time_ms = now_ms - case.begins_before_ms
    group_id = None if case.group_epoch is None else f"{topic}-group"
    made: Topic | None = None
    has_group = False
    try:
        plan = services.topic_admin.planner.plan(topic, num_partitions=1, configs=case.configs)
        producer_ids = [await services.producer_ids.take() for _ in range(case.producers)]
        if group_id is not None and case.group_epoch is not None:
            await begin_group_at(broker, group_id, case.group_epoch)
            has_group = True
        fill = partial(_fill, case, producer_ids, random.Random(broker.rng.getrandbits(64)), time_ms, now_ms)
        made = await services.topic_admin.create(plan, fill=fill)
        if group_id is not None:
            # A group that has nothing is forgotten within minutes.
            await commit_offsets(broker, group_id, {TopicPartition(topic, 0): Position(case.start_offset)})
    except BaseException as error:
        with trio.CancelScope(shield=True):
            await _undo(broker, made, group_id if has_group else None)
        if isinstance(error, KafkaError):
            raise refusal(error) from error
        raise
    return _loaded(case, topic, group_id, time_ms)


def case_of(name: str) -> Case:
    """The case of this name. ControlError NOT_FOUND if there is none."""
    found = CASES.get(name)
    if found is None:
        near = did_you_mean(name, CASES)
        raise ControlError(Kind.NOT_FOUND, f"case {name[:100]!r} not found; cases: {', '.join(CASES)}{near}")
    return found


async def _undo(broker: Broker, made: Topic | None, group_id: str | None) -> None:
    if made is not None:
        with suppress(KafkaError):  # the operator was told what the disk refuses
            await broker.services.topic_admin.take_back(made)
    if group_id is not None:
        with suppress(KafkaError):
            await remove_group(broker, group_id)


def _fill(
    case: Case,
    producer_ids: Sequence[int],
    rng: random.Random,
    time_ms: int,
    now_ms: int,
    place: LogPlace,
    config: LogConfig,
) -> int:
    """Write the log of the case; for the worker thread that makes the topic's."""
    from .bench import Bench  # with it the cleaner, which most brokers never need
    from .builders import BUILDS

    bench = Bench(place, config, producer_ids, rng)
    try:
        BUILDS[case.name](bench, time_ms)
    finally:
        bench.close(now_ms)
    return case.start_offset


def _loaded(case: Case, topic: str, group_id: str | None, time_ms: int) -> LoadedCase:
    def read_with(level: Level) -> tuple[CaseRecord, ...]:
        return tuple(_record(each, time_ms) for each in case.read_with(level))

    return LoadedCase(
        topic=topic,
        case=case.name,
        start_offset=case.start_offset,
        end_offset=case.end_offset,
        position=case.position,
        time_ms=time_ms,
        read_uncommitted=read_with("read_uncommitted"),
        read_committed=read_with("read_committed"),
        offsets_for_times=tuple(
            OffsetForTime(time_ms + after_ms, offset) for after_ms, offset in case.offsets_for_times
        ),
        group_id=group_id,
        group_epoch=case.group_epoch,
    )


def _record(expected: Expected, time_ms: int) -> CaseRecord:
    return CaseRecord(expected.offset, expected.key, expected.value, time_ms + expected.after_ms)
