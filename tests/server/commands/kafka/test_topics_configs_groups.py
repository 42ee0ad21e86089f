"""`ottla topics`, `configs` and `groups` against a broker: their effects, output and errors."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from support.broker.conversation import create_topic, produce
from support.broker.raw_client import RawClient
from support.broker.serve_process import command
from support.commands.command_runs import Ran, run_command
from support.commands.ended import ended
from support.noted import each_case


@pytest.fixture(autouse=True)
def topics(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create `t` with two partitions, 3 records in the first and 1 in the second; and `empty`.

    Does nothing for a test that names its broker.
    """
    if "bootstrap" in request.fixturenames:
        return
    broker, client = request.getfixturevalue("broker"), request.getfixturevalue("client")
    create_topic(client, "t", 2, cleanup_policy="compact")
    create_topic(client, "empty")
    produce(client, "t", *((f"k{number}", "v") for number in range(3)), partition=0)
    produce(client, "t", ("k", "v"), partition=1)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)


def ran(line: str) -> Ran:
    return run_command(*line.split())


def json_of(line: str) -> Any:
    """Return a command's JSON output."""
    done = ran(f"{line} --json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


# topics


def test_topics_are_listed_without_internal_ones() -> None:
    ran("groups reset g --topic t --to end")  # creates one

    def names(line: str) -> list[str]:
        return [row[0] for row in rows(ran(line).out)[1:]]

    assert names("topics list") == ["empty", "t"]
    assert names("topics list --all") == ["__consumer_offsets", "empty", "t"]
    assert [row["topic"] for row in json.loads(ran("topics list --json").out)] == ["empty", "t"]


def test_a_topic_is_described_as_json() -> None:
    found = json_of("topics describe t")
    assert isinstance(found, dict)
    assert (found["topic"], found["config"]) == ("t", {"cleanup.policy": "compact"})
    assert [(row["log_start_offset"], row["log_end_offset"]) for row in found["partitions"]] == [(0, 3), (0, 1)]
    assert [(Path(row["data_dir"]).is_dir(), row["moving_to"]) for row in found["partitions"]] == [(True, None)] * 2
    assert rows(ran("topics describe t").out)[-1][-1] == found["partitions"][1]["data_dir"]
    status = json_of("topics status t")
    assert isinstance(status, list)
    assert [(row["data_dir"], row["moving_to"]) for row in status] == [
        (row["data_dir"], None) for row in found["partitions"]
    ]


def test_topics_are_deleted_all_or_none() -> None:
    assert ran("topics delete t nope empty").code == 1
    assert ran("topics delete t empty t").out == "deleted t\ndeleted empty\n"
    assert json_of("topics list") == []


def test_status_omits_internal_topics_unless_requested() -> None:
    ran("groups reset g --topic t --to end")
    first_columns = [row[0] for row in rows(ran("topics status").out)[1:]]  # sentences are below the table
    assert [each for each in first_columns if re.fullmatch(r"\S+-[0-9]+", each)] == ["t-0", "t-1"]
    assert not any("__consumer_offsets" in each for each in first_columns)
    assert any(row[0].startswith("__") for row in rows(ran("topics status --all").out))


def test_a_closed_reader_of_status_is_not_a_broker_error(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "wide", 300, cleanup_policy="compact")  # more than a pipe holds
    asked = command("topics", "status", "--json", "--bootstrap", broker.bootstrap)
    with ended(subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE)) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"[\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


# configs


def test_configs_are_set_shown_and_reset() -> None:
    assert ran("configs alter topic:t retention.ms=1000 segment.ms=2000").out == (
        "topic:t has retention.ms=1000, segment.ms=2000 now\n"
    )
    assert rows(ran("configs describe topic:t").out) == [
        ["OPTION", "VALUE"],
        ["cleanup.policy", "compact"],
        ["retention.ms", "1000"],
        ["segment.ms", "2000"],
    ]
    assert ran("configs delete topic:t retention.ms segment.ms").code == 0
    assert rows(ran("configs describe topic:t retention.ms").out)[1] == ["retention.ms", "604800000", "default"]
    assert ran("configs describe topic:empty").out == "topic:empty has no options set; --all shows the defaults\n"
    everything = json_of("configs describe topic:t --all")
    assert isinstance(everything, list) and len(everything) > 20


def test_configs_of_brokers_are_options() -> None:
    assert ran("configs alter broker: log.cleaner.threads=2").code == 0
    assert ["log.cleaner.threads", "2"] in rows(ran("configs describe broker:0").out)
    assert ran("configs alter broker:0 log.cleaner.threads=1").code == 0
    assert ["log.cleaner.threads", "1"] in rows(ran("configs describe broker:0").out)


# groups


def test_groups_are_set_described_and_deleted() -> None:
    assert rows(ran("groups reset g --topic t --to beginning").out)[2:] == [["t", "0", "-", "0"], ["t", "1", "-", "0"]]
    assert rows(ran("groups reset g --topic t:0 --to 2").out)[2:] == [["t", "0", "0", "2"]]
    header, *partitions = rows(ran("groups describe g").out)[1:]
    assert header == ["TOPIC", "PARTITION", "COMMITTED", "LOG END", "LAG", "MEMBER"]
    assert partitions == [["t", "0", "2", "3", "1", "-"], ["t", "1", "0", "1", "1", "-"]]
    assert ran("groups describe g").out.startswith("g  classic group, Empty, 0 members, lag 2\n")
    assert json_of("groups list") == [
        {"group": "g", "type": "classic", "state": "Empty", "protocol_type": "", "partitions": 2}
    ]
    assert ran("groups delete g").out == "deleted g\n"
    assert json_of("groups list") == []


SET_TO = [
    ("beginning", [0, 0]),
    ("end", [3, 1]),
    ("1", [1, 1]),
    ("99", [3, 1]),
    ("+1", [2, 1]),
    ("-1", [0, 0]),
    ("@0", [0, 0]),
    ("2100-01-01T00:00:00Z", [3, 1]),
]


def test_reset_positions_are_selected_by_options() -> None:
    ran("groups reset g --topic t --to 1")
    for to, offsets in SET_TO:
        found = json_of(f"groups reset g --to {to} --dry-run")
        assert isinstance(found, dict) and found["is_dry_run"]
        assert [row["to"] for row in found["partitions"]] == offsets, to
        assert [row["from"] for row in found["partitions"]] == [1, 1], to
        again = json_of("groups describe g")
        assert isinstance(again, dict) and [row["committed_offset"] for row in again["partitions"]] == [1, 1], to


def test_members_are_shown_with_their_partitions(broker: ottla.Broker) -> None:
    kafka = pytest.importorskip("kafka")
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id="g", client_id="shop", auto_offset_reset="earliest"
    )
    try:
        # Otherwise it joins twice; if a poll ends during the second join, 3.0.12 forgets its partitions and reads nothing more.
        consumer.partitions_for_topic("t")
        consumer.subscribe(["t"])
        read = 0  # one partition may come before the other
        while read < 4:
            read += sum(map(len, consumer.poll(timeout_ms=5_000).values()))
        consumer.commit()
        found = rows(ran("groups describe g").out)
        assert found[0][1] == "classic group, Stable, 1 member, lag 0"
        assert {row[5] for row in found[2:]} == {"shop at 127.0.0.1"} or all("shop at" in row[5] for row in found[2:])
        refused = ran("groups delete g")
        assert refused.code == 1 and refused.err.startswith("ottla: NON_EMPTY_GROUP")
        assert ran("groups reset g --to end").code == 1
    finally:
        consumer.close()


def test_a_share_group_is_described_with_members_and_offsets(broker: ottla.Broker, client: RawClient) -> None:
    def beat(epoch: int, *topics: str) -> Any:
        names = topics or None
        beaten = ShareGroupHeartbeatRequest(
            group_id="s", member_id="m", member_epoch=epoch, subscribed_topic_names=names
        )
        return client.ask(beaten)

    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("s",)))
    answer = beat(0, "t")
    assert answer.error_code == 0
    for _ in range(200):
        if answer.assignment is not None and answer.assignment.topic_partitions:
            break
        broker.clock.advance(milliseconds=1_000)
        answer = beat(answer.member_epoch)
    found = ran("groups describe s").out
    assert found.startswith("s  share group, Stable, 1 member, lag 0\n")
    assert [row[:5] for row in rows(found)[2:]] == [["t", "0", "-", "3", "-"], ["t", "1", "-", "1", "-"]]
    beat(-1)
    moved = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=(moved,))
    assert client.ask(AlterShareGroupOffsetsRequest(group_id="s", topics=(topic,))).error_code == 0
    assert rows(ran("groups describe s").out)[2] == ["t", "0", "1", "3", "2", "-"]


def shared(client: RawClient, *topics: str) -> ShareGroupHeartbeatRequest:
    """Join the share group s with a member; return its request to leave."""
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("s",)))
    joining = ShareGroupHeartbeatRequest(group_id="s", member_id="m", subscribed_topic_names=topics)
    assert client.ask(joining).error_code == 0
    return ShareGroupHeartbeatRequest(group_id="s", member_id="m", member_epoch=-1)


def test_a_share_group_is_listed_set_and_deleted(client: RawClient) -> None:
    leaving = shared(client, "t")
    refused = ran("groups reset s --topic t --to beginning")
    assert (refused.code, refused.err) == (1, "ottla: NON_EMPTY_GROUP: The group is not empty.\n")
    assert ran("groups delete s").err.startswith("ottla: NON_EMPTY_GROUP")
    client.ask(leaving)
    assert rows(ran("groups reset s --topic t:0 --to 2").out)[2:] == [["t", "0", "-", "2"]]
    assert rows(ran("groups describe s").out)[2][:5] == ["t", "0", "2", "3", "1"]
    assert rows(ran("groups reset s --topic t:0 --to=-1").out)[2:] == [["t", "0", "2", "1"]]
    assert rows(ran("groups reset s --topic t --to @0 --dry-run").out)[2:] == [
        ["t", "0", "1", "0"],
        ["t", "1", "-", "0"],
    ]
    assert rows(ran("groups reset s --to end").out)[2:] == [["t", "0", "1", "3"], ["t", "1", "-", "1"]]
    assert json_of("groups list") == [
        {"group": "s", "type": "share", "state": "Empty", "protocol_type": "share", "partitions": 2}
    ]
    assert ran("groups describe s").out.startswith("s  share group, Empty, 0 members, lag 0\n")
    assert rows(ran("groups reset s --to beginning").out)[2:] == [["t", "0", "3", "0"], ["t", "1", "1", "0"]]
    assert ran("groups describe s").out.startswith("s  share group, Empty, 0 members, lag 4\n")
    assert ran("groups reset s --to +1 --topic empty").code == 2
    assert ran("groups delete s").out == "deleted s\n"
    assert json_of("groups list") == []
    assert ran("groups describe s").code == 1


def test_a_share_group_is_described_with_its_dead_letter_topic(broker: ottla.Broker, client: RawClient) -> None:
    client.ask(shared(client, "t"))
    assert json_of("groups describe s")["dead_letters"] is None
    for name in "dlq.no name", "dlq.s":
        broker.set_configs("group", "s", {"errors.deadletterqueue.topic.name": name})
        assert ran("groups describe s").out.splitlines()[1] == f"dead letters in {name}: topic not found"
    broker.create_topic("dlq.s", partitions=2)
    broker.produce("dlq.s", "v", partition=1)
    assert ran("groups describe s").out.splitlines()[1] == "dead letters in dlq.s: 1 record"
    assert json_of("groups describe s")["dead_letters"] == {"topic": "dlq.s", "records": 1}


def test_a_streams_group_is_set_and_deleted_once_its_members_have_left(client: RawClient) -> None:
    joining = streams_member()
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("a",)))
    assert client.ask(joining).error_code == 0
    assert ran("groups reset a --topic t --to end").code == 1
    assert ran("groups delete a").err.startswith("ottla: NON_EMPTY_GROUP")
    assert client.ask(StreamsGroupHeartbeatRequest(group_id="a", member_id="m", member_epoch=-1)).error_code == 0
    assert rows(ran("groups reset a --topic t:0 --to 1").out)[2:] == [["t", "0", "-", "1"]]
    assert rows(ran("groups reset a --to=+1").out)[2:] == [["t", "0", "1", "2"]]
    assert json_of("groups list") == [
        {"group": "a", "type": "streams", "state": "Empty", "protocol_type": "streams", "partitions": 1}
    ]
    assert ran("groups delete a").out == "deleted a\n"
    assert json_of("groups list") == []


def streams_member() -> StreamsGroupHeartbeatRequest:
    """Return a request that joins the group a, and reads t and empty."""
    topology = Topology(subtopologies=(Subtopology(subtopology_id="0", source_topics=("t", "empty")),))
    nothing: Any = {"active_tasks": (), "standby_tasks": (), "warmup_tasks": ()}
    return StreamsGroupHeartbeatRequest(
        group_id="a", member_id="m", rebalance_timeout_ms=10_000, process_id="p", topology=topology, **nothing
    )


def test_a_streams_group_is_described_with_its_members_tasks(client: RawClient) -> None:
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("a",)))
    assert client.ask(streams_member()).error_code == 0
    found = json_of("groups describe a")
    assert isinstance(found, dict)
    assert (found["type"], [member["member_id"] for member in found["members"]]) == ("streams", ["m"])
    there = {("t", 0), ("t", 1), ("empty", 0)}
    assert {(row["topic"], row["partition"]) for row in found["partitions"]} <= there


# Errors

REFUSED = {
    "topics describe tt": (1, "UNKNOWN_TOPIC_OR_PARTITION: topic 'tt' not found; did you mean 't'?"),
    "topics create t": (1, "TOPIC_ALREADY_EXISTS"),
    "topics create a/b": (1, "INVALID_TOPIC_EXCEPTION: Topic name is invalid"),
    "topics create u --config retention.ms=x": (1, "INVALID_CONFIG: Invalid value x for configuration retention.ms"),
    "configs describe t": (2, "expected topic:NAME, broker:ID, broker: or group:ID, found 't'; did you mean topic:t?"),
    "configs describe tpoic:t": (2, "found 'tpoic:t'; did you mean topic?"),
    "configs describe topic:": (2, "expected topic:NAME"),
    "configs describe topic:nope": (1, "UNKNOWN_TOPIC_OR_PARTITION"),
    "configs describe topic:t retention.m": (1, "option retention.m of topic:t not found; did you mean retention.ms"),
    "configs describe broker:7": (1, "broker 7 not found; existing brokers: 0"),
    "configs describe broker:x": (2, "expected topic:NAME, broker:ID, broker: or group:ID, found 'broker:x'"),
    "configs alter group:g a=b": (1, "INVALID_CONFIG: Unknown group config name: a"),
    "configs alter topic:t": (2, "the following arguments are required: NAME=VALUE"),
    "configs alter topic:t zork": (2, "expected NAME=VALUE, found 'zork'"),
    "configs alter topic:t zork=1": (1, "INVALID_CONFIG: Unknown topic config name: zork"),
    "configs alter topic:t retention.ms=1 segment.ms=-1": (1, "INVALID_CONFIG: Invalid value -1"),
    "groups describe nope": (1, "group 'nope' not found"),
    "groups delete nope": (1, "group 'nope' not found"),
    "groups reset g": (2, "the following arguments are required: --to"),
    "groups reset g --to end": (2, "group 'g' has no committed offsets; use --topic to select what to set"),
    "groups reset g --to soon --topic t": (2, "expected beginning, end, an offset, +N, -N, a time, e.g."),
    "groups reset g --to +1 --topic t": (2, "the group has no committed offset in t-0 to count from"),
    "groups reset g --to end --topic t:2": (2, "--topic: t has partitions 0 to 1, found 2"),
    "groups reset g --to end --topic nope": (1, "topic 'nope' not found"),
    "groups reset g --to end --topic t:x": (2, "expected TOPIC or TOPIC:PARTITION, found 't:x'"),
}


def test_errors_are_one_line_and_change_nothing() -> None:
    before = [json_of("topics describe t"), json_of("groups list")]
    for line, (code, says) in REFUSED.items():
        done = ran(line)
        assert (done.code, done.out, done.err.count("\n")) == (code, "", 1), (line, done)
        assert done.err.startswith("ottla") and says in done.err, (line, done)
        assert [json_of("topics describe t"), json_of("groups list")] == before, line


@each_case(
    "bootstrap, says",
    [
        ("127.0.0.1:1", "no broker answers at 127.0.0.1:1: Connection refused"),
        ("127.0.0.1:1,127.0.0.1:2", "127.0.0.1:2: Connection refused"),
        ("nonsense", "--bootstrap: invalid broker address 'nonsense'"),
        ("h:0", "with a port from 1 to 65535"),
    ],
)
@each_case("line", ["topics list", "configs describe topic:t", "groups list", "produce t x", "consume t"])
def test_an_unreachable_broker_is_reported_in_one_line(line: str, bootstrap: str, says: str) -> None:
    done = ran(f"{line} --bootstrap {bootstrap}")
    (said,) = done.err.splitlines()
    assert (done.code, done.out, says in said) == (2, "", True)


def test_one_reachable_address_is_enough(broker: ottla.Broker) -> None:
    assert ran(f"topics list --bootstrap 127.0.0.1:1,{broker.bootstrap}").code == 0
