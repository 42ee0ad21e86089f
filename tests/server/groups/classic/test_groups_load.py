"""Loading groups and offsets from the records of `__consumer_offsets`, whole or damaged."""

from __future__ import annotations

import pytest

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.compression import Codec
from ottla.protocol.errors import CorruptRecordError, ErrorCode
from ottla.protocol.records import RecordBatch
from ottla.server.coordination.shard import ShardState
from ottla.server.groups.records import CommittedOffset, group_key, offset_key, offset_value
from support.groups.groups import Groups, MemoryStore, error_of, subscription
from support.noted import each_case

P0, P1 = ("orders", 0), ("orders", 1)


def commit_batch(offset: int, *, group: str = "g", partition: int = 0, **batch: int | bool) -> bytearray:
    """Return one offset commit, as a batch of any kind."""
    committed = CommittedOffset(offset, -1, "", 1_000, -1, bytes(16))
    record = (0, 1_000, offset_key(group, "orders", partition), offset_value(committed), ())
    return build_batch([record], **batch)  # type: ignore[arg-type]


def marker(producer_id: int, *, commit: bool) -> bytearray:
    key = b"\0\0" + (b"\0\1" if commit else b"\0\0")
    return build_batch(
        [(0, 1_000, key, b"\0\0\0\0\0\0", ())],
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


def loaded(*batches: bytearray) -> Groups:
    """Return a coordinator over one partition that holds these batches."""
    store = MemoryStore(1)
    for batch in batches:
        store.append_batch(0, batch)
    return Groups(store)


def test_a_stable_group_is_loaded_stable_and_continues() -> None:
    groups = Groups()
    ids, generation = groups.stable(2, protocols=[("range", subscription("orders"))])
    groups.commit({P0: 1}, member=ids[0], generation=generation)

    again = groups.restarted()

    assert (again.state(), again.members()) == ("Stable", ids)
    assert again.heartbeat(ids[1], generation) == ErrorCode.NONE
    assert again.sync(ids[1], generation).answer.assignment == ids[1].encode()
    assert again.delete_offsets("g", [P0], again.now_ms) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    # The leader is still the leader: its join starts a rebalance, that of a follower does not.
    assert not again.join(member=ids[1], protocols=[("range", subscription("orders"))]).is_parked
    assert again.join(member=ids[0], protocols=[("range", subscription("orders"))]).is_parked


def test_loaded_members_have_a_full_session_timeout() -> None:
    groups = Groups()
    ids, _ = groups.stable(2, session_ms=10_000)
    groups.advance(9_999)
    again = groups.restarted()
    again.advance(9_999)
    assert again.members() == ids
    again.advance(1)
    assert (again.state(), again.members()) == ("Empty", [])


def test_an_empty_group_keeps_its_generation_and_protocol_type() -> None:
    groups = Groups()
    (member,), generation = groups.stable(1, protocol_type="connect")
    groups.leave(member)
    again = groups.restarted()
    assert again.describe_group("g", 6).protocol_type == "connect"
    reply = again.join()
    again.advance(0)
    assert reply.answer.generation_id == generation + 2


def test_an_unfinished_rebalance_is_forgotten() -> None:
    groups = Groups()
    (one, two), generation = groups.stable(2)
    groups.join(member=one)
    groups.join(client="new")
    again = groups.restarted()
    assert (again.state(), again.members()) == ("Stable", [one, two])
    assert again.heartbeat(one, generation) == ErrorCode.NONE


def test_offsets_without_members_form_a_simple_group() -> None:
    groups = loaded(commit_batch(5))
    assert (groups.state(), groups.committed()) == ("Empty", {P0: 5})


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_are_read(codec: Codec) -> None:
    assert loaded(commit_batch(5, codec=codec)).committed() == {P0: 5}


def test_known_batches_are_skipped() -> None:
    """A read returns whole batches, so it may begin before the requested offset."""
    store = MemoryStore(1)
    store.append_batch(0, commit_batch(5))
    store.append_batch(0, build_batch([(0, 0, offset_key("g", "orders", 0), None, ())]))
    groups = Groups(store)
    assert groups.committed() == {}
    groups.coordinator.shards[0].replay(bytes(store.partitions[0]))
    assert groups.committed() == {}


def test_the_last_of_many_commits_counts_among_other_records() -> None:
    """Runs of commits are applied at once; a record of another kind between them must see the commits before it."""
    tombstone = build_batch([(0, 0, offset_key("g", "orders", 1), None, ())])
    group_tombstone = build_batch([(0, 0, group_key("g"), None, ())])
    commits = [commit_batch(5), commit_batch(6, partition=1), commit_batch(7)]
    assert loaded(*commits).committed() == {P0: 7, P1: 6}
    assert loaded(*commits, tombstone).committed() == {P0: 7}
    assert loaded(*commits, tombstone, commit_batch(8, partition=1)).committed() == {P0: 7, P1: 8}
    groups = loaded(*commits, group_tombstone)
    assert groups.list_groups([0], (), ()) == []
    assert loaded(*commits, group_tombstone, commit_batch(9)).state() == "Empty"


# Transactions


def txn(offset: int, producer_id: int, partition: int = 0) -> bytearray:
    return commit_batch(
        offset, partition=partition, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )


TRANSACTIONS: list[tuple[list[bytearray], dict[tuple[str, int], int], set[int]]] = [
    ([txn(1, 7)], {}, {0}),
    ([txn(1, 7), marker(7, commit=True)], {P0: 1}, set()),
    ([txn(1, 7), marker(7, commit=False)], {}, set()),
    ([commit_batch(5), txn(1, 7)], {P0: 5}, {0}),
    ([commit_batch(5), txn(1, 7), marker(7, commit=True)], {P0: 1}, set()),
    ([commit_batch(5), txn(1, 7), marker(7, commit=False)], {P0: 5}, set()),
    # The plain commit was written after the transactional one: it stays.
    ([txn(1, 7), commit_batch(5), marker(7, commit=True)], {P0: 5}, set()),
    ([txn(1, 7), txn(2, 8), marker(7, commit=True)], {P0: 1}, {0}),
    ([txn(1, 7), txn(2, 8), marker(8, commit=True), marker(7, commit=True)], {P0: 2}, set()),
    ([txn(1, 7), txn(2, 7, 1), marker(7, commit=True)], {P0: 1, P1: 2}, set()),
    ([txn(1, 7), txn(2, 7), marker(7, commit=True)], {P0: 2}, set()),
    ([marker(7, commit=True)], {}, set()),
]


@each_case("batches, committed, unstable", TRANSACTIONS)
def test_offsets_of_transactions_count_once_they_are_committed(
    batches: list[bytearray], committed: dict[tuple[str, int], int], unstable: set[int]
) -> None:
    groups = loaded(*batches)
    assert groups.committed() == committed
    fetched = groups.fetch("orders", 0, 1, stable=True)
    assert {one.partition for one in fetched if one.error == ErrorCode.UNSTABLE_OFFSET_COMMIT} == unstable
    assert all(not one.error for one in groups.fetch("orders", 0, 1))


def test_pending_offsets_delay_expiry_and_are_deleted_with_their_group() -> None:
    groups = loaded(commit_batch(5), txn(1, 7), txn(2, 7, 1))
    groups.advance(30 * 86_400_000)
    assert groups.committed() == {P0: 5}

    groups.delete_group("g", groups.now_ms)
    groups.store.append_batch(0, marker(7, commit=True))

    assert groups.restarted().committed() == {}
    assert groups.fetch("orders", 0, stable=True)[0].error == ErrorCode.NONE


# Damage


def damaged(kind: str) -> bytearray:
    key, value = offset_key("g", "orders", 0), commit_batch(5)
    match kind:
        case "checksum":
            value[-1] ^= 1
            return value
        case "length":
            value = commit_batch(5, codec=Codec.NONE)
            value[61] ^= 2  # the record's own length
            seal = RecordBatch(value).computed_crc()
            value[17:21] = seal.to_bytes(4, "big")
            return value
        case "key":
            return build_batch([(0, 0, key[:-1], b"", ())])
        case "no key":
            return build_batch([(0, 0, None, b"", ())])
        case "value":
            return build_batch([(0, 0, key, b"\0\4\0", ())])
        case _:
            return build_batch([(0, 0, b"\0", b"", ())], control=True, producer_id=1, producer_epoch=0)


def test_damaged_bytes_stop_only_their_partition_and_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    groups = Groups()
    names = {groups.coordinator.partition_for(name): name for name in "abcdefghijkl"}
    broken, whole = names[0], names[1]
    groups.commit({P0: 1}, group=broken)
    groups.commit({P0: 2}, group=whole)
    groups.store.append_batch(0, damaged("checksum"))

    again = groups.restarted()

    assert again.committed(group=whole) == {P0: 2}
    for call in (
        lambda: again.fetch("orders", 0, group=broken),
        lambda: again.commit({P0: 3}, group=broken),
        lambda: again.join(group=broken),
        lambda: again.heartbeat("m", 1, group=broken),
        lambda: again.delete_group(broken, 0),
    ):
        assert error_of(call) == ErrorCode.NOT_COORDINATOR
    assert "__consumer_offsets-0" in caplog.text
    assert "at offset 1" in caplog.text
    assert [one.group_id for one in again.list_groups(range(4), (), ())] == [whole]


@pytest.mark.parametrize("kind", ["length", "key", "no key", "value", "marker"])
def test_an_invalid_record_is_skipped_and_reported(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    groups = loaded(commit_batch(5), damaged(kind), commit_batch(6, partition=1))
    assert groups.committed() == {P0: 5, P1: 6}
    assert "__consumer_offsets-0: ignored" in caplog.text
    assert "at offset 1:" in caplog.text


def test_records_of_unknown_type_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    groups = loaded(build_batch([(0, 0, b"\0\x63\0\1g", b"\0\0", ())]), commit_batch(5))
    assert groups.committed() == {P0: 5}
    assert "unknown record type at offset 0" in caplog.text


def test_a_truncated_partition_is_damaged() -> None:
    groups = loaded(commit_batch(5))
    shard = groups.coordinator.shards[0]
    with pytest.raises(CorruptRecordError):
        shard.replay(bytes(groups.store.partitions[0][:-1]))


def test_groups_of_a_loading_partition_return_load_in_progress() -> None:
    groups = Groups()
    groups.coordinator.open(4)
    for call in (
        lambda: groups.join(),
        lambda: groups.commit({P0: 1}),
        lambda: groups.fetch("orders", 0),
        lambda: groups.describe_group("g", 6),
        lambda: groups.list_groups(range(4), (), ()),
        lambda: groups.delete_group("g", 0),
        lambda: groups.leave("m"),
    ):
        assert error_of(call) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_load_that_outlives_its_coordinator_changes_nothing() -> None:
    groups = Groups()
    groups.coordinator.open(1)
    (shard,) = groups.coordinator.shards
    groups.coordinator.close(ErrorCode.NOT_COORDINATOR, groups.now_ms)
    groups.coordinator.activate(shard, groups.now_ms)
    groups.coordinator.fail(shard, ValueError())
    assert shard.state is ShardState.LOADING
    assert error_of(lambda: groups.commit({P0: 1})) == ErrorCode.NOT_COORDINATOR
