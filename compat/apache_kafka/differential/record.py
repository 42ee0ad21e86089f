"""Plays the histories on Apache Kafka and records the result: `python -m compat.apache_kafka.differential.record`.

Needs java and Maven; takes some minutes. A live Kafka is made to run a pass exactly once, at a known moment:

- `min.cleanable.dirty.ratio=1.0` blocks passes, as a wholly dirty log is not above it;
- the last record of the dirty part goes to a segment of its own, which seals all before it;
- the ratio is set to 0, the broker's log reports the pass, the cleaner's checkpoint its end, and the ratio is set
  back before the next write;
- with `log.cleaner.backoff.ms=100` all that takes less than half a second.

The time of a pass is read from a delete horizon that it wrote, which is exact. If it wrote none, it is read from the broker's
log, and then no part of its result depends on the millisecond. A history whose passes happened differently from its plan is
recorded again.
"""

import argparse
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

from ...support.brokers.apache_kafka import VERSION, ApacheKafkaProcess
from . import transactions
from .history import DAY_MS, History, save
from .live import OVERRIDES, LiveKafka, UnluckyError, exact_times, now_ms
from .look import dump
from .themes import history

RECORDED = Path(__file__).parent / "recorded"
WIRE_FILE, TRANSACTIONS_FILE = "wire.json.xz", "transactions.json.xz"
WIRE_HISTORIES = 100
TRANSACTION_VERSIONS = (0, 1, 2)
TRIES = 4


def record_wire(live: LiveKafka, made: History, topic: str) -> None:
    """Play one history and fill in the answers."""
    wire, data = live.wire, live.process.data
    live.bound_map(made.map_entries)
    live.create_topic(topic, made.configs)
    configs = dict(made.configs)
    horizons: set[int] = set()
    pass_count = 0
    for step in made.steps:
        time.sleep(step.get("wait_ms", 0) / 1_000)
        step["at"] = now_ms()
        if step["do"] == "produce":
            step["answer"] = wire.produce(topic, bytes.fromhex(step["batch"]))
        elif step["do"] == "configs":
            configs |= step["set"]
            live.set_configs(topic, step["set"])
        elif step["do"] == "delete":
            step["answer"] = wire.delete_records(topic, step["offset"])
        elif step["do"] == "rounds":
            live.wait_for_rounds(topic)
            step["dump"] = dump(wire, topic, data, before_ms=made.start_ms)
        else:
            configs |= step["set"]
            if any(each["do"] == "delete" for each in made.steps):
                live.wait_for_rounds(topic)  # or a pass may be faster than the deletion of segments below the log start
            step["passes"] = live.let_pass(topic, step["set"], step["expect"])
            step["dump"] = dump(wire, topic, data, before_ms=made.start_ms)
            logged_ms = live.beginnings(topic)[pass_count:]
            pass_count += len(logged_ms)
            log, retention_ms = bytes.fromhex(step["dump"]["log"]), int(configs.get("delete.retention.ms", DAY_MS))
            times_ms = exact_times(logged_ms, log, retention_ms, horizons)
            step["now"] = times_ms[-1] if times_ms else step["at"] + 1
    if len(live.passes(topic)) != pass_count:
        raise UnluckyError(f"{topic}: a pass came that was not asked for")


def lucky(live: LiveKafka, name: str, play: Callable[[str], History]) -> History:
    """Return the history that `play` makes of a topic. Retried with another topic until the passes happen as planned."""
    for attempt in range(TRIES):
        topic = f"{name}-{attempt}"
        try:
            made = play(topic)
        except UnluckyError as unlucky:
            print(f"again: {unlucky}", flush=True)
            continue
        live.wire.delete_topic(topic)
        print(f"{made.name} {made.theme}: {len(made.steps)} steps", flush=True)
        return made
    raise UnluckyError(f"{name} did not come out in {TRIES} tries")


def record_all_wire(live: LiveKafka) -> list[History]:
    """Record all histories. Those with a small map come last, since a change of the map restarts Kafka's cleaner."""
    recorded = []
    for seed in sorted(range(WIRE_HISTORIES), key=lambda each: history(each, now_ms()).map_entries or 0):

        def play(topic: str, seed: int = seed) -> History:
            made = history(seed, now_ms())
            record_wire(live, made, topic)
            return made

        recorded.append(lucky(live, f"wire-{seed:03d}", play))
    return recorded


def record_all_transactions(live: LiveKafka, version: int) -> list[History]:
    """Record all styles that a broker with this `transaction.version` finalized can play, with all themes."""
    recorded = []
    for number, (theme, style) in enumerate(product(transactions.THEMES, transactions.TRANSACTION_VERSIONS)):
        if transactions.TRANSACTION_VERSIONS[style] == version:

            def play(topic: str, number: int = number, style: str = style, theme: str = theme) -> History:
                return transactions.play(live, number, style, theme, topic)

            recorded.append(lucky(live, f"transactions-{number:03d}", play))
    return recorded


def record(folder: Path, version: str = VERSION) -> None:
    """Write both files. One Apache Kafka at a time; the wire's histories are played on the last."""
    folder.mkdir(parents=True, exist_ok=True)
    transactional: list[History] = []
    for level in TRANSACTION_VERSIONS:
        features = {"transaction.version": level}
        with ApacheKafkaProcess(overrides=OVERRIDES, features=features, version=version) as process:
            live = LiveKafka(process)
            if level == TRANSACTION_VERSIONS[-1]:
                write(folder / WIRE_FILE, record_all_wire(live))
            live.wait_for_transactions()
            transactional += record_all_transactions(live, level)
    write(folder / TRANSACTIONS_FILE, transactional)


def write(path: Path, histories: list[History]) -> None:
    size = save(path, sorted(histories, key=lambda each: each.seed))
    print(f"{path}: {len(histories)} histories, {size} bytes", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RECORDED, help="the folder to write to")
    record(parser.parse_args().out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
