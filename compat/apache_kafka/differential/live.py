"""A live Apache Kafka whose cleaner is blocked and released; `record` describes how."""

import re
import time
from collections.abc import Callable
from datetime import datetime

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.logs.segment_files import base_offset, cleaner_checkpoint, segments
from .batches import decode
from .history import HELD_BACK
from .wire import BROKER, NOT_LEADER, TOPIC, UNKNOWN_TOPIC_OR_PARTITION, RefusedError, Wire

DEDUPE_BYTES, SLOT_BYTES = 1_100_000, 24
LOAD_FACTOR = "log.cleaner.io.buffer.load.factor"
OVERRIDES = {"log.cleaner.backoff.ms": "100", "log.cleaner.dedupe.buffer.size": str(DEDUPE_BYTES)}
ROUNDS_S, PASS_TIMEOUT_S = 0.35, 10.0
CLEANED = re.compile(r"cleaned log (\S+) \(dirty section = \[(\d+), (\d+)\]\)")
BEGAN = re.compile(r"^\[([^\]]+)\] .*Beginning cleaning of log (\S+)", re.MULTILINE)
EXPECTED: dict[str, Callable[[int], bool]] = {
    "one": lambda passes: passes == 1,
    "many": lambda passes: passes > 1,
    "none": lambda passes: passes == 0,
    "any": lambda passes: passes <= 1,
    "some": lambda passes: True,
}
"""A step's expectation -> whether a number of passes meets it."""


class UnluckyError(Exception):
    """A pass ran against the plan, or a planned one did not; another try may succeed."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class LiveKafka:
    """Apache Kafka, and the hold on its cleaner."""

    def __init__(self, process: ApacheKafkaProcess) -> None:
        self.process = process
        self.wire = Wire(process.bootstrap)
        self.map_entries: int | None = None

    def wait_for_transactions(self) -> None:
        """Wait until the transaction log exists: it is created by the first request for it."""
        deadline_s = time.monotonic() + 30
        while code := self.wire.find_transaction_coordinator("first") or self.wire.init_producer_id("first")[0]:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"no transaction coordinator: error {code}")
            time.sleep(0.1)

    def create_topic(self, topic: str, configs: dict[str, str]) -> None:
        """Create it and wait until the broker leads it."""
        self.wire.create_topic(topic, configs)
        self.wait_for_leader(topic)

    def restart(self, topic: str) -> None:
        """Stop and start the broker, and wait until it leads the topic again."""
        self.wire.close()
        self.process.restart()
        self.wire = Wire(self.process.bootstrap)
        self.wait_for_leader(topic)

    def wait_for_leader(self, topic: str) -> None:
        deadline_s = time.monotonic() + PASS_TIMEOUT_S
        while True:
            try:
                self.wire.offset_at(topic, -1)
                return
            except RefusedError as refused:
                if refused.code not in (UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER) or time.monotonic() > deadline_s:
                    raise
            time.sleep(0.01)

    def passes(self, topic: str) -> list[list[int]]:
        """Return first dirty and end offset of each pass over a topic so far."""
        text = self.process.output_path.read_text(errors="replace")
        return [[int(first), int(end)] for name, first, end in CLEANED.findall(text) if name == f"{topic}-0"]

    def beginnings(self, topic: str) -> list[int]:
        """Return the starts of those passes, by the broker's log, in Unix ms."""
        text = self.process.output_path.read_text(errors="replace")
        found = [when for when, name in BEGAN.findall(text) if name == f"{topic}-0"]
        return [round(datetime.strptime(when, "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1_000) for when in found]

    def bound_map(self, entries: int | None) -> None:
        """Limit the cleaner's map to this number of keys; None for its full size."""
        if entries != self.map_entries:
            factor = 0.9 if entries is None else (entries + 0.5) / (DEDUPE_BYTES // SLOT_BYTES)
            self.wire.set_configs(BROKER, "0", {LOAD_FACTOR: f"{factor:.9f}"})
            time.sleep(1.0)
            self.map_entries = entries

    def set_configs(self, topic: str, configs: dict[str, str]) -> None:
        """Set and wait until the broker works by them."""
        self.wire.set_configs(TOPIC, topic, configs)
        deadline_s = time.monotonic() + PASS_TIMEOUT_S
        while self.wire.configs(TOPIC, topic, configs) != configs:
            if time.monotonic() > deadline_s:
                raise UnluckyError(f"{topic}: configs did not arrive: {configs}")
            time.sleep(0.005)
        time.sleep(0.05)

    def let_pass(self, topic: str, configs: dict[str, str], expect: str) -> list[list[int]]:
        """Set configs that release the cleaner, wait for its passes, block it again, and return the passes."""
        before = len(self.passes(topic))
        self.wire.set_configs(TOPIC, topic, configs)
        deadline_s = time.monotonic() + (PASS_TIMEOUT_S if expect in ("one", "many") else 1.0)
        while len(found := self.passes(topic)[before:]) == 0 and time.monotonic() < deadline_s:
            time.sleep(0.01)
        while found:
            time.sleep(ROUNDS_S)
            seen, found = found, self.passes(topic)[before:]
            if found == seen and cleaner_checkpoint(self.process.data, topic) == found[-1][1]:
                break
        self.set_configs(topic, {**configs, **HELD_BACK})
        if not EXPECTED[expect](len(found)):
            raise UnluckyError(f"{topic}: {found} where {expect} was expected")
        return found

    def wait_for_rounds(self, topic: str) -> None:
        """Wait until the cleaner's rounds delete no more segments of a topic."""
        folder, seen = self.process.partition_dir(topic), None
        while (now := [base_offset(path) for path in segments(folder)]) != seen:
            seen = now
            time.sleep(ROUNDS_S)


def exact_times(logged_ms: list[int], log: bytes, retention_ms: int, known: set[int]) -> list[int]:
    """Return the times that passes used; the broker's log only has their starts.

    `log` is their result. Each delete horizon that is not among the `known` ones (and is added to them) gives the time of its
    pass to the millisecond. For a pass that set none only the broker's log has a time.
    """
    found = {batch.horizon for batch in decode(log) if batch.horizon is not None}
    fresh = {horizon - retention_ms for horizon in found - known}
    known |= found
    exact: dict[int, int] = {}
    for time_ms in sorted(fresh):
        number = next((number for number, logged in enumerate(logged_ms) if logged >= time_ms), None)
        if number is None or number in exact or logged_ms[number] - time_ms > 100:
            raise UnluckyError(f"horizons of {sorted(fresh)} plus {retention_ms} do not go with passes at {logged_ms}")
        exact[number] = time_ms
    return [exact.get(number, logged) for number, logged in enumerate(logged_ms)]
