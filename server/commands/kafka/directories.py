"""Data directories of partitions, and their moves, as reported by nodes (DescribeLogDirs)."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeAlias

from ....protocol.errors import KafkaError
from ....protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ...client.nodes import NodeConnections
from ...client.values import Topic
from ..frame.printing import bounds_text

Rows: TypeAlias = dict[tuple[str, int], tuple[str, DescribeLogDirsPartition]]
"""(topic, partition) -> the data directory, and what the node reports of the partition there."""


def rows_of(answer: DescribeLogDirsResponse) -> tuple[Rows, Rows]:
    """Return the partitions of a node in their present directories, and in the directories that they move to."""
    rows: Rows = {}
    moves: Rows = {}
    for each in answer.results:
        for topic in each.topics:
            for row in topic.partitions:
                (moves if row.is_future_key else rows)[topic.name, row.partition_index] = each.log_dir, row
    return rows, moves


def move_of(found: tuple[str, DescribeLogDirsPartition] | None) -> dict[str, Any] | None:
    """Return a move between data directories in progress, for JSON."""
    if found is None:
        return None
    data_dir, row = found
    told = json.loads(row.ottla_cleaner_status or "{}")
    return {
        "data_dir": data_dir,
        "copied_bytes": row.partition_size,
        "offset_lag": row.offset_lag,
        "problem": told.get("problem"),
    }


def directory_text(data_dir: str | None, moving_to: dict[str, Any] | None) -> str:
    """Format the directory, and the one that the partition moves to."""
    if data_dir is None:
        return "-"
    return data_dir if moving_to is None else f"{data_dir} -> {moving_to['data_dir']}"


def count_texts(counts: dict[str, int] | None) -> tuple[str | None, str | None]:
    """Return the numbers of records and live keys as cells; None if the broker does not report them."""
    if counts is None:
        return None, None
    return (
        bounds_text(counts["records_min"], counts["records_max"]),
        bounds_text(counts["live_keys_min"], counts["live_keys_max"]),
    )


class PartitionPlace(NamedTuple):
    """Report of a partition's leader about its log; all None if it reports nothing, because it is old or refuses."""

    data_dir: str | None = None
    moving_to: dict[str, Any] | None = None
    counts: dict[str, int] | None = None
    """Bounds of the numbers of records, live keys and tombstones; only Ottla reports them."""


def places_of(nodes: NodeConnections, topic: Topic) -> dict[int, PartitionPlace]:
    """Return the place of each partition of a topic.

    Raises:
        OSError: A node does not answer.
    """
    indexes = tuple(partition.index for partition in topic.partitions)
    asked = DescribeLogDirsRequest(
        topics=(DescribableLogDirTopic(topic=topic.name, partitions=indexes),), ottla_cleaner_status=True
    )
    told: dict[int, tuple[Rows, Rows]] = {}
    for node_id in {partition.leader for partition in topic.partitions if partition.leader >= 0}:
        try:
            told[node_id] = rows_of(nodes.ask(asked, node_id))
        except KafkaError:
            continue
    found = {}
    for partition in topic.partitions:
        rows, moves = told.get(partition.leader, ({}, {}))
        name = topic.name, partition.index
        data_dir, row = rows.get(name, (None, None))
        status = json.loads(row.ottla_cleaner_status or "{}") if row is not None else {}
        found[partition.index] = PartitionPlace(data_dir, move_of(moves.get(name)), status.get("counts"))
    return found
