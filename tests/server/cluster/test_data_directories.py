"""Data directories that differ from what the broker left: it serves all of them, or none, with one clear line.

Each state is met by two starts with appends in between. No acknowledged record disappears, nothing comes back, no topic loses
its configs; and when the broker refuses, not a byte has changed.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, product
from typing import Any

import pytest
import trio

from ottla.protocol.messages.cluster_metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from ottla.protocol.scram import SCRAM_SHA_512, credential_of, salted
from ottla.server.security.acls.authorizer import Authorizer
from ottla.server.security.acls.kinds import AclOperation, PatternType, Permission, ResourceType
from ottla.server.security.principal import Principal
from ottla.server.security.sasl.scram_users import ScramUsers
from ottla.server.security.tokens import Token, Tokens
from ottla.storage.disk.checkpoints import (
    MetaProperties,
    read_meta_properties,
    uuid_text,
    write_meta_properties,
    write_partition_metadata,
)
from ottla.storage.disk.health import DataDirectoryError
from support.broker.stored_broker import StoredBroker, Values
from support.disk.crash_files import CrashFiles, PowerLoss
from support.logs.batches import batch
from support.logs.metadata_log import log_of
from support.sizes import size, some

A, B, C = "/a", "/b", "/c"
OTHER_ID = bytes([9] * 16)
UNIQUE = "0123456789abcdef0123456789abcdef"
COMPACT = {"cleanup.policy": "compact"}


def write(files: CrashFiles, path: str, data: bytes | bytearray) -> None:
    files.make_dir(path.rpartition("/")[0])
    file = files.open(path, create=True, truncate=True)
    file.append(data)
    file.close()


def read(files: CrashFiles, path: str) -> bytes:
    return files.snapshot()[path]


def copy_dir(files: CrashFiles, old: str, new: str) -> None:
    files.make_dir(new)
    for path, data in files.snapshot().items():
        if path.startswith(f"{old}/"):
            write(files, new + path.removeprefix(old), data)


def move_dir(files: CrashFiles, old: str, new: str) -> None:
    copy_dir(files, old, new)
    files.remove_dir(old)


def identify(files: CrashFiles, path: str, cluster_id: str, directory_id: bytes | None) -> None:
    files.make_dir(path)
    write_meta_properties(files, path, MetaProperties(cluster_id=cluster_id, node_id=0, directory_id=directory_id))


def empty(*data_dirs: str) -> Callable[[CrashFiles], None]:
    """Return a function that makes directories empty, as unmounted ones: the mount point exists."""

    def change(files: CrashFiles) -> None:
        for data_dir in data_dirs:
            files.remove_dir(data_dir)
            files.make_dir(data_dir)

    return change


def without(*names: str) -> Callable[[CrashFiles], None]:
    def change(files: CrashFiles) -> None:
        for name in names:
            assert files.exists(name)
            (files.remove_dir if files.is_dir(name) else files.remove)(name)

    return change


def written(path: str, data: bytes = b"") -> Callable[[CrashFiles], None]:
    return lambda files: write(files, path, data)


def copied(old: str, new: str) -> Callable[[CrashFiles], None]:
    return lambda files: copy_dir(files, old, new)


def of(path: str, cluster_id: str | None = None, node_id: int = 0) -> Callable[[CrashFiles], None]:
    def change(files: CrashFiles) -> None:
        found = read_meta_properties(files, path)
        assert found is not None
        changed = MetaProperties(
            cluster_id=cluster_id or found.cluster_id, node_id=node_id, directory_id=found.directory_id
        )
        write_meta_properties(files, path, changed)

    return change


def as_before_directories_were_counted(files: CrashFiles) -> None:
    """Restore the files of an Ottla that knew neither `directories` nor `ottla.catalog`."""
    catalog = json.loads(read(files, f"{A}/ottla.json"))
    del catalog["directories"]
    write(files, f"{A}/ottla.json", json.dumps(catalog).encode())
    for path in (A, B):
        write(files, f"{path}/meta.properties", re.sub(rb"ottla.*\n", b"", read(files, f"{path}/meta.properties")))


def with_directory_given_up(files: CrashFiles) -> None:
    """Give up a directory as the error message says."""
    catalog = json.loads(read(files, f"{A}/ottla.json"))
    (given_up,) = (key for key, path in catalog["directories"].items() if path == B)
    del catalog["directories"][given_up]
    write(files, f"{A}/ottla.json", json.dumps(catalog).encode())


def then(*changes: Callable[[CrashFiles], None]) -> Callable[[CrashFiles], None]:
    def change(files: CrashFiles) -> None:
        for each in changes:
            each(files)

    return change


@dataclass(frozen=True)
class Life:
    """A data directory pair that a broker has left, and what the broker has acknowledged."""

    files: CrashFiles
    values: Values = field(default_factory=dict)

    def start(self, *data_dirs: str) -> StoredBroker:
        return StoredBroker(self.files, data_dirs or (A, B))

    def append_everywhere(self, broker: StoredBroker) -> None:
        for (topic, partition), values in self.values.items():
            value = b"%s-%d %d" % (topic.encode(), partition, len(values))
            broker.append(topic, partition, value)
            values.append(value)


@pytest.fixture
def life() -> Life:
    """Return a pair of directories: topic t has partitions 0 and 2 in A, 1 and 3 in B; u-0 is in A."""
    life = Life(CrashFiles())
    with life.start() as broker:
        broker.create("t", 4, cleanup_policy="compact")
        broker.create("u")
        life.values.update({("t", index): [] for index in range(4)} | {("u", 0): []})
        life.append_everywhere(broker)
    assert {f"{A}/t-0", f"{A}/t-2", f"{A}/u-0", f"{B}/t-1", f"{B}/t-3"} <= {
        path.rpartition("/")[0] for path in life.files.snapshot()
    }
    return life


SERVED: dict[str, tuple[Callable[[CrashFiles], None], Sequence[str]]] = {
    "as it was left": (then(), (A, B)),
    "after a kill": (without(f"{A}/.kafka_cleanshutdown", f"{B}/.kafka_cleanshutdown"), (A, B)),
    "in another order": (then(), (B, A)),
    "with an empty directory more": (then(), (A, B, C)),
    "with one more before the others, its mount point there": (empty(C), (C, A, B)),
    "one moved to another path": (lambda files: move_dir(files, B, C), (A, C)),
    "of an Ottla that did not count directories": (as_before_directories_were_counted, (A, B)),
    "of such an Ottla, with one more": (as_before_directories_were_counted, (C, A, B)),
    "with a formatted one more": (
        lambda files: identify(files, C, cluster_of(files), OTHER_ID),
        (A, B, C),
    ),
    "without the identity beside the catalog": (without(f"{A}/meta.properties"), (A, B)),
    "without a topic id": (without(f"{A}/t-0/partition.metadata"), (A, B)),
    "with a damaged topic id": (written(f"{B}/t-1/partition.metadata", b"version: 0\n"), (A, B)),
    "with the catalog's next version half written": (written(f"{A}/ottla.json.tmp", b"{"), (A, B)),
    "with folders that are no partitions": (
        then(
            written(f"{A}/backup-20251122/notes"),
            lambda files: files.make_dir(f"{B}/x-2147483647"),
            written(f"{B}/t-99/notes"),
            written(f"{A}/file-0"),
        ),
        (A, B),
    ),
    "with another's folder in the place of an absent log": (lambda files: files.make_dir(f"{B}/t-0"), (A, B)),
    "with the log of no topic": (copied(f"{A}/t-0", f"{B}/gone-7"), (A, B)),
    "with the log of a partition that there is not": (copied(f"{A}/t-0", f"{B}/t-4"), (A, B)),
    "with deleted, moving and stray ones": (
        then(*(copied(f"{A}/t-0", f"{B}/t-0.{UNIQUE}-{role}") for role in ("delete", "future", "stray"))),
        (A, B),
    ),
}


def cluster_of(files: CrashFiles) -> str:
    found = read_meta_properties(files, A)
    assert found is not None
    return found.cluster_id


@pytest.mark.parametrize(("change", "data_dirs"), SERVED.values(), ids=SERVED.keys())
def test_what_is_whole_is_served_and_stays_served(
    life: Life, change: Callable[[CrashFiles], None], data_dirs: Sequence[str]
) -> None:
    change(life.files)
    for _ in range(2):
        with life.start(*data_dirs) as broker:
            assert broker.values() == life.values
            assert broker.broker.services.cluster.catalog.topics["t"].configs == COMPACT
            life.append_everywhere(broker)
    kept = [path for path in life.files.snapshot() if "-stray/" in path and path.endswith(".log")]
    for path in kept:
        assert (
            read(life.files, path)
            == read(life.files, f"{A}/t-0/00000000000000000000.log")[: len(read(life.files, path))]
        )


REFUSED: dict[str, tuple[Callable[[CrashFiles], None], Sequence[str], str]] = {
    "a directory not mounted": (empty(B), (A, B), r"/b \(directory.id \S+\): is it mounted\?"),
    "one not there": (without(B), (A, B), r"/b \(directory.id \S+\): is it mounted\?"),
    "one not named": (then(), (A,), "/a is one of 2, but log.dirs does not contain /b; start with log.dirs=/a,/b"),
    "one not named, and no identity beside the catalog": (
        without(f"{A}/meta.properties"),
        (A,),
        "/a is one of 2, but log.dirs does not contain /b; start with log.dirs=/a,/b",
    ),
    "that of the catalog not mounted": (
        empty(A),
        (A, B),
        "/b requires the ottla.json in the directory with directory.id",
    ),
    "that of the catalog not there": (
        without(A),
        (A, B),
        "/b requires the ottla.json in the directory with directory.id",
    ),
    "that of the catalog not named": (then(), (B,), "/b requires the ottla.json in the directory with directory.id"),
    "a directory not mounted, another new": (empty(B), (A, B, C), r"/b \(directory.id \S+\): is it mounted\?"),
    "one of another cluster": (of(B, cluster_id="other"), (A, B), "/b belongs to cluster other, /a to"),
    "the catalog of another cluster": (
        then(of(A, cluster_id="other"), of(B, cluster_id="other")),
        (A, B),
        "/a belongs to cluster other, but ottla.json",
    ),
    "one of another node": (of(B, node_id=3), (A, B), "/b belongs to node 3, but node.id is 0"),
    "an identity lost": (without(f"{B}/meta.properties"), (A, B), r"/b \(directory.id \S+\): is it mounted\?"),
    "an identity damaged": (written(f"{B}/meta.properties", b"version=1\nnode.id"), (A, B), "cluster.id is missing"),
    "an identity emptied": (written(f"{B}/meta.properties"), (A, B), "version is missing"),
    "the catalog lost": (without(f"{A}/ottla.json"), (A, B), "/a: ottla.json not found"),
    "the catalog damaged": (written(f"{A}/ottla.json", b"{"), (A, B), "invalid catalog"),
    "the catalog emptied": (written(f"{A}/ottla.json"), (A, B), "invalid catalog"),
    "two catalogs": (
        lambda files: write(files, f"{B}/ottla.json", read(files, f"{A}/ottla.json")),
        (A, B),
        "ottla.json is in both /a and /b",
    ),
    "one of them copied": (copied(B, C), (A, B, C), "/b and /c have the same directory.id"),
    "a log in two of them": (copied(f"{A}/t-0", f"{B}/t-0"), (A, B), "t-0 is in both /a and /b"),
    "before directories were counted, a directory not mounted": (
        then(as_before_directories_were_counted, empty(B)),
        (A, B),
        "/a/ottla.json does not list the data directories yet, and none of log.dirs contains t-1, t-3: is a directory not mounted",
    ),
    "before directories were counted, one not named": (
        as_before_directories_were_counted,
        (A,),
        "/a/ottla.json does not list the data directories yet, and none of log.dirs contains t-1, t-3: is a directory not mounted",
    ),
    "before directories were counted, that of the catalog not mounted": (
        then(as_before_directories_were_counted, empty(A)),
        (A, B),
        "/a has no meta.properties, but /b belongs to cluster",
    ),
    "before directories were counted, that of the catalog not named": (
        as_before_directories_were_counted,
        (B,),
        "/b has neither ottla.json nor Apache Kafka's metadata log",
    ),
    "before directories were counted, the catalog lost": (
        then(as_before_directories_were_counted, without(f"{A}/ottla.json")),
        (A, B),
        "/a has neither ottla.json nor",
    ),
    "a log put aside, and no other of its partition": (
        lambda files: files.rename(f"{B}/t-1", f"{B}/t-1.{UNIQUE}-stray"),
        (A, B),
        f"t-1: only the stray directory {B}/t-1.{UNIQUE}-stray was found; rename it to t-1",
    ),
    "a file in the place of a directory": (then(without(B), written(B)), (A, B), "data directory /b"),
}
"""Name -> the change, the named directories, and the error."""


@pytest.mark.parametrize(("change", "data_dirs", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_whole_is_refused_with_one_line_and_left_as_it_is(
    life: Life, change: Callable[[CrashFiles], None], data_dirs: Sequence[str], told: str
) -> None:
    left = life.files.copy()
    change(life.files)
    before = tree(life.files)
    for _ in range(2):
        with pytest.raises(DataDirectoryError, match=told) as refused:
            life.start(*data_dirs)
        assert "\n" not in str(refused.value)
        assert tree(life.files) == before
    # Whatever it was is corrected.
    with Life(left, life.values).start() as broker:
        assert broker.values() == life.values


def tree(files: CrashFiles) -> dict[str, bytes | None]:
    """Return every file with its bytes, and the existing data directories."""
    return {**files.snapshot(), **{path: None for path in (A, B, C) if files.exists(path)}}


def test_a_disk_that_may_only_be_read_is_refused_with_one_line(life: Life) -> None:
    def read_only(operation: str, path: str, _: int) -> None:
        if path.startswith(f"{B}/"):
            raise OSError(errno.EROFS, "Read-only file system", path)

    for path in (A, B):
        life.files.remove(f"{path}/.lock")
    before = tree(life.files)
    life.files.refuse = read_only
    with pytest.raises(DataDirectoryError, match=r"^data directory /b: .*Read-only") as refused:
        life.start()
    assert "\n" not in str(refused.value)
    life.files.refuse = None
    life.files.remove(f"{A}/.lock")
    assert tree(life.files) == before


def test_the_directory_of_another_topic_is_put_aside_before_it_is_used(life: Life) -> None:
    write_partition_metadata(life.files, f"{A}/t-0", OTHER_ID)
    old = read(life.files, f"{A}/t-0/00000000000000000000.log")
    life.values["t", 0] = []
    for _ in range(2):
        with life.start() as broker:
            assert broker.values() == life.values
            life.append_everywhere(broker)
    (aside,) = (name for name in life.files.list(A) if name.endswith("-stray"))
    assert read(life.files, f"{A}/{aside}/00000000000000000000.log") == old


def test_of_an_ottla_that_did_not_count_them_one_is_given_up_by_hand(life: Life) -> None:
    as_before_directories_were_counted(life.files)
    empty(B)(life.files)
    catalog = json.loads(read(life.files, f"{A}/ottla.json"))
    write(life.files, f"{A}/ottla.json", json.dumps({**catalog, "directories": {}}).encode())
    life.values.update({("t", 1): [], ("t", 3): []})
    for _ in range(2):
        with life.start() as broker:
            assert broker.values() == life.values
            life.append_everywhere(broker)


def test_a_directory_is_given_up_by_hand_and_refused_when_it_comes_back(life: Life) -> None:
    move_dir(life.files, B, C)
    with_directory_given_up(life.files)
    life.values.update({("t", 1): [], ("t", 3): []})
    for _ in range(2):
        with life.start(A) as broker:
            assert broker.values() == life.values
            life.append_everywhere(broker)
    with pytest.raises(DataDirectoryError, match="t-1 is in both /a and /c"):
        life.start(A, C)
    with life.start(A) as broker:
        assert broker.values() == life.values


def test_without_catalog_and_identities_topics_are_made_of_the_directories(life: Life) -> None:
    without(f"{A}/ottla.json", f"{A}/meta.properties", f"{B}/meta.properties")(life.files)
    files = life.files
    files.make_dir(f"{A}/backup-20251122")
    files.make_dir(f"{B}/x-2147483647")
    for _ in range(2):
        with life.start() as broker:
            assert broker.values() == life.values
            life.append_everywhere(broker)
    assert files.list(f"{A}/backup-20251122") == files.list(f"{B}/x-2147483647") == []


def catalog_restored(life: Life) -> Callable[[], None]:
    before = read(life.files, f"{A}/ottla.json")
    return lambda: write(life.files, f"{A}/ottla.json", before)


def catalog_and_identities_lost(life: Life) -> Callable[[], None]:
    return lambda: without(f"{A}/ottla.json", f"{A}/meta.properties", f"{B}/meta.properties")(life.files)


@pytest.mark.parametrize("happens", [catalog_restored, catalog_and_identities_lost])
def test_no_producer_gets_an_id_that_a_log_knows(life: Life, happens: Callable[[Life], Callable[[], None]]) -> None:
    happen = happens(life)
    with life.start() as broker:
        given = trio.run(broker.broker.services.producer_ids.take)
        log = broker.log("t", 0)
        now_ms = broker.broker.clock.now_ms()
        log.append(memoryview(batch(("k", "old"), producer_id=given, timestamp=now_ms)), now_ms=now_ms)
    happen()
    with life.start() as broker:
        other = trio.run(broker.broker.services.producer_ids.take)
        first_batch = batch(("k", "new"), producer_id=other, timestamp=now_ms)
        assert not broker.log("t", 0).append(memoryview(first_batch), now_ms=now_ms).duplicate


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            copied("/a/t-0", "/a/t-20251122"),
            "/a/t-20251122: topic t would have 20251123 partitions, but only 5 were found",
        ),
        (copied("/a/t-0", "/a/x-2147483647"), "topic x would have 2147483648 partitions, but only 1 were found"),
        (lambda files: write_partition_metadata(files, "/b/t-1", OTHER_ID), "have different topic IDs"),
        (copied("/a/t-0", "/b/t-0"), "t-0 is in both /a and /b"),
    ],
)
def test_directories_that_cannot_be_one_topics_are_refused(
    life: Life, change: Callable[[CrashFiles], None], told: str
) -> None:
    without(f"{A}/ottla.json", f"{A}/meta.properties", f"{B}/meta.properties")(life.files)
    change(life.files)
    before = tree(life.files)
    with pytest.raises(DataDirectoryError, match=told):
        life.start()
    assert tree(life.files) == before


def test_a_folder_in_the_way_of_a_new_topic_is_kept(life: Life) -> None:
    with life.start() as broker:
        write(life.files, f"{A}/new-0/00000000000000000000.log", batch((b"k", b"not ours")))
        write(life.files, f"{B}/new-1/notes", b"precious")
        broker.create("new", 2)
        life.values.update({("new", 0): [], ("new", 1): []})
        assert broker.values() == life.values
        life.append_everywhere(broker)
    with life.start() as broker:
        assert broker.values() == life.values
    kept = {data for path, data in life.files.snapshot().items() if "-stray/" in path}
    assert kept == {bytes(batch((b"k", b"not ours"))), b"precious"}


# Apache Kafka's directories


T_ID, KAFKAS_CLUSTER = bytes([1] * 16), "kafkas"


def kafkas(*further: Any) -> Life:
    """Return two directories of Apache Kafka: the metadata log and t-0 in A, t-1 in B."""
    life = Life(CrashFiles())
    records = (
        TopicRecord(name="t", topic_id=T_ID),
        *(
            PartitionRecord(
                topic_id=T_ID,
                partition_id=index,
                replicas=(5, 0),
                isr=(0,),
                leader=0,
                leader_epoch=0,
                directories=(OTHER_ID, bytes([7, 1 + index] * 8)),
            )
            for index in range(2)
        ),
        ConfigRecord(resource_type=2, resource_name="t", name="cleanup.policy", value="compact"),
        *further,
    )
    write(life.files, f"{A}/__cluster_metadata-0/00000000000000000000.log", log_of(*records))
    for number, path in enumerate((A, B), start=1):
        identify(life.files, path, KAFKAS_CLUSTER, bytes([7, number] * 8))
    for path in (f"{A}/t-0", f"{B}/t-1"):
        write(life.files, f"{path}/00000000000000000000.log", batch((b"k", path.encode())))
        write_partition_metadata(life.files, path, T_ID)
        life.values["t", int(path[-1])] = [path.encode()]
    return life


def test_apache_kafkas_directories_are_taken_over_whole() -> None:
    life = kafkas()
    before = {path: read_meta_properties(life.files, path) for path in (A, B)}
    for _ in range(2):
        with life.start() as broker:
            assert broker.values() == life.values
            assert broker.broker.services.cluster.catalog.topics["t"].configs == COMPACT
            life.append_everywhere(broker)
    for path in (A, B):
        text = read(life.files, f"{path}/meta.properties").decode()
        assert text.startswith("version=1\ncluster.id=kafkas\nnode.id=0\ndirectory.id="), "what Apache Kafka looks for"
        found, was = read_meta_properties(life.files, path), before[path]
        assert found is not None and was is not None and found.directory_id == was.directory_id


def test_a_directory_of_a_kafka_that_gave_no_directory_ids_gets_one() -> None:
    life = kafkas()
    for path in (A, B):
        identify(life.files, path, KAFKAS_CLUSTER, None)
    for _ in range(2):
        with life.start() as broker:
            assert broker.values() == life.values
            life.append_everywhere(broker)


@pytest.mark.parametrize(
    ("change", "data_dirs", "told"),
    [
        (empty(B), (A, B), "/b has no meta.properties, but /a belongs to cluster kafkas: is it mounted"),
        (empty(A), (A, B), "/a has no meta.properties, but /b belongs to cluster kafkas: is it mounted"),
        (then(), (B,), "/b has neither ottla.json nor Apache Kafka's metadata log"),
        (then(), (A, B, C), "/c has no meta.properties"),
        (
            then(),
            (A,),
            r"data directory with directory.id BwIHAgcCBwIHAgcCBwIHAg not found, which contains t-1 according to Apache Kafka: is it",
        ),
        (
            copied(f"{A}/__cluster_metadata-0", f"{B}/__cluster_metadata-0"),
            (A, B),
            "Apache Kafka's metadata log is in both /a and /b",
        ),
    ],
)
def test_apache_kafkas_directories_that_are_not_all_there_are_refused(
    change: Callable[[CrashFiles], None], data_dirs: Sequence[str], told: str
) -> None:
    life = kafkas()
    change(life.files)
    before = tree(life.files)
    with pytest.raises(DataDirectoryError, match=told):
        life.start(*data_dirs)
    assert tree(life.files) == before


def test_what_the_metadata_log_does_not_know_is_put_aside_at_the_take_over() -> None:
    life = kafkas()
    write_partition_metadata(life.files, f"{A}/t-0", OTHER_ID)
    copy_dir(life.files, f"{B}/t-1", f"{A}/u-0")
    life.values["t", 0] = []
    for _ in range(2):
        with life.start() as broker:
            assert broker.values() == life.values
            life.append_everywhere(broker)
        if ("u", 0) not in life.values:
            with life.start() as broker:
                broker.create("u")
                life.values["u", 0] = []
                life.append_everywhere(broker)
    asides = sorted(name.partition(".")[0] for name in life.files.list(A) if name.endswith("-stray"))
    assert asides == ["t-0", "u-0"]


def test_a_feature_that_apache_kafka_has_not_finalized_does_not_come_on_with_the_take_over() -> None:
    """The directory was formatted by 3.9, or with levels of 0, or the levels were set to 0 later."""
    life = kafkas(
        FeatureLevelRecord(name="metadata.version", feature_level=25),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=0),
        ConfigRecord(resource_type=4, resource_name="0", name="min.insync.replicas", value="2"),
    )
    for _ in range(2):
        with life.start() as broker:
            config = broker.broker.config
            levels = {name: feature.level for name, feature in config.features.items()}
            assert config.node_config(0).min_insync_replicas == 2
        assert (levels["metadata.version"], levels["transaction.version"]) == (25, 2)
        others = ("group.version", "eligible.leader.replicas.version", "share.version", "streams.version")
        assert [levels[name] for name in others] == [0, 0, 0, 0]


def test_what_apache_kafkas_clients_may_holds_after_the_take_over() -> None:
    salted_password, salt = salted(SCRAM_SHA_512, "secret", b"salt", 4_096), b"salt"
    credential = credential_of(SCRAM_SHA_512, salted_password, salt, 4_096)
    alice = Principal("User", "alice")
    life = kafkas(
        AccessControlEntryRecord(
            id=T_ID,
            resource_type=ResourceType.TOPIC,
            resource_name="t",
            pattern_type=PatternType.PREFIXED,
            principal="User:alice",
            host="*",
            operation=AclOperation.WRITE,
            permission_type=Permission.DENY,
        ),
        UserScramCredentialRecord(
            name="alice",
            mechanism=2,
            salt=salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=4_096,
        ),
        DelegationTokenRecord(
            token_id="token",
            owner="User:alice",
            requester="User:bob",
            renewers=("User:carol",),
            issue_timestamp=1,
            expiration_timestamp=2,
            max_timestamp=3,
        ),
        ClientQuotaRecord(
            entity=(EntityData(entity_type="user", entity_name="alice"),),
            key="producer_byte_rate",
            value=1_024.0,
        ),
    )
    for _ in range(2):
        with life.start() as broker:
            catalog = broker.broker.services.cluster.catalog
            authorizer, users, tokens = Authorizer(allow_if_no_acl=True), ScramUsers(), Tokens("key")
            assert authorizer.load(catalog.entries("acls")) == []
            assert users.load(catalog.entries("scram_users")) == []
            assert tokens.load(catalog.entries("delegation_tokens")) == []
            assert not authorizer.allows(alice, "127.0.0.1", AclOperation.WRITE, ResourceType.TOPIC, "topic")
            assert authorizer.allows(alice, "127.0.0.1", AclOperation.READ, ResourceType.GROUP, "group")
            assert users.credentials_of("alice") == {SCRAM_SHA_512: credential}
            assert tokens.all() == [
                Token("token", alice, Principal("User", "bob"), (Principal("User", "carol"),), 1, 2, 3)
            ]
            quotas = broker.broker.quotas.quotas
            assert {str(entity): dict(of) for entity, of in quotas.items()} == {
                "user=alice": {"producer_byte_rate": 1_024.0}
            }


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (AccessControlEntryRecord(operation=99, permission_type=Permission.DENY), "99 is not a valid AclOperation"),
        (UserScramCredentialRecord(name="alice", mechanism=3), "unknown SCRAM mechanism 3"),
        (DelegationTokenRecord(owner="alice"), "'alice': invalid principal"),
    ],
)
def test_rights_that_are_not_known_are_not_passed_over_at_the_take_over(record: Any, told: str) -> None:
    life = kafkas(record)
    before = tree(life.files)
    with pytest.raises(DataDirectoryError, match=f"^Apache Kafka's metadata in /a: {told}"):
        life.start()
    assert tree(life.files) == before


# Interrupted starts


def empty_store() -> Life:
    return Life(CrashFiles())


def bare_partitions() -> Life:
    """Return partition directories alone, with a gap."""
    life = Life(CrashFiles())
    for path, index in ((A, 0), (B, 2)):
        write(life.files, f"{path}/t-{index}/00000000000000000000.log", batch((b"k", b"v")))
        life.values["t", index] = [b"v"]
    life.values["t", 1] = []
    return life


def uncounted() -> Life:
    life = Life(CrashFiles())
    with life.start() as broker:
        broker.create("t", 2, cleanup_policy="compact")
        life.values.update({("t", 0): [], ("t", 1): []})
        life.append_everywhere(broker)
    as_before_directories_were_counted(life.files)
    return life


def formatted() -> Life:
    life = Life(CrashFiles())
    life.files.make_dir(A)
    identify(life.files, B, "c", OTHER_ID)
    return life


ENDS_BY = ("kill", "power loss")
IN_TURNS = [((A, B), "power loss"), ((B, A), "kill")]


@pytest.mark.parametrize(("data_dirs", "ends_by"), size(IN_TURNS, [*product(((A, B), (B, A)), ENDS_BY)]))
@pytest.mark.parametrize("made", [empty_store, bare_partitions, uncounted, formatted, kafkas])
def test_a_first_start_that_is_cut_off_anywhere_needs_nobodys_hand(
    made: Callable[[], Life], data_dirs: Sequence[str], ends_by: str
) -> None:
    start, seen = made(), set[int]()
    at, is_whole = 0, False
    while not is_whole:
        files = start.files.copy(fail_at=at)
        try:
            StoredBroker(files, data_dirs)
            is_whole = True
        except PowerLoss:
            at += size(2, 1)
        left = [files.copy()] if ends_by == "kill" else files.after_crash(ordered=True, seen=seen, one_in=size(48, 1))
        for disk in left:
            life = Life(disk, {key: list(values) for key, values in start.values.items()})
            with life.start(*data_dirs) as broker:
                assert broker.values() == life.values
                life.append_everywhere(broker)
            if at % size(4, 1) == 0:
                with life.start(*data_dirs) as broker:
                    assert broker.values() == life.values
    assert at > 5


def test_adding_a_directory_is_cut_off_anywhere(life: Life) -> None:
    at, is_whole = 0, False
    while not is_whole:
        files = life.files.copy(fail_at=at)
        try:
            StoredBroker(files, (C, A, B))
            is_whole = True
        except PowerLoss:
            at += 1
        then_named = ((C, A, B), (A, B))
        for data_dirs in size(then_named[at % 2 :][:1], then_named):
            after = Life(files.copy(), life.values)
            listed = json.loads(read(after.files, f"{A}/ottla.json"))["directories"].values()
            if C in listed and C not in data_dirs:
                with pytest.raises(DataDirectoryError, match=r"start with log\.dirs=/a,/b,/c"):
                    after.start(*data_dirs)
            else:
                with after.start(*data_dirs) as broker:
                    assert broker.values() == life.values
    assert at > 5


def test_meta_properties_name_the_directory_of_the_catalog(life: Life) -> None:
    found = [read_meta_properties(life.files, path) for path in (A, B)]
    assert found[0] is not None and found[1] is not None and found[0].directory_id is not None
    assert found[0].catalog_id == found[1].catalog_id == found[0].directory_id
    listed = json.loads(read(life.files, f"{A}/ottla.json"))["directories"]
    assert [listed.pop(uuid_text(each.directory_id)) for each in found if each and each.directory_id] == [A, B]
    assert not listed


# Directories of nodes with a process each: `DATA-node-1` next to `DATA`, and so on. An earlier Ottla made them (`--workers`).

DATA = "/srv/data"


@dataclass(frozen=True)
class Left:
    """The directories of such an Ottla."""

    files: CrashFiles
    data_dirs: tuple[str, ...]
    values: Values = field(default_factory=dict)


def left_by(nodes: int, *, killed: bool) -> Left:
    """Return such directories. Partition i of each topic is in that of node i modulo `nodes`; internal topics are in the first.

    Node 1 has missed that `gone` was deleted, and that `again` was deleted and created again.
    """
    left = Left(CrashFiles(), (DATA, *(f"{DATA}-node-{node_id}" for node_id in range(1, nodes))))
    files = left.files
    with StoredBroker(files, left.data_dirs) as broker:
        for name in "t", "gone", "again":
            broker.create(name, 2 * nodes)
            for partition in range(2 * nodes):
                values = [b"%s-%d %d" % (name.encode(), partition, number) for number in range(3)]
                for value in values:
                    broker.append(name, partition, value)
                if name == "t":
                    left.values[name, partition] = values
    place(left, "t", "gone", "again")
    missed = [f"{left.data_dirs[1]}/{name}-1" for name in ("gone", "again")]
    for path in missed:
        files.rename(path, f"{path}.kept")
    with StoredBroker(files, left.data_dirs, seed=1) as broker:
        broker.delete("gone")
        broker.delete("again")
        broker.create("again", 2)
        for partition in range(2):
            broker.append("again", partition, b"new")
            left.values["again", partition] = [b"new"]
    for data_dir in left.data_dirs:  # The logs of the new topic are the first node's.
        for name in "again-0", "again-1":
            if data_dir != DATA and files.exists(f"{data_dir}/{name}"):
                files.rename(f"{data_dir}/{name}", f"{DATA}/{name}")
    for path in missed:
        files.rename(f"{path}.kept", path)
    if killed:
        for data_dir in left.data_dirs:
            files.remove(f"{data_dir}/.kafka_cleanshutdown")
    return left


def place(left: Left, *names: str) -> None:
    """Put each log where its node looked for it."""
    for name in names:
        for partition in range(2 * len(left.data_dirs)):
            target = f"{left.data_dirs[partition % len(left.data_dirs)]}/{name}-{partition}"
            (found,) = (path for each in left.data_dirs if left.files.exists(path := f"{each}/{name}-{partition}"))
            if found != target:
                left.files.rename(found, target)


SOME = [
    (nodes, chosen)
    for nodes in (2, 3)
    for chosen in chain.from_iterable(combinations(range(nodes), count) for count in range(1, nodes))
]
"""The number of nodes, and those whose directories are named."""


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize(("nodes", "chosen"), some(SOME, 3))
def test_a_start_that_names_some_of_them_is_told_how_to_name_all(
    nodes: int, chosen: tuple[int, ...], killed: bool
) -> None:
    left = left_by(nodes, killed=killed)
    named, before = [left.data_dirs[index] for index in chosen], left.files.snapshot()
    with pytest.raises(DataDirectoryError) as refused:
        StoredBroker(left.files, named)
    assert left.files.snapshot() == before
    unnamed = [each for each in left.data_dirs if each not in named]
    line = (
        f"data directory {named[0]} is one of {nodes}, but log.dirs does not contain {', '.join(unnamed)}; start with"
        " log.dirs="
    )
    assert str(refused.value) == line + ",".join(left.data_dirs)
    told = str(refused.value).removeprefix(line).split(",")
    for _ in range(2):
        with StoredBroker(left.files, told) as broker:
            assert broker.values() == left.values
            for name, partition in left.values:
                broker.append(name, partition, b"later")
                left.values[name, partition].append(b"later")


def test_all_of_them_may_have_been_moved_together() -> None:
    left = left_by(2, killed=True)
    for path in left.data_dirs:
        left.files.make_dir("/mnt")
        left.files.rename(path, path.replace("/srv", "/mnt"))
    for named, other in (("/mnt/data", "/mnt/data-node-1"), ("/mnt/data-node-1", "/mnt/data")):
        with pytest.raises(
            DataDirectoryError, match=re.escape(f"does not contain {other}; start with log.dirs=/mnt/data,")
        ):
            StoredBroker(left.files, [named])
    with StoredBroker(left.files, ["/mnt/data", "/mnt/data-node-1"]) as broker:
        assert broker.values() == left.values


ELSEWHERE = {
    "of the first": (DATA, "/copies/data", "lists a data directory that is not in log.dirs: /srv/data-node-1 "),
    "of another": (
        f"{DATA}-node-1",
        "/copies/data-node-1",
        "requires the ottla.json in the directory with directory.id",
    ),
}


@pytest.mark.parametrize(("path", "copy", "told"), ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_a_copy_of_one_is_not_completed_by_the_originals(path: str, copy: str, told: str) -> None:
    left = left_by(2, killed=False)
    left.files.make_dir("/copies")
    left.files.rename(path, copy)
    with pytest.raises(DataDirectoryError, match=told) as refused:
        StoredBroker(left.files, [copy])
    assert "start with" not in str(refused.value)


def test_a_directory_of_that_name_which_is_another_brokers_is_not_asked_for() -> None:
    left = left_by(2, killed=False)
    with StoredBroker(left.files, ["/srv/data-node-1-node-1"]) as broker:
        broker.create("u")
    with StoredBroker(left.files, ["/srv/data-node-1-node-1"]) as broker:
        assert broker.values() == {("u", 0): []}
