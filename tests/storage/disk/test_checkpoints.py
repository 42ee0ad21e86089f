import errno
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.disk import checkpoints, paths
from ottla.storage.disk.checkpoints import CorruptCheckpointError, MetaProperties, OffsetCheckpoint
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.segment.leader_epochs import UNDEFINED, LeaderEpochs
from support.disk.crash_files import CrashFiles, power_losses
from support.noted import each_case

TOPIC_ID = bytes(range(16))
TOPIC_ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"


def disk_with(path: str, content: bytes) -> CrashFiles:
    files = CrashFiles()
    files.make_dir(paths.parent(path))
    files.open(path, create=True).append(content)
    files.sync_all()
    return files


# Writing safely


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("old", [None, b"old"], ids=["new file", "replaced file"])
def test_a_power_loss_during_the_write_leaves_old_or_new_content(old: bytes | None, ordered: bool) -> None:
    files = CrashFiles() if old is None else disk_with("d/x", old)
    files.make_dir("d")
    files.sync_all()
    found = {
        after.snapshot().get("/d/x")
        for after in power_losses(
            lambda f: checkpoints.write_atomically(f, "d/x", "new content"), files, ordered=ordered, every_cut=True
        )
    }
    assert found == {old, b"new content"}


def test_a_written_checkpoint_is_on_disk_on_return() -> None:
    files = disk_with("d/x", b"old")
    checkpoints.write_atomically(files, "d/x", b"new")
    assert [after.snapshot() for after in files.after_crash(ordered=False)] == [{"/d/x": b"new"}]


def test_a_leftover_temporary_file_does_not_change_the_new_content() -> None:
    files = disk_with("d/x.tmp", b"much longer leftovers")
    checkpoints.write_atomically(files, "d/x", "new")
    assert files.snapshot() == {"/d/x": b"new"}


@pytest.mark.parametrize("operation", ["create", "append", "sync", "rename"])
def test_a_refused_write_keeps_the_old_content(operation: str) -> None:
    def refuse(kind: str, path: str, added_bytes: int) -> None:
        if kind == operation:
            raise OSError(f"no {kind}")

    files = disk_with("d/x", b"old")
    files.refuse = refuse
    with pytest.raises(OSError, match=f"no {operation}"):
        checkpoints.write_atomically(files, "d/x", "new")
    assert files.snapshot()["/d/x"] == b"old"


# Offset checkpoints

offsets = st.dictionaries(
    st.builds(
        TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, paths.PARTITION_MAX)
    ),
    st.integers(0, paths.OFFSET_MAX),
    max_size=20,
)


@pytest.mark.scenario(196)
@given(offsets)
def test_an_offset_checkpoint_reads_back(expected: dict[TopicPartition, int]) -> None:
    checkpoint = OffsetCheckpoint(CrashFiles(), "recovery-point-offset-checkpoint")
    checkpoint.write(expected)
    assert checkpoint.read() == expected


def test_an_offset_checkpoint_has_kafkas_text() -> None:
    files = CrashFiles()
    OffsetCheckpoint(files, "x").write({TopicPartition("orders", 0): 4711, TopicPartition("b", 12): 0})
    assert files.snapshot() == {"/x": b"0\n2\norders 0 4711\nb 12 0\n"}


@pytest.mark.scenario(196)
@pytest.mark.parametrize("content", [None, b"", b"0\n0\n", b"0\n0"])
def test_a_missing_or_empty_checkpoint_has_no_entries(content: bytes | None) -> None:
    files = CrashFiles() if content is None else disk_with("x", content)
    assert OffsetCheckpoint(files, "x").read() == {}


def test_a_checkpoint_without_a_last_line_end_reads() -> None:
    assert OffsetCheckpoint(disk_with("x", b"0\n1\na 0 5"), "x").read() == {TopicPartition("a", 0): 5}


@pytest.mark.scenario(196)
@each_case(
    "content, line",
    [
        (b"1\n0\n", 1),
        (b"\n0\n", 1),
        (b"x\n0\n", 1),
        (b"0\n", 2),
        (b"0\nmany\n", 2),
        (b"0\n2\na 0 5\n", 2),
        (b"0\n1\na 0 5\nb 0 5\n", 2),
        (b"0\n-1\n", 2),
        (b"0\n1\na 0\n", 3),
        (b"0\n1\na 0 5 6\n", 3),
        (b"0\n1\n\n", 3),
        (b"0\n2\na 0 5\na zero 5\n", 4),
        (b"0\n1\na 0 five\n", 3),
        (b"0\n1\na 0 5.0\n", 3),
        (b"0\n1\na 0 -5\n", 3),
        (b"0\n1\na -1 5\n", 3),
        (b"0\n1\na 2147483648 5\n", 3),
        (b"0\n1\na 0 9223372036854775808\n", 3),
        (b"0\n1\na 0 " + b"9" * 5000 + b"\n", 3),
        ("0\n1\na 0 ٤\n".encode(), 3),
        (b"0\n1\na 0 \xff\n", 3),
        (b"\0\0\0\0", 1),
    ],
)
def test_a_malformed_checkpoint_is_an_error_with_file_and_line(content: bytes, line: int) -> None:
    checkpoint = OffsetCheckpoint(disk_with("d/x", content), "d/x")
    with pytest.raises(CorruptCheckpointError, match=rf"^d/x, line {line}: ") as error:
        checkpoint.read()
    assert isinstance(error.value, OSError)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_checkpoint_or_an_error(content: bytes) -> None:
    with suppress(CorruptCheckpointError):
        OffsetCheckpoint(disk_with("x", content), "x").read()


def test_a_huge_checkpoint_is_refused_without_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "CHECKPOINT_BYTES_MAX", 10)
    with pytest.raises(CorruptCheckpointError, match="too large \\(11 bytes, limit 10\\)"):
        OffsetCheckpoint(disk_with("x", b"0\n1\naa 0 5\n"), "x").read()


# Topic ids


@given(st.binary(min_size=16, max_size=16))
def test_an_id_reads_back_from_its_text(uuid: bytes) -> None:
    text = checkpoints.uuid_text(uuid)
    assert len(text) == 22
    assert checkpoints.parse_uuid(text) == uuid


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "!", "A" * 21 + "+", "A" * 20 + "==", "é" * 22])
def test_invalid_texts_are_not_ids(text: str) -> None:
    with pytest.raises(ValueError, match="22 characters"):
        checkpoints.parse_uuid(text)


@pytest.mark.scenario(197)
def test_partition_metadata_has_kafkas_text_and_reads_back() -> None:
    files = CrashFiles()
    files.make_dir("a-0")
    assert checkpoints.read_partition_metadata(files, "a-0") is None
    checkpoints.write_partition_metadata(files, "a-0", TOPIC_ID)
    assert files.snapshot() == {"/a-0/partition.metadata": f"version: 0\ntopic_id: {TOPIC_ID_TEXT}".encode()}
    assert checkpoints.read_partition_metadata(files, "a-0") == TOPIC_ID


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", 1),
        (b"topic_id: AAECAwQFBgcICQoLDA0ODw", 1),
        (b"version: 0\n", 2),
        (b"version: 0\ntopic: AAECAwQFBgcICQoLDA0ODw", 2),
        (b"version: 0\ntopic_id: short", 2),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 2),
    ],
)
def test_malformed_partition_metadata_are_an_error_with_file_and_line(content: bytes, line: int) -> None:
    files = disk_with("a-0/partition.metadata", content)
    with pytest.raises(CorruptCheckpointError, match=rf"^a-0/partition.metadata, line {line}: "):
        checkpoints.read_partition_metadata(files, "a-0")


# meta.properties and the clean shutdown marker


@pytest.mark.parametrize("directory_id", [TOPIC_ID, None])
def test_meta_properties_read_back(directory_id: bytes | None) -> None:
    files = CrashFiles()
    files.make_dir("d")
    expected = MetaProperties(cluster_id="eCF3aWhLQhuB0A0GhE2kgg", node_id=7, directory_id=directory_id)
    checkpoints.write_meta_properties(files, "d", expected)
    assert checkpoints.read_meta_properties(files, "d") == expected


def test_meta_properties_of_apache_kafka_are_read() -> None:
    text = (
        "#\n#Sat Nov 21 10:00:00 UTC 2026\ncluster.id=eCF3aWhLQhuB0A0GhE2kgg\n"
        f"directory.id={TOPIC_ID_TEXT}\nnode.id=1\nversion=1\nsome.thing.new=x\n"
    )
    expected = MetaProperties(cluster_id="eCF3aWhLQhuB0A0GhE2kgg", node_id=1, directory_id=TOPIC_ID)
    assert checkpoints.read_meta_properties(disk_with("d/meta.properties", text.encode()), "d") == expected


def test_a_backslash_in_meta_properties_is_an_escape_as_in_java() -> None:
    files = disk_with("d/meta.properties", b"version=1\ncluster.id=a\\:b\\=c\nnode.id=1\n")
    properties = checkpoints.read_meta_properties(files, "d")
    assert properties is not None
    assert properties.cluster_id == "a:b=c"


def test_a_directory_without_meta_properties_has_no_owner() -> None:
    files = CrashFiles()
    files.make_dir("d")
    assert checkpoints.read_meta_properties(files, "d") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"version=0\ncluster.id=x\nnode.id=1\n", "line 1: unknown version '0'"),
        (b"cluster.id=x\nnode.id=1\n", "version is missing"),
        (b"version=1\nnode.id=1\n", "cluster.id is missing"),
        (b"version=1\ncluster.id=x\n", "node.id is missing"),
        (b"version=1\ncluster.id=x\nnode.id=one\n", "line 3: not a number: 'one'"),
        (b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=x\n", "line 4: not 22 characters"),
    ],
)
def test_malformed_meta_properties_are_an_error(content: bytes, message: str) -> None:
    with pytest.raises(CorruptCheckpointError, match=message):
        checkpoints.read_meta_properties(disk_with("d/meta.properties", content), "d")


def test_a_checkpoint_whose_sync_failed_is_rewritten_to_its_own_file() -> None:
    """After a failed sync, the disk may never store later writes of that file."""
    files = disk_with("d/x", b"old")

    def refuse(operation: str, path: str, _: int) -> None:
        if operation == "sync":
            raise OSError(errno.EIO, "input/output error")

    files.refuse = refuse
    with pytest.raises(OSError, match="input/output"):
        checkpoints.write_atomically(files, "d/x", "new")
    files.refuse = None
    checkpoints.write_atomically(files, "d/x", "new")
    assert [after.snapshot() for after in files.after_crash(ordered=False)] == [{"/d/x": b"new"}]


# Leader epochs


def epochs_of(*entries: tuple[int, int], files: CrashFiles | None = None) -> LeaderEpochs:
    epochs = LeaderEpochs(files or CrashFiles(), "leader-epoch-checkpoint")
    for epoch, start_offset in entries:
        epochs.assign(epoch, start_offset)
    epochs.write()
    return epochs


@each_case(
    "assigned, expected",
    [
        ([], []),
        ([(0, 0)], [(0, 0)]),
        ([(0, 0), (0, 5)], [(0, 0)]),
        ([(2, 6), (2, 6)], [(2, 6)]),
        ([(2, 6), (3, 8)], [(2, 6), (3, 8)]),
        ([(2, 6), (2, 5)], [(2, 5)]),
        ([(0, 0), (1, 10), (2, 10)], [(0, 0), (2, 10)]),
        ([(0, 0), (1, 10), (2, 5)], [(0, 0), (2, 5)]),
        ([(0, 0), (1, 10), (2, 20), (1, 15)], [(0, 0), (1, 15)]),
        ([(0, 0), (1, 10), (0, 30)], [(0, 30)]),
        ([(5, 7), (6, 0)], [(6, 0)]),
    ],
)
def test_assigning_an_epoch_drops_contradicting_entries(
    assigned: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    files = CrashFiles()
    epochs = epochs_of(*assigned, files=files)
    assert list(epochs.entries) == expected
    assert list(epochs_of(files=files).entries) == expected
    assert epochs.latest_epoch == (expected[-1][0] if expected else -1)


THREE = ((2, 6), (3, 8), (4, 11))


@pytest.mark.parametrize(
    ("end_offset", "expected"),
    [(12, THREE), (11, THREE[:2]), (9, THREE[:2]), (8, THREE[:1]), (7, THREE[:1]), (6, ()), (0, ())],
)
def test_truncating_from_the_end_forgets_epochs_that_start_there(
    end_offset: int, expected: tuple[tuple[int, int], ...]
) -> None:
    files = CrashFiles()
    epochs = epochs_of(*THREE, files=files)
    epochs.truncate_from_end(end_offset)
    epochs.write()
    assert epochs.entries == epochs_of(files=files).entries == expected


@pytest.mark.parametrize(
    ("start_offset", "expected"),
    [
        (0, THREE),
        (6, THREE),
        (7, ((2, 7), (3, 8), (4, 11))),
        (8, ((3, 8), (4, 11))),
        (9, ((3, 9), (4, 11))),
        (11, ((4, 11),)),
        (15, ((4, 15),)),
    ],
)
def test_truncating_from_the_start_moves_the_start_of_the_epoch(
    start_offset: int, expected: tuple[tuple[int, int], ...]
) -> None:
    files = CrashFiles()
    epochs = epochs_of(*THREE, files=files)
    epochs.truncate_from_start(start_offset)
    epochs.write()
    assert epochs.entries == epochs_of(files=files).entries == expected


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, UNDEFINED),
        (0, (0, 6)),  # older than all known epochs: it ended where the first known one starts
        (2, (2, 8)),
        (3, (3, 11)),
        (4, (4, 20)),
        (5, (4, 20)),  # between two epochs: the lower one, which ends where the next one starts
        (6, (6, 99)),
        (7, UNDEFINED),
    ],
)
def test_the_end_offset_of_an_epoch_is_found(epoch: int, expected: tuple[int, int]) -> None:
    assert epochs_of(*THREE, (6, 20)).end_offset_for(epoch, 99) == expected


def test_without_epochs_no_end_offset_is_known() -> None:
    assert epochs_of().end_offset_for(0, 99) == UNDEFINED
    assert epochs_of().epoch_for_offset(0) is None


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, None), (5, None), (6, 2), (7, 2), (8, 3), (10, 3), (11, 4), (99, 4)]
)
def test_the_epoch_of_an_offset_is_found(offset: int, expected: int | None) -> None:
    assert epochs_of(*THREE).epoch_for_offset(offset) == expected


def test_a_known_epoch_causes_no_file_access() -> None:
    """Every append assigns its epoch; only the first of an epoch may cost anything."""
    files = CrashFiles()
    epochs = epochs_of((0, 0), files=files)
    before = list(files.operations)
    epochs.assign(0, 1000)
    epochs.truncate_from_end(1000)
    epochs.truncate_from_start(0)
    assert files.operations == before


def test_cleared_epochs_are_removed_from_the_file() -> None:
    files = CrashFiles()
    epochs = epochs_of(*THREE, files=files)
    epochs.clear()
    epochs.write()
    assert epochs_of(files=files).entries == ()
    assert files.snapshot() == {"/leader-epoch-checkpoint": b"0\n0\n"}


def test_the_leader_epoch_file_has_kafkas_text() -> None:
    files = CrashFiles()
    epochs_of(*THREE, files=files)
    assert files.snapshot() == {"/leader-epoch-checkpoint": b"0\n3\n2 6\n3 8\n4 11\n"}


@pytest.mark.parametrize("entry", [b"-1 0", b"0 -1", b"2147483648 0", b"0", b"0 0 0", b"zero 0"])
def test_a_malformed_leader_epoch_file_is_an_error(entry: bytes) -> None:
    with pytest.raises(CorruptCheckpointError, match="line 3"):
        LeaderEpochs(disk_with("x", b"0\n1\n" + entry + b"\n"), "x")


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 30)), max_size=12), st.integers(0, 12))
def test_epochs_and_starts_increase_for_any_assignment(assigned: list[tuple[int, int]], epoch: int) -> None:
    epochs = epochs_of(*assigned)
    entries = epochs.entries
    assert list(entries) == sorted(set(entries))
    assert [start for _, start in entries] == sorted({start for _, start in entries})
    found, end = epochs.end_offset_for(epoch, 31)
    if (found, end) != UNDEFINED:
        assert found <= epoch
        assert all(other <= found for offset in range(end) if (other := epochs.epoch_for_offset(offset)) is not None)
