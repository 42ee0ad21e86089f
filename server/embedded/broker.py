"""`ottla.Broker`: what it has beside `running`, `clock`, `faults` and `kafka_calls`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..broker.broker import Broker as Inner
from . import operations
from .clock import Timed
from .faults import Faulting
from .kafka_calls import KafkaCalls
from .operation_method import OperationMethod
from .options import SeedSource
from .running import Running

if TYPE_CHECKING:
    from ...storage.disk.paths import TopicPartition
    from ..cleaning.advice import CleanerStatus
    from ..control.cases.load import CaseInfo, LoadedCase
    from ..control.explain import KeyExplanation
    from ..control.quotas import ThrottledState
    from ..control.seed.planting import Planted


class Compacting(Running):
    """Methods of `ottla.Broker`. Each raises `ControlError`, with one line, where it is refused."""

    compact = OperationMethod(lambda: operations.compaction.compact)
    wait_until_compacted = OperationMethod(lambda: operations.compaction.wait_until_compacted)
    roll = OperationMethod(lambda: operations.segments.roll)
    apply_retention = OperationMethod(lambda: operations.segments.apply_retention)

    explain = OperationMethod(lambda: operations.explain.explain)
    picture = OperationMethod(lambda: operations.pictures.topic_picture)
    dry_run = OperationMethod(lambda: operations.dry_run.dry_run)

    def explain_key(
        self, topic: str, key: str | bytes, *, partition: int | None = None, records_max: int = 1_000
    ) -> KeyExplanation:
        """The history of one key: each record, what took its place, and what the next pass makes of it.

        Args:
            key: A text is taken as UTF-8.
            partition: None: where clients put the key (murmur2).
            records_max: So many records are told, the newest.

        Raises:
            ControlError: There is no such topic or partition.
        """
        found = key.encode() if isinstance(key, str) else key
        return self._ask(operations.explain.explain_key, topic, found, partition=partition, records_max=records_max)

    def _repr_html_(self) -> str:
        """For notebooks: the logs of clients' topics, drawn; compacted ones first. What does not run is a line."""
        from html import escape

        if self.state != "serving":
            return f"<code>{escape(repr(self))}</code>"
        from ...storage.pictures.page import fragment

        return fragment(repr(self), self._ask(operations.pictures.all_pictures))


class Guarded(Running):
    """What `ottla.Broker` has to do with who may do what. An entry is a line:

    PRINCIPAL allow|deny OPERATION[,OPERATION…] TYPE:NAME [literal] [from HOST]

    A star at the end of NAME makes a prefix of it, unless `literal` follows; a star alone stands for all names. There is an
    authorizer with `Broker(acls=[…])`, or with the option `authorizer.class.name`; without one each of these but `why_allowed`
    raises `ControlError`.
    """

    def acls(self, *, principal: str | None = None, resource: str | None = None) -> list[str]:
        """The entries, one operation each: all, those of a principal, or those that speak of a resource (`topic:orders`)."""
        found = self._ask(operations.acls.list_acls, principal=principal, resource=resource)
        return [each.acl for each in found.acls]

    def add_acls(self, *acls: str) -> None:
        """Add entries, all of them or none; they hold when this returns. Those that are there already are no error.

        Raises:
            ControlError: One is no entry, or the disk refused.
        """
        self._ask(operations.acls.add_acls, acls)

    def remove_acls(self, *acls: str) -> None:
        """Remove entries, all of them or none.

        Raises:
            ControlError: One is no entry, or is not there, or the disk refused.
        """
        self._ask(operations.acls.remove_acls, acls)

    why_allowed = OperationMethod(lambda: operations.acls.why_allowed)


class Limiting(Running):
    """What `ottla.Broker` has to do with how much clients may use.

    An entity is `user=NAME`, `client-id=NAME`, both with a comma between, or `ip=ADDRESS`; the name `<default>` is for all that have no
    quota of their own. Throttle times go by the broker's clock.
    """

    def quotas(self) -> dict[str, dict[str, float]]:
        """What is set, by entity and key."""
        return {state.entity: dict(state.quotas) for state in self._ask(operations.quotas.list_quotas).quotas}

    def set_quotas(self, entity: str, **quotas: float | None) -> None:
        """Set quotas of one entity, and remove those that are None; those that are not named stay.

        They hold when this returns, for clients that are connected, too.

        Args:
            quotas: `producer_byte_rate`, `consumer_byte_rate`, `request_percentage`, `controller_mutation_rate`; of an address
                `connection_creation_rate`.

        Raises:
            ControlError: No entity, no such quota, a value beyond its bound, or the disk refused; nothing has changed.
        """
        self._ask(operations.quotas.set_quotas, entity, quotas)

    def remove_quotas(self, entity: str, *keys: str) -> None:
        """Remove quotas of one entity: these, or all.

        Raises:
            ControlError: It has none, or the disk refused.
        """
        self._ask(operations.quotas.remove_quotas, entity, keys)

    def throttled(self) -> tuple[ThrottledState, ...]:
        """Who is above a quota and has to wait, for how long, and why."""
        return self._ask(operations.quotas.list_throttled).throttled


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
        from ..control.seed.seed import export

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
