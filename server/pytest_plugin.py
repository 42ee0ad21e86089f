"""The pytest plugin: fixtures, options and markers. A test that requests a fixture gets a broker; other tests are not affected.

Every pytest run of every environment that Ottla is installed in loads this module: it imports only pytest; the fixtures' code
is in `testing`, loaded with the first of them. PYTEST_DONT_REWRITE: it has no assertions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from .testing.options import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .client.kafka import Kafka
    from .embedded.broker import Broker
    from .testing.run import KafkaRun


MARKERS = (
    "kafka_reset(when='test'): reset kafka_broker before a 'test', a 'module' or 'never'; see --kafka-reset",
    "kafka_topic(partitions=1, configs=None): partitions and configs of the topic that kafka_topic creates",
)
_RUN: pytest.StashKey[KafkaRun] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "a Kafka broker for tests (Ottla)")
    for setting in SETTINGS:
        kind: Literal["linelist", "string"] = "linelist" if setting.is_list else "string"
        if setting.metavar:
            action = "append" if setting.is_list else "store"
            group.addoption(setting.flag, action=action, metavar=setting.metavar, help=setting.help, default=None)
        else:
            group.addoption(setting.flag, action="store_const", const="true", help=setting.help, default=None)
        parser.addini(setting.ini, setting.help, type=kind, default=None)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def _run(request: pytest.FixtureRequest) -> KafkaRun:
    if _RUN not in request.config.stash:
        from .testing.plain_imports import keep_from_rewriting

        keep_from_rewriting()
        from .testing.run import KafkaRun

        request.config.stash[_RUN] = KafkaRun(request.config)
    return request.config.stash[_RUN]


@pytest.fixture(scope="session")
def kafka_broker_config() -> dict[str, Any]:
    """Arguments of `ottla.Broker` for `kafka_broker`; override it to give your own."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest, kafka_broker_config: dict[str, Any]) -> Iterator[Broker]:
    """A Kafka broker in a thread of this process (an `ottla.Broker`), one for the whole run or xdist worker."""
    with_registry = any("kafka_schema_registry" in getattr(each, "fixturenames", ()) for each in request.session.items)
    options = {"schema_registry": True, **kafka_broker_config} if with_registry else kafka_broker_config
    with _run(request).broker(options, is_shared=True) as broker:
        yield broker


@pytest.fixture
def kafka_broker_factory(
    request: pytest.FixtureRequest, kafka_broker_config: dict[str, Any]
) -> Iterator[Callable[..., Broker]]:
    """Starts brokers of this test's own: `kafka_broker_factory(nodes=3)`, with the arguments of `ottla.Broker`."""
    from contextlib import ExitStack

    run = _run(request)
    with ExitStack() as brokers:
        yield lambda **options: brokers.enter_context(run.broker({**kafka_broker_config, **options}))


@pytest.fixture(scope="session")
def kafka_external(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A client of the broker that runs at --kafka-external; without that option the test is skipped."""
    with _run(request).external() as kafka:
        yield kafka


@pytest.fixture(scope="session")
def kafka_bootstrap(request: pytest.FixtureRequest) -> str:
    """`HOST:PORT` for clients: of --kafka-external if it is given, else of `kafka_broker`."""
    bootstrap: str = _run(request).settings.external or request.getfixturevalue("kafka_broker").bootstrap
    return bootstrap


@pytest.fixture(scope="session")
def kafka_schema_registry(kafka_broker: Broker) -> str:
    """The URL of the schema registry beside `kafka_broker`, for clients of Confluent's Schema Registry."""
    if kafka_broker.schema_registry is None:
        pytest.fail('the broker has no schema registry; return {"schema_registry": True} from kafka_broker_config')
    return kafka_broker.schema_registry


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_bootstrap: str) -> Iterator[str]:
    """The name of a topic made for this test and deleted behind it; see the marker `kafka_topic`."""
    with _run(request).topic(request.node, kafka_bootstrap) as name:
        yield name


@pytest.fixture
def kafka_group_id(request: pytest.FixtureRequest) -> str:
    """A group id that no other test has."""
    return _run(request).unique_name(request.node)
