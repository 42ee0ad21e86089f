"""`ottla.Broker`: its methods except those of `running`, `clock`, `faults` and `kafka_calls`."""

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
    from ..control.seed.seeding import SeedResult


class Compacting(Running):
    """Methods of `ottla.Broker`. Each raises `ControlError`, with one line, if it is refused."""

    compact = OperationMethod(lambda: operations.compaction.compact)
    wait_until_compacted = OperationMethod(lambda: operations.compaction.wait_until_compacted)
    wait_until_reading = OperationMethod(lambda: operations.waits.wait_until_reading)
    wait_until_consumed = OperationMethod(lambda: operations.waits.wait_until_consumed)
    wait_until_stable = OperationMethod(lambda: operations.waits.wait_until_stable)
    roll = OperationMethod(lambda: operations.segments.roll)
    apply_retention = OperationMethod(lambda: operations.segments.apply_retention)

    explain = OperationMethod(lambda: operations.explain.explain)
    picture = OperationMethod(lambda: operations.pictures.topic_picture)
    topic = OperationMethod(lambda: operations.topics.describe_topic)
    dry_run = OperationMethod(lambda: operations.dry_run.dry_run)

    def explain_key(
        self, topic: str, key: str | bytes, *, partition: int | None = None, records_max: int = 1_000
    ) -> KeyExplanation:
        """Explain each record of one key: what supersedes it, and whether the next pass removes it.

        Args:
            key: A str is encoded as UTF-8.
            partition: Default: the one that clients choose for the key (murmur2).
            records_max: Maximum number of records to report; the newest are kept.

        Raises:
            ControlError: The topic or partition was not found.
        """
        found = key.encode() if isinstance(key, str) else key
        return self._ask(operations.explain.explain_key, topic, found, partition=partition, records_max=records_max)

    def _repr_html_(self) -> str:
        """Return a drawing for notebooks: the logs of clients' topics, compacted ones first.

        If the broker is not running, return a line of text.
        """
        from html import escape

        if self.state != "serving":
            return f"<code>{escape(repr(self))}</code>"
        from ...storage.pictures.page import fragment

        return fragment(repr(self), self._ask(operations.pictures.all_pictures))


class Guarded(Running):
    """ACLs of `ottla.Broker`. An ACL is a line:

    PRINCIPAL allow|deny OPERATION[,OPERATION…] TYPE:NAME [literal] [from HOST]

    A trailing `*` makes NAME a prefix, unless `literal` follows; a single `*` matches all names. The broker has an authorizer with
    `Broker(acls=[…])`, or with the option `authorizer.class.name`. Without an authorizer, all of these methods except `why_allowed`
    raise `ControlError`.
    """

    def acls(self, *, principal: str | None = None, resource: str | None = None) -> list[str]:
        """Return ACLs, one operation each: all, those of a principal, or those for a resource (`topic:orders`)."""
        found = self._ask(operations.acls.list_acls, principal=principal, resource=resource)
        return [each.acl for each in found.acls]

    def add_acls(self, *acls: str) -> None:
        """Add ACLs, all of them or none. They are in effect when this returns. ACLs that exist already are ignored.

        Raises:
            ControlError: An ACL is invalid, or the disk failed.
        """
        self._ask(operations.acls.add_acls, acls)

    def remove_acls(self, *acls: str) -> None:
        """Remove ACLs, all of them or none.

        Raises:
            ControlError: An ACL is invalid or was not found, or the disk failed.
        """
        self._ask(operations.acls.remove_acls, acls)

    why_allowed = OperationMethod(lambda: operations.acls.why_allowed)


class Limiting(Running):
    """Quotas of `ottla.Broker`.

    An entity is `user=NAME`, `client-id=NAME`, `user=NAME,client-id=NAME`, or `ip=ADDRESS`. The name `<default>` applies to all
    entities without a quota of their own. Throttle times are measured by the broker's clock.
    """

    def quotas(self) -> dict[str, dict[str, float]]:
        """Return the quotas that are set, by entity and key."""
        return {state.entity: dict(state.quotas) for state in self._ask(operations.quotas.list_quotas).quotas}

    def set_quotas(self, entity: str, **quotas: float | None) -> None:
        """Set quotas of one entity, and remove those that are None; other quotas of the entity do not change.

        They are in effect when this returns, also for connected clients.

        Args:
            quotas: `producer_byte_rate`, `consumer_byte_rate`, `request_percentage`, `controller_mutation_rate`; for an IP address
                `connection_creation_rate`.

        Raises:
            ControlError: The entity, key or value is invalid, or the disk failed; nothing has changed.
        """
        self._ask(operations.quotas.set_quotas, entity, quotas)

    def remove_quotas(self, entity: str, *keys: str) -> None:
        """Remove quotas of one entity: those named, or all.

        Raises:
            ControlError: The entity has no such quota, or the disk failed.
        """
        self._ask(operations.quotas.remove_quotas, entity, keys)

    def throttled(self) -> tuple[ThrottledState, ...]:
        """Return the clients that are throttled now, for how long, and why."""
        return self._ask(operations.quotas.list_throttled).throttled


class Broker(KafkaCalls, Timed, Compacting, Faulting, Guarded, Limiting):
    """A broker in a thread of this process, for programs and tests.

    with ottla.Broker() as broker: ...                    # or `start` and `stop`, from any thread
    async with ottla.Broker() as broker: ...              # in asyncio and Trio

    All methods block until the operation is complete; in an event loop, call them in a thread.
    """

    # Nodes

    def stop_node(self, node_id: int) -> None:
        """Stop one node; the other nodes continue to serve (see `ottla.server.broker.broker.Broker.stop_node`)."""
        self._ask(Inner.stop_node, node_id)

    def start_node(self, node_id: int) -> None:
        """Start a stopped node again (see `ottla.server.broker.broker.Broker.start_node`)."""
        self._ask(Inner.start_node, node_id)

    # State

    def seed(self, source: SeedSource) -> SeedResult:
        """Create the topics, records, committed offsets and hard cases of a seed: all of it, or nothing.

        Args:
            source: Path of a YAML or JSON file, or its content.

        Raises:
            ControlError: The seed is invalid or conflicts; the line names file, line and field. Nothing was created.
        """
        from ..control.seed.seed import seed_from
        from ..control.seed.seeding import apply_seed

        return self._ask(apply_seed, seed_from(source))

    def export_seed(self) -> dict[str, Any]:
        """Return the topics and their configs in the form that `seed` accepts, without records."""
        from ..control.seed.seed import export

        return self._ask(export)

    def cases(self) -> tuple[CaseInfo, ...]:
        """Return the hard cases for `load_case`: logs that have exposed bugs in many clients."""
        from ..control.cases.load import cases

        return cases()

    def load_case(self, name: str, topic: str | None = None) -> LoadedCase:
        """Create a topic whose log is a hard case.

        Args:
            topic: Name of the topic (default: the name of the case).

        Returns:
            What a correct client reads from it, at each isolation level.

        Raises:
            ControlError: The case was not found, or the topic cannot be created; nothing was created.
        """
        from ..control.cases.load import load_case

        return self._ask(load_case, name, topic)

    # What it knows of itself

    def metrics(self) -> dict[str, int | float]:
        """Return the metrics of logs and the cleaner, under Apache Kafka's JMX names (see `ottla.server.broker.metrics`)."""
        return self._call(self.inner.metrics)

    def cleaner_status(self) -> dict[TopicPartition, CleanerStatus]:
        """Return what the cleaner has done to each partition, and what it is waiting for."""
        return self._call(self.inner.cleaner_status)
