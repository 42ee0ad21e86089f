"""`ottla advise` over data directories on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.server.commands.cli import main
from ottla.storage.disk.checkpoints import MetaProperties, write_meta_properties
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.topics.catalog import Catalog
from ottla.storage.topics.catalog_file import CatalogState, PartitionEntry, TopicEntry
from support.logs.make_log import append, make_log

FILES = OsFiles()
BEGIN_MS, HOUR_MS, DAY_MS = 1_700_000_000_000, 3_600_000, 86_400_000
COMPACT = {"cleanup.policy": "compact"}


def make_dir(path: Path, configs: dict[str, str] | None) -> None:
    write_meta_properties(FILES, str(path), MetaProperties("c", 1, None))
    if configs is not None:
        topic = TopicEntry("t", bytes(range(16)), (PartitionEntry((0,), 0),), configs)
        Catalog.create(FILES, str(path), CatalogState("c", {"t": topic}))


def write_days(path: Path, days: int, *, partition: int = 0, every_ms: int = HOUR_MS) -> None:
    log = make_log(FILES, tp=TopicPartition("t", partition), data_dir=str(path), now_ms=BEGIN_MS)
    for number in range(days * DAY_MS // every_ms):
        pairs = [(str((number * 7 + each) % 100), "v" * 1_000) for each in range(10)]
        append(log, *pairs, timestamp=BEGIN_MS + number * every_ms)
    log.close(BEGIN_MS)
    log.release_files()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    make_dir(tmp_path, COMPACT)
    write_days(tmp_path, 3)
    return tmp_path


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main(["advise", "t", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_without_a_goal_the_costs_of_today_are_shown(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "t", "--data", str(data)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "t: 1 partitions, 732 KB, 720 records, 100 keys, 100 with a value"
    assert any(line.split() == ["old", "value,", "longest", "7.0", "d"] for line in lines)
    assert "configs" not in "".join(lines)


def test_settings_are_advised_that_reach_the_goal_and_the_line_sets_them(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = asked(capsys, "--data", str(data), "--erase-within", "24h")
    assert (code, found["is_reached"]) == (0, True)
    assert found["today"]["costs"]["superseded_longest_ms"] > 6 * DAY_MS
    assert found["nearest"]["costs"]["superseded_longest_ms"] <= DAY_MS
    assert main(["advise", "t", "--data", str(data), "--erase-within", "24h"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    settings = ",".join(f"{name}={value}" for name, value in found["nearest"]["changes"].items())
    assert last == f"kafka-configs.sh --alter --entity-type topics --entity-name t --add-config {settings}"


def test_a_goal_that_cannot_be_reached_is_refused_with_the_nearest(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = asked(capsys, "--data", str(data), "--disk-below", "50KB")
    assert (code, found["is_reached"]) == (1, False)
    assert [each.startswith("the logs grow to") for each in found["nearest"]["misses"]] == [True]
    assert found["nearest"]["costs"]["peak_bytes"] < found["today"]["costs"]["peak_bytes"]
    assert main(["advise", "t", "--data", str(data), "--disk-below", "50KB"]) == 1
    assert "No settings that were tried reach all goals" in capsys.readouterr().out


def test_partitions_are_added_and_one_without_records_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_dir(tmp_path, None)
    write_days(tmp_path, 1)
    write_days(tmp_path, 1, partition=1)
    write_days(tmp_path, 0, partition=2)
    code, found = asked(capsys, "--data", str(tmp_path))
    assert (code, [each["keys"] for each in found["logs"]]) == (0, [100, 100, 0])
    assert any("Kafka's defaults with cleanup.policy=compact are assumed" in each for each in found["notes"])
    assert "Without records, and left out: t-2." in found["notes"]


def test_silence_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_dir(tmp_path, COMPACT)
    write_days(tmp_path, 4, every_ms=2 * DAY_MS)
    _, found = asked(capsys, "--data", str(tmp_path))
    assert any("passed without a write" in each for each in found["notes"])


def test_a_topic_that_cannot_be_advised_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", "t", "--data", str(tmp_path)]) == 1
    assert "is not a data directory" in capsys.readouterr().err
    make_dir(tmp_path, {"cleanup.policy": "delete"})
    assert main(["advise", "t", "--data", str(tmp_path)]) == 1
    assert "no log found" in capsys.readouterr().err
    write_days(tmp_path, 0)
    assert main(["advise", "t", "--data", str(tmp_path)]) == 1
    assert "topic t is not compacted: cleanup.policy is delete" in capsys.readouterr().err
    other = tmp_path / "other"
    other.mkdir()
    make_dir(other, COMPACT)
    write_days(other, 0)
    assert main(["advise", "t", "--data", str(other)]) == 1
    assert "no record with a timestamp was found" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["advise", "t", "--data", str(other), "--disk-below", "50"])
