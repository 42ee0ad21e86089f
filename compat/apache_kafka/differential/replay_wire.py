"""Plays a recorded history on Ottla, over the wire, by Kafka's clock, and compares its answers and the resulting log.

The broker runs in this process with a clock that moves only to the history's own times. So a pass uses exactly the millisecond
of Kafka's pass, and values that depend on time can be compared unchanged.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

import trio

from ottla.server.embedded.broker import Broker
from ottla.server.runtime.clock import Clock
from ottla.storage.filter.offset_map import BYTES_PER_SLOT

from ...support.logs.segment_files import cleaner_checkpoint
from .compare import Findings, compare_dumps
from .history import HELD_BACK, History, Step
from .look import dump, scratch_folder
from .wire import TOPIC, Wire

BACKOFF_MS = 1
DEDUPE_BYTES = 4 << 20
PASS_TIMEOUT_S = 5.0
IO_BUFFERS_BYTES = (524_288, 1_024)
"""Kafka's default, and one that cuts nearly every segment into several chunks."""


class StillClock(Clock):
    """A clock that moves only on request, and knows whether the cleaner sleeps between two of its rounds."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(lambda: now_ms, lambda: now_ms)
        self._cleaner_due_ms = 0

    @property
    def is_cleaner_resting(self) -> bool:
        """Whether the cleaner has completed a round, and will not start another before the clock moves."""
        return self._cleaner_due_ms > self.elapsed_ms()

    async def sleep(self, for_ms: int) -> None:
        if for_ms != BACKOFF_MS:
            await super().sleep(for_ms)
            return
        self._cleaner_due_ms = self.elapsed_ms() + for_ms
        await super().sleep(for_ms)
        self._cleaner_due_ms = 0


class OttlaAtKafkasTime:
    """Ottla on a data directory of its own; `at` moves its clock."""

    def __init__(self, recorded: History, data: Path, features: Mapping[str, int]) -> None:
        self.now_ms = recorded.start_ms
        self.data = data
        overrides = {
            # These topics are not compared; the defaults would make a hundred partitions for each history.
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "log.cleaner.backoff.ms": str(BACKOFF_MS),
            "log.cleaner.dedupe.buffer.size": str(DEDUPE_BYTES),
            "log.cleaner.io.buffer.size": str(IO_BUFFERS_BYTES[recorded.seed % 2]),
        }
        if recorded.map_entries is not None:
            factor = (recorded.map_entries + 0.5) / (DEDUPE_BYTES // BYTES_PER_SLOT)
            overrides["log.cleaner.io.buffer.load.factor"] = f"{factor:.9f}"
        self._clock = StillClock(recorded.start_ms)
        self.broker = Broker(
            str(data),
            profile="kafka",
            overrides=overrides,
            features=features,
            clock=self._clock,
            rng=Random(0),
        )

    def at(self, now_ms: int) -> None:
        if now_ms > self.now_ms:
            # A round that continues while the clock moves would sleep beyond the next one.
            self.broker.run(self._cleaner_rests)
            self.broker.run(self._pass, now_ms - self.now_ms)
            self.now_ms = now_ms

    async def _pass(self, by_ms: int) -> None:
        """Time passes: nothing rolls by that, in Apache Kafka."""
        self._clock.advance(by_ms)

    def rounds(self) -> None:
        """Wait until the cleaner has completed a round and its deletions."""
        for _ in range(2):
            self.at(self.now_ms + BACKOFF_MS)
            self.broker.run(self._cleaner_rests)

    async def _cleaner_rests(self) -> None:
        with trio.fail_after(PASS_TIMEOUT_S):
            while not self._clock.is_cleaner_resting:
                await trio.sleep(0.0005)

    def wait_for_checkpoint(self, topic: str, offset: int) -> None:
        """Wait until the cleaner's checkpoint reaches the offset, or it is clear that it will not."""
        deadline_s = time.monotonic() + PASS_TIMEOUT_S
        while cleaner_checkpoint(self.data, topic) != offset and time.monotonic() < deadline_s:
            time.sleep(0.002)


@contextmanager
def ottla_for(recorded: History, features: Mapping[str, int] | None = None) -> Iterator[OttlaAtKafkasTime]:
    with scratch_folder() as folder:
        ottla = OttlaAtKafkasTime(recorded, Path(folder), features or {})
        with ottla.broker:
            yield ottla


def replay(recorded: History, findings: Findings) -> None:
    """Play and compare one history."""
    topic = recorded.name
    with ottla_for(recorded) as ottla:
        wire = Wire(ottla.broker.bootstrap)
        try:
            wire.create_topic(topic, recorded.configs)
            for number, step in enumerate(recorded.steps):
                play(ottla, wire, topic, step, findings.at(f"{recorded.name} {recorded.theme}, step {number}"))
        finally:
            wire.close()


def play(ottla: OttlaAtKafkasTime, wire: Wire, topic: str, step: Step, findings: Findings) -> None:
    ottla.at(step["at"])
    match step["do"]:
        case "produce":
            if (append_time_ms := step["answer"][2]) > 0:
                ottla.at(append_time_ms)
            findings.equal("answer to Produce", step["answer"], wire.produce(topic, bytes.fromhex(step["batch"])))
            return
        case "configs":
            wire.set_configs(TOPIC, topic, step["set"])
            return
        case "delete":
            findings.equal("answer to DeleteRecords", step["answer"], wire.delete_records(topic, step["offset"]))
            return
        case "rounds":
            ottla.rounds()
        case "pass":
            wire.set_configs(TOPIC, topic, step["set"])
            ottla.at(step["now"])
            if step["passes"]:
                ottla.wait_for_checkpoint(topic, step["passes"][-1][1])
            ottla.rounds()
            wire.set_configs(TOPIC, topic, HELD_BACK)
            findings.passes += len(step["passes"])
    expected = step["dump"]
    times = [asked for asked, *_ in expected["offsets"] if asked >= 0]
    compare_dumps(findings, expected, dump(wire, topic, ottla.data, times=times))
