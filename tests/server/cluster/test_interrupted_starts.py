"""`ottla.Broker.start` and `stop` interrupted before any of their lines, and a start of `open_broker` cancelled at any step.

Nothing may remain: no thread, no lock, no port; and the same broker can be started and stopped again.
"""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest
import trio

import ottla
from ottla.server import embedded
from ottla.storage.disk.os_files import OsFiles
from support.broker.admin import topic_names
from support.broker.conversation import address, create_topic
from support.broker.raw_client import RawClient
from support.broker.stored_broker import StoredBroker
from support.sizes import size

PATIENCE_S = 30


class Interruption(BaseException):
    """An interruption like KeyboardInterrupt or a test's time limit: not an Exception, and at an arbitrary place."""


def is_embedded(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(str(Path(embedded.__path__[0]) / ""))


class Interrupts:
    """A tracer that raises in this thread before a line of the room `embedded`, then again at one of its calls or returns.

    Lines, and calls after the first interruption, are counted as they run. It does not raise before the line of a `with`: that
    runs again when the block ends, and Python handles no signal between its end and the release of the lock.
    """

    def __init__(self, line: int, call: int | None = None) -> None:
        self._lines_left = line
        self._calls_left = call
        self.raised = 0

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        return self._line if is_embedded(frame) else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        is_with = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip().startswith("with ")
        if event == "line" and not is_with:
            self._lines_left -= 1
            if self._lines_left < 0:
                if self._calls_left is not None:
                    sys.setprofile(self._profile)
                self._raise()
        return self._line

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        # Python itself removes a trace function that has raised.
        if is_embedded(frame) and event in ("call", "return"):
            assert self._calls_left is not None
            self._calls_left -= 1
            if self._calls_left < 0:
                self._raise()

    def _raise(self) -> None:
        self.raised += 1
        raise Interruption


def interrupted(call: Callable[[], object], line: int, then_call: int | None = None) -> int:
    """Interrupt `call`; return how often that happened, fewer times than requested if it has too few steps."""
    with Interrupts(line, then_call) as interrupts, suppress(Interruption):
        call()
    return interrupts.raised


others_threads: set[threading.Thread] = set()
"""Threads of brokers that other tests of this process share."""


@pytest.fixture(autouse=True)
def _others() -> Iterator[None]:
    others_threads.update(broker_threads())
    yield
    others_threads.clear()


def broker_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "ottla-broker" and each not in others_threads]


def broker_threads_end() -> None:
    for thread in broker_threads():
        thread.join(PATIENCE_S)


def is_free(directory: Path) -> bool:
    if (directory / ".lock").exists():
        OsFiles().lock(str(directory / ".lock")).release()
    broker_threads_end()  # all is done, except the last steps of a thread, which are Python's
    return not [thread for thread in broker_threads() if thread.is_alive()]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with groups and transactions to load, and a topic that must stay."""
    with StoredBroker(OsFiles(), [str(tmp_path)]) as stored:
        stored.create("t")
        for name in ("__consumer_offsets", "__transaction_state"):
            trio.run(stored.broker.services.topic_admin.create_internal, name)
    return tmp_path


OPTIONS: dict[str, Any] = {
    "overrides": {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
}


def test_a_start_interrupted_anywhere_leaves_nothing_and_may_be_repeated(tmp_path: Path) -> None:
    at = 0
    while True:
        broker = ottla.Broker(str(tmp_path), **OPTIONS)
        if not interrupted(broker.start, at):
            broker.stop()
            break
        broker_threads_end()
        assert is_free(tmp_path)
        if at % 2:
            broker.stop()
        broker.start()
        with RawClient(*address(broker)) as client:
            assert topic_names(client) == set()
        broker.stop()
        assert is_free(tmp_path)
        at += 1
    assert at > 10


def test_a_start_interrupted_twice_is_completed_by_the_next_call(tmp_path: Path) -> None:
    tried, first, second, step = 0, 0, 0, size(18, 1)
    while True:
        broker = ottla.Broker(str(tmp_path), **OPTIONS)
        count = interrupted(broker.start, first, second)
        if tried % 2:
            broker.stop()
        if count:
            broker.start()
        broker.stop()
        broker_threads_end()
        assert is_free(tmp_path)
        if not count:
            break
        tried += 1
        # A short run has every line, and a part of the calls after it.
        first, second = (first, second + step) if count == 2 else (first + 1, (first + 1) % step)
    assert tried > size(12, 50)


def test_a_stop_interrupted_anywhere_is_finished_by_the_next_one(tmp_path: Path) -> None:
    at = 0
    while True:
        broker = ottla.Broker(str(tmp_path), **OPTIONS)
        broker.start()
        if not interrupted(broker.stop, at):
            break
        if at % 2:
            broker.stop()
            assert is_free(tmp_path)
        else:
            broker.stop()
            broker.start()
            broker.stop()
        at += 1
    assert at > 5
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_many_threads_may_start_and_stop_a_broker(tmp_path: Path) -> None:
    broker = ottla.Broker(str(tmp_path), **OPTIONS)
    told: list[str] = []

    def start_and_stop() -> None:
        for _ in range(3):
            try:
                broker.start()
            except RuntimeError as error:
                told.append(str(error))
            broker.stop()

    threads = [threading.Thread(target=start_and_stop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    broker.stop()
    broker_threads_end()
    assert is_free(tmp_path)
    assert set(told) <= {"the broker is already running", "the broker was stopped during its start"}
    with broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")


def test_a_running_broker_is_not_started_again(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker:
        with pytest.raises(RuntimeError, match="already running"):
            broker.start()
        with RawClient(*address(broker)) as client:
            assert topic_names(client) == set()


class CancelAt(trio.abc.Instrument):
    """A Trio instrument that cancels before the task step of that number."""

    def __init__(self, scope: trio.CancelScope, at: int) -> None:
        self._scope = scope
        self._left = at

    def before_task_step(self, _: trio.lowlevel.Task) -> None:
        if self._left == 0:
            self._scope.cancel()
        self._left -= 1


def test_a_start_cancelled_at_any_step_leaves_nothing(directory: Path) -> None:
    async def start(at: int) -> bool:
        scope = trio.CancelScope()
        instrument = CancelAt(scope, at)
        served = False
        trio.lowlevel.add_instrument(instrument)
        with scope:
            async with ottla.open_broker(str(directory), **OPTIONS):
                served = True
        trio.lowlevel.remove_instrument(instrument)
        return served

    at = 0
    while not trio.run(start, at):
        assert is_free(directory)
        assert {path.name for path in directory.iterdir()} >= {"ottla.json", "t-0"}
        at += 1
    assert at > 5
    with ottla.Broker(str(directory), **OPTIONS) as broker, RawClient(*address(broker)) as client:
        assert topic_names(client) == {"t", "__consumer_offsets", "__transaction_state"}
