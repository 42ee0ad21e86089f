"""Produce latency while the cleaner works without a pause, beside the same broker idle, in interleaved runs.

A client in a process of its own produces one record a request, 500 a second, acks=1. Meanwhile nothing else happens,
or a large compacted topic is cleaned from its start again and again: as soon as a pass has written its checkpoint, an
empty one takes its place.
"""

import argparse
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.storage.kernel import COMPILED

from ...support.clients import create_topic
from ...support.ottla_process import OttlaProcess
from ...support.segment_files import cleaner_checkpoint
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..cleaner.filling import client_batches, fill_topic
from ..cleaner.live import OTTLA_LINE
from ..cleaner.shapes import BASE
from ..cleaner.work import load_note, work_directory
from ..table import Row, print_table

IDLE, CLEANING = "idle", "cleaning"
REQUESTS_A_SECOND = 500
CLEANED, PRODUCED = "cleaned", "produced"
OVERRIDES = {"log.cleaner.backoff.ms": "5"}
BUSY_MIN = 0.7
"""Share of the time that whole passes fill; the first and the last of a run are cut."""

ROOT = Path(__file__).parents[3]


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start Ottla itself")
    if not COMPILED:
        raise NotRunError("the compiled kernel: a C compiler when the package is installed")
    runs = options.rest.runs or (1 if options.quick else 5)
    seconds = 2.0 if options.quick else 4.0
    raw_bytes = (options.rest.megabytes or (64 if options.quick else 256)) * 1_000_000
    floors = (None, None) if options.quick else (1.25, 1.05)
    p50 = Row("one-record produce p50", "us", *floors, sides=(IDLE, CLEANING))
    p99 = Row("one-record produce p99", "us", sides=(IDLE, CLEANING))
    with (
        work_directory(raw_bytes) as work,
        OttlaProcess(data=work / "data", overrides=OVERRIDES, keep=options.keep) as broker,
    ):
        create_topic(broker.bootstrap, PRODUCED)
        fill_topic(broker, CLEANED, client_batches(BASE, raw_bytes))
        wait_until_clean(broker)
        busy = []
        for number in range(runs):
            for side in (IDLE, CLEANING)[:: 1 if number % 2 else -1]:
                if side == IDLE:
                    micros = produce(broker, seconds)
                else:
                    with cleaning(broker):
                        before_s, began_s = seconds_of_passes(broker), time.perf_counter()
                        micros = produce(broker, seconds)
                        busy.append((seconds_of_passes(broker) - before_s) / (time.perf_counter() - began_s))
                p50.values[side].append(statistics.median(micros))
                p99.values[side].append(statistics.quantiles(micros, n=100)[98])
    suite.note(
        f"{runs} runs of {seconds:.0f} s, {REQUESTS_A_SECOND} requests a second, {raw_bytes / 1e6:.0f} MB; {load_note()}"
    )
    suite.check("the cleaner was at work all the time", min(busy) >= BUSY_MIN, f"{min(busy):.0%} or more of each run")
    print_table(suite, [p50, p99])


def produce(broker: OttlaProcess, seconds: float) -> list[float]:
    """Microseconds of each request of one run."""
    client = [sys.executable, "-m", "compat.bench.latency.client"]
    arguments = [str(broker.port), PRODUCED, str(REQUESTS_A_SECOND), str(seconds)]
    done = subprocess.run([*client, *arguments], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise RuntimeError(f"the client failed:\n{done.stderr}")
    return [float(line) for line in done.stdout.split()]


@contextmanager
def cleaning(broker: OttlaProcess) -> Iterator[None]:
    """Pass after pass over the topic, until left; then its last pass has ended."""
    over = threading.Event()

    def forget_passes() -> None:
        while not over.wait(0.002):
            if is_clean(broker):
                empty = broker.data.with_name("empty-checkpoint")
                empty.write_text("0\n0\n")
                empty.rename(broker.data / "cleaner-offset-checkpoint")

    thread = threading.Thread(target=forget_passes)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    wait_until_clean(broker)


def is_clean(broker: OttlaProcess) -> bool:
    return cleaner_checkpoint(broker.data, CLEANED) is not None


def wait_until_clean(broker: OttlaProcess) -> None:
    deadline_s = time.monotonic() + 120
    while not is_clean(broker):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"no pass came to an end:\n{broker.output_tail()}")
        time.sleep(0.05)
    time.sleep(0.2)  # what a pass leaves behind is deleted after it


def seconds_of_passes(broker: OttlaProcess) -> float:
    """Of all passes so far, as the broker's own lines tell."""
    output = broker.output_path.read_text(errors="replace")
    return sum(float(found[2]) for found in OTTLA_LINE.finditer(output) if found[1] == CLEANED)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int)
    parser.add_argument("--megabytes", type=int, help="of the log that is cleaned, before its first pass")


if __name__ == "__main__":
    sys.exit(run_suite("bench.latency", body, doc=__doc__, more_arguments=arguments))
