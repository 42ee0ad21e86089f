"""Assignment of partition directories to topics, before any of them is opened.

    its topic's ID, or none         its log; the ID is written where it is missing
    another topic's ID              put aside, as `<name>.<32 hex digits>-stray`: of a deleted topic, or another cluster's
    of no topic, has a log          put aside in the same way, as by Apache Kafka
    of no topic, has no log         a folder that only looks like a partition: left alone
    twice, one has no log           that one is put aside
    twice, one from a move          the one that the move's files name (`relocation`); the other is a copy, which is removed
    twice otherwise                 refused
    put aside, of a topic's ID      refused while the partition has no other directory: an empty log would replace its records

A directory that is put aside is never opened and never removed.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from ..disk import paths
from ..disk.checkpoints import CorruptCheckpointError, read_partition_metadata, write_partition_metadata
from ..disk.files import Files
from ..disk.health import DataDirectoryError
from ..disk.paths import TopicPartition
from ..topics.catalog_file import TopicEntry
from .inspection import FoundDirectory, holds_log
from .relocation import chosen, marks, other_place

ABSENT_PER_PRESENT_MAX = 100
"""Largest number of empty partitions, for each present one, of a topic that is made only from its directories.

It allows for a cluster of that many brokers with the directories of one. A date, e.g., is not a partition number.
"""


@dataclass(slots=True)
class Assigned:
    """Changes that the assignment makes to partition directories."""

    without_id: list[tuple[str, bytes]] = field(default_factory=list)
    """Directories that get this topic ID."""
    strays: list[tuple[TopicPartition, str]] = field(default_factory=list)
    copies: list[tuple[TopicPartition, str]] = field(default_factory=list)
    """Copies that a move between data directories has left."""
    undecided: dict[TopicPartition, str] = field(default_factory=dict)
    """Partitions that must not be served, as a failed data directory, given here, may have more of their records."""
    marks: list[str] = field(default_factory=list)
    """Marker files of moves that are over."""

    def apply(self, files: Files, rng: random.Random, note: Callable[[str], None]) -> None:
        """Make all changes; they are on disk on return."""
        for topic_partition, data_dir in self.undecided.items():
            note(
                f"{topic_partition} was moving to or from {data_dir}, whose disk has failed and may have newer records;"
                " the partition is offline"
            )
        for topic_partition, directory in self.strays:
            aside = put_aside(files, topic_partition, directory, rng)
            note(f"{directory} does not belong to a topic in the catalog; renamed to {aside}")
        for topic_partition, directory in self.copies:
            name = paths.deleted_dir_name(*topic_partition, rng.randbytes(16).hex())
            files.rename(directory, paths.join(paths.parent(directory), name))
            files.sync_dir(paths.parent(directory))
            note(f"{directory} is left over from a move of {topic_partition} between data directories; removed")
        for mark in self.marks:  # after the other directories have been renamed
            files.remove(mark)
        for directory, topic_id in self.without_id:
            write_partition_metadata(files, directory, topic_id)


def assign(
    files: Files,
    found: Sequence[FoundDirectory],
    topics: Mapping[str, TopicEntry],
    note: Callable[[str], None],
    *,
    failed: Collection[str] = (),
    only_doubles: bool = False,
) -> Assigned:
    """Decide about each partition directory. Changes nothing.

    Args:
        failed: Data directories that cannot be read.
        only_doubles: Read only partitions with several directories, to see whether this raises.

    Raises:
        DataDirectoryError: A partition has two logs. Or a disk refused; the error has the directory and whether it failed.
        OSError: One of two disks refused.
    """
    assigned = Assigned()
    logs: dict[TopicPartition, list[tuple[str, bytes | None]]] = defaultdict(list)
    counts = Counter(topic_partition for each in found for topic_partition, _ in each.partitions)
    for each in found:
        for topic_partition, directory in each.partitions:
            if only_doubles and counts[topic_partition] == 1:
                continue
            entry = topics.get(topic_partition.topic)
            with _reading(each.path):
                if entry is None or topic_partition.partition >= len(entry.partitions):
                    if holds_log(files, directory):
                        assigned.strays.append((topic_partition, directory))
                    continue
                topic_id = topic_id_in(files, directory, note)
            if topic_id in (None, entry.topic_id):
                logs[topic_partition].append((directory, topic_id))
            else:
                assigned.strays.append((topic_partition, directory))
    for topic_partition, candidates in logs.items():
        kept, of_a_move = _only(files, topic_partition, candidates)
        for candidate in candidates:
            if candidate is not kept:
                which = assigned.copies if candidate is of_a_move else assigned.strays
                which.append((topic_partition, candidate[0]))
        with _reading(paths.parent(kept[0])):
            marked = [] if only_doubles else marks(files, kept[0])
            other = other_place(files, kept[0]) if marked else None
        if marked:
            if len(candidates) == 1 and other is not None and other in failed:
                assigned.undecided[topic_partition] = other
            elif not failed:
                assigned.marks += marked
        if kept[1] is None:
            assigned.without_id.append((kept[0], topics[topic_partition.topic].topic_id))
    return assigned


def check_put_aside(files: Files, found: Sequence[FoundDirectory], topics: Mapping[str, TopicEntry]) -> None:
    """Refuse a start if the only directory of a partition of the catalog was put aside.

    An earlier Ottla did that to a log that moved to another node's process, if the disk refused to open it there.

    Args:
        found: All data directories.

    Raises:
        DataDirectoryError: One line. Or a disk refused; the error has the directory and whether it failed.
    """
    strays = [(each.path, *stray) for each in found for stray in each.strays]
    if not strays:
        return
    here = {topic_partition for each in found for topic_partition, _ in each.partitions}
    by_id = {entry.topic_id: entry for entry in topics.values()}
    for data_dir, (_, index), directory in strays:
        with _reading(data_dir):
            if not files.is_dir(directory):
                continue
            entry = by_id.get(topic_id_in(files, directory, lambda _: None) or b"")
            if entry is None or index >= len(entry.partitions) or TopicPartition(entry.name, index) in here:
                continue
            if holds_log(files, directory):
                raise DataDirectoryError(
                    f"{TopicPartition(entry.name, index)}: only the stray directory {directory} was found; rename it to"
                    f" {paths.partition_dir_name(entry.name, index)} to serve its records, or move it out of {data_dir}"
                    " to start with an empty partition"
                )


def served_directory(
    files: Files, topic_partition: TopicPartition, directories: Sequence[str], topic_id: bytes | None
) -> str:
    """Return the directory of a partition that a start would serve, as `assign` decides. Changes nothing.

    Args:
        topic_id: The topic's ID in the catalog; None if unknown.

    Raises:
        DataDirectoryError: The partition has two logs.
        OSError: The disk refused.
    """
    candidates = [(each, topic_id_in(files, each, lambda _: None)) for each in directories]
    of_topic = [each for each in candidates if topic_id is None or each[1] in (None, topic_id)]
    return _only(files, topic_partition, of_topic or candidates)[0][0]


@contextmanager
def _reading(data_dir: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataDirectoryError.from_error(data_dir, error) from error


Candidate: TypeAlias = tuple[str, bytes | None]


def _only(
    files: Files, topic_partition: TopicPartition, candidates: Sequence[Candidate]
) -> tuple[Candidate, Candidate | None]:
    """Return the directory that is the log, and the copy that a move has left, or None."""
    if len(candidates) == 1:
        return candidates[0], None
    logs = [each for each in candidates if holds_log(files, each[0])]
    if len(logs) == 2 and (log := chosen(files, logs[0][0], logs[1][0])) is not None:
        newer, older = sorted(logs, key=lambda each: each[0] != log)
        return newer, older
    if len(logs) > 1:
        first, second = (paths.parent(directory) for directory, _ in logs[:2])
        raise DataDirectoryError(f"{topic_partition} is in both {first} and {second}: move the wrong one elsewhere")
    return (logs[0] if logs else candidates[0]), None


def topic_id_in(files: Files, directory: str, note: Callable[[str], None]) -> bytes | None:
    """Read the topic ID of a partition directory; None if missing, or invalid, which `note` gets. OSError: the disk refused."""
    try:
        return read_partition_metadata(files, directory)
    except CorruptCheckpointError as error:
        note(f"{error}; using the topic ID from the catalog")
        return None


def put_aside(files: Files, topic_partition: TopicPartition, directory: str, rng: random.Random) -> str:
    """Rename a directory so that nothing appends to it; returns its new path. On disk on return."""
    aside = paths.join(paths.parent(directory), paths.stray_dir_name(*topic_partition, rng.randbytes(16).hex()))
    files.rename(directory, aside)
    files.sync_dir(paths.parent(directory))
    return aside


def topics_of(
    files: Files, found: Sequence[FoundDirectory], note: Callable[[str], None]
) -> dict[str, tuple[int, bytes | None]]:
    """Derive the topics from the partition directories alone: name -> number of partitions, and ID if known.

    The highest partition number gives the number of partitions; the caller makes missing ones empty.

    Raises:
        DataDirectoryError: Directories of one topic have different IDs, so that one of them belongs to another topic; or the
            partition numbers are too far apart for one topic.
        OSError: The disk refused.
    """
    directories: dict[str, dict[int, str]] = defaultdict(dict)
    ids: dict[str, tuple[bytes, str]] = {}
    for each in found:
        for (name, index), directory in each.partitions:
            if not holds_log(files, directory):
                note(f"ignoring {directory}: not a log")
                continue
            directories[name][index] = directory
            topic_id = topic_id_in(files, directory, note)
            if topic_id is None:
                continue
            known, known_in = ids.setdefault(name, (topic_id, directory))
            if known != topic_id:
                raise DataDirectoryError(
                    f"{known_in} and {directory} have different topic IDs in {paths.PARTITION_METADATA}: move the wrong"
                    " one elsewhere"
                )
    topics = {}
    for name, by_index in directories.items():
        count = max(by_index) + 1
        if count - len(by_index) > ABSENT_PER_PRESENT_MAX * len(by_index):
            raise DataDirectoryError(
                f"{by_index[count - 1]}: topic {name} would have {count} partitions, but only {len(by_index)} were"
                " found: move it elsewhere if it is not a partition directory"
            )
        topics[name] = (count, ids[name][0] if name in ids else None)
    return topics
