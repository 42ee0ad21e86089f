"""The APIs between brokers: the states of share partitions, requested as by a leader or a group coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import delete_share_group_state as deleting
from ottla.protocol.messages import initialize_share_group_state as beginning
from ottla.protocol.messages import read_share_group_state as reading
from ottla.protocol.messages import read_share_group_state_summary as summing
from ottla.protocol.messages import write_share_group_state as writing
from ottla.protocol.messages.read_share_group_state import PartitionData
from ottla.server.client.connection import Client

from .sayings import Ranges, without
from .steps import DeleteState, InitState, Place, ReadState, Settled, States, Summary, WriteState

NO_LEADER_EPOCH = -1
"""The epoch of a client that is no leader."""

StateBatch = tuple[int, int, int, int]
"""First offset, last offset, delivery state, delivery count."""
StateRow = tuple[int, tuple[StateBatch, ...]]
"""Start offset, batches."""

STATE_STEPS = InitState, ReadState, WriteState, DeleteState, Summary


def ask_state(client: Client, topic_id: bytes, step: States) -> tuple[Any, ...]:
    """Return rows of the answer: partition, code, message and what else there is in them."""
    request, version = _request(topic_id, step)
    answer = client.ask(request, version)
    return tuple(
        (one.topic_id == topic_id, row.partition, ErrorCode(row.error_code).name, row.error_message, *_told(step, row))
        for one in answer.results
        for row in one.partitions
    )


def settled(client: Client, topic_id_of: Callable[[str], bytes], step: Settled) -> dict[Place, StateRow]:
    """Return each place's state, if it has one: its start offset, and its batches. It is read as by the leader that it has."""
    found: dict[Place, StateRow] = {}
    for place in step.places:
        topic_id = topic_id_of(place.topic)
        ((_, _, error, _, _, leader_epoch, *_),) = ask_state(
            client, topic_id, Summary(step.group, place, NO_LEADER_EPOCH)
        )
        if error != "NONE":
            continue
        ((_, _, error, _, _, start, batches),) = ask_state(client, topic_id, ReadState(step.group, place, leader_epoch))
        if error == "NONE":
            found[place] = start, tuple(batches)
    return found


def from_the_later(one: dict[Place, StateRow], other: dict[Place, StateRow]) -> dict[Place, StateRow]:
    """Return the rows of one side without the records before the other side's start.

    A start offset moves with the next update on one broker, and with this one on the other.
    """
    return {
        place: (0, tuple(_from(batches, max(start, other[place][0] if place in other else start))))
        for place, (start, batches) in one.items()
    }


def without_gaps(states: dict[Place, StateRow], topic: str, gaps: Ranges) -> dict[Place, StateRow]:
    """Return the states without those of offsets that the log of one topic lacks: Apache Kafka does not write that they are
    archived (../DIFFERENCES.md)."""
    return {
        place: (start, tuple(_outside(batches, gaps))) if place.topic == topic else (start, batches)
        for place, (start, batches) in states.items()
    }


def _outside(batches: Iterable[StateBatch], gaps: Ranges) -> Iterator[StateBatch]:
    for first, last, state, count in batches:
        left: Ranges = [(first, last)]
        for gap in gaps:
            left = without(left, *gap)
        for low, high in left:
            yield low, high, state, count


def _from(batches: Iterable[StateBatch], start: int) -> Iterator[StateBatch]:
    for first, last, state, count in batches:
        if last >= start:
            yield max(first, start), last, state, count


def _told(step: States, row: Any) -> tuple[Any, ...]:
    if isinstance(step, ReadState):
        batches = [
            (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in row.state_batches
        ]
        return row.state_epoch, row.start_offset, batches
    if isinstance(step, Summary):
        return row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count
    return ()


def _request(topic_id: bytes, step: States) -> tuple[Any, int]:
    group, index = step.group, step.place.partition
    match step:
        case InitState():
            begun = beginning.PartitionData(
                partition=index, state_epoch=step.state_epoch, start_offset=step.start_offset
            )
            topic = beginning.InitializeStateData(topic_id=topic_id, partitions=(begun,))
            return beginning.InitializeShareGroupStateRequest(group_id=group, topics=(topic,)), 0
        case ReadState():
            read = reading.PartitionData(partition=index, leader_epoch=step.leader_epoch)
            asked = reading.ReadStateData(topic_id=topic_id, partitions=(read,))
            return reading.ReadShareGroupStateRequest(group_id=group, topics=(asked,)), 0
        case WriteState():
            written = writing.PartitionData(
                partition=index,
                state_epoch=step.state_epoch,
                leader_epoch=step.leader_epoch,
                start_offset=step.start_offset,
                delivery_complete_count=step.complete_count,
                state_batches=tuple(
                    writing.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                    for first, last, state, count in step.batches
                ),
            )
            data = writing.WriteStateData(topic_id=topic_id, partitions=(written,))
            return writing.WriteShareGroupStateRequest(group_id=group, topics=(data,)), step.version
        case DeleteState():
            gone = deleting.DeleteStateData(topic_id=topic_id, partitions=(deleting.PartitionData(partition=index),))
            return deleting.DeleteShareGroupStateRequest(group_id=group, topics=(gone,)), 0
        case Summary():
            summed = PartitionData(partition=index, leader_epoch=step.leader_epoch)
            sums = summing.ReadStateSummaryData(topic_id=topic_id, partitions=(summed,))
            return summing.ReadShareGroupStateSummaryRequest(group_id=group, topics=(sums,)), step.version
