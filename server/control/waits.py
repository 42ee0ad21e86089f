"""Waits of a test for its consumers: until they read, have consumed, or have joined.

Each looks again after a few milliseconds, or as long as the look has taken. Whether a consumer reads is known to the broker
alone: it has the client's fetch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias, TypeVar

import trio

from ...storage.disk.paths import TopicPartition
from ..broker.broker import Broker
from ..partitions.fetch_sessions import Reader
from ..runtime.errors import ControlError, Kind
from ..runtime.time_slices import TimeSlice
from .groups import SHARE, GroupMember, GroupMembers, group_members, group_offsets
from .operation import Name, Partitions, Range, TopicName, operation
from .partitions import logs_of
from .records import read_undecoded

LOOK_S = 0.005
"""Minimum time between two looks, in seconds of real time."""
TIMEOUT_S_MAX = 3_600.0
SHOWN_MAX = 5
"""Maximum number of partitions or members in the message of a timeout."""
MARKERS_MAX = 20
"""Maximum number of markers of transactions at the end of a partition that count as consumed."""
STABLE = "Stable"

TimeoutMs = Annotated[int, Range(0, int(TIMEOUT_S_MAX * 1_000))]
Result = TypeVar("Result")
Assigned: TypeAlias = dict[tuple[str, str], set[str] | None]
"""Client id and address -> names of partitions; None for all, if only the clients know them."""


@dataclass(frozen=True, slots=True)
class PartitionReader:
    """A consumer that reads a partition."""

    partition: int
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True)
class TopicReaders:
    """Result of `wait_until_reading`."""

    topic: str
    readers: tuple[PartitionReader, ...]
    """One consumer of each partition, in the order of the partitions."""


@dataclass(frozen=True, slots=True)
class TopicConsumed:
    """Result of `wait_until_consumed`."""

    topic: str
    group: str
    partitions: int
    """Number of partitions that the group has consumed up to their ends."""


@dataclass(frozen=True, slots=True)
class StableGroup:
    """Result of `wait_until_stable`."""

    group: str
    members: tuple[GroupMember, ...]


async def wait_until_reading(
    broker: Broker,
    topic: str,
    group: str | None = None,
    partitions: Iterable[int] | None = None,
    timeout_s: float = 10.0,
) -> TopicReaders:
    """Wait until a consumer reads each partition of a topic: it has fetched from its position, so it gets the next record.

    A stable group, or an assignment that the client reports, is too early: a consumer that starts at the end of the log may
    still have to look it up. The topic, and the group, need not exist at the call.

    Args:
        group: Only members of this group count, by client id and address, and only while the group is stable.
        partitions: Partition numbers (default: all partitions of the topic).
        timeout_s: Time limit in seconds of real time, independent of the broker's clock.

    Raises:
        ControlError: INVALID: a share group, wrong arguments; TIMED_OUT: the message names what is missing.
    """
    wanted = None if partitions is None else [*partitions]
    found: dict[TopicPartition, Reader] = {}
    """Consumers of all looks that still read: one without a session is seen only while its fetch waits."""

    async def look(time_slice: TimeSlice) -> TopicReaders | str:
        logs = [log.topic_partition for log in logs_of(broker, topic, wanted)]
        members = None if group is None else await group_members(broker, group)
        if members is not None and members.kind == SHARE:
            raise ControlError(
                Kind.INVALID, f"group {group!r:.260} is a share group: use wait_until_stable or wait_until_consumed"
            )
        connections = {connection.peer: connection for connection in broker.connections}
        readers = await _reading(broker, topic, logs, connections, time_slice)
        seen = [*((reader, partition) for partition, reader in found.items()), *readers]
        connected = set[str]()
        async for peer in time_slice.each(connections.keys() & {reader.peer for reader, _ in seen}):
            if not connections[peer].is_closed_by_peer():
                connected.add(peer)
        found.clear()
        assigned = None if members is None else await _assigned(members, time_slice)
        async for reader, partition in time_slice.each(seen):
            if reader.peer in connected and (assigned is None or _is_assigned(assigned, reader, partition)):
                found[partition] = reader
        if missing := [partition for partition in logs if partition not in found]:
            return f"no consumer reads {_some(missing)}{_there(members)}"
        rows = ((each.partition, found[each]) for each in logs)
        return TopicReaders(
            topic, tuple(PartitionReader(index, reader.client_id, reader.client_host) for index, reader in rows)
        )

    return await _until(look, timeout_s)


@operation("GET", "/v1/topics/{topic}/reading", statuses=(504,), only_waits=True)
async def wait_ms_until_reading(
    broker: Broker,
    topic: TopicName,
    group: Name | None = None,
    partitions: Partitions | None = None,
    timeout_ms: TimeoutMs = 10_000,
) -> TopicReaders:
    """Wait until a consumer reads each partition of a topic: it has fetched from its position, so it gets the next record.

    Args:
        group: Only members of this group count, by client id and address, and only while the group is stable.
        partitions: Partition numbers (default: all partitions of the topic).
        timeout_ms: Time limit in milliseconds of real time, independent of the broker's clock.
    """
    return await wait_until_reading(broker, topic, group, partitions, timeout_ms / 1_000)


async def wait_until_consumed(broker: Broker, topic: str, group: str, timeout_s: float = 10.0) -> TopicConsumed:
    """Wait until a group has committed all records of a topic; a share group, until it has acknowledged them.

    Args:
        timeout_s: Time limit in seconds of real time, independent of the broker's clock.

    Raises:
        ControlError: INVALID: wrong arguments; TIMED_OUT: the message names what is missing.
    """

    async def look(time_slice: TimeSlice) -> TopicConsumed | str:
        logs = logs_of(broker, topic)
        members = await group_members(broker, group)
        offsets = {each.partition: each for each in await group_offsets(broker, group) if each.topic == topic}
        missing = list[str]()
        async for log in time_slice.each(logs):
            end, at = log.log_end_offset, offsets.get(log.topic_partition.partition)
            if log.log_start_offset == end or (at is not None and at.lag == 0):
                continue
            if at is None:
                missing.append(f"{log.topic_partition}: nothing committed, log end {end}")
            elif at.lag > MARKERS_MAX or not await _only_markers(broker, log.topic_partition, at.committed_offset):
                missing.append(f"{log.topic_partition}: committed {at.committed_offset}, log end {end}")
        if missing:
            return f"not consumed: {_some(missing)}{_there(members)}"
        return TopicConsumed(topic, group, len(logs))

    return await _until(look, timeout_s)


@operation("GET", "/v1/topics/{topic}/consumed", statuses=(504,), only_waits=True)
async def wait_ms_until_consumed(
    broker: Broker, topic: TopicName, group: Name, timeout_ms: TimeoutMs = 10_000
) -> TopicConsumed:
    """Wait until a group has committed all records of a topic; a share group, until it has acknowledged them.

    Args:
        timeout_ms: Time limit in milliseconds of real time, independent of the broker's clock.
    """
    return await wait_until_consumed(broker, topic, group, timeout_ms / 1_000)


async def wait_until_stable(
    broker: Broker, group: str, members: int | None = None, timeout_s: float = 10.0
) -> StableGroup:
    """Wait until a group is stable: its members have joined, and have their partitions.

    Args:
        members: Number of members that it must have (default: any, at least one).
        timeout_s: Time limit in seconds of real time, independent of the broker's clock.

    Raises:
        ControlError: INVALID: wrong arguments; TIMED_OUT: the message names what is missing.
    """
    if members is not None and (isinstance(members, bool) or not isinstance(members, int) or members < 1):
        raise ControlError(Kind.INVALID, f"members: expected a number from 1, found {members!r:.40}")

    async def look(_: TimeSlice) -> StableGroup | str:
        found = await group_members(broker, group)
        if found.state == STABLE and (members is None or len(found.members) == members):
            return StableGroup(group, found.members)
        wanted = "" if members is None else f" with {members} members"
        return f"group {group!r:.260} is not stable{wanted}{_there(found)}"

    return await _until(look, timeout_s)


@operation("GET", "/v1/groups/{group}/stable", statuses=(504,), only_waits=True)
async def wait_ms_until_stable(
    broker: Broker, group: Name, members: Annotated[int, Range(1)] | None = None, timeout_ms: TimeoutMs = 10_000
) -> StableGroup:
    """Wait until a group is stable: its members have joined, and have their partitions.

    Args:
        members: Number of members that it must have (default: any, at least one).
        timeout_ms: Time limit in milliseconds of real time, independent of the broker's clock.
    """
    return await wait_until_stable(broker, group, members, timeout_ms / 1_000)


async def _until(look: Callable[[TimeSlice], Awaitable[Result | str]], timeout_s: float) -> Result:
    """Return what `look` finds; while it returns a sentence, look again.

    A topic, partition or group that does not exist may come into being during the wait.

    Raises:
        ControlError: TIMED_OUT, with the last sentence; INVALID.
    """
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= TIMEOUT_S_MAX:
        raise ControlError(
            Kind.INVALID, f"timeout_s: expected seconds from 0 to {TIMEOUT_S_MAX:.0f}, found {timeout_s!r:.40}"
        )
    until_s = trio.current_time() + timeout_s
    while True:
        began_s, time_slice = trio.current_time(), TimeSlice()
        try:
            found = await look(time_slice)
        except ControlError as error:
            if error.kind not in (Kind.NOT_FOUND, Kind.CONFLICT, Kind.UNAVAILABLE):
                raise
            found = str(error)
        if not isinstance(found, str):
            return found
        now_s = trio.current_time()
        if now_s >= until_s:
            raise ControlError(Kind.TIMED_OUT, f"{found}; waited {timeout_s:g} s")
        await trio.sleep(max(LOOK_S, min(now_s - began_s, until_s - now_s)))


async def _reading(
    broker: Broker,
    topic: str,
    partitions: Sequence[TopicPartition],
    connected: Collection[str],
    time_slice: TimeSlice,
) -> list[tuple[Reader, TopicPartition]]:
    """Return the consumers that have a fetch of these partitions: it waits here, or is part of an open session."""
    found, services = list[tuple[Reader, TopicPartition]](), broker.services
    async for partition in time_slice.each(partitions):
        found += [(reader, partition) for reader in services.waits.readers(partition)]
    named = services.topics.get(topic)
    for sessions in services.fetch_sessions.values():
        async for session in time_slice.each(sessions.present()):
            if named is not None and session.reader.peer in connected:
                key = named.id if session.by_topic_id else topic
                found += [(session.reader, each) for each in partitions if (key, each.partition) in session.items]
    return found


async def _assigned(members: GroupMembers, time_slice: TimeSlice) -> Assigned:
    """Return the partitions of each client in a stable group; none of another group."""
    found: Assigned = {}
    for each in members.members if members.state == STABLE else ():
        client = each.client_id, each.client_host
        before = found.get(client, set())
        if before is None or each.assigned is None:
            found[client] = None
        else:
            before.update(await time_slice.distinct(each.assigned))
            found[client] = before
    return found


def _is_assigned(assigned: Assigned, reader: Reader, partition: TopicPartition) -> bool:
    # Groups have addresses as Java prints them, after a slash.
    names = assigned.get((reader.client_id, f"/{reader.client_host}"), ())
    return names is None or str(partition) in names


async def _only_markers(broker: Broker, partition: TopicPartition, offset: int) -> bool:
    """Return whether the partition has only markers of transactions from this offset on: consumers do not see them."""
    try:
        rest, _ = await read_undecoded(broker, partition.topic, partition.partition, offset, MARKERS_MAX)
    except ControlError as error:
        if error.kind is Kind.INVALID:  # A batch that is too large to show has records.
            return False
        raise
    return rest.next_offset >= rest.log_end_offset and all(record.marker for record in rest.records)


def _some(things: Collection[object]) -> str:
    shown = ", ".join(map(str, [*things][:SHOWN_MAX]))
    return shown if len(things) <= SHOWN_MAX else f"{shown} and {len(things) - SHOWN_MAX} more"


def _there(members: GroupMembers | None) -> str:
    """Describe the group at the end of a sentence."""
    if members is None:
        return ""
    names = [f"{each.client_id} at {each.client_host}" for each in members.members]
    return f"; the {members.kind} group is {members.state}, members: {_some(names) or 'none'}"
