"""Logins and rights: clients at every kind of listener, compared with recorded answers of Apache Kafka.

They log in with good, bad and expired credentials, and send all that they can as users with and without the rights for it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from ..support.suite import NotRunError, Options, Suite, run_suite
from .actions import ACTIONS
from .driver import CLIENTS, QUICK, Answer, Driver
from .logins import BECOMES_BAD, SHORT_SESSION_MS, STAYS_GOOD, Cell, cells
from .recording import Answers, Named, named, normal, outcome, read, write
from .rights import EXACT, NONE
from .scene import SEEN, ActionCell, Scene, action_cells
from .world import World

TIMEOUT_MS = 4_000
"""The time-out of each call of a client. A call that times out has failed for good: no action here takes a broker that long."""
FIRST_MS = 30_000
"""A client's very first call loads it, and counts for nothing."""
PAUSE_S = SHORT_SESSION_MS / 1000 + 1
SHOWN, DETAIL = 60, 300
AT_A_TIME = 4
UNSUPPORTED = "unsupported"
"""The result of an action that a client does not support; it is not among the client's answers."""


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its broker itself")
    against = "apache-kafka" if options.rest.record else options.against
    asked = options.rest.client or list(QUICK if options.quick else CLIENTS)
    with tempfile.TemporaryDirectory(prefix="compat-security-") as work:
        drivers = _drivers(suite, asked, Path(work))
        if not drivers:
            raise NotRunError("a client")
        world = World(Path(work))
        acting = list(action_cells((EXACT, NONE) if options.quick else None))
        coming = [cell for cell in cells() if cell.is_brief or not options.quick]
        with world.broker(against, keep=options.keep):
            scene = Scene(world)
            scene.build([driver.client for driver in drivers], acting)
            with ThreadPoolExecutor(AT_A_TIME) as threads:
                go_through = partial(
                    _gone_through, scene=scene, coming=coming, acting=acting, is_told=options.rest.tell
                )
                found = list(threads.map(go_through, drivers))
            for driver in drivers:
                driver.close()
    differences = named()
    for driver, answers in zip(drivers, found, strict=True):
        if options.rest.record:
            path = write(driver.client, answers)
            suite.check(
                f"{driver.client}: recorded",
                True,
                f"{len(answers.logins)} logins, {len(answers.actions)} actions, {path.name}",
            )
        else:
            _compare(suite, driver.client, answers, differences, is_whole=not options.quick)


def _drivers(suite: Suite, asked: list[str], work: Path) -> list[Driver]:
    def started(client: str) -> Driver | NotRunError:
        try:
            return Driver(client, work / f"{client}.log")
        except NotRunError as error:
            return error

    with ThreadPoolExecutor(len(asked)) as threads:
        found = dict(zip(asked, threads.map(started, asked), strict=True))
    for client, error in found.items():
        if isinstance(error, NotRunError):
            suite.skip(client, f"not run: needs {error}")
    return [driver for driver in found.values() if isinstance(driver, Driver)]


def _gone_through(
    driver: Driver, scene: Scene, coming: list[Cell], acting: list[ActionCell], *, is_told: bool
) -> Answers:
    """Run every login and every action with one client."""
    began_s = time.monotonic()
    answers = Answers(driver.version)
    look = {"action": "metadata", "arguments": {"topic": SEEN}, "timeout_ms": TIMEOUT_MS}
    driver.ask(scene.login(Cell("PLAINTEXT", "", "none"), driver.client) | look | {"timeout_ms": FIRST_MS})
    again = [cell for cell in coming if cell.credentials in (BECOMES_BAD, STAYS_GOOD)]
    lines = {cell: scene.login(cell, driver.client) | look for cell in coming}

    def ask(cell: str, line: dict[str, Any]) -> Answer:
        began_s = time.monotonic()
        answer = driver.ask(line)
        if is_told:
            took, detail = f"{time.monotonic() - began_s:.1f} s", str(answer.get("detail"))[:DETAIL]
            print(f"{driver.client} | {cell} | {outcome(answer)} | {took} | {detail}", file=sys.stderr, flush=True)
        return answer

    first = {cell: ask(cell.id, lines[cell] | {"keep": True}) for cell in again}
    if again:
        scene.let_fade(driver.client)
        time.sleep(PAUSE_S)
    for cell in again:
        second = ask(cell.id, lines[cell])
        answers.logins[cell.id] = f"{outcome(first[cell])}, then {outcome(second)}"
    for cell in coming:
        if cell not in first:
            answers.logins[cell.id] = outcome(ask(cell.id, lines[cell]))
    for act in acting:
        if act.action not in driver.actions:
            continue
        arguments = ACTIONS[act.action].arguments(act.name(driver.client))
        line: dict[str, Any] = {"action": act.action, "arguments": arguments, "timeout_ms": TIMEOUT_MS}
        answers.actions[act.id] = outcome(ask(act.id, scene.acting(act) | line))
    for table in (answers.logins, answers.actions):
        for each in [each for each, result in table.items() if UNSUPPORTED in result]:
            del table[each]
    print(f"{driver.client}: {time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True)
    return answers


def _compare(suite: Suite, client: str, ours: Answers, differences: list[Named], *, is_whole: bool) -> None:
    theirs = read(client)
    if theirs is None:
        suite.skip(client, "nothing was recorded from Apache Kafka")
        return
    suite.check(f"{client}: {ours.client}", True, f"recorded with {theirs.client}")
    used: set[Named] = set()
    unnamed = []
    for table in ("logins", "actions"):
        recorded, seen = getattr(theirs, table), getattr(ours, table)
        for cell, result in seen.items():
            expected = normal(recorded.get(cell, "not recorded"))
            if result == expected:
                continue
            why = [one for one in differences if one.covers(client, cell, result)]
            used.update(why[:1])
            if not why:
                unnamed.append(f"{cell}: {expected} there, {result} here")
        suite.check(f"{client}: {table} compared", bool(seen), len(seen))
    suite.equal(f"{client}: differences that are not named", 0, len(unnamed))
    for line in unnamed[:SHOWN]:
        suite.note(line)
    if is_whole:
        idle = [one.cell for one in differences if fnmatchcase(client, one.client) and one not in used]
        suite.equal(f"{client}: named differences that are not seen", [], idle)


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", action="store_true", help="record the clients' results at Apache Kafka")
    parser.add_argument("--tell", action="store_true", help="print every answer, with the parts that are not compared")
    parser.add_argument(
        "--client", action="append", choices=list(CLIENTS), help="only this client; may be given several times"
    )


if __name__ == "__main__":
    sys.exit(run_suite("security", body, doc=__doc__, more_arguments=_more))
