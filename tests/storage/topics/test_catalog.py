"""The catalog file: it is read back unchanged, a crash leaves the old or the new one, damage is reported and left alone."""

import dataclasses
import errno
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.disk.health import DataDirectoryError
from ottla.storage.disk.os_files import OsFile, OsFiles
from ottla.storage.topics.catalog import PRODUCER_ID_BLOCK, Catalog
from ottla.storage.topics.catalog_file import (
    SECTIONS,
    CatalogState,
    PartitionEntry,
    Texts,
    TopicEntry,
    decode,
    encode_in_pieces,
)
from support.disk.crash_files import CrashFiles, power_losses
from support.noted import each_case
from support.sizes import size

PATH = "/data/ottla.json"

EXAMPLE = CatalogState(
    cluster_id="eCF3aWhLQhuB0A0GhE2kgg",
    topics={
        "orders": TopicEntry(
            "orders",
            bytes(range(1, 17)),
            (PartitionEntry((0, 1), 0), PartitionEntry((1, 0), 1, leader_epoch=7)),
            {"cleanup.policy": "compact"},
        ),
        "a": TopicEntry("a", bytes(range(2, 18)), (PartitionEntry((0,), 0),)),
    },
    broker_configs={"": {"log.retention.ms": "1000"}, "1": {"max.connections": "5"}},
    next_producer_id=2000,
    features={"metadata.version": 30},
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
node_ids = st.integers(0, 2**31 - 1)
configs = st.dictionaries(texts, texts, max_size=3)
partitions = st.builds(
    PartitionEntry, st.lists(node_ids, min_size=1, max_size=3).map(tuple), node_ids, st.integers(0, 2**31 - 1)
)
sections = st.dictionaries(
    st.sampled_from(SECTIONS),
    st.dictionaries(texts, st.dictionaries(texts, st.none() | st.integers() | texts | st.lists(texts)), min_size=1),
    max_size=2,
)


@st.composite
def states(draw: st.DrawFn) -> CatalogState:
    names = draw(st.lists(texts, unique=True, max_size=3))
    return CatalogState(
        cluster_id=draw(texts),
        topics={
            name: TopicEntry(
                name,
                number.to_bytes(16, "big"),
                tuple(draw(st.lists(partitions, min_size=1, max_size=3))),
                draw(configs),
            )
            for number, name in enumerate(names, start=1)
        },
        broker_configs=draw(st.dictionaries(texts, configs, max_size=2)),
        next_producer_id=draw(st.integers(0, 2**63 - 1)),
        features=draw(st.dictionaries(texts, st.integers(0, 2**15 - 1), max_size=2)),
        sections=draw(sections),
    )


@settings(max_examples=size(15, 100))
@given(states())
def test_a_written_catalog_reads_back(state: CatalogState) -> None:
    assert decode(encode(state), PATH) == state


def test_the_layout_is_readable_and_deterministic() -> None:
    assert encode(EXAMPLE).decode() == (
        "{\n"
        '"version": 1,\n'
        '"cluster_id": "eCF3aWhLQhuB0A0GhE2kgg",\n'
        '"next_producer_id": 2000,\n'
        '"features": {"metadata.version": 30},\n'
        '"broker_configs": {\n'
        '  "": {"log.retention.ms": "1000"},\n'
        '  "1": {"max.connections": "5"}},\n'
        '"topics": {\n'
        '  "a": {"id": "AgMEBQYHCAkKCwwNDg8QEQ", "configs": {}, "partitions": [\n'
        '    {"replicas": [0], "leader": 0, "leader_epoch": 0}]},\n'
        '  "orders": {"id": "AQIDBAUGBwgJCgsMDQ4PEA", "configs": {"cleanup.policy": "compact"}, "partitions": [\n'
        '    {"replicas": [0, 1], "leader": 0, "leader_epoch": 0},\n'
        '    {"replicas": [1, 0], "leader": 1, "leader_epoch": 7}]}\n'
        "}\n"
        "}\n"
    )


def encode(state: CatalogState) -> bytes:
    return b"".join(encode_in_pieces(state, {}))


def made(state: CatalogState = EXAMPLE) -> tuple[CrashFiles, Catalog]:
    files = CrashFiles()
    files.make_dir("/data")
    return files, Catalog.create(files, "/data", state)


def reloaded(files: CrashFiles) -> CatalogState:
    catalog = Catalog.load(files, "/data")
    assert catalog is not None
    return catalog.state


def test_a_directory_without_the_file_has_no_catalog() -> None:
    files = CrashFiles()
    files.make_dir("/data")
    assert Catalog.load(files, "/data") is None


def test_every_change_is_on_disk_when_the_call_returns() -> None:
    files, catalog = made()
    new = TopicEntry("new", bytes([9] * 16), (PartitionEntry((0,), 0),))
    catalog.put_topics([new])
    catalog.add_partitions("new", [PartitionEntry((1,), 1)])
    catalog.set_topic_configs({"new": {"retention.ms": "5"}})
    catalog.set_broker_configs({"2": {"max.connections": "7"}, "1": {}})
    catalog.set_broker_configs({"4": {"max.connections": "9"}})
    catalog.set_features({"group.version": 0}, {"4": {}, "3": {"max.connections": "8"}})
    catalog.remove_topics(["orders", "never there"])
    state = reloaded(files)
    assert state == catalog.state
    assert state.topics["new"] == TopicEntry(
        "new", new.topic_id, (PartitionEntry((0,), 0), PartitionEntry((1,), 1)), {"retention.ms": "5"}
    )
    assert set(state.topics) == {"a", "new"}
    assert state.broker_configs == {
        "": {"log.retention.ms": "1000"},
        "2": {"max.connections": "7"},
        "3": {"max.connections": "8"},
    }
    assert state.features["group.version"] == 0


def test_producer_ids_are_never_given_twice_even_after_a_restart() -> None:
    files, catalog = made()
    first = catalog.take_producer_ids()
    second = catalog.take_producer_ids()
    again = Catalog.load(files, "/data")
    assert again is not None
    third = again.take_producer_ids()
    assert [first[0], second[0], third[0]] == [2000, 2000 + PRODUCER_ID_BLOCK, 2000 + 2 * PRODUCER_ID_BLOCK]
    assert all(len(block) == PRODUCER_ID_BLOCK for block in (first, second, third))


@pytest.mark.parametrize("ordered", [True, False])
def test_after_a_power_loss_the_old_or_new_catalog_exists(ordered: bool) -> None:
    start, _ = made()
    new = TopicEntry("new", bytes([9] * 16), (PartitionEntry((0,), 0),))

    def scenario(files: CrashFiles) -> None:
        catalog = Catalog.load(files, "/data")
        assert catalog is not None
        catalog.put_topics([new])

    found = {frozenset(reloaded(files).topics) for files in power_losses(scenario, start, ordered=ordered)}
    assert found == {frozenset({"a", "orders"}), frozenset({"a", "orders", "new"})}


def test_a_change_that_the_disk_refuses_has_no_effect() -> None:
    files, catalog = made()

    def full(operation: str, path: str, added_bytes: int) -> None:
        if added_bytes:
            raise OSError(errno.ENOSPC, "no space left on device")

    files.refuse = full
    with pytest.raises(OSError, match="no space"):
        catalog.remove_topics(["a"])
    assert catalog.state == EXAMPLE
    files.refuse = None
    assert reloaded(files) == EXAMPLE


def test_a_change_that_cannot_be_undone_is_reported_for_any_reason() -> None:
    files, catalog = made()
    told: list[str] = []
    catalog.on_doubt = told.append

    def refuse(operation: str, path: str, _: int) -> None:
        if told_at:
            raise MemoryError
        if operation == "sync_dir":
            told_at.append(path)
            raise OSError(errno.EIO, "Input/output error")

    told_at: list[str] = []
    files.refuse = refuse
    with pytest.raises(OSError, match="Input/output error"):
        catalog.remove_topics(["a"])
    assert "may contain a rejected change" in told[0]
    assert catalog.state == EXAMPLE


@pytest.mark.parametrize(
    ("number", "is_doubtful"), [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EACCES, False), (errno.EIO, True)]
)
def test_a_refused_rename_is_reported_only_for_a_failed_disk(number: int, is_doubtful: bool) -> None:
    files, catalog = made()
    told: list[str] = []
    catalog.on_doubt = told.append

    def refuse(operation: str, path: str, _: int) -> None:
        if operation == "rename":
            raise OSError(number, os.strerror(number))

    files.refuse = refuse
    with pytest.raises(OSError, match=os.strerror(number)):
        catalog.remove_topics(["a"])
    assert bool(told) == is_doubtful
    assert catalog.state == EXAMPLE
    files.refuse = None
    assert reloaded(files) == EXAMPLE


@pytest.mark.parametrize(
    "call",
    [
        lambda catalog: catalog.set_topic_configs({"orders": {"retention.ms": "5"}, "missing": {}}),
        lambda catalog: catalog.add_partitions("missing", []),
    ],
)
def test_an_unknown_topic_is_a_key_error_and_writes_nothing(call: Callable[[Catalog], None]) -> None:
    files, catalog = made()
    before = len(files.operations)
    with pytest.raises(KeyError):
        call(catalog)
    assert len(files.operations) == before
    assert catalog.state == EXAMPLE


@settings(max_examples=size(10, 100))
@given(st.lists(states(), min_size=2, max_size=4))
def test_cached_texts_match_the_state(changes: list[CatalogState]) -> None:
    texts: Texts = {}
    before: CatalogState | None = None
    for change in changes:
        # Some topics stay unchanged, as the same objects.
        kept = {} if before is None else {name: before.topics[name] for name in sorted(before.topics)[::2]}
        before = dataclasses.replace(change, topics={**change.topics, **kept})
        assert b"".join(encode_in_pieces(before, texts)) == encode(before)
        assert texts["topics"].keys() == before.topics.keys()
        assert texts.keys() == {"topics", *before.sections}
        firsts = {section: {min(entries)} for section, entries in before.sections.items()}
        assert {section: texts[section].keys() for section in firsts} == firsts


def test_the_configs_of_many_topics_are_one_write() -> None:
    files, catalog = made()
    before = len(files.operations)
    catalog.set_topic_configs({"a": {"retention.ms": "5"}})
    one = len(files.operations) - before
    catalog.set_topic_configs({"a": {"retention.ms": "6"}, "orders": {"retention.ms": "7"}})
    assert len(files.operations) - before == 2 * one
    assert [reloaded(files).topics[name].configs for name in ("a", "orders")] == [
        {"retention.ms": "6"},
        {"retention.ms": "7"},
    ]


def test_entries_of_a_section_change_in_one_write_and_empty_sections_disappear() -> None:
    files, catalog = made()
    catalog.put_entries("acls", {"1": {"principal": "User:a"}, "2": {"principal": "User:b"}})
    catalog.put_entries("acls", {"1": None, "3": {"hosts": ["*"]}, "4": None})
    assert reloaded(files).sections == {"acls": {"2": {"principal": "User:b"}, "3": {"hosts": ["*"]}}}
    assert catalog.entries("acls") == reloaded(files).sections["acls"]
    catalog.put_entries("acls", {"2": None, "3": None})
    assert reloaded(files) == EXAMPLE
    assert catalog.entries("acls") == {}


def test_changes_from_many_threads_are_all_kept(tmp_path: object) -> None:
    catalog = Catalog.create(OsFiles(), str(tmp_path), CatalogState("c"))

    def add(first: int) -> None:
        for number in range(first, first + 5):
            catalog.put_topics([TopicEntry(f"t{number}", bytes([number] * 16), (PartitionEntry((0,), 0),))])

    threads = [threading.Thread(target=add, args=(first,)) for first in (1, 11, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = Catalog.load(OsFiles(), str(tmp_path))
    assert again is not None
    assert len(again.topics) == 15


def damaged(keys: list[Any], value: Any) -> bytes:
    """Return the example file with another value at the place that `keys` lead to."""
    top = json.loads(encode(EXAMPLE))
    place = top
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return json.dumps(top).encode()


@each_case(
    "data, told",
    [
        (b"", "invalid catalog"),
        (b"\xff", "invalid catalog"),
        (b"{", "invalid catalog"),
        (b"[" * 100_000, "invalid catalog"),
        (b"1" * 10_000, "invalid catalog"),
        (b"[]", "version"),
        (b"{}", "version is None"),
        (damaged(["version"], 2), "version is 2"),
        (damaged(["flavour"], 1), "'flavour'"),
        (damaged(["topics"], []), "topics"),
        (damaged(["topics", "a", "color"], 1), "topics['a'] has the unknown entry 'color'"),
        (damaged(["topics", "a", "id"], "short"), "topics['a'].id"),
        (damaged(["topics", "a", "id"], "A" * 22), "topics['a'].id"),
        (damaged(["topics", "a", "id"], 5), "topics['a'].id"),
        (damaged(["topics", "a", "id"], "AQIDBAUGBwgJCgsMDQ4PEA"), "duplicate topic ID"),
        (damaged(["topics", "a", "partitions"], []), "topics['a'].partitions"),
        (damaged(["topics", "a", "partitions", 0], {}), "topics['a'].partitions[0]"),
        (damaged(["topics", "a", "partitions", 0, "replicas"], []), "replicas"),
        (damaged(["topics", "a", "partitions", 0, "replicas"], [True]), "replicas"),
        (damaged(["topics", "a", "partitions", 0, "leader"], -1), "leader"),
        (damaged(["topics", "a", "configs"], {"x": 1}), "configs['x']"),
        (damaged(["topics", "a", "configs"], {"x": "\ud800"}), "configs['x']"),
        (damaged(["acls"], {"\ud800": {}}), "invalid Unicode"),
        (damaged(["topics", "a", "configs"], {"\udfff": "x"}), "invalid Unicode"),
        (damaged(["next_producer_id"], 1.5), "next_producer_id"),
        (damaged(["next_producer_id"], 2**63), "next_producer_id"),
        (damaged(["features"], {"x": -1}), "features['x']"),
        (damaged(["cluster_id"], None), "cluster_id"),
    ],
)
def test_a_damaged_file_is_reported_with_the_position_and_left_alone(data: bytes, told: str) -> None:
    files, _ = made()
    file = files.open(PATH, truncate=True)
    file.append(data)
    file.close()
    before = len(files.operations)
    with pytest.raises(DataDirectoryError) as refused:
        Catalog.load(files, "/data")
    assert str(refused.value).startswith(f"{PATH}: ")
    assert told in str(refused.value)
    assert len(files.operations) == before


@settings(max_examples=size(40, 300))
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_read_but_never_crashes(at: int, byte: int) -> None:
    data = bytearray(encode(EXAMPLE))
    data[at % len(data)] = byte
    try:
        state = decode(bytes(data), PATH)
    except DataDirectoryError:
        return
    assert decode(encode(state), PATH) == state


# Large ones


def test_a_catalog_that_no_start_could_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    files = CrashFiles()
    files.make_dir("/data")
    catalog = Catalog.create(files, "/data", EXAMPLE)
    size_bytes = len(encode(EXAMPLE))
    monkeypatch.setattr("ottla.storage.topics.catalog.MAX_CATALOG_BYTES", size_bytes + 100)
    long = TopicEntry("long", bytes(range(3, 19)), (), {"leader.replication.throttled.replicas": "0:1," * 50 + "0:1"})
    with pytest.raises(OSError, match=f"limit {size_bytes + 100}") as refused:
        catalog.put_topics([long])
    assert refused.value.errno == errno.EFBIG
    catalog.set_broker_configs({"": {}})
    found = Catalog.load(files, "/data")
    assert found is not None
    assert found.topics.keys() == catalog.topics.keys() == EXAMPLE.topics.keys()


@pytest.mark.parametrize("piece_chars", [1, 40, 400])
def test_a_large_catalog_is_encoded_in_pieces(monkeypatch: pytest.MonkeyPatch, piece_chars: int) -> None:
    whole = encode(EXAMPLE)
    monkeypatch.setattr("ottla.storage.topics.catalog_file.PIECE_CHARS", piece_chars)
    pieces = list(encode_in_pieces(EXAMPLE, {}))
    assert b"".join(pieces) == whole
    longest_line = max(map(len, whole.splitlines(keepends=True)))
    assert max(map(len, pieces)) < piece_chars + 3 * longest_line


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_owner_can_read_the_file_from_its_first_byte(tmp_path: Path, umask: int) -> None:
    modes = []

    class Looking(OsFiles):
        def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
            file = super().open(path, create=create, truncate=truncate)
            modes.append(stat.S_IMODE(os.stat(path).st_mode))
            return file

    path, before = tmp_path / "ottla.json", stat.S_IMODE(tmp_path.stat().st_mode)
    old = os.umask(umask)
    try:
        catalog = Catalog.create(Looking(), str(tmp_path), EXAMPLE)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o644)  # set by an earlier release, or by a user: kept until the next change
        (tmp_path / "ottla.json.tmp").write_text("of a start that was killed")
        catalog.take_producer_ids()
    finally:
        os.umask(old)
    assert modes == [0o600, 0o600]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(tmp_path.stat().st_mode) == before  # the user who created the directory chose its mode
