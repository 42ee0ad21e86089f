"""aiokafka's own tests that talk to a broker, from a checkout that the user names (`SUITE_SRC`).

They are held to `expected_failures.txt`. What is not run, and why, stands in README.md.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiokafka

from ottla.server.security.tls.throw_away import Authority

from ...support.brokers.any_broker import broker_process, second_listener
from ...support.brokers.process import BrokerProcess, RunningBroker
from ...support.pytest_suite import entries_of, judge, run_pytest
from ...support.suite import Options, Suite, run_suite
from ...support.suite_sources import suite_sources

HERE = Path(__file__).parent
FILES = (
    "test_transactional_producer.py",
    "test_transactional_consumer.py",
    "test_coordinator.py",
    "test_consumer.py",
    "test_producer.py",
    "test_sender.py",
    "test_fetcher.py",
    "test_message_accumulator.py",
    "test_admin.py",
    "test_client.py",
    "test_conn.py",
    "test_pep492.py",
)
QUICK_FILES = FILES[:2]
BROKER = {"num.partitions": "2", "group.initial.rebalance.delay.ms": "0", "offsets.topic.replication.factor": "1"}


def body(suite: Suite, options: Options) -> None:
    source = suite_sources("aiokafka", "aio-libs/aiokafka", "tests/test_transactional_producer.py")
    suite.note(f"sources: {source}; the client: aiokafka {aiokafka.__version__}")
    expected = {} if options.against == "apache-kafka" else entries_of(HERE / "expected_failures.txt")
    with tempfile.TemporaryDirectory(prefix="compat-aiokafka-") as folder:
        tree = Path(folder)
        lay_out(source, tree)
        certificates = tree / "ssl_cert"
        with started(options, certificates) as (broker, tls):
            environment = {
                "COMPAT_BROKER": broker.bootstrap,
                "COMPAT_TLS": tls,
                "COMPAT_CERTIFICATES": str(certificates),
                "PYTHONPATH": str(tree),
            }
            for name in QUICK_FILES if options.quick else FILES:
                outcomes = run_pytest(tree, f"tests/{name}", environment, "--docker-image=apache/kafka:2.13_4.3.1")
                judge(suite, name, outcomes, expected)


@contextmanager
def started(options: Options, certificates: Path) -> Iterator[tuple[BrokerProcess | RunningBroker, str]]:
    """A broker, and the address of its listener with TLS, for which it fills a new folder; none of one that runs already."""
    if options.broker:
        yield RunningBroker(options.broker), ""
        return
    authority = Authority(int(time.time() * 1000))
    server, client = authority.issue("localhost", ["localhost", "127.0.0.1"]), authority.issue("client")
    certificates.mkdir()
    (certificates / "ca.crt").write_text(authority.certificate)
    (certificates / "client.crt").write_text(client.certificate)
    (certificates / "client.key").write_text(client.key)
    (certificates / "server.pem").write_text(server.key + server.certificate)
    keys = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.crt"),
        "ssl.client.auth": "required",
    }
    broker = broker_process(options, BROKER | keys)
    tls = second_listener(broker, "SSL")
    with broker:
        yield broker, tls


def lay_out(source: Path, tree: Path) -> None:
    """aiokafka's `tests` folder in `tree`, without its package, so that the installed one is tested."""
    shutil.copytree(source / "tests", tree / "tests")
    (tree / "tests" / "conftest.py").rename(tree / "tests" / "conftest_of_aiokafka.py")
    shutil.copy(HERE / "shim" / "conftest.py", tree / "tests")
    shutil.copy(HERE / "shim" / "docker.py", tree)
    shutil.copy(HERE / "shim" / "pytest.ini", tree)


if __name__ == "__main__":
    sys.exit(run_suite("aiokafka.suite", body, doc=__doc__))
