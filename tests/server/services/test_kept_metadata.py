"""Cached answers about many partitions: at any time they equal newly made ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.apis import APIS
from ottla.protocol.connection import Request, encode_response, parse_response
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.server.config.options.security_options import STANDARD
from ottla.server.handlers.metadata import KeptMetadata
from ottla.server.security.acls.acl import parse
from ottla.server.security.principal import Principal
from ottla.server.services.context import ANSWERS_MAX, ROWS_MAX, KeptAnswers, MetadataFacts
from support.broker.admin import create, delete, grow, growth, metadata, wanted
from support.broker.contexts import Staying
from support.broker.conversation import address, produce
from support.broker.in_process_broker import InProcessClient, run_in_order, running
from support.broker.raw_client import RawClient
from support.disk.crash_files import CrashFiles
from support.noted import noted

METADATA = APIS[3]
PARTITIONS = 120
FACTS = MetadataFacts(1, 1, False, None)
STOPPED = 2


@pytest.fixture
def dirs(tmp_path: Path) -> list[str]:
    return [str(tmp_path / name) for name in "ab"]


@pytest.fixture
def broker(dirs: list[str]) -> Iterator[ottla.Broker]:
    with ottla.Broker(overrides={"log.dirs": ",".join(dirs)}, nodes=3) as broker:
        yield broker


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[RawClient]:
    """Yield a client of node 0, with a topic of many partitions and one of few; node 2 is stopped."""
    with RawClient(*address(broker)) as client:
        create(client, wanted("many", PARTITIONS, 1), wanted("few", 3, 2))
        broker.stop_node(STOPPED)
        yield client


def answers_to_all(broker: ottla.Broker, client: RawClient) -> list[Any]:
    """Return the answers to all these questions, each asked twice: the second answer is the cached one."""
    by_id = services(broker).topics.get("many").id
    found = []
    questions: tuple[Callable[[], Any], ...] = (
        lambda: metadata(client),
        lambda: metadata(client, version=0),
        lambda: metadata(client, version=8, include_topic_authorized_operations=True),
        lambda: metadata(client, "many", "few", version=4),
        lambda: metadata(client, by_id),
    )
    for ask in questions:
        found.append(ask())
        assert ask() == found[-1]
    return found


def services(broker: ottla.Broker) -> Any:
    return broker.inner.services


def forget(broker: ottla.Broker) -> None:
    services(broker).kept_metadata.find(FACTS, None)


def reassign(broker: ottla.Broker, client: RawClient) -> None:
    rows = (ReassignablePartition(partition_index=7, replicas=(0, 1)),)
    topics = (ReassignableTopic(name="many", partitions=rows),)
    client.ask(AlterPartitionReassignmentsRequest(topics=topics))


def give_up_a_log(broker: ottla.Broker, client: RawClient) -> None:
    """Give up the log of a running leader, on a disk that does not fail; the first leader of a partition is random."""
    catalog, many = services(broker).cluster.catalog, services(broker).topics.get("many")
    led = next(each for each in many.partitions if each.leader == 0 and each.log.data_dir == catalog.data_dir)
    led.log.give_up("damaged")


def fail_a_disk(broker: ottla.Broker, client: RawClient) -> None:
    catalog, many = services(broker).cluster.catalog, services(broker).topics.get("many")
    log = next(each.log for each in many.partitions if each.leader == 0 and each.log.data_dir != catalog.data_dir)
    broker.fault(disk="failed", data_dir=log.data_dir)
    assert produce(client, "many", ("k", "v"), partition=log.topic_partition.partition).error_code


def toggle_eligible_replicas(broker: ottla.Broker, client: RawClient) -> None:
    level = 0 if broker.inner.config.has_eligible_replicas else 1
    update = FeatureUpdateKey(
        feature="eligible.leader.replicas.version", max_version_level=level, upgrade_type=3 - 2 * level
    )
    answer = client.ask(UpdateFeaturesRequest(feature_updates=(update,)))
    assert not answer.error_code, answer.error_message


CHANGES: dict[str, Callable[[ottla.Broker, RawClient], object]] = {
    "a new topic": lambda _, client: create(client, wanted("other")),
    "one that grows": lambda _, client: grow(client, growth("many", PARTITIONS + 1)),
    "a node that stops": lambda broker, _: broker.stop_node(1),
    "a node that starts": lambda broker, _: broker.start_node(STOPPED),
    "other replicas of a partition": reassign,
    "another level of a feature": toggle_eligible_replicas,
    "a log that is given up": give_up_a_log,
    "a disk that fails": fail_a_disk,
    "a topic that is deleted": lambda _, client: delete(client, "few"),
}


def test_every_change_is_visible_at_once(broker: ottla.Broker, client: RawClient) -> None:
    """The changes come one after the other, as the answers depend only on the state at that time."""
    before = answers_to_all(broker, client)
    for what, change in CHANGES.items():
        with noted(what):
            change(broker, client)
            after = answers_to_all(broker, client)
            forget(broker)
            assert after == answers_to_all(broker, client)
            assert after != before
            before = after


def test_a_response_about_many_partitions_is_built_once(broker: ottla.Broker, client: RawClient) -> None:
    forget(broker)
    kept = services(broker).kept_metadata
    for _ in range(3):
        metadata(client, "many")
        assert kept.rows == 1 + PARTITIONS
    metadata(client, "few")
    metadata(client, "many", "unknown")
    assert kept.rows == 1 + PARTITIONS


class User(Staying):
    """A client that has authenticated."""

    def __init__(self, name: str) -> None:
        self.principal = Principal("User", name)


def test_no_user_gets_another_users_cached_response() -> None:
    async def work() -> None:
        options = {"authorizer_class_name": STANDARD, "super_users": "User:ANONYMOUS"}
        async with running(CrashFiles(), **options) as (broker, admin):
            authorizer = broker.services.authorizer
            assert authorizer is not None
            await admin.ask(CreateTopicsRequest(topics=(wanted("many", PARTITIONS),), timeout_ms=5000), 7)
            everybody = [admin, *(InProcessClient(broker, User(name)) for name in ("alice", "bob"))]
            assert [await seen_by(each) for each in everybody] == [["many"], [], []]
            authorizer.add(*parse("User:alice allow DESCRIBE topic:many"))
            assert [await seen_by(each) for each in everybody] == [["many"], ["many"], []]
            authorizer.add(*parse("User:alice deny DESCRIBE topic:many"))
            assert [await seen_by(each) for each in everybody] == [["many"], [], []]

    run_in_order(work)


async def seen_by(client: InProcessClient) -> list[str]:
    """Return the topics that the client sees, both by name and in a full list."""
    everything = await client.ask(MetadataRequest(topics=None), 12)
    one = await client.ask(MetadataRequest(topics=(MetadataRequestTopic(name="many"),)), 12)
    found = [topic.name for topic in everything.topics]
    assert found == [topic.name for topic in one.topics if not topic.error_code]
    return found


def test_a_copy_with_other_fields_is_encoded_again() -> None:
    answer, request = answer_of(PARTITIONS), Request(METADATA, 13, 1, None, None)
    sent(request, answer)
    assert sent(request, replace(answer, throttle_time_ms=7)) == {**fields_of(answer), "throttle_time_ms": 7}
    assert sent(request, answer) == fields_of(answer)


def answer_of(partitions: int) -> KeptMetadata:
    rows = tuple(MetadataResponsePartition(partition_index=index) for index in range(partitions))
    return KeptMetadata(
        topics=(MetadataResponseTopic(name="t", partitions=rows),), cluster_authorized_operations=-(2**31)
    )


def sent(request: Request, answer: KeptMetadata) -> dict[str, Any]:
    frame = b"".join(encode_response(request, answer))
    return fields_of(parse_response(METADATA, request.version, frame[4:])[1])


def fields_of(answer: MetadataResponse) -> dict[str, Any]:
    return {each.name: getattr(answer, each.name) for each in fields(MetadataResponse)}


def test_the_number_of_cached_rows_is_limited() -> None:
    kept, rows = KeptAnswers(), ROWS_MAX // 4
    assert kept.find(FACTS, "first") is None
    kept.keep(FACTS, "too many", answer_of(1), ROWS_MAX + 1)
    assert kept.rows == 0
    for number in range(5):
        kept.keep(FACTS, number, answer_of(1), rows)
    assert [number for number in range(5) if kept.find(FACTS, number)] == [1, 2, 3, 4]
    for number in range(10, 10 + ANSWERS_MAX + 3):
        kept.keep(FACTS, number, answer_of(1), 1)
    assert kept.rows == ANSWERS_MAX


def test_a_response_of_outdated_facts_is_not_cached() -> None:
    kept = KeptAnswers()
    kept.find(FACTS, "all")
    kept.find(FACTS._replace(topics=2), "all")
    kept.keep(FACTS, "all", answer_of(1), 1)
    assert kept.find(FACTS, "all") is None
