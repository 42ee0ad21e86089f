"""`ottla serve --workers`: nodes in processes of their own, as clients see them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.server.commands.cli import main
from support.broker.admin import create, metadata, topic_names, wanted
from support.broker.conversation import create_topic, fetch, list_offset, produce, records_of
from support.broker.raw_client import RawClient
from support.broker.serve_process import ServeProcess
from support.transactions.transactional_client import TransactionalClient

UNDER_WAY = ("PrepareCommit", "PrepareAbort")
ANYWHERE = ("--listener", "127.0.0.1:0", "--profile", "dev")


@contextmanager
def serving(data: Path, nodes: int = 2, *more: str) -> Iterator[tuple[ServeProcess, list[RawClient]]]:
    """The broker, and a client of each node."""
    with ExitStack() as stack:
        started = ServeProcess("--data", data, "--nodes", str(nodes), "--workers", *ANYWHERE, *more, obeys=True)
        process = stack.enter_context(started)
        yield process, [stack.enter_context(RawClient(*place)) for place in process.addresses]


def leaders(client: RawClient, topic: str) -> list[int]:
    (row,) = metadata(client, topic).topics
    return [each.leader_id for each in sorted(row.partitions, key=lambda each: each.partition_index)]


def values(client: RawClient, topic: str, partition: int) -> list[bytes | None]:
    return [value for _, _, value in records_of(fetch(client, topic, 0, partition))]


def test_each_node_has_the_records_of_what_it_leads(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as (process, clients):
        assert create_topic(clients[1], "t", partitions=4).error_code == ErrorCode.NONE
        led = leaders(clients[0], "t")
        assert led == leaders(clients[1], "t") and sorted(led) == [0, 0, 1, 1]
        for partition, leader in enumerate(led):
            assert produce(clients[leader], "t", ("k", f"v{partition}"), partition=partition).base_offset == 0
            wrong = produce(clients[1 - leader], "t", ("k", "v"), partition=partition)
            assert wrong.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert values(clients[leader], "t", partition) == [f"v{partition}".encode()]
            assert list_offset(clients[leader], "t", -1, partition) == (ErrorCode.NONE, 1)
        assert process.stop() == (0, "")
    for partition, leader in enumerate(led):
        assert ((data if leader == 0 else tmp_path / "data-node-1") / f"t-{partition}").is_dir()
    with serving(data) as (process, clients):
        for partition, leader in enumerate(leaders(clients[0], "t")):
            assert values(clients[leader], "t", partition) == [f"v{partition}".encode()]


def test_either_node_answers_what_the_first_process_alone_knows(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as (process, clients):
        for client in clients:
            found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)
            assert [(row.error_code, row.node_id) for row in found.coordinators] == [(ErrorCode.NONE, 0)]
            assert [(node.host, node.port) for node in metadata(client).brokers] == process.addresses
        create_topic(clients[0], "a", partitions=2, max_message_bytes=200)
        where = leaders(clients[1], "a").index(1)
        large = produce(clients[1], "a", ("k", "v" * 1_000), partition=where)
        assert large.error_code == ErrorCode.MESSAGE_TOO_LARGE
        gone = DeleteTopicsRequest(topics=(DeleteTopicState(name="a"),), timeout_ms=5_000)
        assert clients[1].ask(gone, 6).responses[0].error_code == ErrorCode.NONE
        assert produce(clients[1], "a", ("k", "v"), partition=where).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert topic_names(clients[0]) == {"__consumer_offsets"}
        assert process.stop() == (0, "")
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize("version", [0, 2])
def test_transactions_span_processes(tmp_path: Path, version: int) -> None:
    with serving(tmp_path / "data") as (process, clients):
        create_topic(clients[0], "t", partitions=2)
        led = leaders(clients[0], "t")
        producer = TransactionalClient(clients[0], "x", version=version)
        producer.begin()
        for commit in True, False:
            for partition, leader in enumerate(led):
                if version == 0:
                    producer.client = clients[0]
                    assert producer.add("t", partition) == ErrorCode.NONE
                producer.client = clients[leader]
                assert producer.send("t", ("k", f"{commit}"), partition=partition).error_code == ErrorCode.NONE
            producer.client = clients[0]
            producer.end(commit=commit)
            while clients[0].ask(ListTransactionsRequest(state_filters=UNDER_WAY), 0).transaction_states:
                pass  # its markers are on their way to the other process
        for partition, leader in enumerate(led):
            row = fetch(clients[leader], "t", 0, partition, committed=True)
            assert (row.last_stable_offset, row.high_watermark, len(row.aborted_transactions or ())) == (4, 4, 1)
        assert process.stop() == (0, "")


def test_a_node_that_stops_hands_its_records_over_and_gets_them_back(tmp_path: Path) -> None:
    with serving(tmp_path / "data", 3) as (process, clients):
        create_topic(clients[0], "t", partitions=3, replicas=3)
        led = leaders(clients[0], "t")
        for partition, leader in enumerate(led):
            produce(clients[leader], "t", ("k", "before"), partition=partition)
        for stopped in 1, 2:
            process.say(f"stop {stopped}\n")
            assert process.hear() == f"stopped {stopped}\n"
        assert leaders(clients[0], "t") == [0, 0, 0]
        for partition in range(3):
            assert produce(clients[0], "t", ("k", "meanwhile"), partition=partition).base_offset == 1
            assert values(clients[0], "t", partition) == [b"before", b"meanwhile"]
        process.say("start 1\nstop 0\n")
        assert [process.hear(), process.hear()] == ["started 1\n", "stopped 0\n"]
        with RawClient(*process.addresses[1]) as client:
            assert leaders(client, "t") == [1, 1, 1]
            for partition in range(3):
                assert produce(client, "t", ("k", "after"), partition=partition).base_offset == 2
                assert values(client, "t", partition) == [b"before", b"meanwhile", b"after"]
        assert process.stop() == (0, "")
    assert "Traceback" not in process.stderr


def test_what_was_acknowledged_survives_a_process_that_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as (process, clients):
        create_topic(clients[0], "t", partitions=2)
        where = leaders(clients[0], "t").index(1)
        for number in range(10):
            assert produce(clients[1], "t", ("k", f"{number}"), partition=where).base_offset == number
        (worker,) = process.children()
        os.kill(worker, signal.SIGKILL)
        # Its port has never been anybody else's: who connects waits for the next one.
        with RawClient(*process.addresses[1]) as client:
            assert produce(client, "t", ("k", "10"), partition=where).base_offset == 10
        process.kill()
    with serving(tmp_path / "data") as (_, clients):
        assert values(clients[1], "t", where) == [b"%d" % number for number in range(11)]


def test_a_node_whose_process_has_just_been_killed_hands_over_what_it_has_left(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as (process, clients):
        create_topic(clients[0], "t", partitions=2, replicas=2)
        where = leaders(clients[0], "t").index(1)
        for number in range(10):
            assert produce(clients[1], "t", ("k", f"{number}"), partition=where).base_offset == number
        (worker,) = process.children()
        os.kill(worker, signal.SIGKILL)
        process.say("stop 1\n")
        assert process.hear() == "stopped 1\n"
        assert leaders(clients[0], "t") == [0, 0]
        assert values(clients[0], "t", where) == [b"%d" % number for number in range(10)]
        process.say("start 1\nstop 0\n")
        assert [process.hear(), process.hear()] == ["started 1\n", "stopped 0\n"]
        with RawClient(*process.addresses[1]) as client:
            assert produce(client, "t", ("k", "10"), partition=where).base_offset == 10
        assert process.stop() == (0, "")
    assert "Traceback" not in process.stderr


def test_a_topic_that_goes_while_a_process_dies_leaves_nothing_to_the_next_of_its_name(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as (process, clients):
        for number in range(3):
            create_topic(clients[0], "t", partitions=2)
            where = leaders(clients[0], "t").index(1)
            with RawClient(*process.addresses[1]) as client:
                assert produce(client, "t", ("k", f"{number}"), partition=where).base_offset == 0
            (worker,) = process.children()
            os.kill(worker, signal.SIGKILL)
            gone = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=5_000)
            assert clients[0].ask(gone, 6).responses[0].error_code == ErrorCode.NONE
            with RawClient(*process.addresses[1]) as client:
                metadata(client)  # it is there again
        process.say("stop 1\n")
        assert process.hear() == "stopped 1\n"
        kept = [name for name in os.listdir(tmp_path / "data-node-1") if name.startswith("t-")]
        assert [name for name in kept if not name.endswith("-delete")] == []
        assert process.stop() == (0, "")


def test_what_is_logged_is_the_same_in_all_processes(tmp_path: Path) -> None:
    with serving(tmp_path / "data", 2, "--verbose") as (process, _):
        (worker,) = process.children()
        assert Path(f"/proc/{worker}/cmdline").read_bytes().split(b"\0")[-2] == b"DEBUG"
        assert process.stop() == (0, "")


REFUSED: dict[tuple[str, ...], str] = {
    (
        "--nodes",
        "1",
    ): "--workers is for several nodes: each but the first gets a process of its own; give --nodes as well",
    ("--admin", "0"): "--workers cannot be had with --admin, which knows only what is in the first process",
    ("--override", "log.dirs=/a,/b"): "--workers cannot be had with several log.dirs: each process has one of its own",
    ("--override", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"): (
        "--workers cannot be had with authorizer.class.name: ACLs that change are known to the first process alone"
    ),
    ("--user", "alice:secret"): "--workers cannot be had with --user, which knows only what is in the first process",
}


@pytest.mark.parametrize("given", REFUSED)
def test_what_cannot_be_had_with_it_is_refused(
    given: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--data", str(tmp_path / "data"), "--nodes", "2", "--workers", *given]) == 2
    assert re.search(re.escape(REFUSED[given]), capsys.readouterr().err)
    assert not (tmp_path / "data").exists()


def test_every_process_tells_the_leaders_of_many_partitions_as_they_are(tmp_path: Path) -> None:
    with serving(tmp_path / "data", 3) as (process, clients):
        elsewhere = [(index, (2, 0)) for index in range(120)]
        create(clients[0], wanted("many", -1, -1, assignments=elsewhere))
        led = leaders(clients[1], "many")
        assert set(led) == {2}
        for order, done in ("stop 2", "stopped 2"), ("start 2", "started 2"):
            process.say(f"{order}\n")
            assert process.hear() == f"{done}\n"
            assert leaders(clients[1], "many") == leaders(clients[0], "many") != led
        elect = ElectLeadersRequest(topic_partitions=None, timeout_ms=60_000)
        assert clients[0].ask(elect).error_code == ErrorCode.NONE
        assert leaders(clients[1], "many") == leaders(clients[0], "many") == led
        assert process.stop() == (0, "")
