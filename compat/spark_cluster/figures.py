"""The cost of a record on a cluster: bytes through the shuffles, and CPU; from two sizes, so that start-up cancels out.

Shuffled bytes and the JVMs' CPU come from Spark's event log, the CPU of the executors' Python from the processes.
"""

import contextlib
import json
import random
import shutil
import threading
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil

from ottla.storage.disk.paths import TopicPartition

from ..support.logs.batches import RECORDS_A_BATCH, make_batches
from ..support.logs.big_log import write_big_log
from ..support.suite import Suite
from .cluster import Cluster
from .command import Driver

TOPIC = "figures"
SMALL_BYTES, LARGE_BYTES = 64 << 20, 256 << 20
SEGMENT_BYTES = 16 << 20
LOOK_EVERY_S = 0.2
ENTRY_BYTES, NUMBER_BYTES, BIT_BYTES = 16, 4, 2 / 8
"""Bytes of each key of a segment, in the first shuffle; of each superseded key, in the second; of each record, in both."""
FRAME_BYTES = 1.0
"""The most bytes per record that blobs' frames and Arrow's padding may add at these sizes."""

KEY_AND_FRAME_BYTES = 26
"""The size of a record without its value."""
ALL_UNIQUE, TEN_UPDATES = 1, 10
SHAPES = (
    ("100 B records, all keys unique", 76, ALL_UNIQUE),
    ("100 B records, 10 updates a key", 76, TEN_UPDATES),
    ("1 KB records, all keys unique", 990, ALL_UNIQUE),
)


class Cost(NamedTuple):
    """The cost of one job."""

    log_bytes: int
    records: int
    fallen: int
    """The number of entries that other segments supersede."""
    shuffled_bytes: tuple[int, ...]
    """Stage by stage; the last one shuffles nothing."""
    entries: int
    """Keys of each segment, summed over segments: the most that go through the first shuffle."""
    jvm_s: float
    python_s: float
    written_bytes: int
    peak_bytes: int
    """The peak of one Python worker, without memory that it shares with others."""
    records_a_segment: int

    @property
    def cpu_s(self) -> float:
        return self.jvm_s + self.python_s


def judge(suite: Suite, driver: Driver, work: Path) -> None:
    start_s = None
    for name, value_bytes, updates in SHAPES:
        found = cost(driver, work / "figures", value_bytes, updates, LARGE_BYTES)
        if start_s is None:
            small = cost(driver, work / "figures", value_bytes, updates, SMALL_BYTES)
            slope = (found.cpu_s - small.cpu_s) / (found.log_bytes - small.log_bytes)
            start_s = small.cpu_s - slope * small.log_bytes
            suite.note(
                f"start-up of the executors' Python and first tasks: {start_s:.1f} s of CPU, which is taken off below"
            )
        judge_shuffled(suite, name, found)
        cpu_s = found.cpu_s - start_s
        suite.note(
            f"{name}: CPU {cpu_s / found.log_bytes * 1e9:.1f} s/GB, {cpu_s / found.records * 1e6:.2f} us a record (JVM"
            f" {found.jvm_s:.1f} s, Python {found.python_s:.1f} s); {found.written_bytes / found.log_bytes:.2f} bytes"
            f" written a byte read; a Python worker takes {found.peak_bytes / 1e6:.0f} MB of its own,"
            f" {found.records_a_segment} records a segment"
        )


def judge_shuffled(suite: Suite, name: str, found: Cost) -> None:
    shuffled, records = sum(found.shuffled_bytes), found.records
    known, fallen = found.entries / records, found.fallen / records
    most = ENTRY_BYTES * known + NUMBER_BYTES * fallen + 2 * BIT_BYTES + FRAME_BYTES
    suite.check(
        f"{name}: bytes shuffled a record",
        0 < shuffled <= most * records,
        f"{shuffled / records:.2f}, of it {', '.join(f'{each / records:.2f}' for each in found.shuffled_bytes)}; the formula's"
        f" {most:.2f} at most, of d = {known:.2f} and s = {fallen:.2f}; {records} records of {found.log_bytes / records:.0f} B",
    )


def cost(driver: Driver, work: Path, value_bytes: int, updates: int, size_bytes: int) -> Cost:
    """Make a log and compact it on the cluster."""
    shutil.rmtree(work, ignore_errors=True)
    tp = TopicPartition(TOPIC, 0)
    entries = Entries(SEGMENT_BYTES)
    rng, keys = random.Random(1), size_bytes // (value_bytes + KEY_AND_FRAME_BYTES) // updates
    batches = make_batches(
        (lambda offset: offset) if updates == ALL_UNIQUE else (lambda _: rng.randrange(keys)),
        value_bytes=value_bytes,
        size_bytes=size_bytes,
        on_batch=entries.add,
    )
    write_big_log(work / "data", tp, batches, records_a_batch=RECORDS_A_BATCH, segment_bytes=SEGMENT_BYTES)
    words = ("compact", str(work / "data"), "--topic", TOPIC, "--quiet", "--no-verify", "--json")
    driver.moments.clear()
    with PythonSeconds(driver.cluster) as python:
        done = driver.run(*words, confs=event_log(work))
    if done.code != 0:
        raise RuntimeError(done.err)
    (found,) = json.loads(done.out)["partitions"]
    tasks = task_metrics(work)
    shutil.rmtree(work)
    return Cost(
        log_bytes=found["bytes_read"],
        records=found["records_read"],
        fallen=entries.count - found["records_written"],
        shuffled_bytes=shuffled_bytes(tasks),
        entries=entries.count,
        jvm_s=sum(metrics["Executor CPU Time"] for _, metrics in tasks) / 1e9,
        python_s=python.seconds,
        written_bytes=found["bytes_written"],
        peak_bytes=python.peak_bytes,
        records_a_segment=found["records_read"] // found["segments"],
    )


def event_log(work: Path) -> dict[str, str]:
    """Return the settings that have a driver leave one in `work`."""
    (work / "events").mkdir(parents=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (work / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def task_metrics(work: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return stage and metrics of each task in the only event log of `work`."""
    (log,) = (work / "events").iterdir()
    events = map(json.loads, log.read_text().splitlines())
    return [(event["Stage ID"], event["Task Metrics"]) for event in events if event["Event"] == "SparkListenerTaskEnd"]


def shuffled_bytes(tasks: list[tuple[int, dict[str, Any]]]) -> tuple[int, ...]:
    """Return the shuffled bytes of each stage, in the order of stages."""
    stages: dict[int, int] = {}
    for stage, metrics in tasks:
        stages[stage] = stages.get(stage, 0) + metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
    return tuple(size for _, size in sorted(stages.items()))


class Entries:
    """Counts the keys of each segment, as the log's writer cuts them."""

    def __init__(self, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self._filled = 0
        self._keys: set[int] = set()
        self.count = 0

    def add(self, keys: list[int], _value: bytes, size_bytes: int) -> None:
        if self._filled + size_bytes > self._segment_bytes:
            self._filled = 0
            self._keys.clear()
        self._filled += size_bytes
        before = len(self._keys)
        self._keys.update(keys)
        self.count += len(self._keys) - before


class PythonSeconds:
    """CPU of the executors' Python while this is entered, but for what the last look has missed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen: dict[tuple[int, float], float] = {}
        self.peak_bytes = 0
        """The largest of the processes, without what it shares."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def seconds(self) -> float:
        return sum(self._seen.values())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            for process in self._cluster.processes():
                with contextlib.suppress(psutil.Error):
                    if "java" not in process.name():
                        times = process.cpu_times()
                        self.peak_bytes = max(self.peak_bytes, process.memory_full_info().uss)
                        self._seen[process.pid, process.create_time()] = times.user + times.system
