"""A snapshot restored into a topic of a running broker: every record goes into its old partition."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")
pytest.importorskip("confluent_kafka")

import confluent_kafka
import pyarrow as pa
import pyarrow.parquet as pq

import ottla
from ottla.pipeline.cli import main
from ottla.pipeline.snapshot import partition_writer, stored_rows
from ottla.pipeline.snapshot.restore import restore
from ottla.pipeline.snapshot.stored_rows import StoredSnapshot
from ottla.pipeline.steps import Watch
from support.pipeline.stored_topic import TOPIC, stored_topic

HERE = ("--master", "none")
HERE_TOO = ("--processes", "1")
"""Options of `restore` that keep it in this process."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ottla.Broker]:
    with ottla.Broker(tmp_path_factory.mktemp("shared")) as broker:
        yield broker


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_snapshot_is_restored_into_another_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_dir, snapshot, new_dir = stored_topic(tmp_path), tmp_path / "latest", tmp_path / "new"
    assert main(["snapshot", str(data_dir), "--topic", TOPIC, "--out", str(snapshot), *HERE]) == 0
    with ottla.Broker(new_dir) as broker:
        servers = broker.bootstrap
        broker.create_topic("copy", partitions=2, configs={"retention.ms": "-1"})  # its records are old
        capsys.readouterr()
        assert main(["restore", str(snapshot), "--topic", "copy", "--bootstrap", servers, "--json", *HERE_TOO]) == 0
        assert json.loads(capsys.readouterr().out) == {"topic": "copy", "records": 6, "partitions": 2}
        assert main(["restore", str(tmp_path / "none"), "--topic", "copy", "--bootstrap", servers]) == 1
        assert "expected a snapshot, found none" in capsys.readouterr().err
        assert main(["restore", str(snapshot), "--topic", "nope", "--bootstrap", servers]) == 1
        assert "nope: expected a topic to restore into" in capsys.readouterr().err
        table = pq.read_table(snapshot)
        far = table.set_column(3, "partition", pa.array([7] * len(table), pa.int32()))
        pq.write_table(far, tmp_path / "far.parquet")
        assert main(["restore", str(tmp_path / "far.parquet"), "--topic", "copy", "--bootstrap", servers]) == 1
        assert "copy: expected partition 7, which the snapshot has, found 2 partitions" in capsys.readouterr().err
        pq.write_table(table.drop_columns(["value"]), tmp_path / "less.parquet")
        assert main(["restore", str(tmp_path / "less.parquet"), "--topic", "copy", "--bootstrap", servers]) == 1
        assert "found no value" in capsys.readouterr().err
    assert main(["read", str(new_dir), "--topic", "copy"]) == 0
    rows = lines(capsys.readouterr().out)
    assert {(row["partition"], row["key"], row["value"], row["timestampMs"]) for row in rows} == {
        (0, "c", "1", 1_000),
        (0, "z", "1", 1_000),
        (0, "d", "1", 1_000),
        (0, "a", "3", 1_000),
        (1, "a", "p1 again", 1_000),
        (1, "e", "1", 1_000),
    }
    assert [row["headers"] for row in rows if row["key"] == "c"] == [[{"key": "h", "value": "1"}]]


def test_a_missing_topic_is_created_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_dir, snapshot = stored_topic(tmp_path), tmp_path / "latest"
    assert main(["snapshot", str(data_dir), "--topic", TOPIC, "--out", str(snapshot), *HERE]) == 0
    with ottla.Broker(tmp_path / "new") as broker:
        servers = broker.bootstrap
        line = ["restore", str(snapshot), "--topic", "copy", "--bootstrap", servers]
        assert main(line) == 1
        assert "copy: expected a topic to restore into, found none (--create makes it)" in capsys.readouterr().err
        assert main([*line, "--create", "--processes", "2"]) == 0
        assert main([*line, "--create", *HERE_TOO]) == 0, "again, into the one that is there"
        assert broker.export_seed()["topics"]["copy"]["configs"] == {"cleanup.policy": "compact"}
    capsys.readouterr()
    assert main(["read", str(tmp_path / "new"), "--topic", "copy"]) == 0
    assert {row["partition"] for row in lines(capsys.readouterr().out)} == {0, 1}


def test_restore_is_available_as_a_function(tmp_path: Path) -> None:
    data_dir, snapshot = stored_topic(tmp_path), tmp_path / "latest"
    assert main(["snapshot", str(data_dir), "--topic", TOPIC, "--out", str(snapshot), *HERE]) == 0
    with ottla.Broker(tmp_path / "new") as broker:
        servers = broker.bootstrap
        broker.create_topic("copy", partitions=2, configs={"retention.ms": "-1"})  # its records are old
        assert restore(str(snapshot), "copy", servers, producer_config={"acks": "all"}).records == 6


def a_snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "one.parquet"
    columns = {"key": [b"k"], "value": [b"v"], "partition": pa.array([0], pa.int32()), "offset": [0]}
    pq.write_table(pa.table(columns | {"timestamp": pa.array([0], pa.timestamp("ms"))}), path)
    return path


@pytest.mark.parametrize(
    ("bootstrap", "code", "says"),
    [
        ("127.0.0.1:1", 6, "no broker answers at 127.0.0.1:1: Connection refused"),
        ("127.0.0.1:1,127.0.0.1:2", 6, "127.0.0.1:1: Connection refused; 127.0.0.1:2: Connection refused"),
        ("nowhere", 1, "--bootstrap: expected HOST:PORT[,…], the port from 1 to 65535, found 'nowhere'"),
        ("ü..x:9092", 1, "--bootstrap: ü..x:9092: not a valid host name: "),
        ("127.0.0.1:99999", 1, "the port from 1 to 65535, found '127.0.0.1:99999'"),
    ],
)
def test_an_unreachable_broker_is_reported_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], bootstrap: str, code: int, says: str
) -> None:
    assert main(["restore", str(a_snapshot(tmp_path)), "--topic", "t", "--bootstrap", bootstrap]) == code
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("ottla-spark: ") and says in line


def test_a_server_that_is_not_a_broker_is_one_line_after_waiting(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.pipeline.snapshot.restore.CONNECT_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        bootstrap = f"127.0.0.1:{mute.getsockname()[1]}"
        assert main(["restore", str(a_snapshot(tmp_path)), "--topic", "t", "--bootstrap", bootstrap]) == 6
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"ottla-spark: no broker answers at {bootstrap}: ")


def test_an_unknown_producer_config_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        bootstrap = f"127.0.0.1:{mute.getsockname()[1]}"
        arguments = ["restore", str(a_snapshot(tmp_path)), "--topic", "t", "--bootstrap", bootstrap]
        assert main([*arguments, "--producer-config", "zork=1"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("ottla-spark: --producer-config: ") and "zork" in line


@pytest.mark.parametrize("option", ["acks=1", "message.timeout.ms=900000", "enable.idempotence=false"])
def test_an_option_that_a_transaction_cannot_have_is_reported_before_the_topic_is_created(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, broker: ottla.Broker, option: str
) -> None:
    line = ["restore", str(a_snapshot(tmp_path)), "--topic", "none", "--bootstrap", broker.bootstrap, "--create"]
    assert main([*line, "--producer-config", option]) == 1
    assert capfd.readouterr().err.startswith("ottla-spark: --producer-config: ")
    assert "none" not in {topic.name for topic in broker.topics()}


def test_all_clients_have_the_users_options() -> None:
    options = {
        "enable.ssl.certificate.verification": "false",
        "transactional.id": "mine",
        "bootstrap.servers": "other:1",
    }
    target = partition_writer.Target("t", "here:1", options, "group")
    assert target.other_options() == {
        "enable.ssl.certificate.verification": "false",
        "bootstrap.servers": "here:1",
    }


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("key", pa.array([1]), "expected bytes in the column key, found int64"),
        ("value", pa.array([["v"]]), "expected bytes in the column value, found list<"),
        ("partition", pa.array(["0"]), "expected integers in the column partition, found string"),
        ("partition", pa.array([-1]), "expected partitions from 0 on, found -1"),
        ("timestamp", pa.array([1]), "expected timestamps in the column timestamp, found int64"),
        ("headers", pa.array([["h"]]), "expected lists of key and value in the column headers, found list<"),
    ],
)
def test_a_column_of_another_type_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], column: str, values: pa.Array, says: str
) -> None:
    path = a_snapshot(tmp_path)
    table = pq.read_table(path)
    pq.write_table(pa.table({name: table[name] for name in table.column_names} | {column: values}), path)
    assert main(["restore", str(path), "--topic", "t", "--bootstrap", "127.0.0.1:1"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"ottla-spark: {path}: {says}")


def test_a_damaged_file_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = a_snapshot(tmp_path)
    (tmp_path / "two.parquet").write_text("no Parquet")
    assert main(["restore", str(path.parent), "--topic", "t", "--bootstrap", "127.0.0.1:1"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"ottla-spark: {path.parent}: expected a snapshot, found none (")


def test_the_commands_brokers_override_those_of_an_options_file(tmp_path: Path) -> None:
    places = tmp_path / "named", tmp_path / "other"
    with ottla.Broker(places[0]) as named, ottla.Broker(places[1]) as other:
        servers, others = (broker.bootstrap for broker in (named, other))
        options = tmp_path / "options"
        options.write_text(f"bootstrap.servers={others}\n")
        options.chmod(0o600)
        line = ["restore", str(a_snapshot(tmp_path)), "--topic", "copy", "--bootstrap", servers, "--create"]
        assert main([*line, "--producer-config", f"@{options}"]) == 0
        found = [[topic.name for topic in broker.topics()] for broker in (named, other)]
    assert found == [["copy"], []]


def test_an_error_in_one_of_the_processes_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = {"key": [b"k", b"l"], "value": [b"v", bytes(2 << 20)], "partition": pa.array([0, 1], pa.int32())}
    pq.write_table(
        pa.table(rows | {"offset": [3, 4], "timestamp": pa.array([0, 0], pa.timestamp("ms"))}),
        tmp_path / "large.parquet",
    )
    with ottla.Broker(tmp_path / "new") as broker:
        line = [
            "restore",
            str(tmp_path / "large.parquet"),
            "--topic",
            "copy",
            "--bootstrap",
            broker.bootstrap,
            "--create",
        ]
        assert main([*line, "--processes", "2"]) == 6
    assert (
        capfd.readouterr().err
        == "ottla-spark: copy-1: the record of offset 4: Unable to produce message: Broker: Message size too large\n"
    )


def test_without_a_producer_the_package_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        bootstrap = f"127.0.0.1:{mute.getsockname()[1]}"
        assert main(["restore", str(a_snapshot(tmp_path)), "--topic", "t", "--bootstrap", bootstrap]) == 1
    assert capfd.readouterr().err == "ottla-spark: restore needs a producer: pip install confluent-kafka\n"


PARTITIONS, ROWS, PATIENCE_S = 3, 40, 60


@pytest.fixture
def small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_rows, "BATCH_ROWS", 3)
    monkeypatch.setattr(partition_writer, "TRANSACTION_ROWS", 6)


def a_history(directory: Path, partitions: int = PARTITIONS) -> Path:
    """Write files of rows in the order of offsets, several files a partition, keys that recur, some without a value."""
    directory.mkdir()
    for partition in range(partitions):
        for half in range(2):
            offsets = range(half * ROWS // 2, (half + 1) * ROWS // 2)
            columns = {
                "key": [f"k{offset % 7}".encode() for offset in offsets],
                "value": [None if offset % 5 == 0 else f"v{offset}".encode() for offset in offsets],
                "partition": pa.array([partition] * len(offsets), pa.int32()),
                "offset": list(offsets),
                "timestamp": pa.array(list(offsets), pa.timestamp("ms")),
                "timestampMs": [1_000 + offset for offset in offsets],
                "headers": [[{"key": "h", "value": b"1"}] if offset % 2 else [] for offset in offsets],
            }
            pq.write_table(pa.table(columns), directory / f"part-{partition * 2 + half:05}.parquet", row_group_size=7)
    return directory


def committed(servers: str, partition: int, topic: str = "copy") -> list[tuple[bytes, bytes | None, int]]:
    """Return the records of a partition that a reader of committed records gets."""
    options = {
        "bootstrap.servers": servers,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = confluent_kafka.Consumer(options)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        found: list[tuple[bytes, bytes | None, int]] = []
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"no record within {PATIENCE_S} s"
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                return found
            found.append((message.key(), message.value(), message.timestamp()[1]))
    finally:
        consumer.close()


def every_row(snapshot: Path, partition: int) -> list[tuple[bytes, bytes | None, int]]:
    rows = [row for batch in StoredSnapshot(str(snapshot)).batches() for row in batch.to_pylist()]
    return [(row["key"], row["value"], row["timestampMs"]) for row in rows if row["partition"] == partition]


@pytest.mark.usefixtures("small_transactions")
@pytest.mark.parametrize("stop_at", range(1, 3 * ROWS // 6 + 2, 4))
def test_a_restore_that_ends_at_any_transaction_continues_without_loss_or_repetition(
    tmp_path: Path, stop_at: int, broker: ottla.Broker
) -> None:
    history = a_history(tmp_path / "history")
    topic = f"copy-{stop_at}"

    class StopsWatch(Watch):
        looks = 0

        def step(self, name: str, total: int) -> Callable[[int], object]:
            def add(_number: int) -> None:
                self.looks += 1
                if self.looks == stop_at:
                    raise KeyboardInterrupt

            return add

    with suppress(KeyboardInterrupt):
        restore(str(history), topic, broker.bootstrap, creates=True, watch=StopsWatch())
    before = sum(len(committed(broker.bootstrap, partition, topic)) for partition in range(PARTITIONS))
    done = restore(str(history), topic, broker.bootstrap, resumes=True)
    assert done.records == PARTITIONS * ROWS - before and done.partitions == PARTITIONS
    for partition in range(PARTITIONS):
        assert committed(broker.bootstrap, partition, topic) == every_row(history, partition)
    assert restore(str(history), topic, broker.bootstrap, resumes=True).records == 0


@pytest.mark.usefixtures("small_transactions")
def test_a_restore_continues_at_once_after_a_kill_between_the_places_and_the_commit(
    tmp_path: Path, broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction stays open. A reader of stable places would wait until its timeout."""
    history, kept = a_history(tmp_path / "history"), []

    class Dies(confluent_kafka.Producer):  # type: ignore[misc]
        def commit_transaction(self, *_arguments: float) -> None:
            kept.append(self)
            raise KeyboardInterrupt

        def abort_transaction(self, *_arguments: float) -> None:
            pass

    with monkeypatch.context() as patch:
        patch.setattr(confluent_kafka, "Producer", Dies)
        with suppress(KeyboardInterrupt):
            restore(str(history), "open", broker.bootstrap, creates=True)
    assert len(kept) == 1
    monkeypatch.setattr(partition_writer, "TIMEOUT_S", 40.0)
    done = restore(str(history), "open", broker.bootstrap, resumes=True)
    assert done.records == PARTITIONS * ROWS
    for partition in range(PARTITIONS):
        assert committed(broker.bootstrap, partition, "open") == every_row(history, partition)


@pytest.mark.usefixtures("small_transactions")
def test_rows_of_others_also_end_a_transaction(tmp_path: Path, broker: ottla.Broker) -> None:
    """A partition with few rows among many would have a transaction open for as long as the whole file takes."""
    count = 60
    partitions = pa.array([0, *[1] * (count - 2), 0], pa.int32())
    columns = {"key": [b"k"] * count, "value": [b"v"] * count, "partition": partitions, "offset": list(range(count))}
    path = tmp_path / "mixed.parquet"
    pq.write_table(pa.table(columns | {"timestamp": pa.array([0] * count, pa.timestamp("ms"))}), path)
    steps: list[int] = []

    class Counts(Watch):
        def step(self, name: str, total: int) -> Callable[[int], object]:
            return steps.append

    assert restore(str(path), "mixed", broker.bootstrap, creates=True, watch=Counts()).records == count
    assert sum(steps) == 2 * count, "each partition's reader sees all rows"
    assert max(steps) == 6
    assert restore(str(path), "mixed", broker.bootstrap, resumes=True).records == 0
