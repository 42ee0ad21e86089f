"""Apache Kafka's metadata log: a real one, and the results of a crash, a newer Kafka or damage."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.messages.cluster_metadata import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from ottla.storage.disk.checkpoints import uuid_text
from ottla.storage.disk.health import DataDirectoryError
from ottla.storage.topics.catalog_file import CatalogState, PartitionEntry
from ottla.storage.topics.cluster_metadata import (
    read_cluster_metadata,
    replay_cluster_metadata,
)
from support.disk.crash_files import CrashFiles
from support.logs.metadata_log import batch, log_of, value
from support.sizes import size

DATA = Path(__file__).parents[1] / "data"
DIRECTORY = "/data/__cluster_metadata-0"
LOG = "00000000000000000000.log"
SNAPSHOT = "00000000000000000032-0000000001.checkpoint"
A, B = bytes([1] * 16), bytes([2] * 16)

KAFKA_LOG = bytes.fromhex((DATA / "cluster_metadata.log.hex").read_text())
KAFKA_SNAPSHOT = bytes.fromhex((DATA / "cluster_metadata.checkpoint.hex").read_text())


def disk(**contents: bytes) -> CrashFiles:
    """Return a data directory whose metadata log has these files; `_` in a name stands for `-`."""
    files = CrashFiles()
    files.make_dir(DIRECTORY)
    for name, data in contents.items():
        file = files.open(f"{DIRECTORY}/{name}", create=True)
        file.append(data)
        file.close()
    return files


def read(files: CrashFiles) -> CatalogState:
    before = list(files.operations)
    state = read_cluster_metadata(files, "/data", cluster_id="c")
    assert files.operations == before, "reading changed the disk"
    assert state is not None
    return state


def state_of(*records: Any) -> CatalogState:
    return read(disk(**{LOG: log_of(*records)}))


def partition(topic_id: bytes, index: int, leader: int = 0, epoch: int = 0) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id, partition_id=index, replicas=(0, 1), isr=(0,), leader=leader, leader_epoch=epoch
    )


# A log that Apache Kafka 4.3.1 wrote: topics created, one deleted, one grown, configs set and unset, a clean stop, a
# producer id, another topic, kill -9. The snapshot is from before the stop.


def check_kafkas_state(state: CatalogState) -> None:
    assert {name: len(topic.partitions) for name, topic in state.topics.items()} == {"orders": 3, "grown": 4, "late": 1}
    assert {name: dict(topic.configs) for name, topic in state.topics.items()} == {
        "orders": {"cleanup.policy": "compact", "segment.bytes": "2097152"},
        "grown": {},
        "late": {"cleanup.policy": "compact,delete"},
    }
    assert uuid_text(state.topics["orders"].topic_id) == "W-LvZJ_AQtqIHz28W9wKRA"
    assert state.topics["orders"].partitions[2] == PartitionEntry((1,), 1, leader_epoch=2)
    assert state.broker_configs == {
        "": {"log.retention.ms": "86400000", "min.insync.replicas": "1"},
        "1": {"max.connections": "77"},
    }
    assert state.next_producer_id == 1000
    assert state.features["metadata.version"] == 30
    assert state.cluster_id == "c"


def test_the_log_contains_everything() -> None:
    check_kafkas_state(read(disk(**{LOG: KAFKA_LOG})))


def test_the_snapshot_and_the_later_log_contain_the_same() -> None:
    check_kafkas_state(read(disk(**{LOG: KAFKA_LOG, SNAPSHOT: KAFKA_SNAPSHOT})))


def test_the_log_may_start_at_the_end_of_the_snapshot() -> None:
    at = 0
    while int.from_bytes(KAFKA_LOG[at : at + 8], "big") < 32:
        at += 12 + int.from_bytes(KAFKA_LOG[at + 8 : at + 12], "big")
    tail = {f"{32:020}.log": KAFKA_LOG[at:], SNAPSHOT: KAFKA_SNAPSHOT}
    check_kafkas_state(read(disk(**tail)))
    del tail[SNAPSHOT]
    with pytest.raises(DataDirectoryError, match="offset 32 at position 0, expected 0"):
        read(disk(**tail))


def test_the_newest_snapshot_counts_and_unfinished_ones_do_not() -> None:
    old = f"{5:020}-{9:010}.checkpoint"
    part = f"{99:020}-{1:010}.checkpoint.part"
    check_kafkas_state(read(disk(**{LOG: KAFKA_LOG, SNAPSHOT: KAFKA_SNAPSHOT, old: b"x", part: b"x"})))


@settings(max_examples=size(15, 60))
@given(st.integers(0, len(KAFKA_LOG) - 1))
def test_a_torn_log_contains_everything_written_before(size: int) -> None:
    state = read(disk(**{LOG: KAFKA_LOG[:size]}))
    assert set(state.topics) <= {"orders", "gone", "grown", "late"}


def test_zeros_after_the_last_batch_are_a_torn_end() -> None:
    check_kafkas_state(read(disk(**{LOG: KAFKA_LOG + bytes(1000)})))


@settings(max_examples=size(25, 100))
@given(st.integers(0, len(KAFKA_SNAPSHOT) - 1), st.integers(1, 255))
def test_a_changed_byte_in_a_snapshot_is_noticed(at: int, change: int) -> None:
    data = bytearray(KAFKA_SNAPSHOT)
    data[at] ^= change
    try:
        state = read(disk(**{LOG: KAFKA_LOG, SNAPSHOT: bytes(data)}))
    except DataDirectoryError as error:
        assert SNAPSHOT in str(error)
    else:
        check_kafkas_state(state)  # base offset and leader epoch do not


# Without a log


def test_a_directory_without_kafkas_files_has_no_metadata() -> None:
    files = CrashFiles()
    files.make_dir("/data")
    assert read_cluster_metadata(files, "/data", cluster_id="c") is None
    assert read_cluster_metadata(disk(**{"quorum-state": b"{}"}), "/data", cluster_id="c") is None


# Record by record


def test_configs_may_precede_their_topic_and_are_deleted_with_it() -> None:
    config = ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="5")
    topic, one = TopicRecord(name="a", topic_id=A), partition(A, 0)
    assert state_of(config, topic, one).topics["a"].configs == {"retention.ms": "5"}
    again = [TopicRecord(name="a", topic_id=B), partition(B, 0)]
    state = state_of(config, topic, one, RemoveTopicRecord(topic_id=A), *again)
    assert (state.topics["a"].topic_id, state.topics["a"].configs) == (B, {})


def test_configs_of_groups_and_subscriptions_are_sections_and_logger_configs_are_ignored() -> None:
    records = [ConfigRecord(resource_type=kind, resource_name="x", name="n", value="v") for kind in (8, 16, 32)]
    taken_away = ConfigRecord(resource_type=16, resource_name="x", name="n", value=None)
    assert state_of(*records).sections == {"client_metrics": {"x": {"n": "v"}}, "group_configs": {"x": {"n": "v"}}}
    assert state_of(*records, taken_away).sections == {"group_configs": {"x": {"n": "v"}}}


def test_client_rights_and_quotas_follow_the_last_records() -> None:
    alice = (
        EntityData(entity_type="user", entity_name="alice"),
        EntityData(entity_type="client-id", entity_name=None),
    )
    kept = (
        AccessControlEntryRecord(id=A, resource_name="t"),
        UserScramCredentialRecord(name="alice", mechanism=2, iterations=4096),
        DelegationTokenRecord(token_id="kept"),
        ClientQuotaRecord(entity=alice, key="producer_byte_rate", value=5.0),
    )
    gone = (
        AccessControlEntryRecord(id=B),
        RemoveAccessControlEntryRecord(id=B),
        RemoveAccessControlEntryRecord(id=B),
        UserScramCredentialRecord(name="alice", mechanism=1),
        RemoveUserScramCredentialRecord(name="alice", mechanism=1),
        DelegationTokenRecord(token_id="gone"),
        RemoveDelegationTokenRecord(token_id="gone"),
        ClientQuotaRecord(entity=alice[::-1], key="consumer_byte_rate", value=5.0),
        ClientQuotaRecord(entity=alice, key="consumer_byte_rate", remove=True),
        BeginTransactionRecord(),
        AccessControlEntryRecord(id=bytes(16)),
        AbortTransactionRecord(),
    )
    replay = replay_cluster_metadata(disk(**{LOG: log_of(*kept, *gone)}), "/data")
    assert replay is not None
    found = replay.clients
    assert list(found.acls.values()) == [kept[0]]
    assert list(found.credentials.values()) == [kept[1]]
    assert list(found.tokens.values()) == [kept[2]]
    assert found.quotas == {(("client-id", None), ("user", "alice")): {"producer_byte_rate": 5.0}}


def test_a_change_keeps_unnamed_fields() -> None:
    topic, one = TopicRecord(name="a", topic_id=A), partition(A, 0, leader=1, epoch=4)
    change = PartitionChangeRecord(topic_id=A, partition_id=0, isr=(1,))
    assert state_of(topic, one, change).topics["a"].partitions == (PartitionEntry((0, 1), 1, 4),)
    change = PartitionChangeRecord(topic_id=A, partition_id=0, leader=1, replicas=(1, 2))
    assert state_of(topic, one, change).topics["a"].partitions == (PartitionEntry((1, 2), 1, 5),)


def test_a_partition_without_leader_gets_its_first_replica() -> None:
    topic, one = TopicRecord(name="a", topic_id=A), partition(A, 0)
    change = PartitionChangeRecord(topic_id=A, partition_id=0, leader=-1)
    assert state_of(topic, one, change).topics["a"].partitions == (PartitionEntry((0, 1), 0, 1),)


def test_a_topic_without_all_its_partitions_is_omitted() -> None:
    assert state_of(TopicRecord(name="a", topic_id=A)).topics == {}
    assert state_of(TopicRecord(name="a", topic_id=A), partition(A, 1)).topics == {}


def test_features_end_at_level_zero_and_producer_ids_continue() -> None:
    state = state_of(
        FeatureLevelRecord(name="x", feature_level=2),
        FeatureLevelRecord(name="y", feature_level=1),
        FeatureLevelRecord(name="x", feature_level=0),
        ProducerIdsRecord(next_producer_id=1000),
        ProducerIdsRecord(next_producer_id=2000),
    )
    assert (state.features, state.next_producer_id) == ({"y": 1}, 2000)


@pytest.mark.parametrize(
    ("end", "is_there"), [(EndTransactionRecord(), True), (AbortTransactionRecord(), False), (None, False)]
)
def test_a_transaction_counts_when_it_ends(end: Any, is_there: bool) -> None:
    records = [BeginTransactionRecord(name="t"), TopicRecord(name="a", topic_id=A), partition(A, 0)]
    state = state_of(*records, *([end] if end else []))
    assert ("a" in state.topics) == is_there


def test_control_batches_and_unknown_types_are_skipped() -> None:
    unknown = value(TopicRecord(name="a", topic_id=A), kind=99, version=7)
    control = batch(0, b"\0\0\0\0", control=True)
    whole = control + batch(1, unknown) + batch(2, value(TopicRecord(name="a", topic_id=A)), value(partition(A, 0)))
    assert set(read(disk(**{LOG: whole})).topics) == {"a"}


def test_old_versions_of_partition_records_are_read() -> None:
    old = [value(partition(A, index), version=index) for index in (0, 1, 2)]
    state = read(disk(**{LOG: batch(0, value(TopicRecord(name="a", topic_id=A)), *old)}))
    assert len(state.topics["a"].partitions) == 3


# Damage that a crash does not explain


TOPIC_A = value(TopicRecord(name="a", topic_id=A))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([b""], "truncated"),
        ([b"\x01\x02"], "truncated"),
        ([b"\xff\xff\xff\xff\xff\xff"], "truncated"),
        ([TOPIC_A[:-1]], "batch at offset 0"),
        ([value(TopicRecord(name="a", topic_id=A), frame=2)], "frame version 2"),
        ([value(TopicRecord(name="a", topic_id=A), version=1)], "TopicRecord: unsupported version 1"),
        ([value(partition(A, 0))], "unknown topic ID"),
        ([value(RemoveTopicRecord(topic_id=A))], "unknown topic ID"),
        ([TOPIC_A, value(PartitionChangeRecord(topic_id=A, partition_id=3))], "unknown partition 3"),
    ],
)
def test_invalid_records_are_reported_with_file_and_offset(values: Iterable[bytes], told: str) -> None:
    with pytest.raises(DataDirectoryError) as refused:
        read(disk(**{LOG: batch(0, *values)}))
    assert str(refused.value).startswith(f"{DIRECTORY}/{LOG}: batch at offset 0: ")
    assert told in str(refused.value)


def test_damage_before_the_last_file_is_not_a_torn_end() -> None:
    first = batch(0, TOPIC_A, value(partition(A, 0)))
    second = batch(2, value(FeatureLevelRecord(name="x", feature_level=1)))
    files = {LOG: first[:-1], f"{2:020}.log": second}
    with pytest.raises(DataDirectoryError, match=f"{LOG}: position 0: "):
        read(disk(**files))


def test_a_gap_between_files_is_reported() -> None:
    files = {LOG: batch(0, TOPIC_A), f"{5:020}.log": batch(5, value(partition(A, 0)))}
    with pytest.raises(DataDirectoryError, match="offset 5 at position 0, expected 1"):
        read(disk(**files))


def test_an_unreasonable_declared_size_is_not_read() -> None:
    huge = bytearray(batch(0, TOPIC_A))
    huge[8:12] = (0x7FFF_FFFF).to_bytes(4, "big")
    assert read(disk(**{LOG: bytes(huge)})) == CatalogState("c")
