"""The status page's cost to the broker: a topic of 200 partitions, 50 records a second, and browsers that watch it.

Measured are the CPU time of the broker's process, less its CPU time without a browser, and the longest step of its Trio thread.
The step is also in CPU time, as the machine may be busy with something else.
"""

from __future__ import annotations

import argparse
import http.client
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import Producer

from ...page.chromium import Window, chromium
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import free_port
from ...support.clients.steps import create_topic
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..table import judge
from .steps import longest_step

TOPIC, PARTITIONS, RECORDS_A_SECOND = "wide", 200, 50
PAGE = f"/topics/{TOPIC}"
SMALL_PAGE = "/acls"
"""A page without rows: the browser's own share of the time."""
VIEW_BOUND_MS, WATCHED_BOUND_PERCENT, STEP_BOUND_MS = 200.0, 2.0, 20.0


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start Ottla itself")
    seconds = options.rest.seconds or (5.0 if options.quick else 20.0)
    # First, as a browser's driver leaves much to the garbage collector, which runs within any step.
    step_ms, whose = longest_step(lambda bootstrap, _: fed(bootstrap), lambda admin: looked_at(admin, seconds))
    judge(suite, f"longest step of the Trio thread, CPU ({whose})", step_ms, "ms", STEP_BOUND_MS)
    admin = f"127.0.0.1:{free_port()}"
    with OttlaProcess(profile="dev", arguments=("--admin", admin)) as broker, fed(broker.bootstrap):
        before = alone(broker, seconds)
        views(suite, broker, admin)
        with watched(admin, 1):
            one = alone(broker, seconds)
        with watched(admin, 3):
            three = alone(broker, seconds)
        after = alone(broker, seconds)
        in_chromium(suite, admin)
    nobody = min(before, after)
    suite.note(
        f"the broker with {RECORDS_A_SECOND} records a second and nobody who looks: {before:.2f} %, later {after:.2f} %"
    )
    judge(suite, "watched by one, of a core", one - nobody, "%", WATCHED_BOUND_PERCENT)
    suite.note(f"watched by three: {three - nobody:.2f} %")


def looked_at(admin: str, seconds: float) -> None:
    """Have one client watch while another opens pages."""
    with watched(admin, 1):
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            for path in ("/", "/topics", PAGE, f"{PAGE}/partitions/0", f"{PAGE}/options"):
                read(admin, path)


@contextmanager
def fed(bootstrap: str) -> Iterator[None]:
    """Make a topic, and produce in a thread to all partitions in turn; each has some records when the block begins."""
    create_topic(bootstrap, TOPIC, partitions=PARTITIONS, cleanup_policy="compact")
    producer, stop = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}), threading.Event()
    for number in range(PARTITIONS * 20):
        producer.produce(TOPIC, key=f"k{number % 7}", value=b"v" * 100, partition=number % PARTITIONS)
    producer.flush(60)

    def feed() -> None:
        number = 0
        while not stop.wait(1 / RECORDS_A_SECOND):
            producer.produce(TOPIC, key=f"k{number % 7}", value=b"v" * 100, partition=number * 7 % PARTITIONS)
            producer.poll(0)
            number += 1
        producer.flush(30)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        stop.set()
        feeder.join()


def alone(broker: OttlaProcess, seconds: float) -> float:
    """Return the percentage of a core that the process uses, over `seconds`."""
    began_s, had_s = time.monotonic(), broker.cpu_seconds()
    threading.Event().wait(seconds)
    return 100 * (broker.cpu_seconds() - had_s) / (time.monotonic() - began_s)


def views(suite: Suite, broker: OttlaProcess, admin: str) -> None:
    """Measure the first view, for which Jinja2 is loaded, and nine more."""
    taken_ms, cpu_ms = [], []
    for _ in range(10):
        had_s, began_s = broker.cpu_seconds(), time.monotonic()
        size = len(read(admin, PAGE))
        taken_ms.append(1e3 * (time.monotonic() - began_s))
        cpu_ms.append(1e3 * (broker.cpu_seconds() - had_s))
    suite.note(f"{PAGE} has {size:,} bytes")
    suite.note(f"first look of all: {taken_ms[0]:.0f} ms, {cpu_ms[0]:.0f} ms of CPU")
    suite.note(f"further ones: {statistics.median(taken_ms[1:]):.0f} ms")
    judge(suite, "first look of all, broker's CPU", cpu_ms[0], "ms", VIEW_BOUND_MS)
    judge(suite, "further looks, broker's CPU", statistics.median(cpu_ms[1:]), "ms", VIEW_BOUND_MS)


def read(admin: str, path: str) -> bytes:
    with closing(http.client.HTTPConnection(admin, timeout=60)) as connection:
        connection.request("GET", path)
        return connection.getresponse().read()


@contextmanager
def watched(admin: str, by: int) -> Iterator[None]:
    """Have `by` clients watch the page; all have received the first state before the block starts."""
    host, _, port = admin.rpartition(":")
    sockets = [socket.create_connection((host, int(port)), 60) for _ in range(by)]
    readers = []
    for each in sockets:
        each.sendall(f"GET {PAGE}?events HTTP/1.1\r\nHost: {admin}\r\n\r\n".encode())
        got = b""
        while b"\n\n" not in got:
            got += each.recv(1 << 16)
        readers.append(threading.Thread(target=drain, args=(each,)))
        readers[-1].start()
    try:
        yield
    finally:
        for each, reader in zip(sockets, readers, strict=True):
            each.shutdown(socket.SHUT_RDWR)
            reader.join()
            each.close()


def drain(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


def in_chromium(suite: Suite, admin: str) -> None:
    """Measure how long a person waits, on this machine in its present state."""
    try:
        with chromium() as browser, Window(browser) as page:
            paint = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
            page.goto(f"http://{admin}/")
            painted: dict[str, list[float]] = {}
            for path in (SMALL_PAGE, PAGE) * 5:
                page.goto(f"http://{admin}{path}")
                painted.setdefault(path, []).append(page.wait_for_function(paint).json_value())
            ms = {path: f"{statistics.median(each):.0f} ms ({min(each):.0f})" for path, each in painted.items()}
            suite.note(f"first contentful paint in Chromium: {ms[PAGE]}, of a page without rows {ms[SMALL_PAGE]}")
    except NotRunError as missing:
        suite.skip("first contentful paint", f"needs {missing}")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, help="of each measurement")


if __name__ == "__main__":
    sys.exit(run_suite("bench.page", body, doc=__doc__, more_arguments=arguments))
