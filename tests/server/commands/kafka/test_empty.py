"""`ottla empty`: each policy, open transactions, a kill while the policy is put aside, missing rights."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
from typing import Any

import pytest

import ottla
from ottla.server.commands.kafka.asking import connected
from ottla.server.commands.kafka.empty import policy_aside
from support.broker.raw_client import RawClient
from support.broker.serve_process import command
from support.commands.command_runs import Ran, run_command
from support.noted import each_case
from support.transactions.transactional_client import TransactionalClient

POLICIES: dict[str, dict[str, Any]] = {
    "delete": {"cleanup.policy": "delete"},
    "compact": {"cleanup.policy": "compact"},
    "compact, with options that are put aside": {
        "cleanup.policy": "compact",
        "retention.ms": 60_000,
        "segment.bytes": 1 << 20,
    },
    "both": {"cleanup.policy": "compact,delete"},
    "none": {"cleanup.policy": ""},
    "the default": {},
}


@pytest.fixture(autouse=True)
def bootstrap(broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)


def ran(line: str) -> Ran:
    return run_command(*shlex.split(line))


def options_of(topic: str) -> dict[str, str]:
    """Return the options that are set for the topic."""
    return {each["name"]: each["value"] for each in json.loads(ran(f"configs describe topic:{topic} --json").out)}


def fill(broker: ottla.Broker, configs: dict[str, Any], topic: str = "t") -> None:
    broker.create_topic(topic, 3, configs)
    for partition in (0, 2):
        broker.produce_all(topic, [ottla.NewRecord("v", str(number), partition=partition) for number in range(4)])


@each_case("name", POLICIES)
def test_a_topic_of_each_policy_is_empty_and_as_before(broker: ottla.Broker, name: str) -> None:
    topic = f"t{list(POLICIES).index(name)}"
    fill(broker, POLICIES[name], topic)
    before = options_of(topic)
    done = ran(f"empty {topic} --json")
    assert done.code == 0
    assert json.loads(done.out) == {
        "topic": topic,
        "partitions": [{"partition": index, "log_start_offset": start} for index, start in enumerate((4, 0, 4))],
    }
    assert broker.records(topic) == [] and options_of(topic) == before
    assert ("is put aside" in done.err) == name.startswith("compact")
    later = broker.produce(topic, "v", key="k", partition=0)
    assert later.offset == 4 and broker.records(topic) == [later]


def test_records_of_open_transactions_go_and_the_transaction_can_end(broker: ottla.Broker, client: RawClient) -> None:
    fill(broker, {"cleanup.policy": "compact"})
    producer = TransactionalClient(client, "x", version=2)
    producer.begin()
    producer.add("t", 0)
    producer.produce("t", ("k", "v"))
    assert ran("empty t").code == 0
    assert broker.records("t") == []
    producer.end(commit=True)
    assert broker.records("t", isolation="read_committed") == []
    assert broker.produce("t", "v", key="k", partition=0).offset == 6


def test_the_table_has_a_row_for_each_partition(broker: ottla.Broker) -> None:
    fill(broker, {})
    assert ran("empty t").out.splitlines() == [
        "PARTITION  LOG START OFFSET",
        "        0                 4",
        "        1                 0",
        "        2                 4",
    ]


def test_options_are_restored_after_a_kill_by_the_command_that_was_printed(broker: ottla.Broker) -> None:
    fill(broker, POLICIES["compact, with options that are put aside"])
    before = options_of("t")
    with broker.fault("DeleteRecords", delay=3_600, skip=1) as fault:
        process = subprocess.Popen(command("empty", "t"), stderr=subprocess.PIPE, text=True)
        fault.wait()
        process.kill()
        _, said = process.communicate()
    assert options_of("t") == before | {
        "cleanup.policy": "compact,delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }
    for line in said.strip().partition("run: ")[2].split(" && "):
        assert ran(line.removeprefix("ottla ")).code == 0
    assert options_of("t") == before


def test_options_are_restored_after_sigterm(broker: ottla.Broker) -> None:
    fill(broker, {"cleanup.policy": "compact"})
    with broker.fault("DeleteRecords", delay=3_600, skip=1) as fault:
        process = subprocess.Popen(command("empty", "t"), stderr=subprocess.DEVNULL)
        fault.wait()
        process.terminate()
        process.wait()
    assert options_of("t") == {"cleanup.policy": "compact"}


def test_the_command_that_restores_options_names_the_same_brokers(
    broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker, {"cleanup.policy": "compact"})
    monkeypatch.delenv("OTTLA_BOOTSTRAP")
    where = f"--bootstrap {broker.bootstrap}"
    lines = ran(f"empty t {where}").err.strip().partition("run: ")[2].split(" && ")
    assert len(lines) == 2 and all(line.endswith(where) for line in lines)
    for line in lines:
        assert ran(line.removeprefix("ottla ")).code == 0


def test_two_runs_at_once_leave_the_options_as_they_were(broker: ottla.Broker) -> None:
    """The second run reads the options while the first has put them aside, and ends after it."""
    before = {"cleanup.policy": "compact", "retention.ms": None, "retention.bytes": None}
    fill(broker, {"cleanup.policy": "compact"})
    options = argparse.Namespace(bootstrap=broker.bootstrap, command_config=None)
    with connected(options) as cluster, policy_aside(cluster, "t", options):
        with policy_aside(cluster, "t", options):
            cluster.kafka.set_configs("topic", "t", before)
        assert options_of("t") == {"cleanup.policy": "compact"}


@each_case("error", ["REQUEST_TIMED_OUT", "UNKNOWN_SERVER_ERROR"])
def test_options_are_restored_after_an_error_that_leaves_it_open(broker: ottla.Broker, error: str) -> None:
    fill(broker, {"cleanup.policy": "compact"}, error)
    with broker.fault("IncrementalAlterConfigs", error=error, after=True):
        done = ran(f"empty {error}")
    assert done.code == 1 and error in done.err
    assert options_of(error) == {"cleanup.policy": "compact"}


def test_options_are_restored_after_an_error(broker: ottla.Broker) -> None:
    fill(broker, {"cleanup.policy": "compact"})
    with broker.fault("DeleteRecords", error="UNKNOWN_SERVER_ERROR", skip=1):
        done = ran("empty t")
    assert done.code == 1 and "UNKNOWN_SERVER_ERROR" in done.err
    assert options_of("t") == {"cleanup.policy": "compact"}
    with broker.fault("IncrementalAlterConfigs", error="UNKNOWN_SERVER_ERROR", skip=1):
        done = ran("empty t")
    assert done.code == 1 and "options of topic t were not restored" in done.err
    assert options_of("t")["cleanup.policy"] == "compact,delete"


def test_tombstones_delete_every_live_key_in_its_partition(broker: ottla.Broker) -> None:
    fill(broker, {"cleanup.policy": "compact"})
    broker.produce("t", None, key="3", partition=2)
    done = ran("empty t --tombstones --json")
    assert (done.code, done.err) == (0, "")
    assert [row["tombstones"] for row in json.loads(done.out)["partitions"]] == [4, 0, 3]
    newest = {(each.partition, each.key): each.value for each in broker.records("t")}
    assert len(newest) == 8 and set(newest.values()) == {None}
    assert json.loads(ran("empty t --tombstones --json").out)["partitions"][0]["tombstones"] == 0


def test_records_without_a_key_are_counted_and_stay(broker: ottla.Broker) -> None:
    broker.create_topic("t", 1)
    broker.produce("t", "v")
    done = json.loads(ran("empty t --tombstones --json").out)
    assert done["partitions"] == [{"partition": 0, "tombstones": 0, "records_without_key": 1}]


def test_tombstones_are_refused_where_they_may_lose(broker: ottla.Broker) -> None:
    fill(broker, {"cleanup.policy": "compact", "ottla.compaction.strategy": "timestamp"})
    done = ran("empty t --tombstones")
    assert (done.code, done.out) == (1, "") and "run `ottla empty t` without --tombstones" in done.err
    assert len(broker.records("t")) == 8
    assert ran("empty t").code == 0 and not broker.records("t")
