"""Rounds of a snapshot: the range that each reads, and the condition for the last one. The work on parts is in `snapshot`.

The snapshot shows the log's end at the start of the job, except for keys whose record a live cleaner removed during the job.
These have the value that replaced it, or no row if that was a tombstone. So each row is a value that its key had during the
job, and each key that had one all the time has a row.

    round 0    [log start ........................ end 0)
    round 1                                       [end 0 ... end 1)   without the keys that have a row already
    round 2                                                 [end 1 . end 2)   ...

Rounds end with the first one whose segments have not changed from its start to its end, and which reads up to all records
that a cleaner may have used (see `_sees_all`). A record that a cleaner removes in one round is superseded by one below the
end of the next. In the last round nothing was removed, so everything was seen. Each chosen record of that round must have
been written, part by part, or the job fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from ...storage.disk import paths
from ...storage.disk.paths import TopicPartition
from ...storage.topics.versions import VersionSource
from ..errors import CorruptSourceError, SourceChangedError, UsageError
from ..objects.addresses import is_address
from ..objects.object_files import ObjectFiles
from ..source.read_options import MAX_PARTITION_BYTES_DEFAULT
from ..source.reading import LogReader, OpenLog, Task, without_collector
from ..stores.reading_files import objects_of
from ..stores.segment_files import pause_between_looks
from ..stores.store import Store
from ..stores.stores import Stores
from .parquet_files import rows_of_file
from .targets import SnapshotTarget

MAX_PART_BYTES = MAX_PARTITION_BYTES_DEFAULT
ROUNDS_MAX = 20
"""Number of disturbed rounds after which the job fails, as the cleaner is faster."""
WAITS_MAX = 500
"""Number of waits for a high watermark, 10 s in all: a running Apache Kafka writes it every 5 s."""


Piece = Task | str
"""A part of a log, or a file of the rounds before."""


Versions = Mapping[str, VersionSource]
"""The topics whose records have versions, and where these are."""
NO_VERSIONS: Versions = MappingProxyType({})


class RoundEnd(NamedTuple):
    """End of a round in one log."""

    topic_id: bytes | None
    offset: int
    """End offset (exclusive)."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """Ranges that one round reads, and their state when it began."""

    first_part: int
    """Number of its first task's part. Those of the rounds before are lower."""
    tasks: tuple[Task, ...]
    ends: Mapping[TopicPartition, RoundEnd]
    sees_all: bool
    """Whether it ends after all records that a cleaner may have used; see `_sees_all`."""
    written: tuple[str, ...]
    """Files of the rounds before."""
    log_starts: Mapping[TopicPartition, int]
    objects: ObjectFiles
    """Files with addresses, not on this machine's file systems."""
    versions: Versions

    @property
    def pieces(self) -> Sequence[Piece]:
        """All pieces of work in which keys are found."""
        return (*self.tasks, *self.written)

    def __reduce__(self) -> NoReturn:
        """Refuse to be sent to tasks: each would load all pieces. Rows bring a task its own."""
        raise TypeError("a round stays on the driver")

    def is_undisturbed(self) -> bool:
        """Return whether nothing was removed since it began."""
        splits = {task.split.log_path: task.split for task in self.tasks}  # the last part of each segment
        of_objects = [(path, split.inode) for path, split in splits.items() if is_address(path)]
        with suppress(FileNotFoundError):
            return all(
                split.is_of(os.stat(path)) for path, split in splits.items() if not is_address(path)
            ) and self.objects.are_still(of_objects)
        return False


class WrittenPart(NamedTuple):
    """Result of a part: the number of chosen records. The file has the number of written ones."""

    part: int
    chosen: int
    unfinished: str
    """File of the attempt that counts."""


class RoundsDone(NamedTuple):
    """Result of all rounds."""

    keys: int
    tasks: list[Task]
    first: Round


RunRound = Callable[[Round, SnapshotTarget], Iterable[WrittenPart]]
"""Run a round and write its records to a target; yields each part that has chosen records, once."""


def first_round(store: Store | Stores, partitions: Sequence[TopicPartition]) -> Round:
    """Return the round of all committed data of these partitions, in parts.

    Raises:
        CorruptSourceError: A log cannot be opened.
        SourceChangedError: A log was deleted.
    """
    return _round(store, partitions, {}, 0, ())


def next_round(store: Store | Stores, before: Round, target: SnapshotTarget) -> Round:
    """Return the round of the data after another round's ends, together with the files that are finished now.

    Raises:
        SourceChangedError: A log was truncated, or its topic was deleted or recreated.
    """
    written = [*target.finished().values()]
    first_part = before.first_part + len(before.tasks)
    return _round(store, before.ends, before.ends, first_part, written)


def _round(
    store: Store | Stores,
    partitions: Iterable[TopicPartition],
    begins: Mapping[TopicPartition, RoundEnd],
    first_part: int,
    written: Sequence[str],
) -> Round:
    tasks: list[Task] = []
    partitions = list(partitions)
    versions = _versions_in(store, {tp.topic for tp in partitions})
    ends: dict[TopicPartition, RoundEnd] = {}
    log_starts: dict[TopicPartition, int] = {}
    sees_all = True
    logs = LogReader(store, committed=True)
    with without_collector():
        for tp in partitions:
            with logs.opened(tp, from_offset=begins[tp].offset if tp in begins else 0) as log:
                end = ends[tp] = RoundEnd(log.log.topic_id, log.end_offset)
                log_starts[tp] = log.start_offset
                start = begins.get(tp, RoundEnd(end.topic_id, log.start_offset))
                if end.topic_id != start.topic_id or end.offset < start.offset:
                    raise SourceChangedError(
                        f"{tp}: its end was truncated, or its topic was recreated, since the first read"
                    )
                from_offset = max(start.offset, log.start_offset)
                tasks += log.tasks(from_offset, end.offset, max_bytes=MAX_PART_BYTES, since_ms=None)
                sees_all = sees_all and _sees_all(log)
    return Round(
        first_part=first_part,
        tasks=tuple(tasks),
        ends=ends,
        sees_all=sees_all,
        written=tuple(written),
        log_starts=log_starts,
        objects=objects_of(store.stores[0].files),
        versions=versions,
    )


def _versions_in(store: Store | Stores, topics: Iterable[str]) -> Versions:
    """Return the topics whose records have versions; none if the catalog cannot be read."""
    found = dict[str, VersionSource]()
    for topic in topics:
        with suppress(UsageError, CorruptSourceError):
            source = store.stores[0].home.config_of(topic).version_source
            if source is not None:
                found[topic] = source
    return found


def _sees_all(log: OpenLog) -> bool:
    """Return whether no cleaner has used records above the readable end.

    Cleaners stop at the last stable offset and at the active segment. But a reader knows a high watermark only from the
    checkpoint, which lags behind a running Apache Kafka, as do the decided transactions below it.
    """
    return log.end_offset >= min(log.log.undecided_offset, log.log.segments[-1].base_offset)


def run_rounds(
    store: Store | Stores,
    topic: str,
    target: SnapshotTarget,
    run: RunRound,
    *,
    partition: int | None = None,
    pause: Callable[[], None] = pause_between_looks,
) -> RoundsDone:
    """Write a snapshot to a target, round by round.

    Raises:
        CorruptSourceError: A log is damaged; or a chosen record is missing, and no cleaner was at work.
        SourceChangedError: Records disappeared, but not by a cleaner; or the cleaner was faster each time.
    """
    tasks: list[Task] = []
    disturbed = waits = 0
    first = now = first_round(store, store.topic_partitions(topic, partition))
    while disturbed < ROUNDS_MAX and waits < WAITS_MAX:
        found = list(run(now, target)) if now.tasks else []
        for each in found:
            target.finish(each.part, each.unfinished)
        tasks += now.tasks
        rows = {part: rows_of_file(path, now.objects) for part, path in target.finished().items()}
        if now.is_undisturbed():
            for part, chosen, _ in found:
                if rows.get(part, 0) != chosen:
                    split = now.tasks[part - now.first_part].split
                    raise CorruptSourceError.from_position(
                        split.log_path,
                        split.start,
                        split.from_offset,
                        expected=f"the {chosen} records that were chosen up to offset {split.up_to_offset}",
                        actual=f"{rows.get(part, 0)} of them",
                    )
            if now.sees_all:
                return RoundsDone(sum(rows.values()), tasks, first)
            waits += 1
        else:
            disturbed += 1
        if not now.sees_all:
            pause()
        now = next_round(store, now, target)
    if waits == WAITS_MAX:
        raise SourceChangedError(
            f"{store.data_dir}: the high watermarks of {topic} in {paths.REPLICATION_CHECKPOINT} are below segments that its"
            " cleaner may have used: the newer values of removed records cannot be read yet; start its server"
        )
    raise SourceChangedError(
        f"{store.data_dir}: segments of {topic} were replaced in each of {ROUNDS_MAX} rounds: its cleaner is faster"
    )
