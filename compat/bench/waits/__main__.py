"""A bench of all that a test waits for with stock clients: Ottla's dev profile, Apache Kafka with its defaults, and kfake.

    python -m compat.bench.waits [--clients NAME]... [--sides NAME]... [--runs N] [--quick] [--write]

Each client is a program of its own (`compat/waits/drivers`). It meets all brokers in turns, or side by side where it mostly waits; medians of N runs. A kill, only with Ottla, and closes after the broker has gone, are played with all clients at once. No
wait is longer than 30 s, and no scene of a client has a run that begins later than two minutes after its first one.
With --write the table is saved in `compat/bench/WAITS.md`, after each client and at the end.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from urllib.error import URLError

from confluent_kafka import KafkaException

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess, free_port
from ...support.machine import Machine
from ...support.suite import NotRunError, Options, Suite, run_suite
from ...waits.driver import CLIENTS as CONSUMERS
from ...waits.driver import OFTEN, OFTEN_MS, SHARE, STREAMS, TIMEOUT_S, Client, ClientError, Driver
from ..race.figures import KFAKE
from ..race.machine import commit, machine, versions
from ..race.sides import KfakeProcess, missing
from ..table import KAFKA, OTTLA
from .scenes import (
    GONE_ROWS,
    KILLED,
    ROWS,
    SCENE_ROWS,
    SCENES_OF_TWO,
    SCENES_THAT_WAIT,
    Result,
    Stage,
    gone,
    killed,
    scenes_of,
)

SIDES = (OTTLA, KAFKA, KFAKE)
CLIENTS = (*CONSUMERS, SHARE, STREAMS, *OFTEN)
RUNS, AT_ONCE = 10, 5
"""How often each scene is played, and how many scenes of two members are played at a time, with a topic and a group each."""
SCENE_S_MAX = 150.0
"""The longest time for all runs of one scene with one client, on all brokers."""
PAGE = Path(__file__).parents[1] / "WAITS.md"
TROUBLE = (ClientError, TimeoutError, KafkaException, RuntimeError, URLError, BrokenPipeError)

Played = Callable[[Stage, Sequence[Client]], tuple[dict[str, Result], dict[str, str]]]


class Figures:
    """Seconds by row, client and side; and what a client could not do with a side."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.seconds: dict[tuple[str, str, str], list[float]] = {}
        self.failures: dict[tuple[str, str], list[str]] = {}

    def add(self, client: str, side: str, result: Result) -> None:
        for row, seconds in result.items():
            self.seconds.setdefault((row, client, side), []).append(seconds)

    def fail(self, client: str, side: str, error: object) -> None:
        self.suite.note(f"{client}, {side}: {error}")
        self.failures.setdefault((client, side), []).append(str(error))

    def cell(self, row: str, client: str, sides: Sequence[str]) -> str:
        found = [self.seconds.get((row, client, side)) for side in sides]
        return " / ".join("–" if each is None else _milliseconds(statistics.median(each)) for each in found)


def _milliseconds(seconds: float) -> str:
    if seconds == math.inf:
        return f"> {TIMEOUT_S * 1000:.0f}"
    return f"{seconds * 1000:,.{0 if seconds >= 0.01 else 1}f}".replace(",", " ")


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start the brokers itself")
    wanted = options.rest
    chosen = tuple(side for side in SIDES if side in (wanted.sides or SIDES))
    absent = missing(tuple(side for side in chosen if side != OTTLA))
    sides = tuple(side for side in chosen if side not in absent)
    clients = [client for client in CLIENTS if client.name in (wanted.clients or [each.name for each in CLIENTS])]
    runs = wanted.runs or (1 if options.quick else RUNS)
    for side, why in absent.items():
        suite.note(f"{side}: not run: {why}")
    figures, others, able = Figures(suite), Machine(), list[Client]()

    def save(state: str = " This run has not come to its end.") -> str:
        page = written(figures, able, sides, runs, absent, others.others_part(), state)
        if wanted.write:
            PAGE.write_text(page)
        return page

    with ExitStack() as stack:
        stages = {side: stack.enter_context(started(side)) for side in sides}
        for client in clients:
            try:
                client.command()
            except NotRunError as error:
                suite.skip(client.name, f"not run: needs {error}")
                continue
            able.append(client)
            alone(figures, client, stages, runs)
            save()
        for _ in range(runs if OTTLA in stages else 0):
            together(figures, consumers(able), OTTLA, stages[OTTLA], killed)
            save()
    for side in sides:
        with started(side) as stage:
            together(figures, consumers(able), side, stage, gone)
            save()
    for line in save("").splitlines():
        suite.note(line)
    for client in able:
        for side in (side for side in sides if side != KFAKE):
            rows = [row for scene in scenes_of(client) for row in SCENE_ROWS[scene]]
            if client in CONSUMERS:
                rows += [*([KILLED] if side == OTTLA else []), *GONE_ROWS]
            missing_rows = [row for row in rows if (row, client.name, side) not in figures.seconds]
            suite.equal(f"{client.name}, {side}: rows not measured", [], missing_rows)


def consumers(clients: Sequence[Client]) -> list[Client]:
    return [client for client in clients if client in CONSUMERS]


def alone(figures: Figures, client: Client, stages: dict[str, Stage], runs: int) -> None:
    """Play the scenes of one client: on all brokers in turns after a round that does not count, or several at once if they wait."""
    for scene in scenes_of(client):
        in_turns, able = scene not in SCENES_THAT_WAIT, dict(stages)
        times = (
            [min(AT_ONCE, runs - done) for done in range(0, runs, AT_ONCE)]
            if scene in SCENES_OF_TWO
            else [1] * (runs + in_turns)
        )
        with Driver(client) as driver:
            end_s = driver.until_s = time.perf_counter() + SCENE_S_MAX
            for number, at_once in enumerate(times):
                if time.perf_counter() > end_s - TIMEOUT_S:
                    figures.suite.note(f"{client.name}: {scene.__name__}: not all runs")
                    break
                order = list(able.items())[:: -1 if number % 2 else 1] * at_once
                played = [(side, partial(scene, stage, driver)) for side, stage in order]
                for side, result in attempt(played, 1 if in_turns else len(played)):
                    if isinstance(result, Exception):
                        figures.fail(client.name, side, f"{scene.__name__}: {result}")
                        able.pop(side, None)
                    elif number or not in_turns:
                        figures.add(client.name, side, result)
    figures.suite.note(f"{client.name}: played alone")


def attempt(scenes: Sequence[tuple[str, Callable[[], Result]]], at_once: int) -> list[tuple[str, Result | Exception]]:
    """Return each side's results, or errors; `at_once` scenes are played at a time."""

    def one(scene: Callable[[], Result]) -> Result | Exception:
        try:
            return scene()
        except TROUBLE as error:
            return error

    threads = ThreadPoolExecutor(max(at_once, 1))
    try:
        return [
            (side, found.result()) for side, found in [(side, threads.submit(one, scene)) for side, scene in scenes]
        ]
    finally:
        threads.shutdown(wait=False, cancel_futures=True)  # a thread that waits ends with its client


def together(figures: Figures, clients: Sequence[Client], side: str, stage: Stage, play: Played) -> None:
    found, failed = play(stage, clients)
    for client, result in found.items():
        figures.add(client, side, result)
    for client, error in failed.items():
        figures.fail(client, side, f"{play.__name__}: {error}")
    figures.suite.note(f"{side}: {play.__name__}")


def written(
    figures: Figures,
    clients: Sequence[Client],
    sides: Sequence[str],
    runs: int,
    absent: dict[str, str],
    others: float | None,
    state: str,
) -> str:
    """Return the page, with a sentence on the state of the run."""
    names = {KAFKA: "Apache Kafka", OTTLA: "Ottla", KFAKE: "kfake"}
    known = versions()
    busy = "not known" if others is None else f"{others:.0%}"
    intro = (
        "Made by `python -m compat.bench.waits --write`; [README.md](README.md) says what is measured. Milliseconds, medians of"
        f" up to {runs}: {' / '.join(names[side] for side in sides)}.{state}"
    )
    ground = (
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit()}; {', '.join(f'{names[side]} {known[side]}' for side in sides)}. {machine()}."
        f" Others' part of the machine: {busy}."
    )
    lines = [
        "# What a test waits for",
        "",
        intro,
        "",
        ground,
        *(f"\n{names[side]}: not run: {why}." for side, why in absent.items()),
        "",
        f"| | {' | '.join(client.name for client in clients)} |",
        f"|---|{'---|' * len(clients)}",
        *(f"| {row} | {' | '.join(figures.cell(row, each.name, sides) for each in clients)} |" for row in ROWS),
        "",
        f"`{OFTEN_MS} ms` in a name is the client's interval of heartbeats; sarama's and kafkajs's fetches wait as long then.",
        "",
        "| wait | conditions |",
        "|---|---|",
        *(f"| {row} | {how} |" for row, how in ROWS.items()),
        "",
        *(f"- {client}, {names[side]}: {why[0]}" for (client, side), why in figures.failures.items()),
    ]
    return "\n".join(lines).rstrip() + "\n"


@contextmanager
def started(side: str) -> Iterator[Stage]:
    """Start a broker of this side, and stop it unless it has been killed."""
    admin = f"127.0.0.1:{free_port()}" if side == OTTLA else None
    kinds: dict[str, Callable[[], BrokerProcess]] = {
        OTTLA: lambda: OttlaProcess(profile="dev", arguments=("--admin", str(admin))),
        KAFKA: lambda: ApacheKafkaProcess(heap="1g"),
        KFAKE: KfakeProcess,
    }
    with kinds[side]() as broker:
        yield Stage(broker, admin)


def arguments(parser: argparse.ArgumentParser) -> None:
    names = [client.name for client in CLIENTS]
    parser.add_argument("--clients", action="append", choices=names, help="only these; may be given several times")
    parser.add_argument("--sides", action="append", choices=SIDES, help="only these; may be given several times")
    parser.add_argument("--runs", type=int, help=f"{RUNS} unless given, 1 with --quick")
    parser.add_argument("--write", action="store_true", help="save the table in compat/bench/WAITS.md")


if __name__ == "__main__":
    sys.exit(run_suite("bench.waits", body, doc=__doc__, more_arguments=arguments))
