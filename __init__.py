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
    from .server.embedded import Broker as Broker
    from .server.embedded import open_broker as open_broker

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name in ("Broker", "open_broker"):
        from .server import embedded

        return getattr(embedded, name)
    raise AttributeError(f"module 'ottla' has no attribute {name!r}")
