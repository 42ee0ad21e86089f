"""Access of the group coordinator to the share coordinator (`groups.share.states`): many partitions of a group at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from ...protocol.errors import KafkaError
from ..groups.share.states import UNKNOWN_OFFSET, Offsets, Refusals, SharePlace, StateSummary, Topics
from ..runtime.time_slices import TimeSlice
from ..sharing.share_records import SharePartitionKey
from ..sharing.share_states import ShareStateShard
from ..sharing.state_service import ShareStateService

_NOTHING = StateSummary(UNKNOWN_OFFSET, 0, -1)


class SharePersister:
    """Client of the share coordinator. When a call returns, its changes are on disk if `flush.messages` requires it."""

    def __init__(self, states: ShareStateService) -> None:
        self._states = states

    async def initialize(self, group_id: str, state_epoch: int, offsets: Offsets) -> Refusals:
        """See `Persister.initialize`."""

        def begin(key: SharePartitionKey) -> None:
            start_offset = offsets[key.topic_id][key.partition]
            self._states.coordinator.initialize(key, state_epoch, start_offset, self._states.deps.clock.now_ms())

        return await self._each(group_id, offsets, begin)

    async def delete(self, group_id: str, partitions: Topics) -> Refusals:
        """See `Persister.delete`."""

        def forget(key: SharePartitionKey) -> None:
            self._states.coordinator.delete(key, self._states.deps.clock.now_ms())

        return await self._each(group_id, partitions, forget)

    async def summaries(
        self, group_id: str, partitions: Mapping[bytes, Collection[int]]
    ) -> dict[SharePlace, StateSummary]:
        """Return the group's progress in these partitions; the caller may change the table."""
        found: dict[SharePlace, StateSummary] = {}

        def look(key: SharePartitionKey) -> None:
            state = self._states.coordinator.summary(key)
            found[key.topic_id, key.partition] = (
                _NOTHING
                if state is None
                else StateSummary(state.start_offset, state.leader_epoch, state.delivery_complete_count)
            )

        refusals = await self._each(group_id, partitions, look)
        found.update((place, _NOTHING._replace(error=error)) for place, error in refusals.items())
        return found

    async def _each(
        self, group_id: str, partitions: Mapping[bytes, Iterable[int]], act: Callable[[SharePartitionKey], None]
    ) -> Refusals:
        """Call `act` for each partition, in time slices; then wait once for each partition of the state topic."""
        if not self._states.coordinator.shards:
            await self._states.ensure_topic()
        time_slice = TimeSlice()
        refusals: dict[SharePlace, KafkaError] = {}
        touched: dict[ShareStateShard, list[SharePartitionKey]] = {}
        for topic_id, indexes in partitions.items():
            async for index in time_slice.each(indexes):
                key = SharePartitionKey(group_id, topic_id, index)
                try:
                    act(key)
                    touched.setdefault(self._states.coordinator.shard_for(key.text), []).append(key)
                except KafkaError as error:
                    refusals[topic_id, index] = error.with_traceback(None)
        async for shard, keys in time_slice.each(touched.items()):
            try:
                await self._states.settle(shard)
            except KafkaError as error:
                refusals |= {(key.topic_id, key.partition): error for key in keys}
        await time_slice.empty(touched)
        return refusals
