"""The pytest plugin as a user's project uses it: pytest in pytest."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

import ottla
import ottla.server.testing.run  # pytest in pytest unloads its modules: a class would exist twice
from support.sizes import some
from support.texts.loaded_once import load_clients_and_tls

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def as_a_user(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Isolate the inner run from the outer one: neither settings, nor a plugin that already listens to brokers."""
    logger = logging.getLogger("ottla")
    level = logger.level
    monkeypatch.setattr(logger, "handlers", [])
    logger.setLevel(logging.NOTSET)
    for name in ("EXTERNAL", "RESET", "NODES", "PROFILE", "EMULATE", "OPTION"):
        monkeypatch.delenv(f"OTTLA_KAFKA_{name}", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    yield
    logger.setLevel(level)


@pytest.fixture
def elsewhere() -> Iterator[ottla.Broker]:
    with ottla.Broker() as broker:
        yield broker


def outcomes(pytester: pytest.Pytester, code: str, *arguments: str, **expected: int) -> pytest.RunResult:
    pytester.makepyfile(code)
    result = pytester.runpytest("-p", "no:cacheprovider", *arguments)
    result.assert_outcomes(**expected)
    return result


def test_a_test_that_requests_a_broker_gets_one(pytester: pytest.Pytester) -> None:
    outcomes(
        pytester,
        """
        import ottla

        def test_all(kafka_broker: ottla.Broker, kafka_bootstrap, kafka_topic, kafka_group_id):
            assert kafka_broker.bootstrap == kafka_bootstrap
            assert [topic.name for topic in kafka_broker.topics()] == [kafka_topic]
            kafka_broker.commit(kafka_group_id, {(kafka_topic, 0): 0})
        """,
        passed=1,
    )


def test_a_run_shares_one_broker_with_unique_names(pytester: pytest.Pytester) -> None:
    outcomes(
        pytester,
        """
        import pytest

        seen = set()

        @pytest.mark.parametrize("number", range(3))
        def test_name(number, kafka_broker, kafka_topic, kafka_group_id):
            assert kafka_topic.startswith(f"test_name-{number}-main-")
            seen.update((kafka_broker.bootstrap, kafka_topic, kafka_group_id))

        def test_count(kafka_broker):
            assert len(seen) == 7
            assert kafka_broker.topics() == []  # Each is gone with its test.
        """,
        passed=4,
    )


def test_a_test_that_requests_a_schema_registry_gets_the_url_of_one(pytester: pytest.Pytester) -> None:
    outcomes(
        pytester,
        """
        import urllib.request

        def test_without_it(kafka_broker):
            assert kafka_broker.schema_registry.startswith("http://localhost:")  # another test requests it

        def test_with_it(kafka_broker, kafka_schema_registry):
            assert kafka_schema_registry == kafka_broker.schema_registry
            assert urllib.request.urlopen(kafka_schema_registry + "/subjects").read() == b"[]"
        """,
        passed=2,
    )


def test_a_run_without_a_test_of_the_schema_registry_has_none(pytester: pytest.Pytester) -> None:
    outcomes(
        pytester,
        """
        def test_none(kafka_broker, request):
            assert kafka_broker.schema_registry is None
            request.getfixturevalue("kafka_schema_registry")
        """,
        failed=1,
    ).stdout.fnmatch_lines(['*return {"schema_registry": True} from kafka_broker_config*'])


def test_a_topic_is_created_as_its_test_specifies(pytester: pytest.Pytester) -> None:
    outcomes(
        pytester,
        """
        import pytest

        @pytest.mark.kafka_topic(partitions=3, configs={"cleanup.policy": "compact"})
        def test_topic(kafka_broker, kafka_topic):
            (topic,) = kafka_broker.topics()
            assert len(topic.partitions) == 3
            with pytest.raises(Exception, match="INVALID_RECORD"):
                kafka_broker.produce(kafka_topic, "without a key")
        """,
        passed=1,
    )


def test_a_factory_starts_and_stops_a_tests_own_brokers(pytester: pytest.Pytester) -> None:
    outcomes(
        pytester,
        """
        brokers = []

        def test_two(kafka_broker_factory):
            brokers.extend([kafka_broker_factory(nodes=2), kafka_broker_factory()])
            assert [len(broker.bootstrap.split(",")) for broker in brokers] == [2, 1]

        def test_gone():
            assert [broker.state for broker in brokers] == ["stopped", "stopped"]
        """,
        passed=2,
    )


def test_a_broker_of_the_factory_may_be_entered_and_is_stopped_once(pytester: pytest.Pytester) -> None:
    outcomes(
        pytester,
        """
        def test_entered(kafka_broker_factory):
            with kafka_broker_factory() as broker:
                broker.produce("t", "v")
                assert broker.state == "serving"
            assert broker.state == "stopped"
            with broker as again:
                assert again.state == "serving" and again is broker

        def test_shared(kafka_broker, kafka_broker_factory):
            assert kafka_broker.state == "serving"
        """,
        passed=2,
    )


NODES = """
    import pytest

    {override}

    def test_nodes(kafka_broker):
        assert len(kafka_broker.bootstrap.split(",")) == {nodes}
"""
OVERRIDE = """
    @pytest.fixture(scope="session")
    def kafka_broker_config():
        return {"nodes": 5}
"""


def test_an_override_precedes_the_command_line_ini_file_and_environment(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes(pytester, NODES.format(override="", nodes=1), passed=1)
    monkeypatch.setenv("OTTLA_KAFKA_NODES", "2")
    outcomes(pytester, NODES.format(override="", nodes=2), passed=1)
    pytester.makeini("[pytest]\nkafka_nodes = 3")
    outcomes(pytester, NODES.format(override="", nodes=3), passed=1)
    outcomes(pytester, NODES.format(override="", nodes=4), "--kafka-nodes=4", passed=1)
    outcomes(pytester, NODES.format(override=OVERRIDE, nodes=5), "--kafka-nodes=4", passed=1)


TLS = """
    import pytest

    {override}

    def test_tls(kafka_broker, kafka_topic):
        from kafka import KafkaProducer

        options = {options}
        with KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, **options) as producer:
            producer.send(kafka_topic, b"v").get(60)
        assert [record.value for record in kafka_broker.records(kafka_topic)] == [b"v"]
"""
TLS_FIXTURE = """
    @pytest.fixture(scope="session")
    def kafka_broker_config():
        return {options}
"""


OVER_TLS, LOGIN, PLAIN = "kafka_broker.tls.kafka_python()", "kafka_broker.sasl('alice').kafka_python()", "{}"
USERS = {"alice": "secret"}


@pytest.fixture(scope="module")
def tls_is_loaded() -> None:
    pytest.importorskip("cryptography")
    load_clients_and_tls()


@pytest.mark.usefixtures("tls_is_loaded")
@pytest.mark.parametrize(
    ("options", "arguments", "config", "environment", "ini"),
    some(
        [
            (LOGIN, ["--kafka-tls"], {"users": USERS}, "", ""),
            (OVER_TLS, ["--kafka-tls"], None, "", ""),
            (LOGIN, [], {"users": USERS, "tls": True}, "", ""),
            (PLAIN, ["--kafka-tls"], {"tls": False}, "", ""),
            (OVER_TLS, [], None, "1", ""),
            (PLAIN, [], None, "1", "kafka_tls = no"),
        ],
        2,
    ),
)
def test_the_broker_speaks_tls_if_configured_unless_a_fixture_disables_it(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    options: str,
    arguments: list[str],
    config: dict[str, object] | None,
    environment: str,
    ini: str,
) -> None:
    if environment:
        monkeypatch.setenv("OTTLA_KAFKA_TLS", environment)
    if ini:
        pytester.makeini(f"[pytest]\n{ini}")
    override = "" if config is None else TLS_FIXTURE.format(options=config)
    pytester.makepyfile(TLS.format(override=override, options=options))
    pytester.runpytest("-p", "no:cacheprovider", *arguments).assert_outcomes(passed=1)


def test_broker_options_of_all_sources_are_combined(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_option =\n    num.partitions=3\n    auto.create.topics.enable=false")
    outcomes(
        pytester,
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_broker_config():
            return {"overrides": {"num.partitions": 4}}

        def test_options(kafka_broker):
            kafka_broker.create_topic("events")
            assert len(kafka_broker.topics()[0].partitions) == 4
            with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"):
                kafka_broker.produce("other", "value")
        """,
        passed=1,
    )


def test_overrides_of_a_wrong_type_are_refused_as_by_the_broker(pytester: pytest.Pytester) -> None:
    result = outcomes(
        pytester,
        """
        def test_it(kafka_broker_factory):
            kafka_broker_factory(overrides="num.partitions=3")
        """,
        "--kafka-option",
        "num.partitions=2",
        failed=1,
    )
    result.stdout.fnmatch_lines(["E *TypeError: overrides: expected Mapping or None, found 'num.partitions=3'"])


WRONG = {
    "--kafka-reset=tests": "kafka_reset: invalid value 'tests'; must be one of: never, module, test; did you mean 'test'?",
    "-okafka_tls=maybe": "kafka_tls: invalid value 'maybe'; must be one of: true, yes, on, 1, false, no, off, 0",
    "--kafka-nodes=0": "kafka_nodes: invalid value '0'; must be a positive integer",
    "--kafka-option=a.b": "kafka_option: invalid option 'a.b'; expected NAME=VALUE",
    "--kafka-option=num.partition=3": "*broker option num.partition not found; did you mean num.partitions?",
    "--kafka-external=here": "*invalid broker address 'here'; expected HOST:PORT, with a port from 1 to 65535",
}


@pytest.mark.parametrize("argument", WRONG)
def test_an_invalid_setting_is_named_in_one_line(pytester: pytest.Pytester, argument: str) -> None:
    code = "def test_it(kafka_bootstrap, kafka_topic): pass"
    result = outcomes(pytester, code, argument, errors=1)
    result.stdout.fnmatch_lines([f"E *{WRONG[argument]}"])


RESETS = """
    import pytest

    def test_one(kafka_broker):
        kafka_broker.create_topic("one")

    def test_two(kafka_broker):
        assert len(kafka_broker.topics()) == {left}
"""


@pytest.mark.parametrize(("when", "left"), [("never", 1), ("module", 1), ("test", 0)])
def test_the_broker_is_emptied_between_tests_on_request(pytester: pytest.Pytester, when: str, left: int) -> None:
    outcomes(pytester, RESETS.format(left=left), f"--kafka-reset={when}", passed=2)


def test_the_broker_is_emptied_between_modules_on_request(pytester: pytest.Pytester) -> None:
    module = """
        def test_one(kafka_broker):
            assert kafka_broker.topics() == []
            kafka_broker.create_topic("one")

        def test_without():
            pass

        def test_two(kafka_broker):
            assert len(kafka_broker.topics()) == 1
    """
    pytester.makepyfile(test_a=module, test_b=module)
    pytester.runpytest("--kafka-reset=module").assert_outcomes(passed=6)


def test_a_broker_requested_through_its_topic_fixture_is_empty(pytester: pytest.Pytester) -> None:
    outcomes(
        pytester,
        """
        import ottla

        def test_one(kafka_broker, kafka_bootstrap, kafka_topic):
            kafka_broker.create_topic("one")

        def test_two(kafka_bootstrap, kafka_topic, pytestconfig):
            from ottla.server.client.kafka import Kafka
            with Kafka(kafka_bootstrap) as kafka:
                assert [topic.name for topic in kafka.topics()] == [kafka_topic]
        """,
        "--kafka-reset=test",
        passed=2,
    )


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("kafka_topic(partition=3)", "*marker kafka_topic() got an unexpected keyword argument 'partition'*"),
        (
            "kafka_reset('tests')",
            "*kafka_reset: invalid value 'tests'; must be one of: never, module, test; did you mean 'test'?",
        ),
    ],
)
def test_an_invalid_marker_is_named_in_one_line(pytester: pytest.Pytester, marker: str, said: str) -> None:
    code = f"""
        import pytest

        def test_first(kafka_broker):
            pass

        @pytest.mark.{marker}
        def test_it(kafka_topic):
            pass
    """
    outcomes(pytester, code, passed=1, errors=1).stdout.fnmatch_lines([f"E *{said}"])


def test_a_report_is_fast_and_complete_under_a_permanent_fault(pytester: pytest.Pytester) -> None:
    result = outcomes(
        pytester,
        """
        def test_fails(kafka_broker, kafka_topic):
            kafka_broker.produce("events", "value")
            kafka_broker.fault("Metadata", disconnect="before", count=None)
            assert False, "as it should"
        """,
        failed=1,
    )
    result.stdout.fnmatch_lines(["E *as it should", "topic events: cannot be read: *"])


def test_a_marker_precedes_a_setting(pytester: pytest.Pytester) -> None:
    outcomes(
        pytester,
        """
        import pytest

        def test_one(kafka_broker):
            kafka_broker.create_topic("one")

        @pytest.mark.kafka_reset("never")
        def test_two(kafka_broker):
            assert len(kafka_broker.topics()) == 1

        @pytest.mark.kafka_reset
        def test_three(kafka_broker, kafka_topic):
            assert [topic.name for topic in kafka_broker.topics()] == [kafka_topic]
        """,
        "--strict-markers",
        "--kafka-reset=test",
        passed=3,
    )


def test_a_failure_shows_the_end_of_the_topics_it_used(pytester: pytest.Pytester) -> None:
    result = outcomes(
        pytester,
        """
        def test_other(kafka_broker):
            kafka_broker.produce("other", "not shown")

        def test_fails(kafka_broker, kafka_topic):
            kafka_broker.produce_all("events", [("key", str(number)) for number in range(30)])
            kafka_broker.produce("events", "x" * 1000, headers={"trace": "1"})
            assert kafka_broker.records("events") == []
        """,
        passed=1,
        failed=1,
    )
    text = result.stdout.str()
    shown = text[text.index("- Kafka topics at 127.0.0.1:") : text.index("= short test summary")]
    assert "topic events, partition 0: offsets 0 to 31 (exclusive), the last 10 records" in shown
    assert "b'key': b'20'" not in shown
    assert "b'key': b'21'" in shown
    assert "None: b'xxxx" in shown and "…  headers={'trace': b'1'}" in shown
    assert "topic test_fails-main-" in shown
    assert "not shown" not in shown
    assert "nothing was logged since the test began" in text


def test_a_failure_shows_the_brokers_log(pytester: pytest.Pytester) -> None:
    result = outcomes(
        pytester,
        """
        import logging

        def test_before(kafka_broker):
            logging.getLogger("ottla.broker").info("before")

        def test_fails(kafka_broker):
            for number in range(200):
                logging.getLogger("ottla.broker").info("line %d", number)
            assert False
        """,
        passed=1,
        failed=1,
    )
    text = result.stdout.str()
    assert "- Kafka broker log -" in text
    assert "INFO    ottla.broker: line 100\n" in text
    assert "ottla.broker: line 99\n" not in text
    assert "ottla.broker: before" not in text


def test_a_broker_stopped_by_a_test_does_not_break_its_report(pytester: pytest.Pytester) -> None:
    result = outcomes(
        pytester,
        """
        def test_fails(kafka_broker_factory):
            broker = kafka_broker_factory()
            broker.produce("events", "value")
            broker.stop()
            assert False, "as it should"
        """,
        failed=1,
    )
    result.stdout.fnmatch_lines(["E *as it should"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_the_users_own_logging_sees_the_same_lines(pytester: pytest.Pytester) -> None:
    outcomes(
        pytester,
        """
        import logging

        log = logging.getLogger("ottla.broker")

        def say():
            log.info("information")
            log.warning("warning")

        def test_default(kafka_broker, caplog):
            say()
            assert caplog.messages == ["warning"]

        def test_root_at_info(kafka_broker, caplog):
            with caplog.at_level(logging.INFO):
                say()
            assert caplog.messages == ["information", "warning"]

        def test_ottla_at_error(kafka_broker, caplog):
            with caplog.at_level(logging.ERROR, logger="ottla"):
                say()
            assert caplog.messages == []

        def test_its_own_logger_at_info(kafka_broker, caplog):
            with caplog.at_level(logging.INFO, logger="ottla.broker"):
                say()
            assert caplog.messages == ["information", "warning"]

        def test_words_that_do_not_fit(kafka_broker, caplog, capsys):
            log.info("%d", "no number")
            assert "--- Logging error ---" in capsys.readouterr().err
            assert caplog.messages == []
        """,
        passed=5,
    )
    assert logging.getLogger("ottla").handlers == []


def test_tests_with_an_external_broker_use_it(pytester: pytest.Pytester, elsewhere: ottla.Broker) -> None:
    outcomes(
        pytester,
        f"""
        def test_topic(kafka_bootstrap, kafka_topic, kafka_external):
            assert kafka_bootstrap == kafka_external.bootstrap == "{elsewhere.bootstrap}"
            kafka_external.produce(kafka_topic, "value")

        def test_control(kafka_broker):
            raise AssertionError("a broker that runs elsewhere has no clock to move")
        """,
        f"--kafka-external={elsewhere.bootstrap}",
        passed=1,
        skipped=1,
    )
    assert elsewhere.topics() == []


def test_without_an_external_broker_its_tests_are_skipped(pytester: pytest.Pytester) -> None:
    outcomes(pytester, "def test_it(kafka_external): pass", skipped=1)


def test_the_plugin_can_be_disabled(pytester: pytest.Pytester) -> None:
    outcomes(
        pytester,
        """
        import pytest

        @pytest.fixture
        def kafka_topic():
            return "my own"

        def test_it(kafka_topic, pytestconfig):
            assert kafka_topic == "my own"
            assert not pytestconfig.pluginmanager.has_plugin("ottla")
        """,
        "-p",
        "no:ottla",
        passed=1,
    )


def test_server_modules_are_loaded_on_demand_by_pythons_loader(pytester: pytest.Pytester) -> None:
    """Server modules are loaded once a test asks for them, by Python's loader; a project keeps its own package `server`."""
    pytester.mkpydir("server").joinpath("app.py").write_text("NAME = 'mine'\n")
    pytester.makepyfile(
        """
        import sys
        from server.app import NAME

        def test_before(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("ottla")
            assert {name for name in sys.modules if name.startswith(("ottla.", "trio"))} == {
                "ottla.server", "ottla.server.pytest_plugin", "ottla.server.testing", "ottla.server.testing.options"
            }

        def test_own_package(kafka_broker, kafka_topic):
            import server
            assert NAME == "mine" and not hasattr(server, "embedded")

        def test_not_rewritten(kafka_broker):
            names = {name for name in sys.modules if name.startswith("ottla.server.embedded")}
            assert all(type(sys.modules[name].__loader__).__name__ == "SourceFileLoader" for name in names) and names
        """
    )
    # The plugin of anyio, which clients of the registry need, loads Trio by itself.
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:anyio").assert_outcomes(passed=3)
