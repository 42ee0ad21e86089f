"""Gives a suite the broker that its options ask for: one that runs already, Ottla, or Apache Kafka."""

from ..suite import Options
from .apache_kafka import ApacheKafkaProcess
from .ottla_process import OttlaProcess
from .process import BrokerProcess, RunningBroker


def broker_process(options: Options, overrides: dict[str, str] | None = None, *, nodes: int = 1) -> BrokerProcess:
    """A broker of its own that has not been started; `overrides` are options under Kafka's names, only Ottla has several nodes."""
    if options.against == "apache-kafka":
        return ApacheKafkaProcess(overrides=overrides, keep=options.keep)
    return OttlaProcess(overrides=overrides, keep=options.keep, nodes=nodes)


def any_broker(options: Options, overrides: dict[str, str] | None = None) -> BrokerProcess | RunningBroker:
    """The broker named by `--broker`, else one of its own; a context manager either way."""
    return RunningBroker(options.broker) if options.broker else broker_process(options, overrides)
