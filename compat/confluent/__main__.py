"""confluent-kafka-python's own integration tests, from a checkout that the user names (`SUITE_SRC`).

They run once with classic groups and once with KIP-848's (`TEST_CONSUMER_GROUP_PROTOCOL=consumer`), each on a new broker; those of
the schema registry run once, on a broker with one.
`expected_failures.txt` lists the failures that are accepted. README.md says which tests are not run, and why.
"""

import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..support.brokers.any_broker import broker_process, more_listeners
from ..support.brokers.apache_kafka import cache_dir, fetches
from ..support.brokers.ottla_process import OttlaProcess
from ..support.brokers.process import BrokerProcess, RunningBroker, free_port
from ..support.pytest_suite import entries_of, judge, run_pytest
from ..support.suite import NotRunError, Options, Suite, run_suite
from ..support.suite_sources import suite_sources

HERE = Path(__file__).parent
ROUNDS = ("classic", "consumer")
# In this order: the first test wants a cluster that has never had a group.
FILES = (
    "admin/test_basic_operations.py",
    "admin/test_delete_records.py",
    "admin/test_describe_operations.py",
    "admin/test_incremental_alter_configs.py",
    "admin/test_list_offsets.py",
    "admin/test_user_scram_credentials.py",
    "consumer/test_consumer_error.py",
    "consumer/test_consumer_memberid.py",
    "consumer/test_consumer_topicpartition_metadata.py",
    "consumer/test_consumer_upgrade_downgrade.py",
    "consumer/test_consumer_wakeable_poll_consume.py",
    "consumer/test_cooperative_rebalance_1.py",
    "consumer/test_cooperative_rebalance_2.py",
    "consumer/test_incremental_assign.py",
    "producer/test_producer_wakeable_poll_flush.py",
    "producer/test_transactions.py",
    "serialization/test_serializers.py",
)
QUICK_FILES = ("admin/test_list_offsets.py", "consumer/test_consumer_memberid.py", "producer/test_transactions.py")
REGISTRY_FILES = tuple(
    f"schema_registry/{kind}/test_{subject}.py"
    for kind in ("_sync", "_async")
    for subject in ("api_client", "avro_serializers", "json_serializers", "proto_serializers")
)
QUICK_REGISTRY_FILES = REGISTRY_FILES[:1]
AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}
BROKER = AT_ONCE | {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.second.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_sasl_user="sasl_user";'
    ),
}
TEST_TOOLS = ("pytest", "pytest-asyncio", "pytest-timeout")
TEST_LIMIT_S = 120


def body(suite: Suite, options: Options) -> None:
    source = suite_sources("confluent", "confluentinc/confluent-kafka-python", "tests/integration/cluster_fixture.py")
    version = tomllib.loads((source / "pyproject.toml").read_text())["project"]["version"]
    python = environment_with_client(version)
    suite.note(f"sources: {source}; the client: confluent-kafka {version}")
    expected = {} if options.against == "apache-kafka" else entries_of(HERE / "expected_failures.txt")
    with tempfile.TemporaryDirectory(prefix="compat-confluent-") as folder:
        tree = Path(folder)
        shutil.copytree(source / "tests", tree / "tests")
        shutil.copytree(HERE / "shim", tree, dirs_exist_ok=True)
        for protocol in ROUNDS:
            with started(options) as (broker, sasl):
                environment = {
                    "BROKERS": broker.bootstrap,
                    "SASL_BROKERS": sasl,
                    "PYTHONPATH": str(tree),
                    "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
                }
                for name in QUICK_FILES if options.quick else FILES:
                    target = f"tests/integration/{name}"
                    outcomes = run_pytest(tree, target, environment, f"--timeout={TEST_LIMIT_S}", python=python)
                    judge(suite, f"{protocol}/{name}", outcomes, expected)
        if options.broker or options.against != "ottla":
            suite.skip("schema_registry", "needs a broker of its own, with a schema registry")
            return
        port = free_port()
        with OttlaProcess(overrides=AT_ONCE, keep=options.keep, arguments=("--schema-registry", str(port))) as own:
            environment = {
                "BROKERS": "",
                "PLAIN_BROKERS": own.bootstrap,
                "SR_URL": f"http://localhost:{port}",
                "PYTHONPATH": str(tree),
            }
            for name in QUICK_REGISTRY_FILES if options.quick else REGISTRY_FILES:
                target = f"tests/integration/{name}"
                outcomes = run_pytest(tree, target, environment, f"--timeout={TEST_LIMIT_S}", python=python)
                judge(suite, f"registry/{name}", outcomes, expected)


@contextmanager
def started(options: Options) -> Iterator[tuple[BrokerProcess | RunningBroker, str]]:
    """Yield a broker, and its SASL listener's address, which is empty for a broker that runs already."""
    if options.broker:
        yield RunningBroker(options.broker), ""
        return
    broker = broker_process(options, BROKER)
    (sasl,) = more_listeners(broker, SECOND="SASL_PLAINTEXT")
    with broker:
        yield broker, sasl


@fetches("confluent-kafka")
def environment_with_client(version: str) -> Path:
    """Return the interpreter of a virtual environment with the client of the tests' version; created at first use.

    NotRunError without the package index.
    """
    folder = cache_dir() / f"confluent-kafka-{version}-serializers"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    venv.create(folder, clear=True, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    client = f"confluent-kafka[avro,json,protobuf,schemaregistry]=={version}"
    done = subprocess.run([*pip, client, *TEST_TOOLS], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotRunError(f"pip and the package index ({done.stderr.strip()[-200:]})")
    (folder / "complete").touch()
    return python


if __name__ == "__main__":
    sys.exit(run_suite("confluent", body, doc=__doc__))
