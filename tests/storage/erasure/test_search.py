"""Directories in which records of a topic may be, and options of the topic from the catalog."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ottla.protocol.messages.cluster_metadata import PartitionRecord, TopicRecord
from ottla.storage.data_dirs import snapshots
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import MetaProperties, OffsetCheckpoint, uuid_text, write_meta_properties
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.erasure.places import KeyReport, Verdict, Why
from ottla.storage.erasure.search import Search
from ottla.storage.steps import to_the_end
from ottla.storage.topics.catalog import Catalog
from ottla.storage.topics.catalog_file import CatalogState, PartitionEntry, TopicEntry
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch
from support.logs.make_log import append, make_log
from support.logs.metadata_log import log_of
from support.noted import each_case

ID = "0" * 32
LOG = "00000000000000000000.log"


def write(files: CrashFiles, path: str, data: bytes | bytearray) -> None:
    files.make_dir(path.rpartition("/")[0])
    file = files.open(path, create=True, truncate=True)
    file.append(data)
    file.close()


def disk(*data_dirs: str) -> CrashFiles:
    """Return a disk with data directories, each with an empty log of another topic."""
    files = CrashFiles()
    for number, each in enumerate(data_dirs or ["/d"]):
        files.make_dir(f"{each}/other-0")
        identity = MetaProperties(cluster_id="c", node_id=7, directory_id=bytes([number]) * 16)
        write_meta_properties(files, each, identity)
        write(files, f"{each}/other-0/{LOG}", batch(("a", "of another topic")))
    return files


def searched(files: CrashFiles, *sources: str, topic: str = "t", **options: Any) -> KeyReport:
    return to_the_end(Search(files, sources or ["/d"], topic, [b"a"], 5_000, **options).steps())


PLACES: list[tuple[str, Why]] = [
    (f"/d/t-0/{LOG}", Why.LIVE),
    (f"/d/t-12/{LOG}", Why.LIVE),
    (f"/d/t-0/{LOG}.deleted", Why.DELETED_FILE),
    (f"/d/t-0/{LOG}.cleaned", Why.CLEANED_FILE),
    (f"/d/t-0/{LOG}.swap", Why.SWAP_FILE),
    (f"/d/t-0.{ID}-delete/{LOG}", Why.DELETED_PARTITION),
    (f"/d/t-0.{ID}-future/{LOG}", Why.FUTURE_PARTITION),
    (f"/d/t-0.{ID}-stray/{LOG}", Why.STRAY_PARTITION),
    (f"/d/ottla-0.{ID}-delete/t-0/{LOG}", Why.DELETED_PARTITION),
    (f"/d/ottla-old-0.{ID}-delete/t-0/{LOG}", Why.DELETED_PARTITION),
    (f"/d/.ottla-next/t-0/{LOG}", Why.NEXT_CONTENT),
    (f"/d/.ottla-next-in/t-0/{LOG}", Why.NEXT_CONTENT),
    (f"/d.ottla-pipeline/plan/00000000000000000000/{LOG}", Why.STAGED),
    (f"/d.ottla-pipeline/plan/originals/{LOG}", Why.STAGED),
]


@each_case("path, why", PLACES)
def test_each_directory_of_the_topic_is_searched(path: str, why: Why) -> None:
    files = disk()
    write(files, path, batch(("a", "1")))
    write(files, "/d.ottla-pipeline/plan/plan.json", json.dumps({"topic": "t", "partition": 0}).encode())
    report = searched(files)
    assert [(each.path, each.why, each.values) for each in report.places] == [(path, why, 1)]
    assert report.unread == () and report.verdict is Verdict.HELD
    assert searched(files, topic="t2").places == ()


def test_a_deleted_partition_of_a_long_topic_has_a_shorter_name() -> None:
    files, topic = disk(), "t" * 240
    name = paths.deleted_dir_name(topic, 0, ID)
    assert topic not in name
    write(files, f"/d/{name}/{LOG}", batch(("a", "1")))
    assert [each.topic for each in searched(files, topic=topic).places] == [topic]
    assert searched(files, topic="t" * 100).places == ()


def test_files_of_a_staged_segment_hold_no_keys() -> None:
    files = disk()
    write(files, f"/d/t-0/{LOG}", batch(("b", "1")))
    for name, data in (("manifest.json", b"{}"), ("installed", b""), (LOG, batch(("b", "1")))):
        write(files, f"/d.ottla-pipeline/plan/00000000000000000000/{name}", bytes(data))
    write(files, "/d.ottla-pipeline/plan/plan.json", b'{"topic": "t", "partition": 0}')
    assert searched(files).verdict is Verdict.GONE
    write(files, "/d.ottla-pipeline/plan/plan.json", b"{")
    report = searched(files)
    assert report.verdict is Verdict.UNPROVEN and report.unread[0].path == "/d.ottla-pipeline/plan"


def test_snapshots_are_searched() -> None:
    files = disk("/d", "/e")
    write(files, f"/e/t-0/{LOG}", batch(("a", "1")))
    snapshots.save(files, ["/d", "/e"], files, "/s", ID, 0)
    report = searched(files, "/d", "/e", "/s")
    assert [(each.path, each.why) for each in report.places] == [
        (f"/e/t-0/{LOG}", Why.LIVE),
        (f"/s/1/t-0/{LOG}", Why.SNAPSHOT),
    ]


NOTHING: list[tuple[str, tuple[str, ...]]] = [
    ("a directory that does not exist", ("/nowhere",)),
    ("a directory of no broker", ("/other",)),
    ("no log of the topic", ("/d",)),
]


@each_case("name, sources", NOTHING)
def test_nothing_searched_is_no_proof(name: str, sources: tuple[str, ...]) -> None:
    files = disk()
    files.make_dir("/other")
    report = searched(files, *sources)
    assert report.verdict is Verdict.UNPROVEN and report.unread, name


def test_a_move_between_directories_during_a_search_is_noticed() -> None:
    files = disk("/d", "/e")
    write(files, f"/e/t-0/{LOG}", batch(("a", "1")))
    pauses: list[int] = []
    steps = Search(files, ["/d", "/e"], "t", [b"a"], 5_000, pause=lambda: pauses.append(1)).steps()
    next(steps)
    write(files, f"/d/t-0/{LOG}", batch(("a", "1")))
    files.rename("/e/t-0", f"/e/t-0.{ID}-delete")
    report = to_the_end(steps)
    assert pauses and report.unread == ()
    assert [(each.path, each.why) for each in report.places] == [
        (f"/d/t-0/{LOG}", Why.LIVE),
        (f"/e/t-0.{ID}-delete/{LOG}", Why.DELETED_PARTITION),
    ]


# Options and checkpoints


def with_catalog(files: CrashFiles, partitions: int = 1, **configs: str) -> None:
    entry = TopicEntry("t", bytes(range(16)), (PartitionEntry((7,), 7),) * partitions, configs)
    state = CatalogState("c", {"t": entry}, {"": {}, "7": {"log.cleaner.min.compaction.lag.ms": "90000"}})
    Catalog.create(files, "/d", state)


def test_options_and_checkpoints_of_the_directory_decide() -> None:
    files = disk()
    log = make_log(files, data_dir="/d")
    append(log, ("a", "1"), roll=True)
    append(log, ("a", "2"), roll=True)
    assert [each.why for each in searched(files).places] == [Why.NOT_CLEANED_YET, Why.LIVE]
    assert any("options of the topic" in each for each in searched(files).not_seen)
    OffsetCheckpoint(files, "/d/cleaner-offset-checkpoint").write({TopicPartition("t", 0): 2})
    assert [each.why for each in searched(files).places] == [Why.SUPERSEDED_IN_CLEAN_PART, Why.LIVE]
    OffsetCheckpoint(files, "/d/log-start-offset-checkpoint").write({TopicPartition("t", 0): 1})
    assert [each.why for each in searched(files).places] == [Why.BELOW_LOG_START, Why.LIVE]


def test_directories_of_no_broker_are_named() -> None:
    files = disk()
    write(files, f"/d/t-0/{LOG}", batch(("b", "1")))
    for number in range(12):
        write(files, f"/d/t-0.copy{number:02}/{LOG}", batch(("a", "1")))
    report = searched(files)
    assert report.verdict is Verdict.GONE
    (sentence,) = (each for each in report.not_seen if "not a broker's" in each)
    assert "/d/t-0.copy00, " in sentence and sentence.endswith("/d/t-0.copy09, ….")


def test_a_damaged_catalog_does_not_prevent_a_proof() -> None:
    files = disk()
    write(files, f"/d/t-0/{LOG}", batch(("b", "1")))
    write(files, "/d/ottla.json", b"{")
    report = searched(files)
    assert report.verdict is Verdict.GONE
    assert any("ottla.json" in each for each in report.not_seen)


OPTIONS: list[tuple[dict[str, str], Why, Callable[[KeyReport], bool]]] = [
    ({"cleanup.policy": "delete"}, Why.NOT_COMPACTED, lambda report: True),
    ({"cleanup.policy": "compact"}, Why.MIN_COMPACTION_LAG, lambda report: report.places[0].not_before_ms == 91_000),
    ({"cleanup.policy": "compact", "min.compaction.lag.ms": "0"}, Why.NOT_CLEANED_YET, lambda report: True),
]


@each_case("configs, why, is_right", OPTIONS)
def test_options_come_from_the_catalog(
    configs: dict[str, str], why: Why, is_right: Callable[[KeyReport], bool]
) -> None:
    files = disk()
    log = make_log(files, data_dir="/d")
    append(log, ("a", "1"), roll=True)
    append(log, ("a", "2"), roll=True)
    with_catalog(files, 3, **configs)
    report = searched(files)
    assert report.places[0].why is why and is_right(report)


def test_partitions_without_a_log_in_the_sources_prevent_a_proof() -> None:
    files = disk()
    append(make_log(files, data_dir="/d"), ("b", "1"))
    assert searched(files, partitions=[0]).verdict is Verdict.GONE
    report = searched(files, partitions=[0, 1])
    assert report.verdict is Verdict.UNPROVEN
    assert [each.problem for each in report.unread] == ["partitions of the topic that have no log here: 1"]
    with_catalog(files, 3)
    report = searched(files)  # a broker of Ottla may have made no directory yet
    assert report.verdict is Verdict.GONE
    assert any("no log in the sources: 1, 2." in each for each in report.not_seen)


def test_a_data_directory_of_the_broker_that_is_not_searched_prevents_a_proof() -> None:
    files = disk("/d", "/e")
    for data_dir in ("/d", "/e"):
        append(make_log(files, tp=TopicPartition("t", int(data_dir == "/e")), data_dir=data_dir), ("b", "1"))
    for number, data_dir in enumerate(("/d", "/e")):
        identity = MetaProperties("c", 7, directory_id=bytes([number]) * 16, catalog_id=bytes([0]) * 16)
        write_meta_properties(files, data_dir, identity)
    with_catalog(files, 2)
    catalog = Catalog.load(files, "/d")
    assert catalog is not None
    catalog.set_directories({uuid_text(bytes([number]) * 16): path for number, path in enumerate(("/d", "/e"))})
    assert searched(files, "/d", "/e").verdict is Verdict.GONE
    for source, absent in (("/d", "/e"), ("/e", uuid_text(bytes(16)))):
        report = searched(files, source)
        assert report.verdict is Verdict.UNPROVEN
        problem = f"data directories of the same broker that are not in the sources: {absent}"
        assert [each.problem for each in report.unread] == [problem]


def test_apache_kafka_makes_a_directory_for_each_partition() -> None:
    files = disk()
    append(make_log(files, data_dir="/d"), ("b", "1"))
    partitions = [
        PartitionRecord(topic_id=bytes([1] * 16), partition_id=number, replicas=(0,), isr=(0,), leader=0)
        for number in range(2)
    ]
    write(files, f"/d/__cluster_metadata-0/{LOG}", log_of(TopicRecord(name="t", topic_id=bytes([1] * 16)), *partitions))
    report = searched(files)
    assert report.verdict is Verdict.UNPROVEN
    assert [each.problem for each in report.unread] == ["partitions of the topic that have no log here: 1"]
    assert searched(files, partitions=[0]).verdict is Verdict.GONE
