"""The common interface of all kinds of groups: classic, consumer, share and streams groups.

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
"""Check of (topic, its id, partition). It raises KafkaError if nothing may be committed there, which fails the whole
request."""


class Group(Protocol):
    group_id: str
    partition: int
    """Partition of `__consumer_offsets` that contains the group's records."""
    type_name: ClassVar[str]
    """Name of the group's type in ListGroups."""
    state_names: ClassVar[tuple[str, ...]]
    """All values of `state_name`."""

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def state_name(self) -> str:
        """State, by the name that Kafka shows to users."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, so that it may be deleted."""

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, *, is_transactional: bool
    ) -> PartitionCheck | None:
        """Check whether offsets may be committed under these credentials.

        Args:
            epoch: Generation or member epoch; below 0 if the caller is not a member.
            version: Version of OffsetCommit or TxnOffsetCommit.

        Returns:
            A check that the caller must make for each partition, or None.

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
        """Return a function that gives the time from which a commit ages; None if offsets do not expire in the present
        state."""

    @property
    def may_expire(self) -> bool:
        """Whether the group may be forgotten once it has no offsets left."""

    def tombstone_keys(self) -> Sequence[bytes]:
        """Return the keys of all records of the group except its offsets', in the order in which they must be deleted."""


def check_none(*refusals: tuple[bool, str]) -> None:
    """Raise KafkaError INVALID_REQUEST for the first refusal that holds. The error message is its second part."""
    for holds, message in refusals:
        if holds:
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)


class GroupKind(NamedTuple):
    """Functions of the coordinator that differ between the kinds of groups. `GroupCoordinator` has a row for each kind, and
    `shard.REPLAY` one for its records."""

    take_up: Callable[[Any, Any, int], Job]
    """Function (shard, group, now_ms) that starts the time-outs of a loaded group."""
    close: Callable[[Any, ErrorCode, int], Job]
    """Function (group, error, now_ms) that ends a group; its parked requests are answered with `error`."""
