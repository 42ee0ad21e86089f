"""`ottla dump-log` over files of every kind, whole and damaged."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.batch_builder import build_batch
from ottla.server.commands.cli import main
from ottla.server.commands.dump_log import PROBLEM, Dump
from ottla.server.groups.consumer.member import ConsumerMember
from ottla.server.groups.consumer.records import current_assignment, member_tombstones
from ottla.server.groups.records import CommittedOffset, offset_key, offset_value, write_record
from ottla.server.sharing.share_records import Change, SharePartitionKey
from ottla.server.sharing.share_records import write_record as write_state
from ottla.server.sharing.share_states import ShareStates, WrittenState
from ottla.server.sharing.state_batches import ShareStateBatch
from ottla.server.transactions.metadata import TransactionMetadata, TransactionState
from ottla.server.transactions.records import transaction_key, transaction_value
from ottla.storage.disk.checkpoints import (
    MetaProperties,
    OffsetCheckpoint,
    write_entries,
    write_meta_properties,
    write_partition_metadata,
)
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.produce.producer_snapshots import encode
from ottla.storage.produce.producer_state import BatchMetadata, ProducerState
from ottla.storage.topics.catalog import Catalog
from ottla.storage.topics.catalog_file import CatalogState, PartitionEntry, TopicEntry
from support.disk.crash_files import CrashFiles
from support.logs.batches import old_message
from support.sizes import size

LOG = "00000000000000000010.log"
INDEX = "00000000000000000010.index"
FILES = OsFiles()

FIRST = bytes(
    build_batch(
        [(10, 1000, b"k", b"v", (("h", b"x"),)), (11, 1001, None, b"\x00\xff", ())],
        codec=1,
        producer_id=7,
        producer_epoch=2,
        base_sequence=5,
        transactional=True,
    )
)
MARKER = bytes(
    build_batch(
        [(12, 1002, struct.pack(">hh", 0, 1), b"\0\0\0\0\0\0", ())],
        producer_id=7,
        producer_epoch=2,
        transactional=True,
        control=True,
    )
)
TOMBSTONE = bytes(build_batch([(13, 1003, "größe".encode(), None, ())], delete_horizon_ms=5000))
WHOLE_LOG = FIRST + MARKER + TOMBSTONE


def dumped(path: Path, *, deep: bool = False, print_data: bool = False) -> list[str]:
    lines = list(Dump(FILES, deep=deep or print_data, print_data=print_data).lines(str(path)))
    assert lines[0] == f"{path}:"
    return [line.strip() for line in lines[1:]]


def written(directory: Path, name: str, data: bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_bytes(data)
    return path


def problems(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(PROBLEM)]


# Logs


def test_batches_show_the_fields_of_their_headers(tmp_path: Path) -> None:
    first, marker, tombstone = dumped(written(tmp_path, LOG, WHOLE_LOG))
    assert first.startswith(
        f"offsets 10..11  records 2  position 0  size {len(FIRST)}  create time up to 1001  codec gzip"
    )
    assert first.endswith("producer 7 epoch 2  sequence 5..6  transactional")
    assert f"position {len(FIRST)}" in marker
    assert marker.endswith("transactional  control")
    assert tombstone.endswith("delete horizon 5000")


def test_deep_shows_records_without_their_data(tmp_path: Path) -> None:
    lines = dumped(written(tmp_path, LOG, WHOLE_LOG), deep=True)
    assert lines[1] == "offset 10  timestamp 1000  key 1 bytes  value 1 bytes  sequence 5  headers 1"
    assert lines[2] == "offset 11  timestamp 1001  key null  value 2 bytes  sequence 6"
    assert lines[4] == "offset 12  timestamp 1002  COMMIT"
    assert lines[6] == f"offset 13  timestamp 1003  key {len('größe'.encode())} bytes  value null"


def test_data_are_shown_as_text_if_they_are_text(tmp_path: Path) -> None:
    lines = dumped(written(tmp_path, LOG, WHOLE_LOG), print_data=True)
    assert lines[1].endswith("'k' = 'v'  'h': 'x'")
    assert lines[2].endswith("null = 0x00ff")
    assert lines[6].endswith("'größe' = null")


@pytest.mark.parametrize("suffix", ["", ".cleaned", ".swap", ".deleted"])
def test_log_files_with_temporary_suffixes_are_logs(tmp_path: Path, suffix: str) -> None:
    assert len(dumped(written(tmp_path, LOG + suffix, WHOLE_LOG))) == 3


def test_transactional_ids_are_read(tmp_path: Path) -> None:
    partitions = frozenset({TopicPartition("u", 0), TopicPartition("t", 1)})
    ongoing = TransactionMetadata(
        transactional_id="x",
        producer_id=7,
        producer_epoch=2,
        timeout_ms=60_000,
        state=TransactionState.ONGOING,
        partitions=partitions,
        updated_ms=5,
    )
    key = transaction_key("x")
    contents = [(key, transaction_value(ongoing, 2)), (key, None), (b"\x00\x63odd", b"x")]
    batch = build_batch([(offset, 0, *content, ()) for offset, content in enumerate(contents)])
    path = written(tmp_path / "__transaction_state-3", "00000000000000000000.log", bytes(batch))
    lines = dumped(path, print_data=True)
    assert lines[1].endswith("transactional id 'x' Ongoing  producer 7 epoch 2  timeout 60000 ms  partitions t-1, u-0")
    assert lines[2].endswith("transactional id 'x' deleted")
    assert lines[3].endswith("= 'x'")


def test_states_of_share_partitions_are_read(tmp_path: Path) -> None:
    of = SharePartitionKey("g", bytes(range(16)), 3)
    states = ShareStates(updates_per_snapshot=500)
    records: list[tuple[bytes, bytes | None]] = []
    asks: tuple[Callable[[], Change | None], ...] = (
        lambda: states.initialize(of, 4, 7, now_ms=0),
        lambda: states.write(
            of, WrittenState(4, 2, 7, 3, (ShareStateBatch(7, 9, 2, 1), ShareStateBatch(12, 12, 9, 5))), now_ms=0
        ),
        lambda: states.delete(of),
    )
    for ask in asks:
        change = ask()
        assert change is not None
        key, value = change
        states.replay(key, value, len(records))
        records.append(write_state(key, value))
    records.append((b"\x00\x63odd", b"x"))
    batch = build_batch([(offset, 0, *content, ()) for offset, content in enumerate(records)])
    lines = dumped(
        written(tmp_path / "__share_group_state-3", "00000000000000000000.log", bytes(batch)), print_data=True
    )
    who = "share group 'g' topic AAECAwQFBgcICQoLDA0ODw partition 3"
    assert lines[1].endswith(
        f"{who} snapshot 0  state epoch 4  leader epoch 0  start offset 7  delivery complete 0  batches []"
    )
    assert lines[2].endswith(
        f"{who} update of snapshot 0  leader epoch 0  start offset 7  delivery complete 3"
        "  batches [7..9 acknowledged 1, 12..12 9 5]"
    )
    assert lines[3].endswith(f"{who} deleted")
    assert lines[4].endswith("= 'x'")


def test_committed_offsets_are_read(tmp_path: Path) -> None:
    committed = CommittedOffset(42, 3, "m", 0, -1, bytes(16))
    key = offset_key("g", "t", 1)
    contents = [(key, offset_value(committed)), (key, None), (b"\x00\x63odd", b"x"), (None, b"x")]
    batch = build_batch([(offset, 0, *content, ()) for offset, content in enumerate(contents)])
    path = written(tmp_path / "__consumer_offsets-3", "00000000000000000000.log", bytes(batch))
    lines = dumped(path, print_data=True)
    assert lines[1].endswith("group 'g' is at 42 of 't' partition 1  leader epoch 3  metadata 'm'")
    assert lines[2].endswith("group 'g' forgets 't' partition 1")
    assert lines[3].endswith("= 'x'")
    assert lines[4].endswith("null = 'x'")


def test_records_of_consumer_groups_are_read(tmp_path: Path) -> None:
    member = ConsumerMember("m", epoch=3, assigned={b"\xab" * 16: {0: 2, 1: 3}})
    changes = [current_assignment("g", member), *member_tombstones("g", "m")]
    batch = build_batch([(at, 0, *write_record(*change), ()) for at, change in enumerate(changes)])
    path = written(tmp_path / "__consumer_offsets-3", "00000000000000000000.log", bytes(batch))
    lines = dumped(path, print_data=True)
    assert lines[1].endswith(
        "consumer group CurrentMemberAssignment {group_id: 'g', member_id: 'm'} {member_epoch: 3, "
        f"previous_member_epoch: -1, state: 0, assigned_partitions: [{{topic_id: {'ab' * 16}, partitions: [0, 1], "
        "assignment_epochs: [2, 3]}], partitions_pending_revocation: []}"
    )
    assert lines[4].endswith("consumer group MemberMetadata {group_id: 'g', member_id: 'm'} deleted")


def test_a_wrong_checksum_a_torn_end_and_decreasing_offsets_are_problems(tmp_path: Path) -> None:
    broken = bytearray(WHOLE_LOG)
    broken[len(FIRST) + 70] ^= 1
    lines = dumped(written(tmp_path, LOG, bytes(broken)))
    assert len(problems(lines)) == 1
    assert "CRC" in lines[-1]
    assert f"position {len(FIRST)}" in lines[-1]
    assert problems(dumped(written(tmp_path, LOG, WHOLE_LOG[:-1])))
    assert problems(dumped(written(tmp_path, LOG, TOMBSTONE + FIRST)))
    assert problems(dumped(written(tmp_path, LOG, bytes(100))))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("before", [b"", TOMBSTONE], ids=["at the beginning", "after a batch"])
def test_records_of_an_old_format_are_a_one_line_problem(tmp_path: Path, magic: int, before: bytes) -> None:
    old = old_message(magic, 14)
    lines = dumped(written(tmp_path, LOG, before + old))
    (told,) = problems(lines)
    assert f"byte {len(before)}: record format v{magic}" in told and told == lines[-1]


@settings(max_examples=size(50, 150))
@given(st.data())
def test_no_damage_crashes_the_tool(data: st.DataObject) -> None:
    broken = bytearray(WHOLE_LOG)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    files = CrashFiles()
    files.make_dir("/t-0")
    name = data.draw(st.sampled_from([LOG, INDEX, LOG.replace("log", "timeindex"), LOG.replace("log", "txnindex")]))
    file = files.open(f"/t-0/{name}", create=True)
    file.append(bytes(broken))
    file.close()
    for line in Dump(files, deep=True, print_data=True).lines(f"/t-0/{name}"):
        assert "\n" not in line


# Indexes and snapshots


def test_index_entries_are_shown_with_full_offsets(tmp_path: Path) -> None:
    index = written(tmp_path, INDEX, struct.pack(">iiii", 1, 0, 3, 100))
    assert dumped(index) == ["offset 11  position 0", "offset 13  position 100"]
    time_index = written(tmp_path, INDEX.replace("index", "timeindex"), struct.pack(">qiqi", 1000, 0, 1003, 3))
    assert dumped(time_index) == ["timestamp 1000  offset 10", "timestamp 1003  offset 13"]
    txn_index = written(tmp_path, INDEX.replace("index", "txnindex"), struct.pack(">hqqqq", 0, 7, 10, 12, 13))
    assert dumped(txn_index) == ["producer 7  aborted 10..12  last stable offset 13"]


def test_space_reserved_by_kafka_is_not_shown(tmp_path: Path) -> None:
    data = struct.pack(">ii", 1, 256) + bytes(80)
    assert dumped(written(tmp_path, INDEX, data)) == ["offset 11  position 256"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (INDEX, struct.pack(">iiii", 3, 100, 1, 0)),
        (INDEX, struct.pack(">iii", 3, 100, 1)),
        (INDEX.replace("index", "timeindex"), struct.pack(">qiqi", 1003, 3, 1000, 4)),
        (INDEX.replace("index", "txnindex"), struct.pack(">hqqqq", 5, 7, 10, 12, 13)),
        (INDEX.replace("index", "snapshot"), b"nonsense"),
        (INDEX.replace("index", "snapshot"), encode([ProducerState(7, 0)])[:-1]),
    ],
)
def test_self_contradicting_indexes_and_snapshots_are_problems(tmp_path: Path, name: str, data: bytes) -> None:
    assert problems(dumped(written(tmp_path, name, data)))


def test_deep_compares_an_index_with_its_log(tmp_path: Path) -> None:
    written(tmp_path, LOG, WHOLE_LOG)
    right = struct.pack(">ii", 2, len(FIRST))
    assert not problems(dumped(written(tmp_path, INDEX, right), deep=True))
    between = struct.pack(">ii", 2, len(FIRST) + 1)
    assert problems(dumped(written(tmp_path, INDEX, between), deep=True))
    later = struct.pack(">ii", 1, len(FIRST))
    assert problems(dumped(written(tmp_path, INDEX, later), deep=True))
    assert not problems(dumped(written(tmp_path, INDEX, later)))


def test_a_producer_snapshot_shows_its_producers(tmp_path: Path) -> None:
    batch = BatchMetadata(last_sequence=9, last_offset=20, offset_delta=4, timestamp=1000)
    states = [
        ProducerState(7, 2, last_timestamp=1000, batches=[batch]),
        ProducerState(8, 0, coordinator_epoch=3, last_timestamp=5, current_txn_first_offset=21),
    ]
    lines = dumped(written(tmp_path, INDEX.replace("index", "snapshot"), encode(states)))
    assert lines == [
        "producer 7 epoch 2  last sequence 9  offsets 16..20  timestamp 1000",
        "producer 8 epoch 0  timestamp 5  coordinator epoch 3  open transaction from 21",
    ]


# Text files


def test_text_files_are_shown(tmp_path: Path) -> None:
    directory = str(tmp_path)
    OffsetCheckpoint(FILES, f"{directory}/cleaner-offset-checkpoint").write({TopicPartition("t", 1): 5})
    write_entries(FILES, f"{directory}/leader-epoch-checkpoint", ["3 10"])
    write_partition_metadata(FILES, directory, bytes(range(16)))
    write_meta_properties(FILES, directory, MetaProperties(cluster_id="abc", node_id=4, directory_id=None))
    topic = TopicEntry("t", bytes(range(16)), (PartitionEntry((0,), 0),), {"cleanup.policy": "compact"})
    secret = {f"listener.name.a.{name}": "hunter2" for name in ("ssl.key.password", "plain.sasl.jaas.config")}
    configs = {"": {"log.retention.ms": "1"}, "2": {"max.connections": "2", "of.a.plugin": "hunter2", **secret}}
    Catalog.create(FILES, directory, CatalogState("abc", {"t": topic}, configs, 3000))
    assert dumped(tmp_path / "cleaner-offset-checkpoint") == ["t-1  offset 5"]
    assert dumped(tmp_path / "leader-epoch-checkpoint") == ["epoch 3  from offset 10"]
    assert dumped(tmp_path / "partition.metadata") == ["topic id AAECAwQFBgcICQoLDA0ODw"]
    assert dumped(tmp_path / "meta.properties") == ["cluster abc  node 4"]
    assert dumped(tmp_path / "ottla.json") == [
        "cluster abc  next producer id 3000",
        "topic t  id AAECAwQFBgcICQoLDA0ODw  partitions 1  cleanup.policy=compact",
        "all nodes  log.retention.ms=1",
        "node 2  listener.name.a.plain.sasl.jaas.config=[hidden]",
        "node 2  listener.name.a.ssl.key.password=[hidden]",
        "node 2  max.connections=2",
        "node 2  of.a.plugin=[hidden]",
    ]


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "leader-epoch-checkpoint", "partition.metadata", "ottla.json", "x.txt"]
)
def test_text_that_does_not_match_its_file_name_is_a_problem(tmp_path: Path, name: str) -> None:
    assert problems(dumped(written(tmp_path, name, b"nonsense\n")))


# The command


def command(*files: Path) -> int:
    return main(["dump-log", *map(str, files)])


def test_the_exit_code_reports_success_or_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = written(tmp_path / "good", LOG, WHOLE_LOG)
    bad = written(tmp_path / "bad", LOG, WHOLE_LOG[:-1])
    assert command(good) == 0
    assert command(bad, good) == 1
    assert command(tmp_path / "missing" / LOG, good) == 1
    shown = capsys.readouterr()
    assert f"{tmp_path / 'missing' / LOG}: no such file" in shown.err
    assert shown.out.count(f"{good}:\n") == 3


def test_json_has_an_object_for_each_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = written(tmp_path / "good", LOG, WHOLE_LOG)
    bad = written(tmp_path / "bad", LOG, WHOLE_LOG[:-1])
    assert main(["dump-log", "--json", str(good), str(bad)]) == 1
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["file"], first["is_whole"], second["file"], second["is_whole"]) == (str(good), True, str(bad), False)
    assert first["lines"] and any(line.startswith("PROBLEM") for line in second["lines"])
