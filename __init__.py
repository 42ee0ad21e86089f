"""Ottla: a Kafka-compatible broker whose log compaction can be trusted.

The repository root is this package. Its floors, each standing only on the ones below:

    ottla.protocol    bytes <-> values; no I/O, no clock
    ottla.storage     partitions in directories: log, recovery, cleaner; synchronous
    ottla.server      Trio: sockets, tasks, time, policy
    ottla.pipeline    PySpark jobs over segment stores (stands on protocol and storage)

Public names load on first use, so that `import ottla` (and a worker that only needs
`ottla.storage`) never loads the event loop.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .protocol.errors import KafkaError as KafkaError
    from .server.client.values import NewRecord as NewRecord
    from .server.client.values import Record as Record
    from .server.embedded.broker import Broker as Broker
    from .server.embedded.in_trio import open_broker as open_broker
    from .server.runtime.errors import ControlError as ControlError

__version__ = "0.1.0"

__all__ = ["Broker", "ControlError", "KafkaError", "NewRecord", "Record", "open_broker"]

_MODULES = {
    "Broker": ".server.embedded.broker",
    "ControlError": ".server.runtime.errors",
    "KafkaError": ".protocol.errors",
    "NewRecord": ".server.client.values",
    "Record": ".server.client.values",
    "open_broker": ".server.embedded.in_trio",
}
"""Where the names are that are loaded when they are first used."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(_MODULES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
