"""Produce latency while the cleaner works without a pause, compared with the same broker idle, in interleaved runs.

A large compacted topic is cleaned from its start again and again: as soon as a pass has written its checkpoint, an
empty checkpoint replaces it.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ...support.brokers.ottla_process import OttlaProcess
from ...support.clients.steps import create_topic
from ...support.logs.segment_files import cleaner_checkpoint
from ...support.suite import Options, Suite
from ..cleaner.filling import client_batches, fill_topic
from ..cleaner.live import OTTLA_LINE
from ..cleaner.shapes import BASE
from ..cleaner.work import load_note, work_directory
from ..table import Row, print_table
from .requests import PERCENTILES, PRODUCED, REQUESTS_A_SECOND, note, produce

IDLE, CLEANING = "idle", "cleaning"
CLEANED = "cleaned"
OVERRIDES = {"log.cleaner.backoff.ms": "5"}
BUSY_MIN = 0.7
"""Share of the time that whole passes fill; the first and the last of a run are cut."""


def without_pause(suite: Suite, options: Options, runs: int, seconds: float, raw_bytes: int) -> None:
    """Measure both states in turns, and print the table.

    Args:
        raw_bytes: Size of the log to clean, before its first pass.
    """
    rows = {name: Row(f"one-record produce {name}", "us", sides=(IDLE, CLEANING)) for name in PERCENTILES}
    if not options.quick:
        rows["p50"].floor, rows["p50"].aim = 1.25, 1.05
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
                note(rows, side, micros)
    suite.note(
        f"{runs} runs of {seconds:.0f} s, {REQUESTS_A_SECOND} requests a second, {raw_bytes / 1e6:.0f} MB; {load_note()}"
    )
    suite.check("the cleaner was at work all the time", min(busy) >= BUSY_MIN, f"{min(busy):.0%} or more of each run")
    print_table(suite, list(rows.values()))


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
    time.sleep(0.2)  # the pass deletes replaced files after its end


def seconds_of_passes(broker: OttlaProcess) -> float:
    """Return the seconds of all passes so far, as the broker's own log lines report them."""
    output = broker.output_path.read_text(errors="replace")
    return sum(float(found[2]) for found in OTTLA_LINE.finditer(output) if found[1] == CLEANED)
