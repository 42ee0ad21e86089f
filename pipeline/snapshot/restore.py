"""Restore of a snapshot into a topic with librdkafka: every record goes to the partition that it had.

Each partition is written by one process, in the order of its rows, so the order in a partition is that of the snapshot. Records keep
their timestamps and headers, and get new offsets. How much of a partition is written is stored in the Kafka itself, in the same
transactions as the records (`partition_writer`). So a restore that was killed continues with `resumes`, from any machine that has
the snapshot: no record is lost, none is written twice. Without it, all records are written again, which compaction reduces to
one.

Memory of a process: TRANSACTION_BYTES of waiting records, a batch of rows and its objects, and what `StoredPart` says.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from multiprocessing import connection
from typing import Any, NamedTuple

import pyarrow as pa

from ..addresses import CONNECT_TIMEOUT_S, check_that_somebody_is_there
from ..errors import PipelineError, UsageError
from ..objects.addresses import parse_fs_options
from ..objects.object_files import ObjectFiles
from ..steps import UNWATCHED, Watch
from ..stores.reading_files import resolved
from .partition_writer import (
    SILENT,
    TIMEOUT_S,
    Target,
    committed_rows,
    forget_places,
    librdkafka,
    refusals,
    write_partition,
)
from .snapshot_folder import REPLACED
from .stored_rows import StoredPart, StoredSnapshot, digest

NO_TOPIC = "{}: expected a topic to restore into, found none (--create makes it)"
NEW_TOPIC_CONFIGS = {"cleanup.policy": "compact"}


def _is_bytes(type_: pa.DataType) -> bool:
    return not pa.types.is_nested(type_) and any(name in str(type_) for name in ("binary", "string", "null"))


def _is_headers(type_: pa.DataType) -> bool:
    if not (pa.types.is_list(type_) or pa.types.is_large_list(type_)):
        return bool(pa.types.is_null(type_))
    each = type_.value_type
    return pa.types.is_null(each) or (pa.types.is_struct(each) and {"key", "value"} <= {field.name for field in each})


_COLUMNS: Mapping[str, tuple[str, Callable[[pa.DataType], bool]]] = {
    "key": ("bytes", _is_bytes),
    "value": ("bytes", _is_bytes),
    "partition": ("integers", pa.types.is_integer),
    "offset": ("integers", pa.types.is_integer),
    "timestamp": ("timestamps", pa.types.is_timestamp),
    "timestampMs": ("integers", pa.types.is_integer),
    "headers": ("lists of key and value", _is_headers),
}
NEEDED = ("key", "value", "partition", "offset", "timestamp")
"""Columns that a snapshot must have. The others are also read if they exist."""
LOOK_EVERY_S = 0.5
STUCK_S = 2 * TIMEOUT_S
STOP_S = 15.0
"""Time after which a process ends that does not stop by itself."""


class RestoreResult(NamedTuple):
    """Result of a restore."""

    topic: str
    records: int
    """Records written by this call."""
    partitions: int
    """Partitions of the snapshot that have records."""


def restore(
    snapshot: str,
    topic: str,
    bootstrap_servers: str,
    *,
    producer_config: Mapping[str, str] | None = None,
    creates: bool = False,
    resumes: bool = False,
    processes: int = 1,
    fs_options: Mapping[str, str] | None = None,
    watch: Watch = UNWATCHED,
) -> RestoreResult:
    """Write all records of a snapshot into a topic.

    Args:
        producer_config: Options of librdkafka. Its brokers and its transactional id are ignored.
        creates: Create the topic if it does not exist: compacted, with as many partitions as the snapshot.
        resumes: Continue where an earlier call for the same snapshot and topic ended. The Kafka keeps its group of places for
            `offsets.retention.minutes`, and forgets it with the topic.
        processes: Number of processes, each of which writes a partition at a time; 1 is the caller's own. More
            import the caller's main module again, which needs the usual guard.
        fs_options: Options of the store, if the snapshot has an address.
        watch: Receives the progress.

    Raises:
        UsageError: The snapshot does not exist, the topic has too few partitions, or confluent-kafka is not installed.
        PipelineError: The broker did not accept a record, or a process was killed.
    """
    stored, parts = _opened(snapshot, fs_options or {})
    check_that_somebody_is_there(bootstrap_servers)
    manifest = stored.manifest
    identity = digest("" if manifest is None else manifest.to_json(), parts)
    target = Target(topic, bootstrap_servers, producer_config or {}, f"ottla-restore-{topic}-{identity}")
    numbers = [part.partition for part in parts]
    known = {*numbers, *(() if manifest is None else manifest.partitions)}
    partition_count = _partition_count(target, max(known, default=0) + 1 if creates else None)
    if numbers and max(numbers) >= partition_count:
        raise UsageError(
            f"{topic}: expected partition {max(numbers)}, which the snapshot has, found {partition_count} partitions"
        )
    places = [0] * len(parts)
    # A transaction that a killed process left open is ended only by the partition's next writer, who reads its place again.
    with closing(target.places(waits=False)) as consumer:
        if resumes and parts:
            places = committed_rows(target, consumer, numbers)
        elif parts:
            forget_places(target, consumer, numbers)
    left = [(part, place) for part, place in zip(parts, places, strict=True) if place < part.row_count]
    watch.begin(topic)
    count = watch.step("rows written", sum(part.row_count - place for part, place in left))
    written = 0
    for records in _each(target, left, min(processes, len(left)), count):
        written += records
    return RestoreResult(topic, written, len(parts))


def _opened(snapshot: str, fs_options: Mapping[str, str]) -> tuple[StoredSnapshot, list[StoredPart]]:
    try:
        stored = StoredSnapshot(snapshot, ObjectFiles(parse_fs_options(fs_options)))
        types = {name: stored.schema.field(name).type for name in _COLUMNS if name in stored.schema.names}
        if missing := [name for name in NEEDED if name not in types]:
            raise UsageError(f"{snapshot}: expected the columns {', '.join(NEEDED)}, found no {', '.join(missing)}")
        for name, found in types.items():
            what, fits = _COLUMNS[name]
            if not fits(found):
                raise UsageError(f"{snapshot}: expected {what} in the column {name}, found {found}")
        parts = stored.parts([*types])
    except (OSError, ValueError) as error:
        old = resolved(snapshot) + REPLACED
        hint = f"; {old} is the old one, left by a job that died while it replaced it" if os.path.isdir(old) else ""
        raise UsageError(f"{snapshot}: expected a snapshot, found none ({error}){hint}") from error
    if parts and parts[0].partition < 0:
        raise UsageError(f"{snapshot}: expected partitions from 0 on, found {parts[0].partition}")
    return stored, parts


def _partition_count(target: Target, creates_with: int | None) -> int:
    """Return the topic's number of partitions. A missing topic is created with `creates_with` partitions."""
    topic = target.topic
    producer = target.producer(target.group)  # whose options are checked
    try:
        # All topics, as a request for one may create it.
        found = producer.list_topics(timeout=CONNECT_TIMEOUT_S).topics.get(topic)
    except librdkafka().KafkaException as error:
        raise PipelineError(f"no broker answers at {target.bootstrap_servers}: {error.args[0].str()}") from error
    if found is None:
        if creates_with is None:
            raise UsageError(NO_TOPIC.format(topic))
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient(target.other_options(), logger=SILENT)
        with refusals(f"{topic} was not created"):
            made = NewTopic(topic, creates_with, -1, config=NEW_TOPIC_CONFIGS)
            admin.create_topics([made], operation_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
        return creates_with
    if found.error is not None:
        raise UsageError(f"{topic}: expected a topic to restore into, found {found.error}")
    return len(found.partitions)


Left = Sequence[tuple[StoredPart, int]]
"""Partitions, each with the place from which its rows are left."""


def _each(target: Target, left: Left, processes: int, count: Callable[[int], object]) -> Iterator[int]:
    """Write each partition, and yield the number of its records."""
    if processes > 1:
        yield from _each_in_processes(target, left, processes, count)
        return
    for part, place in left:
        seen = [place]

        def written(place: int, seen: list[int] = seen) -> None:
            count(place - seen[0])
            seen[0] = place

        yield _write(target, part, written, lambda: True)


def _write(target: Target, part: StoredPart, written: Callable[[int], object], goes_on: Callable[[], bool]) -> int:
    try:
        return write_partition(target, part, written, goes_on)
    except pa.ArrowException as error:
        raise PipelineError(f"{target.topic}-{part.partition}: the snapshot's rows cannot be read: {error}") from error


class _Here(NamedTuple):
    """Arguments with which a process of the pool was started."""

    target: Target
    places: MutableSequence[int]
    """Place that each partition has reached, by its number among those that are left; shared with the caller."""
    stops: Any
    """A number that becomes 1; shared, and without a lock, which a process that is killed may hold."""


_here: _Here | None = None


def _each_in_processes(target: Target, left: Left, processes: int, count: Callable[[int], object]) -> Iterator[int]:
    context = multiprocessing.get_context("spawn")  # librdkafka does not survive a fork
    places: Any = context.RawArray("q", [place for _, place in left])
    stops = context.RawValue("b", 0)
    counted = sum(places)
    pool = ProcessPoolExecutor(processes, context, _begin, (_Here(target, places, stops),))
    try:
        # The largest first: the last one to end is then a short one.
        order = sorted(range(len(left)), key=lambda number: left[number][1] - left[number][0].row_count)
        pending: set[Future[int]] = {pool.submit(_work, number, left[number][0]) for number in order}
        moved_s = time.monotonic()
        while pending:
            done, pending = wait(pending, LOOK_EVERY_S, FIRST_COMPLETED)
            now = sum(places)
            count(now - counted)
            if done or now != counted:
                moved_s = time.monotonic()
            elif time.monotonic() - moved_s > STUCK_S:
                raise PipelineError(f"{target.topic}: no record was stored within {STUCK_S:.0f} s; --resume continues")
            counted = now
            yield from (each.result() for each in done)
    except BrokenProcessPool as error:
        raise PipelineError(f"{target.topic}: a process of the restore was killed; --resume continues") from error
    finally:
        stops.value = 1
        pool.shutdown(cancel_futures=True)


def _begin(here: _Here) -> None:
    global _here
    _here = here
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller's, who stops this one
    threading.Thread(target=_leave, args=(here.stops,), name="leave", daemon=True).start()


def _leave(stops: Any) -> None:
    """End this process with its caller, or soon after it was stopped."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    while not connection.wait([parent.sentinel], LOOK_EVERY_S):
        if stops.value:
            connection.wait([parent.sentinel], STOP_S)
            break
    os._exit(1)


def _work(number: int, part: StoredPart) -> int:
    assert _here is not None
    target, places, stops = _here

    def written(place: int) -> None:
        places[number] = place

    return _write(target, part, written, lambda: not stops.value)
