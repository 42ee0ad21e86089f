"""The cleaner compared with Apache Kafka's, batch for batch: the same history must leave the same log.

Kafka's side is recorded (`recorded/`, made by `record`), so only Ottla is needed here. With --live it is recorded
again first, which needs java and Maven, and some minutes.
"""

import argparse
import copy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ottla.storage.kernel import COMPILED

from ...support.brokers.apache_kafka import jars
from ...support.suite import NotRunError, Options, Suite, run_suite
from . import replay_storage, replay_transactions, replay_wire
from .compare import Findings
from .history import History, load
from .record import RECORDED, TRANSACTIONS_FILE, WIRE_FILE, record

WIRE_MIN, TRANSACTIONS_MIN = 70, 30
QUICK_STEP = 20
"""The short variant takes every second history."""
SHOWN = 3

Replay = Callable[[History, Findings], None]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--live", action="store_true", help="record Apache Kafka's side again, and compare with that")


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start Ottla itself: Apache Kafka's side is the recording")
    suite.note(f"the kernel is {'compiled' if COMPILED else 'interpreted'}")
    judge(suite, RECORDED, quick=options.quick)
    if options.rest.live:
        try:
            jars()
        except NotRunError as missing:
            suite.skip("live", f"not run: needs {missing}")
            return
        with TemporaryDirectory(prefix="compat-differential-live-") as folder:
            record(Path(folder))
            judge(suite, Path(folder), quick=False)


def judge(suite: Suite, folder: Path, *, quick: bool) -> None:
    wire, transactional = load(folder / WIRE_FILE), load(folder / TRANSACTIONS_FILE)
    suite.check("histories over the wire", len(wire) >= WIRE_MIN, len(wire))
    suite.check("transactional histories", len(transactional) >= TRANSACTIONS_MIN, len(transactional))
    judge_comparison(suite, wire)
    step = QUICK_STEP if quick else 1
    judge_all(suite, "over the wire", wire[::step], replay_wire.replay)
    judge_all(suite, "transactional, below the wire", transactional[::step], replay_storage.replay)
    with_room = [each for each in transactional if each.map_entries is None]
    suite.check("transactional histories over the wire", len(with_room) >= TRANSACTIONS_MIN, len(with_room))
    judge_transactional_comparison(suite, with_room)
    judge_all(suite, "transactional, over the wire", with_room[::step], replay_transactions.replay)


def judge_all(suite: Suite, kind: str, histories: Sequence[History], replay: Replay) -> None:
    total = Findings()
    for recorded in histories:
        findings = played(recorded, replay)
        shown = "; ".join(findings.differences[:SHOWN])[:2_000]
        what = f"{recorded.name} ({recorded.theme}): as Apache Kafka"
        suite.check(what, not findings.differences, shown or findings.counts())
        total.add(findings)
    suite.note(f"{len(histories)} histories {kind}: {total.counts()}")


def played(recorded: History, replay: Replay) -> Findings:
    findings = Findings()
    try:
        replay(recorded, findings)
    except Exception as error:  # noqa: BLE001 - one history that breaks must not hide the others
        findings.differences.append(f"{findings.place}: {type(error).__name__}: {error}")
    return findings


def judge_comparison(suite: Suite, histories: Sequence[History]) -> None:
    """Check that a history that Kafka did not play differs: a pass one millisecond later, a batch left out."""
    recorded = next(each for each in histories if each.theme == "tombstones_before_horizon")
    later = copy.deepcopy(recorded)
    next(step for step in later.steps if step["do"] == "pass")["now"] += 1
    suite.check("a pass one millisecond late is reported", bool(played(later, replay_wire.replay).differences))
    shorter = copy.deepcopy(recorded)
    del shorter.steps[1]
    suite.check("an omitted batch is reported", bool(played(shorter, replay_wire.replay).differences))


def judge_transactional_comparison(suite: Suite, histories: Sequence[History]) -> None:
    """Check that the comparison over the wire notices producers of another seed, and another transaction version."""
    other_seed = copy.deepcopy(histories[0])
    other_seed.seed += 1
    suite.check("different transactions are reported", bool(played(other_seed, replay_transactions.replay).differences))
    other_style = copy.deepcopy(next(each for each in histories if each.theme == "new, both"))
    other_style.theme = "old, both"
    suite.check(
        "epochs that do not increase are reported", bool(played(other_style, replay_transactions.replay).differences)
    )


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.differential", body, doc=__doc__, more_arguments=arguments))
