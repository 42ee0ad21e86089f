"""`ottla.Broker`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..broker.broker import Broker as Inner
from .acls import Guarded
from .clock import Timed
from .compaction import Compacting
from .faults import Faulting
from .kafka_calls import KafkaCalls
from .options import SeedSource
from .quotas import Limiting

if TYPE_CHECKING:
    from ...storage.disk.paths import TopicPartition
    from ..cleaning.status import CleanerStatus
    from ..control.cases.load import CaseInfo, LoadedCase
    from ..control.seed.planting import Planted


class Broker(KafkaCalls, Timed, Compacting, Faulting, Guarded, Limiting):
    """A broker in a thread of this process, for programs and tests.

    with ottla.Broker() as broker: ...                    # or `start` and `stop`, from any thread
    async with ottla.Broker() as broker: ...              # in asyncio and Trio

    All methods block until it is done what they ask for; in an event loop call them in a thread.
    """

    # Nodes

    def stop_node(self, node_id: int) -> None:
        """Stop one node, as `ottla.server.broker.broker.Broker.stop_node`; the others serve on."""
        self._ask(Inner.stop_node, node_id)

    def start_node(self, node_id: int) -> None:
        """Start a stopped node again, as `ottla.server.broker.broker.Broker.start_node`."""
        self._ask(Inner.start_node, node_id)

    # State

    def seed(self, source: SeedSource) -> Planted:
        """Make the topics, records, committed offsets and hard cases of a seed: all of it, or nothing.

        Args:
            source: The path of a YAML or JSON file, or what would be in it.

        Raises:
            ControlError: It is refused, in one line that names file, line and field; the broker has what it had.
        """
        from ..control.seed.planting import plant
        from ..control.seed.seed import seed_from

        return self._ask(plant, seed_from(source))

    def export_seed(self) -> dict[str, Any]:
        """The topics and their configs, as `seed` takes them; no records."""
        from ..control.seed.export import export

        return self._ask(export)

    def cases(self) -> tuple[CaseInfo, ...]:
        """The hard cases that `load_case` knows: logs that many clients have stumbled over."""
        from ..control.cases.load import cases

        return cases()

    def load_case(self, name: str, topic: str | None = None) -> LoadedCase:
        """Create a topic whose log is a hard case.

        Args:
            topic: Its name; that of the case unless given.

        Returns:
            What a right client reads of it, with each isolation level.

        Raises:
            ControlError: There is no such case, or no such topic can be made; nothing is left.
        """
        from ..control.cases.load import load_case

        return self._ask(load_case, name, topic)

    # What it knows of itself

    def metrics(self) -> dict[str, int | float]:
        """The metrics of logs and cleaner, under Apache Kafka's JMX names; see `ottla.server.broker.metrics`."""
        return self._call(self.inner.metrics)

    def cleaner_status(self) -> dict[TopicPartition, CleanerStatus]:
        """What the cleaner has done to each partition, and what it waits for."""
        return self._call(self.inner.cleaner_status)
