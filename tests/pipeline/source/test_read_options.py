"""Options as texts: their meanings, refusals, and the offsets of partitions that they select."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.pipeline.errors import UsageError
from ottla.pipeline.source.read_options import EARLIEST, LATEST, ReadOptions, parse_options
from ottla.pipeline.source.reading import LogReader, offset_range, partitions_of
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from support.logs.make_log import Producer, append, make_log
from support.noted import each_case

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b-c", 0)


def test_defaults_equal_those_of_kafkas_connector() -> None:
    assert parse_options({"path": "/data"}) == ReadOptions(path="/data")
    assert not ReadOptions(path="/data").is_committed
    assert not ReadOptions(path="/data").drops_malformed


def test_names_and_values_are_case_insensitive() -> None:
    texts = {
        "PATH": "/data",
        "topic": "a,b-c",
        "partition": "0,2",
        "startingoffsets": "Earliest",
        "endingOffsets": json.dumps({"a": {"0": 5, "1": -1}}),
        "startingTimestamp": "17",
        "endingTimestamp": "18",
        "startingOffsetsByTimestamp": json.dumps({"a": {"0": 19}}),
        "endingOffsetsByTimestamp": json.dumps({"a": {"1": 20}}),
        "startingOffsetsByTimestampStrategy": "LATEST",
        "includeHeaders": "TRUE",
        "includeBatchColumns": "true",
        "isolationLevel": "READ_COMMITTED",
        "mode": "dropMalformed",
        "failOnDataLoss": "false",
        "pushdown": "true",
        "maxPartitionBytes": "1000",
        "maxOffsetsPerTrigger": "9",
    }
    assert parse_options(texts) == ReadOptions(
        path="/data",
        topics=frozenset({"a", "b-c"}),
        partitions=frozenset({0, 2}),
        starting_offsets=EARLIEST,
        ending_offsets={A0: 5, A1: LATEST},
        starting_timestamp_ms=17,
        ending_timestamp_ms=18,
        starting_timestamps_ms={A0: 19},
        ending_timestamps_ms={A1: 20},
        starting_strategy="latest",
        include_headers=True,
        include_batch_columns=True,
        isolation_level="read_committed",
        mode="DROPMALFORMED",
        fail_on_data_loss=False,
        pushdown=True,
        max_partition_bytes=1000,
        max_offsets_per_trigger=9,
    )


@each_case(
    "name, text, why",
    [
        (
            "startingOfsets",
            "a",
            "unknown option startingOfsets, did you mean startingOffsets?; options are path, topic, ",
        ),
        ("subscribe", "a", "unknown option subscribe, did you mean topic?; options are "),
        ("colour", "a", "unknown option colour; options are "),
        ("partition", "x", "option partition: expected numbers separated by commas, found 'x'"),
        ("startingOffsets", "newest", "option startingOffsets: expected earliest, latest, or"),
        ("startingOffsets", "[1]", "option startingOffsets: expected"),
        ("startingOffsets", '{"a": {"0": -3}}', "option startingOffsets: expected"),
        ("endingOffsets", "earliest", "option endingOffsets cannot be earliest"),
        ("includeHeaders", "yes", "option includeHeaders: expected true or false, found 'yes'"),
        ("isolationLevel", "serializable", "option isolationLevel: expected read_uncommitted or read_committed"),
        ("mode", "PERMISSIVE", "option mode: expected FAILFAST or DROPMALFORMED"),
        ("maxPartitionBytes", "0", "option maxPartitionBytes: expected a number of bytes"),
        (
            "startingOffsetsByTimestampStrategy",
            "earliest",
            "option startingOffsetsByTimestampStrategy: expected error or",
        ),
        ("startingOffsetsByTimestamp", "17", "option startingOffsetsByTimestamp: expected {"),
        ("startingTimestamp", "today", "option startingTimestamp: expected Unix milliseconds"),
    ],
)
def test_invalid_options_are_refused(name: str, text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_options({"path": "/data", name: text})
    assert str(refused.value).startswith(why)


def test_without_a_path_the_read_is_refused() -> None:
    with pytest.raises(UsageError, match="option path is missing"):
        parse_options({})


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Return a directory of three partitions.

    Partition `a-0` has offsets 0 to 30, of which the last ten belong to an open transaction.
    """
    for tp in (A0, A1, B0):
        log = make_log(OsFiles(), tp=tp, data_dir=str(tmp_path))
        for number in range(20):
            append(log, ("k", str(number)), timestamp=1_000 + 10 * number, roll=number == 9)
        producer = Producer(log, 7, transactional=True, now_ms=2_000)
        for number in range(10 if tp == A0 else 0):
            producer.write(str(number))
        log.close(0)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, [A0, A1, B0]),
        ({"topic": "a"}, [A0, A1]),
        ({"topic": "b-c,a", "partition": "0"}, [A0, B0]),
        ({"partition": "1"}, [A1]),
    ],
)
def test_partitions_are_chosen_by_topic_and_number(
    data_dir: Path, options: dict[str, str], found: list[TopicPartition]
) -> None:
    assert partitions_of(parse_options({"path": str(data_dir), **options}))[1] == found


def test_a_partitions_own_directory_is_a_valid_path(data_dir: Path) -> None:
    assert partitions_of(parse_options({"path": f"{data_dir}/b-c-0/"}))[1] == [B0]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"topic": "a,x"}, "has no log of x$"),
        ({"topic": "a,b-d"}, "has no log of b-d, did you mean b-c[?]$"),
        ({"topic": "b-c", "partition": "0,1"}, "has no partition 1 of the requested topics"),
        (
            {"topic": "a", "startingOffsets": '{"b-c": {"0": 1}}'},
            "an offset or time is given for b-c-0, which is not read",
        ),
    ],
)
def test_missing_topics_and_partitions_are_refused(data_dir: Path, options: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        partitions_of(parse_options({"path": str(data_dir), **options}))


def test_a_directory_that_is_not_a_data_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no partition directories: it is not a data directory"):
        partitions_of(parse_options({"path": str(tmp_path)}))
    with pytest.raises(UsageError, match="is not a directory"):
        partitions_of(parse_options({"path": str(tmp_path / "nope")}))


COMMITTED = {"isolationLevel": "read_committed"}
LENIENT = {"failOnDataLoss": "false"}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, (0, 30)),
        (COMMITTED, (0, 20)),
        ({"startingOffsets": '{"a": {"0": 7}}', "endingOffsets": '{"a": {"0": 9}}'}, (7, 9)),
        ({"startingOffsets": '{"a": {"0": -2}}', "endingOffsets": '{"a": {"0": -1}}'}, (0, 30)),
        ({"startingOffsets": "latest"}, (30, 30)),
        ({"startingOffsets": '{"a": {"0": 9}}', "endingOffsets": '{"a": {"0": 7}}'}, (9, 9)),
        ({"startingTimestamp": "1095", "endingTimestamp": "1120"}, (10, 12)),
        ({"startingTimestamp": "1095", "startingOffsets": '{"a": {"0": 1}}'}, (10, 30)),
        ({"startingTimestamp": "9999", "startingOffsetsByTimestampStrategy": "latest"}, (30, 30)),
        ({"startingOffsetsByTimestamp": '{"a": {"0": 1095}}', "endingTimestamp": "1120"}, (10, 12)),
        ({"startingOffsetsByTimestamp": '{"a": {"0": 0}}', "startingTimestamp": "1095"}, (10, 30)),
        ({"endingOffsetsByTimestamp": '{"a": {"0": 1120}}', "endingOffsets": '{"a": {"0": 3}}'}, (0, 12)),
        ({"endingTimestamp": "9999"}, (0, 30)),
        ({"endingTimestamp": "2000", **COMMITTED}, (0, 20)),
        ({"startingOffsets": '{"a": {"0": 31}}', **LENIENT}, (30, 30)),
        ({"endingOffsets": '{"a": {"0": 31}}', **LENIENT}, (0, 30)),
    ],
)
def test_offset_ranges_select_records(data_dir: Path, options: dict[str, str], found: tuple[int, int]) -> None:
    parsed = parse_options({"path": str(data_dir), "topic": "a", "partition": "0", **options})
    store, (tp,) = partitions_of(parsed)
    with LogReader(store, committed=parsed.is_committed).opened(tp) as log:
        assert offset_range(parsed, log) == found


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"startingOffsets": '{"a": {"0": 31}}'},
            "startingOffsets: offset 31 of a-0 is outside the readable range 0 to 30",
        ),
        (
            {"endingOffsets": '{"a": {"0": 31}}'},
            "endingOffsets: offset 31 of a-0 is outside the readable range 0 to 30",
        ),
        ({"endingOffsets": '{"a": {"0": 21}}', **COMMITTED}, "is outside the readable range 0 to 20"),
        ({"startingOffsets": "{}"}, "option startingOffsets has no entry for a-0"),
        ({"startingOffsetsByTimestamp": "{}"}, "option startingOffsetsByTimestamp has no entry for a-0"),
        ({"startingTimestamp": "9999"}, "a-0 has no record from timestamp 9999 on"),
    ],
)
def test_offsets_outside_the_log_are_refused(data_dir: Path, options: dict[str, str], why: str) -> None:
    parsed = parse_options({"path": str(data_dir), "topic": "a", "partition": "0", **options})
    store, (tp,) = partitions_of(parsed)
    with LogReader(store, committed=parsed.is_committed).opened(tp) as log, pytest.raises(UsageError, match=why):
        offset_range(parsed, log)


def whole_range(data_dir: Path) -> tuple[int, int]:
    options = parse_options({"path": str(data_dir)})
    with LogReader(partitions_of(options)[0], committed=False).opened(A0) as log:
        return offset_range(options, log)


def test_checkpoints_bound_the_read_range(data_dir: Path) -> None:
    """In a directory of Apache Kafka the bound is the high watermark: records above may never have been acknowledged."""
    OffsetCheckpoint(OsFiles(), f"{data_dir}/log-start-offset-checkpoint").write({A0: 12})
    assert whole_range(data_dir) == (12, 30)
    OffsetCheckpoint(OsFiles(), f"{data_dir}/replication-offset-checkpoint").write({A0: 25})
    assert whole_range(data_dir) == (12, 25)
    (data_dir / "ottla.json").write_text("{}")
    assert whole_range(data_dir) == (12, 30), "Ottla commits what it has written"
