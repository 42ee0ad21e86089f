"""Ends of leader epochs, as Fetch and OffsetForLeaderEpoch report them: one rule for both, over a partition's histories."""

from __future__ import annotations

import random
from bisect import bisect_right
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.fetch import PartitionData
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from support.broker.admin import metadata
from support.broker.conversation import address, create_topic, fetch_request, produce
from support.broker.raw_client import RawClient
from support.sizes import size

UNDEFINED = (-1, -1)


class Model:
    """A model of the epochs that Apache Kafka's leader notes (LeaderEpochFileCache), and of its answers.

    It notes an epoch when a leader is elected, with or without a record.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        """(epoch, start offset), both increasing."""
        self.log_start = self.log_end = 0
        self.elected(0)

    def elected(self, epoch: int) -> None:
        self.entries = [one for one in self.entries if one[0] < epoch and one[1] < self.log_end]
        self.entries.append((epoch, self.log_end))

    def deleted(self, up_to: int) -> None:
        self.log_start = up_to
        gone = [one for one in self.entries if one[1] <= up_to]
        if gone:
            self.entries = [(gone[-1][0], up_to), *self.entries[len(gone) :]]

    def end_of(self, epoch: int) -> tuple[int, int]:
        if epoch == self.entries[-1][0]:
            return epoch, self.log_end
        higher = bisect_right(self.entries, epoch, key=lambda entry: entry[0])
        if epoch < 0 or higher == len(self.entries):
            return UNDEFINED
        return self.entries[higher - 1][0] if higher else epoch, self.entries[higher][1]


class Life:
    """A partition with a replica on each of two nodes, and its model."""

    def __init__(self, data_dir: Path, stack: ExitStack) -> None:
        self._stack = stack
        self.broker = stack.enter_context(ottla.Broker(str(data_dir), nodes=2))
        self.client = self._client_of(0)
        create_topic(self.client, "t", replicas=2)
        (partition,) = metadata(self.client, "t").topics[0].partitions
        self.model, self.leader, self.epoch = Model(), partition.leader_id, 0
        self.client = self._client_of(self.leader)

    def _client_of(self, node_id: int) -> RawClient:
        return self._stack.enter_context(RawClient(*address(self.broker, node_id)))

    def write(self) -> None:
        assert produce(self.client, "t", ("k", "v")).error_code == ErrorCode.NONE
        self.model.log_end += 1

    def elect(self) -> None:
        """Stop this node and let the other one lead."""
        self.broker.stop_node(self.leader)
        self.broker.start_node(self.leader)
        self.leader, self.epoch = 1 - self.leader, self.epoch + 1
        self.client = self._client_of(self.leader)
        self.model.elected(self.epoch)

    def delete(self, up_to: int) -> None:
        row = DeleteRecordsTopic(name="t", partitions=(DeleteRecordsPartition(partition_index=0, offset=up_to),))
        self.client.ask(DeleteRecordsRequest(topics=(row,), timeout_ms=1_000))
        self.model.deleted(up_to)

    def delete_some(self) -> None:
        self.delete((self.model.log_start + self.model.log_end + 1) // 2)

    def empty(self) -> None:
        self.delete(self.model.log_end)

    def restart(self) -> None:
        self.broker.restart()
        self.client = self._client_of(self.leader)

    def end_from_leader_epoch(self, epoch: int) -> tuple[int, int]:
        row = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="t", partitions=(row,)),))
        (answer,) = self.client.ask(request).topics[0].partitions
        assert answer.error_code == ErrorCode.NONE
        return answer.leader_epoch, answer.end_offset

    def fetched(self, epoch: int, offset: int) -> PartitionData:
        request = fetch_request("t", offset)
        (partition,) = request.topics[0].partitions
        topic = replace(request.topics[0], partitions=(replace(partition, last_fetched_epoch=epoch),))
        row: PartitionData = self.client.ask(replace(request, topics=(topic,)), 12).responses[0].partitions[0]
        return row

    def check(self) -> None:
        model = self.model
        for epoch in range(-1, self.epoch + 2):
            end = self.end_from_leader_epoch(epoch)
            assert end == model.end_of(epoch), f"epoch {epoch} of {model.entries}, {model.log_start}-{model.log_end}"
            for offset in range(model.log_end + 1):
                row = self.fetched(epoch, offset)
                diverging = (row.diverging_epoch.epoch, row.diverging_epoch.end_offset)
                is_out_of_range = offset < model.log_start or (epoch >= 0 and end == UNDEFINED)
                assert (row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE) == is_out_of_range, (epoch, offset, row)
                if not is_out_of_range:
                    assert row.error_code == ErrorCode.NONE
                    has_diverged = epoch >= 0 and (end[0] < epoch or end[1] < offset)
                    assert diverging == (end if has_diverged else UNDEFINED), (epoch, offset)


STEPS = ("write", "write", "elect", "delete_some", "empty", "restart")
HISTORIES = {
    "never written": [],
    "never written, another leader": ["elect", "elect"],
    "written": ["write", "write"],
    "written, then leaders without records": ["write", "elect", "elect", "elect"],
    "emptied": ["write", "write", "empty"],
    "emptied by another leader": ["write", "elect", "empty", "elect"],
    "several epochs": ["write", "elect", "write", "elect", "elect", "write", "delete_some"],
}
HISTORIES |= {f"seed {seed}": random.Random(seed).choices(STEPS, k=7) for seed in range(size(2, 6))}


@pytest.mark.parametrize("steps", HISTORIES.values(), ids=HISTORIES)
def test_fetch_and_offset_for_leader_epoch_return_the_same_ends(tmp_path: Path, steps: list[str]) -> None:
    with ExitStack() as stack:
        life = Life(tmp_path, stack)
        life.check()
        for step in steps:
            getattr(life, step)()
            life.check()
