"""The brokers of the race, each as a process; and those that this machine can run.

The Go toolchain builds kfake from `kfake/` into the checkout's `build/`; librdkafka's mock cluster comes with confluent-kafka.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from confluent_kafka import Producer

from ...support.brokers.apache_kafka import ApacheKafkaProcess, jars
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import START_TIMEOUT_S, BrokerProcess, LineReader, free_port
from ...support.clients.raw import has_brokers
from ...support.clients.steps import create_topic
from ...support.suite import NotRunError
from ..table import KAFKA, OTTLA
from .figures import KFAKE, MOCK

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build" / "race"
KFAKE_SOURCE = Path(__file__).with_name("kfake")
MOCK_PARTITIONS = 4


class KfakeProcess(BrokerProcess):
    """kfake: one node, in memory."""

    kind = KFAKE

    def __init__(self, *, keep: bool = False) -> None:
        super().__init__(keep=keep)
        self.addresses = [f"127.0.0.1:{free_port()}"]

    def command(self) -> list[str]:
        return [str(kfake_program()), str(self.port)]

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s and process.poll() is None:
            if has_brokers("127.0.0.1", self.port):
                return
            time.sleep(0.02)
        raise RuntimeError(f"kfake did not come up:\n{self.output_tail()}")


class MockProcess(BrokerProcess):
    """librdkafka's mock cluster: in memory, 5 MB of the newest batches a partition; it chooses its port."""

    kind = MOCK

    def command(self) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("mock.py"))]

    def stdout_target(self, output: IO[bytes]) -> int | IO[bytes]:
        return subprocess.PIPE

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        reader = LineReader(process.stdout, self.output_path)
        reader.start()
        line = reader.line("ready ", START_TIMEOUT_S)
        if line is None:
            raise RuntimeError(f"the mock cluster did not come up:\n{self.output_tail()}")
        self.addresses = [line.removeprefix("ready ")]


def kfake_program() -> Path:
    """Return kfake's program, built again if its source has changed. NotRunError without Go, or without its module proxy."""
    go = shutil.which("go")
    if go is None:
        raise NotRunError("Go")
    program = BUILD / "kfake"
    newest = max(path.stat().st_mtime for path in KFAKE_SOURCE.iterdir())
    if not program.exists() or program.stat().st_mtime < newest:
        BUILD.mkdir(parents=True, exist_ok=True)
        command = [go, "build", "-buildvcs=false", "-mod=readonly", "-o", str(program), "."]
        done = subprocess.run(command, cwd=KFAKE_SOURCE, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotRunError(f"Go with access to its modules ({done.stderr.strip().splitlines()[-1:]})")
    return program


def missing(wanted: tuple[str, ...]) -> dict[str, str]:
    """Return the sides that cannot run here with what they need. Downloads and builds what is possible."""
    needs: dict[str, Callable[[], object]] = {KAFKA: jars, KFAKE: kfake_program}
    found: dict[str, str] = {}
    for side in wanted:
        try:
            needs.get(side, lambda: None)()
        except NotRunError as error:
            found[side] = f"needs {error}"
    return found


def broker_of(side: str, *, overrides: dict[str, str] | None = None, data: Path | None = None) -> BrokerProcess:
    """Return a broker that has not been started; those in memory have neither options nor data."""
    kinds: dict[str, Callable[[], BrokerProcess]] = {
        KAFKA: lambda: ApacheKafkaProcess(heap="1g", overrides=overrides, data=data),
        OTTLA: lambda: OttlaProcess(overrides=overrides, data=data),
        KFAKE: KfakeProcess,
        MOCK: MockProcess,
    }
    return kinds[side]()


@contextlib.contextmanager
def running(sides: tuple[str, ...], overrides: dict[str, str] | None = None) -> Iterator[dict[str, BrokerProcess]]:
    """Start all sides at once."""
    with contextlib.ExitStack() as stack:
        yield {side: stack.enter_context(broker_of(side, overrides=overrides)) for side in sides}


def make_topic(broker: BrokerProcess, topic: str, partitions: int = 1) -> None:
    """Create a topic.

    The mock cluster has no CreateTopics: it creates a topic of four partitions on request of its metadata.
    """
    if broker.kind != MOCK:
        create_topic(broker.bootstrap, topic, partitions=partitions)
        return
    if partitions > MOCK_PARTITIONS:
        raise RuntimeError(f"topics of {MOCK_PARTITIONS} partitions")
    client = Producer({"bootstrap.servers": broker.bootstrap})
    client.list_topics(topic, 10)
