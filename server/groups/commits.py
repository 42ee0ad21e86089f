"""Committing, fetching, deleting and expiring offsets, in the tables of a shard and in its partition.

Called by `coordinator` with an active shard. Every change is appended to the partition first and applied to the tables
after, so the tables never hold what a restart would not find again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from ...protocol.wire import ZERO_UUID
from ..coordination.store import Pair, RecordStore
from .classic import ClassicProtocol
from .group import ClassicGroup
from .kinds import Group, PartitionCheck
from .offsets import Place
from .records import CommittedOffset, offset_key, offset_value
from .settings import TOMBSTONES_PER_BATCH, GroupSettings
from .shard import Shard

# From this version of OffsetCommit on a group that does not exist has an error of its own (KIP-848).
_GROUP_ID_NOT_FOUND_VERSION = 9


class TopicCommit(NamedTuple):
    """Offsets to commit in one topic, which exists and has these partitions."""

    topic: str
    topic_id: bytes
    partitions: Sequence[OffsetCommitRequestPartition]


class Fetched(NamedTuple):
    """A group's position in one partition: None where nothing is committed, or the error says why it is unknown."""

    partition: int
    committed: CommittedOffset | None
    error: ErrorCode


def is_metadata_too_large(metadata: str, limit: int) -> bool:
    """Whether a commit's metadata has more UTF-16 units, which is what Kafka counts, than `offset.metadata.max.bytes`."""
    if len(metadata) > limit:
        return True
    # One character has two units at most.
    return 2 * len(metadata) > limit and len(metadata.encode("utf-16-le")) > 2 * limit


class Commits:
    """What may be done with committed offsets; the state is all in the shards."""

    def __init__(self, settings: GroupSettings, store: RecordStore, classic: ClassicProtocol) -> None:
        self._settings = settings
        self._store = store
        self._classic = classic

    def commit(
        self, shard: Shard, request: OffsetCommitRequest, version: int, topics: Sequence[TopicCommit], now_ms: int
    ) -> dict[Place, ErrorCode]:
        """Commit all offsets with metadata of allowed size, in one batch.

        Args:
            request: Says which group and member commits; its `topics` are not looked at.
            topics: What to commit instead.

        Returns:
            What was refused: OFFSET_METADATA_TOO_LARGE.

        Raises:
            KafkaError: The group does not allow it (`Group.check_commit`), does not exist (ILLEGAL_GENERATION, later
                GROUP_ID_NOT_FOUND), or the partition cannot be written. Nothing is committed then.
        """
        group_id = request.group_id
        check, new_group = self._check_commit(shard, request, version, now_ms)
        expire_ms = -1 if request.retention_time_ms == -1 else now_ms + request.retention_time_ms
        refused: dict[Place, ErrorCode] = {}
        records: list[Pair] = []
        accepted: list[tuple[Place, CommittedOffset]] = []
        for topic, topic_id, partitions in topics:
            for partition in partitions:
                place = topic, partition.partition_index
                metadata = partition.committed_metadata or ""
                if is_metadata_too_large(metadata, self._settings.offset_metadata_max_bytes):
                    refused[place] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    continue
                if check is not None:
                    check(topic_id, partition.partition_index)
                committed = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now_ms,
                    expire_ms,
                    topic_id,
                    len(records),
                )
                records.append((offset_key(group_id, *place), offset_value(committed)))
                accepted.append((place, committed))
        if records:
            base_offset = self._store.append(shard.partition, records, now_ms)
            # A simple group comes into being with its first commit, not with the attempt.
            if new_group is not None:
                shard.groups[group_id] = new_group
            for place, committed in accepted:
                in_log = committed._replace(record_offset=base_offset + committed.record_offset)
                shard.offsets.put(group_id, place, in_log)
        return refused

    def _check_commit(
        self, shard: Shard, request: OffsetCommitRequest, version: int, now_ms: int
    ) -> tuple[PartitionCheck | None, ClassicGroup | None]:
        """What is left to check for each partition, and the group if it has to be made."""
        epoch = request.generation_id_or_member_epoch
        group: Group | None = shard.groups.get(request.group_id)
        if group is None:
            if epoch >= 0:
                if version >= _GROUP_ID_NOT_FOUND_VERSION:
                    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"group {request.group_id} does not exist")
            return None, self._classic.new_group(request.group_id, shard.partition, now_ms)
        check = group.check_commit(request.member_id, request.group_instance_id, epoch, version, is_transactional=False)
        if isinstance(group, ClassicGroup):
            self._classic.committed(group, request.member_id, now_ms)
        return check, None

    def check_fetch(self, shard: Shard, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raise KafkaError if this member may not read committed offsets (`Group.check_fetch`). A group that does not
        exist has none."""
        group = shard.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, epoch)

    def fetch(
        self, shard: Shard, group_id: str, topic: str, topic_id: bytes, partitions: Iterable[int], *, stable: bool
    ) -> list[Fetched]:
        """The group's positions in these partitions.

        Args:
            topic_id: Unless zero, an offset committed to another topic of the same name is not taken.
            stable: Answer UNSTABLE_OFFSET_COMMIT where a transaction is about to commit.
        """
        offsets = shard.offsets
        of_group = offsets.of_group(group_id)
        fetched = []
        for partition in partitions:
            place = (topic, partition)
            if stable and offsets.is_unstable(group_id, place):
                fetched.append(Fetched(partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                continue
            committed = of_group.get(place)
            if (
                committed is not None
                and topic_id != committed.topic_id
                and ZERO_UUID not in (topic_id, committed.topic_id)
            ):
                committed = None
            fetched.append(Fetched(partition, committed, ErrorCode.NONE))
        return fetched

    def fetch_all(self, shard: Shard, group_id: str, *, stable: bool) -> dict[str, list[Fetched]]:
        """All that the group has committed, by topic."""
        partitions: dict[str, list[int]] = {}
        for topic, partition in shard.offsets.of_group(group_id):
            partitions.setdefault(topic, []).append(partition)
        return {
            topic: self.fetch(shard, group_id, topic, ZERO_UUID, indexes, stable=stable)
            for topic, indexes in partitions.items()
        }

    def delete(self, shard: Shard, group_id: str, places: Sequence[Place], now_ms: int) -> list[ErrorCode]:
        """Delete offsets on request (KIP-496).

        Returns:
            Per place NONE, also where nothing was committed, or GROUP_SUBSCRIBED_TO_TOPIC.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP for a group at work whose members do not consume.
        """
        group = shard.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        group.check_offset_delete()
        errors = [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.subscribes_to(topic) else ErrorCode.NONE for topic, _ in places
        ]
        known = set(shard.offsets.places(group_id))
        deletable = [place for place, error in zip(places, errors, strict=True) if not error and place in known]
        self.remove(shard, group_id, list(dict.fromkeys(deletable)), now_ms)
        return errors

    def remove(
        self, shard: Shard, group_id: str, places: Sequence[Place], now_ms: int, *, with_group: bool = False
    ) -> None:
        """Write tombstones for these places, and last for the group itself if asked to; forget what was committed.

        Raises:
            KafkaError: The partition cannot be written; some of the places may be gone by then.
        """
        keys: list[tuple[Place | None, bytes]] = [(place, offset_key(group_id, *place)) for place in places]
        if with_group:
            keys += [(None, key) for key in shard.groups[group_id].tombstone_keys()]
        for at in range(0, len(keys), TOMBSTONES_PER_BATCH):
            batch = keys[at : at + TOMBSTONES_PER_BATCH]
            self._store.append(shard.partition, [(key, None) for _, key in batch], now_ms)
            for place, _ in batch:
                if place is not None:
                    shard.offsets.remove(group_id, place)

    def expire(self, shard: Shard, group: Group, now_ms: int) -> bool:
        """Remove the group's offsets that have passed their time, with the group if that leaves it without members
        and offsets; errors as `remove`.

        Returns:
            Whether the group's tombstones were written.
        """
        offsets, group_id = shard.offsets, group.group_id
        places = offsets.expired(group, now_ms, self._settings.offsets_retention_ms)
        is_unused = group.may_expire and len(places) == len(offsets.places(group_id))
        self.remove(shard, group_id, places, now_ms, with_group=is_unused)
        return is_unused

    def topic_deleted(self, shard: Shard, name: str, topic_id: bytes, now_ms: int) -> None:
        """Remove offsets committed in a deleted topic, but not those of a later topic of the same name; errors as
        `remove`."""
        for group_id in tuple(shard.offsets.groups()):
            of_group = shard.offsets.of_group(group_id)
            places = [
                place
                for place in shard.offsets.places(group_id)
                if place[0] == name and (place not in of_group or of_group[place].topic_id in (ZERO_UUID, topic_id))
            ]
            self.remove(shard, group_id, places, now_ms)
