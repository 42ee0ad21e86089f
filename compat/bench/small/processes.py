"""Two nodes in one process against two: the same small requests, half of the connections at each node, to the partition that it leads.

    python -m compat.bench.small.processes [--requests N]

CPU a request, of all processes of the broker, is what this tells where client and broker share the cores; requests a second only
where they have cores of their own. Also what a request costs that another process answers (FindCoordinator at node 1), and memory.
"""

import argparse
import random
import statistics
import struct
import sys
import time
from contextlib import ExitStack
from types import SimpleNamespace
from typing import cast

import psutil

from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess
from ...support.clients.one_batch import one_record_batch
from ...support.clients.raw import RawConnection, frame, produce_body, produce_result
from ...support.clients.steps import create_topic
from ...support.suite import Options, Suite, run_suite
from .load import Load
from .requests import FETCH, FRAME_BYTES, NOT_THERE_YET, PRODUCE, READ, READ_BYTES, WRITTEN, Asked

CONNECTIONS = (10, 100)
ROUNDS = 5
ONE, TWO = "one process", "two processes"
FIND_COORDINATOR = (10, 0)
GROUP = "g"


class Side:
    """A broker of two nodes."""

    def __init__(self, broker: OttlaProcess) -> None:
        assert broker.process is not None
        self.root = psutil.Process(broker.process.pid)
        self.nodes = [
            cast("BrokerProcess", SimpleNamespace(port=int(each.rpartition(":")[2]))) for each in broker.addresses
        ]
        self.asks: dict[str, list[Asked]] = {"produce 100 B": [], "fetch 4 KB": []}
        for topic in (WRITTEN, READ):
            create_topic(broker.bootstrap, topic, partitions=2)
        written = one_record_batch(random.Random(1).randbytes(100))
        read = one_record_batch(random.Random(2).randbytes(READ_BYTES))
        rows = struct.calcsize(">iiih")
        for node in self.nodes:
            body = produce_body(WRITTEN, led(node, WRITTEN, written), written)
            self.asks["produce 100 B"].append(Asked(frame(*PRODUCE, 1, body), FRAME_BYTES + rows + len(WRITTEN)))
            fetch = fetch_body(led(node, READ, read))
            self.asks["fetch 4 KB"].append(Asked(frame(*FETCH, 1, fetch), FRAME_BYTES + 4 + rows + len(READ)))
        find = frame(*FIND_COORDINATOR, 1, struct.pack(">h", len(GROUP)) + GROUP.encode())
        self.find = Asked(find, FRAME_BYTES)

    def processes(self) -> list[psutil.Process]:
        return [self.root, *self.root.children(recursive=True)]

    def cpu_s(self) -> float:
        return float(sum(sum(each.cpu_times()[:2]) for each in self.processes()))

    def memory_mb(self) -> float:
        return float(sum(each.memory_full_info().pss for each in self.processes())) / 1e6

    def asked(self, load: Load, asks: list[tuple[BrokerProcess, Asked]], connections: int, requests: int) -> float:
        """CPU a request in microseconds, with so many connections and requests to each."""
        with ExitStack() as stack:
            go = [stack.enter_context(load.begun(node, asked, connections, requests)) for node, asked in asks]
            before_s = self.cpu_s()
            for begin, _ in go:
                begin()
            for _, end in go:
                end()
            return (self.cpu_s() - before_s) / (requests * len(asks)) * 1e6


def led(node: BrokerProcess, topic: str, records: bytes) -> int:
    """The partition that a node leads, which has these records then."""
    with RawConnection("127.0.0.1", node.port) as connection:
        for _ in range(200):
            for partition in (0, 1):
                body = produce_body(topic, partition, records)
                error_code = produce_result(connection.request(*PRODUCE, body), topic)[0]
                if error_code == 0:
                    return partition
                if error_code not in NOT_THERE_YET:
                    raise RuntimeError(f"preparing ended with error {error_code}")
            time.sleep(0.05)
    raise RuntimeError(f"nothing of {topic} is led there")


def fetch_body(partition: int) -> bytes:
    name = READ.encode()
    return (
        struct.pack(">iiiib", -1, 500, 1, 1 << 20, 0)
        + struct.pack(f">ih{len(name)}s", 1, len(name), name)
        + struct.pack(">iiqi", 1, partition, 0, READ_BYTES)
    )


def body(suite: Suite, options: Options) -> None:
    requests = options.rest.requests
    with Load() as load, ExitStack() as stack:
        sides = {
            ONE: Side(stack.enter_context(OttlaProcess(nodes=2))),
            TWO: Side(stack.enter_context(OttlaProcess(nodes=2, workers=True))),
        }
        for what in ("produce 100 B", "fetch 4 KB", "at node 1 of the first process"):
            for connections in CONNECTIONS:
                found: dict[str, list[float]] = {each: [] for each in sides}
                for number in range(ROUNDS):
                    for name, side in list(sides.items())[:: 1 if number % 2 else -1]:
                        if what in side.asks:
                            asks = list(zip(side.nodes, side.asks[what], strict=True))
                        else:
                            asks = [(side.nodes[1], side.find)]
                        found[name].append(side.asked(load, asks, connections // len(asks), requests))
                shown = ", ".join(
                    f"{name} {statistics.median(cpu):.1f} us ({min(cpu):.1f}-{max(cpu):.1f})"
                    for name, cpu in found.items()
                )
                suite.note(f"{what}, {connections} connections, CPU a request: {shown}")
        suite.note(", ".join(f"{name} {side.memory_mb():.0f} MB" for name, side in sides.items()))
    suite.check("every request was answered without an error", True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--requests", type=int, default=10_000, help="to each node, for each figure")


if __name__ == "__main__":
    sys.exit(run_suite("bench.small.processes", body, doc=__doc__, more_arguments=add_arguments))
