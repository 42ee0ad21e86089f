"""`ottla advise` over data directories on disk, and over the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.server.commands.cli import main
from ottla.storage.advice import topic_advice
from ottla.storage.advice.advising import CURVE_POINTS
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import MetaProperties, OffsetCheckpoint, write_meta_properties
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.topics.catalog import Catalog
from ottla.storage.topics.catalog_file import CatalogState, PartitionEntry, TopicEntry
from support.logs.make_log import append, make_log
from support.noted import each_case

FILES = OsFiles()
BEGIN_MS, HOUR_MS, DAY_MS = 1_700_000_000_000, 3_600_000, 86_400_000
NEVER_MS = 1 << 60
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


def test_the_report_is_a_page_with_a_curve_for_each_of_the_settings(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    line = ["advise", "t", "--data", str(data), "--erase-within", "24h", "--report"]
    assert main([*line, str(page)]) == 0
    shown, text = capsys.readouterr().out, page.read_text()
    assert (text.count("<polyline"), text.count("<script"), text.count("NaN")) == (2, 0, 0)
    points = re.findall(r'points="([^"]+)"', text)
    assert [len(each.split()) for each in points] == [CURVE_POINTS] * 2
    assert shown.splitlines()[-1] in text.replace("&gt;", ">")
    assert main([*line, str(tmp_path / "absent" / "page.html")]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_a_goal_that_cannot_be_reached_is_refused_with_the_nearest(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = asked(capsys, "--data", str(data), "--disk-below", "50KB")
    assert (code, found["is_reached"]) == (1, False)
    assert [each.startswith("the logs grow to") for each in found["misses"]] == [True]
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


def silent(log: Log) -> None:
    append(log, ("a", "1"), timestamp=BEGIN_MS)
    append(log, ("a", "2"), timestamp=BEGIN_MS + 7 * DAY_MS)


def with_a_clock_that_jumps(log: Log) -> None:
    append(log, ("a", "1"), timestamp=BEGIN_MS + 2 * HOUR_MS)
    append(log, ("a", "2"), ("b", "1"), timestamp=BEGIN_MS)


def with_the_future(log: Log) -> None:
    append(log, ("a", "1"), timestamp=BEGIN_MS)
    append(log, ("a", "2"), timestamp=NEVER_MS)


def without_time(log: Log) -> None:
    append(log, ("a", "1"), timestamp=BEGIN_MS)
    append(log, ("a", "2"), timestamp=-1)


def without_key(log: Log) -> None:
    append(log, ("a", "1"), (None, "2"), timestamp=BEGIN_MS)


def with_an_open_transaction(log: Log) -> None:
    append(log, ("a", "1"), timestamp=BEGIN_MS, producer_id=7, transactional=True)


def with_an_append_in_progress(log: Log) -> None:
    append(log, ("a", "1"), timestamp=BEGIN_MS)
    FILES.open(paths.log_path(log.directory, 0)).append(b"\0" * 70)


def just_cleaned(log: Log) -> None:
    for number in range(3):
        append(log, ("a", str(number)), timestamp=BEGIN_MS, roll=True)
    OffsetCheckpoint(FILES, paths.join(str(Path(log.directory).parent), paths.CLEANER_CHECKPOINT)).write(
        {log.topic_partition: 2}
    )


def of_a_moment(log: Log) -> None:
    append(log, ("a", "1"), timestamp=BEGIN_MS)


STRANGE: dict[str, tuple[Callable[[Log], None], str]] = {
    "a week of silence": (silent, "Up to 7.0 d passed without a write. A segment ends by a write"),
    "clocks that jump": (with_a_clock_that_jumps, "2 records are more than an hour older than a record before them"),
    "timestamps of the future": (with_the_future, "1 records have a timestamp more than a day ahead"),
    "records without a timestamp": (without_time, "1 records have no timestamp"),
    "records without a key": (without_key, "1 records have no key"),
    "an open transaction": (
        with_an_open_transaction,
        "1 transactions are open, the oldest of producer 7 from offset 0 on",
    ),
    "a directory in use": (with_an_append_in_progress, "70 bytes at the end of a log are not a whole batch"),
    "a log of a second": (of_a_moment, "Only 1000 ms of writes were measured. The prediction repeats them."),
    "a log that was just cleaned": (just_cleaned, "Only 1 records were written since the last clean pass"),
}


@each_case("name", STRANGE)
def test_a_sentence_says_what_a_prediction_does_not_know(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write, sentence = STRANGE[name]
    path = tmp_path / name
    path.mkdir()
    make_dir(path, COMPACT)
    any_write: dict[str, Any] = {"cleanup_policy": ("delete",), "message_timestamp_after_max_ms": NEVER_MS}
    log = make_log(FILES, tp=TopicPartition("t", 0), data_dir=str(path), now_ms=BEGIN_MS, **any_write)
    write(log)
    log.release_files()
    code, found = asked(capsys, "--data", str(path))
    assert code == 0
    assert [each for each in found["notes"] if each.startswith(sentence)], found["notes"]


def test_a_topic_of_many_partitions_is_measured_in_part(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition in range(1, 4):
        write_days(data, 3 if partition == 2 else 1, partition=partition)
    _, everything = asked(capsys, "--data", str(data))
    monkeypatch.setattr(topic_advice, "LOGS_MAX", 2)
    _, found = asked(capsys, "--data", str(data))
    assert [each["partition"] for each in found["logs"]] in ([0, 1], [0, 3], [1, 2], [2, 3])
    assert "2 of 4 partitions were measured, of all sizes. The numbers are estimates for all of them." in found["notes"]
    assert found["partitions"] == 4
    mean_bytes = everything["today"]["costs"]["mean_bytes"]
    assert found["today"]["costs"]["mean_bytes"] == pytest.approx(mean_bytes, rel=0.1)


def test_a_broker_is_measured_like_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ottla.Broker(tmp_path, overrides={"log.cleaner.backoff.ms": 10**12, "log.cleaner.threads": 2}) as broker:
        broker.create_topic("t", 1, COMPACT)
        broker.produce_all(
            "t", [ottla.NewRecord("v", key=str(number % 10), timestamp_ms=BEGIN_MS) for number in range(100)]
        )
        broker.compact("t", force=True)
        for number in range(100, 130):
            broker.produce(
                "t", None if number > 127 else "v", key=str(number % 7), timestamp_ms=BEGIN_MS + number * HOUR_MS
            )
        _, served = asked(capsys, "--bootstrap", broker.bootstrap)
        _, stored = asked(capsys, "--data", str(tmp_path))
        assert main(["advise", "t", "--bootstrap", broker.bootstrap, "--data", str(tmp_path)]) == 2
        assert main(["advise", "other", "--bootstrap", broker.bootstrap]) == 1
        assert "UNKNOWN_TOPIC_OR_PARTITION" in capsys.readouterr().err
        broker.create_topic("deleted", 1, {"cleanup.policy": "delete"})
        assert main(["advise", "deleted", "--bootstrap", broker.bootstrap]) == 1
        assert "not compacted: cleanup.policy is delete" in capsys.readouterr().err
    (one,), (other,) = served["logs"], stored["logs"]
    assert one["dirty_records"] == 30
    assert (one.pop("segments"), len(other.pop("segments"))) == ([], 2)
    assert one == other
    assert (served["cleaner"]["threads"], served["cleaner"]["backoff_ms"]) == (2, 10**12)
    assert (stored["cleaner"]["threads"], stored["cleaner"]["backoff_ms"]) == (1, 15_000)


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
    assert "cannot be simulated: it has no records" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["advise", "t", "--data", str(other), "--disk-below", "50"])
