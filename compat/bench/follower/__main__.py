"""How soon a table that waits for a key sees a write of another client, in milliseconds, from the call of the producer on.

Writer and table are two threads of one process, the broker is another. A write is made when the wait for it has begun, a hundred a
second at most. Both sides are measured in turns.
"""

import statistics
import sys
import threading
import time

from ottla.server.client.kafka import Kafka
from ottla.server.client.table import Table

from ...support.brokers.any_broker import broker_process
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..table import KAFKA, OTTLA, judge

P99_BOUND_MS = 5.0
PAUSE_S = 0.01
TIMEOUT_S = 30


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start both brokers itself")
    rounds, writes = (1, 200) if options.quick else (3, 1_000)
    found: dict[str, list[float]] = {OTTLA: [], KAFKA: []}
    for _ in range(rounds):
        for side, latencies in found.items():
            options.against = side
            try:
                with broker_process(options) as broker:
                    latencies += seen_after_ms(broker.bootstrap, writes)
            except NotRunError as error:
                suite.skip(side, f"not run: needs {error}")
    for side, latencies in found.items():
        if latencies:
            suite.note(
                f"{side}: {len(latencies)} writes, median {statistics.median(latencies):.2f} ms, p99 {p99(latencies):.2f} ms"
            )
    judge(suite, "a table sees a write, p99", p99(found[OTTLA]), "ms", P99_BOUND_MS, judged=not options.quick)


def p99(latencies: list[float]) -> float:
    return sorted(latencies)[len(latencies) * 99 // 100]


def seen_after_ms(bootstrap: str, writes: int) -> list[float]:
    """Return for each write the time from the producer's call until a waiting table has the value."""
    with Kafka(bootstrap) as kafka, Table(bootstrap, "t") as table:
        kafka.create_topic("t", 1, {"cleanup.policy": "compact"})
        latencies = []
        for number in range(writes // 10 + writes):
            called_s = [0.0]
            value = b"%d" % number

            def write(value: bytes = value, called_s: list[float] = called_s) -> None:
                time.sleep(PAUSE_S)  # the wait has begun
                called_s[0] = time.perf_counter()
                kafka.produce("t", value, key="k")

            writer = threading.Thread(target=write)
            writer.start()
            table.wait_for("k", lambda found, value=value: found == value, TIMEOUT_S)  # type: ignore[misc]
            seen_s = time.perf_counter()
            writer.join()
            if number >= writes // 10:  # the first ones load code
                latencies.append((seen_s - called_s[0]) * 1_000)
        return latencies


if __name__ == "__main__":
    sys.exit(run_suite("bench.follower", body, doc=__doc__))
