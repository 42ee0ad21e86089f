"""Large batches by librdkafka, as `compat.bench.wire` sends and fetches them: by size, by codec, by acks."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from types import MappingProxyType

from ...support.brokers.process import BrokerProcess
from ...support.clients.steps import CODECS, admin, watermarks
from ..wire.__main__ import SIZES
from ..wire.load import Load
from .course import Course
from .figures import MOCK, Figure
from .sides import make_topic, running

ACKS = ("0", "1", "all")
KEEPS_LITTLE = "keeps 5 MB a partition"
STORED_TIMEOUT_S = 60.0


class Bulk:
    """One kind of load: its four figures, or two of the producing alone, and each turn that fills them."""

    def __init__(
        self,
        name: str,
        size: int,
        total_bytes: int,
        *,
        codec: str = "none",
        client: Mapping[str, str] = MappingProxyType({}),
        is_fetched: bool = True,
    ) -> None:
        self.size, self.total_bytes, self.codec, self.client, self.is_fetched = (
            size,
            total_bytes,
            codec,
            client,
            is_fetched,
        )
        self.produce = Figure(f"produce {name}", "MB/s", more_is_better=True)
        self.produce_cpu = Figure(f"produce {name}: broker CPU", "s/GB", is_cpu=True)
        self.fetch = Figure(f"fetch {name}", "MB/s", more_is_better=True)
        self.fetch_cpu = Figure(f"fetch {name}: broker CPU", "s/GB", is_cpu=True)
        self.figures = [self.produce, self.produce_cpu]
        if is_fetched:
            self.figures += [self.fetch, self.fetch_cpu]
            for figure in (self.fetch, self.fetch_cpu):
                figure.absent[MOCK] = KEEPS_LITTLE

    def turn(self, broker: BrokerProcess, *, noted: bool) -> None:
        """Produce, see that all is stored, fetch, delete. RuntimeError if the broker has fewer records than were sent."""
        load = Load(broker, self.size, self.total_bytes, self.codec, self.client)
        make_topic(broker, load.topic)
        gigabytes = load.records * load.size / 1e9
        began_s, cpu_s = time.perf_counter(), broker.cpu_seconds()
        produce_s, *_ = load.measure(load.produce)
        wait_until_stored(broker, load)
        if self.client.get("acks") == "0":  # what was sent may not have been taken yet
            produce_s = time.perf_counter() - began_s
        produce_cpu_s = broker.cpu_seconds() - cpu_s
        if noted:
            self.produce.note(broker.kind, gigabytes * 1e3 / produce_s)
            self.produce_cpu.note(broker.kind, produce_cpu_s / gigabytes)
        if broker.kind == MOCK:
            return
        if self.is_fetched:
            fetch_s, fetch_cpu_s, _ = load.measure(load.fetch)
            if noted:
                self.fetch.note(broker.kind, gigabytes * 1e3 / fetch_s)
                self.fetch_cpu.note(broker.kind, fetch_cpu_s / gigabytes)
        client = admin(broker.bootstrap)
        client.delete_topics([load.topic])[load.topic].result(30)


def wait_until_stored(broker: BrokerProcess, load: Load) -> None:
    deadline_s = time.monotonic() + STORED_TIMEOUT_S
    end = 0
    while time.monotonic() < deadline_s:
        end = watermarks(broker.bootstrap, [(load.topic, 0)])[load.topic, 0][1]
        if end == load.records:
            return
    raise RuntimeError(f"{end} records are stored of {load.records} that were sent")


def race(course: Course, loads: list[Bulk]) -> list[Figure]:
    with running(course.sides) as brokers:
        for load in loads:
            warm_up = functools.partial(load.turn, noted=False)  # the JVM compiles then
            able = course.taking_part(brokers, load.figures, warm_up)
            course.in_turns(able, load.figures, functools.partial(load.turn, noted=True))
    return [figure for load in loads for figure in load.figures]


def megabytes(course: Course) -> int:
    """Return the size of one round in bytes."""
    return 20_000_000 if course.quick else 100_000_000


def by_size(course: Course) -> list[Figure]:
    return race(course, [Bulk(name, size, megabytes(course)) for name, size in SIZES.items()])


def by_codec(course: Course) -> list[Figure]:
    return race(
        course, [Bulk(f"1 KB, {codec}", 1_000, megabytes(course), codec=codec) for codec in CODECS if codec != "none"]
    )


def by_acks(course: Course) -> list[Figure]:
    return race(
        course,
        [
            Bulk(f"1 KB, acks={acks}", 1_000, megabytes(course), client={"acks": acks}, is_fetched=False)
            for acks in ACKS
        ],
    )
