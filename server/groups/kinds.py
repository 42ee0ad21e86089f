"""What all kinds of groups have in common: the classic ones, consumer groups, and those that come later.

`shard` keeps groups of all kinds in one table by group id; `offset_commits`, `offset_table`, listing, deleting and expiry ask only
this of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from ...protocol.errors import ErrorCode, KafkaError
from ..coordination.jobs import Job
from .records import CommittedOffset

PartitionCheck: TypeAlias = Callable[[str, bytes, int], None]
"""(topic, its id, partition): raises KafkaError if nothing may be committed there, and so fails the whole request."""

Refusal: TypeAlias = tuple[bool, str]
"""Whether a request is refused, and the words for it."""


class Group(Protocol):
    group_id: str
    partition: int
    """Of `__consumer_offsets`, where its records stand."""
    type_name: ClassVar[str]
    """As ListGroups calls it."""
    state_names: ClassVar[tuple[str, ...]]
    """All that `state_name` may be."""

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def state_name(self) -> str:
        """As users see it."""

    @property
    def is_empty(self) -> bool:
        """It has no members, so it may be deleted."""

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, *, is_transactional: bool
    ) -> PartitionCheck | None:
        """Whether offsets may be committed under these credentials.

        Args:
            epoch: Generation or member epoch; below 0 for whoever is no member.
            version: Of OffsetCommit or TxnOffsetCommit.

        Returns:
            A check for each partition where there is more to ask, or None.

        Raises:
            KafkaError: The request fails.
        """

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise KafkaError if committed offsets may not be read under these credentials (OffsetFetch 9 and later)."""

    def check_offset_delete(self) -> None:
        """Raise KafkaError if no offset of the group may be deleted now, whatever the topic."""

    def subscribes_to(self, topic: str) -> bool:
        """Whether offsets of this topic are in use: they neither expire nor can be deleted."""

    def offsets_age_from(self) -> Callable[[CommittedOffset], int] | None:
        """From when the age of a commit counts; None if offsets do not expire in the present state."""

    @property
    def may_expire(self) -> bool:
        """It may be forgotten once it has no offsets left."""

    def tombstone_keys(self) -> Sequence[bytes]:
        """Keys of all records of the group but its offsets', in the order in which they are to be deleted."""


def check_none(*refusals: Refusal) -> None:
    """Raise KafkaError INVALID_REQUEST for the first that holds."""
    for holds, message in refusals:
        if holds:
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)


class GroupKind(NamedTuple):
    """What the coordinator does with the groups of one kind where it does otherwise with others. One row for each kind in
    `GroupCoordinator`, and one for its records in `shard.REPLAY`."""

    take_up: Callable[[Any, Any, int], Job]
    """(shard, group, now_ms): the group has been loaded; its time runs from now on."""
    close: Callable[[Any, ErrorCode, int], Job]
    """(group, error, now_ms): the group goes; whoever waits in it is told `error`."""
