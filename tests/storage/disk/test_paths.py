import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.disk import paths
from ottla.storage.disk.paths import MovingDir, SegmentFile, TopicPartition
from support.noted import each_case

UNIQUE = "0123456789abcdef0123456789abcdef"
SUFFIXES = ["", paths.CLEANED, paths.SWAP, paths.DELETED]
topics = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True)
partitions = st.integers(0, paths.PARTITION_MAX)


@given(
    st.integers(0, paths.OFFSET_MAX),
    st.sampled_from([*paths.SEGMENT_KINDS, paths.SNAPSHOT]),
    st.sampled_from(SUFFIXES),
)
def test_a_segment_file_name_reads_back(base_offset: int, kind: str, suffix: str) -> None:
    name = paths.segment_file_name(base_offset, kind, suffix)
    assert paths.parse_segment_name(name) == SegmentFile(base_offset, kind, suffix)


def test_names_equal_kafkas() -> None:
    assert paths.log_path("d", 42) == "d/00000000000000000042.log"
    assert paths.offset_index_path("d", 42, paths.CLEANED) == "d/00000000000000000042.index.cleaned"
    assert paths.time_index_path("d", 42, paths.SWAP) == "d/00000000000000000042.timeindex.swap"
    assert paths.txn_index_path("d", 42, paths.DELETED) == "d/00000000000000000042.txnindex.deleted"
    assert paths.snapshot_path("d", paths.OFFSET_MAX) == "d/09223372036854775807.snapshot"


@each_case(
    "name",
    [
        "",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "42.log",
        "00000000000000000042",
        "00000000000000000042.",
        "00000000000000000042.log.",
        "00000000000000000042.log.swap.swap",
        "00000000000000000042.logs",
        "00000000000000000042.kafka",
        "00000000000000000042.checkpoint",
        "000000000000000000042.log",
        "-0000000000000000042.log",
        "0000000000000000004²" + ".log",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٤٢.log",
        "09223372036854775808.log",
        "00000000000000000042.log\n",
        " 00000000000000000042.log",
    ],
)
def test_other_names_are_not_segment_files(name: str) -> None:
    assert paths.parse_segment_name(name) is None


@pytest.mark.scenario(199)
@given(topics, partitions)
def test_a_partition_directory_reads_back(topic: str, partition: int) -> None:
    name = paths.partition_dir_name(topic, partition)
    assert paths.parse_partition_dir(name) == TopicPartition(topic, partition)
    assert str(TopicPartition(topic, partition)) == name


@pytest.mark.scenario(199)
@given(topics, partitions)
def test_a_deleted_directory_reads_back_with_its_shortened_topic(topic: str, partition: int) -> None:
    name = paths.deleted_dir_name(topic, partition, UNIQUE)
    assert len(name) <= 255
    moved = paths.parse_partition_dir(name)
    assert isinstance(moved, MovingDir)
    assert (moved.topic_partition.partition, moved.unique_id, moved.role) == (partition, UNIQUE, "delete")
    assert topic.startswith(moved.topic_partition.topic)
    assert moved.topic_partition.topic == topic or len(name) == 255


@pytest.mark.scenario(199)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-0", TopicPartition("a", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("--0", TopicPartition("-", 0)),
        ("__consumer_offsets-49", TopicPartition("__consumer_offsets", 49)),
        ("a.b_c-7", TopicPartition("a.b_c", 7)),
        (f"a-0.{UNIQUE}-future", MovingDir(TopicPartition("a", 0), UNIQUE, "future")),
        (f"a-0.{UNIQUE}-stray", MovingDir(TopicPartition("a", 0), UNIQUE, "stray")),
        (f"a-0.{UNIQUE}-delete-3", TopicPartition(f"a-0.{UNIQUE}-delete", 3)),
    ],
)
def test_partition_directories_and_temporary_ones_are_distinguished(name: str, expected: object) -> None:
    assert paths.parse_partition_dir(name) == expected


@pytest.mark.scenario(199)
@each_case(
    "name",
    [
        "",
        "a",
        "-0",
        "a-",
        "a-x",
        "a--1x",
        "a-01",
        "a-2147483648",
        "a b-0",
        "a/b-0",
        "ä-0",
        "a-0\n",
        "a-0.tmp",
        f"a-0.{UNIQUE}",
        f"a-0.{UNIQUE[:-1]}-delete",
        f"a-x.{UNIQUE}-delete",
    ],
)
def test_other_directories_are_not_partitions(name: str) -> None:
    assert paths.parse_partition_dir(name) is None


@pytest.mark.parametrize(
    ("path", "expected"), [("a/b/c", "a/b"), ("a/b", "a"), ("/a", "/"), ("a", "."), ("/a/b", "/a")]
)
def test_the_parent_of_a_path_is_found(path: str, expected: str) -> None:
    assert paths.parent(path) == expected


def test_a_path_joined_has_its_directory_as_parent() -> None:
    assert paths.parent(paths.join("/data/a-0", "x")) == "/data/a-0"
