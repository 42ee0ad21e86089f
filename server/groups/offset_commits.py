"""Committing, fetching, deleting and expiring offsets, in the tables of a shard and in its partition.

Called by `groups.coordinator` with an active shard. Every change is appended to the partition first and applied to the tables
after, so the tables never hold what a restart would not find again.
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

# From this version of OffsetCommit on a group that does not exist has an error of its own (KIP-848).
_GROUP_ID_NOT_FOUND_VERSION = 9
# A batch of which nobody asks whether it may be so large, before the log does.
_LITTLE_BYTES = 1_024


class TopicCommit(NamedTuple):
    """Offsets to commit in one topic, which exists and has these partitions."""

    topic: str
    topic_id: bytes
    partitions: Sequence[OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition]


class Fetched(NamedTuple):
    """A group's position in one partition: None where nothing is committed, or the error says why it is unknown."""

    partition: int
    committed: CommittedOffset | None
    error: ErrorCode


class Positions(NamedTuple):
    """What a group has committed at some moment; `unstable` are the places where a transaction is about to commit, which
    nobody is told who asks for stable offsets, and none for others."""

    committed: Mapping[Place, CommittedOffset]
    unstable: Collection[Place]


def is_metadata_too_large(metadata: str, limit: int) -> bool:
    """Whether a commit's metadata has more UTF-16 units, which is what Kafka counts, than `offset.metadata.max.bytes`."""
    if len(metadata) > limit:
        return True
    # One character has two units at most.
    return 2 * len(metadata) > limit and len(metadata.encode("utf-16-le")) > 2 * limit


class PreparedCommit(NamedTuple):
    """A commit that may be written: its records, what they say, and what was left out."""

    records: Records
    accepted: dict[Place, CommittedOffset]
    refused: dict[Place, ErrorCode]
    topic_ids: set[bytes]
    """The topics of what is accepted. One that is deleted before the commit is written must not get it: it would be found
    in the next topic of that name."""


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
    """Make the records of a commit, plain or in a transaction. OFFSET_METADATA_TOO_LARGE, and
    UNKNOWN_TOPIC_OR_PARTITION for a topic that is gone by now, refuse a partition alone. Nothing is asked of the group
    here, so that others may have their turns meanwhile.

    Args:
        expire_ms: When the client wants it forgotten; -1 if it says nothing.
        metadata_max: `offset.metadata.max.bytes`, in UTF-16 units.
        max_bytes: Tells what a batch may have, when there is more than a little: no more is made of one that will be refused
            for its size.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR, as Apache Kafka says to a commit that makes too large a batch.
    """
    prepared = PreparedCommit(Records(), {}, {}, set())
    records, most_bytes = prepared.records, _LITTLE_BYTES
    for topic, topic_id, partitions in topics:
        is_gone = known.name_of(topic_id) is None
        if not is_gone:
            prepared.topic_ids.add(topic_id)
        for partition in partitions:
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
    """Whether all topics of the commit are there."""
    return all(known.name_of(topic_id) is not None for topic_id in prepared.topic_ids)


def check_places(prepared: PreparedCommit, check: PartitionCheck | None) -> None:
    """Raise what `check` does for any of the places."""
    if check is not None:
        for (topic, partition), committed in prepared.accepted.items():
            check(topic, committed.topic_id, partition)


class Commits:
    """What may be done with committed offsets; the state is all in the shards."""

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
        """`prepare` for `commit`."""
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
        """Commit all offsets with metadata of allowed size, in one batch: for everybody at once.

        Args:
            request: Says which group and member commits; its `topics` are not looked at.
            prepared: What to commit instead.

        Returns:
            What was refused: OFFSET_METADATA_TOO_LARGE.

        Raises:
            KafkaError: The group does not allow it (`Group.check_commit`), does not exist (ILLEGAL_GENERATION, later
                GROUP_ID_NOT_FOUND), or the partition cannot be written. Nothing is committed then.
        """
        check, new_group = self._check_commit(shard, request, version, now_ms)
        check_places(prepared, check)
        if prepared.accepted:
            self._store.append(shard.partition, prepared.records, now_ms)
            # A simple group comes into being with its first commit, not with the attempt.
            if new_group is not None:
                shard.groups[request.group_id] = new_group
            shard.offsets.put(request.group_id, prepared.accepted)
        return prepared.refused

    def _check_commit(
        self, shard: GroupShard, request: OffsetCommitRequest, version: int, now_ms: int
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
            self._classic.committed(group, request.member_id)
        return check, None

    def check_fetch(self, shard: GroupShard, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raise KafkaError if this member may not read committed offsets (`Group.check_fetch`). A group that does not
        exist has none."""
        group = shard.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, epoch)

    @staticmethod
    def fetch(positions: Positions, topic: str, topic_id: bytes, partitions: Iterable[int]) -> Steps[list[Fetched]]:
        """A group's positions in these partitions, all as they were when `positions` were taken.

        Args:
            topic_id: An offset committed to another topic of the same name is not taken; zero takes any.
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
        """All that a group has committed, by topic; `id_of` gives what `fetch` takes as `topic_id`."""
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
            Per place NONE, also where nothing was committed, or GROUP_SUBSCRIBED_TO_TOPIC.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP for a group at work whose members do not consume.
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
        """Write tombstones for these places, and last for the group itself if asked to; forget what was committed.

        Raises:
            KafkaError: A batch was refused, the first of them: its places are there still, and so is the group.
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
        """Write the tombstones of `remove`; those of the group only if no offset stays.

        Returns:
            Whether the group's are written.
        """
        for place in places:
            tombstones.add(place, offset_key(group_id, *place))
        if with_group:
            for key in shard.groups[group_id].tombstone_keys():
                tombstones.add(None, key, is_last=True)
        tombstones.write()
        return with_group and tombstones.refusal is None

    def expire(self, shard: GroupShard, group: Group, now_ms: int) -> Steps[bool]:
        """Remove the group's offsets that have passed their time, with the group if that leaves it without members
        and offsets; errors as `remove`.

        Returns:
            Whether the group's tombstones were written, in this very piece.
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
        """Remove the group's offsets that were committed in these topics, but not those of a later topic of the same name;
        errors as `remove`."""
        tombstones = self._tombstones(shard, group_id, now_ms)
        for some in chunks(shard.offsets.places(group_id)):
            self._bury(tombstones, shard, group_id, shard.offsets.places_gone(group_id, some, topics))
            yield
        tombstones.check()


def chunks(places: Sequence[Place]) -> list[Sequence[Place]]:
    """As many of them at a time as one piece of a job looks at."""
    return [places[at : at + PLACES_A_PIECE] for at in range(0, len(places), PLACES_A_PIECE)]
