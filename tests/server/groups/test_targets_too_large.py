"""A target assignment that is too large to be written: it is not made again with each heartbeat, which would take long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.server.groups.settings import ASSIGN_AGAIN_MS
from support.groups.consumer_groups import ConsumerGroups
from support.groups.groups import Groups
from support.groups.share_groups import ShareGroups
from support.groups.streams_groups import StreamsGroups

PARTITIONS = 5_000
SMALL_BYTES = 4_000
"""Bytes that suffice for a heartbeat's records, and not for the assignment of a member with this many partitions."""


def of_consumers() -> tuple[Groups, Callable[[], object]]:
    groups = ConsumerGroups(orders=PARTITIONS)
    groups.store.batch_bytes_max = SMALL_BYTES
    groups.enter("a")
    return groups, lambda: groups.beat("a", groups.table().members["a"].epoch)


def of_share_consumers() -> tuple[Groups, Callable[[], object]]:
    groups = ShareGroups(orders=PARTITIONS)
    groups.enter("a")  # The states of its partitions are written, which takes as many bytes.
    groups.store.batch_bytes_max = SMALL_BYTES
    return groups, lambda: groups.stay("a")


def of_streams() -> tuple[Groups, Callable[[], object]]:
    groups = StreamsGroups(orders=PARTITIONS)
    groups.store.batch_bytes_max = SMALL_BYTES
    groups.enter("a")
    return groups, lambda: groups.beat("a", groups.table().members["a"].epoch)


@pytest.mark.parametrize("made", [of_consumers, of_share_consumers, of_streams])
def test_an_oversized_target_is_not_built_at_each_heartbeat(
    made: Callable[[], tuple[Groups, Callable[[], object]]], caplog: pytest.LogCaptureFixture
) -> None:
    groups, beat = made()

    def failures(heartbeats: int) -> int:
        caplog.clear()
        for _ in range(heartbeats):
            beat()
            groups.advance(1_000)
        return sum("cannot make a new assignment" in one.message for one in caplog.records)

    seconds = ASSIGN_AGAIN_MS // 1_000
    assert failures(seconds) <= 1
    assert failures(2 * seconds) == 2
    groups.store.batch_bytes_max = 1_048_588
    assert failures(2 * seconds) == 0
    assert groups.table().targets["a"]  # type: ignore[attr-defined]
