"""Logs of a topic in data directories of Ottla or Apache Kafka, with the options that the catalog has for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ..disk import paths
from ..disk.checkpoints import CorruptCheckpointError, OffsetCheckpoint, read_meta_properties
from ..disk.files import Files
from ..disk.health import DataDirectoryError
from ..disk.paths import TopicPartition
from ..topics.catalog import Catalog
from ..topics.cluster_metadata import read_cluster_metadata
from ..topics.config import LogConfig
from ..topics.stored_configs import topic_configs_in


class FoundLog(NamedTuple):
    """One log."""

    of: TopicPartition
    directory: str
    clean_below: int | None
    """The cleaner's checkpoint; None if it has none."""
    log_start_offset: int
    size_bytes: int


class FoundTopic(NamedTuple):
    """The logs of a topic in the given directories."""

    logs: list[FoundLog]
    config: LogConfig | None
    """None if no catalog in the directories has the topic."""


def find_topic(files: Files, data_dirs: Sequence[str], topic: str) -> FoundTopic:
    """Find the logs of a topic. Only reads.

    Raises:
        DataDirectoryError: A directory is not a data directory, or its catalog is damaged.
        OSError: A directory cannot be read.
    """
    logs: list[FoundLog] = []
    config: LogConfig | None = None
    for data_dir in data_dirs:
        if not files.exists(paths.join(data_dir, paths.META_PROPERTIES)):
            raise DataDirectoryError(f"{data_dir} is not a data directory: {paths.META_PROPERTIES} not found")
        config = config or _config(files, data_dir, topic)
        clean_below, starts = (
            _checkpoint(files, data_dir, name) for name in (paths.CLEANER_CHECKPOINT, paths.LOG_START_CHECKPOINT)
        )
        for name in files.list(data_dir):
            of, directory = paths.parse_partition_dir(name), paths.join(data_dir, name)
            if isinstance(of, TopicPartition) and of.topic == topic and files.is_dir(directory):
                segments = _segments(files, directory)
                start = max(starts.get(of, 0), min(segments, default=0))
                logs.append(FoundLog(of, directory, clean_below.get(of), start, sum(segments.values())))
    return FoundTopic(sorted(logs), config)


def _segments(files: Files, directory: str) -> dict[int, int]:
    """Return the size of each segment by its base offset. One that vanishes is left out."""
    found: dict[int, int] = {}
    for name in files.list(directory):
        segment = paths.parse_segment_name(name)
        if isinstance(segment, paths.SegmentFile) and segment.kind == paths.LOG and not segment.suffix:
            with suppress(FileNotFoundError):
                found[segment.base_offset] = files.size(paths.join(directory, name))
    return found


def _checkpoint(files: Files, data_dir: str, name: str) -> dict[TopicPartition, int]:
    try:
        return dict(OffsetCheckpoint(files, paths.join(data_dir, name)).read())
    except CorruptCheckpointError as error:
        raise DataDirectoryError(f"{data_dir}: {error}") from error


def _config(files: Files, data_dir: str, topic: str) -> LogConfig | None:
    try:
        identity = read_meta_properties(files, data_dir)
        own = Catalog.load(files, data_dir)
        catalog = read_cluster_metadata(files, data_dir, cluster_id="") if own is None else own.state
    except CorruptCheckpointError as error:
        raise DataDirectoryError(f"{data_dir}: {error}") from error
    if catalog is None or topic not in catalog.topics:
        return None
    configs = topic_configs_in(catalog, None if identity is None else identity.node_id, topic)
    return LogConfig.from_stored(configs)[0]
