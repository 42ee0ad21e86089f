"""Brokers that start, stop, are killed and start again: what is kept, what is refused, and that nothing remains behind."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.server.broker.broker import Broker
from ottla.server.config.resources import ConfigResourceType
from ottla.server.network.unsent_answers import UnsentAnswers
from ottla.storage.disk.health import DataDirectoryError
from ottla.storage.topics.config import ConfigError
from support.broker.admin import create, delete_records, metadata, topic_names, wanted
from support.broker.conversation import address, create_topic, fetch, fetch_request, list_offset, produce, records_of
from support.broker.raw_client import RawClient
from support.broker.served import serving
from support.disk.gated_files import GatedFiles

STOP_SOON_S = 60
STOP_DEADLINE_S = 4 * STOP_SOON_S
"""The time that requests in progress get at a stop in these tests, instead of seconds.

It is long, so that a slow stop is not mistaken for one that waited until this time had passed.
"""


def content(directory: Path) -> dict[str, bytes | None]:
    """Return every file and folder below `directory`, with the bytes of the files."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def stopped_soon(broker: ottla.Broker) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        for module in ("run", "node_run"):
            patch.setattr(f"ottla.server.broker.{module}.STOP_DEADLINE_S", STOP_DEADLINE_S)
        started_s = time.monotonic()
        broker.stop()
    return time.monotonic() - started_s < STOP_SOON_S


# What a restart keeps


def commit_offset(client: RawClient, group: str, topic: str, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    row = OffsetCommitRequestTopic(name=topic, partitions=(partition,))
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=-1, member_id="", retention_time_ms=-1, topics=(row,)
    )
    answer = client.ask(request, version=8)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def committed_offset(client: RawClient, group: str) -> int:
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))
    (found,) = client.ask(request, version=8).groups
    offset: int = found.topics[0].partitions[0].committed_offset
    return offset


def fill(client: RawClient) -> None:
    create(client, wanted("t", 3, configs={"retention.ms": "-1", "cleanup.policy": "compact,delete"}))
    for partition in range(3):
        produce(client, "t", ("k", f"v{partition}"), producer_id=77, partition=partition)
    delete_records(client, "t", 1, partition=2)
    commit_offset(client, "g", "t", 5)


def assert_kept(client: RawClient, before: Any) -> None:
    after = metadata(client)
    assert after.cluster_id == before.cluster_id
    assert {topic.name: topic for topic in after.topics} == {topic.name: topic for topic in before.topics}
    assert [records_of(fetch(client, "t", 0, partition)) for partition in range(2)] == [
        [(0, b"k", b"v0")],
        [(0, b"k", b"v1")],
    ]
    assert list_offset(client, "t", -2, partition=2) == (ErrorCode.NONE, 1)
    again = produce(client, "t", ("k", "v0"), producer_id=77)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0), "the producer's last batch is remembered"
    assert committed_offset(client, "g") == 5
    resource = DescribeConfigsResource(
        resource_type=ConfigResourceType.TOPIC, resource_name="t", configuration_keys=("cleanup.policy",)
    )
    (described,) = client.ask(DescribeConfigsRequest(resources=(resource,))).results
    assert described.configs[0].value == "compact,delete"


def test_a_restart_keeps_everything(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        fill(client)
        before = metadata(client)
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    for _ in range(2):
        with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
            assert not (tmp_path / ".kafka_cleanshutdown").exists()
            assert_kept(client, before)


def test_a_killed_broker_keeps_everything_acknowledged(tmp_path: Path) -> None:
    running, killed = tmp_path / "running", tmp_path / "killed"
    with ottla.Broker(str(running)) as broker, RawClient(*address(broker)) as client:
        fill(client)
        before = metadata(client)
        # Checkpoints are written during the copy; a kill leaves the old file of an unfinished one.
        shutil.copytree(running, killed, ignore=shutil.ignore_patterns("*.tmp"))
    with ottla.Broker(str(killed)) as broker, RawClient(*address(broker)) as client:
        assert_kept(client, before)


def test_a_broker_may_be_started_again_after_its_stop(tmp_path: Path) -> None:
    broker = ottla.Broker(str(tmp_path))
    for expected in range(3):
        with broker, RawClient(*address(broker)) as client:
            create_topic(client, "t")
            assert produce(client, "t", ("k", "v")).base_offset == expected
    broker.stop()


def test_a_cleaner_checkpoint_beyond_its_log_is_removed_before_the_log_grows(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        produce(client, "t", ("k", "v"))
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    with ottla.Broker(str(tmp_path)):
        assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 0\n"


def test_without_a_directory_nothing_is_kept() -> None:
    with ottla.Broker() as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        produce(client, "t", ("k", "v"))
        (directory,) = (Path(path) for path in broker.inner.services.logs.data_dirs)
        assert (directory / "t-0").is_dir()
    assert not directory.exists()


# Directories that do not match the catalog


def test_a_missing_partition_directory_is_created(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        topic_id = create_topic(client, "t", partitions=3).topic_id
        produce(client, "t", ("k", "v"))
    shutil.rmtree(tmp_path / "t-1")
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert produce(client, "t", ("k", "v"), partition=1).base_offset == 0
        assert produce(client, "t", ("k", "v")).base_offset == 1
        assert metadata(client, "t").topics[0].topic_id == topic_id
    assert (tmp_path / "t-1" / "partition.metadata").exists()


@pytest.mark.parametrize("stray", ["unknown-0", "t-1"])
def test_a_directory_without_its_topic_is_set_aside(
    tmp_path: Path, stray: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        produce(client, "t", ("k", "v"))
    shutil.copytree(tmp_path / "t-0", tmp_path / stray)
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert topic_names(client) == {"t"}
        assert records_of(fetch(client, "t", 0)) == [(0, b"k", b"v")]
        (aside,) = tmp_path.glob(f"{stray}.*-stray")
    assert (aside / "00000000000000000000.log").read_bytes() == (tmp_path / "t-0/00000000000000000000.log").read_bytes()
    assert f"{stray} does not belong to a topic in the catalog" in caplog.text


@pytest.mark.scenario(197)
def test_a_directory_of_an_earlier_topic_of_that_name_is_set_aside(tmp_path: Path) -> None:
    """A deletion that was interrupted between catalog and directory leaves this, if the topic is then created again."""
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        produce(client, "t", ("old", "v"))
    catalog = json.loads((tmp_path / "ottla.json").read_text())
    catalog["topics"]["t"]["id"] = "AAAAAAAAAAAAAAAAAAAAAQ"
    (tmp_path / "ottla.json").write_text(json.dumps(catalog))
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert records_of(fetch(client, "t", 0)) == []
        assert metadata(client, "t").topics[0].topic_id == bytes(15) + b"\x01"
        assert len(list(tmp_path.glob("t-0.*-stray"))) == 1


def test_partition_directories_without_other_files_are_served_with_their_ids(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        topic_id = create_topic(client, "t", partitions=2).topic_id
        produce(client, "t", ("k", "v"), partition=1)
    (tmp_path / "ottla.json").unlink()
    (tmp_path / "meta.properties").unlink()
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        (topic,) = metadata(client).topics
        assert (topic.name, topic.topic_id, len(topic.partitions)) == ("t", topic_id, 2)
        assert records_of(fetch(client, "t", 0, partition=1)) == [(0, b"k", b"v")]


def test_the_directorys_node_id_is_used_if_none_is_configured(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), overrides={"node.id": "7"}) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
    with ottla.Broker(str(tmp_path), nodes=2) as broker, RawClient(*address(broker)) as client:
        answer = metadata(client)
        assert [node.node_id for node in answer.brokers] == [7, 8]
        assert answer.topics[0].partitions[0].leader_id == 7
    for option in ("node.id", "broker.id"):
        with pytest.raises(DataDirectoryError, match=r"belongs to node 7, but node.id is 0"):
            ottla.Broker(str(tmp_path), overrides={option: "0"}).start()


def test_with_fewer_nodes_than_before_every_partition_has_a_leader(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), nodes=3) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", partitions=6, replicas=2)
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        (topic,) = metadata(client, "t").topics
        assert [(row.leader_id, row.replica_nodes) for row in topic.partitions] == [(0, (0,))] * 6
        assert {produce(client, "t", ("k", "v"), partition=index).base_offset for index in range(6)} == {0}


def test_dynamic_configs_that_contradict_changed_options_are_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Broker(str(tmp_path)) as broker:
        broker.run(broker.inner.services.config_changes.alter_broker, "", {"log.cleaner.min.compaction.lag.ms": "1000"})
    overrides = {"log.cleaner.max.compaction.lag.ms": "10"}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        assert create_topic(client, "t").error_code == ErrorCode.NONE
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1 and told[0].startswith("stored broker configs of node 0 ignored: Invalid value 1000 for")


# Stopping


def test_a_stop_answers_waiting_fetches(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t")
    client.send(fetch_request("t", 0, max_wait_ms=600_000), version=12)
    assert metadata_is_answered(broker)
    assert stopped_soon(broker)
    assert client.receive().responses[0].partitions[0].error_code == ErrorCode.NONE


def metadata_is_answered(broker: ottla.Broker) -> bool:
    """Return whether a second request is answered, which shows that the one before has reached the broker."""
    with RawClient(*address(broker)) as other:
        return bool(other.ask(MetadataRequest(topics=())).brokers)


def test_a_stop_ends_waiting_joins(tmp_path: Path) -> None:
    overrides = {"group.initial.rebalance.delay.ms": "600000"}
    broker = ottla.Broker(str(tmp_path), overrides=overrides)
    with broker, RawClient(*address(broker)) as client:
        metadata(client, "__consumer_offsets", create=True)
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=600_000,
            member_id="",
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )
        client.send(request, version=2)
        assert metadata_is_answered(broker)
        assert stopped_soon(broker)
        assert client.receive().error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_a_stop_closes_idle_clients(broker: ottla.Broker) -> None:
    clients = [RawClient(*address(broker)) for _ in range(20)]
    for client in clients[:10]:
        assert client.ask(MetadataRequest(topics=())).brokers
    for client in clients[10:]:
        client.send_bytes(b"\0\0")
    assert stopped_soon(broker)
    for client in clients:
        assert client.is_closed_by_peer()
        client.close()


@pytest.mark.scenario(210)
async def test_a_stop_cancels_a_running_clean_pass(tmp_path: Path) -> None:
    files = GatedFiles()

    async def release_once_it_stops(broker: Broker) -> None:
        while not broker.services.cluster.is_stopping:
            await trio.lowlevel.checkpoint()
        files.let_on()

    async with trio.open_nursery() as nursery, serving(tmp_path, files, log_cleaner_backoff_ms="1") as served:
        await served.ask(
            create_topic, "t", cleanup_policy="compact", internal_segment_bytes=1000, min_cleanable_dirty_ratio=0
        )
        for number in range(20):
            await served.ask(produce, "t", (f"k{number % 3}", "v" * 600))
        await files.reached()
        nursery.start_soon(release_once_it_stops, served.broker)
    left = {path.suffix for path in (tmp_path / "t-0").iterdir()}
    assert left.isdisjoint({".cleaned", ".swap", ".deleted"})
    async with serving(tmp_path, files, log_cleaner_enable="false") as served:
        found: list[int] = []
        while records := records_of(await served.ask(fetch, "t", len(found))):
            found += [offset for offset, _, _ in records]
        assert found == list(range(20)), "the pass was given up before it had taken anything away"


def test_a_stop_during_connections_is_clean(tmp_path: Path) -> None:
    """A client that the kernel has announced and the broker has not accepted must not disturb the stop."""

    async def connect_and_stop() -> None:
        async with ottla.open_broker(str(tmp_path)) as broker:
            listening = broker.nodes[0].listeners[0]
            await trio.testing.wait_all_tasks_blocked()
            clients = [socket.create_connection((listening.host, listening.port)) for _ in range(3)]
            await trio.lowlevel.checkpoint()
        for client in clients:
            client.close()

    for _ in range(10):
        trio.run(connect_and_stop)
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_stopping_twice_or_before_a_start_is_harmless(tmp_path: Path) -> None:
    broker = ottla.Broker(str(tmp_path))
    broker.stop()
    broker.start()
    with pytest.raises(RuntimeError, match="already running"):
        broker.start()
    broker.stop()
    broker.stop()


def test_no_thread_is_left_after_a_stop(tmp_path: Path) -> None:
    others = set(threading.enumerate())
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
    assert "ottla-broker" not in {thread.name for thread in set(threading.enumerate()) - others}


# In Trio


async def test_a_broker_runs_inside_trio(tmp_path: Path) -> None:
    async with ottla.open_broker(str(tmp_path)) as broker:
        with await trio.to_thread.run_sync(RawClient, *address(broker)) as client:
            answer = await trio.to_thread.run_sync(metadata, client)
    assert answer.cluster_id == broker.services.cluster.cluster_id
    assert (tmp_path / ".kafka_cleanshutdown").exists()


async def test_an_error_of_the_body_is_raised_unchanged_after_a_clean_stop(tmp_path: Path) -> None:
    error = LookupError("of the body")
    with pytest.raises(LookupError) as caught:
        async with ottla.open_broker(str(tmp_path)):
            raise error
    assert caught.value is error
    assert (tmp_path / ".kafka_cleanshutdown").exists()


async def test_a_cancelled_body_stops_the_broker_cleanly(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with ottla.open_broker(str(tmp_path)):
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert (tmp_path / ".kafka_cleanshutdown").exists()


async def test_an_internal_error_of_the_broker_is_raised_from_the_body(tmp_path: Path) -> None:
    async def fail() -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        async with ottla.open_broker(str(tmp_path)) as broker:
            broker.tasks.start_soon(fail)
            await trio.sleep_forever()


async def test_an_error_of_a_shared_network_task_is_raised_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: UnsentAnswers) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(UnsentAnswers, "run", fail)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        async with ottla.open_broker(str(tmp_path)):
            await trio.sleep_forever()


# Starts that fail


def test_two_brokers_cannot_have_one_directory(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        before = content(tmp_path)
        with pytest.raises(DataDirectoryError, match=f"^data directory {tmp_path}: .*(locked|in use|held)[^\n]*$"):
            ottla.Broker(str(tmp_path)).start()
        assert content(tmp_path) == before
        create_topic(client, "t")
        assert produce(client, "t", ("k", "v")).base_offset == 0
    with ottla.Broker(str(tmp_path)):
        pass


def test_a_port_in_use_is_reported_and_nothing_is_written(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path / "first")) as broker:
        taken = broker.bootstrap
        with pytest.raises(OSError, match=rf"^cannot listen on PLAINTEXT://{taken}: .*in use$"):
            ottla.Broker(str(tmp_path / "second"), listener=taken).start()
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"overrides": {"num.partitions": "0"}},
            "Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        ({"overrides": {"log.dirs": ""}}, "log.dirs"),
        ({"profile": "fast"}, "Invalid value fast for --profile: must be one of: kafka, dev"),
        ({"nodes": 0}, "Invalid value 0 for --nodes: must be between 1 and 1000"),
        ({"listener": "localhost"}, "Invalid value localhost for listener: must be HOST:PORT, e.g. 127.0.0.1:0"),
        ({"overrides": {"listeners": "SSL://localhost:0"}}, "ssl.keystore.location is not set"),
        ({"overrides": {"listeners": "SASL_PLAINTEXT://localhost:0"}}, "sasl.enabled.mechanisms"),
    ],
)
def test_an_invalid_option_is_reported_and_nothing_is_written(
    tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ottla.Broker(str(tmp_path / "data"), **options).start()
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "data").exists()


def meta_properties(node_id: int = 0, cluster_id: str = "c") -> str:
    return f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\n"


UNUSABLE = {
    "of another node": ({"meta.properties": meta_properties(node_id=5)}, "belongs to node 5, but node.id is 0"),
    "of nobody we know": ({"meta.properties": "version=9\n"}, "meta.properties"),
    "with a damaged identity": ({"meta.properties": "\xff\xfe"}, "meta.properties"),
    "with a damaged catalog": ({"meta.properties": meta_properties(), "ottla.json": "{"}, "invalid catalog"),
    "with a newer catalog": ({"meta.properties": meta_properties(), "ottla.json": '{"version": 99}'}, "version"),
    "with the catalog of another cluster": (
        {
            ".lock": "",
            "meta.properties": meta_properties(),
            "ottla.json": '{"version": 1, "cluster_id": "other", "next_producer_id": 0, "features": {},'
            ' "broker_configs": {}, "topics": {}}',
            "stray-0/00000000000000000000.log": "",
        },
        "cluster",
    ),
}


@pytest.mark.parametrize(("present", "says"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_an_unusable_directory_is_left_unchanged(tmp_path: Path, present: dict[str, str], says: str) -> None:
    for name, text in present.items():
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(text, encoding="latin-1")
    before = content(tmp_path)
    with pytest.raises(DataDirectoryError, match=says) as caught:
        ottla.Broker(overrides={"log.dirs": f"{tmp_path}/new,{tmp_path}/data", "node.id": "0"}).start()
    assert "\n" not in str(caught.value)
    assert content(tmp_path) == before


def test_a_directory_inserted_before_the_existing_ones_does_not_hide_the_catalog(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path / "old")) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", retention_ms=12345)
    overrides = {"log.dirs": f"{tmp_path}/new,{tmp_path}/old"}
    with ottla.Broker(overrides=overrides) as broker, RawClient(*address(broker)) as client:
        assert broker.inner.services.cluster.catalog.topics["t"].configs == {"retention.ms": "12345"}
        create_topic(client, "u")
    assert (tmp_path / "new" / "u-0").exists() and not (tmp_path / "new" / "ottla.json").exists()


def test_a_file_is_not_a_data_directory(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("precious")
    with pytest.raises(DataDirectoryError, match=f"^data directory {tmp_path}/data: "):
        ottla.Broker(str(tmp_path / "data")).start()
    assert content(tmp_path) == {"data": b"precious"}


def test_after_a_failed_start_the_same_broker_may_be_started(tmp_path: Path) -> None:
    broker = ottla.Broker(str(tmp_path))
    with ottla.Broker(str(tmp_path)):
        with pytest.raises(DataDirectoryError):
            broker.start()
        broker.stop()
    with broker:
        assert metadata_is_answered(broker)
