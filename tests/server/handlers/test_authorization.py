"""Rights that each API requires, as in Apache Kafka 4.4.0: every API in every version, asked by users with no right, one right
and a few. Each answer is compared with the recorded one.

A new API needs questions in `support/authorization/questions.py`, and their answers:
`python -m compat.apache_kafka.authorization --record`, then `python tests/support/authorization/rights_page.py`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio.testing

from ottla.protocol.connection import Request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.server.broker.broker import Broker
from ottla.server.security.acls.kinds import CLUSTER_NAME, AclOperation, ResourceType
from support.authorization import differences, rights_page
from support.authorization.answers import reduced
from support.authorization.asking import User, asker, grant
from support.authorization.messages import BY_NAME, message
from support.authorization.questions import QUESTIONS, SHARE_QUESTIONS, Question, asked
from support.authorization.recording import FILE, SHARE_FILE, Answers, Asked, read
from support.authorization.rights import NOBODY, OWNER, USERS
from support.authorization.scene import OTHER, THERE, Scene
from support.broker.contexts import context_of
from support.broker.in_process_broker import InProcessClient, pass_time, run_in_order, running
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch
from support.sizes import FULL

RECORDED = read(FILE.read_text())
OPTIONS = {
    "delegation_token_secret_key": "a-key",
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "num_partitions": "2",
    "group_consumer_max_session_timeout_ms": "3600000",
    "group_consumer_session_timeout_ms": "3600000",
}
WITH_RIGHTS = USERS.keys() - {NOBODY, OWNER, "half"}
"""Users who in a short run ask each question in its newest version: few checks depend on versions. The others ask in each."""
NO_RIGHT_ASKED: frozenset[str] = frozenset({"SaslAuthenticate", "SaslHandshake"})
"""APIs that are called before a client has a user."""

Send = Callable[[str, dict[str, Any], int], Awaitable[Any]]


def sender(broker: Broker, user: str) -> Send:
    """Return a function that sends requests as a user, by name and with their values."""
    ask = asker(broker, user)

    async def send(api_name: str, values: dict[str, Any], version: int) -> Any:
        return await ask(message(api_name, values), version)

    return send


@asynccontextmanager
async def guarded(
    files: CrashFiles | None = None, share_version: int = 0
) -> AsyncIterator[tuple[Broker, InProcessClient, Scene]]:
    """Run a broker where only its super user may do anything, with the scene of the questions."""
    async with running(files or CrashFiles(), **OPTIONS) as (broker, admin):

        async def pause() -> None:
            clock = trio.lowlevel.current_clock()
            if isinstance(clock, trio.testing.MockClock):
                clock.jump(0.1)  # Metadata lists a topic that it has created after a while
            await pass_time(broker, 100)

        if not share_version:  # As in the Apache Kafka whose answers are recorded.
            update = FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
            assert not (await admin.ask(UpdateFeaturesRequest(feature_updates=(update,)), 2)).error_code
        scene = Scene(admin.ask, asker(broker, OWNER), pause)
        await scene.build()
        yield broker, admin, scene


@pytest.fixture(scope="module")
def answers() -> Answers:
    """Return a broker's answers to all questions."""
    return run_in_order(_ask_all)


async def _ask_all(questions: list[Question] = QUESTIONS, share_version: int = 0) -> Answers:
    found: dict[Asked, Any] = {}
    async with guarded(share_version=share_version) as (broker, _, scene):
        if share_version:
            await scene.share()
        for user, grants in USERS.items():
            for one in grants:
                grant(broker, user, *one)
        senders = {user: sender(broker, user) for user in USERS}
        for question, version in asked(questions):
            for user, send in senders.items():
                if not FULL and user in WITH_RIGHTS and version != question.versions[-1]:
                    continue
                names = {one: name for name, one in scene.ids.items()}
                answer = await send(question.api.name, dict(question.values(version, scene.ids)), version)
                found[Asked(question.id, version, user)] = told = reduced(answer, names)
                await scene.mend(question.changes, told)
    return found


def test_every_response_equals_apache_kafkas(answers: Answers) -> None:
    assert differences.between({one: RECORDED.get(one) for one in answers}, answers) == []


def test_every_response_about_share_groups_equals_apache_kafkas() -> None:
    expected, answers = read(SHARE_FILE.read_text()), run_in_order(lambda: _ask_all(SHARE_QUESTIONS, 1))
    assert answers.keys() <= expected.keys() and (not FULL or answers.keys() == expected.keys())
    assert differences.between({one: expected[one] for one in answers}, answers) == []


def test_every_api_is_tested_in_every_version() -> None:
    recorded = {(one.question.split()[0], one.version) for one in RECORDED if one.user == NOBODY}
    for name in BY_NAME.keys() - NO_RIGHT_ASKED:
        low, high = BY_NAME[name].versions
        missing = [version for version in range(low, high + 1) if (name, version) not in recorded]
        assert not missing, f"{name} {missing}: see above what an API needs"


def test_every_api_hides_existing_names_from_an_unauthorized_user(answers: Answers) -> None:
    """Whatever was recorded: names of existing resources come back only to a client that has sent them."""
    for question, version in asked():
        told = str(answers[Asked(question.id, version, NOBODY)])
        sent = str(question.values(version, {THERE: b"", OTHER: b"", "victim": b"", "missing": b""}))
        for name in (THERE, OTHER, "victim", "members", "__consumer_offsets"):
            assert f"'{name}'" not in told or f"'{name}'" in sent or "topic_id" in told, (question.id, version)


def test_requests_of_an_unauthorized_user_change_nothing_on_disk() -> None:
    async def ask() -> None:
        files = CrashFiles()
        async with guarded(files) as (broker, _, scene):
            send, before = sender(broker, NOBODY), files.digest()
            for question, version in asked():
                await send(question.api.name, dict(question.values(version, scene.ids)), version)
                assert files.digest() == before, (question.id, version)

    run_in_order(ask)


def test_a_right_to_one_topic_does_not_apply_to_another() -> None:
    """The transaction does not register partitions to which the producer may not write, though their batches were sent."""

    async def ask() -> None:
        async with guarded() as (broker, admin, _):
            grant(broker, "producer", ResourceType.TRANSACTIONAL_ID, "t", AclOperation.WRITE)
            grant(broker, "producer", ResourceType.TOPIC, THERE, AclOperation.WRITE)
            send = sender(broker, "producer")
            given = await send("InitProducerId", {"transactional_id": "t", "transaction_timeout_ms": 60_000}, 4)
            records = memoryview(
                bytes(batch(("k", "v"), producer_id=given.producer_id, producer_epoch=0, transactional=True))
            )
            topics = [{"name": name, "partition_data": [{"index": 0, "records": records}]} for name in (OTHER, THERE)]
            body = {"transactional_id": "t", "acks": -1, "timeout_ms": 1_000, "topic_data": topics}
            answer = await send("Produce", body, 12)
            codes = {row.name: row.partition_responses[0].error_code for row in answer.responses}
            assert codes == {OTHER: ErrorCode.TOPIC_AUTHORIZATION_FAILED, THERE: ErrorCode.NONE}
            described = await admin.ask(message("DescribeTransactions", {"transactional_ids": ["t"]}), 0)
            assert [topic.topic for topic in described.transaction_states[0].topics] == [THERE]

    run_in_order(ask)


def _fetch(**more: Any) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
    wanted = [{"topic": THERE, "partitions": [partition]}]
    return {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1_000, "topics": wanted, **more}


def test_a_session_stops_returning_partitions_after_the_right_is_revoked() -> None:
    async def ask() -> None:
        async with guarded() as (broker, _, _scene):
            acl = grant(broker, "reader", ResourceType.TOPIC, THERE, AclOperation.READ)
            send = sender(broker, "reader")
            session = await send("Fetch", _fetch(session_id=0, session_epoch=0), 12)
            assert session.responses[0].partitions[0].error_code == ErrorCode.NONE
            assert broker.services.authorizer is not None
            broker.services.authorizer.remove(acl)
            again = await send("Fetch", _fetch(session_id=session.session_id, session_epoch=1, topics=[]), 12)
            assert again.error_code == ErrorCode.NONE
            assert again.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            grant(broker, "reader", ResourceType.TOPIC, THERE, AclOperation.READ)
            back = await send("Fetch", _fetch(session_id=session.session_id, session_epoch=2, topics=[]), 12)
            assert back.responses[0].partitions[0].error_code == ErrorCode.NONE

    run_in_order(ask)


def test_a_parked_fetch_was_authorized_on_arrival() -> None:
    async def ask() -> None:
        async with guarded() as (broker, admin, _scene):
            acl = grant(broker, "reader", ResourceType.TOPIC, THERE, AclOperation.READ)
            told: list[Any] = []

            async def fetch() -> None:
                told.append(await sender(broker, "reader")("Fetch", _fetch(max_wait_ms=60_000, min_bytes=1), 12))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(fetch)
                await trio.testing.wait_all_tasks_blocked()
                assert not told
                assert broker.services.authorizer is not None
                broker.services.authorizer.remove(acl)
                data = [{"index": 0, "records": memoryview(bytes(batch(("k", "v"))))}]
                topics = [{"name": THERE, "partition_data": data}]
                await admin.ask(message("Produce", {"acks": -1, "timeout_ms": 1_000, "topic_data": topics}), 12)
            (data,) = told[0].responses[0].partitions
            assert data.error_code == ErrorCode.NONE and data.records
            after = await sender(broker, "reader")("Fetch", _fetch(), 12)
            assert after.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run_in_order(ask)


def test_a_regular_expression_finds_only_describable_topics() -> None:
    async def ask() -> None:
        async with guarded() as (broker, _, scene):
            grant(broker, "member", ResourceType.GROUP, "g", AclOperation.READ)
            grant(broker, "member", ResourceType.TOPIC, THERE, AclOperation.DESCRIBE)
            send = sender(broker, "member")
            joins = {
                "group_id": "g",
                "member_id": "m",
                "member_epoch": 0,
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_regex": ".*",
                "topic_partitions": [],
            }
            member = await send("ConsumerGroupHeartbeat", joins, 1)
            assigned: set[bytes] = set()
            for _ in range(5):
                await pass_time(broker, 1_000)
                stays = {"group_id": "g", "member_id": "m", "member_epoch": member.member_epoch}
                member = await send("ConsumerGroupHeartbeat", {**stays, "rebalance_timeout_ms": -1}, 1)
                if member.assignment is not None:
                    assigned |= {one.topic_id for one in member.assignment.topic_partitions}
            assert assigned == {scene.ids[THERE]}

    run_in_order(ask)


def test_controllers_are_shown_only_to_users_with_alter_on_the_cluster() -> None:
    """The controller of Apache Kafka 4.4.0 does the same; a broker answers every user."""

    async def ask() -> None:
        async with guarded() as (broker, _, _scene):
            grant(broker, "describer", ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.DESCRIBE)
            grant(broker, "admin", ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.ALTER)
            codes = {}
            for user in (NOBODY, "describer", "admin"):
                plain = context_of(broker, User(user))
                context = replace(plain, listener=replace(plain.listener, controller_id=3000))
                sent = message("DescribeCluster", {"endpoint_type": 2})
                request = Request(BY_NAME["DescribeCluster"], 2, 0, "client", sent)
                answer = await (await broker.handlers.loaded(request.api.key))(context, request)
                codes[user] = ErrorCode(answer.error_code).name, answer.error_message
            refused = "CLUSTER_AUTHORIZATION_FAILED", "Request DescribeCluster needs ALTER permission."
            assert codes == {NOBODY: refused, "describer": refused, "admin": ("NONE", None)}

    run_in_order(ask)


def test_topics_omitted_from_a_list_are_not_logged_as_refusals(caplog: pytest.LogCaptureFixture) -> None:
    """A client that lists all topics has tried nothing forbidden: ten thousand log lines would say otherwise."""

    async def ask() -> None:
        async with guarded() as (broker, _, _scene):
            send = sender(broker, NOBODY)
            caplog.set_level(logging.DEBUG, "ottla.authorizer")
            await send("Metadata", {"topics": None}, 12)
            await send("DescribeTopicPartitions", {"topics": [], "response_partition_limit": 100}, 0)
            await send("ListGroups", {}, 5)
            await send("ListTransactions", {}, 1)
            assert not caplog.messages
            await send("Metadata", {"topics": [{"name": OTHER}], "allow_auto_topic_creation": False}, 12)
            await send("DeleteTopics", {"topic_names": [OTHER], "timeout_ms": 1_000}, 5)
            await send("DeleteRecords", {"topics": [{"name": OTHER, "partitions": [{}]}], "timeout_ms": 1_000}, 2)
            assert (
                [line.split(" from ")[0] for line in caplog.messages]
                == [
                    f"User:{NOBODY} is not authorized to DESCRIBE topic:{OTHER}",  # though it was decided when all were listed
                    f"User:{NOBODY} is not authorized to DELETE topic:{OTHER}",
                ]
            )

    run_in_order(ask)


def test_the_page_of_rights_matches_the_recording() -> None:
    text = rights_page.PAGE.read_text()
    assert rights_page.written(text, rights_page.page(RECORDED)) == text
