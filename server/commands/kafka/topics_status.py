"""`ottla topics status`: what the cleaner has done to each partition, and what it waits for."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from typing import Any

from ....protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ...client.nodes import NodeConnections
from ...client.values import Topic
from ..frame.errors import CommandError
from ..frame.printing import folded, show, show_json, show_table, terminal_width, visible, waited_for
from ..frame.times import time_text
from .directories import directory_text, move_of, rows_of

HEADER = (
    "PARTITION",
    "FIRST DIRTY",
    "BOUND",
    "LOG END",
    "DIRTY",
    "ABOVE",
    "PASSES",
    "REMOVED",
    "ELIGIBLE",
)
"""Explained in the command's help."""


def show_status(nodes: NodeConnections, options: argparse.Namespace) -> None:
    """Ask every node for its partitions, and print them. OSError or ProtocolError if one does not answer."""
    found = statuses(nodes, options.topics, internal=options.all)
    if not options.topics:
        found = [row for row in found if "compact" in row["cleanup_policy"]]
    if options.json:
        show_json(found, indent=None if options.watch else 2)
    else:
        show_table(HEADER, list(map(_row, found)), list(map(_sentence, found)))
        by_directory: dict[str, list[str]] = {}
        for each in found:
            directory = directory_text(each["data_dir"], each["moving_to"])
            by_directory.setdefault(directory, []).append(_name(each))
        for directory, names in by_directory.items():
            here = "all" if len(by_directory) == 1 else ", ".join(names)
            show(folded(visible(f"in {directory}: {here}"), terminal_width(), ""))


def statuses(nodes: NodeConnections, topics: Iterable[str] = (), *, internal: bool = False) -> list[dict[str, Any]]:
    """What the broker tells of each partition, by topic and number.

    Args:
        topics: All if none is named.
        internal: The broker's own ones, too, where none is named.

    Raises:
        CommandError: It tells nothing.
        KafkaError: There is no such topic.
        OSError: Nobody answers.
    """
    found = [nodes.topic(name) for name in topics]
    found = found or [topic for topic in nodes.topics() if internal or not topic.is_internal]
    return sorted(_ask(nodes, found), key=lambda row: (row["topic"], row["partition"]))


def _ask(nodes: NodeConnections, found: Iterable[Topic]) -> Iterator[dict[str, Any]]:
    request = DescribeLogDirsRequest(
        topics=tuple(
            DescribableLogDirTopic(
                topic=topic.name, partitions=tuple(partition.index for partition in topic.partitions)
            )
            for topic in found
        ),
        ottla_cleaner_status=True,
    )
    seen = set()  # a partition with several replicas is told by each of their nodes
    for node_id in nodes.node_ids():
        rows, moves = rows_of(nodes.ask(request, node_id))
        for name, (data_dir, partition) in rows.items():
            if partition.ottla_cleaner_status is None:
                raise CommandError("this broker does not report cleaner status (not Ottla, or an older version)")
            if name not in seen:
                seen.add(name)
                status = json.loads(partition.ottla_cleaner_status)
                yield {
                    "topic": name[0],
                    "partition": name[1],
                    "data_dir": data_dir,
                    "moving_to": move_of(moves.get(name)),
                    **status,
                }


def _name(status: dict[str, Any]) -> str:
    return f"{status['topic']}-{status['partition']}"


def _row(status: dict[str, Any]) -> tuple[str, ...]:
    last = status["last_pass"]
    return (
        _name(status),
        str(status["first_dirty_offset"]),
        str(status["upper_offset"]),
        str(status["log_end_offset"]),
        f"{status['dirty_ratio']:.3f}",
        f"{status['min_cleanable_dirty_ratio']:g}",
        str(status["passes"]),
        str(sum(last["stats"]["removed"].values())) if last else "-",
        when(status),
    )


def _sentence(status: dict[str, Any]) -> str:
    """What it waits for, if anything, why, when, and the first command that does something about it."""
    remedies = status.get("remedies", ())  # an older broker tells only why
    command = next((command for remedy in remedies for command in remedy["commands"][:1]), None)
    what = waited_for(status["waits_for"])
    sentence = ("" if what is None else f"{what}: ") + status.get("sentence", status["explanation"])
    return sentence if command is None else f"{sentence}; run: {command}"


def when(status: dict[str, Any]) -> str:
    """Whether it is eligible: `now`, from which time on, or `no`."""
    if status["eligible"]:
        return "now"
    at_ms = status["eligible_at_ms"]
    if at_ms is None:
        return "no"
    return time_text(at_ms) or "no"  # beyond the year 9999
