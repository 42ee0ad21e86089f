"""Spark's own Kafka connector: batch and Structured Streaming, source and sink, against a running broker.

Every row that the connector gives is compared with the records that were written; what it writes is read by librdkafka.
Spark runs in this process and its JVM, with two threads. The connector's jars are fetched by Maven.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..support.brokers.any_broker import any_broker
from ..support.brokers.process import BrokerProcess, RunningBroker
from ..support.suite import Options, Suite, run_suite
from . import batch, compacted, data_loss, refusals, restarts, sink, streams, transactional
from .connector import Connector
from .jars import connector_jars
from .session import spark_session

BROKER = {
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.threads": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


def body(suite: Suite, options: Options) -> None:
    jars = connector_jars()
    suite.note(f"with {', '.join(jar.name for jar in jars)}")
    with (
        tempfile.TemporaryDirectory(prefix="compat-spark-", ignore_cleanup_errors=True) as work,
        spark_session(jars, Path(work)) as session,
        any_broker(options, BROKER) as broker,
    ):
        spark = Connector(session, broker.bootstrap, Path(work))
        parts = parts_of(suite, spark, broker, options)
        for name in options.rest.part or parts:
            parts[name]()


def parts_of(
    suite: Suite, spark: Connector, broker: BrokerProcess | RunningBroker, options: Options
) -> dict[str, Callable[[], None]]:
    """Return the parts in their order: the last two stop the broker, or wait for its cleaner."""
    own = broker if isinstance(broker, BrokerProcess) else None
    quick = options.quick
    parts: dict[str, Callable[[], None]] = {
        "batch": lambda: batch.judge(suite, spark, quick=quick),
        "sink": lambda: sink.judge(suite, spark, quick=quick),
        "streams": lambda: streams.judge(suite, spark, quick=quick),
        "data_loss": lambda: data_loss.judge(suite, spark, quick=quick),
        "transactional": lambda: transactional.judge(suite, spark, own, quick=quick),
    }
    if not quick:
        parts["refusals"] = lambda: refusals.judge(suite, spark)
    parts["groups"] = lambda: batch.judge_groups(suite, broker.bootstrap)
    if own:
        parts["compacted"] = lambda: compacted.judge(suite, spark, own, quick=quick)
        parts["restarts"] = lambda: restarts.judge(suite, spark, own, quick=quick)
    else:
        suite.skip("compacted logs, restarts", "the running broker's files are out of reach")
    return parts


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", action="append", help="only this part; may be given again. See the README")


if __name__ == "__main__":
    sys.exit(run_suite("spark_connector", body, doc=__doc__, more_arguments=arguments))
