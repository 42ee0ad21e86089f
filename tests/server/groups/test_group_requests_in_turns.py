"""Requests to coordinators with many elements: other tasks run during each, however large it is.

Nothing is timed: every time slice ends at once here, so a handler that checks lets other tasks run between any two elements.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from ottla.protocol.apis import APIS
from ottla.protocol.connection import Request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.server import handlers
from ottla.server.groups.settings import MEMBERS_A_PIECE
from ottla.server.network.dispatcher import finished
from ottla.server.partitions.topics import Topic
from ottla.server.runtime import time_slices
from ottla.storage.disk.os_files import OsFiles
from support.broker.contexts import context_of
from support.broker.conversation import create_topic
from support.broker.served import Served, serving
from support.left_behind import left_to_the_collector, older_left_alone
from support.passes import counting_passes
from support.sizes import size

MANY = size(150, 300)
MORE = 1_200
"""Number of elements that are handled some hundred at a time."""


class Case(NamedTuple):
    body: Any
    version: int


def commit_of(*indexes: int) -> OffsetCommitRequest:
    partitions = tuple(OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in indexes)
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=(OffsetCommitRequestTopic(name="t", partitions=partitions),),
    )


def names(prefix: str = "n") -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(MANY))


def more_names() -> tuple[str, ...]:
    return names() * (MORE // MANY)


MANY_INDEXES = tuple(range(MANY))
ADDED = tuple(AddPartitionsToTxnTopic(name=name, partitions=(0,)) for name in names())

CASES = {
    "OffsetCommit": Case(commit_of(*MANY_INDEXES), 8),
    "OffsetCommit, one partition many times": Case(commit_of(*[0] * MANY), 8),
    "OffsetFetch": Case(
        OffsetFetchRequest(group_id="g", topics=(OffsetFetchRequestTopic(name="t", partition_indexes=MANY_INDEXES),)), 5
    ),
    "OffsetFetch, many topics": Case(
        OffsetFetchRequest(
            group_id="g", topics=tuple(OffsetFetchRequestTopic(name=name, partition_indexes=(0,)) for name in names())
        ),
        5,
    ),
    "OffsetFetch, many topics of a group": Case(
        OffsetFetchRequest(
            groups=(
                OffsetFetchRequestGroup(
                    group_id="g",
                    topics=tuple(OffsetFetchRequestTopics(name=name, partition_indexes=(0,)) for name in names()),
                ),
            )
        ),
        9,
    ),
    "OffsetFetch, many groups": Case(
        OffsetFetchRequest(
            groups=tuple(
                OffsetFetchRequestGroup(
                    group_id=name, topics=(OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
                )
                for name in names()
            )
        ),
        8,
    ),
    "OffsetDelete": Case(
        OffsetDeleteRequest(
            group_id="g",
            topics=(
                OffsetDeleteRequestTopic(
                    name="t",
                    partitions=tuple(OffsetDeleteRequestPartition(partition_index=index) for index in MANY_INDEXES),
                ),
            ),
        ),
        0,
    ),
    "TxnOffsetCommit": Case(
        TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=1,
            producer_epoch=0,
            topics=(
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=tuple(
                        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1)
                        for index in MANY_INDEXES
                    ),
                ),
            ),
        ),
        3,
    ),
    "ListGroups": Case(ListGroupsRequest(states_filter=names(), types_filter=names()), 5),
    "DescribeGroups": Case(DescribeGroupsRequest(groups=names(), include_authorized_operations=True), 5),
    "ConsumerGroupDescribe": Case(
        ConsumerGroupDescribeRequest(group_ids=names(), include_authorized_operations=False), 1
    ),
    "DeleteGroups": Case(DeleteGroupsRequest(groups_names=names()), 2),
    "LeaveGroup": Case(
        LeaveGroupRequest(group_id="g", members=tuple(MemberIdentity(member_id=name) for name in more_names())), 5
    ),
    "AddPartitionsToTxn": Case(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=ADDED,
        ),
        3,
    ),
    "AddPartitionsToTxn, many transactions": Case(
        AddPartitionsToTxnRequest(
            transactions=tuple(
                AddPartitionsToTxnTransaction(
                    transactional_id=name, producer_id=1, producer_epoch=0, verify_only=True, topics=ADDED[:1]
                )
                for name in names()
            )
        ),
        5,
    ),
    "WriteTxnMarkers": Case(
        WriteTxnMarkersRequest(
            markers=(
                WritableTxnMarker(
                    producer_id=1,
                    producer_epoch=0,
                    transaction_result=False,
                    coordinator_epoch=0,
                    topics=(WritableTxnMarkerTopic(name="t", partition_indexes=MANY_INDEXES),),
                ),
            )
        ),
        1,
    ),
    "SyncGroup": Case(
        SyncGroupRequest(
            group_id="g",
            generation_id=1,
            assignments=tuple(SyncGroupRequestAssignment(member_id=name, assignment=b"x") for name in more_names()),
        ),
        3,
    ),
    "ListTransactions": Case(ListTransactionsRequest(state_filters=names(), producer_id_filters=MANY_INDEXES), 2),
    "DescribeTransactions": Case(DescribeTransactionsRequest(transactional_ids=names()), 0),
}


async def handled(served: Served, case: Case, between: Callable[[], object] = lambda: None) -> tuple[Any, int]:
    """Return the answer, and the number of scheduler passes before it; `between` is called in each."""
    broker = served.broker
    api = next(api for api in APIS.values() if f"{api.name}Request" == type(case.body).__name__)
    context = context_of(broker)
    request = Request(api=api, version=case.version, correlation_id=1, client_id="c", body=case.body)
    async with counting_passes(between) as passes:
        answer = await finished(broker.handlers[api.key](context, request))
    return answer, passes.count


OF_REQUESTS = (handlers.__name__, "ottla.protocol.messages")
# Work for all of them that is done in one piece.
IN_ONE_PIECE = ("OffsetCommit", "OffsetCommit, one partition many times", "TxnOffsetCommit", "LeaveGroup")


def least_passes(name: str) -> int:
    # Some hundred members that leave are one piece.
    return MANY if name != "LeaveGroup" else MORE // MEMBERS_A_PIECE - 2


async def test_other_tasks_run_during_large_requests_and_no_loop_covers_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, longest = dict.fromkeys(CASES, 0), dict.fromkeys(CASES, 0)
    calls = 0

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        nonlocal calls
        # Work of handlers, and of messages that are made: the broker's own jobs are busy with its 100 partitions.
        calls += str(frame.f_globals.get("__name__")).startswith(OF_REQUESTS)

    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(create_topic, "t", partitions=3)
        await served.broker.services.coordinators.groups.ensure_topic()
        await served.broker.services.coordinators.transactions.ensure_topic()
        for case in CASES.values():
            await handled(served, case)  # modules that the first one loads do not count
        monkeypatch.setattr(time_slices, "SLICE_S", -1.0)
        for name, case in CASES.items():

            def between(name: str = name) -> None:
                nonlocal calls
                longest[name], calls = max(longest[name], calls), 0

            calls, before = 0, sys.gettrace()
            sys.settrace(note)
            try:
                _, passes[name] = await handled(served, case, between)
            finally:
                sys.settrace(before)
            between()  # the work after the last time slice
    assert {name: count for name, count in passes.items() if count < least_passes(name)} == {}
    assert all(longest.values()), "something is counted of each"
    assert {name: count for name, count in longest.items() if count >= MANY / 2 and name not in IN_ONE_PIECE} == {}


async def test_objects_of_a_large_request_are_freed_without_the_collector(tmp_path: Path) -> None:
    """A full collection of the objects that a hundred thousand elements leave would stop every task."""
    left = {}
    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(create_topic, "t", partitions=3)
        await served.broker.services.coordinators.groups.ensure_topic()
        await served.broker.services.coordinators.transactions.ensure_topic()
        with older_left_alone():
            for name, case in CASES.items():
                left[name] = await left_to_the_collector(partial(handled, served, case))
    assert {name: count for name, count in left.items() if count >= MANY / 2} == {}


async def test_the_last_of_several_assignments_to_a_member_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, OsFiles()) as served:
        await served.broker.services.coordinators.groups.ensure_topic()
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            group_instance_id="i",
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )
        joined, _ = await handled(served, Case(join, 5))
        monkeypatch.setattr(time_slices, "SLICE_S", -1.0)
        given = [*((name, b"x") for name in more_names()), (joined.member_id, b"first"), (joined.member_id, b"last")]
        sync = SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id="i",
            assignments=tuple(SyncGroupRequestAssignment(member_id=one, assignment=blob) for one, blob in given),
        )
        answer, passes = await handled(served, Case(sync, 3))
        assert not answer.error_code
        assert answer.assignment == b"last"
        assert passes >= MORE


async def test_an_offset_of_a_topic_deleted_during_its_commit_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, OsFiles()) as served:
        broker = served.broker
        topic = await create(served, "t")
        await broker.services.coordinators.groups.ensure_topic()
        monkeypatch.setattr(time_slices, "SLICE_S", -1.0)
        passes = 0

        def delete() -> None:
            nonlocal passes
            passes += 1
            # The places have been looked up, the records are being made.
            if passes == MANY + MANY // 2:
                broker.services.topics.remove(topic)

        answer, _ = await handled(served, Case(commit_of(*[0] * MANY), 8), delete)
        assert passes > MANY + MANY // 2
        codes = {one.error_code for one in answer.topics[0].partitions}
        assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert not broker.services.coordinators.groups.coordinator.positions(
            broker.services.coordinators.groups.coordinator.shard_of("g"), "g", stable=False
        ).committed


async def test_a_partition_created_during_a_commit_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, OsFiles()) as served:
        broker = served.broker
        topic = await create(served, "t")
        await broker.services.coordinators.groups.ensure_topic()
        monkeypatch.setattr(time_slices, "SLICE_S", -1.0)
        passes = 0

        def grow() -> None:
            nonlocal passes
            passes += 1
            # The places have been looked up, the records are being made.
            if passes == MANY + MANY // 2:
                topic.partitions.append(topic.partitions[0])

        answer, _ = await handled(served, Case(commit_of(3, *[0] * MANY), 8), grow)
        assert passes > MANY + MANY // 2
        codes = [one.error_code for one in answer.topics[0].partitions]
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, *[ErrorCode.NONE] * MANY]
        assert list(
            broker.services.coordinators.groups.coordinator.positions(
                broker.services.coordinators.groups.coordinator.shard_of("g"), "g", stable=False
            ).committed
        ) == [("t", 0)]


async def test_an_oversized_commit_is_abandoned_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path, OsFiles()) as served:
        await create(served, "t")
        await served.broker.services.coordinators.groups.ensure_topic()
        answer, _ = await handled(served, Case(commit_of(*[0] * 60_000), 8))
        codes = {one.error_code for one in answer.topics[0].partitions}
        assert codes == {ErrorCode.UNKNOWN_SERVER_ERROR}


async def test_an_offset_fetch_sees_a_commit_in_all_partitions_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(create_topic, "t", partitions=MANY)
        broker = served.broker
        await broker.services.coordinators.groups.ensure_topic()
        await handled(served, Case(commit_of(*MANY_INDEXES), 8))
        monkeypatch.setattr(time_slices, "SLICE_S", -1.0)
        passes = 0

        def commit() -> None:
            nonlocal passes
            passes += 1
            if passes == MANY + MANY // 2:
                offsets = broker.services.coordinators.groups.coordinator.shard_of("g").offsets
                committed = offsets.of_group("g").items()
                offsets.put("g", {place: one._replace(offset=2) for place, one in committed})

        answer, _ = await handled(served, CASES["OffsetFetch"], commit)
        assert passes > MANY + MANY // 2
        assert len({one.committed_offset for one in answer.topics[0].partitions}) == 1


async def create(served: Served, name: str) -> Topic:
    await served.ask(create_topic, name, partitions=3)
    topic = served.broker.services.topics.get(name)
    assert topic is not None
    return topic
