"""Clients of other languages and of Python, driven through a program (`drivers/`), and the time of each thing that happens to them."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from ..support.brokers.apache_kafka import cache_dir, fetches, jars
from ..support.suite import NotRunError

DRIVERS = Path(__file__).parent / "drivers"
ROOT = Path(__file__).parents[2]
TIMEOUT_S = 30.0
END_S = 10.0


@dataclass(frozen=True)
class Client:
    """A client and one group protocol. `command` returns that of its driver; NotRunError if something is missing."""

    name: str
    command: Callable[[], list[str]]
    protocol: str = "classic"
    heartbeat_ms: int = 0
    """Its interval of heartbeats; 0: its own default. The classic protocol only."""
    is_python: bool = False

    @property
    def slug(self) -> str:
        """The name without spaces: how client ids begin."""
        return self.name.replace(", ", "-").replace(" ", "")


class Event(NamedTuple):
    at_s: float
    """Time at which its line was read, by `time.perf_counter`."""
    client: str
    kind: str
    word: str


class ClientError(Exception):
    """A client reported an error."""


class Driver:
    """A running driver, for any thread; a context manager. Leaving kills it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._process = subprocess.Popen(
            client.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        )
        self.until_s = math.inf
        """Time at which every wait ends, by `time.perf_counter`."""
        self._has_ended = False
        self._events: list[Event] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at_s = time.perf_counter()
            if line.startswith("@ "):
                client, kind, *word = line[2:].rstrip("\n").split(" ", 2)
                with self._changed:
                    self._events.append(Event(at_s, client, kind, " ".join(word)))
                    self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def tell(self, *words: str) -> float:
        """Give an order; return the time, by `time.perf_counter`."""
        assert self._process.stdin is not None
        with self._changed:
            at_s = time.perf_counter()
            self._process.stdin.write(" ".join(words) + "\n")
            self._process.stdin.flush()
        return at_s

    def consume(self, name: str, bootstrap: str, topic: str, group: str, *, reset: str = "earliest") -> float:
        heartbeat_ms = str(self.client.heartbeat_ms)
        return self.tell("consume", name, bootstrap, topic, group, self.client.protocol, reset, heartbeat_ms)

    def wait(
        self, client: str, kind: str, word: str | None = None, *, after_s: float = 0.0, timeout_s: float = TIMEOUT_S
    ) -> float:
        """Wait until something has happened to a client after a point of time; return when it first did.

        Raises:
            ClientError: The client reported an error, or its program has ended.
            TimeoutError: This did not happen in time.
        """
        looked, until_s = 0, min(time.perf_counter() + timeout_s, self.until_s)
        with self._changed:
            while True:
                for event in self._events[looked:]:
                    if event.client == client and event.at_s >= after_s:
                        if event.kind == kind and word in (None, event.word):
                            return event.at_s
                        if event.kind == "error":
                            raise ClientError(f"{client}: {event.word}")
                looked = len(self._events)
                if self._has_ended:
                    raise ClientError(f"{client}: the program of {self.client.name} has ended")
                left_s = until_s - time.perf_counter()
                if left_s <= 0:
                    raise TimeoutError(
                        f"{client}: no '{' '.join(filter(None, (kind, word)))}' within {timeout_s:.0f} s"
                    )
                self._changed.wait(left_s)

    def do(self, order: str, client: str, *words: str, then: str) -> float:
        """Give an order and wait for its event; return the seconds in between."""
        begun_s = self.tell(order, client, *words)
        return self.wait(client, then, after_s=begun_s) - begun_s

    def close(self, client: str, *, timeout_s: float = TIMEOUT_S) -> float:
        """Close a client; return the seconds that this takes it."""
        begun_s = self.tell("close", client)
        closing_s = self.wait(client, "closing", after_s=begun_s)
        return self.wait(client, "closed", after_s=begun_s, timeout_s=timeout_s) - closing_s

    def kill(self) -> float:
        """kill -9; return the time."""
        self._process.kill()
        at_s = time.perf_counter()
        self._process.wait()
        return at_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.kill()
        self._reader.join(END_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def _python(library: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"{__package__}.drivers.python", library]


@cache
@fetches("waits-java")
def _java() -> list[str]:
    if not shutil.which("javac"):
        raise NotRunError("a JDK and Maven")
    folder, libraries = cache_dir() / "waits-java", jars(pom=ROOT / "compat" / "streams" / "kafka_streams.pom.xml")
    _build("javac", "-cp", f"{libraries}/*", "-d", str(folder), str(DRIVERS / "java" / "Driver.java"))
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{folder}:{libraries}/*", "Driver"]


@cache
@fetches("waits-go")
def _go_program() -> str:
    if not shutil.which("go"):
        raise NotRunError("Go")
    program = str(cache_dir() / "waits-go")
    _build("go", "build", "-buildvcs=false", "-mod=readonly", "-o", program, ".", cwd=DRIVERS / "go")
    return program


@cache
@fetches("waits-node")
def _node() -> list[str]:
    if not (shutil.which("node") and shutil.which("npm")):
        raise NotRunError("Node and npm")
    folder = cache_dir() / "waits-node"
    folder.mkdir(exist_ok=True)
    for name in ("package.json", "driver.js"):
        shutil.copy(DRIVERS / "node" / name, folder / name)
    if not (folder / "node_modules" / "kafkajs").exists():
        _build("npm", "install", "--no-audit", "--no-fund", cwd=folder)
    return ["node", str(folder / "driver.js")]


def _build(*command: str, cwd: Path | None = None) -> None:
    """Run a build. NotRunError with the last line of its errors if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise NotRunError(f"{command[0]} with its package index ({lines[-1]:.200})")


CLIENTS = (
    Client("kafka-python", _python("kafka-python"), is_python=True),
    Client("confluent-kafka", _python("confluent-kafka"), is_python=True),
    Client("confluent-kafka, consumer", _python("confluent-kafka"), "consumer", is_python=True),
    Client("aiokafka", _python("aiokafka"), is_python=True),
    Client("Java", _java),
    Client("Java, consumer", _java, "consumer"),
    Client("franz-go", lambda: [_go_program(), "franz-go"]),
    Client("sarama", lambda: [_go_program(), "sarama"]),
    Client("kafkajs", _node),
)
"""All clients with consumers. A name says `consumer` for the new group protocol."""

OFTEN_MS = 100
OFTEN = tuple(
    replace(client, name=f"{client.name}, {OFTEN_MS} ms", heartbeat_ms=OFTEN_MS)
    for client in CLIENTS
    if client.name in ("aiokafka", "franz-go", "sarama", "kafkajs")
)
"""Clients whose members the broker cannot always tell of a rebalance before their next heartbeat, with frequent heartbeats."""
SHARE, STREAMS = Client("Java, share", _java, "share"), Client("Java, streams", _java, "streams")
