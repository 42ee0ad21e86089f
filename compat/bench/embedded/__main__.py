"""The broker inside a test's process: how long a start, a reset and a stop make a test wait.

Each measurement runs in a fresh interpreter, like one of a user's test files. The client is Ottla's own, the
directory a temporary one, unless stated otherwise. Apache Kafka has nothing to compare.
"""

import argparse
import statistics
import subprocess
import sys

from ...support.suite import NotRunError, Options, Suite, run_suite

IMPORT_BOUND_MS, FIRST_PRODUCE_BOUND_MS, RESET_BOUND_MS = 15.0, 50.0, 20.0
RESET_TOPICS = 20

IMPORT = """
import time
started = time.perf_counter()
import ottla
print((time.perf_counter() - started) * 1000)
"""

STARTS = """
import shutil, tempfile, time
import ottla
imported = time.perf_counter()
kind = ottla.Broker
print("import", (time.perf_counter() - imported) * 1000)
def produced(broker):
    started = time.perf_counter()
    broker.start()
    serving = time.perf_counter()
    broker.produce("first", "value")
    done = time.perf_counter()
    broker.stop()
    name = "own" if broker_dir else "temporary"
    print(name, "start", (serving - started) * 1000)
    print(name, "produce", (done - started) * 1000)
    print(name, "stop", (time.perf_counter() - done) * 1000)
for broker_dir in (None, tempfile.mkdtemp()):
    for run in range({runs}):
        if broker_dir:
            shutil.rmtree(broker_dir)
        produced(kind(broker_dir))
"""

LIVES = """
import shutil, tempfile, time
import ottla
def filled(broker):
    for number in range({topics}):
        broker.create_topic(f"topic-{{number}}")
        broker.produce(f"topic-{{number}}", "value")
for directory in (None, tempfile.mkdtemp()):
    snapshots = tempfile.mkdtemp()
    with ottla.Broker(directory) as broker:
        for run in range({runs}):
            filled(broker)
            path = f"{{snapshots}}/{{run}}"
            for name, end in (("restart", broker.restart), ("crash", broker.crash), ("snapshot", lambda: broker.snapshot(path)),
                              ("restore", lambda: broker.restore(path)), ("reset", broker.reset)):
                started = time.perf_counter()
                end()
                print("own" if directory else "temporary", name, (time.perf_counter() - started) * 1000)
    shutil.rmtree(snapshots)
    if directory:
        shutil.rmtree(directory)
"""


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start the broker itself")
    runs = options.rest.runs or (3 if options.quick else 10)
    imports = [float(run(IMPORT)) for _ in range(runs)]
    starts = figures(run(STARTS.format(runs=runs)))
    lives = figures(run(LIVES.format(runs=runs, topics=RESET_TOPICS)))
    suite.note(f"medians of {runs}, ms; the first start of a process loads what the others find")
    suite.note(f"import ottla {median(imports)}")
    suite.note(f"import of the server, at the first use of ottla.Broker {median(starts['import'])}")
    for place in ("temporary", "own"):
        first = starts[f"{place} produce"][0]
        suite.note(
            f"{place} directory: start {median(starts[f'{place} start'])}, to the first produce acknowledged"
            f" {median(starts[f'{place} produce'])} (the first one {first:.1f}), stop {median(starts[f'{place} stop'])}"
        )
        ends = ", ".join(
            f"{name} {median(lives[f'{place} {name}'])}"
            for name in ("restart", "crash", "reset", "snapshot", "restore")
        )
        suite.note(f"{place} directory, {RESET_TOPICS} topics: {ends}")
    counts = {what: len(found) for what, found in lives.items()}
    suite.check(
        "every life was followed by the next", set(counts.values()) == {runs} and len(counts) == 10, str(counts)
    )
    if options.quick:
        return  # milliseconds mean nothing on a busy machine
    judged = (
        (f"import ottla within {IMPORT_BOUND_MS:.0f} ms", imports, IMPORT_BOUND_MS),
        (
            f"start to the first produce within {FIRST_PRODUCE_BOUND_MS:.0f} ms",
            starts["temporary produce"],
            FIRST_PRODUCE_BOUND_MS,
        ),
        (f"reset of {RESET_TOPICS} topics within {RESET_BOUND_MS:.0f} ms", lives["temporary reset"], RESET_BOUND_MS),
    )
    for what, found, bound_ms in judged:
        suite.check(what, statistics.median(found) < bound_ms, f"{median(found)} ms")


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


def figures(printed: str) -> dict[str, list[float]]:
    """Return name -> its milliseconds, from the lines that a process printed."""
    found: dict[str, list[float]] = {}
    for line in printed.splitlines():
        name, _, value = line.rpartition(" ")
        found.setdefault(name, []).append(float(value))
    return found


def median(found: list[float]) -> str:
    return f"{statistics.median(found):.1f}"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int)


if __name__ == "__main__":
    sys.exit(run_suite("bench.embedded", body, doc=__doc__, more_arguments=arguments))
