"""`ottla erase`: on Ottla with and without its admin listener, its report, its exit codes, and what it refuses."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.server.config.options.security_options import STANDARD
from ottla.storage.erasure.places import KEYS_MAX
from support.broker.conversation import address
from support.broker.raw_client import RawClient
from support.commands.command_runs import Ran, run_command
from support.noted import each_case
from support.transactions.transactional_client import TransactionalClient

NEVER_MS = 10**14


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ottla.Broker]:
    """Run a broker that cleans nothing by itself, with a topic; commands find it."""
    with ottla.Broker(tmp_path / "data", overrides={"log.cleaner.backoff.ms": NEVER_MS}, admin=0) as running:
        running.create_topic("t", 2, {"cleanup.policy": "compact", "file.delete.delay.ms": 60_000})
        running.produce_all("t", [("17", "new"), ("18", "new"), ("17", "paid"), ("19", None)])
        monkeypatch.setenv("OTTLA_BOOTSTRAP", running.bootstrap)
        monkeypatch.setenv("OTTLA_ADMIN", str(running.admin))
        yield running


@pytest.fixture
def plain(broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch) -> ottla.Broker:
    """Return the broker as any other Kafka: commands do not find its admin listener."""
    monkeypatch.delenv("OTTLA_ADMIN")
    monkeypatch.setattr("ottla.server.commands.frame.options.DEFAULT_ADMIN", "localhost:1")
    return broker


def ran(line: str, stdin: bytes = b"") -> Ran:
    return run_command(*shlex.split(line), stdin=stdin)


def answer(line: str, code: int) -> dict[str, Any]:
    done = ran(f"{line} --json")
    assert done.code == code, done
    found: dict[str, Any] = json.loads(done.out)
    return found


def reasons(found: dict[str, Any]) -> set[str]:
    return {each["why"] for each in found["report"]["places"]}


def test_a_key_is_erased_and_replaced_files_are_removed_later(broker: ottla.Broker) -> None:
    found = answer("erase t 17 --timeout 0", 1)
    assert (found["tombstones_written"], found["values_before"]) == (1, 2)
    assert reasons(found) == {"deleted_file"} and found["report"]["verdict"] == "held"
    assert {record.key for record in broker.records("t")} == {b"18", b"19"}
    broker.clock.advance(minutes=1)
    found = answer("erase t 17 --prove", 0)
    assert (found["tombstones_written"], found["values_before"]) == (0, None)
    assert found["report"]["verdict"] == "gone" and found["report"]["records_searched"] == 2


def test_the_command_waits_until_replaced_files_are_removed(broker: ottla.Broker) -> None:
    broker.set_configs("topic", "t", {"file.delete.delay.ms": 0})
    found = answer("erase t 17", 0)
    assert found["report"]["verdict"] == "gone" and found["report"]["places"] == []


def test_with_a_frozen_clock_the_command_does_not_wait(broker: ottla.Broker) -> None:
    broker.clock.freeze()
    done = ran("erase t 17")
    assert done.code == 1 and "clock is frozen" in done.out


def test_a_key_is_erased_from_each_partition_that_has_it(broker: ottla.Broker) -> None:
    for partition in range(2):
        broker.produce("t", "v", key="everywhere", partition=partition)
    assert answer("erase t everywhere --timeout 0", 1)["tombstones_written"] == 2
    assert b"everywhere" not in {record.key for record in broker.records("t")}


def test_nothing_is_written_for_a_key_that_the_topic_does_not_have(broker: ottla.Broker) -> None:
    found = answer("erase t nothing", 0)
    assert (found["tombstones_written"], found["values_before"]) == (0, 0)


def test_a_tombstone_that_a_pass_has_covered_goes_with_a_new_one(broker: ottla.Broker) -> None:
    broker.compact("t", force=True)
    broker.clock.advance(minutes=1)
    assert reasons(answer("erase t 19 --prove", 0)) == {"tombstone_retention"}
    answer("erase t 19 --timeout 0", 0)
    broker.clock.advance(minutes=1)
    assert answer("erase t 19 --prove", 0)["report"]["verdict"] == "gone"


def test_an_open_transaction_is_named_as_the_reason(broker: ottla.Broker) -> None:
    with RawClient(*address(broker)) as client:
        producer = TransactionalClient(client, "x", version=2)
        producer.begin()
        for partition in range(2):
            producer.add("t", partition)
            producer.produce("t", ("20", "undecided"), partition=partition)
        assert "open_transaction" in reasons(answer("erase t 20", 1))


# Any other Kafka


def test_without_an_admin_listener_tombstones_are_written_and_the_topic_is_read(plain: ottla.Broker) -> None:
    found = answer("erase t 17", 1)
    assert found["tombstones_written"] == 1
    assert reasons(found) == {"read_by_consumers", "tombstone_retention"}
    plain.compact("t", force=True)
    found = answer("erase t 17 --prove", 0)
    assert found["report"]["verdict"] == "tombstones" and reasons(found) == {"tombstone_retention"}
    assert "Files of the brokers" in found["report"]["not_seen"][0]
    assert "Only the topic was read: no admin listener of this cluster" in ran("erase t 17 --prove").out


OTHER_RULES: dict[str, dict[str, str]] = {
    "not_compacted": {"cleanup.policy": "delete"},
    "versioned": {"cleanup.policy": "compact", "ottla.compaction.strategy": "timestamp"},
}


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("why", OTHER_RULES)
def test_a_reader_of_the_topic_knows_its_rules(broker: ottla.Broker, why: str) -> None:
    broker.create_topic("u", 1, OTHER_RULES[why])
    broker.produce_all("u", [("17", "new"), ("17", "paid"), ("17", None)])
    assert reasons(answer("erase u 17 --prove", 1)) == {why}
    with broker.fault("DescribeConfigs", error="TOPIC_AUTHORIZATION_FAILED"):
        done = ran("erase u 17 --prove --json")
    assert done.code == 1 and "options of topic u cannot be read (TOPIC_AUTHORIZATION_FAILED)" in done.err
    assert reasons(json.loads(done.out)) == {"read_by_consumers", "tombstone_retention"}


def test_the_data_directory_says_more_than_reading(plain: ottla.Broker, tmp_path: Path) -> None:
    assert reasons(answer(f"erase t 17 --data {tmp_path}/data", 1)) == {"active_segment"}
    plain.compact("t", force=True)
    found = answer(f"erase t 17 --prove --data {tmp_path}/data", 1)
    assert reasons(found) == {"deleted_file", "tombstone_retention"}


def test_a_snapshot_is_searched_without_a_broker(broker: ottla.Broker, tmp_path: Path) -> None:
    broker.snapshot(tmp_path / "snap")
    answer("erase t 17 --timeout 0", 1)
    broker.clock.advance(minutes=1)
    found = answer(f"erase t 17 --prove --data {tmp_path}/data,{tmp_path}/snap", 1)
    assert reasons(found) == {"snapshot"}


def test_directories_without_the_log_of_the_topic_prove_nothing(broker: ottla.Broker, tmp_path: Path) -> None:
    broker.snapshot(tmp_path / "snap")
    broker.produce("t", "later", key="20")
    found = answer(f"erase t 20 --data {tmp_path}/snap", 1)
    assert found["report"]["verdict"] == "unproven" and found["tombstones_written"] == 0
    assert [each["problem"] for each in found["report"]["unread"]] == [
        "partitions of the topic that have no log here: 0, 1"
    ]


def test_a_listener_of_another_cluster_is_not_used(broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    with ottla.Broker(admin=0) as other:
        done = ran(f"erase t 17 --admin {other.admin}")
        assert done.code == 2 and "is the admin listener of cluster" in done.err
        monkeypatch.delenv("OTTLA_ADMIN")
        monkeypatch.setattr("ottla.server.commands.frame.options.DEFAULT_ADMIN", str(other.admin))
        assert reasons(answer("erase t 17 --prove", 1)) == {"live", "read_by_consumers"}


# Keys, output, errors


@each_case(
    "options, stdin",
    [
        ("17", b""),
        ("3137 --key-encoding hex", b""),
        ("MTc= --key-encoding base64", b""),
        ("--keys-from -", b"17\r\n\n"),
        ("17 --keys-from -", b"17\n"),
    ],
)
def test_keys_are_given_in_each_form(broker: ottla.Broker, options: str, stdin: bytes) -> None:
    done = ran(f"erase t --prove --json {options}", stdin)
    assert [(each["key"], each["values"]) for each in json.loads(done.out)["report"]["keys"]] == [("17", 2)], options


def test_the_report_names_each_place(broker: ottla.Broker) -> None:
    done = ran("erase t 17 --prove")
    assert done.code == 1 and done.err == ""
    lines = done.out.splitlines()
    assert lines[:2] == [
        "t: Not erased: values of the keys were found.",
        "Values found: 2. Tombstones found: 0. Tombstones written: 0.",
    ]
    assert lines[3].endswith(".log") and lines[3] == lines[5]
    assert [line.split(":")[0] for line in lines[4:7:2]] == ["  active_segment", "  live"]


def test_the_page_needs_nothing_else(broker: ottla.Broker, tmp_path: Path) -> None:
    broker.produce("t", "v", key="<script>")
    ran(f"erase t 17 '<script>' --prove --report {tmp_path}/proof.html")
    page = (tmp_path / "proof.html").read_text()
    assert "&lt;script&gt;" in page and "<script" not in page
    assert "src=" not in page and "href=" not in page and "url(" not in page
    done = ran(f"erase t 17 --prove --report {tmp_path}/none/proof.html")
    assert done.code == 1 and "cannot write" in done.err


REFUSED = [
    ("erase t", 2, "no keys"),
    ("erase t 1 --key-encoding hex", 2, "pairs of hexadecimal digits"),
    ("erase t --keys-from /nowhere", 2, "cannot read /nowhere"),
    ("erase t 17 --prove --timeout 1s", 2, "--prove does not wait"),
    ("erase nothing 17", 1, "topic 'nothing' not found"),
    ("erase __consumer_offsets 17", 1, "is internal"),
    ("erase plain 17", 1, "is not compacted: cleanup.policy is delete"),
    ("erase t 17 --bootstrap localhost:1", 2, "no broker answers"),
    ("erase t 17 --admin localhost:1", 2, "no admin listener"),
]


@each_case("line, code, said", REFUSED)
def test_wrong_calls_are_refused_and_write_nothing(broker: ottla.Broker, line: str, code: int, said: str) -> None:
    if "__consumer_offsets" in line:
        broker.commit("g", {("t", 0): 1})
    if "plain" in line:
        broker.create_topic("plain", 1, {"cleanup.policy": "delete"})
    done = ran(line)
    assert (done.code, done.out) == (code, "") and said in done.err, done
    assert len(broker.records("t")) == 4


def test_too_many_keys_are_refused(broker: ottla.Broker) -> None:
    done = ran("erase t --keys-from -", b"\n".join(b"%d" % number for number in range(KEYS_MAX + 1)))
    assert done.code == 2 and f"too many keys ({KEYS_MAX + 1}, limit {KEYS_MAX})" in done.err


def test_after_an_error_the_command_says_what_it_has_written(plain: ottla.Broker) -> None:
    plain.create_topic("one", 1, {"cleanup.policy": "compact"})
    plain.produce("one", "v", key="17")
    with plain.fault("Fetch", error="UNKNOWN_SERVER_ERROR", skip=1, count=None):
        done = ran("erase one 17")
    assert done.code == 1 and "tombstones written: 1; run the command again to continue" in done.err
    assert [record.value for record in plain.records("one")] == [b"v", None]


def test_missing_rights_are_named(tmp_path: Path) -> None:
    options = {"authorizer.class.name": STANDARD, "super.users": "User:root"}
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={login} username="nobody" password="pw";\n'
    )
    with ottla.Broker(users={"root": "pw", "nobody": "pw"}, overrides=options) as broker:
        broker.create_topic("t", 1, {"cleanup.policy": "compact"})
        broker.produce("t", "v", key="17")
        line = f"erase t 17 --bootstrap {broker.bootstrap} --command-config {path}"
        for right in ("DESCRIBE", "DESCRIBE_CONFIGS", "READ"):
            broker.add_acls(f"User:nobody allow {right} topic:t")
            done = ran(line)
            assert done.code == 1 and "READ, WRITE and DESCRIBE_CONFIGS" in done.err, (right, done)
        broker.add_acls("User:nobody allow WRITE topic:t")
        assert ran(line).code == 1
        assert [record.value for record in broker.records("t")] == [b"v", None]
