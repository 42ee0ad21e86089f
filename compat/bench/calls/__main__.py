"""The number of broker functions that one request calls, from its bytes on a connection to the answer, and of their files.

    python -m compat.bench.calls [--rows TEXT] [--list]

A broker and its client share one thread and a clock that does not move. Nothing else runs, so the counts are the same in each
run. A call of a function of `protocol`, `storage` or `server` counts, and each time that a generator or a coroutine resumes.
Generated code (codecs, dataclasses) does not count. Each row runs a few times first, then is counted a few times, each time
with a new group or transaction. --list prints the calls of each row, one a line.
"""

import argparse
import itertools
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import trio
import trio.testing

import ottla
from ottla.protocol.connection import encode_request, parse_response
from ottla.server.broker.supervisor import run_supervisor
from ottla.server.client.connection import api_of
from ottla.server.config.static_config import static_config
from ottla.server.runtime import time_slices
from ottla.server.runtime.clock import Clock

from ...support.suite import NotRunError, Options, Suite, run_suite
from .requests import COUNTED, VERSIONS, Row, record, rows, topic

ROOT = Path(ottla.__file__).parent
FLOORS = tuple(f"{ROOT / floor}/" for floor in ("protocol", "storage", "server"))
WARM_UP, TIMES = 3, 5
RECORDS = 30
"""The records before the test: the first is not among the newest batches, whose positions are known."""
MEMBER_ID_REQUIRED = 79
FRAME_SIZE_BYTES, ANSWER_BYTES_MAX = 4, 1 << 16
OPTIONS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # The first record of a partition takes more than others do, and so does one that gets an entry in an index.
    "log.index.interval.bytes": "1000000000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}

Counts = Counter[tuple[str, str]]
"""Calls by file and function."""


class Connection:
    """The client's connection, in the broker's thread: it lets the broker run, and reads the answer when no task can run."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._socket.settimeout(0)

    async def carry_out(self, row: Row, number: int) -> Counts:
        """Carry out the row's conversation; return the calls of its counted request."""
        counts, conversation, said = Counts(), row.conversation(number), None
        is_counted = False
        while True:
            try:
                step = conversation.send(said)
            except StopIteration:
                return counts
            said = None
            if step is COUNTED:
                is_counted = True
            elif is_counted:
                said = await self.ask(step, counts)
                is_counted = False
            else:
                said = await self.ask(step)

    async def ask(self, message: Any, counts: Counts | None = None) -> Any:
        api = api_of(message)
        version = VERSIONS[api.name]
        frame = encode_request(api, version, 1, "compat", message)
        with counting(Counts() if counts is None else counts):
            self._socket.sendall(frame)
            await trio.testing.wait_all_tasks_blocked()
            answer = await self._answer()
        response = parse_response(api, version, answer[FRAME_SIZE_BYTES:])[1]
        if errors := set(errors_in(response)) - {0, MEMBER_ID_REQUIRED}:
            raise RuntimeError(f"{api.name}: errors {errors}")
        return response

    async def _answer(self) -> bytes:
        while True:
            try:
                return self._socket.recv(ANSWER_BYTES_MAX)
            except BlockingIOError:  # a worker thread is at it
                await trio.sleep(0.001)
                await trio.testing.wait_all_tasks_blocked()

    def close(self) -> None:
        self._socket.close()


@contextmanager
def counting(counts: Counts) -> Iterator[None]:
    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (file := frame.f_code.co_filename).startswith(FLOORS):
            counts[file.removeprefix(f"{ROOT}/"), frame.f_code.co_qualname] += 1

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def errors_in(message: Any) -> Iterator[int]:
    for one in fields(message):
        value = getattr(message, one.name)
        if one.name.endswith("error_code"):
            yield value
        for element in value if isinstance(value, tuple) else (value,):
            if is_dataclass(element):
                yield from errors_in(element)


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to look into its own process")
    trio.run(count, suite, options.rest)


async def count(suite: Suite, arguments: argparse.Namespace) -> None:
    time_slices.SLICE_S = time_slices.PASS_S = float("inf")  # the machine's other load must not end a time slice
    clock = Clock()
    with tempfile.TemporaryDirectory() as directory:
        flags = OPTIONS | {"log.dirs": directory}
        async with run_supervisor(static_config(profile="dev", flags=flags), clock=clock) as supervisor:
            broker = supervisor.broker
            clock.freeze()
            host, port = broker.nodes[0].advertised("PLAINTEXT")
            coordinators = broker.services.coordinators
            for each in (coordinators.groups, coordinators.transactions, coordinators.share_states):
                await each.ensure_topic()  # made in a thread: the counted request must not wait for it
            numbers = itertools.count()
            with closing(Connection((host, port))) as connection:
                await connection.ask(topic())
                for _ in range(RECORDS):
                    await connection.ask(record())
            for row in rows():
                if arguments.rows is None or arguments.rows in row.what:
                    with closing(Connection((host, port))) as connection:
                        found = [await connection.carry_out(row, next(numbers)) for _ in range(WARM_UP + TIMES)]
                    tell(suite, row, found[WARM_UP:], is_listed=arguments.list)


def tell(suite: Suite, row: Row, found: list[Counts], *, is_listed: bool) -> None:
    # A socket may wake the broker once more than necessary, and a worker thread may end late.
    least = min(found, key=Counts.total)
    files = {file for file, _ in least}
    suite.note(f"{row.what:45} {least.total():5} calls in {len(files):3} files")
    if is_listed:
        for (file, function), times in sorted(least.items()):
            suite.note(f"    {times:4} {file}: {function}")
    totals = [one.total() for one in found]
    suite.check(f"{row.what}: the same nearly each time", 2 * found.count(least) > TIMES, totals)
    if row.most is not None:
        suite.check(f"{row.what}: at most {row.most} calls", least.total() <= row.most, least.total())


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", metavar="TEXT", help="only rows whose name contains this")
    parser.add_argument("--list", action="store_true", help="every call")


if __name__ == "__main__":
    sys.exit(run_suite("bench.calls", body, doc=__doc__, more_arguments=arguments))
