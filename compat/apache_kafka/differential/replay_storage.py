"""Replays a recorded transactional history into Ottla's storage floor and cleans it there, by Kafka's clock.

Every batch that Kafka appended is appended here, markers by the coordinator's hand, with segments beginning where
Kafka's did. Then the log is measured and cleaned at the recorded time. Compared are the transaction indexes before the
pass, the last stable offset, the producer snapshots of each roll, where the pass began and ended, and after it every
batch of every segment and the transaction indexes again.
"""

import random
from dataclasses import dataclass
from pathlib import Path

from ottla.storage.cleaning.cleaner import Cleaner
from ottla.storage.cleaning.dirtiness import first_dirty_offset, measure
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.logs.log_parts import LogPlace, ShutdownState
from ottla.storage.logs.recovery import load_log
from ottla.storage.produce.validation import AppendOrigin
from ottla.storage.topics.config import LogConfig

from ...support.logs.segment_files import segments
from .batches import decode
from .compare import Findings
from .compare_rounds import aborted_in, compare_left, compare_producers
from .history import History, Step
from .look import scratch_folder

TP = TopicPartition("replayed", 0)
MAP_BYTES = 4 << 20


@dataclass(frozen=True)
class Variant:
    """A way to replay that must make no difference."""

    name: str
    io_buffer_bytes: int
    restarts: bool
    """The log is closed and loaded again before each pass."""


VARIANTS = (Variant("at once", 1 << 19, False), Variant("in small chunks, with restarts", 1 << 10, True))


class Replayer:
    def __init__(self, recorded: History, variant: Variant, findings: Findings, folder: Path) -> None:
        self.recorded, self.variant, self.findings, self.folder = recorded, variant, findings, folder
        self.config = LogConfig.from_texts(recorded.configs)
        self.checkpoint: int | None = None
        self.log = self.load(recorded.start_ms)

    def load(self, now_ms: int) -> Log:
        files = OsFiles()
        return load_log(
            LogPlace(files, str(self.folder), TP),
            self.config,
            ShutdownState(is_clean=bool(segments(self.folder))),
            now_ms=now_ms,
            rng=random.Random(0),
        )

    def run(self) -> None:
        for number, step in enumerate(self.recorded.steps):
            self.findings.at(f"{self.recorded.name} {self.recorded.theme}, {self.variant.name}, round {number}")
            self.config = self.log.config = LogConfig.from_texts(step["configs"])
            now_ms = step["passes"][0][2] if step["passes"] else self.recorded.start_ms
            self.append(step, now_ms)
            if self.variant.restarts:
                self.log.close(now_ms)
                self.log = self.load(now_ms)
            self.compare_before(step)
            for first_dirty, end, pass_ms in step["passes"]:
                self.clean(first_dirty, end, pass_ms)
            self.compare_after(step, now_ms)
        self.log.close(self.recorded.start_ms)

    def append(self, step: Step, now_ms: int) -> None:
        bases = set(step["bases"])
        for batch in decode(bytes.fromhex(step["appended"])):
            if batch.base_offset in bases and batch.base_offset == self.log.log_end_offset:
                self.log.roll(now_ms)
            origin = AppendOrigin.COORDINATOR if batch.is_control else AppendOrigin.CLIENT
            sent = bytearray(batch.raw)
            if not batch.is_control:
                sent[:8] = bytes(8)
            done = self.log.append(memoryview(sent), now_ms=now_ms, leader_epoch=batch.leader_epoch, origin=origin)
            self.findings.equal("base offset of an append", batch.base_offset, done.base_offset)

    def compare_before(self, step: Step) -> None:
        findings = self.findings
        findings.equal("segments before the pass", step["bases"], [each.base_offset for each in self.log.segments])
        findings.equal("last stable offset", step["last_stable"], self.log.last_stable_offset)
        findings.equal("aborted transactions before the pass", step["aborted_before"], aborted_in(self.log))
        compare_producers(findings, step, self.folder)

    def clean(self, first_dirty: int, end: int, now_ms: int) -> None:
        cleaner = Cleaner(dedupe_buffer_bytes=MAP_BYTES, load_factor=0.9, io_buffer_bytes=self.variant.io_buffer_bytes)
        if self.recorded.map_entries is not None:
            cleaner.max_entries = self.recorded.map_entries
        begins, _ = first_dirty_offset(self.log, self.checkpoint)
        self.findings.equal("first dirty offset", first_dirty, begins)
        to_clean = measure(self.log, begins, now_ms)
        self.findings.equal("a pass is due", True, to_clean.is_due)
        self.checkpoint, _ = cleaner.clean(
            to_clean.for_worker(),
            now_ms,
            secret=bytes(range(16)),
            swap=lambda new, old: self.log.replace_segments(new, old, now_ms),
            checkpoint=lambda _: None,
        )
        self.findings.equal("end of the pass", end, self.checkpoint)
        self.findings.passes += 1

    def compare_after(self, step: Step, now_ms: int) -> None:
        if not step["passes"]:
            to_clean = measure(self.log, first_dirty_offset(self.log, self.checkpoint)[0], now_ms)
            self.findings.equal("a pass is due", False, to_clean.is_due)
        compare_left(self.findings, step, self.folder, aborted_in(self.log))


def replay(recorded: History, findings: Findings) -> None:
    """Play and compare one history, in every variant."""
    for variant in VARIANTS:
        with scratch_folder() as folder:
            Replayer(recorded, variant, findings, Path(folder)).run()
