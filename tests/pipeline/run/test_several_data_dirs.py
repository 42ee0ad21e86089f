"""Jobs over several data directories of one server, as a user names them; and the leftovers of a move between them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

import pyarrow.parquet as pq

import ottla
from ottla.pipeline import jobs
from ottla.pipeline.errors import SourceChangedError, UsageError
from ottla.pipeline.stores.store import Store
from ottla.pipeline.stores.stores import Stores, opened_store
from ottla.storage.disk import paths
from ottla.storage.disk.paths import TopicPartition
from support.broker.conversation import address, create_topic, fetch, produce, records_of
from support.broker.raw_client import RawClient

PARTITIONS = range(4)
KEYS = 3
T_0 = TopicPartition("t", 0)


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in ("a", "b")]


def named(dirs: list[Path]) -> str:
    return ",".join(map(str, dirs))


def broker_over(dirs: list[Path]) -> ottla.Broker:
    return ottla.Broker(overrides={"log.dirs": named(dirs), "log.cleaner.enable": "false"})


def fill(dirs: list[Path]) -> None:
    """Write a compacted topic over both, in which each key has three values, and stop cleanly."""
    with broker_over(dirs) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", len(PARTITIONS), cleanup_policy="compact", internal_segment_bytes="300")
        for partition in PARTITIONS:
            for value in range(3):
                for key in range(KEYS):
                    produce(client, "t", (f"{partition}-{key}", str(value) * 50), partition=partition)


def newest(dirs: list[Path]) -> dict[bytes | None, bytes | None]:
    found: dict[bytes | None, bytes | None] = {}
    with broker_over(dirs) as broker, RawClient(*address(broker)) as client:
        for partition in PARTITIONS:
            offset = 0
            while records := records_of(fetch(client, "t", offset, partition=partition)):
                found |= {key: value for _, key, value in records}
                offset = records[-1][0] + 1
    return found


EXPECTED = {f"{partition}-{key}".encode(): b"2" * 50 for partition in PARTITIONS for key in range(KEYS)}


def test_a_topic_over_two_directories_is_compacted_verified_and_read_as_one(dirs: list[Path], tmp_path: Path) -> None:
    fill(dirs)
    by_dir = [{tp.partition for tp in Store(str(each)).topic_partitions("t")} for each in dirs]
    assert all(by_dir) and set.union(*by_dir) == set(PARTITIONS)
    before = [shutil.copytree(each, tmp_path / "before" / each.name) for each in dirs]
    both = named(dirs)
    assert {each.outcome for each in jobs.plan(None, both, topic="t")} == {"planned"}
    assert {each["partition"] for each in jobs.status(both)} == set(PARTITIONS)
    staged = jobs.compact(None, both, topic="t")
    assert {each.outcome for each in staged} == {"staged"}
    installed = jobs.install(None, both)
    assert {(each.partition, each.outcome) for each in installed} == {(each, "installed") for each in PARTITIONS}
    report = jobs.verify(None, both, topic="t", against=named(before))
    report.check()
    assert {each.partition for each in report.partitions} == set(PARTITIONS)
    made = jobs.snapshot(None, both, topic="t", out=str(tmp_path / "out"))
    assert (made.keys, made.partitions) == (len(EXPECTED), len(PARTITIONS))
    table = pq.read_table(made.path)
    assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == EXPECTED
    assert newest(dirs) == EXPECTED


def test_a_directory_may_be_named_alone_and_one_with_a_comma_is_one(dirs: list[Path], tmp_path: Path) -> None:
    fill(dirs)
    assert isinstance(opened_store(str(dirs[0])), Store)
    assert isinstance(opened_store(f"{dirs[0]}, {dirs[1]}/"), Stores)
    odd = tmp_path / "x,y"
    odd.mkdir()
    assert opened_store(str(odd)).data_dir == str(odd)


def test_what_is_not_one_server_is_refused(dirs: list[Path], tmp_path: Path) -> None:
    fill(dirs)
    others = [tmp_path / "c", tmp_path / "d"]
    fill(others)
    home = next(each for each in dirs if (each / paths.CATALOG_FILE).exists())
    with pytest.raises(UsageError, match="belongs to cluster"):
        opened_store(named([dirs[1], others[0]] if home is dirs[0] else [dirs[0], others[0]]))
    with pytest.raises(UsageError, match="is not a directory"):
        opened_store(named([dirs[0], tmp_path / "nowhere"]))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match=r"ottla\.json in .* also lists .*: name all data directories"):
        opened_store(named([home, empty]))


def moved(dirs: list[Path], mark: str | None, *, is_short: bool = False) -> tuple[Path, Path]:
    """Return the directories after a power loss during an exchange: the older one, and the newer one with this marker."""
    older = next(each for each in dirs if (each / "t-0").exists()) / "t-0"
    target = next(each for each in dirs if each != older.parent)
    newer = Path(shutil.copytree(older, target / "t-0"))
    (older / paths.MOVING_FILE).write_text(f"{target}\n")
    if mark is not None:
        (newer / paths.MOVED_FILE).write_text(f"{mark}\n")
    if is_short:
        last = max(newer.glob("*.log"))
        last.write_bytes(b"")
    return older, newer


@pytest.mark.parametrize(
    "mark, is_short, takes_newer",
    [
        ("complete", False, True),
        ("complete", True, True),
        ("from 0 {older}", False, True),
        ("from 0 {older}", True, False),
    ],
)
def test_of_two_logs_the_one_is_taken_that_a_start_would_serve(
    dirs: list[Path], mark: str, is_short: bool, takes_newer: bool
) -> None:
    fill(dirs)
    older_dir = next(each for each in dirs if (each / "t-0").exists())
    older, newer = moved(dirs, mark.format(older=older_dir), is_short=is_short)
    store = opened_store(named(dirs)).store_of(T_0)
    assert store.directory_of(T_0) == str(newer if takes_newer else older)
    with broker_over(dirs) as broker:
        assert broker.inner.services.logs.logs[T_0].data_dir == store.data_dir


def test_without_a_move_two_logs_are_refused(dirs: list[Path]) -> None:
    fill(dirs)
    older, _ = moved(dirs, None)
    (older / paths.MOVING_FILE).unlink()
    with pytest.raises(UsageError, match=r"^t-0 is in both .* and .*: move the wrong one elsewhere"):
        jobs.plan(None, named(dirs), topic="t")


def test_a_log_that_may_be_newer_elsewhere_is_not_taken_alone(dirs: list[Path]) -> None:
    fill(dirs)
    older, newer = moved(dirs, "from 0 /x")
    for each in (older, newer):
        with pytest.raises(UsageError, match=r"was moving to or from .*, and may be newer there: name all data"):
            jobs.compact(None, str(each.parent), topic="t", partition=0, configs={"cleanup.policy": "compact"})


def test_a_log_in_the_midst_of_an_exchange_is_not_compacted(dirs: list[Path]) -> None:
    """The next start uses the one of the two logs that reaches further without a gap: a pass would create gaps."""
    fill(dirs)
    jobs.compact(None, named(dirs), topic="t", partition=0)
    source = next(each for each in dirs if (each / "t-0").exists())
    older, newer = moved(dirs, f"from 0 {source}")
    for each in sorted(older.glob("*.log"))[-3:]:  # acknowledged when the log continued in the newer one
        each.unlink()
    refused = pytest.raises(
        UsageError, match=r"^t-0 is in .* as well as in .*: start the server once, which finishes it$"
    )
    with refused:
        jobs.compact(None, named(dirs), topic="t", partition=0, installs=True)
    with refused:
        jobs.install(None, named(dirs), topic="t")
    assert newest(dirs) == EXPECTED
    assert newer.exists() and not older.exists()
    jobs.compact(None, named(dirs), topic="t", partition=0, installs=True)
    assert newest(dirs) == EXPECTED


def test_a_plan_of_before_a_move_is_not_in_the_way(dirs: list[Path]) -> None:
    fill(dirs)
    source = next(each for each in dirs if (each / "t-0").exists())
    target = next(each for each in dirs if each != source)
    jobs.compact(None, named(dirs), topic="t", partition=0)
    shutil.move(source / "t-0", target / "t-0")
    jobs.compact(None, named(dirs), topic="t", partition=0)
    installed = jobs.install(None, named([target, source]), topic="t")
    assert [each.outcome for each in installed] == ["installed"]
    assert newest(dirs) == EXPECTED


def test_a_log_that_moves_in_this_moment_is_refused_with_one_line(dirs: list[Path]) -> None:
    fill(dirs)
    older_dir = next(each for each in dirs if (each / "t-0").exists())
    older, _ = moved(dirs, f"from 0 {older_dir}")
    store = opened_store(named(dirs))
    store.topic_partitions("t", 0)
    shutil.rmtree(older)
    with pytest.raises(SourceChangedError, match=r"/t-0 was deleted while it was opened: it was moved to another data"):
        store.store_of(T_0)
