"""Committing, fetching, deleting and expiring offsets, in the tables of a shard and in its partition.

`groups.coordinator` calls it with an active shard. Every change is appended to the partition first and then applied to the
tables, so a restart finds everything that the tables contain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition
from ...protocol.wire import ZERO_UUID
from ...storage.topics.options import MAX_LONG
from ..coordination.jobs import Job, Steps
from ..coordination.records import Records
from ..coordination.store import RecordStore, Tombstones
from .assigning.topics import TopicView
from .classic.group import ClassicGroup
from .classic.protocol import ClassicProtocol
from .kinds import Group, PartitionCheck
from .offset_table import Place, TopicId
from .records import CommittedOffset, offset_key, offset_value
from .settings import PLACES_A_PIECE, GroupSettings
from .shard import GroupShard

# From this version of OffsetCommit on, a group that does not exist has an error of its own (KIP-848).
_GROUP_ID_NOT_FOUND_VERSION = 9
# Up to this size, a batch is not checked against the size limit before it is appended.
_LITTLE_BYTES = 1_024
COMMITTED_AT_ONCE = 20
"""Topics and partitions of a commit that are one step: some microseconds each. Of more each is a step."""


class TopicCommit(NamedTuple):
    """Offsets to commit in one topic, which exists and has these partitions."""

    topic: str
    topic_id: bytes
    partitions: Sequence[OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition]


class Fetched(NamedTuple):
    """A group's position in one partition: None if nothing is committed there, or if the error is set."""

    partition: int
    committed: CommittedOffset | None
    error: ErrorCode


class Positions(NamedTuple):
    """A group's committed offsets at some moment. `unstable` has the places with pending commits of transactions, whose offsets
    are not returned; it is empty if the client does not ask for stable offsets."""

    committed: Mapping[Place, CommittedOffset]
    unstable: Collection[Place]


def is_metadata_too_large(metadata: str, limit: int) -> bool:
    """Whether a commit's metadata has more UTF-16 code units, which Kafka counts, than `offset.metadata.max.bytes`."""
    if len(metadata) > limit:
        return True
    # One character has at most two units.
    return 2 * len(metadata) > limit and len(metadata.encode("utf-16-le")) > 2 * limit


class PreparedCommit(NamedTuple):
    """A commit that may be written: its records, its offsets, and the partitions that were refused."""

    records: Records
    accepted: dict[Place, CommittedOffset]
    refused: dict[Place, ErrorCode]
    topic_ids: set[bytes]
    """Ids of the topics with accepted offsets. If such a topic is deleted before the commit is written, it must not be written:
    the next topic of that name would get its offsets."""


def prepare(
    group_id: str,
    topics: Sequence[TopicCommit],
    *,
    now_ms: int,
    expire_ms: int,
    metadata_max: int,
    max_bytes: Callable[[], int],
    known: TopicView,
) -> Steps[PreparedCommit]:
    """Make the records of a commit, plain or in a transaction. OFFSET_METADATA_TOO_LARGE, and UNKNOWN_TOPIC_OR_PARTITION for a
    deleted topic, refuse only that partition. The group is not read here, so other requests may run between the pieces.

    Args:
        expire_ms: Time at which the client lets the commit expire; -1 if it sets none.
        metadata_max: `offset.metadata.max.bytes`, in UTF-16 units.
        max_bytes: Function that returns the maximum size of a batch; called for all but small batches. A batch that would be
            refused for its size is not completed.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR: the batch would be too large, as in Apache Kafka.
    """
    prepared = PreparedCommit(Records(), {}, {}, set())
    records, most_bytes = prepared.records, _LITTLE_BYTES
    in_one_step = COMMITTED_AT_ONCE
    for topic, topic_id, partitions in topics:
        is_gone = known.name_of(topic_id) is None
        if not is_gone:
            prepared.topic_ids.add(topic_id)
        for partition in partitions:
            if (in_one_step := in_one_step - 1) < 0:
                yield
            place = topic, partition.partition_index
            metadata = partition.committed_metadata or ""
            if is_gone:
                prepared.refused[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            if is_metadata_too_large(metadata, metadata_max):
                prepared.refused[place] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            committed = CommittedOffset(
                partition.committed_offset,
                partition.committed_leader_epoch,
                metadata,
                now_ms,
                expire_ms,
                topic_id,
            )
            records.add((offset_key(group_id, *place), offset_value(committed)))
            if records.batch_bytes > most_bytes and records.batch_bytes > (most_bytes := max_bytes()):
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"{len(records)} offsets exceed the limit of {most_bytes} bytes in one batch",
                )
            prepared.accepted[place] = committed
    return prepared


def is_current(prepared: PreparedCommit, known: TopicView) -> bool:
    """Whether all topics of the commit still exist."""
    return all(known.name_of(topic_id) is not None for topic_id in prepared.topic_ids)


def check_places(prepared: PreparedCommit, check: PartitionCheck | None) -> None:
    """Call `check` for each place; raise its errors."""
    if check is not None:
        for (topic, partition), committed in prepared.accepted.items():
            check(topic, committed.topic_id, partition)


class Commits:
    """Operations on committed offsets. All state is in the shards."""

    def __init__(
        self, settings: GroupSettings, store: RecordStore, topics: TopicView, classic: ClassicProtocol
    ) -> None:
        self._settings = settings
        self._store = store
        self._topics = topics
        self._classic = classic

    def prepare(
        self, request: OffsetCommitRequest, topics: Sequence[TopicCommit], now_ms: int, max_bytes: Callable[[], int]
    ) -> Steps[PreparedCommit]:
        """Run `prepare` for `commit`."""
        return prepare(
            request.group_id,
            topics,
            now_ms=now_ms,
            expire_ms=-1 if request.retention_time_ms == -1 else min(now_ms + request.retention_time_ms, MAX_LONG),
            metadata_max=self._settings.offset_metadata_max_bytes,
            max_bytes=max_bytes,
            known=self._topics,
        )

    def commit(
        self, shard: GroupShard, request: OffsetCommitRequest, version: int, prepared: PreparedCommit, now_ms: int
    ) -> dict[Place, ErrorCode]:
        """Commit all offsets with metadata of allowed size, in one batch and in one step.

        Args:
            request: Request with the group and the member; its `topics` are not used.
            prepared: The offsets to commit.

        Returns:
            Errors of the refused partitions: OFFSET_METADATA_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION.

        Raises:
            KafkaError: The group does not allow it (`Group.check_commit`), does not exist (ILLEGAL_GENERATION, later
                GROUP_ID_NOT_FOUND), or the partition cannot be written. Then nothing is committed.
        """
        check, new_group = self._check_commit(shard, request, version, now_ms)
        check_places(prepared, check)
        if prepared.accepted:
            self._store.append(shard.partition, prepared.records, now_ms)
            # A simple group is created by its first successful commit, not by the attempt.
            if new_group is not None:
                shard.groups[request.group_id] = new_group
            shard.offsets.put(request.group_id, prepared.accepted)
        return prepared.refused

    def _check_commit(
        self, shard: GroupShard, request: OffsetCommitRequest, version: int, now_ms: int
    ) -> tuple[PartitionCheck | None, ClassicGroup | None]:
        """Check the commit. Return the check that is left for each partition, and the group if it must be created."""
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
            self._classic.committed(group, request.member_id)
        return check, None

    def check_fetch(self, shard: GroupShard, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raise KafkaError if this member may not read committed offsets (`Group.check_fetch`). A group that does not exist
        allows all."""
        group = shard.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, epoch)

    @staticmethod
    def fetch(positions: Positions, topic: str, topic_id: bytes, partitions: Iterable[int]) -> Steps[list[Fetched]]:
        """Return a group's positions in these partitions, as they were when `positions` was made.

        Args:
            topic_id: Id of the topic. An offset committed in another topic of the same name is left out; zero accepts any.
        """
        fetched = []
        for partition in partitions:
            yield
            place = (topic, partition)
            if place in positions.unstable:
                fetched.append(Fetched(partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                continue
            committed = positions.committed.get(place)
            if (
                committed is not None
                and topic_id != committed.topic_id
                and ZERO_UUID not in (topic_id, committed.topic_id)
            ):
                committed = None
            fetched.append(Fetched(partition, committed, ErrorCode.NONE))
        return fetched

    def fetch_all(self, positions: Positions, id_of: Callable[[str], bytes]) -> Steps[dict[str, list[Fetched]]]:
        """Return all committed offsets of a group, by topic; `id_of` returns the `topic_id` for `fetch`."""
        partitions: dict[str, list[int]] = {}
        for topic, partition in positions.committed:
            partitions.setdefault(topic, []).append(partition)
            yield
        found = {}
        for topic, indexes in partitions.items():
            fetched = yield from self.fetch(positions, topic, id_of(topic), indexes)
            if there := [one for one in fetched if one.committed is not None or one.error]:
                found[topic] = there
        return found

    def delete(self, shard: GroupShard, group_id: str, places: Sequence[Place], now_ms: int) -> dict[Place, ErrorCode]:
        """Delete offsets on request (KIP-496).

        Returns:
            NONE per place, also if nothing was committed there, or GROUP_SUBSCRIBED_TO_TOPIC.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP for a group with members that are not consumers.
        """
        group = shard.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        group.check_offset_delete()
        errors = {
            place: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.subscribes_to(place[0]) else ErrorCode.NONE
            for place in places
        }
        offsets = shard.offsets
        deletable = [
            place
            for place, error in errors.items()
            if not error and (place in offsets.of_group(group_id) or offsets.is_unstable(group_id, place))
        ]
        self.remove(shard, group_id, deletable, now_ms)
        return errors

    def remove(
        self, shard: GroupShard, group_id: str, places: Sequence[Place], now_ms: int, *, with_group: bool = False
    ) -> None:
        """Write tombstones for these places, and last for the group itself if `with_group`, and forget the committed offsets.

        Raises:
            KafkaError: The first error of a refused batch. The batch's places and the group are still there.
        """
        tombstones = self._tombstones(shard, group_id, now_ms)
        self._bury(tombstones, shard, group_id, places, with_group=with_group)
        tombstones.check()

    def _tombstones(self, shard: GroupShard, group_id: str, now_ms: int) -> Tombstones[Place | None]:
        def forget(place: Place | None) -> None:
            if place is not None:
                shard.offsets.remove(group_id, place)

        return Tombstones(self._store, shard.partition, now_ms, forget)

    @staticmethod
    def _bury(
        tombstones: Tombstones[Place | None],
        shard: GroupShard,
        group_id: str,
        places: Sequence[Place],
        *,
        with_group: bool = False,
    ) -> bool:
        """Write the tombstones of `remove`; the group's only if no batch of offsets was refused.

        Returns:
            Whether the group's tombstones are written.
        """
        for place in places:
            tombstones.add(place, offset_key(group_id, *place))
        if with_group:
            for key in shard.groups[group_id].tombstone_keys():
                tombstones.add(None, key, is_last=True)
        tombstones.write()
        return with_group and tombstones.refusal is None

    def expire(self, shard: GroupShard, group: Group, now_ms: int) -> Steps[bool]:
        """Remove the group's expired offsets, and the group if it then has no members and no offsets. Errors as `remove`.

        Returns:
            Whether the group's tombstones were written, in the last piece.
        """
        offsets, group_id = shard.offsets, group.group_id
        tombstones = self._tombstones(shard, group_id, now_ms)
        for some in chunks(tuple(offsets.of_group(group_id))) or [()]:
            if shard.groups.get(group_id) is not group:
                return False
            places = offsets.expired(group, some, now_ms, self._settings.offsets_retention_ms)
            is_unused = group.may_expire and not offsets.has_other_places(group_id, places)
            if self._bury(tombstones, shard, group_id, places, with_group=is_unused):
                return True
            yield
        tombstones.check()
        return False

    def forget(self, shard: GroupShard, group_id: str, topics: Container[TopicId], now_ms: int) -> Job:
        """Remove the group's offsets that were committed in these topics, but not those of a later topic of the same name.
        Errors as `remove`."""
        tombstones = self._tombstones(shard, group_id, now_ms)
        for some in chunks(shard.offsets.places(group_id)):
            self._bury(tombstones, shard, group_id, shard.offsets.places_gone(group_id, some, topics))
            yield
        tombstones.check()


def chunks(places: Sequence[Place]) -> list[Sequence[Place]]:
    """Split the places into parts for the pieces of a job."""
    return [places[at : at + PLACES_A_PIECE] for at in range(0, len(places), PLACES_A_PIECE)]
