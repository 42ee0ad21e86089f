"""Groups and transactions with confluent-kafka, kafka-python and aiokafka: what their own suites cover, step by step.

Groups: both protocols, members that come and go, incremental rebalancing, static members that return or are fenced.
Transactions: commit, abort, fencing, read_committed, offsets in a transaction, time-out.
"""

import sys

from ..support.brokers import any_broker
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


if __name__ == "__main__":
    sys.exit(run_suite("clients_groups", body, doc=__doc__))
