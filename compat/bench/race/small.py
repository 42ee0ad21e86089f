"""Small requests in a closed loop: those of `compat.bench.small`, by its load generator, over all sides."""

from __future__ import annotations

import functools
import statistics

from ...support.brokers.process import BrokerProcess
from ...support.suite import NotRunError
from ..small.__main__ import CONNECTIONS, timed
from ..small.load import Load
from ..small.requests import Asked, prepare
from ..wire.load import round_trips
from .course import Course
from .figures import MOCK, Figure
from .sides import make_topic, running

PROBE_MS = 4_000
"""The warm-up for each request: both brokers have compiled and cached by then."""


def small_requests(course: Course) -> list[Figure]:
    """Measure two turns of each side for each row, in slices of half a second after a second of warm-up."""
    try:
        generator = Load()
    except NotRunError as missing:
        course.suite.note(f"from Python, one connection: needs {missing}")
        return one_connection(course)
    connections = CONNECTIONS[:3] if course.quick else CONNECTIONS
    with generator as load, running(course.sides) as brokers:
        asks: dict[str, dict[str, Asked]] = {}
        refusals: dict[str, str] = {}

        def attempt(broker: BrokerProcess) -> None:
            prepared = prepare(broker, functools.partial(make_topic, broker))
            for asked in prepared.values():
                load.timed(broker, asked, 10, 1, PROBE_MS)
            asks[broker.kind] = prepared

        probe = Figure("", "")
        able = course.taking_part(brokers, [probe], attempt)
        refusals.update(probe.absent)
        rows = [row for each in connections for row in timed(load, able, asks, each, 2 * course.rounds, judged=False)]
    return [Figure.of_row(row, refusals) for row in rows]


def one_connection(course: Course) -> list[Figure]:
    """Measure one connection, without a C compiler."""
    p50 = Figure("produce 100 B, 1 connection, from Python: p50", "us")
    p99 = Figure("produce 100 B, 1 connection, from Python: p99", "us")
    for figure in (p50, p99):
        figure.absent[MOCK] = "no CreateTopics"
    with running(tuple(side for side in course.sides if side != MOCK)) as brokers:
        able = course.taking_part(brokers, [p50, p99], lambda broker: round_trips(broker, 0, 200))
        for side in course.turns(able):
            micros = round_trips(able[side], 2_000, 2_000 if course.quick else 10_000)
            p50.note(side, statistics.median(micros))
            p99.note(side, statistics.quantiles(micros, n=100)[98])
    return [p50, p99]
