"""`ottla groups`: list and describe groups with their lag, and reset offsets."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from ....protocol.errors import ErrorCode, KafkaError, ProtocolError
from ....protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ....protocol.messages.describe_groups import DescribeGroupsRequest
from ....protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ....protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ...client.nodes import check
from ...client.reading import EARLIEST, LATEST
from ...client.values import Group
from ..frame.errors import CommandError, did_you_mean, wrong_call
from ..frame.options import bootstrap_option, json_option
from ..frame.parser import Command, Parser
from ..frame.printing import show, show_json, show_table
from ..frame.times import time_ms
from .asking import ClusterViews, connected
from .share_groups import SharePosition, dead_letters_of, move, positions

RESET_NOTES = """\
WHERE is beginning, end, an offset, +N or -N (relative to the committed offset), or a time: 2026-01-31T12:00:00Z, or @MS
(milliseconds since 1970). An offset outside the log is moved to the nearest end of the log.

examples:
  ottla groups reset billing --topic orders --to beginning
  ottla groups reset billing --topic orders:0 --to 1200
  ottla groups reset billing --topic orders --to=-10 --dry-run

The group must have no members. A share group continues at the new offset; records after it are delivered again, even if they
were acknowledged or acquired before.
"""
_TOPIC = re.compile(r"([^:]+)(?::([0-9]{1,9}))?")
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """Progress of a group in one partition."""

    topic: str
    partition: int
    committed: int | None
    """The next offset to read; None without a committed offset."""
    log_end: int | None
    """None for a deleted topic."""
    members: tuple[str, ...]
    """Members that read the partition; a share group may have several."""
    told_lag: int | None = None
    """For a share group: number of unfinished records, some of which may be before finished ones."""

    @property
    def lag(self) -> int | None:
        """Reported lag, or the difference between both offsets."""
        if self.told_lag is not None:
            return self.told_lag
        return None if self.committed is None or self.log_end is None else max(0, self.log_end - self.committed)


def _list(options: argparse.Namespace) -> None:
    with connected(options) as cluster:
        found = [
            (each, len(_shared(cluster, each) if each.type == "share" else each.offsets))
            for each in cluster.kafka.groups()
        ]
    rows = [
        {
            "group": each.group_id,
            "type": each.type,
            "state": each.state,
            "protocol_type": each.protocol_type,
            "partitions": count,
        }
        for each, count in found
    ]
    if options.json:
        show_json(rows)
    else:
        show_table(("GROUP", "TYPE", "STATE", "PROTOCOL", "PARTITIONS"), [list(row.values()) for row in rows])


def _describe(options: argparse.Namespace) -> None:
    with connected(options) as cluster:
        group = _group(cluster, options.group)
        members = _members(cluster, group)
        places = list(_places(cluster, group, members))
        dead_letters = dead_letters_of(cluster, group.group_id) if group.type == "share" else None
    if options.json:
        rows = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "committed_offset": each.committed,
                "log_end_offset": each.log_end,
                "lag": each.lag,
                "member": each.members[0] if len(each.members) == 1 else None,
            }
            for each in places
        ]
        show_json(
            {
                "group": group.group_id,
                "type": group.type,
                "state": group.state,
                "partitions": rows,
                "members": members,
                "dead_letters": None if dead_letters is None else dead_letters._asdict(),
            }
        )
        return
    lag = sum(each.lag or 0 for each in places)
    show(
        f"{group.group_id}  {group.type or 'classic'} group, {group.state or 'state unknown'}, {_counted(len(members), 'member')}, lag {lag}"
    )
    if dead_letters is not None:
        written = "topic not found" if dead_letters.records is None else _counted(dead_letters.records, "record")
        show(f"dead letters in {dead_letters.topic}: {written}")
    clients = {member["member_id"]: f"{member['client_id']} at {member['host']}" for member in members}
    table = [
        (
            each.topic,
            each.partition,
            each.committed,
            each.log_end,
            each.lag,
            ", ".join(clients[member] for member in each.members) or None,
        )
        for each in places
    ]
    show_table(("TOPIC", "PARTITION", "COMMITTED", "LOG END", "LAG", "MEMBER"), table)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s'[: count != 1]}"


def _group(cluster: ClusterViews, group_id: str) -> Group:
    found = cluster.kafka.groups()
    for each in found:
        if each.group_id == group_id:
            return each
    _check_right(cluster, group_id)
    raise CommandError(f"group {group_id!r} not found{did_you_mean(group_id, [each.group_id for each in found])}")


def _check_right(cluster: ClusterViews, group_id: str) -> None:
    """Raise KafkaError GROUP_AUTHORIZATION_FAILED for an unlisted group that the client may not describe."""
    # Any node will do: the right is checked before the coordinator.
    (row,) = cluster.nodes.retrying(partial(cluster.nodes.ask, DescribeGroupsRequest(groups=(group_id,)))).groups
    if row.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        check(row.error_code, f"group {group_id!r}")


def _members(cluster: ClusterViews, group: Group) -> list[dict[str, Any]]:
    """Return a dict for each member with `member_id`, `client_id`, `host` and `partitions`, pairs of topic and number."""
    if group.type not in KINDS:
        raise CommandError(f"group {group.group_id!r}: unknown group type {group.type!r}")
    request, assigned = KINDS[group.type]
    ask = partial(cluster.nodes.ask_coordinator, request(group.group_id), group.group_id)
    (found,) = cluster.nodes.retrying(ask).groups
    check(found.error_code, found.error_message)
    return [_member(member, list(assigned(found, member))) for member in found.members]


def _partitions_of(_group: Any, member: Any) -> Iterator[tuple[str, int]]:
    return ((each.topic_name, index) for each in member.assignment.topic_partitions for index in each.partitions)


def _read_by_tasks(group: Any, member: Any) -> Iterator[tuple[str, int]]:
    reads = {
        one.subtopology_id: (*one.source_topics, *(topic.name for topic in one.repartition_source_topics))
        for one in (() if group.topology is None else group.topology.subtopologies or ())
    }
    return (
        (topic, index)
        for task in member.assignment.active_tasks
        for topic in reads.get(task.subtopology_id, ())
        for index in task.partitions
    )


def _member(found: Any, partitions: list[tuple[str, int]]) -> dict[str, Any]:
    return {
        "member_id": found.member_id,
        "client_id": found.client_id,
        "host": found.client_host,
        "partitions": [list(each) for each in partitions],
    }


def _assigned(_group: Any, member: Any) -> list[tuple[str, int]]:
    """Return the partitions assigned to a classic consumer; empty if the assignment is not a consumer's."""
    from ...groups.subscription import read_assignment

    try:
        found = read_assignment(member.member_assignment)
    except ProtocolError:
        return []
    return [(each.topic, index) for each in found.assigned_partitions for index in each.partitions]


_CLASSIC = (lambda name: DescribeGroupsRequest(groups=(name,))), _assigned
KINDS: dict[str, tuple[Callable[[str], Any], Callable[[Any, Any], Iterable[tuple[str, int]]]]] = {
    "": _CLASSIC,  # The type that brokers report that are too old for other kinds.
    "classic": _CLASSIC,
    "consumer": ((lambda name: ConsumerGroupDescribeRequest(group_ids=(name,))), _partitions_of),
    "share": ((lambda name: ShareGroupDescribeRequest(group_ids=(name,))), _partitions_of),
    "streams": ((lambda name: StreamsGroupDescribeRequest(group_ids=(name,))), _read_by_tasks),
}
"""Kind of a group -> the request that describes it, and a function from (described group, member) to the member's
partitions.
"""


def _places(cluster: ClusterViews, group: Group, members: list[dict[str, Any]]) -> Iterator[GroupPlace]:
    reads: dict[tuple[str, int], list[str]] = {}
    for member in members:
        for topic, index in member["partitions"]:
            reads.setdefault((topic, index), []).append(member["member_id"])
    shared = _shared(cluster, group)
    offsets = _offsets(group, shared)
    ends: dict[str, dict[int, int]] = {}
    for topic, index in sorted({*offsets, *shared, *reads}):
        if topic not in ends:
            ends[topic] = cluster.ends(topic)
        place = topic, index
        if group.type == "streams" and index not in ends[topic] and place not in offsets:
            continue  # A task has a partition of each topic that it reads, and some topics may have fewer partitions.
        yield GroupPlace(
            topic,
            index,
            offsets.get(place),
            ends[topic].get(index),
            tuple(reads.get(place, ())),
            shared[place].lag if place in shared else None,
        )


def _shared(cluster: ClusterViews, group: Group) -> dict[tuple[str, int], SharePosition]:
    """Return the positions of a share group; empty for other groups, or if it was deleted since."""
    if group.type != "share":
        return {}
    try:
        return positions(cluster, group.group_id)
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return {}


def _offsets(group: Group, shared: dict[tuple[str, int], SharePosition]) -> dict[tuple[str, int], int]:
    """Return where the group will continue, for each partition in which that is known."""
    starts = {place: one.start for place, one in shared.items() if one.start is not None}
    return starts if group.type == "share" else group.offsets


def _delete(options: argparse.Namespace) -> None:
    with connected(options) as cluster:
        for name in options.groups:
            _group(cluster, name)  # all of them exist, or none is deleted
        for name in options.groups:
            cluster.kafka.delete_group(name)
            if not options.json:
                show(f"deleted {name}")
    if options.json:
        show_json({"deleted": options.groups})


def _reset(options: argparse.Namespace) -> None:
    with connected(options) as cluster:
        group = {each.group_id: each for each in cluster.kafka.groups()}.get(options.group)
        if group is None:
            _check_right(cluster, options.group)
        shared = {} if group is None else _shared(cluster, group)
        committed = {} if group is None else _offsets(group, shared)
        wanted = list(_select_partitions(cluster, options, {*committed, *shared}))
        changes = dict(_new_offsets(cluster, options.to, wanted, committed))
        if options.dry_run:
            pass
        elif group is not None and group.type == "share":
            move(cluster, options.group, changes)
        else:
            cluster.kafka.commit(options.group, changes)
    rows = [
        {"topic": topic, "partition": index, "from": committed.get((topic, index)), "to": to}
        for (topic, index), to in changes.items()
    ]
    if options.json:
        show_json({"group": options.group, "is_dry_run": options.dry_run, "partitions": rows})
        return
    show(f"{options.group}: {'would be set' if options.dry_run else 'set'}")
    table = [(topic, index, committed.get((topic, index)), to) for (topic, index), to in changes.items()]
    show_table(("TOPIC", "PARTITION", "FROM", "TO"), table)


def _select_partitions(
    cluster: ClusterViews, options: argparse.Namespace, known: Collection[tuple[str, int]]
) -> Iterator[tuple[str, int]]:
    """Yield the selected partitions, each once; by default those in which the group has offsets."""
    if not options.topics:
        if not known:
            raise wrong_call(f"group {options.group!r} has no committed offsets; use --topic to select what to set")
        yield from sorted(known)
        return
    seen = set()
    for topic, index in options.topics:
        there = [each.index for each in cluster.kafka.topic(topic).partitions]
        if index is not None and index not in there:
            raise wrong_call(f"--topic: {topic} has partitions 0 to {len(there) - 1}, found {index}")
        for each in there if index is None else [index]:
            if (topic, each) not in seen:
                seen.add((topic, each))
                yield topic, each


def _new_offsets(
    cluster: ClusterViews, to: str, wanted: list[tuple[str, int]], committed: dict[tuple[str, int], int]
) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield each partition, and the offset to set."""
    for topic, partitions in groupby(wanted, key=itemgetter(0)):
        starts, ends = cluster.offsets_at(topic, EARLIEST), cluster.offsets_at(topic, LATEST)
        is_place = to in ("beginning", "end") or _NUMBER.fullmatch(to) is not None
        at_time = {} if is_place else cluster.offsets_at(topic, time_ms(to))
        for tp in partitions:
            index = tp[1]
            if index not in starts or index not in ends:
                raise CommandError(f"{topic}-{index} has no leader, so its offsets are unknown")
            if not is_place:
                found = at_time.get(index, -1)
                yield tp, ends[index] if found < 0 else found
            elif to in ("beginning", "end"):
                yield tp, starts[index] if to == "beginning" else ends[index]
            elif to[0] in "+-" and tp not in committed:
                raise wrong_call(f"--to {to}: the group has no committed offset in {topic}-{index} to count from")
            else:
                offset = int(to) + (committed[tp] if to[0] in "+-" else 0)
                yield tp, min(max(offset, starts[index]), ends[index])


def topic_of(text: str) -> tuple[str, int | None]:
    """Parse TOPIC or TOPIC:PARTITION."""
    match = _TOPIC.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected TOPIC or TOPIC:PARTITION, found {text!r}")
    return match[1], None if match[2] is None else int(match[2])


def parse_target(text: str) -> str:
    """Check WHERE, which is resolved for each partition."""
    if text not in ("beginning", "end") and not _NUMBER.fullmatch(text):
        try:
            time_ms(text)
        except argparse.ArgumentTypeError:
            raise argparse.ArgumentTypeError(
                "expected beginning, end, an offset, +N, -N, a time, e.g. 2026-01-31T12:00:00Z, or @MS, found"
                f" {text!r}{did_you_mean(text, ['beginning', 'end'])}"
            ) from None
    return text


def _describe_options(parser: Parser) -> None:
    parser.add_argument("group", metavar="GROUP")
    _common(parser)


def _delete_options(parser: Parser) -> None:
    parser.add_argument("groups", metavar="GROUP", nargs="+")
    _common(parser)


def _reset_options(parser: Parser) -> None:
    parser.add_argument("group", metavar="GROUP", help="group to reset; created if it does not exist")
    parser.add_argument(
        "--topic",
        dest="topics",
        type=topic_of,
        metavar="TOPIC[:PARTITION]",
        action="append",
        default=[],
        help="topic or partition to set; repeatable (default: all with committed offsets)",
    )
    parser.add_argument("--to", type=parse_target, metavar="WHERE", required=True, help="new position (see below)")
    parser.add_argument("--dry-run", action="store_true", help="show what would be set, without setting it")
    _common(parser)


def _common(parser: Parser) -> None:
    bootstrap_option(parser)
    json_option(parser)


ACTIONS = (
    Command("list", "list groups with type and state", _list, _common),
    Command("describe", "show the lag and members of a group", _describe, _describe_options),
    Command("delete", "delete groups without members, and their committed offsets", _delete, _delete_options),
    Command("reset", "set the committed offsets of a group", _reset, _reset_options, RESET_NOTES),
)
