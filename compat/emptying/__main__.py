"""`ottla empty` and the readers of newest values, on Ottla and on Apache Kafka; see the README."""

import json
import shlex
import signal
import subprocess
import sys

from confluent_kafka import Consumer, Producer

from ottla.server.client.kafka import Kafka
from ottla.server.client.table import Table
from ottla.server.client.values import NewRecord

from ..support.brokers.any_broker import any_broker
from ..support.suite import Options, Suite, run_suite

POLICIES: dict[str, dict[str, str]] = {
    "default": {},
    "compact": {"cleanup.policy": "compact"},
    "both": {"cleanup.policy": "compact,delete"},
    "compact-with-retention": {"cleanup.policy": "compact", "retention.ms": "86400000"},
}
TIMEOUT_S = 60


def body(suite: Suite, options: Options) -> None:
    for against in [options.against] if options.broker else ["ottla", "apache-kafka"]:
        options.against = against
        with any_broker(options) as broker, Kafka(broker.bootstrap) as kafka:
            for name in POLICIES:
                one_policy(suite, against, kafka, name)
            killed(suite, against, kafka)


def ottla(kafka: Kafka, line: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.server", *shlex.split(line), "--bootstrap", kafka.bootstrap]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def set_options(kafka: Kafka, topic: str) -> dict[str, str | None]:
    return {each.name: each.value for each in kafka.configs("topic", topic) if not each.is_default}


def one_policy(suite: Suite, against: str, kafka: Kafka, name: str) -> None:
    topic, what = f"topic-{name}", f"{against}, {name}"
    kafka.create_topic(topic, 2, POLICIES[name])
    before = set_options(kafka, topic)
    records = [NewRecord(str(number), f"k{number % 6}", partition=number % 2) for number in range(20)]
    kafka.produce_all(topic, [*records, NewRecord(None, "k1", partition=1)])
    newest = {f"k{number % 6}": str(number) for number in range(20) if number % 6 != 1}

    told = json.loads(ottla(kafka, f"topics describe {topic} --scan --json").stdout)["partitions"]
    suite.equal(f"{what}: records", [10, 11], [each["counts"]["records_max"] for each in told])
    suite.equal(f"{what}: live keys", [3, 2], [each["counts"]["live_keys_min"] for each in told])
    lines = ottla(kafka, f"consume {topic} --latest --format key-value --key-separator =").stdout.split()
    suite.equal(f"{what}: consume --latest", newest, dict(line.split("=") for line in lines))

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    first = consumer.poll(TIMEOUT_S)
    suite.check(f"{what}: a consumer is attached", first is not None and first.error() is None)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"tx-{name}"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"undecided", key=b"k0", partition=0)
    producer.flush(TIMEOUT_S)
    with Table(kafka.bootstrap, topic) as table:
        suite.equal(f"{what}: table", newest, {key.decode(): value.decode() for key, value in table.items()})
        done = ottla(kafka, f"empty {topic}")
        suite.equal(f"{what}: emptied", (0, []), (done.returncode, kafka.records(topic)))
        suite.equal(f"{what}: options", before, set_options(kafka, topic))
        producer.commit_transaction(TIMEOUT_S)
        later = kafka.produce(topic, "later", key="later")
        suite.equal(f"{what}: a wait for a later record", b"later", table.wait_for("later", timeout_s=TIMEOUT_S))
        suite.equal(f"{what}: table afterwards", {b"later": b"later"}, dict(table.items()))
    values = set()
    while b"later" not in values and (message := consumer.poll(TIMEOUT_S)) is not None:
        values.add(message.value())
    suite.check(f"{what}: the consumer continues", b"later" in values, later.offset)
    consumer.close()
    ottla(kafka, f"empty {topic} --tombstones")
    suite.equal(f"{what}: tombstones", {None}, {each.value for each in kafka.records(topic)} - {b"later"})


def killed(suite: Suite, against: str, kafka: Kafka) -> None:
    """Kill the command once it has said how to restore the policy; it may then be put aside, or not yet, or no longer."""
    kafka.create_topic("killed", 1, {"cleanup.policy": "compact", "retention.bytes": "1000000"})
    before = set_options(kafka, "killed")
    kafka.produce("killed", "v", key="k")
    command = [sys.executable, "-m", "ottla.server", "empty", "killed", "--bootstrap", kafka.bootstrap]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = process.stderr.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for line in said.strip().partition("run: ")[2].split(" && "):
        done = ottla(kafka, line.removeprefix("ottla "))
        suite.equal(f"{against}: {line}", 0, done.returncode)
    suite.equal(f"{against}: options after a kill and the printed line", before, set_options(kafka, "killed"))
    suite.equal(f"{against}: another call empties the topic", 0, ottla(kafka, "empty killed").returncode)
    suite.equal(f"{against}: nothing is left", [], kafka.records("killed"))


if __name__ == "__main__":
    sys.exit(run_suite("emptying", body, doc=__doc__))
