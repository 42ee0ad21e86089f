"""Requests to both brokers, as plain tuples that name topics, members and offsets.

A step can be sent to either broker: topic ids, producer ids and session epochs are those that the broker returned.
"""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN_TOPIC = "nowhere"
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4

Says = tuple[tuple[int, int, tuple[int, ...]], ...]
"""First offset, last offset, acknowledge types."""


class Place(NamedTuple):
    topic: str
    partition: int


class Fetch(NamedTuple):
    """ShareFetch. `epoch` None stands for the session's next epoch, to which `off` is added."""

    group: str
    member: str
    epoch: int | None = None
    off: int = 0
    places: tuple[Place, ...] = ()
    says: tuple[tuple[Place, Says], ...] = ()
    forget: tuple[Place, ...] = ()
    max_records: int = 500
    batch_size: int = 500
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    wait_ms: int = 0
    mode: int = 0
    renews: bool = False
    version: int = 2


class Acknowledge(NamedTuple):
    """ShareAcknowledge."""

    group: str
    member: str
    says: tuple[tuple[Place, Says], ...]
    epoch: int | None = None
    off: int = 0
    renews: bool = False
    version: int = 2


class Drop(NamedTuple):
    """The member's connection ends."""

    member: str


class Beat(NamedTuple):
    """ShareGroupHeartbeat. `epoch` None stands for the member's last returned epoch, to which `off` is added."""

    group: str
    member: str
    epoch: int | None = None
    off: int = 0
    topics: tuple[str, ...] | None = None
    rack: str | None = None


class Look(NamedTuple):
    """ShareGroupDescribe, DescribeGroups, ListGroups."""

    group: str


class Offsets(NamedTuple):
    """DescribeShareGroupOffsets; None is all that there are."""

    group: str
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None
    version: int = 1


class AlterOffsets(NamedTuple):
    group: str
    rows: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    """Topics, each with partitions and offsets."""


class DeleteOffsets(NamedTuple):
    group: str
    topics: tuple[str, ...]


class DeleteGroup(NamedTuple):
    group: str


class InitState(NamedTuple):
    group: str
    place: Place
    state_epoch: int
    start_offset: int


class ReadState(NamedTuple):
    group: str
    place: Place
    leader_epoch: int


class WriteState(NamedTuple):
    group: str
    place: Place
    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: tuple[tuple[int, int, int, int], ...]
    version: int = 1


class DeleteState(NamedTuple):
    group: str
    place: Place


class Summary(NamedTuple):
    group: str
    place: Place
    leader_epoch: int
    version: int = 1


class Settled(NamedTuple):
    """The written states of the group's share partitions, compared after all work that follows answers is done."""

    group: str
    places: tuple[Place, ...]


class Produce(NamedTuple):
    """One batch; `sizes` are those of its values, `age_s` is how old its records are. In a transaction of that id, if there is one."""

    place: Place
    sizes: tuple[int, ...]
    age_s: int = 0
    transaction: str | None = None


class EndTransaction(NamedTuple):
    transaction: str
    commit: bool


class DeleteRecords(NamedTuple):
    place: Place
    offset: int


class Config(NamedTuple):
    """One config of a group, or None for the default."""

    group: str
    name: str
    value: str | None


class Pause(NamedTuple):
    seconds: float


Member = Fetch | Acknowledge | Drop
Groups = Beat | Look | Offsets | AlterOffsets | DeleteOffsets | DeleteGroup | Config
States = InitState | ReadState | WriteState | DeleteState | Summary
Behind = Pause | Settled
"""Steps that are not requests of a member or a coordinator."""
Log = Produce | EndTransaction | DeleteRecords
Step = Member | Groups | States | Log | Behind
