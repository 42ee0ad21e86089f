"""aiokafka's own tests that talk to a broker, from a checkout that the user names (`SUITE_SRC`).

They are held to `expected_failures.txt`. What is not run, and why, stands in README.md.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import aiokafka

from ...support.brokers.any_broker import any_broker
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
        with any_broker(options, BROKER) as broker:
            environment = {"COMPAT_BROKER": broker.bootstrap, "PYTHONPATH": str(tree)}
            for name in QUICK_FILES if options.quick else FILES:
                outcomes = run_pytest(tree, f"tests/{name}", environment, "--docker-image=apache/kafka:2.13_4.3.1")
                judge(suite, name, outcomes, expected)


def lay_out(source: Path, tree: Path) -> None:
    """aiokafka's `tests` folder in `tree`, without its package, so that the installed one is tested."""
    shutil.copytree(source / "tests", tree / "tests")
    (tree / "tests" / "conftest.py").rename(tree / "tests" / "conftest_of_aiokafka.py")
    shutil.copy(HERE / "shim" / "conftest.py", tree / "tests")
    shutil.copy(HERE / "shim" / "docker.py", tree)
    shutil.copy(HERE / "shim" / "pytest.ini", tree)


if __name__ == "__main__":
    sys.exit(run_suite("aiokafka.suite", body, doc=__doc__))
