"""Advice over HTTP: the same numbers as the command's, and each error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import ottla
from ottla.server.commands.cli import main
from ottla.storage.advice import topic_advice
from ottla.storage.advice.advising import advise
from ottla.storage.advice.measuring import LogMeasuring
from support.broker.admin_calls import AdminCalls
from support.noted import each_case

HOUR_MS = 3_600_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    """Run a broker with three days of writes to a hundred keys, on a clock that stands still."""
    overrides = {"log.cleaner.backoff.ms": "1000000", "log.cleaner.threads": "2"}
    with ottla.Broker(tmp_path / "data", admin="0", overrides=overrides) as running:
        running.create_topic("t", configs={"cleanup.policy": "compact"})
        running.create_topic("empty", configs={"cleanup.policy": "compact"})
        running.create_topic("kept")
        begin_ms = running.clock.now_ms() - 72 * HOUR_MS
        for hour in range(72):
            for number in range(10):
                key = str((hour * 7 + number) % 100)
                running.produce("t", "v" * 1_000, key=key, timestamp_ms=begin_ms + hour * HOUR_MS)
        yield running


def test_the_call_advises_as_the_command_does(
    broker: ottla.Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_advice, "advise", partial(advise, span_ms=96 * HOUR_MS))
    found = AdminCalls.of(broker).get(f"/v1/topics/t/advice?erase_within_ms={24 * HOUR_MS}")
    assert main(["advise", "t", "--json", "--bootstrap", broker.bootstrap, "--erase-within", "24h"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (found["partitions"], found["is_reached"]) == (1, True)
    assert found["nearest"]["changes"] == said["nearest"]["changes"]
    assert (found["misses"], found["notes"]) == (said["misses"], said["notes"])
    for each in ("today", "nearest"):
        # The file ends with a segment's size, the wire with its last batch.
        assert found[each]["costs"]["mean_bytes"] == pytest.approx(said[each]["costs"]["mean_bytes"], rel=0.02)


def test_a_goal_out_of_reach_is_missed_with_a_reason(broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_advice, "advise", partial(advise, span_ms=96 * HOUR_MS))
    found = AdminCalls.of(broker).get("/v1/topics/t/advice?disk_below_bytes=1000")
    assert not found["is_reached"]
    (reason,) = found["misses"]
    assert reason.startswith("the logs grow to ")


@each_case(
    "path, status, says",
    [
        ("tt/advice", 404, "topic 'tt' not found; did you mean 't'?"),
        ("kept/advice", 409, "topic kept is not compacted: cleanup.policy is delete"),
        ("empty/advice", 409, "topic empty cannot be simulated: it has no records"),
        ("t/advice?disk_below_bytes=0", 422, "disk_below_bytes"),
        ("t/advice?erase_within_ms=24h", 422, "erase_within_ms"),
    ],
)
def test_an_error_says_what_is_wrong(broker: ottla.Broker, path: str, status: int, says: str) -> None:
    found, answer = AdminCalls.of(broker).ask("GET", f"/v1/topics/{path}")
    assert found == status
    assert says in json.dumps(answer)


def test_a_log_that_cannot_be_read_or_changes_all_the_time_is_named(
    broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, measured = AdminCalls.of(broker), LogMeasuring.steps

    def vanishes(self: LogMeasuring) -> object:
        raise FileNotFoundError("replaced")
        yield from measured(self)

    monkeypatch.setattr(LogMeasuring, "steps", vanishes)
    status, answer = admin.ask("GET", "/v1/topics/t/advice")
    assert (status, answer["error"]) == (409, "t-0 has changed during each of 3 measurements; retry")

    def fails(self: LogMeasuring) -> object:
        raise OSError(5, "Input/output error")
        yield from measured(self)

    monkeypatch.setattr(LogMeasuring, "steps", fails)
    status, answer = admin.ask("GET", "/v1/topics/t/advice")
    assert (status, answer["error"]) == (500, "topic t cannot be read: [Errno 5] Input/output error")
