"""`ottla topics status`, and the part of DescribeLogDirs that it needs."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.apis import APIS
from ottla.protocol.connection import encode_request
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.server.commands.cli import main
from ottla.server.runtime.clock import wall_time_ms
from support.broker.background_jobs import eventually
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient
from support.transactions.transactional_client import TransactionalClient

HOUR_MS = 3_600_000
DESCRIBE_LOG_DIRS = 35
T_ONLY = (DescribableLogDirTopic(topic="t", partitions=(0, 1)),)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    """Run a broker that cleans only after a test has moved its clock."""
    with ottla.Broker(str(tmp_path), overrides={"log.cleaner.backoff.ms": str(10**9)}) as running:
        yield running


def fill(client: RawClient, topic: str, **configs: Any) -> None:
    """Write ten closed segments of one key, and one more."""
    sizes = {"internal_segment_bytes": 1000, "segment_ms": 10**12}
    create_topic(client, topic, **{"cleanup_policy": "compact", **sizes, **configs})
    for _ in range(11):
        produce(client, topic, ("k", "v" * 600))


def clean(broker: ottla.Broker) -> None:
    """Let the cleaner look once more, and wait until it has nothing left to do."""
    broker._call(broker.inner.clock.advance, 10**9)  # like real time: this rolls nothing

    def is_done() -> bool:
        found = [each.eligibility for each in broker.cleaner_status().values()]
        return not any(each.eligible or each.state != "not held" for each in found)

    assert eventually(broker, is_done)


Status = Callable[..., str]


@pytest.fixture
def status(broker: ottla.Broker, capsys: pytest.CaptureFixture[str]) -> Status:
    """Return a function for the command's output."""

    def run(*arguments: str) -> str:
        capsys.readouterr()
        assert main(["topics", "--bootstrap", broker.bootstrap.split(",")[0], "status", *arguments]) == 0
        return capsys.readouterr().out

    return run


def rows(table: str) -> list[list[str]]:
    """Return the cells of a printed table; two spaces end one."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in table.splitlines()]


def test_a_row_shows_completed_and_remaining_work(broker: ottla.Broker, client: RawClient, status: Status) -> None:
    fill(client, "t", min_cleanable_dirty_ratio=0)
    header, row, *_ = rows(status("t"))
    assert header[:5] == ["PARTITION", "FIRST DIRTY", "BOUND", "LOG END", "DIRTY"]
    assert row == ["t-0", "0", "10", "11", "1.000", "0", "0", "-", "now"]
    clean(broker)
    _, row, why, where = rows(status("t"))
    assert row == ["t-0", "10", "10", "11", "0.000", "0", "1", "9", "no"]
    assert why[0].startswith("t-0: active_segment: all dirty records are in the active segment")
    assert where[0].startswith("in /") and where[0].endswith(": all")


def test_a_due_time_is_shown_if_only_time_is_missing(broker: ottla.Broker, client: RawClient, status: Status) -> None:
    began_ms = wall_time_ms()
    fill(client, "t", min_compaction_lag_ms=HOUR_MS)
    (found,) = json.loads(status("t", "--json"))
    assert (found["waits_for"], found["eligible"]) == ("min_compaction_lag", False)
    assert began_ms + HOUR_MS <= found["eligible_at_ms"] <= wall_time_ms() + HOUR_MS
    _, row, *_ = rows(status())
    due = datetime.strptime(row[8], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    assert due.timestamp() == found["eligible_at_ms"] // 1000
    broker.advance_clock(2 * HOUR_MS)
    (found,) = json.loads(status("t", "--json"))
    assert (found["waits_for"], found["eligible"], found["eligible_at_ms"]) == (None, True, None)


def test_without_names_compacted_topics_are_shown_in_order(
    broker: ottla.Broker, client: RawClient, status: Status
) -> None:
    create_topic(client, "u", 12, cleanup_policy="compact")
    create_topic(client, "plain")
    create_topic(client, "t", cleanup_policy="compact,delete")
    assert [row[0] for row in rows(status())[1:14]] == ["t-0", *(f"u-{index}" for index in range(12))]
    assert [row[0] for row in rows(status("plain", "t"))[1:3]] == ["plain-0", "t-0"]
    (found,) = json.loads(status("plain", "--json"))
    assert found["waits_for"] == "not_compacted"


def test_json_has_all_fields_of_the_last_pass(broker: ottla.Broker, client: RawClient, status: Status) -> None:
    fill(client, "t", min_cleanable_dirty_ratio=0)
    clean(broker)
    (found,) = json.loads(status("t", "--json"))
    assert (found["topic"], found["partition"], found["cleanup_policy"]) == ("t", 0, ["compact"])
    assert (found["passes"], found["last_pass"]["end_offset"]) == (1, 10)
    stats = found["last_pass"]["stats"]
    assert stats["removed"] == {"superseded": 9, "keyless": 0, "tombstones": 0, "aged": 0, "aborted": 0, "markers": 0}
    assert {"seconds", "map_seconds", "throttled_seconds", "bytes_read", "map_utilization"} <= set(stats)
    (partition,) = broker.cleaner_status()
    known = json.loads(json.dumps(broker.cleaner_status()[partition].as_json()))
    assert known | {"ways": found["ways"]} == {name: found[name] for name in known}


def test_every_node_is_queried_and_no_partition_shown_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ottla.Broker(str(tmp_path), nodes=3) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", 5, 2, cleanup_policy="compact")
        assert main(["topics", "--bootstrap", broker.bootstrap.split(",")[1], "status", "t", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["partition"] for row in found] == [0, 1, 2, 3, 4]


def test_internal_topics_are_shown_on_request(broker: ottla.Broker, client: RawClient, status: Status) -> None:
    create_topic(client, "t", cleanup_policy="compact")
    producer = TransactionalClient(client, "x", version=2)
    producer.begin()
    assert [row[0] for row in rows(status()) if len(row) > 1][1:] == ["t-0"]
    shown = {row[0].rpartition("-")[0] for row in rows(status("--internal"))[1:] if len(row) > 1}
    assert shown == {"t", "__transaction_state"}
    assert json.loads(status("--json"))[0]["topic"] == "t"


def test_a_row_shows_the_time_and_the_remedy(broker: ottla.Broker, client: RawClient, status: Status) -> None:
    create_topic(client, "t", cleanup_policy="compact")
    produce(client, "t", ("k", "v"))
    _, _, (why,), _ = rows(status())
    assert "the next record with a timestamp of" in why
    assert why.endswith("; run: ottla roll t")
    (found,) = json.loads(status("--json"))
    assert found["remedies"][0]["moves"] == ["next_record"]
    assert found["rolls_from_ms"] > wall_time_ms()


def test_a_reader_of_the_first_line_gets_no_error(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", 200, cleanup_policy="compact")
    command = (
        f"{shlex.quote(sys.executable)} -m ottla.server topics status --json --bootstrap {broker.bootstrap} | head -1"
    )
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[\n", "")


def test_a_missing_topic_is_one_line(broker: ottla.Broker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "--bootstrap", broker.bootstrap, "status", "missing"]) == 1
    assert capsys.readouterr().err == "ottla: UNKNOWN_TOPIC_OR_PARTITION: topic 'missing' not found\n"


# On the wire


def cleaner_statuses(client: RawClient, version: int, *, asked: bool) -> list[str | None]:
    answer = client.ask(DescribeLogDirsRequest(topics=T_ONLY, ottla_cleaner_status=asked), version)
    return [row.ottla_cleaner_status for each in answer.results for topic in each.topics for row in topic.partitions]


def test_only_requests_with_the_tag_get_the_cleaner_status(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", 2)
    assert cleaner_statuses(client, 5, asked=False) == cleaner_statuses(client, 2, asked=False) == [None, None]
    assert cleaner_statuses(client, 1, asked=True) == [None, None]
    for version in (2, 5):
        for text in cleaner_statuses(client, version, asked=True):
            assert text is not None and json.loads(text)["waits_for"] == "not_compacted"


def test_requests_of_foreign_clients_are_byte_for_byte_unchanged(broker: ottla.Broker) -> None:
    api = APIS[DESCRIBE_LOG_DIRS]
    plain = encode_request(api, 5, 1, "x", DescribeLogDirsRequest(topics=None))
    asking = encode_request(api, 5, 1, "x", DescribeLogDirsRequest(topics=None, ottla_cleaner_status=True))
    assert plain[4:-1] == asking[4 : len(plain) - 1]
    assert (plain[-1:], asking[len(plain) - 1 :]) == (b"\0", b"\1\x90\x4e\1\1")  # one tag, 10 000, of one byte: true
