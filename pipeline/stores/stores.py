"""The data directories of one server, named as in its `log.dirs`: each partition in the one that has its log.

    store = opened_store("/a,/b")        a Stores; for one directory its Store, with the same interface
    store.topic_partitions()             those of all directories
    store.of(tp)                         the Store that has its log

Configs come from the directory with the catalog. A crash during a move between data directories leaves two directories of one
partition; the one that the server's next start would serve is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property

from ...storage.data_dirs.inspection import check_owners
from ...storage.data_dirs.partition_dirs import served_directory
from ...storage.disk import paths
from ...storage.disk.checkpoints import uuid_text
from ...storage.disk.files import Files
from ...storage.disk.health import DataDirectoryError
from ...storage.disk.paths import TopicPartition
from ..errors import UsageError
from ..objects.addresses import is_address
from .segment_files import deleted_log_error
from .store import Store, no_log_error


def opened_store(text: str, files: Files | None = None) -> Store | Stores:
    """Open the store that a user names: a directory, or several with commas between them. An existing path may contain commas.

    Raises:
        UsageError: A name is not a directory, or the directories are not those of one server.
    """
    named = (
        [text]
        if not is_address(text) and os.path.isdir(text)
        else [part.strip() for part in text.split(",") if part.strip()]
    )
    found = {store.data_dir: store for store in (Store(each, files) for each in named or [text])}
    if len(found) == 1:
        return next(iter(found.values()))
    return Stores([*found.values()])


class Stores:
    """Several data directories of one server; see the module."""

    def __init__(self, stores: Sequence[Store]) -> None:
        """
        Raises:
            UsageError: They are of different servers, or one that the catalog lists is missing.
            CorruptSourceError: A catalog is damaged, or of a newer version.
        """
        self.stores = stores
        homes = [each for each in stores if each.has_catalog]
        if len(homes) > 1:
            raise UsageError(f"{homes[0].data_dir} and {homes[1].data_dir}: expected one catalog, found one in each")
        self._check_whole(homes[0] if homes else None)
        for home in homes:
            for each in stores:
                each.home = home

    @property
    def data_dir(self) -> str:
        """Paths of the directories, with commas between them."""
        return ",".join(each.data_dir for each in self.stores)

    def topic_partitions(self, topic: str | None = None, partition: int | None = None) -> list[TopicPartition]:
        """Return the partitions that have a log; see `Store.topic_partitions`."""
        found = sorted(
            tp for tp in self._by_partition if topic in (None, tp.topic) and partition in (None, tp.partition)
        )
        if not found and topic is not None:
            raise no_log_error(self.data_dir, topic, partition, self._by_partition)
        return found

    def store_of(self, tp: TopicPartition) -> Store:
        """Return the store with the log of a partition; the first store if none has it.

        Raises:
            UsageError: Two have a log of it, and no move determines the valid one; or the log was moving to or from another
                directory, and may be newer there.
            SourceChangedError: It was moved or deleted at this moment.
        """
        found = self._by_partition.get(tp, [])
        if not found:
            return self.stores[0]
        if len(found) > 1:
            files = found[0].files
            entry = catalog.topics.get(tp.topic) if (catalog := found[0].catalog) is not None else None
            try:
                directory = served_directory(
                    files, tp, [each.directory_of(tp) for each in found], None if entry is None else entry.topic_id
                )
            except DataDirectoryError as error:
                raise UsageError(str(error)) from error
            except FileNotFoundError as error:
                raise deleted_log_error(error.filename or str(tp)) from error
            found = [each for each in found if each.directory_of(tp) == directory]
        found[0].check_moved(tp, self._paths)
        return found[0]

    @cached_property
    def _by_partition(self) -> Mapping[TopicPartition, list[Store]]:
        found: dict[TopicPartition, list[Store]] = {}
        for store in self.stores:
            for tp in store.topic_partitions():
                found.setdefault(tp, []).append(store)
        return found

    @property
    def _paths(self) -> frozenset[str]:
        return frozenset(each.data_dir for each in self.stores)

    def _check_whole(self, home: Store | None) -> None:
        identities = [(each.data_dir, each.identity) for each in self.stores]
        first = next((identity for _, identity in identities if identity is not None), None)
        if first is not None:
            try:
                check_owners(identities, first.node_id)
            except DataDirectoryError as error:
                raise UsageError(str(error)) from error
        catalog = None if home is None else home.catalog
        listed = {} if catalog is None else catalog.directories or {}
        here = {uuid_text(each.directory_id) for _, each in identities if each is not None and each.directory_id}
        for directory_id, path in listed.items():
            if directory_id not in here:
                assert home is not None
                raise UsageError(
                    f"{self.data_dir}: {paths.CATALOG_FILE} in {home.data_dir} also lists {path}: name all data directories of"
                    " the server, or one"
                )
