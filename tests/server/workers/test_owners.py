"""What a process that was not there has missed, and what it has left when it died."""

from __future__ import annotations

import random

from ottla.server.config.static_config import static_config
from ottla.server.workers.owners import Owners, remove_deleted
from ottla.storage.data_dirs.handing import Given
from ottla.storage.disk.checkpoints import OffsetCheckpoint, write_partition_metadata
from ottla.storage.disk.paths import LOG_START_CHECKPOINT, TopicPartition
from ottla.storage.topics.catalog_file import PartitionEntry, TopicEntry
from support.disk.crash_files import CrashFiles

A = TopicPartition("a", 0)
OLD_ID, NEW_ID = bytes(range(1, 17)), bytes(range(2, 18))


def topic(topic_id: bytes) -> dict[str, TopicEntry]:
    return {"a": TopicEntry("a", topic_id, (PartitionEntry((1,), 1),))}


def made(*places: str, topic_id: bytes = OLD_ID) -> CrashFiles:
    """A disk with a directory of partition `a-0` in each of these data directories."""
    files = CrashFiles()
    for each in "/d", "/d-node-1", "/d-node-2":
        files.make_dir(each)
    for each in places:
        files.make_dir(f"{each}/a-0")
        write_partition_metadata(files, f"{each}/a-0", topic_id)
    return files


def owners(files: CrashFiles, own: int) -> Owners:
    flags = {"log.dirs": "/d,/d-node-1,/d-node-2"}
    return Owners(static_config(profile="kafka", flags=flags, nodes=3), own, files)


def left(files: CrashFiles) -> list[str]:
    return [name.rpartition("-")[2] for name in files.list("/d-node-1")]


def test_a_topic_that_was_deleted_while_its_process_was_not_there_goes() -> None:
    files = made("/d-node-1")
    remove_deleted(files, "/d-node-1", {}, random.Random(0))
    assert left(files) == ["delete"]


def test_one_that_was_made_anew_with_its_name_gets_nothing_of_it() -> None:
    files = made("/d-node-1")
    remove_deleted(files, "/d-node-1", topic(NEW_ID), random.Random(0))
    assert left(files) == ["delete"]


def test_what_is_there_still_stays_and_so_does_what_nobody_knows() -> None:
    files = made("/d-node-1")
    files.make_dir("/d-node-1/photos-1")
    remove_deleted(files, "/d-node-1", topic(OLD_ID), random.Random(0))
    assert sorted(files.list("/d-node-1")) == ["a-0", "photos-1"]


def test_nothing_is_made_where_another_process_has_it_unless_that_is_of_an_earlier_topic() -> None:
    files = made("/d-node-2")
    assert owners(files, own=1).other_dir_of(A, OLD_ID) == "/d-node-2"
    assert owners(files, own=1).other_dir_of(A, NEW_ID) is None
    assert owners(files, own=2).other_dir_of(A, OLD_ID) is None


def test_what_a_dead_process_has_left_is_to_be_recovered_from_where_its_records_begin() -> None:
    files = made("/d-node-1")
    OffsetCheckpoint(files, f"/d-node-1/{LOG_START_CHECKPOINT}").write({A: 7})
    assert owners(files, own=0).left_by(1, [A]) == [Given(A, "/d-node-1", False, 0, 7)]


def test_one_whose_taker_died_is_found_on_either_side() -> None:
    given = Given(A, "/d-node-1", True, 10, 7)
    for place in "/d-node-1", "/d-node-2":
        found = owners(made(place), own=0).where_it_lies(given, {2})
        assert found == Given(A, place, False, 0, 7)
