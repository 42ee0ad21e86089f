"""Clean passes compared with Apache Kafka's own cleaner and with a plain copy, in interleaved rounds of one run.

The figure is the CPU time of the cleaning thread on the same log bytes. Each pass gets links to them in a directory of its own,
on tmpfs if it has room. The results of both are compared record by record. Then Ottla's pass alone: memory, instructions, and
growth with the log; and the passes of both brokers while they serve.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ottla.storage.kernel import COMPILED

from ...support.suite import NotRunError, Options, Suite, run_suite
from ..table import KAFKA, OTTLA, Row, print_table
from .alone import judge_alone
from .compare import first_difference
from .generate import PARTITION, first_dirty_offset, generate, record_count
from .jvm import KafkaCleaner
from .live import live_passes
from .passes import Pass, clean_with_ottla, copy_plainly, fresh_copy
from .shapes import BASE, SHAPES, Shape
from .work import load_note, work_directory

COPY = "plain-copy"
COPY_FLOOR, COPY_AIM = 0.30, 0.38
WARM_UP_PASSES = 2


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start both brokers itself")
    if not COMPILED:
        raise NotRunError("the compiled kernel: a C compiler when the package is installed")
    wanted = options.rest
    rounds = wanted.rounds or (1 if options.quick else 5)
    raw_bytes = (wanted.megabytes or (16 if options.quick else 268)) * 1_000_000
    shapes = [shape for shape in SHAPES if shape.name in wanted.shape] if wanted.shape else list(SHAPES)
    with work_directory(raw_bytes) as work:
        suite.note(f"{rounds} rounds, {raw_bytes / 1e6:.0f} MB of base log, in {work.parent}; {load_note()}")
        bench = Bench(suite, work, rounds, quick=options.quick)
        with KafkaCleaner(work) as kafka:
            for shape in shapes:
                bench.run(shape, int(raw_bytes * shape.size), kafka)
            suite.note(f"resident memory of the JVM after its passes: {kafka.resident_bytes() / 1e6:.0f} MB")
        print_table(suite, bench.rows)
        print_table(suite, bench.beside_copies)
        if BASE in shapes:
            judge_alone(suite, work, raw_bytes, rounds, quick=options.quick)
        if not wanted.shape and not options.quick:
            live_passes(suite, options, work, raw_bytes // 2)


@dataclass
class Bench:
    """Rounds of one shape after the other, and the rows that they fill. `quick` judges no times."""

    suite: Suite
    work: Path
    rounds: int
    quick: bool
    rows: list[Row] = field(default_factory=list)
    beside_copies: list[Row] = field(default_factory=list)

    def run(self, shape: Shape, raw_bytes: int, kafka: KafkaCleaner) -> None:
        log = self.work / "log" / str(PARTITION)
        now_ms = int(time.time() * 1000)
        log_bytes = generate(shape, raw_bytes, log, now_ms)
        first_dirty = first_dirty_offset(shape, raw_bytes)
        floor, aim = (None, None) if self.quick else (shape.floor, shape.aim)
        row = Row(shape.name, "MB/CPU s", floor, aim, more_is_better=True)
        floor, aim = (COPY_FLOOR, COPY_AIM) if shape is BASE and not self.quick else (None, None)
        beside_copy = Row(f"{shape.name}, and a copy", "MB/CPU s", floor, aim, True, (COPY, OTTLA))
        cleaners: dict[str, Callable[[Path, int, int], Pass]] = {KAFKA: kafka.clean, OTTLA: clean_with_ottla}
        for side in [OTTLA] + [KAFKA] * (0 if self.quick else WARM_UP_PASSES):
            with fresh_copy(log, self.work / side) as directory:
                cleaners[side](directory, first_dirty, now_ms)
        for number in range(self.rounds):
            with fresh_copy(log, self.work / KAFKA) as theirs, fresh_copy(log, self.work / OTTLA) as ours:
                directories = {KAFKA: theirs, OTTLA: ours}
                passes: dict[str, Pass] = {}
                for side in list(cleaners)[:: 1 if number % 2 else -1]:
                    passes[side] = cleaners[side](directories[side], first_dirty, now_ms)
                    row.values[side].append(log_bytes / 1e6 / passes[side].cpu_s)
                if number == 0:
                    self.judge_output(shape, log_bytes, directories, passes, record_count(shape, raw_bytes))
            with fresh_copy(log, self.work / COPY) as directory:
                beside_copy.values[COPY].append(log_bytes / 1e6 / copy_plainly(directory))
        beside_copy.values[OTTLA] = row.values[OTTLA]
        self.rows.append(row)
        self.beside_copies.append(beside_copy)
        shutil.rmtree(log)

    def judge_output(
        self, shape: Shape, log_bytes: int, directories: dict[str, Path], passes: dict[str, Pass], records: int
    ) -> None:
        """Check that both passes got to the same offset and left the same records, fewer than before if a key was repeated."""
        ours, theirs = passes[OTTLA], passes[KAFKA]
        self.suite.equal(f"{shape.name}: the next first dirty offset", theirs.end_offset, ours.end_offset)
        difference = first_difference(directories[KAFKA], directories[OTTLA])
        kept = f"{ours.records_kept} of {records} records, {log_bytes / 1e6:.0f} MB"
        holds = difference is None and (ours.records_kept < records) == (shape.key_space < 1)
        self.suite.check(f"{shape.name}: the same records are left", holds, difference or kept)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--megabytes", type=int, help="of the base log; other logs in proportion")
    names = [shape.name for shape in SHAPES]
    parser.add_argument("--shape", action="append", choices=names, help="only this one; may be given several times")


if __name__ == "__main__":
    sys.exit(run_suite("bench.cleaner", body, doc=__doc__, more_arguments=arguments))
