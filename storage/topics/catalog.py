"""The catalog: the one readable file of a data directory that says which topics exist and how they are configured.

Log directories hold records only; what was promised to clients about them lives here: the cluster's id, topics with
their ids, replica assignments and configs, dynamic broker configs, the next producer id, feature levels. The file is
JSON, one line a partition, written whole and atomically on every change:

    {
    "version": 1,
    "cluster_id": "…",
    "directories": {"…22 characters…": "/data"},
    "next_producer_id": 2000,
    "features": {"metadata.version": 30},
    "broker_configs": {
      "": {"log.retention.ms": "1000"},
      "1": {"max.connections": "5"}},
    "topics": {
      "orders": {"id": "…22 characters…", "configs": {"cleanup.policy": "compact"}, "partitions": [
        {"replicas": [0, 1], "leader": 0, "leader_epoch": 0},
        {"replicas": [1, 0], "leader": 1, "leader_epoch": 0}]}}
    }

The server is its only user. A change is on disk before it shows in memory; one that the disk refuses shows nowhere: where
the new file may have taken its place all the same (the rename was done, the sync of the directory failed), the file is
written back at once. Should the disk refuse that, too, nobody knows what a restart would find, and `on_doubt` is told.
Every write carries the whole of what memory holds, so the next that succeeds ends the doubt.
Changes may come from several threads and happen one after the other; reading needs no lock.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ..disk.checkpoints import parse_uuid, put_in_place, uuid_text, write_beside
from ..disk.files import Files
from ..disk.paths import CATALOG_FILE, join, parent

VERSION = 1

CLUSTER_DEFAULT = ""
"""The key of the dynamic broker configs that hold for every node."""

PRODUCER_ID_BLOCK = 1000
"""Producer ids handed out with one write of the file; a restart skips what is left of a block."""

MAX_CATALOG_BYTES = 256 << 20
"""A larger file is neither read nor written: 100 000 partitions take 6 MB."""

PIECE_CHARS = 1 << 20

Configs = Mapping[str, str]

Texts = dict[str, tuple["TopicEntry", str]]
"""What the file says of topics, by name: of two thousand mostly one changes."""

_NO_CONFIGS: Configs = MappingProxyType({})


class CatalogError(Exception):
    """The file cannot be used as it is. The text names the file and the place in it; the file is left alone."""


@dataclass(frozen=True, slots=True)
class PartitionEntry:
    """Replica assignment and leadership of one partition; the ids are node ids."""

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int = 0


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """One topic; partition `p` is `partitions[p]`. `configs` holds the overrides only, as texts."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionEntry, ...]
    configs: Configs = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CatalogState:
    """Everything that the file says; never changed, only replaced."""

    cluster_id: str
    topics: Mapping[str, TopicEntry] = field(default_factory=dict)
    broker_configs: Mapping[str, Configs] = field(default_factory=dict)
    next_producer_id: int = 0
    features: Mapping[str, int] = field(default_factory=dict)
    directories: Mapping[str, str] | None = None
    """All data directories of the broker: directory.id as its text, and the path at the last start.

    None in a file of an Ottla that did not count them.
    """


class Catalog:
    """The catalog file of a data directory and what it says at the moment."""

    def __init__(self, files: Files, path: str, state: CatalogState) -> None:
        self.on_doubt: Callable[[str], None] = lambda _: None
        """Is told, in one line, when a restart may find a change that was refused. In the thread of that change."""
        self._files = files
        self._path = path
        self._state = state
        self._is_on_disk = True
        self._changing = threading.Lock()
        self._texts: Texts = {}

    @classmethod
    def load(cls, files: Files, data_dir: str) -> Catalog | None:
        """The catalog in `data_dir`, or None where there is no such file.

        Raises:
            CatalogError: The file is damaged or of a newer version. It stays as it is.
            OSError: It cannot be read.
        """
        path = join(data_dir, CATALOG_FILE)
        if not files.exists(path):
            return None
        size_bytes = files.size(path)
        if size_bytes > MAX_CATALOG_BYTES:
            raise CatalogError(f"{path}: {size_bytes} bytes, more than the {MAX_CATALOG_BYTES} that a catalog may have")
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
        """The data directory that the file lies in."""
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

    def topic_configs(self, name: str) -> Configs:
        """The overrides of a topic. KeyError for an unknown one."""
        return self._state.topics[name].configs

    def broker_configs(self, node: str) -> Configs:
        """The dynamic configs of node id `node`, written as a decimal, or of CLUSTER_DEFAULT; empty if none are set."""
        return self._state.broker_configs.get(node, _NO_CONFIGS)

    # Every change raises OSError where the disk refuses it, or the file would be larger than MAX_CATALOG_BYTES; then nothing has
    # changed.

    def put_topics(self, topics: Iterable[TopicEntry]) -> None:
        """Add these topics, or replace those of the same names, in one write."""
        added = {topic.name: topic for topic in topics}
        self._change(lambda state: {"topics": {**state.topics, **added}})

    def remove_topics(self, names: Iterable[str]) -> None:
        """Forget these topics, in one write; unknown names are fine."""
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

    def set_broker_configs(self, node: str, configs: Configs) -> None:
        """Replace all dynamic configs of a node, or of CLUSTER_DEFAULT; none leave no trace."""
        self._change(
            lambda state: {
                "broker_configs": {
                    key: value for key, value in {**state.broker_configs, node: dict(configs)}.items() if value
                }
            }
        )

    def set_directories(self, directories: Mapping[str, str]) -> None:
        """Replace the list of data directories; no write if it is the same."""
        if self._state.directories != directories:
            self._change(lambda state: {"directories": dict(directories)})

    def take_back(self, name: str, before: TopicEntry | None) -> None:
        """Undo a change of the topic `name`, to `before` or (None) to nothing, whatever the disk says.

        Memory holds it on return.

        Raises:
            OSError: The disk refused; a restart finds the change until some later write of the file succeeds.
        """
        with self._changing:
            topics = {key: topic for key, topic in self._state.topics.items() if key != name}
            if before is not None:
                topics[name] = before
            self._state = dataclasses.replace(self._state, topics=topics)
            self._is_on_disk = False
            self._save(self._state)

    def settle(self) -> None:
        """Write what the disk refused before, if it did. Raises OSError if it refuses again."""
        with self._changing:
            if not self._is_on_disk:
                self._save(self._state)

    def take_producer_ids(self) -> range:
        """PRODUCER_ID_BLOCK producer ids that were never handed out before, and never will be again."""
        end = self._change(lambda state: {"next_producer_id": state.next_producer_id + PRODUCER_ID_BLOCK})
        return range(end.next_producer_id - PRODUCER_ID_BLOCK, end.next_producer_id)

    def skip_producer_ids(self, up_to: int) -> None:
        """Hand out no producer id below `up_to` any more; no write if that is so."""
        if self._state.next_producer_id < up_to:
            self._change(lambda state: {"next_producer_id": max(state.next_producer_id, up_to)})

    def _change(self, change: Callable[[CatalogState], dict[str, Any]]) -> CatalogState:
        """Write, then show, the state with the fields that `change` makes of the present one."""
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
        with suppress(Exception):  # whatever it is, the doubt is to be told
            self._save(self._state)
        if not self._is_on_disk:
            self.on_doubt(f"{self._path} may hold a change that was refused: {refusal}")

    def _save(self, state: CatalogState) -> None:
        self._put_in_place(self._write_beside(state))

    def _write_beside(self, state: CatalogState) -> str:
        pieces = list(encode_in_pieces(state, self._texts))
        size_bytes = sum(map(len, pieces))
        if size_bytes > MAX_CATALOG_BYTES:
            reason = f"it would have {size_bytes} bytes, and no start reads more than {MAX_CATALOG_BYTES}"
            raise OSError(errno.EFBIG, reason, self._path)
        return write_beside(self._files, self._path, *pieces)

    def _put_in_place(self, temporary: str) -> None:
        self._is_on_disk = False  # Until the directory is synced nobody can tell which of the two a restart finds.
        put_in_place(self._files, temporary, self._path)
        self._is_on_disk = True


def encode(state: CatalogState) -> bytes:
    """The bytes of the file, the same for equal states: everything is sorted by name."""
    return b"".join(encode_in_pieces(state))


def encode_in_pieces(state: CatalogState, texts: Texts | None = None) -> Iterator[bytes]:
    """The same, about a megabyte at a time: to join a hundred of them in one go holds all threads.

    `texts` spares the work for topics that are as they were when it was last given; it is brought up to date.
    """
    lines: list[str] = []
    chars = 0
    for line in _lines(state, {} if texts is None else texts):
        if chars >= PIECE_CHARS:
            yield ("\n".join(lines) + "\n").encode()
            lines, chars = [], 0
        lines.append(line)
        chars += len(line)
    yield "\n".join(lines).encode()


def _lines(state: CatalogState, texts: Texts) -> Iterator[str]:
    yield "{"
    yield f'"version": {VERSION},'
    yield f'"cluster_id": {_json(state.cluster_id)},'
    if state.directories is not None:
        yield f'"directories": {_configs(state.directories)},'
    yield f'"next_producer_id": {state.next_producer_id},'
    yield f'"features": {_json(dict(sorted(state.features.items())))},'
    yield from _block("broker_configs", [f"{_json(node)}: {_configs(c)}" for node, c in state.broker_configs.items()])
    yield '"topics": {'
    last = len(state.topics)
    for number, name in enumerate(sorted(state.topics), start=1):
        topic = state.topics[name]
        known = texts.get(name)
        if known is None or known[0] is not topic:
            known = texts[name] = topic, _topic(topic)
        yield known[1] + ("," if number < last else "")
    if len(texts) > last:
        for name in texts.keys() - state.topics.keys():
            del texts[name]
    yield "}"
    yield "}\n"


def _topic(topic: TopicEntry) -> str:
    partitions = ",\n".join(
        f'    {{"replicas": {list(p.replicas)}, "leader": {p.leader}, "leader_epoch": {p.leader_epoch}}}'
        for p in topic.partitions
    )
    facts = f'"id": "{uuid_text(topic.topic_id)}", "configs": {_configs(topic.configs)}'
    return f'  {_json(topic.name)}: {{{facts}, "partitions": [\n{partitions}]}}'


def _block(name: str, entries: list[str]) -> Iterator[str]:
    yield f'"{name}": {{'
    yield ",\n".join(f"  {entry}" for entry in sorted(entries)) + "},"


def _configs(configs: Configs) -> str:
    return _json(dict(sorted(configs.items())))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def decode(data: bytes, path: str) -> CatalogState:
    """What the bytes of a catalog say; `path` is for error texts.

    Raises:
        CatalogError: Not JSON, or not shaped as above; keys that this version does not know are refused too, since
            writing the file back would lose them.
    """
    try:
        top = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise CatalogError(f"{path}: not a readable catalog: {error}") from error
    return _Reader(path).state(top)


def _is_unicode(text: str) -> bool:
    """False for half a surrogate pair, which JSON can spell and UTF-8 cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


class _Reader:
    """Turns parsed JSON into a CatalogState, checking every value on the way."""

    def __init__(self, path: str) -> None:
        self._path = path

    def state(self, top: Any) -> CatalogState:
        version = top.get("version") if isinstance(top, dict) else None
        if version != VERSION:
            raise self._error("version", f"is {version!r}; this Ottla reads version {VERSION}")
        directories = self._configs(top["directories"], "directories") if "directories" in top else None
        found = self._object(
            {key: value for key, value in top.items() if key != "directories"},
            *("the file", "version", "cluster_id", "next_producer_id", "features", "broker_configs", "topics"),
        )
        topics = {name: self._topic(name, value) for name, value in self._map(found["topics"], "topics")}
        if len({topic.topic_id for topic in topics.values()}) < len(topics):
            raise self._error("topics", "has two topics of one id")
        return CatalogState(
            cluster_id=self._text(found["cluster_id"], "cluster_id"),
            topics=topics,
            broker_configs={
                node: self._configs(value, f"broker_configs[{node!r}]")
                for node, value in self._map(found["broker_configs"], "broker_configs")
            },
            next_producer_id=self._number(found["next_producer_id"], "next_producer_id", 2**63 - 1),
            features={
                name: self._number(level, f"features[{name!r}]", 2**15 - 1)
                for name, level in self._map(found["features"], "features")
            },
            directories=directories,
        )

    def _topic(self, name: str, value: Any) -> TopicEntry:
        place = f"topics[{name!r}]"
        found = self._object(value, place, "id", "configs", "partitions")
        partitions = found["partitions"]
        if not isinstance(partitions, list) or not partitions:
            raise self._error(f"{place}.partitions", "must be a list with at least one entry")
        return TopicEntry(
            name,
            self._id(found["id"], f"{place}.id"),
            tuple(self._partition(entry, f"{place}.partitions[{index}]") for index, entry in enumerate(partitions)),
            self._configs(found["configs"], f"{place}.configs"),
        )

    def _partition(self, value: Any, place: str) -> PartitionEntry:
        found = self._object(value, place, "replicas", "leader", "leader_epoch")
        replicas = found["replicas"]
        if not isinstance(replicas, list) or not replicas:
            raise self._error(f"{place}.replicas", "must be a list with at least one node id")
        return PartitionEntry(
            tuple(self._number(node, f"{place}.replicas", 2**31 - 1) for node in replicas),
            self._number(found["leader"], f"{place}.leader", 2**31 - 1),
            self._number(found["leader_epoch"], f"{place}.leader_epoch", 2**31 - 1),
        )

    def _object(self, value: Any, place: str, *keys: str) -> dict[str, Any]:
        found = dict(self._map(value, place))
        for key in keys:
            if key not in found:
                raise self._error(place, f"lacks {key!r}")
        for key in found:
            if key not in keys:
                raise self._error(place, f"has {key!r}, which this Ottla does not know; was a newer one here?")
        return found

    def _map(self, value: Any, place: str) -> Iterable[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise self._error(place, "must be an object")
        return value.items()

    def _configs(self, value: Any, place: str) -> Configs:
        return {name: self._text(text, f"{place}[{name!r}]") for name, text in self._map(value, place)}

    def _text(self, value: Any, place: str) -> str:
        if not isinstance(value, str) or not _is_unicode(value):
            raise self._error(place, "must be a text")
        return value

    def _number(self, value: Any, place: str, maximum: int) -> int:
        if type(value) is not int or not 0 <= value <= maximum:
            raise self._error(place, f"must be a whole number from 0 to {maximum}")
        return value

    def _id(self, value: Any, place: str) -> bytes:
        try:
            topic_id = parse_uuid(self._text(value, place))
        except ValueError as error:
            raise self._error(place, f"is {error}") from error
        if not any(topic_id):
            raise self._error(place, "is all zeros, which names no topic")
        return topic_id

    def _error(self, place: str, what: str) -> CatalogError:
        return CatalogError(f"{self._path}: {place} {what}")
