"""A data directory for reading: Ottla's or Apache Kafka's, with or without a running server.

    store = Store("/data")
    store.topic_partitions()             every <topic>-<partition> in it
    store.config_of("orders")            its configs, as in the server
    store.checkpoint(name)               contents of a checkpoint file

Logs are opened by `stored_log.open_log` for plans, and by `log_files` for readers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from difflib import get_close_matches
from functools import cached_property

from ...storage.data_dirs.relocation import other_place
from ...storage.disk import paths
from ...storage.disk.checkpoints import CorruptCheckpointError, MetaProperties, OffsetCheckpoint, read_meta_properties
from ...storage.disk.files import Files
from ...storage.disk.health import DataDirectoryError
from ...storage.disk.paths import TopicPartition
from ...storage.produce.producers import PRODUCER_ID_EXPIRATION_MS_DEFAULT
from ...storage.topics.catalog import Catalog
from ...storage.topics.catalog_file import CatalogState
from ...storage.topics.cluster_metadata import read_cluster_metadata
from ...storage.topics.config import ConfigError, LogConfig
from ...storage.topics.stored_configs import broker_configs_in, topic_configs_in
from ..errors import CorruptSourceError, UsageError
from .reading_files import ReadingFiles, resolved
from .segment_files import deleted_log_error

PRODUCER_EXPIRATION = "producer.id.expiration.ms"
_POLICY = "cleanup.policy"
_INT_MAX = 2**31 - 1


class Store:
    """A data directory; see the module."""

    def __init__(self, data_dir: str, files: Files | None = None) -> None:
        """
        Raises:
            UsageError: The directory does not exist.
        """
        self.files: Files = ReadingFiles() if files is None else files
        self.data_dir = resolved(data_dir)
        self.home: Store = self
        """The data directory with the catalog, if it is known (`stores`)."""
        if not self.files.is_dir(self.data_dir):
            raise UsageError(f"{data_dir} is not a directory")

    def topic_partitions(self, topic: str | None = None, partition: int | None = None) -> list[TopicPartition]:
        """Return the partitions that have a log here, in order.

        Raises:
            UsageError: A topic was given, and no log of it was found.
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
            raise no_log_error(self.data_dir, topic, partition, self.topic_partitions())
        return sorted(found)

    def store_of(self, tp: TopicPartition) -> Store:
        """Return this store. Raises UsageError as `Stores.store_of`."""
        self.check_moved(tp, frozenset({self.data_dir}))
        return self

    def check_moved(self, tp: TopicPartition, named: AbstractSet[str]) -> None:
        """Raise UsageError for a log that was moving to or from a data directory that is not among those `named`."""
        directory = self.directory_of(tp)
        other = self._other_place(directory)
        if other is not None and os.path.realpath(other) not in named:
            raise UsageError(
                f"{directory} was moving to or from {other}, and may be newer there: name all data directories, with commas"
                " between them"
            )

    def check_settled(self, tp: TopicPartition) -> None:
        """Raise UsageError for a log with a second copy from an unfinished move, which must not be changed.

        The next start uses the copy that reaches further without a gap, and a pass leaves gaps.
        """
        directory = self.directory_of(tp)
        other = self._other_place(directory)
        if other is not None and self.files.is_dir(paths.join(other, paths.partition_dir_name(*tp))):
            raise UsageError(
                f"{tp} is in {self.data_dir} as well as in {other}, as its move is unfinished: start the server once,"
                " which finishes it"
            )

    def _other_place(self, directory: str) -> str | None:
        try:
            return other_place(self.files, directory) if self.files.is_dir(directory) else None
        except FileNotFoundError as error:
            raise deleted_log_error(directory) from error

    @property
    def stores(self) -> list[Store]:
        """This store as a list."""
        return [self]

    def directory_of(self, tp: TopicPartition) -> str:
        return paths.join(self.data_dir, paths.partition_dir_name(*tp))

    @cached_property
    def is_clean(self) -> bool:
        """Whether the last server of this directory stopped cleanly."""
        return self.files.exists(paths.join(self.data_dir, paths.CLEAN_SHUTDOWN_FILE))

    @cached_property
    def is_ottlas(self) -> bool:
        """Whether Ottla was the last server here: every whole batch in its logs is committed."""
        has_one = self.files.exists(paths.join(self.data_dir, paths.CATALOG_FILE))
        return has_one or (self.identity is not None and self.identity.catalog_id is not None)

    @property
    def has_catalog(self) -> bool:
        """Whether the catalog, or Apache Kafka's, is in this directory."""
        return self.home is self and self.catalog is not None

    @property
    def catalog_is_elsewhere(self) -> bool:
        """Whether this is one of several data directories of an Ottla server, and the one with the catalog was not named."""
        has_none = not self.files.exists(paths.join(self.data_dir, paths.CATALOG_FILE))
        return self.home is self and has_none and self.is_ottlas

    @cached_property
    def identity(self) -> MetaProperties | None:
        try:
            return read_meta_properties(self.files, self.data_dir)
        except CorruptCheckpointError as error:
            raise CorruptSourceError(str(error)) from error

    @property
    def catalog(self) -> CatalogState | None:
        """Topics and their configs, from `ottla.json`, else from Apache Kafka's metadata log; None without either.

        Raises:
            CorruptSourceError: It is damaged, or of a newer version.
        """
        return self.home._own_catalog

    @cached_property
    def _own_catalog(self) -> CatalogState | None:
        try:
            found = Catalog.load(self.files, self.data_dir)
            return read_cluster_metadata(self.files, self.data_dir, cluster_id="") if found is None else found.state
        except DataDirectoryError as error:
            raise CorruptSourceError(str(error)) from error

    def config_of(self, topic: str, overrides: Mapping[str, str] | None = None) -> LogConfig:
        """Return the topic's configuration: broker defaults set at run time, the topic's own configs, then `overrides`.

        Configs in a server's own properties file are not in the store; they must be among the overrides. So must all
        configs if the catalog is in another directory.

        Raises:
            UsageError: An override is not a topic config, or its value is invalid (`producer_expiration_ms` is ignored here).
                Or the catalog is elsewhere, and no override sets the policy.
        """
        if self.catalog_is_elsewhere and _POLICY not in (overrides or {}):
            raise UsageError(
                f"{self.data_dir}: expected the configs of {topic}, but {paths.CATALOG_FILE} is in another one of the"
                f" server's data directories; give the configs in it with --config, at least {_POLICY}"
            )
        stored = topic_configs_in(self.catalog, self._node_id, topic)
        config, _ = LogConfig.from_stored(stored)
        own = {name: text for name, text in (overrides or {}).items() if name != PRODUCER_EXPIRATION}
        try:
            return LogConfig.from_texts(own, config)
        except ConfigError as error:
            raise UsageError(str(error)) from error

    def producer_expiration_ms(self, overrides: Mapping[str, str] | None = None) -> int:
        """Return the server's `producer.id.expiration.ms`, from the broker defaults as in `config_of`, or the overrides.

        Raises:
            UsageError: An override is not a valid number.
        """
        given = (overrides or {}).get(PRODUCER_EXPIRATION)
        text = self._broker_configs.get(PRODUCER_EXPIRATION) if given is None else given
        if text is not None:
            with suppress(ValueError):
                if 1 <= (expiration_ms := int(text)) <= _INT_MAX:
                    return expiration_ms
        if given is not None:
            raise UsageError(f"{PRODUCER_EXPIRATION}: expected a number from 1 to {_INT_MAX}, found {given!r}")
        return PRODUCER_ID_EXPIRATION_MS_DEFAULT  # as the server does with an invalid stored value

    @cached_property
    def _broker_configs(self) -> dict[str, str]:
        return broker_configs_in(self.catalog, self._node_id)

    @property
    def _node_id(self) -> int | None:
        return None if self.identity is None else self.identity.node_id

    def checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """Read a checkpoint file.

        Raises:
            CorruptSourceError: It cannot be read.
        """
        try:
            return OffsetCheckpoint(self.files, paths.join(self.data_dir, name)).read()
        except CorruptCheckpointError as error:
            raise CorruptSourceError(str(error)) from error


def no_log_error(place: str, topic: str, partition: int | None, known: Iterable[TopicPartition]) -> UsageError:
    """Return the error for a topic, or one of its partitions, that has no log. It names the most similar known topic."""
    which = topic if partition is None else str(TopicPartition(topic, partition))
    topics = {tp.topic for tp in known}
    near = [] if topic in topics else get_close_matches(topic, topics, 1)
    return UsageError(f"{place} has no log of {which}" + (f", did you mean {near[0]}?" if near else ""))
