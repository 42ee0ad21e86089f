"""Topics that are created and deleted many at a time: one write of the catalog serves all requests during another one."""

from __future__ import annotations

import errno
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.server.cluster.topic_admin import GATHERED_MAX, TopicAdmin
from ottla.server.cluster.topic_plans import TopicPlan
from ottla.server.partitions.topics import Topic
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from support.broker.admin import create, creations_ended, delete, wanted
from support.broker.conversation import create_topic
from support.broker.raw_client import RawClient
from support.broker.served import serving
from support.broker.stored_broker import StoredBroker
from support.disk.crash_files import CrashFiles
from support.disk.troubled_files import TroubledFiles, nothing

E = ErrorCode
Outcome = list[str | ErrorCode]


class Store(StoredBroker):
    """A store that counts the writes of its catalog."""

    def __init__(self) -> None:
        self.files = CrashFiles()
        self.writes = 0
        super().__init__(self.files)
        self.files.refuse = self._count

    def _count(self, operation: str, path: str, _: int) -> None:
        self.writes += operation == "rename" and path.endswith("ottla.json.tmp")

    @property
    def admin(self) -> TopicAdmin:
        return self.broker.services.topic_admin

    @property
    def names(self) -> set[str]:
        in_memory = {topic.name for topic in self.broker.services.topics}
        assert in_memory == set(self.broker.services.cluster.catalog.topics)
        return in_memory

    def plans(self, *names: str, partitions: int = 1) -> list[TopicPlan]:
        return [self.admin.planner.plan(name, num_partitions=partitions, replication_factor=1) for name in names]


def outcome_of(made: list[Topic | KafkaError]) -> Outcome:
    return [each.code if isinstance(each, KafkaError) else each.name for each in made]


async def at_once(store: Store, *wishes: list[TopicPlan]) -> list[Outcome | ErrorCode]:
    """Return the results of requests that all arrive during another change of the catalog, in their order."""
    outcomes: dict[int, Outcome | ErrorCode] = {}

    async def wish(number: int, plans: list[TopicPlan]) -> None:
        try:
            outcomes[number] = outcome_of(await store.admin.create_all(plans))
        except KafkaError as error:
            outcomes[number] = error.code

    async with trio.open_nursery() as nursery, store.broker.services.cluster.change_lock:
        for number, plans in enumerate(wishes):
            nursery.start_soon(wish, number, plans)
            await trio.testing.wait_all_tasks_blocked()
    return [outcomes[number] for number in range(len(wishes))]


def run(work: Callable[[Store], Awaitable[None]]) -> None:
    trio.run(work, Store())


def test_a_request_is_one_write() -> None:
    async def work(store: Store) -> None:
        made = await store.admin.create_all(store.plans("a", "b", "c", partitions=3))
        assert outcome_of(made) == ["a", "b", "c"] and store.names == {"a", "b", "c"} and store.writes == 1
        assert {len(topic.partitions) for topic in made if isinstance(topic, Topic)} == {3}
        assert await store.admin.delete_all(list(store.broker.services.topics)) == [None] * 3
        assert store.names == set() and store.writes == 2 and not store.broker.services.logs.logs
        assert await store.admin.create_all([]) == [] and store.writes == 2

    run(work)


def test_requests_that_wait_during_a_write_share_the_next() -> None:
    async def work(store: Store) -> None:
        wishes = [store.plans(f"t-{number}") for number in range(50)]
        assert await at_once(store, *wishes) == [[f"t-{number}"] for number in range(50)]
        assert store.writes == 1 and len(store.names) == 50

    run(work)


def test_a_concurrent_request_for_the_same_name_is_refused() -> None:
    async def work(store: Store) -> None:
        wishes = store.plans("a", "b"), store.plans("c"), store.plans("b", "d"), store.plans("a"), store.plans("e")
        found = await at_once(store, *wishes)
        assert found == [["a", "b"], ["c"], [E.TOPIC_ALREADY_EXISTS, "d"], [E.TOPIC_ALREADY_EXISTS], ["e"]]
        assert store.writes == 2 and store.names == set("abcde")

    run(work)


def test_names_that_collide_in_metrics_are_not_created_together() -> None:
    async def work(store: Store) -> None:
        found = await at_once(store, store.plans("a.b", "c", "a_b"), store.plans("c.d"), store.plans("c_d"))
        assert found == [["a.b", "c", E.INVALID_TOPIC_EXCEPTION], ["c.d"], [E.INVALID_TOPIC_EXCEPTION]]

    run(work)


def test_the_partitions_of_several_clients_in_one_write_are_limited() -> None:
    async def work(store: Store) -> None:
        wishes = (store.plans(name, partitions=GATHERED_MAX // 2 + 1) for name in "ab")
        assert await at_once(store, *wishes) == [["a"], ["b"]] and store.writes == 2

    run(work)


def test_a_write_that_the_disk_refuses_is_refused_completely() -> None:
    async def work(store: Store) -> None:
        refused = False

        def refuse(operation: str, path: str, _: int) -> None:
            nonlocal refused
            if operation == "rename" and path.endswith("ottla.json.tmp") and not refused:
                refused = True
                raise OSError(errno.ENOSPC, "No space left on device", path)

        store.files.refuse = refuse
        wishes = store.plans("a", "b"), store.plans("c"), store.plans("b"), store.plans("d")
        storage = E.KAFKA_STORAGE_ERROR
        assert await at_once(store, *wishes) == [storage, storage, ["b"], storage]
        assert store.names == {"b"} and [each.topic for each in store.broker.services.logs.logs] == ["b"]

    run(work)


def test_a_request_that_cannot_be_fulfilled_does_not_block_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(store: Store) -> None:
        def check_descriptors(count: int = 1) -> None:
            if count > GATHERED_MAX:
                raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(store.files, "check_descriptors", check_descriptors)
        outcomes = await at_once(
            store, store.plans("a"), store.plans("much", partitions=GATHERED_MAX), store.plans("b")
        )
        assert outcomes == [["a"], E.KAFKA_STORAGE_ERROR, ["b"]]
        assert store.names == {"a", "b"}

    run(work)


def end_a_transaction_without_records(client: RawClient, topic: str) -> None:
    begun = client.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=9_000, producer_id=-1), 4)
    of_it: dict[str, Any] = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=(0,)),),
        **{f"v3_and_below_{field}": value for field, value in of_it.items()},
    )
    (row,) = client.ask(added, 3).results_by_topic_v3_and_below
    assert row.results_by_partition[0].partition_error_code == E.NONE
    assert client.ask(EndTxnRequest(transactional_id="x", committed=True, **of_it), 3).error_code == E.NONE


def write_marker(client: RawClient, topic: str, partition: int) -> None:
    topics = (WritableTxnMarkerTopic(name=topic, partition_indexes=(partition,)),)
    marker = WritableTxnMarker(producer_id=7, producer_epoch=0, topics=topics, coordinator_epoch=0)
    (row,) = client.ask(WriteTxnMarkersRequest(markers=(marker,)), 1).markers
    assert row.topics[0].partitions[0].error_code == E.NONE


async def test_markers_do_not_wait_for_the_creation_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The markers of a transaction without records, and those of an administrator."""
    trios, here = list[str](), threading.get_ident()
    make = Log.make

    def noting(log: Log) -> None:
        if not log.is_made and threading.get_ident() == here:
            trios.append(str(log.topic_partition))
        make(log)

    monkeypatch.setattr(Log, "make", noting)
    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(create_topic, "t", partitions=2)
        logs = served.broker.services.logs.logs
        await served.ask(end_a_transaction_without_records, "t")
        await served.ask(write_marker, "t", 1)
        with trio.fail_after(20):
            while [logs[TopicPartition("t", number)].log_end_offset for number in (0, 1)] != [1, 1]:
                await trio.lowlevel.checkpoint()
        assert trios == []


def test_a_request_cancelled_before_its_write_has_no_effect() -> None:
    async def work(store: Store) -> None:
        async with trio.open_nursery() as nursery, store.broker.services.cluster.change_lock:
            gone = trio.CancelScope()

            async def leave() -> None:
                with gone:
                    await store.admin.create_all(store.plans("gone"))

            nursery.start_soon(leave)
            nursery.start_soon(store.admin.create_all, store.plans("stays"))
            await trio.testing.wait_all_tasks_blocked()
            gone.cancel()
            await trio.testing.wait_all_tasks_blocked()
        assert store.names == {"stays"}

    run(work)


def test_a_topic_deleted_earlier_does_not_block_the_other_deletions() -> None:
    async def work(store: Store) -> None:
        await store.admin.create_all(store.plans("a", "b", "c"))
        topics = list(store.broker.services.topics)
        await store.admin.delete(topics[1])
        refusals = await store.admin.delete_all(topics)
        assert [None if each is None else each.code for each in refusals] == [None, E.UNKNOWN_TOPIC_OR_PARTITION, None]
        assert store.names == set()

    run(work)


def test_creations_without_a_wait_share_writes_and_are_bounded() -> None:
    """Requests that are sent faster than the disk writes have to wait, so the creations that wait are bounded."""

    async def work(store: Store) -> None:
        admin, names, most = store.admin, [f"t-{number}" for number in range(3 * GATHERED_MAX)], 0
        async with trio.open_nursery() as nursery:
            store.broker.tasks.nursery = nursery
            for name in names:
                await admin.create_soon(store.plans(name), hidden_s=0)
                most = max(most, len(admin.coming))
        assert store.names == set(names) and not admin.coming
        assert most <= 2 * GATHERED_MAX and store.writes <= 6

    run(work)


def test_a_large_creation_is_waited_for() -> None:
    """Otherwise one connection could have many thousands of partitions wait."""

    async def work(store: Store) -> None:
        async with trio.open_nursery() as nursery:
            store.broker.tasks.nursery = nursery
            await store.admin.create_soon(store.plans("a", partitions=GATHERED_MAX + 1), hidden_s=0)
            assert store.names == {"a"} and not store.admin.coming

    run(work)


def test_a_topic_that_the_disk_refuses_is_planned_again() -> None:
    async def work(store: Store) -> None:
        def refuse(operation: str, path: str, _: int) -> None:
            if path.endswith("ottla.json.tmp"):
                raise OSError(errno.ENOSPC, operation)

        admin = store.admin
        store.files.refuse = refuse
        async with trio.open_nursery() as nursery:
            store.broker.tasks.nursery = nursery
            await admin.create_soon(store.plans("a"), hidden_s=0)
            assert admin.coming == {"a"}
        assert not store.names and not admin.coming
        store.files.refuse = None
        async with trio.open_nursery() as nursery:
            store.broker.tasks.nursery = nursery
            await admin.create_soon(store.plans("a"), hidden_s=0)
        assert store.names == {"a"}

    run(work)


@pytest.mark.parametrize("count", [1, 3])
def test_a_start_after_a_kill_promises_the_catalogs_topics(count: int) -> None:
    files = CrashFiles()
    broker = StoredBroker(files)
    broker.create("t", count)
    killed = files.copy()
    assert not [name for name in killed.list("/data") if name.startswith("t-")]
    with StoredBroker(killed) as again:
        again.append("t", count - 1, b"v")
        assert again.values() == {("t", index): [b"v"] * (index == count - 1) for index in range(count)}
    assert [name for name in killed.list("/data") if name.startswith("t-")] == [f"t-{index}" for index in range(count)]


async def test_each_client_request_is_one_write_for_any_number_of_names(tmp_path: Path) -> None:
    files, writes = TroubledFiles(), list[str]()

    def count(operation: str, path: str) -> None:
        if operation == "rename" and "ottla.json" in path:
            writes.append(path)

    async with serving(tmp_path, files) as served:
        files.trouble = count
        names = ("a", "b", "a/b", "c.d", "c_d", "a")
        asked = MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in names))
        answer = await served.ask(RawClient.ask, asked, 8)
        unknown, invalid = E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_TOPIC_EXCEPTION
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [
            *(("a", unknown), ("b", unknown), ("a/b", invalid), ("c.d", unknown), ("c_d", unknown))
        ]
        await creations_ended(served.broker)
        again = MetadataRequest(topics=(MetadataRequestTopic(name="c_d"),))
        (refused,) = (await served.ask(RawClient.ask, again, 8)).topics
        assert (refused.name, refused.error_code) == ("c_d", invalid)
        assert len(writes) == 1 and {topic.name for topic in served.broker.services.topics} == {"a", "b", "c.d"}
        rows = await served.ask(create, wanted("x"), wanted("a"), wanted("y"), wanted("z", 0), wanted("x"))
        assert [(row.name, row.error_code) for row in rows] == [
            *(("x", E.INVALID_REQUEST), ("a", E.TOPIC_ALREADY_EXISTS), ("y", E.NONE), ("z", E.INVALID_PARTITIONS))
        ]
        assert len(writes) == 2
        rows = await served.ask(delete, "a", "nobody", "b", "y", "b")
        assert {row.name: row.error_code for row in rows} == {
            "a": E.NONE,
            "nobody": unknown,
            "b": E.INVALID_REQUEST,
            "y": E.NONE,
        }
        assert len(writes) == 3 and {topic.name for topic in served.broker.services.topics} == {"b", "c.d"}
        files.trouble = nothing
