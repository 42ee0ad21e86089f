"""Coordinators of a broker, loaded when they are first needed: many short-lived brokers never see a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cluster.producer_ids import ProducerIds
from ..coordination.deps import CoordinatorDeps
from ..partitions.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from ..partitions.topics import Partition, Topic, Watcher
from ..runtime.nursery import Tasks
from ..transactions.markers import Markers

if TYPE_CHECKING:
    from typing import TypeAlias

    from ..groups.service import GroupService
    from ..sharing.leaders import ShareLeaders
    from ..sharing.share_records import SharePartitionKey
    from ..sharing.state_service import ShareStateService
    from ..transactions.service import TransactionService
    from .share_persister import SharePersister

    Service: TypeAlias = GroupService | ShareStateService | TransactionService


class Coordinators(Watcher):
    """One coordinator of each kind for all nodes."""

    def __init__(self, deps: CoordinatorDeps, producer_ids: ProducerIds, tasks: Tasks) -> None:
        self.markers = Markers(deps.topics, deps.appends, self)
        self._deps = deps
        self._producer_ids = producer_ids
        self._tasks = tasks
        self._is_closed = False
        self._groups: GroupService | None = None
        self._share_states: ShareStateService | None = None
        self._share_leaders: ShareLeaders | None = None
        self._transactions: TransactionService | None = None

    @property
    def groups(self) -> GroupService:
        """The group coordinator."""
        if self._groups is None:
            made = self._make_groups()
            self._tasks.start_soon(made.run)
            if self._is_closed:
                made.close()
            return made
        return self._groups

    @property
    def share_states(self) -> ShareStateService:
        """The share coordinator."""
        if self._share_states is None:
            made = self._make_share_states()
            self._tasks.start_soon(made.run)
            if self._is_closed:
                made.close()
            return made
        return self._share_states

    @property
    def share_leaders(self) -> ShareLeaders:
        """Leaders of share partitions."""
        if self._share_leaders is None:
            from ..sharing.leaders import ShareLeaders

            self._share_leaders = ShareLeaders(self._deps, lambda: self.share_states, self._tasks)
            self._tasks.start_soon(self._share_leaders.run)
        return self._share_leaders

    @property
    def transactions(self) -> TransactionService:
        """The transaction coordinator."""
        if self._transactions is None:
            made = self._make_transactions()
            self._tasks.start_soon(made.run)
            if self._is_closed:
                made.close()
            return made
        return self._transactions

    @property
    def transactions_at_work(self) -> TransactionService | None:
        """The transaction coordinator, if it was needed so far."""
        return self._transactions

    async def load_existing(self) -> None:
        """Start the coordinators with existing state, before the first request.

        Small groups are loaded then, so that no client must wait, and transactions decided before the last stop are completed.
        """
        if self._deps.topics.get(OFFSETS_TOPIC) is not None:
            await self._tasks.nursery.start(self._make_groups().run)
        if self._deps.topics.get(TRANSACTIONS_TOPIC) is not None:
            await self._tasks.nursery.start(self._make_transactions().run)
        if self._deps.topics.get(SHARE_STATE_TOPIC) is not None:
            await self._tasks.nursery.start(self._make_share_states().run)

    def close(self) -> None:
        """Answer all parked requests, and take no more."""
        self._is_closed = True
        if self._share_leaders is not None:
            self._share_leaders.close()
        for each in self._services().values():
            if each is not None:
                each.close()

    def transaction_ended(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """Note that a transaction's marker was written to a partition of `__consumer_offsets`."""
        self.groups.transaction_ended(partition, producer_id, commit=commit)

    # As a watcher

    def leader_moved(self, partition: Partition) -> None:
        topic = None if self._share_leaders is None else self._deps.topics.get(partition.topic_partition.topic)
        if self._share_leaders is not None and topic is not None:
            self._share_leaders.partitions_gone(topic.id, [partition])
        if (service := self._service_of(partition)) is not None:
            service.leadership_changed(partition.index)

    def lost(self, partition: Partition, now_ms: int) -> None:
        if (service := self._service_of(partition)) is not None:
            service.coordinator.lose(partition.index, now_ms)

    def topic_created(self, topic: Topic) -> None:
        if self._groups is not None:
            self._groups.topic_created(topic.name)

    def topic_grew(self, topic: Topic) -> None:
        if self._groups is not None:
            self._groups.topic_grew(topic.name)

    def topic_deleted(self, topic: Topic) -> None:
        if (service := self._services().get(topic.name)) is not None:
            service.topic_gone()
        if self._groups is not None:
            self._groups.topic_deleted(topic.name, topic.id)
        if self._share_states is not None:
            self._share_states.topic_deleted(topic.id)
        if self._share_leaders is not None:
            self._share_leaders.partitions_gone(topic.id, topic.partitions)

    def _service_of(self, partition: Partition) -> Service | None:
        """Return the coordinator that keeps its state in this partition, if it is loaded."""
        return self._services().get(partition.topic_partition.topic)

    def _services(self) -> dict[str, Service | None]:
        return {
            OFFSETS_TOPIC: self._groups,
            TRANSACTIONS_TOPIC: self._transactions,
            SHARE_STATE_TOPIC: self._share_states,
        }

    def _make_groups(self) -> GroupService:
        from ..groups.service import GroupService

        self._groups = GroupService(self._deps, self._share_persister)
        return self._groups

    def _share_persister(self) -> SharePersister:
        from .share_persister import SharePersister  # a caller that needs it has loaded most of it

        return SharePersister(self.share_states)

    def _make_share_states(self) -> ShareStateService:
        from ..sharing.state_service import ShareStateService

        self._share_states = ShareStateService(self._deps, self._share_state_begun)
        return self._share_states

    def _share_state_begun(self, key: SharePartitionKey) -> None:
        if self._share_leaders is not None:
            self._share_leaders.drop_replaced(key)

    def _make_transactions(self) -> TransactionService:
        from ..transactions.service import TransactionService

        self._transactions = TransactionService(self._deps, self._producer_ids, self.markers)
        return self._transactions
