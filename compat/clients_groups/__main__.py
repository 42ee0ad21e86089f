"""Groups and transactions with confluent-kafka, kafka-python and aiokafka: the topics of their own suites, step by step.

Groups: both protocols, members that join and leave, incremental rebalancing, static members that return or are fenced.
Transactions: commit, abort, fencing, read_committed, offsets in a transaction, time-out; then again with the finalized feature
transaction.version at 0, as on brokers before 4.0.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ..support.brokers.any_broker import any_broker
from ..support.brokers.apache_kafka import ApacheKafkaProcess
from ..support.brokers.ottla_process import OttlaProcess
from ..support.brokers.process import BrokerProcess
from ..support.suite import Options, Suite, run_suite
from .groups import judge_groups
from .members import SESSION_MS
from .transactions import judge_transactions

BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
}


def body(suite: Suite, options: Options) -> None:
    with any_broker(options, BROKER) as broker:
        judge_transactions(suite, broker)
        judge_groups(suite, broker, quick=options.quick)
    if not options.quick and not options.broker:
        with TemporaryDirectory(prefix="compat-clients-groups-") as folder, old_broker(options, Path(folder)) as broker:
            suite.note("transaction.version 0")
            judge_transactions(suite, broker)


def old_broker(options: Options, folder: Path) -> BrokerProcess:
    """Return a broker with transaction.version 0."""
    if options.against == "apache-kafka":
        return ApacheKafkaProcess(overrides=BROKER, keep=options.keep, features={"transaction.version": 0})
    config = folder / "server.properties"
    config.write_text("# feature.transaction.version=0\n")
    return OttlaProcess(overrides=BROKER, keep=options.keep, arguments=("--config", str(config)))


if __name__ == "__main__":
    sys.exit(run_suite("clients_groups", body, doc=__doc__))
