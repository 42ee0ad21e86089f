"""Loading of a share partition on its leader: from its written state, else from the offset that the group's configs set.

Read it before `leaders`, which starts the loading and ends share partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ..config.broker_config import BrokerConfig
from ..config.features import DEAD_LETTER_QUEUES, SHARE_GROUPS
from ..config.group_configs import COPIES, DEAD_LETTERS, GROUP_OPTIONS, GroupConfig
from ..config.live_config import LiveConfig
from ..config.options.group_options import EARLIEST, LATEST, ShareReset, read_reset
from ..coordination.deadlines import Deadline
from ..coordination.deps import CoordinatorDeps
from ..partitions.searches import Search, Searches
from ..partitions.topics import Partition
from ..partitions.waits import Waiter
from .share_partition import ShareLimits, SharePartition
from .share_records import SharePartitionKey
from .share_states import NOT_SAID, ShareState
from .state_service import ShareStateService

# While the share coordinator is loading, the state is requested again, as Apache Kafka's persister does.
STATE_RETRY_MS = 100
STATE_TRIES = 100
# All searches by time for share groups have one place together.
_SEARCHER = "share groups"

_LATER = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
_FENCED = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
_SAME = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_NOT_AVAILABLE})


class ShareGroupConfig(NamedTuple):
    """How records are delivered to the members of a share group: what is set of the group, else the broker's values.

    Attributes:
        reset: Start of the group in a topic that it has not read before.
        reads_committed: Whether the group gets no records of open or aborted transactions.
        may_renew: Whether members may renew the lock of a record.
        dead_letter_topic: Name of the topic for the dead letters of its records; empty: none.
        copies_records: Whether a dead letter has the key and the value of its record.
    """

    delivery_count_limit: int
    partition_max_record_locks: int
    record_lock_duration_ms: int
    session_timeout_ms: int
    reset: ShareReset
    reads_committed: bool
    may_renew: bool
    dead_letter_topic: str
    copies_records: bool

    @property
    def limits(self) -> ShareLimits:
        """Limits for each of the group's share partitions."""
        return ShareLimits(
            self.partition_max_record_locks,
            self.delivery_count_limit,
            self.record_lock_duration_ms,
            self.may_renew,
            bool(self.dead_letter_topic),
        )


def share_group_config(config: BrokerConfig, groups: Mapping[str, GroupConfig], group_id: str) -> ShareGroupConfig:
    """Return the present options of a group, which need not exist.

    Args:
        groups: `LiveConfig.groups`.
    """
    own = groups[group_id].values if group_id in groups else {}

    def value_of(name: str, of_all: Any) -> Any:
        return own.get(name, of_all)

    reset = read_reset(value_of("share.auto.offset.reset", GROUP_OPTIONS["share.auto.offset.reset"].default))
    assert reset is not None
    return ShareGroupConfig(
        delivery_count_limit=value_of("share.delivery.count.limit", config.group_share_delivery_count_limit),
        partition_max_record_locks=value_of(
            "share.partition.max.record.locks", config.group_share_partition_max_record_locks
        ),
        record_lock_duration_ms=value_of("share.record.lock.duration.ms", config.group_share_record_lock_duration_ms),
        session_timeout_ms=value_of("share.session.timeout.ms", config.group_share_session_timeout_ms),
        reset=reset,
        reads_committed=value_of("share.isolation.level", "read_uncommitted") == "read_committed",
        may_renew=value_of("share.renew.acknowledge.enable", True),
        dead_letter_topic=value_of(DEAD_LETTERS, ""),
        copies_records=value_of(COPIES, False),
    )


def present_group_config(config: LiveConfig, group_id: str) -> ShareGroupConfig:
    """Return the present options of a group, as the level of share.version lets them act."""
    found = share_group_config(config.current, config.groups, group_id)
    if found.dead_letter_topic and config.feature_level(SHARE_GROUPS) < DEAD_LETTER_QUEUES:
        return found._replace(dead_letter_topic="")
    return found


def error_for_members(error: KafkaError) -> KafkaError:
    """Return an error of the share coordinator in the form for members, as from Apache Kafka. COORDINATOR_NOT_AVAILABLE is
    temporary."""
    if error.code in _LATER:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
    if error.code in _FENCED:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message)
    return error if error.code in _SAME else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message)


class LeadSharePartition:
    """One share partition that a node of this process leads.

    Attributes:
        share: The share partition's records; None until its state is loaded.
        error: Reason why it was dropped; None while it is in use.
        waiters: Fetches that must be woken when records may be available.
    """

    __slots__ = ("deadline", "error", "key", "leader_epoch", "partition", "share", "waiters")

    def __init__(self, key: SharePartitionKey, partition: Partition, deadline: Deadline) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.deadline = deadline
        self.share: SharePartition | None = None
        self.error: KafkaError | None = None
        self.waiters: set[Waiter] = set()

    def wake(self) -> None:
        for waiter in self.waiters:
            waiter.wake()


class ShareStateLoader:
    """
    Args:
        states: The share coordinator.
        config_of: Function that returns a group's present configs.
    """

    def __init__(
        self,
        deps: CoordinatorDeps,
        states: Callable[[], ShareStateService],
        config_of: Callable[[str], ShareGroupConfig],
    ) -> None:
        self._deps = deps
        self._states = states
        self._config_of = config_of
        self._searches = Searches()

    async def begin(self, led: LeadSharePartition) -> None:
        """Load its records, unless it is dropped before that.

        Raises:
            KafkaError: Error of the share coordinator; OFFSET_NOT_AVAILABLE if no record to start with exists yet.
        """
        state = await self._state_of(led)
        start = state.start_offset
        if start == NOT_SAID:
            start = await self._first_offset(led)
        if led.error is None:
            limits = self._config_of(led.key.group_id).limits
            led.share = SharePartition(start, limits, state_epoch=state.state_epoch, state_batches=state.batches)

    async def _state_of(self, led: LeadSharePartition) -> ShareState:
        for _ in range(STATE_TRIES - 1):
            try:
                return await self._states().read(led.key, led.leader_epoch)
            except KafkaError as error:
                if error.code not in _LATER or led.error is not None:
                    raise
            await self._deps.clock.sleep(STATE_RETRY_MS)
        return await self._states().read(led.key, led.leader_epoch)

    async def _first_offset(self, led: LeadSharePartition) -> int:
        """Return the start offset of a group in a partition of which it has no state."""
        reset, log = self._config_of(led.key.group_id).reset, led.partition.log
        if reset.kind == EARLIEST:
            return log.log_start_offset
        if reset.kind == LATEST:
            return log.high_watermark
        search = Search(log, log.search_timestamp(self._deps.clock.now_ms() - reset.duration_ms))
        await self._searches.run([search], _SEARCHER, _never_cancel)
        if isinstance(search.found, KafkaError):
            raise search.found
        if search.found is None:  # As in Apache Kafka, the member gets nothing until such a record exists.
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"no record in the last {reset.duration_ms} ms")
        return search.found.offset


def _never_cancel() -> None:
    """Do nothing: these searches are never cancelled."""
