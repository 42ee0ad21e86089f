"""Gives a suite the broker that its options ask for: one that runs already, Ottla, or Apache Kafka."""

from ..suite import Options
from .apache_kafka import ApacheKafkaProcess
from .ottla_process import OttlaProcess
from .process import BrokerProcess, RunningBroker, free_port


def broker_process(options: Options, overrides: dict[str, str] | None = None, *, nodes: int = 1) -> BrokerProcess:
    """Return an unstarted broker of its own; `overrides` are options under Kafka's names. Only Ottla has several nodes."""
    if options.against == "apache-kafka":
        return ApacheKafkaProcess(overrides=overrides, keep=options.keep)
    return OttlaProcess(overrides=overrides, keep=options.keep, nodes=nodes)


def any_broker(options: Options, overrides: dict[str, str] | None = None) -> BrokerProcess | RunningBroker:
    """Return the broker named by `--broker`, else one of its own; a context manager either way."""
    return RunningBroker(options.broker) if options.broker else broker_process(options, overrides)


def more_listeners(broker: BrokerProcess, **protocols: str) -> list[str]:
    """Add listeners to a broker before its start, NAME=SECURITY_PROTOCOL; return their addresses."""
    plain, *more = (f"127.0.0.1:{free_port()}" for _ in range(1 + len(protocols)))
    addresses = {"PLAINTEXT": plain} | dict(zip(protocols, more, strict=True))
    protocol_map = {"PLAINTEXT": "PLAINTEXT"} | protocols
    broker.addresses = [plain]
    broker.overrides["advertised.listeners"] = _listed(addresses, "://")
    if isinstance(broker, ApacheKafkaProcess):
        addresses["CONTROLLER"] = f"127.0.0.1:{broker.controller_port}"
        protocol_map["CONTROLLER"] = "PLAINTEXT"
    broker.overrides["listeners"] = _listed(addresses, "://")
    broker.overrides["listener.security.protocol.map"] = _listed(protocol_map, ":")
    return more


def _listed(entries: dict[str, str], between: str) -> str:
    return ",".join(f"{name}{between}{value}" for name, value in entries.items())
