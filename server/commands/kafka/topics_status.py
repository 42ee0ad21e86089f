"""`ottla topics status`: what the cleaner has done to each partition, and what it waits for."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from ....protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ....protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ...client.connection import Client
from ..frame.printing import show, show_json

HEADER = (
    "PARTITION",
    "FIRST DIRTY",
    "BOUND",
    "LOG END",
    "DIRTY",
    "ABOVE",
    "PASSES",
    "ELIGIBLE",
    "WAITING FOR",
)
"""Explained in the command's help."""


class NoStatusError(Exception):
    """The broker is another one than Ottla, or the topic is not there. The message is what is shown."""


def show_status(client: Client, options: argparse.Namespace) -> None:
    """Ask every node for its partitions, and print them. OSError or ProtocolError if one does not answer."""
    found = sorted(_ask(client, options.topics), key=lambda row: (row["topic"], row["partition"]))
    if not options.topics:
        found = [row for row in found if "compact" in row["cleanup_policy"]]
    if options.json:
        show_json(found)
    else:
        show(_table([HEADER, *map(_row, found)]))


def _ask(client: Client, topics: Iterable[str]) -> Iterator[dict[str, Any]]:
    wanted = tuple(MetadataRequestTopic(name=name) for name in topics) or None
    metadata = client.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
    for topic in metadata.topics:
        if topic.error_code:
            raise NoStatusError(f"there is no topic {topic.name}")
    request = DescribeLogDirsRequest(
        topics=tuple(
            DescribableLogDirTopic(
                topic=topic.name, partitions=tuple(partition.partition_index for partition in topic.partitions)
            )
            for topic in metadata.topics
        ),
        ottla_cleaner_status=True,
    )
    seen = set()  # a partition with several replicas is told by each of their nodes
    for broker in metadata.brokers:
        with Client(broker.host, broker.port) as node:
            directories = node.ask(request).results
        rows = ((topic.name, row) for each in directories for topic in each.topics for row in topic.partitions)
        for topic_name, partition in rows:
            if partition.ottla_cleaner_status is None:
                raise NoStatusError("this broker tells nothing of its cleaner; it is not Ottla, or an older one")
            name = (topic_name, partition.partition_index)
            if name not in seen:
                seen.add(name)
                yield {"topic": topic_name, "partition": name[1], **json.loads(partition.ottla_cleaner_status)}


def _row(status: dict[str, Any]) -> tuple[str, ...]:
    last = status["last_pass"]
    removed = f", {sum(last['stats']['removed'].values())} removed" if last else ""
    return (
        f"{status['topic']}-{status['partition']}",
        str(status["first_dirty_offset"]),
        str(status["upper_offset"]),
        str(status["log_end_offset"]),
        f"{status['dirty_ratio']:.3f}",
        f"{status['min_cleanable_dirty_ratio']:g}",
        f"{status['passes']}{removed}",
        _when(status),
        f"{status['waits_for'] or 'nothing'}: {status['explanation']}",
    )


def _when(status: dict[str, Any]) -> str:
    if status["eligible"]:
        return "now"
    at_ms = status["eligible_at_ms"]
    if at_ms is None:
        return "no"
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "no"  # beyond the year 9999


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
