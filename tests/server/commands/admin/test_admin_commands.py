"""Commands over the admin listener, each against a broker: their effects, and their output."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.server.commands.frame.command_line import parse_command_line
from support.broker.serve_process import command
from support.commands.command_runs import Ran, run_command
from support.commands.ended import ended

QUIET = dict.fromkeys(
    ("log.cleaner.backoff.ms", "log.retention.check.interval.ms", "log.initial.task.delay.ms"), 3_600_000
)
"""Options under which nothing is cleaned unless a test starts it."""


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ottla.Broker]:
    """Run two nodes, and `orders` with a superseded record and a tombstone."""
    with ottla.Broker(tmp_path / "data", nodes=2, admin=0, overrides=QUIET) as broker:
        monkeypatch.setenv("OTTLA_ADMIN", str(broker.admin))
        monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
        broker.create_topic("orders", configs={"cleanup.policy": "compact"})
        broker.produce_all("orders", [("a", "1"), ("a", "2"), ("b", None)])
        yield broker


def ran(line: str) -> Ran:
    return run_command(*line.split())


def said(line: str) -> str:
    """Return the output of a command that must succeed."""
    done = ran(line)
    assert (done.code, done.err) == (0, "")
    return done.out


def json_of(line: str) -> Any:
    return json.loads(said(f"{line} --json"))


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


# Compaction


@pytest.mark.usefixtures("running")
def test_explain_gives_the_obstacle_and_commands_that_remove_it() -> None:
    text = said("explain orders")
    assert text.startswith("orders-0: not eligible (active_segment): ")
    commands = re.findall(r"^ +(ottla .*)$", text, re.MULTILINE)
    assert "ottla roll orders" in commands and "ottla compact orders --force" in commands
    for line in commands:
        assert parse_command_line(line.split()[1:]).command.name in ("roll", "compact", "advance", "alter")
    assert said("roll orders") == "orders-0: rolled, the active segment starts at 3\n"
    assert said("explain orders").startswith("orders-0: eligible now: ")
    assert said("roll orders") == "orders-0: nothing to roll: the active segment is empty\n"


@pytest.mark.usefixtures("running")
def test_compact_reports_removed_records_and_remaining_obstacles() -> None:
    header, row, why = rows(said("compact orders"))
    assert header == ["PARTITION", "PASSES", "ROLLED", "FIRST DIRTY", "LOG END", "RECORDS", "REMOVED", "SEGMENTS"]
    assert row == ["orders-0", "0", "no", "0", "3", "-", "-", "1 -> 1"], "nothing was counted"
    assert why[0].startswith("orders-0: active_segment: ")
    _, row, why = rows(said("compact orders --force"))
    assert row[:7] == ["orders-0", "1", "yes", "3", "3", "3 -> 2", "1"]
    assert why == ["orders-0: removed 1 superseded; nothing is dirty"]
    (partition,) = json_of("compact orders --force")["partitions"]
    assert partition["first_dirty_offset"] == 3


@pytest.mark.usefixtures("running")
def test_compact_may_roll_first_and_wait() -> None:
    assert rows(said("compact orders --roll"))[1][1:4] == ["1", "yes", "3"]
    assert rows(said("compact orders --wait"))[1] == ["orders-0", "3", "3"]
    said("produce orders x --key a")
    late = ran("compact orders --wait --timeout 0 --json")
    assert late.code == 0  # records of the active segment are not waited for


@pytest.mark.usefixtures("running")
def test_the_history_of_a_key_and_a_dry_run_are_shown() -> None:
    header, first, second, _, what = rows(said("explain orders --key a"))[1:]
    assert (header[0], first[0], second[0]) == ("OFFSET", "0", "1")
    assert (first[-1], second[-1], what) == ("1", "-", ["1: kept: newest record of its key"])
    assert said("explain orders --key a") == said("explain orders --key YQ== --key-encoding base64")
    assert "1 superseded removed" in said("explain orders --dry-run --force")
    assert "  offset 0: superseded\n" in said("explain orders --dry-run --force")


def test_retention_is_applied(running: ottla.Broker) -> None:
    assert said("retention") == "nothing to delete\n"
    running.create_topic("old", configs={"retention.ms": 1000})
    running.produce("old", "x", timestamp_ms=0)
    assert rows(said("retention old"))[1][:3] == ["old-0", "0 -> 1", "1"]


# Time


def test_the_clock_is_moved_stopped_and_started(running: ottla.Broker) -> None:
    before_ms = json_of("clock show")["now_ms"]
    assert json_of("clock advance 25h")["now_ms"] >= before_ms + 90_000_000
    assert said("clock freeze").endswith(" UTC, frozen\n")
    assert json_of("clock show") == json_of("clock show")
    assert said("clock set 2040-01-01T00:00:00Z").startswith("2040-01-01 00:00:00.000 UTC, frozen\n")
    assert not said("clock unfreeze").endswith("frozen\n")
    said("produce orders x --key c")
    assert said("clock advance 8d").endswith(" UTC\nrolled: orders-0\n")


# Faults


@pytest.mark.usefixtures("running")
def test_faults_are_declared_listed_waited_for_and_removed() -> None:
    assert said("faults list") == "no faults\n"
    assert said("faults add --api Fetch --topic orders --delay 1ms --count all") == (
        "fault 1: Fetch of topic orders: delay 1 ms\n"
    )
    assert said("faults add --api Produce --error NOT_LEADER_OR_FOLLOWER --skip 1") == (
        "fault 2: Produce: error NOT_LEADER_OR_FOLLOWER, after skipping 1\n"
    )
    assert said("faults add --disk slow --delay 2s") == "fault 3: disk slow, 2 s each\n"
    first, second, third = rows(said("faults list"))[1:]
    # The broker decides how often a slow disk strikes: it uses its files all the time.
    assert (first[:3], second[:3], third[0], third[2]) == (["1", "0", "all"], ["2", "0", "1"], "3", "all")
    assert ran("faults wait 1 --timeout 0").code == 1
    assert [each["fault_id"] for each in json_of("faults list")] == [1, 2, 3]
    assert json_of("faults remove 3")["is_active"] is False
    assert said("faults clear") == "removed 2\n"
    assert json_of("faults list") == []


# Nodes and runs


@pytest.mark.usefixtures("running")
def test_leaders_can_be_moved() -> None:
    for node in (1, 0, 1):
        assert json_of(f"nodes move-leader orders:0 --to {node}")["leader"] == node
    assert "already leads" in said("nodes move-leader orders:0 --to 1")
    assert json_of("nodes move-coordinator --group g --to 0")["leader"] == 0
    for node in (1, 0):
        moved = json_of(f"nodes move-coordinator --group g --partition orders:0 --to {node}")
        assert (moved["topic"], moved["leader"]) == ("__share_group_state", node)


@pytest.mark.usefixtures("running")
def test_nodes_can_be_stopped_and_started() -> None:
    assert said("nodes stop 1") == "stopped node 1\n"
    assert [row[1] for row in rows(said("nodes list"))[1:]] == ["yes", "no"]
    assert said("nodes start 1") == "started node 1\n"


def test_runs_can_be_ended_and_started(running: ottla.Broker, tmp_path: Path) -> None:
    bootstrap = running.bootstrap
    assert said("restart") == f"stopped and started, serving again at {bootstrap}\n"
    assert said("crash") == f"killed and started, serving again at {bootstrap}\n"
    copied = said(f"snapshot {tmp_path / 'copy'}")
    assert re.fullmatch(rf"copied \d+ files, \d+ bytes to {tmp_path / 'copy'}\n", copied)
    assert said("reset") == f"reset, serving again at {bootstrap}\n"
    assert json_of("status")["topics"] == []
    assert said(f"restore {tmp_path / 'copy'}").startswith("restored ")
    assert [each["topic"] for each in json_of("status")["topics"]] == ["orders"]


# Status


def test_status_fits_one_screen(running: ottla.Broker) -> None:
    running.commit("billing", {("orders", 0): 1})
    said("faults add --api Produce --disconnect before")
    lines = said("status").splitlines()
    assert lines[0].startswith(f"Ottla {ottla.__version__}, profile dev, up ")
    assert lines[2] == f"clients  {running.bootstrap}"
    text = "\n".join(lines)
    assert re.search(r"^orders +1 +3 +0-3 +compact +0\.00 +no +active_segment$", text, re.MULTILINE)
    assert re.search(r"^billing +classic +Empty +2$", text, re.MULTILINE)
    assert "Produce: disconnect before" in text
    assert "__consumer_offsets" not in text and "__consumer_offsets" in said("status --all")
    assert re.search(r"^orders-0  \W+ not eligible: active segment$", text, re.MULTILINE)
    everything = json_of("status")
    assert everything.keys() == {"broker", "clock", "topics", "partitions_left_out", "groups", "faults"}


def test_status_of_a_topic_draws_its_logs_and_their_last_pass(running: ottla.Broker) -> None:
    running.create_topic("drawn", 2, {"cleanup.policy": "compact", "internal.segment.bytes": 4_000})
    for _ in range(8):
        running.produce_all("drawn", [(f"k{at % 5}", "v" * 90) for at in range(40)])
    running.compact("drawn", force=True)
    text = said("status drawn")
    assert "orders" not in text
    assert text.count("drawn-0: all clean") == text.count("drawn-1: all clean") == 1
    assert text.count("the last pass:") == 2
    assert "first dirty" in text and "nothing is dirty" in text
    assert "topic 'drawm' not found; did you mean 'drawn'?" in ran("status drawm").err


TERMINAL = """
import sys
from ottla.server.commands.cli import main
sys.stdout.isatty = lambda: True
sys.exit(main(["status"]))
"""


@pytest.mark.parametrize(("columns", "encoding"), [(20, "utf-8"), (43, "ascii"), (200, "utf-8")])
def test_status_uses_the_terminals_width_and_characters(running: ottla.Broker, columns: int, encoding: str) -> None:
    running.create_topic("wide-" + "n" * 60, 30, {"cleanup.policy": "compact"})
    environment = {"COLUMNS": str(columns), "LINES": "24", "PYTHONIOENCODING": encoding, "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", TERMINAL], env={**os.environ, **environment}, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    shown = done.stdout.decode(encoding)
    assert "\x1b" not in shown
    bars = [line for line in shown.splitlines() if re.search("[█░–_-]{8}", line) and "data  " not in line]
    assert bars
    assert max(len(line) for line in bars) <= columns
    assert "more: ottla status TOPIC" in shown


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("interval", ["0", "-1", "x", "1e9", "nan"])
def test_an_invalid_interval_is_refused(interval: str) -> None:
    assert f"expected seconds from 0.1 to 86400, found {interval!r}" in ran(f"status --watch --interval={interval}").err


def test_known_data_of_partitions_without_a_leader_are_shown(running: ottla.Broker) -> None:
    running.create_topic("alone", 2, replicas=1)
    running.commit("billing", {("alone", 0): 0, ("alone", 1): 0, ("orders", 0): 1})
    said("nodes stop 0")
    assert "stopped  node 0\n" in said("status")
    partitions = json_of("topics describe alone")["partitions"]
    assert sorted((row["leader"], row["log_end_offset"]) for row in partitions) == [(-1, None), (1, 0)]
    shown = ran("consume alone --until-end")
    assert (shown.code, shown.out) == (1, "") and "no leader, so its records are not shown" in shown.err
    refused = ran("groups reset billing --topic alone --to end")
    assert refused.code == 1 and "has no leader, so its offsets are unknown" in refused.err


@pytest.mark.usefixtures("running")
def test_status_watch_ends_with_its_reader() -> None:
    watching = command("status", "--watch", "--json")
    with ended(subprocess.Popen(watching, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None and process.stderr is not None
        for _ in range(2):
            assert json.loads(process.stdout.readline())["topics"][0]["topic"] == "orders"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


# Errors

REFUSED = {
    "explain": (2, "the following arguments are required: TOPIC"),
    "explain order": (1, "topic 'order' not found; did you mean 'orders'?"),
    "explain orders --partition 7": (1, "partition 7 of topic orders not found; it has only partition 0"),
    "explain orders --key a --dry-run": (2, "--key and --dry-run cannot be combined"),
    "explain orders --force": (2, "--force requires --dry-run"),
    "explain orders --limit 5": (2, "--limit requires --dry-run or --key"),
    "explain orders --key a --key-encoding hex": (1, "key: expected pairs of hexadecimal digits, found 'a'"),
    "compact nope": (1, "topic 'nope' not found"),
    "compact orders --timeout 5s": (2, "--timeout requires --wait"),
    "compact orders --wait --force": (2, "--wait starts no pass"),
    "compact orders --partition x": (2, "argument --partition: expected a number from 0 to"),
    "roll orders --partition 9": (1, "partition 9 of topic orders not found"),
    "retention nope": (1, "topic 'nope' not found"),
    "clock advance": (2, "the following arguments are required: TIME"),
    "clock advance 5y": (2, "expected a number followed by one of ms, s, m, h, d, w, e.g. 25h, found '5y'"),
    "clock advance -5s": (2, "expected a number followed by one of"),
    "clock advance 99999999d": (1, "expected"),
    "clock set tomorrow": (
        2,
        "expected a time, e.g. 2026-01-31T12:00:00Z, or @MS (milliseconds since 1970), found 'tomorrow'",
    ),
    "clock set @-1": (1, "expected"),
    "faults add": (1, "a fault requires one of"),
    "faults add --api Produc --error X": (1, "did you mean"),
    "faults add --api Produce --delay x": (2, "argument --delay: expected a number followed by one of"),
    "faults add --api Produce --count 0": (2, "argument --count: expected a number from 1 to"),
    "faults add --disk ful": (2, "invalid choice 'ful'; did you mean full?"),
    "faults show 9": (1, "fault 9 not found; no faults exist"),
    "faults remove 0": (2, "argument FAULT: expected a number from 1 to"),
    "nodes stop 7": (1, "node 7 not found; nodes: 0, 1"),
    "nodes stop x": (2, "argument ID: expected a number from 0 to 2147483647, found 'x'"),
    "nodes move-leader orders --to 1": (2, "expected TOPIC:PARTITION, found 'orders'"),
    "nodes move-leader orders:0": (2, "the following arguments are required: --to"),
    "nodes move-leader orders:7 --to 1": (1, "partition 7 of orders not found"),
    "nodes move-leader orders:0 --to 7": (1, "node 7 not found; nodes: 0, 1"),
    "nodes move-coordinator --to 1": (1, "expected either a group or a transactional_id"),
    "nodes move-coordinator --transactional-id x --partition orders:0 --to 1": (
        1,
        "a share partition requires a group",
    ),
    "restore /nowhere/at/all": (1, "/nowhere/at/all"),
    "snapshot": (2, "the following arguments are required: DIR"),
}


@pytest.mark.usefixtures("running")
def test_errors_are_one_line() -> None:
    for line, (code, says) in REFUSED.items():
        done = ran(line)
        (told,) = done.err.splitlines()
        assert (done.code, done.out) == (code, ""), line
        assert told.startswith("ottla") and says in told, line
