"""Creation of a seed's topics, records and committed offsets in a running broker: all of it, or nothing.

Everything that can be wrong is checked before anything is created. A topic becomes visible with all its records. If
something still fails on the way (a full disk, a name that another client took first), what was created before is
deleted.
"""

from __future__ import annotations

import logging
import random
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from typing import Annotated

import trio

from ....protocol.batch_builder import RecordParts, build_batch
from ....protocol.errors import ErrorCode, KafkaError
from ....storage.disk.paths import TopicPartition
from ....storage.logs.log import Log
from ....storage.logs.log_parts import LogPlace
from ....storage.logs.recovery import load_log
from ....storage.topics.config import TOPIC_OPTIONS, ConfigError, LogConfig
from ...broker.broker import Broker
from ...client.values import partition_of
from ...cluster.topic_plans import TopicPlan
from ...config.changes import check_topic_configs
from ...partitions.internal_topics import INTERNAL_TOPICS
from ...partitions.topics import Topic
from ...registry.errors import RegistryError
from ...runtime.errors import ControlError, Kind, did_you_mean, refusal
from ...runtime.threads import Work, in_thread, in_worker
from ...runtime.time_slices import TimeSlice
from ..acls import add_acls
from ..cases.load import load_case
from ..cases.table import CASES
from ..groups import Position, commit_offsets, group_exists, remove_group
from ..operation import Length, Name, operation
from ..quotas import list_quotas, parsed, set_all
from .fields import SEED_BYTES_MAX, SeedField
from .seed import EARLIEST, LATEST, Seed, SeedAcl, SeedCase, SeedGroup, SeedRecord, SeedTopic, seed_from_text

log = logging.getLogger("ottla.seed")

BATCH_BYTES, BATCH_RECORDS = 64 << 10, 1_000
RECORD_OVERHEAD_BYTES = 40
"""Size of a record in addition to its fields, an upper bound in most cases."""


@dataclass(frozen=True, slots=True)
class SeededTopic:
    """A topic that was created."""

    name: str
    partitions: int
    records: int


@dataclass(frozen=True, slots=True)
class SeedResult:
    """Everything that a seed has created."""

    topics: tuple[SeededTopic, ...] = ()
    groups: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    """Topics of the cases."""
    was_there: bool = False
    """Some or all of it existed from an earlier start; nothing was done."""
    acls: tuple[str, ...] = ()
    """ACLs that did not exist before."""
    subjects: tuple[str, ...] = ()
    """Subjects of the schema registry."""


@dataclass(slots=True)
class _Created:
    """Created things, to be deleted if the rest fails."""

    topics: list[Topic]
    groups: list[str]
    quotas: dict[str, dict[str, float | None]]
    """Previous quotas, by entity and key."""
    subjects: list[str]


@operation("POST", "/v1/seed", statuses=(404, 409))
async def apply_seed_text(
    broker: Broker,
    text: Annotated[str, Length(0, SEED_BYTES_MAX)],
    name: Name = "seed",
    *,
    unless_there: bool = False,
) -> SeedResult:
    """Create the topics, records, committed offsets and hard cases of a seed: all of it, or nothing.

    Args:
        text: A seed in YAML or JSON.
        name: Name of the seed in messages, e.g. its file name.
        unless_there: Do nothing and report no error if one of its topics or groups exists.
    """
    seeds = [await in_worker(lambda text: seed_from_text(text, name), text)]
    try:
        return await apply_seed(broker, seeds[0], unless_there=unless_there)
    finally:
        with trio.CancelScope(shield=True):
            await in_worker(list.clear, seeds)  # its fields may be hundreds of thousands


async def apply_seed(broker: Broker, seed: Seed, *, unless_there: bool = False) -> SeedResult:
    """Create everything in the seed.

    Args:
        unless_there: Do nothing if one of its topics or groups exists: a start on a directory that had the seed before.

    Raises:
        ControlError: INVALID, CONFLICT (a topic or group exists), NOT_FOUND (a group's topic does not), UNAVAILABLE, FAILED:
            one line that names file, line and field. The broker's content is unchanged.
    """
    time_slice = TimeSlice()
    there = await _existing_parts(broker, seed, time_slice)
    if unless_there and there:
        is_all = len(there) == len(seed.topics) + len(seed.cases) + len(seed.groups) + len(_subjects(seed))
        log.log(logging.INFO if is_all else logging.WARNING, "%s: seed skipped: %s exists", seed.source, there[0][1])
        return SeedResult(was_there=True)
    for field, what in there:
        raise field.error(f"{what} already exists", Kind.CONFLICT)
    if seed.acls and broker.services.authorizer is None:
        raise seed.acls[0].field.error(
            "no authorizer is configured; start the broker with authorizer.class.name", Kind.CONFLICT
        )
    plans = await _plans(broker, seed, time_slice)
    await _check_groups(broker, seed, {plan.name: len(plan.replicas) for plan in plans}, time_slice)
    made = _Created([], [], {}, [])
    try:
        for topic, plan in zip(seed.topics, plans, strict=True):
            made.topics.append(await _create_topic(broker, topic, plan))
        for case in seed.cases:
            await _load(broker, case, made)
        for group in seed.groups:
            made.groups.append(group.name)
            await _commit(broker, group, time_slice)
        await _limit(broker, seed, made)
        await _register(broker, seed, made)
        acls = await _add(broker, seed.acls)  # Last: nothing can fail after it.
    except BaseException:
        with trio.CancelScope(shield=True):
            await _delete_created(broker, made)
        raise
    return SeedResult(
        tuple(
            SeededTopic(topic.name, len(plan.replicas), topic.record_count)
            for topic, plan in zip(seed.topics, plans, strict=True)
        ),
        tuple(group.name for group in seed.groups),
        tuple(case.topic for case in seed.cases),
        acls=acls,
        subjects=tuple(_subjects(seed)),
    )


def _subjects(seed: Seed) -> dict[str, SeedField]:
    """Return the subjects of the schema registry, and where each begins."""
    found: dict[str, SeedField] = {}
    for each in seed.schemas:
        found.setdefault(each.subject, each.field)
    return found


async def _register(broker: Broker, seed: Seed, made: _Created) -> None:
    if not seed.schemas:
        return
    from ...registry.records import SCHEMAS_TOPIC
    from ...registry.registry import NewSchema, registry_of  # Most seeds have no schemas.

    topics = broker.services.topics
    is_new = topics.get(SCHEMAS_TOPIC) is None
    for each in seed.schemas:
        made.subjects.append(each.subject)
        try:
            await registry_of(broker).register(each.subject, NewSchema(each.content))
        except RegistryError as error:
            raise each.field.error(str(error), _KINDS.get(error.status, Kind.INVALID)) from error
        finally:
            if is_new and (topic := topics.get(SCHEMAS_TOPIC)) is not None:
                made.topics.append(topic)
                is_new = False


_KINDS = {each.value: each for each in Kind}


async def _delete_subjects(broker: Broker, subjects: Sequence[str]) -> None:
    if not subjects:
        return
    from ...registry.registry import registry_of

    for subject in dict.fromkeys(reversed(subjects)):
        for permanent in (False, True):
            with suppress(RegistryError):  # it was not registered yet, or the disk refuses everything
                await registry_of(broker).delete_subject(subject, permanent=permanent)


async def _limit(broker: Broker, seed: Seed, made: _Created) -> None:
    if not seed.quotas:
        return
    before = {state.entity: state.quotas for state in (await list_quotas(broker)).quotas}
    try:
        await set_all(broker, {each.entity: each.values for each in seed.quotas})
        for each in seed.quotas:
            had = before.get(str(parsed(each.entity)), {})
            made.quotas[each.entity] = {key: had.get(key) for key in each.values}
    except ControlError as error:
        raise seed.quotas[0].field.error(str(error), error.kind) from error


async def _add(broker: Broker, acls: Sequence[SeedAcl]) -> tuple[str, ...]:
    if not acls:
        return ()
    try:
        return (await add_acls(broker, [each.text for each in acls])).added
    except ControlError as error:
        raise acls[0].field.error(str(error), error.kind) from error


async def _load(broker: Broker, case: SeedCase, made: _Created) -> None:
    try:
        loaded = await load_case(broker, case.name, case.topic)
    except ControlError as error:
        raise case.field.error(str(error), error.kind) from error
    topic = broker.services.topics.get(loaded.topic)
    made.topics += [] if topic is None else [topic]
    made.groups += [] if loaded.group_id is None else [loaded.group_id]


async def _delete_created(broker: Broker, made: _Created) -> None:
    with suppress(ControlError):  # the disk refuses everything
        await set_all(broker, made.quotas)
    await _delete_subjects(broker, made.subjects)
    # Groups before topics: deleting a topic deletes the group's offsets in it, and the group itself minutes later.
    for group in reversed(made.groups):
        with suppress(KafkaError):  # it was not made yet, or its disk refuses everything
            await remove_group(broker, group)
    for topic in reversed(made.topics):
        with suppress(KafkaError):
            await broker.services.topic_admin.take_back(topic)


# Looking


async def _existing_parts(broker: Broker, seed: Seed, time_slice: TimeSlice) -> list[tuple[SeedField, str]]:
    """Return the parts of the seed that exist in the broker."""
    topics = broker.services.topics
    found = [(each.field, f"topic {each.name}") for each in seed.topics if topics.get(each.name) is not None]
    found += [(each.field, f"topic {each.topic}") for each in seed.cases if topics.get(each.topic) is not None]
    async for group in time_slice.each(seed.groups):
        try:
            if await group_exists(broker, group.name):
                found.append((group.field, f"group {group.name}"))
        except KafkaError as error:
            raise group.field.error(str(refusal(error)), refusal(error).kind) from error
    if seed.schemas:
        from ...registry.registry import registry_of

        try:
            state = await registry_of(broker).state()
        except RegistryError as error:
            raise seed.schemas[0].field.error(str(error), Kind.FAILED) from error
        found += [
            (field, f"subject {subject}")
            for subject, field in _subjects(seed).items()
            if state.has_subject(subject, deleted=True)
        ]
    return found


async def _plans(broker: Broker, seed: Seed, time_slice: TimeSlice) -> list[TopicPlan]:
    services = broker.services
    config, planner = services.config.current, services.topic_admin.planner
    flat: dict[str, str] = {}
    plans = []
    async for topic in time_slice.each(seed.topics):
        _check_configs(topic)
        try:
            _check_name(topic.name, flat)
            plan = planner.plan(
                topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=topic.configs,
            )
            log_config = check_topic_configs(config, topic.configs)
        except KafkaError as error:
            raise topic.field.error(str(refusal(error)), refusal(error).kind) from error
        if topic.records:
            home = services.cluster.catalog.data_dir
            await in_thread(Work.CATALOG, home, _check_records, topic.records, len(plan.replicas), log_config)
        plans.append(plan)
    for case in seed.cases:
        try:
            _check_name(case.topic, flat)
            planner.plan(case.topic, num_partitions=1, configs=CASES[case.name].configs)
        except KafkaError as error:
            raise case.field.error(str(refusal(error)), refusal(error).kind) from error
    return plans


def _check_configs(topic: SeedTopic) -> None:
    for name, field in topic.config_fields.items():
        option = TOPIC_OPTIONS.get(name)
        if option is None:
            raise field.error(f"unknown topic option{did_you_mean(name, TOPIC_OPTIONS)}")
        try:
            option.parse(topic.configs[name])
        except ConfigError as error:
            raise field.error(str(error)) from error


def _check_name(name: str, flat: dict[str, str]) -> None:
    """Raise KafkaError for conflicts that the planner cannot know: with internal topics, and between topics of the seed."""
    if name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is an internal topic")
    other = flat.setdefault(name.replace(".", "_"), name)
    if other != name:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with topic {other} of the seed")


def _check_records(records: Sequence[SeedRecord], partitions: int, config: LogConfig) -> None:
    """Check records; for a worker thread: there may be hundreds of thousands."""
    for record in records:
        if record.partition is not None and record.partition >= partitions:
            raise record.field.error(f"partition {record.partition} not found; the topic has 0 to {partitions - 1}")
        if record.key is None and config.is_compact:
            raise record.field.error("a record of a compacted topic requires a key")
        size_bytes = _size_of(record.key, record.value, record.headers)
        if size_bytes > config.max_message_bytes:
            raise record.field.error(
                f"record too large ({size_bytes} bytes, limit max.message.bytes={config.max_message_bytes})"
            )


async def _check_groups(broker: Broker, seed: Seed, planned: dict[str, int], time_slice: TimeSlice) -> None:
    topics, new = broker.services.topics, planned | {case.topic: 1 for case in seed.cases}
    async for each in time_slice.each(offset for group in seed.groups for offset in group.offsets):
        there = topics.get(each.topic)
        count = new.get(each.topic) if there is None else len(there.partitions)
        if count is None:
            near = did_you_mean(each.topic, chain(new, (topic.name for topic in topics)))
            raise each.field.error(f"topic {each.topic[:100]!r} not found{near}", Kind.NOT_FOUND)
        if each.partition is not None and each.partition >= count:
            raise each.field.error(f"partition {each.partition} not found; {each.topic} has 0 to {count - 1}")


# Making


async def _create_topic(broker: Broker, topic: SeedTopic, plan: TopicPlan) -> Topic:
    services = broker.services
    now_ms, rng = services.clock.now_ms(), random.Random(broker.rng.getrandbits(64))
    try:
        if not topic.records:
            return await services.topic_admin.create(plan)
        home = services.cluster.catalog.data_dir
        rows = await in_thread(Work.CATALOG, home, _Rows, topic.records, len(plan.replicas), now_ms)
        return await services.topic_admin.create(plan, fill=partial(_fill, rows, now_ms, rng))
    except KafkaError as error:
        raise topic.field.error(str(refusal(error)), refusal(error).kind) from error


class _Rows:
    """The records of a topic, by partition, in the order of the seed. Made in a worker thread."""

    def __init__(self, records: Sequence[SeedRecord], partitions: int, now_ms: int) -> None:
        self._records = records
        self._now_ms = now_ms
        self._ends = list(accumulate(record.repeat for record in records))
        self._numbers = [array("I") for _ in range(partitions)]
        number = keyless = 0
        for record in records:
            for key, _ in record.repetitions():
                if record.partition is not None:
                    at = record.partition
                elif key is not None:
                    at = partition_of(key, partitions)
                else:
                    at = keyless % partitions
                    keyless += 1
                self._numbers[at].append(number)
                number += 1

    def records_of(self, partition: int) -> Iterator[RecordParts]:
        """Yield the records of a partition, with offsets from 0 on."""
        for offset, number in enumerate(self._numbers[partition]):
            at = bisect_right(self._ends, number)
            record = self._records[at]
            key, value = record.repetition(number - (self._ends[at] - record.repeat))
            time_ms = self._now_ms if record.timestamp_ms is None else record.timestamp_ms(self._now_ms)
            yield offset, time_ms, key, value, record.headers


def _fill(rows: _Rows, now_ms: int, rng: random.Random, place: LogPlace, config: LogConfig) -> int:
    """Append the records of a partition, as if a producer had sent them; for the worker thread that creates its log."""
    written = load_log(place, config, now_ms=now_ms, rng=rng)
    try:
        for records in _batches(rows.records_of(place.topic_partition.partition), config):
            _append(written, records, now_ms)
        written.close(now_ms)
    finally:
        written.release_files()
    return 0


def _batches(rows: Iterator[RecordParts], config: LogConfig) -> Iterator[list[RecordParts]]:
    most_bytes = min(BATCH_BYTES, config.max_message_bytes // 2, config.segment_bytes // 2)
    batch: list[RecordParts] = []
    size_bytes = 0
    for row in rows:
        more_bytes = _size_of(row[2], row[3], row[4])
        if batch and (size_bytes + more_bytes > most_bytes or len(batch) == BATCH_RECORDS):
            yield batch
            batch, size_bytes = [], 0
        batch.append(row)
        size_bytes += more_bytes
    if batch:
        yield batch


def _append(to: Log, rows: Sequence[RecordParts], now_ms: int) -> None:
    made = build_batch([(number, *row[1:]) for number, row in enumerate(rows)], base_offset=0)
    to.append(memoryview(made), now_ms=now_ms)


def _size_of(key: object, value: object, headers: object) -> int:
    size_bytes = sum(len(each) for each in (key, value) if isinstance(each, bytes))
    assert isinstance(headers, tuple)
    return size_bytes + RECORD_OVERHEAD_BYTES + sum(len(name) + len(data or b"") + 4 for name, data in headers)


async def _commit(broker: Broker, group: SeedGroup, time_slice: TimeSlice) -> None:
    positions: dict[TopicPartition, Position] = {}
    for each in group.offsets:
        topic = broker.services.topics.get(each.topic)
        if topic is None or (each.partition is not None and each.partition >= len(topic.partitions)):
            raise each.field.error(f"topic {each.topic} was changed at the same time", Kind.CONFLICT)
        async for partition in time_slice.each(
            topic.partitions if each.partition is None else [topic.partitions[each.partition]]
        ):
            ends = {EARLIEST: partition.log.log_start_offset, LATEST: partition.log.high_watermark}
            offset = ends[each.offset] if isinstance(each.offset, str) else each.offset
            positions[partition.topic_partition] = Position(offset)
    try:
        await commit_offsets(broker, group.name, positions)
    except KafkaError as error:
        raise group.field.error(str(refusal(error)), refusal(error).kind) from error
