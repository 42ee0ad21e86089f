"""Gives a suite the broker that its options ask for: one that runs already, Ottla, or Apache Kafka."""

from ..suite import Options
from .apache_kafka import ApacheKafkaProcess
from .ottla_process import OttlaProcess
from .process import BrokerProcess, RunningBroker, free_port


def broker_process(options: Options, overrides: dict[str, str] | None = None, *, nodes: int = 1) -> BrokerProcess:
    """A broker of its own that has not been started; `overrides` are options under Kafka's names, only Ottla has several nodes."""
    if options.against == "apache-kafka":
        return ApacheKafkaProcess(overrides=overrides, keep=options.keep)
    return OttlaProcess(overrides=overrides, keep=options.keep, nodes=nodes)


def any_broker(options: Options, overrides: dict[str, str] | None = None) -> BrokerProcess | RunningBroker:
    """The broker named by `--broker`, else one of its own; a context manager either way."""
    return RunningBroker(options.broker) if options.broker else broker_process(options, overrides)


def second_listener(broker: BrokerProcess, protocol: str) -> str:
    """Give a broker that has not been started a listener of this security protocol beside its plain one; its address."""
    plain, second = (f"127.0.0.1:{free_port()}" for _ in range(2))
    listeners, protocols = f"PLAINTEXT://{plain},SECOND://{second}", f"PLAINTEXT:PLAINTEXT,SECOND:{protocol}"
    broker.addresses = [plain]
    broker.overrides["advertised.listeners"] = listeners
    if isinstance(broker, ApacheKafkaProcess):
        listeners += f",CONTROLLER://127.0.0.1:{broker.controller_port}"
        protocols += ",CONTROLLER:PLAINTEXT"
    broker.overrides |= {"listeners": listeners, "listener.security.protocol.map": protocols}
    return second
