"""One pytest run (of one xdist worker): its brokers, the work before a test, and the report of a failed one.

Made by the first fixture that is requested, and a pytest plugin from then on; a run without fixtures does not load it.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, TypeAlias, TypeVar

import pytest

from ...protocol.errors import KafkaError
from ..client.kafka import ConfigValue, Kafka
from ..client.security import PLAIN, Security
from ..embedded.broker import Broker
from .reports import BrokerLog, tails
from .settings import read, reset

T = TypeVar("T")
TopicWanted: TypeAlias = tuple[int, Mapping[str, ConfigValue] | None]

FIXTURES = {
    "kafka_broker",
    "kafka_broker_factory",
    "kafka_external",
    "kafka_bootstrap",
    "kafka_topic",
    "kafka_group_id",
    "kafka_schema_registry",
}
SHARED = {"kafka_broker", "kafka_bootstrap", "kafka_topic", "kafka_schema_registry"}
"""Fixtures that use the one broker of the run."""
LOG_LINES = 100
"""Largest number of lines of the broker's log that are shown with a failed test."""
NAME_CHARS = 80
"""Number of characters of a test's name in the names of its topics and groups; Kafka allows 249 in all."""


class KafkaRun:
    """The brokers of a run and the effects of tests on them. Its `pytest_…` methods are hooks."""

    def __init__(self, config: pytest.Config) -> None:
        self.settings = read(config)
        self._log = BrokerLog()
        self._brokers: dict[Broker, str] = {}
        """Addresses of the brokers; a test may have stopped one."""
        self._shared: Broker | None = None
        self._module: object = None
        """Module of the last test that used the shared broker."""
        self._line = 0
        self._ends: dict[Broker, dict[bytes, int]] = {}
        """Log ends of topics at the start of the test."""
        self._topics: set[str] = set()
        """Topics that were created for the running test."""
        self._bootstrap = ""
        self._token = uuid.uuid4().hex[:6]
        self._numbers = count(1)
        config.pluginmanager.register(self, "ottla-run")

    def unique_name(self, item: Any) -> str:
        """Make a name for a topic or a group that no other test, worker or run has."""
        stem = re.sub(r"[^a-zA-Z0-9._-]+", "-", item.name)[:NAME_CHARS].strip("-") or "test"
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        return f"{stem}-{worker}-{self._token}-{next(self._numbers)}"

    @contextmanager
    def broker(self, options: Mapping[str, Any], *, is_shared: bool = False) -> Iterator[Broker]:
        """Run a broker for the duration of the block."""
        if self.settings.external:
            pytest.skip(f"requires a broker in this process, but --kafka-external is {self.settings.external}")
        with Broker(**self.settings.broker_arguments(options)) as broker:
            self._brokers[broker] = broker.bootstrap
            if is_shared:
                self._shared = broker
            try:
                yield broker
            finally:
                del self._brokers[broker]
                self._ends.pop(broker, None)

    @contextmanager
    def external(self) -> Iterator[Kafka]:
        """Connect a client to the external broker."""
        if not self.settings.external:
            pytest.skip("requires --kafka-external HOST:PORT")
        with Kafka(self.settings.external) as kafka:
            yield kafka

    @contextmanager
    def topic(self, item: Any, bootstrap: str) -> Iterator[str]:
        """Create a topic for the duration of the block, as the test's marker wants it."""
        partitions, configs = _marked(item, kafka_topic, kafka_topic())
        name = self.unique_name(item)
        security = self._security(bootstrap)
        with Kafka(bootstrap, security=security) as kafka:
            kafka.create_topic(name, partitions, configs)
        self._topics.add(name)
        self._bootstrap = bootstrap
        yield name
        # The test may have deleted it, or stopped the broker: that is not an error.
        with suppress(KafkaError, OSError), Kafka(bootstrap, timeout_s=2, security=security) as kafka:
            kafka.delete_topic(name)

    def _security(self, bootstrap: str) -> Security:
        """Return the security settings of clients of one of our brokers."""
        return next((broker.security for broker, address in self._brokers.items() if address == bootstrap), PLAIN)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if not _uses(item, FIXTURES):
            return
        self._reset_for(item)
        self._line = self._log.count
        self._topics = set()
        self._ends = {broker: {topic_id: end for _, topic_id, end in topic_ends(broker)} for broker in self._brokers}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and _uses(item, FIXTURES):
            try:
                report.sections += [(title, text) for title, text in self._sections() if text]
            except Exception as error:  # noqa: BLE001 - the failure that is reported is what counts
                report.sections.append(("Kafka", f"cannot be read: {type(error).__name__}: {error}"))
        return report

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if _uses(item, SHARED):
            self._module = _module_of(item)

    def pytest_unconfigure(self) -> None:
        self._log.detach()

    def _reset_for(self, item: pytest.Item) -> None:
        broker = self._shared
        if broker is None or broker not in self._brokers or not _uses(item, SHARED):
            return
        when = reset(_marked(item, kafka_reset, self.settings.reset))
        if when == "test" or (when == "module" and _module_of(item) is not self._module):
            broker.reset()

    def _sections(self) -> Iterator[tuple[str, str]]:
        if self._brokers:
            lines = self._log.since(self._line, LOG_LINES)
            yield "Kafka broker log", "\n".join(lines) or "nothing was logged since the test began"
        for broker, bootstrap in self._brokers.items():
            before = self._ends.get(broker, {})
            used = {name for name, topic_id, end in topic_ends(broker) if before.get(topic_id) != end}
            used |= self._topics if bootstrap == self._bootstrap else set()
            yield f"Kafka topics at {bootstrap}", tails(bootstrap, used, self._security(bootstrap)) if used else ""
        if self.settings.external and self._topics:
            yield f"Kafka topics at {self.settings.external}", tails(self.settings.external, self._topics)


def topic_ends(broker: Broker) -> list[tuple[str, bytes, int]]:
    """Return name, id and the sum of all log end offsets of each topic, without internal ones; empty if the broker is
    stopped."""

    async def look() -> list[tuple[str, bytes, int]]:
        return [
            (topic.name, topic.id, sum(partition.log.log_end_offset for partition in topic.partitions))
            for topic in broker.inner.services.topics
            if not topic.is_internal
        ]

    try:
        return broker.run(look)
    except RuntimeError:  # A test has stopped it.
        return []


def _uses(item: pytest.Item, fixtures: set[str]) -> bool:
    return not fixtures.isdisjoint(getattr(item, "fixturenames", ()))


def _module_of(item: pytest.Item) -> object:
    return getattr(item, "module", None)


def _marked(item: pytest.Item, meaning: Callable[..., T], unmarked: T) -> T:
    """Return the values of the nearest marker named like `meaning`, a function of its arguments; or `unmarked`."""
    marker = item.get_closest_marker(meaning.__name__)
    if marker is None:
        return unmarked
    try:
        return meaning(*marker.args, **marker.kwargs)
    except TypeError as error:
        raise pytest.UsageError(f"marker {error}") from error


def kafka_reset(when: str = "test") -> str:
    """Marker `kafka_reset`."""
    return when


def kafka_topic(partitions: int = 1, configs: Mapping[str, ConfigValue] | None = None) -> TopicWanted:
    """Marker `kafka_topic`."""
    return partitions, configs
