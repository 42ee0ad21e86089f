"""aiokafka's own tests that need a broker, from a checkout that the user names (`SUITE_SRC`).

`expected_failures.txt` lists the failures that are accepted. README.md says which tests are not run, and why.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiokafka

from ottla.server.security.tls.dev_certificates import Authority

from ...support.brokers.any_broker import broker_process, more_listeners
from ...support.brokers.process import BrokerProcess, RunningBroker
from ...support.clients import kafka_acls
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
    "test_sasl.py",
)
QUICK_FILES = FILES[:2]
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
BROKER = {
    "num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_test="test";'
    ),
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": SCRAM,
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": SCRAM,
}


def body(suite: Suite, options: Options) -> None:
    source = suite_sources("aiokafka", "aio-libs/aiokafka", "tests/test_transactional_producer.py")
    suite.note(f"sources: {source}; the client: aiokafka {aiokafka.__version__}")
    expected = {} if options.against == "apache-kafka" else entries_of(HERE / "expected_failures.txt")
    with tempfile.TemporaryDirectory(prefix="compat-aiokafka-") as folder:
        tree = Path(folder)
        lay_out(source, tree)
        certificates = tree / "ssl_cert"
        with started(options, certificates) as (broker, tls, sasl):
            environment = {
                "COMPAT_BROKER": broker.bootstrap,
                "COMPAT_TLS": tls,
                "COMPAT_SASL": sasl,
                "COMPAT_CERTIFICATES": str(certificates),
                "PYTHONPATH": str(tree),
            }
            for name in QUICK_FILES if options.quick else FILES:
                outcomes = run_pytest(tree, f"tests/{name}", environment, "--docker-image=apache/kafka:2.13_4.3.1")
                judge(suite, name, outcomes, expected)


@contextmanager
def started(options: Options, certificates: Path) -> Iterator[tuple[BrokerProcess | RunningBroker, str, str]]:
    """Start a broker, and return the addresses of its TLS and SASL listeners; none for a running broker.

    The new folder `certificates` gets the files for TLS.
    """
    if options.broker:
        yield RunningBroker(options.broker), "", ""
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
    tls, sasl = more_listeners(broker, TLS="SSL", SASL="SASL_PLAINTEXT")
    with broker:
        yield broker, tls, sasl


def lay_out(source: Path, tree: Path) -> None:
    """aiokafka's `tests` folder in `tree`, without its package, so that the installed one is tested."""
    shutil.copytree(source / "tests", tree / "tests")
    (tree / "tests" / "conftest.py").rename(tree / "tests" / "conftest_of_aiokafka.py")
    shutil.copy(HERE / "shim" / "conftest.py", tree / "tests")
    shim = (HERE / "shim" / name for name in ("container.py", "docker.py", "pytest.ini"))
    for file in (*shim, Path(kafka_acls.__file__)):
        shutil.copy(file, tree)


if __name__ == "__main__":
    sys.exit(run_suite("aiokafka.suite", body, doc=__doc__))
