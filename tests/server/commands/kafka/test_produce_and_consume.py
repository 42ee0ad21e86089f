"""`ottla produce` and `ottla consume` against a broker: records are read as they were written, and each error is one line."""

from __future__ import annotations

import json
import re
import signal
import subprocess

import pytest

import ottla
from support.broker.admin import grow, growth
from support.broker.conversation import create_topic, fetch, produce, records_of
from support.broker.raw_client import RawClient
from support.broker.serve_process import PATIENCE_S, command
from support.commands.command_runs import Ran, run_command
from support.commands.ended import ended
from support.transactions.transactional_client import TransactionalClient

TRIES = 20_000
"""Number of reads of a log, each of which takes a fraction of a millisecond."""


@pytest.fixture
def run(broker: ottla.Broker, client: RawClient, monkeypatch: pytest.MonkeyPatch) -> object:
    create_topic(client, "t", 2)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
    return run_command


def ran(line: str, stdin: bytes = b"") -> Ran:
    return run_command(*line.split(), stdin=stdin)


@pytest.mark.usefixtures("run")
def test_values_keys_headers_and_tombstones_are_printed_as_sent() -> None:
    assert ran("produce t new paid --key 17 --header source=shop --timestamp 1000 --partition 0").out == (
        "t-0: 2 records, offsets 0 to 1\n"
    )
    assert ran("produce t --key 17 --null --timestamp 2500 --partition 0").out == "t-0: 1 record, offset 2\n"
    assert ran("consume t --until-end").out.splitlines() == [
        "0:0        1970-01-01 00:00:01.000  17  new  source=shop",
        "0:1        1970-01-01 00:00:01.000  17  paid  source=shop",
        "0:2        1970-01-01 00:00:02.500  17  (null)",
    ]
    assert [json.loads(line) for line in ran("consume t -e --json --from 1 -n 1").out.splitlines()] == [
        {
            "topic": "t",
            "partition": 0,
            "offset": 1,
            "timestamp_ms": 1000,
            "key": "17",
            "value": "paid",
            "headers": [["source", "shop"]],
        }
    ]
    assert ran("consume t -e --format value").out == "new\npaid\n\n"
    assert ran("consume t -e --format key-value --key-separator =").out == "17=new\n17=paid\n17=\n"


@pytest.mark.usefixtures("run")
def test_records_cannot_control_the_terminal() -> None:
    steers = "\x1b]0;x\x07\n\u202e"
    words = ("produce", "t", steers, "--key", steers, "--header", f"{steers}={steers}", "--partition", "0")
    assert run_command(*words).code == 0
    (line,) = ran("consume t --until-end").out.splitlines()
    assert line.isprintable() and line.count(r"\x1b]0;x\x07\n\u202e") == 4


LINES = {
    "values": ("", b"a\nb\n\nlast without end", [(None, "a"), (None, "b"), (None, ""), (None, "last without end")]),
    "keys": ("--key-separator :", b"k:v\nk:a:b\n:v\nk:\n", [("k", "v"), ("k", "a:b"), ("", "v"), ("k", "")]),
    "tombstones": ("--key-separator : --empty-is-null", b"k:\nk:v\n", [("k", None), ("k", "v")]),
    "one key": ("--key k", b"a\n", [("k", "a")]),
    "objects": (
        "--json-lines",
        b'{"key": "k", "value": null}\n{"value": {"base64": "/w=="}, "offset": 9, "topic": "u"}\n{}\n',
        [("k", None), (None, {"base64": "/w=="}), (None, None)],
    ),
    "nothing": ("", b"", []),
}


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(("options", "lines", "records"), LINES.values(), ids=LINES)
def test_each_line_is_a_record(options: str, lines: bytes, records: list[tuple[object, object]]) -> None:
    assert ran(f"produce t --partition 1 {options}", lines).code == 0
    found = [json.loads(line) for line in ran("consume t --until-end --json").out.splitlines()]
    assert [(each["key"], each["value"]) for each in found] == records


@pytest.mark.usefixtures("run")
def test_json_output_of_consume_is_valid_input_of_produce(client: RawClient) -> None:
    create_topic(client, "copy", 2)
    ran("produce t \\xff --key k --header a=b --header a= --timestamp 5 --partition 1")
    ran("produce t --null --timestamp 6")
    first = ran("consume t -e --json").out
    assert ran("produce copy --json-lines", first.encode()).code == 0
    assert ran("consume copy -e --json").out == first.replace('"topic": "t"', '"topic": "copy"')


WRONG_LINES = {
    "no separator": ("--key-separator :", b"k:v\nnothing\nk:w\n", "line 2: expected KEY:VALUE, found 'nothing'"),
    "no JSON": ("--json-lines", b"{}\n{\n", "line 2: expected a JSON object: "),
    "no object": ("--json-lines", b"{}\n[]\n", "line 2: expected a JSON object, found list"),
    "an unknown field": ("--json-lines", b'{}\n{"valeu": "x"}\n', "line 2: unknown field 'valeu'; a record has: "),
    "a number": (
        "--json-lines",
        b'{}\n{"value": 7}\n',
        'line 2: value: expected a string, null or {"base64": text}, found 7',
    ),
    "no base64": ("--json-lines", b'{}\n{"key": {"base64": "?"}}\n', "line 2: key: expected base64"),
    "headers": (
        "--json-lines",
        b'{}\n{"headers": ["a"]}\n',
        "line 2: headers: expected an array of [name, value] pairs",
    ),
    "a time": (
        "--json-lines",
        b'{}\n{"timestamp_ms": "now"}\n',
        'line 2: timestamp_ms: expected a number, found "now"',
    ),
    "no UTF-8": ("--json-lines", b"{}\n\xff\n", "line 2: invalid UTF-8 at byte 0"),
}


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(("options", "lines", "says"), WRONG_LINES.values(), ids=WRONG_LINES)
def test_an_invalid_line_is_named_and_earlier_lines_are_written(options: str, lines: bytes, says: str) -> None:
    done = ran(f"produce t --partition 0 {options}", lines)
    (line,) = done.err.splitlines()
    assert (
        done.code == 2 and line.startswith(f"ottla: {says}") and line.endswith("; the 1 records before it are written")
    )
    assert len(ran("consume t -e --json").out.splitlines()) == 1


REFUSED = {
    "produce t x --partition 7": (1, "partition 7 of topic 't' not found; it has partitions 0 to 1"),
    "produce t x --partition -1": (2, "argument --partition: expected a number from 0 to 2147483647, found '-1'"),
    "produce t x --null": (2, "--null and VALUE cannot be combined: a tombstone has no value, found 'x'"),
    "produce t x --json-lines": (2, "--key-separator and --json-lines apply to lines of standard input"),
    "produce t --json-lines --key k": (2, "--json-lines cannot be combined with --key,"),
    "produce t --key k --key-separator :": (2, "--key and --key-separator cannot be combined"),
    "produce t --key-separator=": (2, "--key-separator is empty"),
    "produce t x --header zork": (2, "argument --header: expected NAME=VALUE, found 'zork'"),
    "produce t x --timestamp soon": (2, "argument --timestamp: expected a number from 0 to"),
    "consume nope -e": (1, "UNKNOWN_TOPIC_OR_PARTITION: topic 'nope' not found"),
    "consume t -e --partition 2": (2, "--partition: topic t has partitions 0 to 1, found 2"),
    "consume t -e --from now": (2, "--from: expected beginning, end, an offset or -N, found 'now'"),
    "consume t --at 3": (2, "--at and --key-prefix require --latest"),
    "consume t -e --key-prefix a": (2, "--at and --key-prefix require --latest"),
    "consume t --latest --from 3": (2, "--from and --latest cannot be combined"),
    "consume t --latest --at soon": (2, "argument --at: expected a time"),
    "consume t --latest --at 9223372036854775808": (2, "argument --at: offset too large"),
    "consume t -e -n 0": (2, "argument -n/--limit: expected a number from 1 on, found '0'"),
    "consume t -e --format jsn": (2, "argument -f/--format: invalid choice 'jsn'; choose from: text, value, key-value"),
}


@pytest.mark.usefixtures("run")
def test_errors_are_one_line() -> None:
    for line, (code, says) in REFUSED.items():
        done = ran(line)
        assert (done.code, done.out, done.err.count("\n"), says in done.err) == (code, "", 1, True), (line, done)
        assert ran("consume t -e").out == "", line


def values(line: str) -> list[str]:
    return re.findall(r"\d\.\d", ran(f"consume t -f value {line}").out)


@pytest.mark.usefixtures("run")
def test_start_and_end_options_select_records(client: RawClient) -> None:
    for index in range(2):
        produce(client, "t", *((f"k{n}", f"{index}.{n}") for n in range(5)), partition=index)
    assert values("-e") == [f"{index}.{n}" for index in range(2) for n in range(5)]
    assert values("-e --from 3") == ["0.3", "0.4", "1.3", "1.4"]
    assert values("-e --from=-1") == values("-e --from -1") == ["0.4", "1.4"]
    assert values("-e --from end") == values("-e --from 99") == []
    assert values("-e --partition 1 -n 2") == ["1.0", "1.1"]
    assert values("--limit 7") == [*(f"0.{n}" for n in range(5)), "1.0", "1.1"]


def shown(line: str) -> list[str]:
    return ran(line).out.splitlines()


LATEST = {
    "--latest": ["b=2", "customer-1=x", "a=4", "customer-2=y"],
    "--latest --partition 1": ["a=4", "customer-2=y"],
    "--latest --key-prefix customer-": ["customer-1=x", "customer-2=y"],
    "--latest --key-prefix none": [],
    "--latest -n 2": ["b=2", "customer-1=x"],
    "--latest --at 2": ["a=1", "b=2", "a=4", "c=5"],
    "--latest --at 0": [],
    "--latest --at 1970-01-01T00:00:03Z": ["a=1", "b=2"],
    "--latest --at @4000": ["b=2", "a=4"],
    "--latest --at 2030-01-01": ["b=2", "customer-1=x", "a=4", "customer-2=y"],
}


@pytest.mark.usefixtures("run")
def test_latest_shows_the_newest_record_of_each_key_of_a_partition(broker: ottla.Broker) -> None:
    for partition, key, value in (
        *((0, "a", "1"), (0, "b", "2"), (0, "a", None), (1, "a", "4"), (1, "c", "5"), (1, "c", None)),
        *((0, "customer-1", "x"), (1, "customer-2", "y")),
    ):
        at_ms = {"1": 1_000, "2": 2_000, "4": 3_000}.get(str(value), 3_500 if key == "a" else 5_000)
        broker.produce("t", value, key=key, partition=partition, timestamp_ms=at_ms)
    broker.produce("t", "without a key", partition=0)
    found = {line: shown(f"consume t --format key-value --key-separator = {line}") for line in LATEST}
    assert found == LATEST


def versioned(broker: ottla.Broker) -> None:
    configs = {"cleanup.policy": "compact", "ottla.compaction.strategy": "timestamp"}
    broker.create_topic("versions", partitions=1, configs=configs)
    for key, value, at_ms in (("k", "high", 2_000), ("k", "last", 1_000), ("l", None, 2_000), ("l", "last", 1_000)):
        broker.produce("versions", value, key=key, timestamp_ms=at_ms)


@pytest.mark.usefixtures("run")
def test_latest_and_scan_follow_the_strategy(broker: ottla.Broker) -> None:
    versioned(broker)
    latest = ran("consume versions --latest -f value")
    assert (latest.code, latest.out, latest.err) == (0, "high\n", "")
    (counted,) = json.loads(ran("topics describe versions --scan --json").out)["partitions"]
    assert (counted["counts"]["records_max"], counted["counts"]["live_keys_max"]) == (4, 1)


@pytest.mark.usefixtures("run")
def test_latest_says_that_it_may_not_read_the_strategy(broker: ottla.Broker) -> None:
    versioned(broker)
    with broker.fault("DescribeConfigs", error="TOPIC_AUTHORIZATION_FAILED"):
        done = ran("consume versions --latest -f value")
    assert (done.code, done.out) == (0, "last\nlast\n")
    assert done.err == (
        "ottla: options of topic versions cannot be read (TOPIC_AUTHORIZATION_FAILED), so ottla.compaction.strategy is not known:"
        " the last record of a key counts as its newest\n"
    )
    with broker.fault("DescribeConfigs", error="INVALID_REQUEST"):
        assert (done := ran("consume versions --latest")).code == 1 and "INVALID_REQUEST" in done.err


@pytest.mark.usefixtures("run")
def test_latest_leaves_out_records_of_undecided_and_aborted_transactions(
    broker: ottla.Broker, client: RawClient
) -> None:
    broker.produce("t", "1", key="a", partition=0)
    producer = TransactionalClient(client, "x", version=2)
    producer.begin()
    producer.produce("t", ("a", "2"))
    assert shown("consume t --latest --format value") == ["1"]
    producer.end(commit=False)
    assert shown("consume t --latest --format value") == ["1"]
    producer.produce("t", ("a", None))
    producer.end(commit=True)
    assert shown("consume t --latest --format value") == []


@pytest.mark.usefixtures("run")
def test_control_characters_of_records_are_escaped(client: RawClient) -> None:
    produce(client, "t", ("\x1b[2J", "a\nb"))
    assert ran("consume t -e").out.endswith("  \\x1b[2J  a\\nb\n")


def test_a_missing_topic_is_created_if_the_broker_allows_it(broker: ottla.Broker) -> None:
    done = run_command("produce", "fresh", "x", "--bootstrap", broker.bootstrap, "--json")
    assert json.loads(done.out) == [
        {"topic": "fresh", "partition": 0, "records": 1, "first_offset": 0, "last_offset": 0}
    ]


def test_consume_waits_for_records_until_it_is_interrupted(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "later", 2)
    produce(client, "later", ("k", "before"))
    asked = command("consume", "later", "--format", "value", "--bootstrap", broker.bootstrap)
    with ended(subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "before\n"
        produce(client, "later", ("k", "one"), partition=1)
        assert process.stdout.readline() == "one\n"
        produce(client, "later", ("k", "two"))
        assert process.stdout.readline() == "two\n"
        grow(client, growth("later", 3))
        produce(client, "later", ("k", "three"), partition=2)
        assert process.stdout.readline() == "three\n"
        process.send_signal(signal.SIGINT)
        assert (process.wait(PATIENCE_S), process.stderr.read()) == (130, "")


def test_a_future_offset_is_waited_for(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "early")
    produce(client, "early", ("k", "0"))
    asked = command("consume", "early", "--from", "2", "-n", "1", "-f", "value", "--bootstrap", broker.bootstrap)
    with ended(subprocess.Popen(asked, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        produce(client, "early", ("k", "1"))
        produce(client, "early", ("k", "2"))
        assert (process.stdout.read(), process.wait(PATIENCE_S)) == ("2\n", 0)


def test_lines_are_sent_as_they_arrive(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "live")
    asked = command("produce", "live", "--bootstrap", broker.bootstrap)
    with ended(subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdin is not None and process.stdout is not None
        for number, line in enumerate(("first", "second")):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert any(len(records_of(fetch(client, "live", 0))) > number for _ in range(TRIES))
        process.stdin.close()
        assert process.stdout.read() == "live-0: 2 records, offsets 0 to 1\n"
