"""Catalog: the readable file of a data directory that lists all topics and their configuration.

Log directories contain only records; the catalog has everything else that clients rely on. That is the cluster's ID, topics
with their IDs, replica assignments and configs, dynamic broker configs, the next producer ID, and feature levels. Every change
writes the whole file atomically; `catalog_file` has the format.

The server is its only user. A change is on disk before it is visible in memory; one that the disk refuses is not visible. If
the rename was done but the sync of the directory failed, the new file may be in place, so the old content is written again at
once. If the disk refuses that also, it is unknown what a restart would find, and `on_doubt` is called. Every write contains the
whole state in memory, so the next successful one ends the doubt.
Changes may come from several threads and happen one after the other; reading needs no lock.
"""

from __future__ import annotations

import dataclasses
import errno
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from ..disk.checkpoints import write_beside
from ..disk.files import Files
from ..disk.health import DataDirectoryError, is_disk_failure
from ..disk.paths import CATALOG_FILE, join, parent
from .catalog_file import (
    CatalogState,
    Configs,
    PartitionEntry,
    Sections,
    Texts,
    TopicEntry,
    decode,
    encode_in_pieces,
)
from .entries import Entries, Facts

PRODUCER_ID_BLOCK = 1000
"""Number of producer IDs reserved with one write of the file; a restart skips the rest of a block."""

MAX_CATALOG_BYTES = 256 << 20
"""Largest file that is read or written: 100 000 partitions take 6 MB."""

_NO_ENTRIES: Mapping[str, Facts] = MappingProxyType({})


class Catalog:
    """The catalog file of a data directory and its present content."""

    def __init__(self, files: Files, path: str, state: CatalogState) -> None:
        self.on_doubt: Callable[[str], None] = lambda _: None
        """Called with one line when a restart may find a change that was refused. In the thread of that change."""
        self._files = files
        self._path = path
        self._state = state
        self._is_on_disk = True
        self._changing = threading.Lock()
        self._texts: Texts = {}

    @classmethod
    def load(cls, files: Files, data_dir: str) -> Catalog | None:
        """Load the catalog in `data_dir`; None if the file is missing.

        Raises:
            DataDirectoryError: The file is damaged or of a newer version. It stays unchanged.
            OSError: The file cannot be read.
        """
        path = join(data_dir, CATALOG_FILE)
        if not files.exists(path):
            return None
        size_bytes = files.size(path)
        if size_bytes > MAX_CATALOG_BYTES:
            raise DataDirectoryError(f"{path}: catalog too large ({size_bytes} bytes, limit {MAX_CATALOG_BYTES})")
        file = files.open(path)
        try:
            data = file.read_at(0, size_bytes)
        finally:
            file.close()
        return cls(files, path, decode(data, path))

    @classmethod
    def create(cls, files: Files, data_dir: str, state: CatalogState) -> Catalog:
        """Write the first catalog of `data_dir`, which has none."""
        catalog = cls(files, join(data_dir, CATALOG_FILE), state)
        catalog._save(state)
        return catalog

    @property
    def data_dir(self) -> str:
        """The data directory that contains the file."""
        return parent(self._path)

    @property
    def state(self) -> CatalogState:
        return self._state

    @property
    def cluster_id(self) -> str:
        return self._state.cluster_id

    @property
    def topics(self) -> Mapping[str, TopicEntry]:
        return self._state.topics

    @property
    def features(self) -> Mapping[str, int]:
        return self._state.features

    # Every change raises OSError if the disk refuses it, or the file would be larger than MAX_CATALOG_BYTES. Then nothing has
    # changed.

    def put_topics(
        self,
        topics: Iterable[TopicEntry],
        section: str | None = None,
        entries: Mapping[str, Facts | None] | None = None,
    ) -> None:
        """Add these topics, or replace those of the same names, and entries of a section with them, in one write."""
        added = {topic.name: topic for topic in topics}

        def changed(state: CatalogState) -> dict[str, Any]:
            fields: dict[str, Any] = {"topics": {**state.topics, **added}}
            if section is not None:
                fields["sections"] = _with_entries(state, section, entries or {})
            return fields

        self._change(changed)

    def remove_topics(self, names: Iterable[str]) -> None:
        """Remove these topics, in one write; unknown names are ignored."""
        gone = set(names)
        self._change(lambda state: {"topics": {name: state.topics[name] for name in state.topics if name not in gone}})

    def add_partitions(self, name: str, partitions: Iterable[PartitionEntry]) -> None:
        """Append partitions to a topic. KeyError for an unknown one."""
        added = tuple(partitions)

        def changed(state: CatalogState) -> dict[str, Any]:
            topic = state.topics[name]
            return {"topics": {**state.topics, name: dataclasses.replace(topic, partitions=topic.partitions + added)}}

        self._change(changed)

    def set_topic_configs(self, configs: Mapping[str, Configs]) -> None:
        """Replace all overrides of these topics, in one write. KeyError for an unknown one; none has changed then."""

        def changed(state: CatalogState) -> dict[str, Any]:
            entries = {name: dataclasses.replace(state.topics[name], configs=dict(of)) for name, of in configs.items()}
            return {"topics": {**state.topics, **entries}}

        self._change(changed)

    def set_broker_configs(self, configs: Mapping[str, Configs]) -> None:
        """Replace all dynamic configs of these nodes, or of CLUSTER_DEFAULT, in one write; empty configs remove the entry."""
        self._change(lambda state: {"broker_configs": _with_configs(state, configs)})

    def set_features(self, levels: Mapping[str, int], configs: Mapping[str, Configs]) -> None:
        """Set the levels of these features, and the configs as `set_broker_configs` does, in one write.

        Level 0 is stored, as an explicit choice.
        """
        self._change(
            lambda state: {
                "features": {**state.features, **levels},
                "broker_configs": _with_configs(state, configs),
            }
        )

    def entries(self, section: str) -> Mapping[str, Facts]:
        """Return the entries of a section of the file by key; `section` is one of `catalog_file.SECTIONS`."""
        return self._state.sections.get(section, _NO_ENTRIES)

    def put_entries(self, section: str, entries: Mapping[str, Facts | None]) -> None:
        """Set entries of a section, and remove those that are None here, in one write. Values are of JSON types."""
        self._change(lambda state: {"sections": _with_entries(state, section, entries)})

    def set_directories(self, directories: Mapping[str, str]) -> None:
        """Replace the list of data directories; no write if it is the same."""
        if self._state.directories != directories:
            self._change(lambda state: {"directories": dict(directories)})

    def take_back(self, before: Mapping[str, TopicEntry | None]) -> None:
        """Restore topics, by name, to the entries before a change, or (None) remove them, whatever the disk does.

        Memory is changed on return, even after an error.

        Raises:
            OSError: The disk refused; a restart finds the change until some later write of the file succeeds.
        """
        with self._changing:
            topics = {**self._state.topics, **before}
            was_there = {name: topic for name, topic in topics.items() if topic is not None}
            self._state = dataclasses.replace(self._state, topics=was_there)
            self._is_on_disk = False
            self._save(self._state)

    def settle(self) -> None:
        """Write the file again if the disk refused it before. OSError: the disk refuses again."""
        with self._changing:
            if not self._is_on_disk:
                self._save(self._state)

    def take_producer_ids(self) -> range:
        """Reserve PRODUCER_ID_BLOCK producer IDs that were never returned before, and never will be again."""
        end = self._change(lambda state: {"next_producer_id": state.next_producer_id + PRODUCER_ID_BLOCK})
        return range(end.next_producer_id - PRODUCER_ID_BLOCK, end.next_producer_id)

    def skip_producer_ids(self, up_to: int) -> None:
        """Return no producer ID below `up_to` from now on; no write if that is already so."""
        if self._state.next_producer_id < up_to:
            self._change(lambda state: {"next_producer_id": max(state.next_producer_id, up_to)})

    def _change(self, change: Callable[[CatalogState], dict[str, Any]]) -> CatalogState:
        """Write the state with the fields that `change` returns for the present one, and then make it visible."""
        with self._changing:
            state = dataclasses.replace(self._state, **change(self._state))
            temporary = self._write_beside(state)
            try:
                self._put_in_place(temporary)
            except BaseException as error:
                self._put_back(error)
                raise
            self._state = state
            return state

    def _put_back(self, refusal: BaseException) -> None:
        if self._is_on_disk:
            return
        with suppress(Exception):  # whatever the error is, the doubt must be reported
            self._save(self._state)
        if not self._is_on_disk:
            self.on_doubt(f"{self._path} may contain a rejected change: {refusal}")

    def _save(self, state: CatalogState) -> None:
        self._put_in_place(self._write_beside(state))

    def _write_beside(self, state: CatalogState) -> str:
        pieces = list(encode_in_pieces(state, self._texts))
        size_bytes = sum(map(len, pieces))
        if size_bytes > MAX_CATALOG_BYTES:
            reason = f"catalog too large ({size_bytes} bytes, limit {MAX_CATALOG_BYTES})"
            raise OSError(errno.EFBIG, reason, self._path)
        return write_beside(self._files, self._path, *pieces)

    def _put_in_place(self, temporary: str) -> None:
        was_on_disk, self._is_on_disk = self._is_on_disk, False
        try:
            self._files.rename(temporary, self._path)
        except OSError as error:
            # No space or no permission: the file is unchanged. After a disk failure its content is unknown.
            self._is_on_disk = was_on_disk and not is_disk_failure(error)
            raise
        self._files.sync_dir(parent(self._path))  # until then a restart may find either
        self._is_on_disk = True


def _with_configs(state: CatalogState, configs: Mapping[str, Configs]) -> dict[str, Configs]:
    merged = {**state.broker_configs, **configs}
    return {node: dict(of) for node, of in merged.items() if of}


def _with_entries(state: CatalogState, section: str, entries: Mapping[str, Facts | None]) -> Sections:
    kept = Entries.from_mapping(state.sections.get(section, _NO_ENTRIES)).with_changes(entries)
    others = {name: of for name, of in state.sections.items() if name != section}
    return {**others, section: kept} if kept else others
