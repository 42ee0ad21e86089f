"""A broker's answers about share groups in a directory that another broker left, compared with the files."""

from __future__ import annotations

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Mapping

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.read_share_group_state import (
    PartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
)
from ottla.protocol.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from ottla.server.client.connection import Client

from ...support.clients.share_member import NOT_YET, client_of
from ...support.clients.steps import watermarks
from ...support.suite import Suite
from .queue_work import PARTITIONS, TOPIC, Held
from .state_log import NOT_SAID, Place, State

LOADED_WITHIN_S = 60
Told = dict[Place, tuple[int, int, dict[int, tuple[int, int]]]]
"""State epoch, start offset, and delivery state and count of each offset."""


def described(bootstrap: str, group: str) -> DescribedGroup:
    """Return a share group, once its coordinator has loaded it."""
    deadline_s = time.monotonic() + LOADED_WITHIN_S
    with client_of(bootstrap) as client:
        while True:
            found: DescribedGroup
            (found,) = client.ask(ShareGroupDescribeRequest(group_ids=(group,))).groups
            if found.error_code not in NOT_YET or time.monotonic() > deadline_s:
                return found
            time.sleep(0.1)


def judge_states(suite: Suite, what: str, bootstrap: str, expected: Mapping[Place, State]) -> None:
    """ReadShareGroupState, and DescribeShareGroupOffsets, of every share partition that the files have a state of."""
    told = _read(bootstrap, expected)
    wanted = {place: (state.state_epoch, state.start, state.records) for place, state in expected.items()}
    wrong = [place for place in wanted if told[place] != wanted[place]]
    count = sum(len(state.records) for state in expected.values())
    detail = [(place, wanted[place], told[place]) for place in wrong[:1]] or f"{len(wanted)} of them, {count} records"
    suite.check(f"{what}: state of each share partition as the files have it", not wrong, detail)
    ends = watermarks(bootstrap, [(TOPIC, partition) for partition in range(PARTITIONS)])
    offsets = {
        place: (state.start, ends[TOPIC, place.partition][1] - state.start - max(state.complete, 0))
        for place, state in expected.items()
        if state.start != NOT_SAID
    }
    with client_of(bootstrap) as client:
        suite.equal(f"{what}: start offsets and lags", offsets, _offsets(client, {place.group for place in expected}))


def _read(bootstrap: str, expected: Mapping[Place, State]) -> Told:
    """Read each state as its leader does: with a later epoch the broker would write that, and an earlier one is fenced."""
    deadline_s = time.monotonic() + LOADED_WITHIN_S
    found: Told = {}
    with client_of(bootstrap) as client:
        for place, state in expected.items():
            leader_epoch = state.leader_epoch
            while True:
                row = PartitionData(partition=place.partition, leader_epoch=leader_epoch)
                topic = ReadStateData(topic_id=urlsafe_b64decode(f"{place.topic_id}=="), partitions=(row,))
                answer = client.ask(ReadShareGroupStateRequest(group_id=place.group, topics=(topic,)))
                (said,) = answer.results[0].partitions
                if said.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                    leader_epoch += 1  # A state that was reset has the leader epoch 0, which may be too early.
                    continue
                if said.error_code not in NOT_YET or time.monotonic() > deadline_s:
                    break
                time.sleep(0.1)
            records = {
                offset: (batch.delivery_state, batch.delivery_count)
                for batch in said.state_batches
                for offset in range(batch.first_offset, batch.last_offset + 1)
            }
            found[place] = (
                (NOT_SAID, said.error_code, {}) if said.error_code else (said.state_epoch, said.start_offset, records)
            )
    return found


def _offsets(client: Client, groups: set[str]) -> dict[Place, tuple[int, int]]:
    asked = tuple(DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None) for group in sorted(groups))
    answer = client.ask(DescribeShareGroupOffsetsRequest(groups=asked))
    found: dict[Place, tuple[int, int]] = {}
    for group in answer.groups:
        for topic in group.topics:
            name = urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
            for row in topic.partitions:
                if row.start_offset != NOT_SAID:
                    found[Place(group.group_id, name, row.partition_index)] = row.start_offset, row.lag
    return found


def judge_deliveries(
    suite: Suite,
    what: str,
    group: str,
    held: Held,
    expected: Mapping[Place, State],
    visible: Mapping[int, set[int]],
    done: Mapping[tuple[str, int], set[int]],
) -> None:
    """Check that a member got exactly the unfinished records, with the next count after the one in the files."""
    wanted: Held = defaultdict(dict)
    for place, state in expected.items():
        if place.group == group:
            for offset in visible[place.partition]:
                if not state.is_final(offset):
                    wanted[place.partition][offset] = state.records.get(offset, (0, 0))[1] + 1
    given = {
        partition: {offset: count for offset, count in counts.items() if offset in visible[partition]}
        for partition, counts in held.items()
    }
    again = sum(count > 1 for counts in given.values() for count in counts.values())
    same = given == dict(wanted)
    detail = (
        f"{sum(map(len, given.values()))} records, {again} of them more than once" if same else (dict(wanted), given)
    )
    suite.check(f"{what}: unfinished records return with the next delivery count", same, detail)
    twice = {part: sorted(set(counts) & done[group, part]) for part, counts in held.items()}
    count = sum(len(offsets) for (of, _), offsets in done.items() if of == group)
    suite.check(
        f"{what}: nothing comes that was accepted or rejected",
        not any(twice.values()),
        twice if any(twice.values()) else count,
    )
