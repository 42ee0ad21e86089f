"""A directory that Ottla filled from nothing, read by Apache Kafka's `kafka-dump-log`."""

from ..support.brokers.ottla_process import OttlaProcess
from ..support.suite import Options, Suite
from . import fill
from .dump_log import judge_files


def judge_own_files(suite: Suite, options: Options) -> None:
    """Codecs, transactions, a group, a compacted topic cleaned twice; files after a clean stop, and after kill -9 and a restart."""
    with OttlaProcess(overrides={"log.cleaner.backoff.ms": "300"}, keep=options.keep) as broker:
        fill.fill(broker)
        broker.stop()
        judge_files(suite, "Ottla's own, clean stop", broker.data)
        broker.start()
        fill.with_confluent(broker.bootstrap, "lz4", "plain-lz4", 1_000)
        broker.kill()
        broker.start()
        broker.stop()
        judge_files(suite, "Ottla's own, after kill -9", broker.data)
