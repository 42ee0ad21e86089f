"""The APIs of share groups while share groups are disabled: the answers of a live Apache Kafka 4.3.1 with share.version 0.

`test_authorization` compares the rights that they require, with more of the same answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.share_fetch import ShareFetchRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.server.sharing.share_records import SharePartitionKey
from support.broker.conversation import address
from support.broker.raw_client import RawClient

# API of share coordinators -> the name of a topic in its request, and the purpose in the refusal
STATE_APIS = {
    "initialize_share_group_state": ("InitializeStateData", "initialize share group state"),
    "read_share_group_state": ("ReadStateData", "read share group state"),
    "write_share_group_state": ("WriteStateData", "write share group state"),
    "delete_share_group_state": ("DeleteStateData", "delete share group state"),
    "read_share_group_state_summary": ("ReadStateSummaryData", "read share group state summary"),
}
ONE, OTHER, EMPTY = (bytes([number]) * 16 for number in (1, 2, 3))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    with (
        ottla.Broker(str(tmp_path_factory.mktemp("off")), features={"share.version": 0}) as broker,
        RawClient(*address(broker)) as client,
    ):
        yield client


def states(api: str, group_id: str, *topics: tuple[bytes, tuple[int, ...]]) -> Any:
    messages = import_module(f"ottla.protocol.messages.{api}")
    request = getattr(messages, "".join(map(str.capitalize, api.split("_"))) + "Request")
    topic = getattr(messages, STATE_APIS[api][0])
    rows = [
        topic(topic_id=topic_id, partitions=tuple(messages.PartitionData(partition=index) for index in indexes))
        for topic_id, indexes in topics
    ]
    return request(group_id=group_id, topics=tuple(rows))


@pytest.mark.parametrize("api", STATE_APIS)
def test_each_named_share_partition_is_refused_exactly_once(client: RawClient, api: str) -> None:
    request = states(api, "g", (ONE, (5, -1, 5)), (EMPTY, ()), (OTHER, (0,)), (ONE, (5, 7)))
    answer = client.ask(request)
    found = {
        result.topic_id: [(row.partition, row.error_code, row.error_message) for row in result.partitions]
        for result in answer.results
    }
    words = f"Unable to {STATE_APIS[api][1]}: This is not the correct coordinator."
    rows = [(index, ErrorCode.NOT_COORDINATOR, words) for index in (5, -1, 7, 0)]
    assert found == {ONE: rows[:3], OTHER: rows[3:]}


@pytest.mark.parametrize("api", STATE_APIS)
def test_a_request_without_a_group_name_gets_an_empty_response(client: RawClient, api: str) -> None:
    assert client.ask(states(api, "", (ONE, (0,)))).results == ()


def test_a_group_requested_twice_is_described_once(client: RawClient) -> None:
    described = client.ask(ShareGroupDescribeRequest(group_ids=("g", "", "g"), include_authorized_operations=True))
    unknown = -(2**31)
    assert [(row.group_id, row.error_code, row.authorized_operations) for row in described.groups] == [
        ("g", ErrorCode.UNSUPPORTED_VERSION, unknown),
        ("", ErrorCode.UNSUPPORTED_VERSION, unknown),
    ]
    groups = tuple(DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None) for name in ("g", "", "g"))
    offsets = client.ask(DescribeShareGroupOffsetsRequest(groups=groups))
    assert [(row.group_id, row.error_code, row.topics) for row in offsets.groups] == [
        ("g", ErrorCode.UNSUPPORTED_VERSION, ()),
        ("", ErrorCode.UNSUPPORTED_VERSION, ()),
    ]


def test_a_fetch_without_a_group_is_refused_like_any_fetch(client: RawClient) -> None:
    answer = client.ask(ShareFetchRequest(group_id=None, member_id=None))
    assert (answer.error_code, answer.error_message, answer.responses) == (ErrorCode.UNSUPPORTED_VERSION, None, ())


def test_the_coordinator_of_a_share_partition_can_be_found(client: RawClient) -> None:
    key = SharePartitionKey("g", ONE, 0).text
    answer = client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=(key,))).coordinators[0]
    assert (answer.error_code, answer.node_id) == (0, 0)
