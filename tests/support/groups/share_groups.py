"""Members of share groups: heartbeats without the arguments that rarely matter, and a share coordinator in memory.

groups = ShareGroups(orders=4)
groups.enter("a")
assert groups.settled("a") == {"orders": {0, 1, 2, 3}}
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_group_describe import DescribedGroup
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.server.coordination.jobs import never, to_the_end
from ottla.server.groups.classic.protocol import Caller
from ottla.server.groups.share.flows import ShareFlows
from ottla.server.groups.share.group import ShareGroup
from ottla.server.groups.share.protocol import StatesToInitialize
from ottla.server.groups.share.states import Offsets, Refusals, SharePlace, StateSummary, Topics
from support.groups.consumer_groups import raised
from support.groups.groups import FakeTopics, Groups, MemoryStore

SESSION_MS = 45_000

Answer = TypeVar("Answer")


class FakePersister:
    """A share coordinator that answers at once.

    Attributes:
        states: (group id, topic id, partition) -> state epoch and start offset.
        refuses: Its error for every partition, or for those of `refused` alone.
        fails: Its error for every request.
    """

    def __init__(self) -> None:
        self.states: dict[tuple[str, bytes, int], tuple[int, int]] = {}
        self.refuses: ErrorCode | None = None
        self.refused: set[int] | None = None
        self.fails: ErrorCode | None = None

    async def initialize(self, group_id: str, state_epoch: int, offsets: Offsets) -> Refusals:
        self._check()
        refusals: dict[SharePlace, KafkaError] = {}
        for topic_id, partitions in offsets.items():
            for partition, offset in partitions.items():
                if not self._refuse(refusals, topic_id, partition):
                    self.states[group_id, topic_id, partition] = state_epoch, offset
        return refusals

    async def delete(self, group_id: str, partitions: Topics) -> Refusals:
        self._check()
        refusals: dict[SharePlace, KafkaError] = {}
        for topic_id, indexes in partitions.items():
            for partition in indexes:
                if not self._refuse(refusals, topic_id, partition):
                    self.states.pop((group_id, topic_id, partition), None)
        return refusals

    async def summaries(
        self, group_id: str, partitions: Mapping[bytes, Collection[int]]
    ) -> dict[SharePlace, StateSummary]:
        self._check()
        found = {}
        for topic_id, indexes in partitions.items():
            for partition in indexes:
                _, offset = self.states.get((group_id, topic_id, partition), (0, -1))
                found[topic_id, partition] = StateSummary(offset, 0, -1)
        return found

    def _check(self) -> None:
        if self.fails is not None:
            raise KafkaError(self.fails, "as told")

    def _refuse(self, refusals: dict[SharePlace, KafkaError], topic_id: bytes, partition: int) -> bool:
        if self.refuses is None or (self.refused is not None and partition not in self.refused):
            return False
        refusals[topic_id, partition] = KafkaError(self.refuses, "as told")
        return True


class ShareGroups(Groups):
    """`Groups` over topics with these partition counts. By default a target assignment may follow the last at once. States are
    initialized once a heartbeat is answered, unless `grants` is False. Other keyword arguments are GroupSettings.
    """

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        elapsed_ms: int = 1_000_000,
        wall_ahead_ms: int = 0,
        topics: FakeTopics | None = None,
        persister: FakePersister | None = None,
        settings: Mapping[str, Any] | None = None,
        **partition_counts: int,
    ) -> None:
        self.grants = True
        self.persister = persister or FakePersister()
        self.settings = {"group_share_assignment_interval_ms": 0, **(settings or {})}
        super().__init__(
            store,
            elapsed_ms=elapsed_ms,
            wall_ahead_ms=wall_ahead_ms,
            topics=topics or FakeTopics(**partition_counts),
            **self.settings,
        )
        self.flows = ShareFlows(self.coordinator, lambda: self.persister, lambda: self.now_ms)

    def restarted(self, **settings: Any) -> ShareGroups:
        """Return a new coordinator that finds what this one has written; the given settings replace the old ones."""
        return ShareGroups(
            self.store,
            elapsed_ms=self.elapsed_ms,
            wall_ahead_ms=self._wall_ahead_ms,
            topics=self.topics,
            persister=self.persister,
            settings={**self.settings, **settings},
        )

    def beat(
        self,
        member: str,
        epoch: int,
        *,
        topics: Iterable[str] | None = None,
        group: str = "g",
        client: str = "c",
        **fields: Any,
    ) -> ShareGroupHeartbeatResponse:
        """Send one heartbeat; `topics` is the member's subscription, None if it reports nothing."""
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else tuple(topics),
            **fields,
        )
        shard = self.coordinator.shard_for(group)
        caller = Caller(client, "/host", 1)
        answer = to_the_end(self.coordinator.share_heartbeat(shard, request, caller, lambda: self.now_ms))
        self.coordinator._jobs.run(never)
        if self.grants:
            self.grant()
        return answer

    def grant(self) -> list[StatesToInitialize]:
        """Initialize the states that were requested since the last call; return the requests."""
        wishes, self.wishes[:] = list(self.wishes), []
        for wish in wishes:
            done(self.flows.initialize(wish))
        return wishes

    def enter(self, member: str, *topics: str, **fields: Any) -> ShareGroupHeartbeatResponse:
        """Send the first heartbeat of a member; by default it subscribes to "orders"."""
        return self.beat(member, 0, **{"topics": topics or ("orders",), **fields})

    def stay(self, member: str, group: str = "g", **fields: Any) -> ShareGroupHeartbeatResponse:
        """Send a heartbeat with the epoch that the member knows."""
        return self.beat(member, self.table(group).members[member].epoch, group=group, **fields)

    def settled(self, member: str, group: str = "g") -> dict[str, set[int]]:
        """Return the member's assignment after all members have sent some heartbeats."""
        for _ in range(3):
            for one in tuple(self.table(group).members):
                self.stay(one, group)
        return self.assigned(member, group)

    def assigned(self, member: str, group: str = "g") -> dict[str, set[int]]:
        """Return the member's assignment by topic name."""
        has = self.table(group).members[member].assigned
        return {self.topics.name_of(topic_id) or topic_id.hex(): set(indexes) for topic_id, indexes in has.items()}

    def given(self, answer: ShareGroupHeartbeatResponse) -> dict[str, set[int]] | None:
        """Return the assignment in an answer, by topic name; None if the answer has none."""
        if answer.assignment is None:
            return None
        return {
            self.topics.name_of(one.topic_id) or one.topic_id.hex(): set(one.partitions)
            for one in answer.assignment.topic_partitions
        }

    def error(self, *arguments: Any, **fields: Any) -> tuple[ErrorCode, str]:
        """Return code and message of the error that `beat` raises."""
        return raised(lambda: self.beat(*arguments, **fields))

    def described(self, group: str = "g") -> DescribedGroup:
        return to_the_end(self.coordinator.describe_share_group(group))

    def table(self, group: str = "g") -> ShareGroup:
        found = self.coordinator.shard_of(group).groups[group]
        assert isinstance(found, ShareGroup)
        return found

    def states(self, group: str = "g") -> tuple[dict[str, set[int]], dict[str, set[int]], set[str]]:
        """Return the initializing and the initialized partitions, and the topics that are being deleted, by name."""
        table = self.table(group).states
        assert table is not None
        return (
            {one.name: set(one.partitions) for one in table.initializing.values()},
            {one.name: set(one.partitions) for one in table.initialized.values()},
            set(table.deleting.values()),
        )

    def put_topic(self, name: str, partition_count: int, *, is_new: bool = True) -> None:
        self.topics.put(name, partition_count)
        self.coordinator.topics_changed([name], self.now_ms, has_new=is_new)

    def delete_topic(self, name: str) -> None:
        topic_id = self.topics.id_of(name)
        assert topic_id is not None
        self.topics.delete(name)
        self.coordinator.topics_changed([name], self.now_ms, has_new=False)
        self.coordinator.topic_deleted(name, topic_id, self.now_ms)
        self.coordinator._jobs.run(never)

    def copy_of_tables(self) -> dict[str, Any]:
        """Return a copy of everything that is persisted about all share groups."""
        return {
            group_id: (
                *(group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_ms),
                *(dict(group.members), dict(group.targets), group.states),
            )
            for shard in self.coordinator.shards
            for group_id, group in shard.groups.items()
            if isinstance(group, ShareGroup)
        }


def done(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Return the result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")
