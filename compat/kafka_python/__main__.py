"""kafka-python's own integration tests, from its source distribution, against a running broker.

`test_producer_integration.py` and `test_consumer_integration.py` must pass. `expected_failures.txt` lists the accepted failures
of `test_admin_integration.py` (not in `--quick`). The files of `OWN_BROKER` start Ottla themselves, in place of a Kafka
installation (`shim/`). README.md says which tests are not run, and why.
"""

import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from ..support.brokers.any_broker import broker_process
from ..support.brokers.apache_kafka import cache_dir, fetches
from ..support.brokers.ottla_process import ottla_command
from ..support.brokers.process import BrokerProcess, RunningBroker, free_port
from ..support.pytest_suite import Outcome, entries_of, judge, run_pytest
from ..support.suite import NotRunError, Options, Suite, run_suite

VERSION = "3.0.12"
HERE = Path(__file__).parent
FILES = ("test_producer_integration.py", "test_consumer_integration.py", "test_admin_integration.py")
OWN_BROKER = ("test_sasl_integration.py", "test_ssl_integration.py")
SCRIPTS = {"kafka-storage.sh": "kafka_storage.py", "kafka-topics.sh": "kafka_topics.py"}
TOOLS = ("keytool", "openssl")
AGAIN = 2
BROKER = {
    "num.partitions": "4",
    "group.min.session.timeout.ms": "1000",  # test_group asks for 3000; Kafka's default refuses below 6000
    "group.initial.rebalance.delay.ms": "0",
}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def body(suite: Suite, options: Options) -> None:
    with tempfile.TemporaryDirectory(prefix="compat-kafka-python-") as folder:
        tree = Path(folder)
        unpack_tests(tree)
        kafka = options.against == "apache-kafka"
        expected = {} if kafka else entries_of(HERE / "expected_failures.txt")
        with started(options) as broker:
            for name in FILES[:1] if options.quick else FILES:
                outcomes = run_file(tree, name, broker.bootstrap)
                outcomes = [races_again(suite, tree, name, broker.bootstrap, outcome) for outcome in outcomes]
                judge(suite, name, outcomes, expected)
        if not (options.quick or options.broker or kafka):
            with_brokers_of_their_own(suite, tree, expected)


def with_brokers_of_their_own(suite: Suite, tree: Path, expected: dict[str, str]) -> None:
    lay_out_installation(tree)
    for name in OWN_BROKER:
        if name == "test_ssl_integration.py" and (missing := [tool for tool in TOOLS if not shutil.which(tool)]):
            suite.skip(name, f"needs {' and '.join(missing)}")
            continue
        environment = environment_of(tree) | {"COMPAT_OTTLA": ottla_command()[0]}
        judge(suite, name, run_pytest(tree, f"test/integration/{name}", environment), expected)


def races_again(suite: Suite, tree: Path, name: str, bootstrap: str, first: Outcome) -> Outcome:
    """Retry a failed test up to AGAIN times if it may have lost a race inside the client; any other outcome stays."""
    test, status, message = first
    reason = entries_of(HERE / "client_races.txt").get(f"{name}::{test.partition('[')[0]}")
    for number in range(AGAIN if status == "failed" and reason else 0):
        suite.note(f"{name}::{test} failed ({message}); the client's own race: {reason}; try {number + 2}")
        ((_, status, message),) = run_file(tree, f"{name}::{test}", bootstrap)
        if status == "passed":
            break
    return Outcome(test, status, message)


def started(options: Options) -> BrokerProcess | RunningBroker:
    """Return a broker as the tests expect it: among others with `advertised.listeners` set."""
    if options.broker:
        return RunningBroker(options.broker)
    if options.against == "apache-kafka":
        return broker_process(options, BROKER | AUTHORIZER)
    address = f"127.0.0.1:{free_port()}"
    broker = broker_process(options, BROKER | AUTHORIZER | {"advertised.listeners": f"PLAINTEXT://{address}"})
    broker.addresses = [address]
    return broker


def unpack_tests(tree: Path) -> None:
    """Lay out kafka-python's `test` folder in `tree`, with what its source distribution lacks."""
    archive = source_distribution()
    prefix = f"kafka_python-{VERSION}/"
    with tarfile.open(archive) as tar:
        members = [member for member in tar.getmembers() if member.name.startswith(prefix + "test/")]
        for member in members:
            member.name = member.name.removeprefix(prefix)
        tar.extractall(tree, members, filter="data")
    shutil.copy(HERE / "shim" / "__init__.py", tree / "test")
    shutil.copy(HERE / "shim" / "service.py", tree / "test")
    shutil.copy(HERE / "shim" / "pytest.ini", tree)


@fetches("kafka-python")
def source_distribution() -> Path:
    """Return the sdist, fetched by pip the first time. NotRunError without the package index."""
    cache = cache_dir()
    archive = cache / f"kafka_python-{VERSION}.tar.gz"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-binary", ":all:", "--no-deps", "-d", str(cache)]
        done = subprocess.run([*pip, f"kafka-python=={VERSION}"], capture_output=True, text=True, check=False)
        if not archive.exists():
            raise NotRunError(f"pip and the package index ({done.stderr.strip()[-200:]})")
    return archive


def run_file(tree: Path, name: str, bootstrap: str) -> list[Outcome]:
    """Run one file, or one test of it."""
    environment = environment_of(tree) | {"KAFKA_URI": f"kafka://{bootstrap}"}
    return run_pytest(tree, f"test/integration/{name}", environment)


def environment_of(tree: Path) -> dict[str, str]:
    root = str(tree)
    return {"KAFKA_VERSION": "4.3", "KAFKA_ROOT": root, "PROJECT_ROOT": root, "PYTHONPATH": root}


def lay_out_installation(tree: Path) -> None:
    """Write the parts of a Kafka installation that the fixtures call, and the templates that the source distribution lacks."""
    shutil.copytree(HERE / "shim" / "resources", tree / "servers" / "resources" / "default")
    scripts = tree / "bin"
    scripts.mkdir()
    for script, program in SCRIPTS.items():
        command = shlex.join([sys.executable, str(HERE / "shim" / program)])
        (scripts / script).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (scripts / script).chmod(0o755)


if __name__ == "__main__":
    sys.exit(run_suite("kafka_python", body, doc=__doc__))
