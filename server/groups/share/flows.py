"""Operations of share groups that need the share coordinator: states are initialized, moved and forgotten. The group's records
note each before and after.

The group or its coordinator may change before the answer, so each handler of an answer looks the group up again. If a record
cannot be written, the next heartbeat or request repeats the operation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ....protocol.errors import KafkaError
from .protocol import StatesToInitialize
from .states import UNKNOWN_OFFSET, Offsets, Persister, Refusals, Topics, check_size

if TYPE_CHECKING:
    from ..coordinator import GroupCoordinator

log = logging.getLogger("ottla.groups")


class ShareFlows:
    """
    Args:
        persister: Function that returns the share coordinator, which the first request that needs it creates.
    """

    def __init__(
        self, coordinator: GroupCoordinator, persister: Callable[[], Persister], now_ms: Callable[[], int]
    ) -> None:
        self._coordinator = coordinator
        self._persister = persister
        self._now_ms = now_ms

    async def initialize(self, states: StatesToInitialize) -> None:
        """Initialize the states that a group requests, all or none. Raises nothing."""
        offsets = {
            topic_id: dict.fromkeys(partitions, 0 if topic_id in states.known_topics else UNKNOWN_OFFSET)
            for topic_id, partitions in states.partitions.items()
        }
        try:
            try:
                refusals = await self._persister().initialize(states.group_id, states.state_epoch, offsets)
                error = next(iter(refusals.values()), None)
            except KafkaError as refusal:
                error = refusal
            if error is None:
                self._coordinator.note_share_states_initialized(states.group_id, states.partitions, self._now_ms())
            else:
                log.warning("group %s: cannot initialize partition states: %s", states.group_id, error)
                self._refused(states.group_id, states.partitions)
        except KafkaError as refusal:
            log.warning("group %s: cannot persist partition states: %s", states.group_id, refusal)
        finally:
            self._coordinator.note_share_states_answered(states.group_id, states.partitions)

    async def move(self, group_id: str, offsets: Offsets) -> Refusals:
        """Set the start offsets of a group without members, which is created if it does not exist. A partition for which this
        fails keeps its state; if it has none, the next member that joins requests one.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, UNKNOWN_SERVER_ERROR (too many), or the error of writing the
                record; for all partitions.
        """
        check_size(len(offsets), sum(map(len, offsets.values())))  # Before the table is made.
        partitions = {topic_id: frozenset(one) for topic_id, one in offsets.items()}
        state_epoch = self._coordinator.prepare_share_state_move(group_id, partitions, self._now_ms())
        if not any(partitions.values()):
            return {}
        self._coordinator.note_share_states_requested(group_id, partitions)
        try:
            try:
                refusals = await self._persister().initialize(group_id, state_epoch, offsets)
            except KafkaError:
                self._refused(group_id, partitions)
                raise
            # Partitions that were initialized must not be requested again with the others, or they would lose their offsets.
            begun, refused = _divided(partitions, refusals)
            if begun:
                self._coordinator.note_share_states_initialized(group_id, begun, self._now_ms())
            if refused:
                self._refused(group_id, refused)
            return refusals
        finally:
            self._coordinator.note_share_states_answered(group_id, partitions)

    def _refused(self, group_id: str, partitions: Topics) -> None:
        """Note that these partitions have no states. They are requested again even if that cannot be written."""
        try:
            self._coordinator.note_share_states_refused(group_id, partitions, self._now_ms())
        except KafkaError as error:
            log.warning("group %s: cannot persist rejected partition states: %s", group_id, error)

    async def forget(self, group_id: str, topic_ids: Collection[bytes]) -> tuple[Topics, Refusals]:
        """Reset a group without members in these topics. Return the partitions that had states, and those for which it failed.

        Raises:
            KafkaError: As `move`.
        """
        partitions = self._coordinator.prepare_share_state_reset(group_id, topic_ids, self._now_ms())
        if not partitions:
            return {}, {}
        refusals = await self._persister().delete(group_id, partitions)
        failed = {topic_id for topic_id, _ in refusals}
        if done := partitions.keys() - failed:
            self._coordinator.note_share_states_deleted(group_id, done, self._now_ms())
        return partitions, refusals

    async def forget_all(self, group_id: str) -> None:
        """Forget all states of a group that will be deleted, if it is a share group. No member can join during that.

        Raises:
            KafkaError: NON_EMPTY_GROUP, COORDINATOR_LOAD_IN_PROGRESS (it is already being deleted), or the reason of the
                failure.
        """
        with self._coordinator.deleting_group(group_id) as shard:
            partitions = self._coordinator.prepare_share_state_deletion(shard, group_id, self._now_ms())
            if partitions:
                refusals = await self._persister().delete(group_id, partitions)
                for error in refusals.values():
                    raise error


def _divided(partitions: Topics, refusals: Refusals) -> tuple[Topics, Topics]:
    """Return the partitions that were not refused, and those that were."""
    begun, refused = dict[bytes, frozenset[int]](), dict[bytes, frozenset[int]]()
    for topic_id, indexes in partitions.items():
        left_out = frozenset(index for index in indexes if (topic_id, index) in refusals)
        if left_out:
            refused[topic_id] = left_out
        if indexes - left_out:
            begun[topic_id] = indexes - left_out
    return begun, refused
