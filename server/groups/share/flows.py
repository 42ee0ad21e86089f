"""What needs the share coordinator: states that are begun, moved and forgotten, each with what the group says of it before and after.

An answer may come when the group, or its coordinator, has changed: whoever takes it looks the group up again. What nobody could write
down is asked for again, by the next heartbeat or the next request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ....protocol.errors import KafkaError
from .protocol import StatesToBegin
from .states import UNKNOWN_OFFSET, Offsets, Refusals, StateKeeper, Topics, check_size

if TYPE_CHECKING:
    from ..coordinator import GroupCoordinator

log = logging.getLogger("ottla.groups")


class ShareFlows:
    """
    Args:
        keeper: Gives the share coordinator, which is made with the first request that needs it.
    """

    def __init__(
        self, coordinator: GroupCoordinator, keeper: Callable[[], StateKeeper], now_ms: Callable[[], int]
    ) -> None:
        self._coordinator = coordinator
        self._keeper = keeper
        self._now_ms = now_ms

    async def grant(self, wish: StatesToBegin) -> None:
        """Have the states begun that a group asks for, all of them or none. Raises nothing."""
        offsets = {
            topic_id: dict.fromkeys(partitions, UNKNOWN_OFFSET) for topic_id, partitions in wish.partitions.items()
        }
        try:
            try:
                refusals = await self._keeper().initialize(wish.group_id, wish.state_epoch, offsets)
                error = next(iter(refusals.values()), None)
            except KafkaError as refusal:
                error = refusal
            if error is None:
                self._coordinator.share_states_begun(wish.group_id, wish.partitions, self._now_ms())
            else:
                log.warning("group %s: cannot initialize partition states: %s", wish.group_id, error)
                self._refused(wish.group_id, wish.partitions)
        except KafkaError as refusal:
            log.warning("group %s: cannot persist partition states: %s", wish.group_id, refusal)
        finally:
            self._coordinator.share_states_answered(wish.group_id, wish.partitions)

    async def move(self, group_id: str, offsets: Offsets) -> Refusals:
        """Begin a group without members at these offsets; the group is made if there is none. A partition for
        which that failed keeps the state that it had; where it had none, whoever joins asks for one.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, UNKNOWN_SERVER_ERROR (too many), or what writing it down failed with; for
                all of them.
        """
        check_size(len(offsets), sum(map(len, offsets.values())))  # Of too many not even the table is made.
        partitions = {topic_id: frozenset(one) for topic_id, one in offsets.items()}
        state_epoch = self._coordinator.share_states_to_move(group_id, partitions, self._now_ms())
        if not any(partitions.values()):
            return {}
        self._coordinator.share_states_asked(group_id, partitions)
        try:
            try:
                refusals = await self._keeper().initialize(group_id, state_epoch, offsets)
            except KafkaError:
                self._refused(group_id, partitions)
                raise
            # What was told to be done must not be asked for anew with the rest, and lose its offsets.
            begun, refused = _divided(partitions, refusals)
            if begun:
                self._coordinator.share_states_begun(group_id, begun, self._now_ms())
            if refused:
                self._refused(group_id, refused)
            return refusals
        finally:
            self._coordinator.share_states_answered(group_id, partitions)

    def _refused(self, group_id: str, partitions: Topics) -> None:
        """Note that these have no states. Where that cannot be written down, they are asked for again all the same."""
        try:
            self._coordinator.share_states_refused(group_id, partitions, self._now_ms())
        except KafkaError as error:
            log.warning("group %s: cannot persist rejected partition states: %s", group_id, error)

    async def forget(self, group_id: str, topic_ids: Collection[bytes]) -> tuple[Topics, Refusals]:
        """Let a group without members begin anew in these topics: the partitions that it had states of, and those for which
        that failed.

        Raises:
            KafkaError: As `move`.
        """
        partitions = self._coordinator.share_states_to_forget(group_id, topic_ids, self._now_ms())
        if not partitions:
            return {}, {}
        refusals = await self._keeper().delete(group_id, partitions)
        failed = {topic_id for topic_id, _ in refusals}
        if done := partitions.keys() - failed:
            self._coordinator.share_states_forgotten(group_id, done, self._now_ms())
        return partitions, refusals

    async def forget_all(self, group_id: str) -> None:
        """Have all states of a group forgotten that is to be deleted; nothing, if it is no share group. Nobody joins it
        meanwhile.

        Raises:
            KafkaError: NON_EMPTY_GROUP, COORDINATOR_LOAD_IN_PROGRESS (it is being deleted), or why it failed.
        """
        with self._coordinator.going(group_id) as shard:
            partitions = self._coordinator.all_share_states_to_forget(shard, group_id, self._now_ms())
            if partitions:
                refusals = await self._keeper().delete(group_id, partitions)
                for error in refusals.values():
                    raise error


def _divided(partitions: Topics, refusals: Refusals) -> tuple[Topics, Topics]:
    """Those partitions that were not refused, and those that were."""
    begun, refused = dict[bytes, frozenset[int]](), dict[bytes, frozenset[int]]()
    for topic_id, indexes in partitions.items():
        left_out = frozenset(index for index in indexes if (topic_id, index) in refusals)
        if left_out:
            refused[topic_id] = left_out
        if indexes - left_out:
            begun[topic_id] = indexes - left_out
    return begun, refused
