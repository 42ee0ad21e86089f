"""The present and the future directories of partitions, from the answers of nodes."""

from __future__ import annotations

import json

from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.server.commands.kafka.directories import directory_text, move_of, rows_of


def row(
    index: int, *, size_bytes: int = 0, lag: int = 0, told: object = None, future: bool = False
) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=index,
        partition_size=size_bytes,
        offset_lag=lag,
        is_future_key=future,
        ottla_cleaner_status=None if told is None else json.dumps(told),
    )


def test_a_moving_partition_is_in_one_directory_and_in_progress_to_another() -> None:
    problem = "the disk is full"
    answer = DescribeLogDirsResponse(
        results=(
            DescribeLogDirsResult(log_dir="/a", topics=(DescribeLogDirsTopic(name="t", partitions=(row(0), row(1))),)),
            DescribeLogDirsResult(
                log_dir="/b",
                topics=(
                    DescribeLogDirsTopic(
                        name="t", partitions=(row(1, size_bytes=7, lag=3, told={"problem": problem}, future=True),)
                    ),
                ),
            ),
        )
    )
    rows, moves = rows_of(answer)
    assert {name: data_dir for name, (data_dir, _) in rows.items()} == {("t", 0): "/a", ("t", 1): "/a"}
    assert move_of(moves.get(("t", 0))) is None
    moving = move_of(moves["t", 1])
    assert moving == {"data_dir": "/b", "copied_bytes": 7, "offset_lag": 3, "problem": problem}
    assert [directory_text("/a", each) for each in (None, moving)] == ["/a", "/a -> /b"]
    assert directory_text(None, None) == "-"
