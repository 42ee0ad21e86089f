"""A data directory, opened for reading: Ottla's or Apache Kafka's, stopped or under a live server.

    store = Store("/data")
    store.topic_partitions()                      every <topic>-<partition> in it
    with store.open_log(tp, now_ms=…) as log:     the log as the server would load it, but nothing on disk is touched
        log.segments, log.config, log.cleaner_checkpoint, measure(log, …)

What a log may be cleaned up to is computed by the server's own `storage.dirtiness`. Three things bound it besides, as
no server vouches for what lies beyond:

    the recovery point      unless the directory was stopped cleanly, segments above it may be damaged, and their
                            transaction indexes missing; and a marker there, which a power loss may take, decides nothing
    the high watermark      in Apache Kafka's directories, where a replica may lose what lies above
    the active segment      always, and only its end may be torn
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import pairwise

from ...protocol.errors import CorruptRecordError
from ...storage.disk import paths
from ...storage.disk.checkpoints import CorruptCheckpointError, MetaProperties, OffsetCheckpoint, read_meta_properties
from ...storage.disk.files import Files
from ...storage.disk.health import Health
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ...storage.produce import producer_snapshots
from ...storage.produce.producers import PRODUCER_ID_EXPIRATION_MS_DEFAULT, ProducerStates
from ...storage.segment.leader_epochs import LeaderEpochs
from ...storage.segment.segment import LogSegment
from ...storage.topics.catalog import CLUSTER_DEFAULT, Catalog, CatalogError, CatalogState
from ...storage.topics.cluster_metadata import read_cluster_metadata
from ...storage.topics.config import TOPIC_OPTIONS, ConfigError, LogConfig
from ..errors import CorruptSourceError, SourceChangedError, UsageError
from .reading_files import ReadingFiles
from .segment_files import (
    LOOKS_MAX,
    complete_txn_indexes,
    is_settled,
    open_segments,
    pause_between_looks,
    source_errors,
    topic_id_in,
)

__all__ = ["ReadingFiles", "Store", "StoredLog"]

PRODUCER_EXPIRATION = "producer.id.expiration.ms"
_POLICY = "cleanup.policy"
_INT_MAX = 2**31 - 1


class StoredLog(Log):
    """A log that was opened for reading."""

    cleaner_checkpoint: int | None = None
    """Up to where it was clean; None if nothing is known."""
    vouched_end: int = paths.OFFSET_MAX
    """No server vouches for what lies from here on, or decides about it; see the module."""

    @property
    def last_stable_offset(self) -> int:
        return min(super().last_stable_offset, max(self.vouched_end, self.log_start_offset))

    def close_files(self) -> None:
        """Give the descriptors back."""
        for segment in self.segments:
            segment.log_file.close()


class Store:
    """See the module."""

    def __init__(self, data_dir: str, files: Files | None = None) -> None:
        """
        Raises:
            UsageError: There is no such directory.
        """
        self.data_dir = os.path.realpath(data_dir)  # what lies beside a link may be on another disk
        self.files: Files = ReadingFiles() if files is None else files
        if not self.files.is_dir(self.data_dir):
            raise UsageError(f"{data_dir} is not a directory")

    def topic_partitions(self, topic: str | None = None, partition: int | None = None) -> list[TopicPartition]:
        """Those that have a log here, in order.

        Raises:
            UsageError: None was found, though one was asked for.
        """
        found = [
            parsed
            for name in self.files.list(self.data_dir)
            if isinstance(parsed := paths.parse_partition_dir(name), TopicPartition)
            and parsed.topic != paths.CLUSTER_METADATA_TOPIC
            and topic in (None, parsed.topic)
            and partition in (None, parsed.partition)
            and self.files.is_dir(self.directory_of(parsed))
        ]
        if not found and topic is not None:
            which = topic if partition is None else str(TopicPartition(topic, partition))
            raise UsageError(f"{self.data_dir} has no log of {which}")
        return sorted(found)

    def directory_of(self, tp: TopicPartition) -> str:
        return paths.join(self.data_dir, paths.partition_dir_name(*tp))

    @cached_property
    def _is_clean(self) -> bool:
        return self.files.exists(paths.join(self.data_dir, paths.CLEAN_SHUTDOWN_FILE))

    @cached_property
    def is_ottlas(self) -> bool:
        """Whether a server of ours was here last: what is whole in its logs is committed."""
        return self.files.exists(paths.join(self.data_dir, paths.CATALOG_FILE)) or self.catalog_is_elsewhere

    @cached_property
    def catalog_is_elsewhere(self) -> bool:
        """Whether this is one of several data directories of a server of ours, and not the one with the catalog."""
        has_none = not self.files.exists(paths.join(self.data_dir, paths.CATALOG_FILE))
        return has_none and self._identity is not None and self._identity.catalog_id is not None

    @cached_property
    def _identity(self) -> MetaProperties | None:
        try:
            return read_meta_properties(self.files, self.data_dir)
        except CorruptCheckpointError as error:
            raise CorruptSourceError(str(error)) from error

    @cached_property
    def catalog(self) -> CatalogState | None:
        """Topics and their configs, from `ottla.json`, else from Apache Kafka's metadata log; None if there is neither.

        Raises:
            CorruptSourceError: It is damaged, or of a newer version.
        """
        try:
            found = Catalog.load(self.files, self.data_dir)
            return read_cluster_metadata(self.files, self.data_dir, cluster_id="") if found is None else found.state
        except CatalogError as error:
            raise CorruptSourceError(str(error)) from error

    def config_of(self, topic: str, overrides: Mapping[str, str] | None = None) -> LogConfig:
        """The topic's configuration: broker defaults that were set while the broker ran, the topic's own, `overrides`.

        What stands in a server's own properties file is not in the store; it must be among the overrides. So must all
        configs where the catalog is in another directory.

        Raises:
            UsageError: An override that is no topic config, or not a possible value of it. That of `producer_expiration_ms`
                is passed over. Or the catalog is elsewhere, and no override names the policy.
        """
        if self.catalog_is_elsewhere and _POLICY not in (overrides or {}):
            raise UsageError(
                f"{self.data_dir}: expected the configs of {topic}, found that {paths.CATALOG_FILE} is in another one of the"
                f" server's data directories; give those that it says by --config, {_POLICY} at least"
            )
        stored = _topic_defaults(self._broker_configs)
        if (catalog := self.catalog) is not None and (entry := catalog.topics.get(topic)) is not None:
            stored |= entry.configs
        config, _ = LogConfig.from_stored(stored)
        own = {name: text for name, text in (overrides or {}).items() if name != PRODUCER_EXPIRATION}
        try:
            return LogConfig.from_texts(own, config)
        except ConfigError as error:
            raise UsageError(str(error)) from error

    def producer_expiration_ms(self, overrides: Mapping[str, str] | None = None) -> int:
        """The server's `producer.id.expiration.ms`, from where `config_of` has broker defaults, or the overrides.

        Raises:
            UsageError: An override that is no such number.
        """
        given = (overrides or {}).get(PRODUCER_EXPIRATION)
        text = self._broker_configs.get(PRODUCER_EXPIRATION) if given is None else given
        if text is not None:
            with suppress(ValueError):
                if 1 <= (expiration_ms := int(text)) <= _INT_MAX:
                    return expiration_ms
        if given is not None:
            raise UsageError(f"{PRODUCER_EXPIRATION}: expected a number from 1 to {_INT_MAX}, found {given!r}")
        return PRODUCER_ID_EXPIRATION_MS_DEFAULT  # as the server does with a stored value that it refuses

    @cached_property
    def _broker_configs(self) -> dict[str, str]:
        """What was set while the broker ran, for all nodes and for the first one, whose config logs go by."""
        if self.catalog is None:
            return {}
        own = {} if self._identity is None else self.catalog.broker_configs.get(str(self._identity.node_id), {})
        return {**self.catalog.broker_configs.get(CLUSTER_DEFAULT, {}), **own}

    def checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """What a checkpoint file says.

        Raises:
            CorruptSourceError: It cannot be read.
        """
        try:
            return OffsetCheckpoint(self.files, paths.join(self.data_dir, name)).read()
        except CorruptCheckpointError as error:
            raise CorruptSourceError(str(error)) from error

    @contextmanager
    def open_log(
        self,
        tp: TopicPartition,
        *,
        now_ms: int,
        config: LogConfig | None = None,
        producer_expiration_ms: int | None = None,
        pause: Callable[[], None] = pause_between_looks,
    ) -> Iterator[StoredLog]:
        """One log as it is now. The descriptors are given back at the end.

        Args:
            now_ms: Producers that have expired by then are forgotten, as a server forgets them while it runs.
            config: `config_of` the topic unless given.
            producer_expiration_ms: That of the store unless given.
            pause: Called between two looks at a directory in which a swap is under way.

        Raises:
            UsageError: There is no such log, or it has no segments.
            CorruptSourceError: A segment or an index is damaged.
            SourceChangedError: Files went away meanwhile: a server is at work there. Or a swap did not come to its end
                while this waited: whoever works on the log finds its segments by their final names.
        """
        directory = self.directory_of(tp)
        if not self.files.is_dir(directory):
            raise UsageError(f"{self.data_dir} has no log of {tp}")
        config = self.config_of(tp.topic) if config is None else config
        try:
            segments = self._settled_segments(directory, config, now_ms, pause)
            try:
                log = self._open(tp, directory, config, segments, now_ms, producer_expiration_ms)
            except BaseException:
                for segment in segments:
                    segment.log_file.close()
                raise
        except CorruptCheckpointError as error:
            raise CorruptSourceError(str(error)) from error
        except FileNotFoundError as error:
            raise SourceChangedError(
                f"{error.filename} went away while {tp} was opened: a server is at work"
            ) from error
        try:
            yield log
        finally:
            log.close_files()

    def _settled_segments(
        self, directory: str, config: LogConfig, now_ms: int, pause: Callable[[], None]
    ) -> list[LogSegment]:
        path = directory
        for _ in range(LOOKS_MAX):
            segments = open_segments(self.files, directory, config=config, now_ms=now_ms, pause=pause)
            unsettled = [segment for segment in segments if not is_settled(segment)]
            if not unsettled:
                return segments
            path = unsettled[0].file_paths()[0]
            for segment in segments:
                segment.log_file.close()
            pause()
        raise SourceChangedError(
            f"{path}: a swap is under way, or was left by a server that died in it; its next start finishes that"
        )

    def _open(
        self,
        tp: TopicPartition,
        directory: str,
        config: LogConfig,
        segments: list[LogSegment],
        now_ms: int,
        producer_expiration_ms: int | None,
    ) -> StoredLog:
        expiration_ms = self.producer_expiration_ms() if producer_expiration_ms is None else producer_expiration_ms
        producers = ProducerStates(expiration_ms=expiration_ms)
        log_start_offset = max(self.checkpoint(paths.LOG_START_CHECKPOINT).get(tp, 0), segments[0].base_offset)
        log_end_offset = max(_end_of_active(segments[-1]), log_start_offset)
        vouched_end = self._vouched_end(tp)
        with source_errors(segments):
            for segment, following in pairwise(segments):
                if following.base_offset <= vouched_end and is_settled(segment):
                    segment.sanity_check()
            # A server at work has the newest index entries in memory only, and those above the recovery point may not have
            # survived it: what was aborted there is found out from the log.
            producer_snapshots.load_newest(
                self.files,
                directory,
                producers,
                log_start_offset=log_start_offset,
                log_end_offset=min(log_end_offset, vouched_end),
                now_ms=now_ms,
                tidies=False,
            )
            first_undecided = None
            try:
                complete_txn_indexes(producers, segments, vouched_end)
                first_undecided = producers.first_unstable_offset
                complete_txn_indexes(producers, segments)
            except CorruptRecordError:
                if self._is_clean or producers.end_offset < min(vouched_end, log_end_offset):
                    raise
                # What is torn lies at the end of the active segment, and what its last batches say of producers is lost.
                if first_undecided is None:
                    first_undecided = producers.first_unstable_offset
            producers.end_offset = log_end_offset
        producers.expire(now_ms)
        log = StoredLog(
            files=self.files,
            directory=directory,
            topic_partition=tp,
            topic_id=topic_id_in(self.files, directory),
            config=config,
            segments=segments,
            producers=producers,
            leader_epochs=LeaderEpochs(self.files, paths.join(directory, paths.LEADER_EPOCH_CHECKPOINT)),
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            recovery_point=log_end_offset,
            rng=random.Random(0),
            health=Health(),
        )
        log.cleaner_checkpoint = self.checkpoint(paths.CLEANER_CHECKPOINT).get(tp)
        log.vouched_end = vouched_end if first_undecided is None else min(vouched_end, first_undecided)
        return log

    def _vouched_end(self, tp: TopicPartition) -> int:
        end = paths.OFFSET_MAX
        if not self._is_clean:
            end = self.checkpoint(paths.RECOVERY_POINT_CHECKPOINT).get(tp, 0)
        if not self.is_ottlas:
            end = min(end, self.checkpoint(paths.REPLICATION_CHECKPOINT).get(tp, 0))
        return end


def _end_of_active(segment: LogSegment) -> int:
    """The offset after its last whole batch; a torn end does not count."""
    end = segment.base_offset
    try:
        for _, batch in segment.headers():
            end = batch.next_offset
    except CorruptRecordError:
        pass
    return end


def _topic_defaults(broker_configs: Mapping[str, str]) -> dict[str, str]:
    """What broker options say about topics that say nothing themselves, by the topics' names."""
    found: dict[str, str] = {}
    for option in TOPIC_OPTIONS.values():
        for synonym in reversed(option.synonyms):
            if (text := broker_configs.get(synonym.name)) is not None:
                found[option.name] = text if synonym.factor == 1 else str(int(text) * synonym.factor)
    return found
