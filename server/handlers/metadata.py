"""Metadata, API key 3, versions 0-13.

Behaviour
- Returns topics by name, by id (from version 12, where a name in addition to it is ignored), or all (null; in version 0 an
  empty list). A topic that is named twice is returned once.
- A missing topic that may be created (`auto.create.topics.enable` and the request allows it) is created, mostly after the
  answer, which is UNKNOWN_TOPIC_OR_PARTITION, as in Apache Kafka: the client asks again and finds it. Only Metadata hides the topic
  for HIDDEN_S: clients that wait for a new topic compare two responses, and both must lack it.
- After a restart or reset, a topic that is missing since is not created for clients of the former run at first
  (`services/former_run`).
- Topics that the client may not describe are left out of "all"; if one is named, the response does not reveal whether it
  exists.
- One request creates at most PARTITIONS_MAX partitions, as many as CreateTopics; topics beyond are not created.
- A partition that no live node leads, or whose data directory has failed, is LEADER_NOT_AVAILABLE, with its replicas and its
  epoch. Its ISR is empty, or the last one if eligible leaders are not enabled (KIP-966). Version 0 lists only live replicas,
  and returns REPLICA_NOT_AVAILABLE if some are missing.
- Addresses are those of the listener that received the request.
- A response about many partitions is cached until anything in it changes (`services/context`).
- The controller is the lowest live node id: clients send admin requests there, every node takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, TypeVar

import trio

from ...protocol.connection import CachedResponse, Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ...protocol.wire import ZERO_UUID
from ...storage.disk.health import Health
from ..cluster.topic_plans import PARTITIONS_MAX, TopicPlan, check_name
from ..partitions.internal_topics import INTERNAL_TOPICS
from ..partitions.topics import NO_LEADER, Partition, Topic, Topics
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import ROWS_MIN, Context, MetadataFacts, Services
from .authorized_operations import NOT_ASKED, cluster_operations, topic_operations
from .permissions import seeing
from .routing import endpoints, leader_and_offline

FIRST_VERSION_WITH_IDS = 10
# These versions have a field for topic ids, but only version 12 made it work; a request with one is refused as a whole.
NO_IDS_YET = (10, 11)

NAMED_MAX = 100
"""Largest number of topics in a request whose response is cached."""

HIDDEN_S = 0.036
"""Time for which Metadata hides a topic that it has created. On Apache Kafka 4.3.1 it appears 35 to 117 ms after the
first request; clients ask again after 100 ms by default. Trio's clock counts, since clients wait while the broker's clock is
frozen."""

Operations: TypeAlias = Callable[[str], int] | None
"""Function that returns the client's operations on a topic of this name, as bits; None if the request does not include them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMetadata(MetadataResponse, CachedResponse):
    """A cached response about many partitions. A copy with other fields has no bytes yet."""

    written: dict[int, bytes] = field(init=False, repr=False, compare=False, default_factory=dict)


Answer = TypeVar("Answer", bound=MetadataResponse)


async def handle(ctx: Context, request: Request) -> MetadataResponse:
    body: MetadataRequest = request.body
    services = ctx.services
    everything = body.topics is None or (request.version == 0 and not body.topics)
    if not _is_much(services.topics, request, everything) or _is_hidden(services.topics):
        return _answer(MetadataResponse, ctx, body, await _topics(ctx, request, everything))
    kept, facts, question = services.kept_metadata, _facts(services), _question(ctx, request)
    if found := kept.find(facts, question):
        return found
    topics = await _topics(ctx, request, everything)
    answer = _answer(KeptMetadata, ctx, body, topics)
    is_of_one_moment = facts == _facts(services) and question == _question(ctx, request)
    if is_of_one_moment and (everything or all(topic.error_code == ErrorCode.NONE for topic in topics)):
        kept.keep(facts, question, answer, sum([1 + len(topic.partitions) for topic in topics]))
    return answer


def _answer(kind: type[Answer], ctx: Context, body: MetadataRequest, topics: Iterable[MetadataResponseTopic]) -> Answer:
    cluster = ctx.services.cluster
    return kind(
        throttle_time_ms=0,
        brokers=_brokers(ctx),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id(),
        topics=tuple(topics),
        cluster_authorized_operations=cluster_operations(ctx)
        if body.include_cluster_authorized_operations
        else NOT_ASKED,
        error_code=ErrorCode.NONE,
    )


async def _topics(ctx: Context, request: Request, everything: bool) -> list[MetadataResponseTopic]:
    body: MetadataRequest = request.body
    services = ctx.services
    operations = partial(topic_operations, ctx) if body.include_topic_authorized_operations else None
    time_slice, live = ctx.time_slice, services.cluster.live_node_ids()
    topics = []
    if everything:
        sees = seeing(ctx)
        async for topic in time_slice.each(list(services.topics)):
            is_there = services.topics.get(topic.name) is topic and not _is_hidden(topic)
            if is_there and (sees is None or sees(topic.name)):
                topics.append(await _topic(ctx, topic, live, request.version, operations, time_slice))
    elif request.version in NO_IDS_YET and any(await time_slice.map(_names_an_id, body.topics or ())):
        return await time_slice.map(
            lambda row: _missing(row.name or "", row.topic_id, ErrorCode.INVALID_REQUEST, NOT_ASKED), body.topics or ()
        )
    else:
        creating = _Creating(ctx, body.allow_auto_topic_creation or request.version < 4)
        found: dict[str | bytes, MetadataResponseTopic | None] = {}
        async for row in time_slice.each(body.topics or ()):
            key = _key(row, request.version)
            if key not in found:
                found[key] = await _describe_topic(ctx, key, live, request.version, creating, operations, time_slice)
        await services.topic_admin.create_soon(creating.plans, hidden_s=HIDDEN_S)
        async for key, answer in time_slice.each(found.items()):
            topics.append(creating.answer(str(key), operations) if answer is None else answer)
    return topics


def _is_hidden(what: Topic | Topics) -> bool:
    """Return whether Metadata must hide the topic, or one of the topics."""
    return what.hidden_until_s > 0 and what.hidden_until_s > trio.current_time()


def _is_much(topics: Topics, request: Request, everything: bool) -> bool:
    """Return whether the response is large enough to be cached, if all named topics exist."""
    if everything:
        return len(topics) >= ROWS_MIN or _partitions(topics) >= ROWS_MIN
    rows = request.body.topics
    if len(rows) > NAMED_MAX:
        return False
    keys = [_key(row, request.version) for row in rows]
    return _partitions(topics.by_id(key) if isinstance(key, bytes) else topics.get(key) for key in keys) >= ROWS_MIN


def _partitions(topics: Iterable[Topic | None]) -> int:
    return sum([len(topic.partitions) for topic in topics if topic is not None])


def _facts(services: Services) -> MetadataFacts:
    return MetadataFacts(
        services.topics.changes,
        Health.changes,
        services.cluster.has_eligible_replicas(),
        None if services.authorizer is None else services.authorizer.generation,
    )


def _question(ctx: Context, request: Request) -> Hashable:
    """Return what the response depends on in addition to `MetadataFacts`: the request, the client, and the nodes' addresses."""
    cluster, client = ctx.services.cluster, ctx.client
    who = None if ctx.services.authorizer is None else (client.principal, client.client_host)
    return request.version, request.body, who, _brokers(ctx), cluster.controller_id()


def _brokers(ctx: Context) -> tuple[MetadataResponseBroker, ...]:
    return tuple(
        MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in endpoints(ctx, ctx.services.cluster.live_node_ids())
    )


def _names_an_id(row: MetadataRequestTopic) -> bool:
    return row.name is None or row.topic_id != ZERO_UUID


def _key(row: MetadataRequestTopic, version: int) -> str | bytes:
    """Return the name or the id that counts."""
    if row.name is None or (version >= FIRST_VERSION_WITH_IDS and row.topic_id != ZERO_UUID):
        return row.topic_id
    return row.name


async def _describe_topic(
    ctx: Context,
    key: str | bytes,
    live: list[int],
    version: int,
    creating: _Creating,
    operations: Operations,
    time_slice: TimeSlice,
) -> MetadataResponseTopic | None:
    """Find one topic, by name or id; None for a missing name, which will be created if that is allowed."""
    services = ctx.services
    topic = services.topics.by_id(key) if isinstance(key, bytes) else services.topics.get(key)
    if services.authorizer is not None:
        name = key if isinstance(key, str) else topic.name if topic is not None else None
        if name is not None and not ctx.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            named, topic_id = (key, ZERO_UUID) if isinstance(key, str) else (None, key)
            return _refused(named, topic_id)
    if topic is not None and not _is_hidden(topic):
        return await _topic(ctx, topic, live, version, operations, time_slice)
    if isinstance(key, bytes):
        return _missing(None, key, ErrorCode.UNKNOWN_TOPIC_ID, NOT_ASKED)
    await creating.plan_creation(key)
    return None


def _refused(name: str | None, topic_id: bytes) -> MetadataResponseTopic:
    """Make the answer for a topic, existing or not, that the client may not describe, or not create."""
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id, partitions=()
    )


class _Creating:
    """The topics that one request creates by naming them."""

    def __init__(self, ctx: Context, is_allowed: bool) -> None:
        self._ctx = ctx
        self._services = ctx.services
        self._mutations = ctx.mutations
        self._is_allowed = is_allowed and ctx.services.config.current.auto_create_topics_enable
        self._partitions_left = PARTITIONS_MAX
        self.plans: list[TopicPlan] = []
        self._codes: dict[str, ErrorCode] = {}
        """Errors by topic, other than UNKNOWN_TOPIC_OR_PARTITION."""

    async def plan_creation(self, name: str) -> None:
        """Add a topic to `plans`, if it is missing, not only hidden or about to be created, and if that is allowed."""
        services = self._services
        if self._is_allowed and not self._may_create(name):
            self._codes[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return
        try:
            check_name(name)
            if self._is_allowed and name in INTERNAL_TOPICS:
                await services.topic_admin.ensure_internal(name)
            elif (
                self._is_allowed
                and services.topics.get(name) is None
                and name not in services.topic_admin.coming
                and not services.former_run.withholds(name, self._ctx.client, trio.current_time())
                and self._partitions_left >= services.config.current.num_partitions
            ):
                self._partitions_left -= services.config.current.num_partitions
                if self._mutations is not None:
                    self._mutations.record(services.config.current.num_partitions)
                self.plans.append(services.topic_admin.planner.plan(name))
        except KafkaError as error:
            # If a quota is exceeded, the client asks again until the topic may be created.
            if error.code is not ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                self._codes[name] = error.code

    def answer(self, name: str, operations: Operations) -> MetadataResponseTopic:
        """Make the answer for a topic that was missing, after all are planned."""
        code = self._codes.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return _refused(name, ZERO_UUID)
        return _missing(name, ZERO_UUID, code, NOT_ASKED if operations is None else operations(name))

    def _may_create(self, name: str) -> bool:
        return self._ctx.may(AclOperation.CREATE, ResourceType.CLUSTER, is_attempt=False) or self._ctx.may(
            AclOperation.CREATE, ResourceType.TOPIC, name
        )


def _missing(name: str | None, topic_id: bytes, code: ErrorCode, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=operations,
    )


async def _topic(
    ctx: Context, topic: Topic, live: list[int], version: int, operations: Operations, time_slice: TimeSlice
) -> MetadataResponseTopic:
    partitions: Sequence[MetadataResponsePartition]
    if len(topic.partitions) == 1:
        partitions = (_partition(ctx, topic.partitions[0], live, version),)
    else:
        partitions = await time_slice.map(
            lambda partition: _partition(ctx, partition, live, version), list(topic.partitions)
        )
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=tuple(partitions),
        topic_authorized_operations=NOT_ASKED if operations is None else operations(topic.name),
    )


def _partition(ctx: Context, partition: Partition, live: list[int], version: int) -> MetadataResponsePartition:
    leader, offline = leader_and_offline(partition, live)
    replicas, isr = partition.replicas, partition.isr
    error = ErrorCode.NONE
    if version == 0 and offline:  # it has no field for offline replicas
        error = ErrorCode.REPLICA_NOT_AVAILABLE
        replicas, isr = (tuple(each for each in nodes if each not in offline) for nodes in (replicas, isr))
    if leader == NO_LEADER:
        error = ErrorCode.LEADER_NOT_AVAILABLE
        if ctx.services.cluster.has_eligible_replicas():
            isr = ()
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )
