"""Rights that the APIs of share groups require, and their refusals: Apache Kafka 4.3.1's codes and messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import trio.testing

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_share_group_offsets as alter
from ottla.protocol.messages import delete_share_group_offsets as forget
from ottla.protocol.messages import describe_share_group_offsets as describe
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.server.client.connection import api_of
from ottla.server.security.acls.kinds import AclOperation, ResourceType
from support.authorization.asking import asker, grant
from support.broker.in_process_broker import run_in_order, running
from support.disk.crash_files import CrashFiles

E = ErrorCode
OPTIONS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "group_share_assignment_interval_ms": "0",
}
NO_GROUP, NO_TOPIC = "Group authorization failed.", "Topic authorization failed."

HEARTBEAT = ShareGroupHeartbeatRequest(
    group_id="g", member_id="b", member_epoch=0, subscribed_topic_names=("seen", "hidden")
)
DESCRIBE = ShareGroupDescribeRequest(group_ids=("g",))
OFFSETS = describe.DescribeShareGroupOffsetsRequest(
    groups=(
        describe.DescribeShareGroupOffsetsRequestGroup(
            group_id="g",
            topics=tuple(
                describe.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=(0,))
                for name in ("seen", "hidden")
            ),
        ),
    )
)
ALL_OFFSETS = describe.DescribeShareGroupOffsetsRequest(
    groups=(describe.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None),)
)
ALTER = alter.AlterShareGroupOffsetsRequest(
    group_id="h",
    topics=tuple(
        alter.AlterShareGroupOffsetsRequestTopic(
            topic_name=name, partitions=(alter.AlterShareGroupOffsetsRequestPartition(partition_index=0),)
        )
        for name in ("seen", "hidden")
    ),
)
DELETE = forget.DeleteShareGroupOffsetsRequest(
    group_id="h",
    topics=tuple(forget.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("seen", "hidden")),
)


def error(answer: Any) -> tuple[int, str | None]:
    return answer.error_code, answer.error_message


def heartbeat(answer: Any) -> Any:
    return error(answer)


def first_group(answer: Any) -> Any:
    return error(answer.groups[0])


def topics_of_group(answer: Any) -> Any:
    (group,) = answer.groups
    return {topic.topic_name: [error(one) for one in topic.partitions] for topic in group.topics}


def partitions(answer: Any) -> Any:
    return {topic.topic_name: [error(one) for one in topic.partitions] for topic in answer.responses}


def topics(answer: Any) -> Any:
    return {topic.topic_name: error(topic) for topic in answer.responses}


OK = (E.NONE, None)
REFUSED = (E.TOPIC_AUTHORIZATION_FAILED, NO_TOPIC)
ROWS: dict[str, tuple[str, Any, Callable[[Any], Any], Any]] = {
    "a member without the group": ("nobody", HEARTBEAT, heartbeat, (E.GROUP_AUTHORIZATION_FAILED, None)),
    "a member that may not see a topic": ("half", HEARTBEAT, heartbeat, (E.TOPIC_AUTHORIZATION_FAILED, None)),
    "who describes without the group": ("nobody", DESCRIBE, first_group, (E.GROUP_AUTHORIZATION_FAILED, None)),
    "who may not see what a member has": (
        "half",
        DESCRIBE,
        first_group,
        (
            E.TOPIC_AUTHORIZATION_FAILED,
            "The group has described topic(s) that the client is not authorized to describe.",
        ),
    ),
    "offsets without the group": ("nobody", OFFSETS, first_group, (E.GROUP_AUTHORIZATION_FAILED, None)),
    "offsets of some topics": ("half", OFFSETS, topics_of_group, {"seen": [OK], "hidden": [REFUSED]}),
    "all offsets": ("half", ALL_OFFSETS, topics_of_group, {"seen": [OK]}),
    "who moves without the group": ("nobody", ALTER, error, (E.GROUP_AUTHORIZATION_FAILED, NO_GROUP)),
    "who moves in some topics": ("half", ALTER, partitions, {"seen": [OK], "hidden": [REFUSED]}),
    "who forgets without the group": ("nobody", DELETE, error, (E.GROUP_AUTHORIZATION_FAILED, NO_GROUP)),
    "who forgets in some topics": ("half", DELETE, topics, {"seen": OK, "hidden": REFUSED}),
}


RIGHTS = (
    (ResourceType.GROUP, "g", AclOperation.READ),
    (ResourceType.GROUP, "h", AclOperation.READ),
    (ResourceType.GROUP, "h", AclOperation.DELETE),
    (ResourceType.TOPIC, "seen", AclOperation.READ),
)
"""The rights of the user "half"."""


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """Return a broker's answer to each row; it has a share group with two topics, of which "half" may see one."""
    return run_in_order(_ask_all)


async def _ask_all() -> dict[str, Any]:
    found = {}
    async with running(CrashFiles(), **OPTIONS) as (broker, admin):
        made = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("seen", "hidden")]
        await admin.ask(CreateTopicsRequest(topics=tuple(made)), 7)
        for right in RIGHTS:
            grant(broker, "half", *right)
        for _ in range(3):
            joined = await admin.ask(replace(HEARTBEAT, member_id="a"), 1)
            assert not joined.error_code
            await trio.testing.wait_all_tasks_blocked()
        assert len(joined.assignment.topic_partitions) == 2
        await admin.ask(ALTER, 0)
        for name, (user, request, told, _) in ROWS.items():
            found[name] = told(await asker(broker, user)(request, api_of(request).versions[1]))
    return found


@pytest.mark.parametrize("name", ROWS)
def test_requests_without_a_right_get_the_recorded_errors(answers: dict[str, Any], name: str) -> None:
    assert answers[name] == ROWS[name][3]
