"""`explain`, `dry_run` and `explain_key` of a running broker: their predictions come true, on the moved clock as well."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trio

import ottla
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.server.cleaning.throttler import PERIOD_S
from ottla.server.control.dry_run import dry_run
from ottla.server.control.explain import explain
from ottla.server.runtime import time_slices
from ottla.server.runtime.errors import ControlError, Kind
from ottla.server.services.explaining import Explaining, PartitionExplanation
from ottla.storage.disk.paths import TopicPartition
from support.broker.admin_calls import AdminCalls
from support.broker.background_jobs import eventually
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient
from support.logs.batches import batch
from support.transactions.transactional_client import TransactionalClient

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
NEVER_MS = 10**14
T_0 = TopicPartition("t", 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    """Run a broker that cleans nothing by itself."""
    with ottla.Broker(tmp_path, overrides={"log.cleaner.backoff.ms": NEVER_MS}, admin=0) as running:
        yield running


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[RawClient]:
    with RawClient(*address(broker)) as connected:
        yield connected


def explained(broker: ottla.Broker, topic: str = "t") -> PartitionExplanation:
    (found,) = broker.explain(topic).partitions
    return found


def moves(found: PartitionExplanation) -> list[tuple[str, ...]]:
    return [remedy.moves for remedy in found.remedies]


def alter(client: RawClient, command: str) -> None:
    """Do what `ottla configs alter topic:T NAME=VALUE…` does."""
    words = command.split()
    assert words[:3] == ["ottla", "configs", "alter"]
    configs = tuple(
        AlterableConfig(name=name, config_operation=0, value=value)
        for name, _, value in (word.partition("=") for word in words[4:])
    )
    resource = AlterConfigsResource(resource_type=2, resource_name=words[3].removeprefix("topic:"), configs=configs)
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    assert answer.error_code == 0, answer.error_message


# The time, and the trigger


def test_records_in_the_active_segment_wait_for_a_late_enough_record(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", cleanup_policy="compact", segment_ms=WEEK_MS, message_timestamp_after_max_ms=NEVER_MS)
    written_ms = broker.explain("t").now_ms
    for _ in range(3):
        produce(client, "t", ("k", "v"), timestamp=written_ms)
    found = explained(broker)
    assert (found.eligible, found.waits_for, found.eligible_at_ms) == (False, "active_segment", None)
    assert found.rolls_from_ms == written_ms + WEEK_MS + 1
    assert moves(found)[:2] == [("next_record",), ("roll",)]
    assert moves(found)[-1] == ("force",)
    assert "with a timestamp of" in found.sentence
    produce(client, "t", ("k", "v"), timestamp=found.rolls_from_ms - 1)
    assert not explained(broker).eligible
    produce(client, "t", ("k", "v"), timestamp=found.rolls_from_ms)
    assert explained(broker).eligible


def test_a_lag_ends_at_the_predicted_time(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", cleanup_policy="compact", internal_segment_bytes=1000, min_compaction_lag_ms=HOUR_MS)
    for _ in range(4):
        produce(client, "t", ("k", "v" * 600))
    found = explained(broker)
    assert (found.waits_for, moves(found)[:2]) == ("min_compaction_lag", [("wait",), ("no_min_compaction_lag",)])
    assert found.eligible_at_ms is not None
    broker.advance_clock(found.eligible_at_ms - broker.explain("t").now_ms - 1_000)
    assert not explained(broker).eligible
    broker.advance_clock(1_000)
    assert explained(broker).eligible


@pytest.mark.parametrize(
    ("configs", "waits_for"),
    [
        ({"cleanup_policy": "delete"}, "not_compacted"),
        ({"cleanup_policy": "compact", "min_compaction_lag_ms": HOUR_MS}, "min_compaction_lag"),
        ({"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 1.0}, "below_min_ratio"),
        (
            {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 1.0, "min_compaction_lag_ms": HOUR_MS},
            "min_compaction_lag",
        ),
    ],
)
def test_the_advised_configuration_makes_the_log_eligible(
    broker: ottla.Broker, client: RawClient, configs: dict[str, Any], waits_for: str
) -> None:
    create_topic(client, "t", internal_segment_bytes=1000, **configs)
    for _ in range(4):
        produce(client, "t", ("k", "v" * 600))
    found = explained(broker)
    assert found.waits_for == waits_for
    remedy = next(each for each in found.remedies if each.commands and each.commands[0].startswith("ottla configs"))
    assert (len(remedy.commands), remedy.eligible_at_ms) == (1, None)
    alter(client, remedy.commands[0])
    assert explained(broker).eligible


def test_an_open_transaction_is_named_and_aborted_at_its_deadline(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", cleanup_policy="compact", internal_segment_bytes=1000)
    producer = TransactionalClient(client, "payments", version=2, timeout_ms=60_000)
    producer.begin()
    producer.produce("t", ("k", "v" * 600))
    for _ in range(3):
        produce(client, "t", ("k", "v" * 600))
    found = explained(broker)
    assert (found.waits_for, found.eligible) == ("open_transaction", False)
    (open_transaction,) = found.transactions
    assert (open_transaction.transactional_id, open_transaction.producer_id) == ("payments", producer.producer_id)
    assert "'payments'" in found.sentence
    assert found.eligible_at_ms is not None
    assert found.eligible_at_ms == open_transaction.aborted_at_ms
    now_ms = broker.explain("t").now_ms
    assert now_ms < found.eligible_at_ms <= now_ms + 60_001
    broker.advance_clock(found.eligible_at_ms - now_ms - 1_000)
    assert not explained(broker).eligible
    # The coordinator has just looked for expired transactions, and does so again after ten seconds.
    broker.advance_clock(11_000)
    assert eventually(broker, lambda: explained(broker).eligible)


def test_a_transaction_started_between_two_reads_is_reported_with_its_coordinators_state(
    broker: ottla.Broker, client: RawClient
) -> None:
    create_topic(client, "t", cleanup_policy="compact", internal_segment_bytes=1000)
    producer = TransactionalClient(client, "payments", version=2)
    producer.begin()

    async def begin() -> Explaining:
        services = broker.inner.services
        return await Explaining.load(services, [services.logs.logs[T_0]], time_slices.TimeSlice())

    explaining = broker.run(begin)
    producer.produce("t", ("k", "v" * 600))
    for _ in range(3):
        produce(client, "t", ("k", "v" * 600))
    found = broker.run(explaining.next)
    assert [each.transactional_id for each in found.transactions] == ["payments"]
    assert found.eligible_at_ms == found.transactions[0].aborted_at_ms


def test_a_transaction_of_an_unavailable_coordinator_is_not_reported_as_hanging(tmp_path: Path) -> None:
    with ExitStack() as stack:
        options = {"transaction.state.log.replication.factor": 1}
        broker = stack.enter_context(ottla.Broker(tmp_path, nodes=2, overrides=options, admin=0))
        clients = [stack.enter_context(RawClient(*address(broker, node))) for node in range(2)]
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=("payments",))
        coordinator = clients[0].ask(find).coordinators[0].node_id
        create_topic(clients[0], "t", replicas=2, cleanup_policy="compact")
        producer = TransactionalClient(clients[coordinator], "payments", version=2)
        producer.begin()
        producer.client = clients[broker.inner.services.topics.partition("t", 0).leader]
        producer.produce("t", ("k", "v"))
        broker.roll("t")

        def states() -> tuple[Any, ...]:
            (found,) = explained(broker).cleaner.eligibility.open_transactions
            assert found.producer_id == producer.producer_id
            listed = AdminCalls.of(broker).get("/v1/transactions")["transactions"]
            return tuple(each.state for each in explained(broker).transactions), tuple(one["state"] for one in listed)

        assert states() == (("Ongoing",), ("Ongoing",))
        broker.stop_node(coordinator)
        assert states() == ((), ())
        broker.start_node(coordinator)
        assert eventually(broker, lambda: bool(explained(broker).transactions))
        assert states() == (("Ongoing",), ("Ongoing",))


def test_the_advised_command_aborts_an_unknown_transaction(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", cleanup_policy="compact", internal_segment_bytes=1000)
    hanging = batch(("k", "v"), producer_id=77, producer_epoch=0, base_sequence=0, transactional=True)

    async def append() -> None:
        broker.inner.services.logs.logs[T_0].append(memoryview(hanging), now_ms=broker.inner.clock.now_ms())

    broker.run(append)  # no client can, since brokers ask the coordinator
    for _ in range(3):
        produce(client, "t", ("k", "v" * 600))
    found = explained(broker)
    remedy = next(each for each in found.remedies if each.moves == ("end_transactions",))
    assert "unknown to all coordinators" in remedy.sentence
    (command,) = remedy.commands
    assert command.startswith(
        f"kafka-transactions.sh --bootstrap-server {broker.bootstrap} abort --topic t --partition 0"
    )
    offset = int(command.rpartition(" ")[2])
    abort(client, offset)
    assert explained(broker).eligible


def abort(client: RawClient, start_offset: int) -> None:
    """Do what `kafka-transactions.sh abort` does with its arguments."""
    request = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0,)),))
    (producer,) = [
        each
        for each in client.ask(request).topics[0].partitions[0].active_producers
        if each.current_txn_start_offset == start_offset
    ]
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name="t", partition_indexes=(0,)),),
        coordinator_epoch=max(0, producer.coordinator_epoch),
    )
    (row,) = client.ask(WriteTxnMarkersRequest(markers=(marker,))).markers
    assert row.topics[0].partitions[0].error_code == 0


def test_a_clean_log_has_no_remedies(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", cleanup_policy="compact")
    found = explained(broker)
    assert (found.waits_for, found.remedies, found.eligible_at_ms) == ("all_clean", (), None)


def test_an_explanation_is_readable_text(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", 2, cleanup_policy="compact")
    produce(client, "t", ("k", "v"), partition=1)
    found = broker.explain("t")
    text = str(found)
    assert text.splitlines()[0] == "t-0: not eligible (all_clean): nothing is dirty"
    assert "t-1: not eligible (active_segment): all dirty records are in the active segment" in text
    assert "broker.compact('t', force=True)" in text
    assert text in repr(found)


def test_missing_topics_and_partitions_are_reported_in_one_line(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "orders", cleanup_policy="compact")
    create_topic(client, "plain")
    for ask, kind, says in (
        (lambda: broker.explain("order"), Kind.NOT_FOUND, "'orders'"),
        (lambda: broker.explain("orders", 1), Kind.NOT_FOUND, "partition 1 of topic orders not found"),
        (lambda: broker.explain_key("order", "k"), Kind.NOT_FOUND, "'orders'"),
        (
            lambda: broker.explain_key("orders", "k", partition=7),
            Kind.NOT_FOUND,
            "partition 7 of topic orders not found",
        ),
        (lambda: broker.explain_key("orders", 17), Kind.INVALID, "found 17"),  # type: ignore[arg-type]
        (lambda: broker.explain_key("orders", "k", records_max=0), Kind.INVALID, "from 1 to"),
        (lambda: broker.dry_run("orders", records_max="x"), Kind.INVALID, "found 'x'"),  # type: ignore[arg-type]
        (lambda: broker.dry_run("orders", records_max=-1), Kind.INVALID, "from 0 to"),
        (lambda: broker.dry_run("plain"), Kind.CONFLICT, "cleanup.policy is delete"),
    ):
        with pytest.raises(ControlError, match=says) as refused:
            ask()
        assert refused.value.kind is kind


def test_a_lease_is_reported_with_its_end(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", cleanup_policy="compact", internal_segment_bytes=1000)
    for _ in range(4):
        produce(client, "t", ("k", "v" * 600))
    broker.clock.freeze()

    async def pause() -> None:
        await broker.inner.leases.pause(T_0, 60_000)

    broker.run(pause)
    found = explained(broker)
    assert (found.waits_for, found.eligible_at_ms) == ("held", broker.clock.now_ms() + 60_000)
    assert "it will be released at" in found.sentence
    broker.clock.advance(milliseconds=59_999)
    assert not explained(broker).cleaner.passes
    broker.clock.advance(milliseconds=1)
    assert eventually(broker, lambda: explained(broker).eligible or explained(broker).cleaner.passes > 0)


def test_a_moved_clock_ends_the_segment_at_the_predicted_time(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", cleanup_policy="compact", segment_ms=WEEK_MS)
    broker.clock.freeze()
    for _ in range(2):
        produce(client, "t", ("k", "v"), timestamp=broker.clock.now_ms())
    found = explained(broker)
    assert found.rolls_when_advanced_ms == broker.clock.now_ms() + WEEK_MS + 1
    remedy = next(each for each in found.remedies if each.moves == ("advance_clock",))
    assert remedy.eligible_at_ms == found.rolls_when_advanced_ms
    broker.clock.advance(milliseconds=WEEK_MS)
    assert not explained(broker).eligible
    broker.clock.advance(milliseconds=1)
    assert explained(broker).eligible


# Dry runs


def test_a_dry_run_predicts_the_pass(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", cleanup_policy="compact", internal_segment_bytes=1000)
    for number in range(12):
        produce(client, "t", (f"k{number % 3}", "v" * 300))
    (told,) = broker.dry_run("t").partitions
    pass_told = told.would_pass
    assert not explained(broker).cleaner.passes
    assert broker.explain("t").is_eligible
    broker.compact("t")
    done = broker.cleaner_status()[T_0].last_pass
    assert done is not None
    for count in ("records_read", "records_written", "bytes_read", "bytes_written", "removed", "segments_after"):
        assert getattr(pass_told.stats, count) == getattr(done.stats, count)
    assert (pass_told.end_offset, pass_told.are_all_listed) == (done.end_offset, True)
    assert [each.reason for each in pass_told.removals] == ["superseded"] * done.stats.removed.superseded
    assert f"offset {pass_told.removals[0].offset}: superseded" in str(told)


def test_a_forced_dry_run_includes_the_active_segment(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", cleanup_policy="compact", min_compaction_lag_ms=HOUR_MS)
    for _ in range(3):
        produce(client, "t", ("k", "v"))
    assert broker.dry_run("t").removed == 0
    forced = broker.dry_run("t", force=True)
    assert [each.offset for each in forced.partitions[0].would_pass.removals] == [0, 1]
    few = broker.dry_run("t", force=True, records_max=1).partitions[0]
    assert ([each.offset for each in few.would_pass.removals], few.would_pass.are_all_listed) == ([0], False)
    assert len(broker.inner.services.logs.logs[T_0].segments) == 1


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[ottla.Broker]:
    """Run a broker whose passes and dry runs wait after some bytes."""
    overrides = {"log.cleaner.backoff.ms": NEVER_MS, "log.cleaner.io.max.bytes.per.second": 1e-6}
    with ottla.Broker(tmp_path / "slow", overrides=overrides) as running, RawClient(*address(running)) as client:
        create_topic(client, "t", cleanup_policy="compact", internal_segment_bytes=1000)
        for _ in range(4):
            produce(client, "t", ("k", "v" * 600))

        async def begin_to_throttle() -> None:
            # The first bytes after a while are not delayed, nor are all bytes of a short period.
            running.inner.services.cleaning.throttler.observe(1, trio.current_time() - 2 * PERIOD_S)

        running.run(begin_to_throttle)
        yield running


def test_a_dry_run_ends_with_its_caller(slow: ottla.Broker) -> None:
    manager = slow.inner.services.cleaning.manager

    async def ask_and_leave() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dry_run, slow.inner, "t")
            while not manager.is_held(T_0):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    slow.run(ask_and_leave)
    assert not manager.is_held(T_0)


def test_operations_on_the_partition_do_not_wait_for_a_dry_run(slow: ottla.Broker) -> None:
    cleaning = slow.inner.services.cleaning

    async def ask(refused: list[ControlError]) -> None:
        try:
            await dry_run(slow.inner, "t")
        except ControlError as error:
            refused.append(error)

    async def ask_and_pause() -> list[ControlError]:
        refused: list[ControlError] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, refused)
            while not cleaning.manager.is_held(T_0):
                await trio.lowlevel.checkpoint()
            await cleaning.pause(T_0)
        cleaning.resume(T_0)
        return refused

    (error,) = slow.run(ask_and_pause)
    assert (error.kind, "another operation needs the partition" in str(error)) == (Kind.CONFLICT, True)
    assert not cleaning.manager.is_held(T_0)


# Keys


def test_the_history_of_a_key_is_explained(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", 3, cleanup_policy="compact")
    for value in ("1", "22", None):
        produce(client, "t", ("other", "x"), ("key", value), partition=1)
    found = broker.explain_key("t", "key", partition=1)
    assert [each.offset for each in found.history.records] == [1, 3, 5]
    assert [each.value_bytes for each in found.history.records] == [1, 2, None]
    assert [each.superseded_by for each in found.history.records] == [3, 5, None]
    assert {each.goes for each in found.history.records} == {None}
    assert "superseded by offset 3" in str(found)
    newest = broker.explain_key("t", b"key", partition=1, records_max=1).history
    assert ([each.offset for each in newest.records], newest.record_count) == ([5], 3)


def test_a_key_is_searched_in_its_clients_partition(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", 5, cleanup_policy="compact")
    # By kafka-python's murmur2: 21 -> 3 of 5, foobar -> 4 of 5.
    from kafka.partitioner.default import murmur2

    for key in (b"21", b"foobar", b"a-little-bit-long-string"):
        assert broker.explain_key("t", key).partition == (murmur2(key) & 0x7FFFFFFF) % 5


# Over HTTP


def get(broker: ottla.Broker, target: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(broker.admin or "", timeout=60)
    connection.request("GET", target)
    response = connection.getresponse()
    status, answer = response.status, json.loads(response.read())
    connection.close()
    return status, answer


def test_all_explanations_are_available_over_http(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", cleanup_policy="compact")
    for _ in range(2):
        produce(client, "t", ("k", "v"))
    status, answer = get(broker, "/v1/topics/t/explain")
    (row,) = answer["partitions"]
    assert (status, row["waits_for"], row["remedies"][0]["moves"]) == (200, "active_segment", ["next_record"])
    status, answer = get(broker, "/v1/topics/t/dry-run?force=true&partition=0")
    assert (status, answer["partitions"][0]["would_pass"]["stats"]["removed"]["superseded"]) == (200, 1)
    for key in ("key=k", "key=6b&encoding=hex", "key=aw%3D%3D&encoding=base64"):
        status, answer = get(broker, f"/v1/topics/t/explain-key?{key}")
        assert (status, answer["history"]["record_count"]) == (200, 2)
    assert get(broker, "/v1/topics/t/explain-key?key=x&encoding=hex")[0] == 422
    assert get(broker, "/v1/topics/no/explain")[0] == 404


def test_many_partitions_are_explained_in_time_slices(
    broker: ottla.Broker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(client, "many", partitions=20)
    monkeypatch.setattr(time_slices, "SLICE_S", 0)
    monkeypatch.setattr(time_slices, "PASS_S", 0)

    async def passes_taken() -> int:
        before = time_slices.passes()
        await explain(broker.inner, "many")
        return time_slices.passes() - before

    assert broker.run(passes_taken) >= 20


def test_a_jitter_beyond_the_lag_is_named(broker: ottla.Broker, client: RawClient) -> None:
    lags: dict[str, Any] = {"cleanup_policy": "compact", "max_compaction_lag_ms": 60_000, "segment_ms": HOUR_MS}
    create_topic(client, "above", segment_jitter_ms=HOUR_MS, **lags)
    create_topic(client, "below", segment_jitter_ms=60_000, **lags)
    create_topic(client, "bounded", segment_jitter_ms=HOUR_MS, **(lags | {"segment_ms": 60_000}))
    for topic in ("above", "below", "bounded"):
        produce(client, topic, ("k", "v"))
    assert "segment.jitter.ms=3600000 is above max.compaction.lag.ms=60000" in explained(broker, "above").sentence
    assert "jitter" not in explained(broker, "below").sentence + explained(broker, "bounded").sentence
