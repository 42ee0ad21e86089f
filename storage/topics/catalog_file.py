"""Format of the catalog file: topics and configs, as values and as bytes.

JSON, one line per partition:

    {
    "version": 1,
    "cluster_id": "…",
    "directories": {"…22 characters…": "/data"},
    "next_producer_id": 2000,
    "features": {"metadata.version": 30},
    "broker_configs": {
      "": {"log.retention.ms": "1000"},
      "1": {"max.connections": "5"}},
    "acls": {
      "…": {"principal": "User:alice", …}},
    "topics": {
      "orders": {"id": "…22 characters…", "configs": {"cleanup.policy": "compact"}, "partitions": [
        {"replicas": [0, 1], "leader": 0, "leader_epoch": 0},
        {"replicas": [1, 0], "leader": 1, "leader_epoch": 0}]}}
    }
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from ..disk.checkpoints import parse_uuid, uuid_text
from ..disk.health import DataDirectoryError
from .entries import Chunk, Entries, Facts

VERSION = 1

CLUSTER_DEFAULT = ""
"""The key of the dynamic broker configs that apply to every node."""

PIECE_CHARS = 1 << 20

Configs = Mapping[str, str]

SECTIONS = (
    "acls",  # access control entries, by their text
    "client_metrics",  # configs of client-metrics subscriptions, by name
    "client_quotas",  # quotas by entity
    "delegation_tokens",  # by token ID
    "group_configs",  # configs of groups, by group ID
    "reassignments",  # running reassignments, by partition
    "scram_users",  # salted credentials, by user
)
"""Optional sections of the file; the module that owns a section defines the shape of its entries. An empty section is left out,
so that an older Ottla that does not know it can still read the file."""

_Thing = TypeVar("_Thing")

Sections = Mapping[str, Mapping[str, Facts]]

Texts = dict[str, dict[str, tuple[Any, str]]]
"""Cache of the file's texts of topics and of chunks of entries: "topics" or section -> (first) name -> (value, text).

Of thousands usually one changes.
"""


class PartitionEntry(NamedTuple):
    """Replica assignment and leadership of one partition, as node IDs."""

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int = 0


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """One topic; partition `p` is `partitions[p]`. `configs` has only the overrides, as texts."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionEntry, ...]
    configs: Configs = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CatalogState:
    """The whole content of the file; never changed, only replaced."""

    cluster_id: str
    topics: Mapping[str, TopicEntry] = field(default_factory=dict)
    broker_configs: Mapping[str, Configs] = field(default_factory=dict)
    next_producer_id: int = 0
    features: Mapping[str, int] = field(default_factory=dict)
    directories: Mapping[str, str] | None = None
    """All data directories of the broker: directory.id as text -> path at the last start.

    None in a file of an Ottla that did not list them.
    """
    sections: Sections = field(default_factory=dict)
    """Entries by section (of SECTIONS) and key; no section is empty. In the catalog they are `Entries`."""


def encode_in_pieces(state: CatalogState, texts: Texts) -> Iterator[bytes]:
    """Yield the bytes of the file, the same for equal states: everything is sorted by name.

    They come about a megabyte at a time: joining a hundred at once would block all threads.

    `texts` is a cache for topics and entries that have not changed since it was last used; it is updated.
    """
    lines: list[str] = []
    chars = 0
    for line in _lines(state, texts):
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
    for section in sorted(state.sections):
        yield f'"{section}": {{'
        chunks = {next(iter(chunk)): chunk for chunk in Entries.from_mapping(state.sections[section]).chunks}
        yield from _sorted(chunks, texts.setdefault(section, {}), lambda _, chunk: _chunk(chunk), "},")
    yield '"topics": {'
    yield from _sorted(state.topics, texts.setdefault("topics", {}), lambda _, topic: _topic(topic), "")
    for section in texts.keys() - {"topics", *state.sections}:
        del texts[section]
    yield "}"
    yield "}\n"


def _sorted(
    things: Mapping[str, _Thing], known: dict[str, tuple[Any, str]], text_of: Callable[[str, _Thing], str], end: str
) -> Iterator[str]:
    """Yield the texts of these, sorted by name, about a megabyte at a time; `end` follows the last."""
    for name, thing in things.items():
        found = known.get(name)
        if found is None or found[0] is not thing:
            known[name] = thing, text_of(name, thing)
    if len(known) > len(things):
        for name in known.keys() - things.keys():
            del known[name]
    texts, chars, last = list[str](), 0, len(things)
    for number, name in enumerate(sorted(things), start=1):
        text = known[name][1]
        texts.append(text)
        chars += len(text)
        if chars >= PIECE_CHARS or number == last:
            yield ",\n".join(texts) + ("," if number < last else end)
            texts, chars = [], 0


def _chunk(entries: Chunk) -> str:
    return ",\n".join(f"  {_json(key)}: {_json(dict(sorted(facts.items())))}" for key, facts in entries.items())


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
    """Parse the bytes of a catalog; `path` is for error texts.

    Raises:
        DataDirectoryError: Not JSON, or not of the shape above. Unknown keys are refused also, as writing the file again would
            lose them.
    """
    try:
        top = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise DataDirectoryError(f"{path}: invalid catalog: {error}") from error
    state = _Reader(path).state(top)
    if b"\\u" in data:  # only an escape can be half a surrogate pair, which could not be written again
        try:
            json.dumps(top, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise DataDirectoryError(f"{path}: invalid Unicode: {error.reason}") from error
    return state


def _is_unicode(text: str) -> bool:
    """Whether the text has no half of a surrogate pair, which JSON can express and UTF-8 cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


class _Reader:
    """Turns parsed JSON into a CatalogState, and checks every value."""

    def __init__(self, path: str) -> None:
        self._path = path

    def state(self, top: Any) -> CatalogState:
        version = top.get("version") if isinstance(top, dict) else None
        if version != VERSION:
            raise self._error("version", f"is {version!r}; this version of Ottla supports {VERSION}")
        directories = self._configs(top["directories"], "directories") if "directories" in top else None
        sections = {
            name: Entries.from_mapping(
                {key: dict(self._map(facts, f"{name}[{key!r}]")) for key, facts in self._map(top[name], name)}
            )
            for name in SECTIONS
            if name in top
        }
        found = self._object(
            {key: value for key, value in top.items() if key != "directories" and key not in sections},
            *("the file", "version", "cluster_id", "next_producer_id", "features", "broker_configs", "topics"),
        )
        topics = {name: self._topic(name, value) for name, value in self._map(found["topics"], "topics")}
        if len({topic.topic_id for topic in topics.values()}) < len(topics):
            raise self._error("topics", "contains a duplicate topic ID")
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
            sections={name: entries for name, entries in sections.items() if entries},
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
            raise self._error(f"{place}.replicas", "must be a list with at least one node ID")
        return PartitionEntry(
            tuple(self._number(node, f"{place}.replicas", 2**31 - 1) for node in replicas),
            self._number(found["leader"], f"{place}.leader", 2**31 - 1),
            self._number(found["leader_epoch"], f"{place}.leader_epoch", 2**31 - 1),
        )

    def _object(self, value: Any, place: str, *keys: str) -> dict[str, Any]:
        found = dict(self._map(value, place))
        for key in keys:
            if key not in found:
                raise self._error(place, f"{key!r} is missing")
        for key in found:
            if key not in keys:
                raise self._error(place, f"has the unknown entry {key!r}; it may have been written by a newer version")
        return found

    def _map(self, value: Any, place: str) -> Iterable[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise self._error(place, "must be an object")
        return value.items()

    def _configs(self, value: Any, place: str) -> Configs:
        return {name: self._text(text, f"{place}[{name!r}]") for name, text in self._map(value, place)}

    def _text(self, value: Any, place: str) -> str:
        if not isinstance(value, str) or not _is_unicode(value):
            raise self._error(place, "must be a string")
        return value

    def _number(self, value: Any, place: str, maximum: int) -> int:
        if type(value) is not int or not 0 <= value <= maximum:
            raise self._error(place, f"must be an integer from 0 to {maximum}")
        return value

    def _id(self, value: Any, place: str) -> bytes:
        try:
            topic_id = parse_uuid(self._text(value, place))
        except ValueError as error:
            raise self._error(place, f"is {error}") from error
        if not any(topic_id):
            raise self._error(place, "is all zeros, which is not a valid topic ID")
        return topic_id

    def _error(self, place: str, what: str) -> DataDirectoryError:
        return DataDirectoryError(f"{self._path}: {place} {what}")
