"""The cleaner at work, measured by its benches: passes compared with Apache Kafka's, and how long clients wait during them."""

from __future__ import annotations

from dataclasses import replace

from ottla.storage.kernel import COMPILED

from ...support.suite import NotRunError
from ..cleaner.__main__ import Bench
from ..cleaner.jvm import KafkaCleaner
from ..cleaner.shapes import SHAPES
from ..cleaner.work import work_directory
from ..latency.paced import paced
from ..latency.requests import PERCENTILES, PRODUCED, note, produce
from ..table import Row
from .course import Course
from .figures import KFAKE, MOCK, Figure
from .sides import make_topic, running

SHOWN = ("100 B values", "1 KB values", "lz4", "zstd", "transactional")
DOES_NOT_CLEAN = "does not clean"
NEEDS_KERNEL = "the compiled kernel: a C compiler when the package is installed"


def passes(course: Course) -> list[Figure]:
    """Measure clean passes; the logs that both cleaners leave are compared, record by record."""
    if not COMPILED:
        raise NotRunError(NEEDS_KERNEL)
    raw_bytes = 16_000_000 if course.quick else 268_000_000
    with work_directory(raw_bytes) as work:
        bench = Bench(course.suite, work, course.rounds, quick=False)  # otherwise the JVM has compiled nothing
        with KafkaCleaner(work) as kafka:
            for shape in SHAPES:
                if shape.name in SHOWN:
                    bench.run(shape, int(raw_bytes * shape.size), kafka)
    absent = {KFAKE: DOES_NOT_CLEAN, MOCK: DOES_NOT_CLEAN}
    return [Figure.of_row(row, absent) for row in bench.rows]


def waits(course: Course) -> list[Figure]:
    """Measure the waits of both brokers, idle and cleaning. The other sides are measured afterwards, idle only.

    `compat.bench.latency` judges the figures.
    """
    if not COMPILED:
        raise NotRunError(NEEDS_KERNEL)
    seconds = 3.0 if course.quick else 12.0
    figures = [
        Figure.of_row(row) for row in paced(course.suite, replace(course.options, quick=True), course.rounds, seconds)
    ]
    others = tuple(side for side in course.sides if side in (KFAKE, MOCK))
    idle = {name: Row(name, "us") for name in PERCENTILES}
    for row in idle.values():
        row.values = {side: [] for side in others}
    with running(others) as brokers:
        for broker in brokers.values():
            make_topic(broker, PRODUCED)
        for side in course.turns(others):
            note(idle, side, produce(brokers[side], seconds / 2))
    for figure, row in zip(figures, idle.values(), strict=False):  # those of the idle state come first
        figure.values |= row.values
    for figure in figures[len(idle) :]:
        figure.absent |= {KFAKE: DOES_NOT_CLEAN, MOCK: DOES_NOT_CLEAN}
    return figures
