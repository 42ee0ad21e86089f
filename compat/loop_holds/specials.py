"""Requests of one client that are large in another way than by an array.

These are many frames, many connections, expensive batches, answers with everything that exists, and requests that need a
conversation before them.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from ottla.protocol.apis import APIS
from ottla.protocol.batch_builder import build_batch
from ottla.protocol.compression import Codec
from ottla.protocol.connection import encode_request
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.server.client.connection import api_of

from ..support.brokers.process import BrokerProcess
from ..support.clients.holds import Hold, Pinger
from . import blocks
from .asking import Sender, client, commit_for_groups, create_topics, small_batch
from .figures import Figures
from .shapes import ELEMENTS_MAX, SESSION_PARTITIONS, Form, Shape
from .values import BIG_PARTITIONS, TOPICS, Unknown, World

AFTERWARDS_S = 0.05
SET, SUBTRACT = 0, 3
CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


def encoded(message: Any, version: int | None = None) -> bytes:
    api = api_of(message)
    return encode_request(api, api.versions[1] if version is None else version, 1, "holds", message)


def produce(topic: str, batches: dict[int, bytes], acks: int = 1) -> bytes:
    data = tuple(PartitionProduceData(index=number, records=batch) for number, batch in batches.items())
    topics = (TopicProduceData(name=topic, partition_data=data),)
    return encoded(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics), 11)


class Specials:
    """The special requests, each a method that prepares it and yields rows: name, form, frames, answers."""

    def __init__(self, process: BrokerProcess, pinger: Pinger, world: World, *, quick: bool) -> None:
        self.bootstrap, self.pinger, self.world, self.quick = process.bootstrap, pinger, world, quick

    def frames(self) -> Iterator[tuple[str, str, bytes, int]]:
        names = Shape(Form(APIS[3], 8, ("topics",)), Unknown()).frame(10_000)
        yield "64 Metadata frames at once", f"{len(names) / 1e3:.0f} KB each", names * 64, 64
        names = Shape(Form(APIS[3], 8, ("topics",)), Unknown()).frame(10 * ELEMENTS_MAX)
        yield "A Metadata frame of too many names, refused", f"{10 * ELEMENTS_MAX} elements", names, 1
        asked = encoded(MetadataRequest(topics=(), allow_auto_topic_creation=False))
        yield "10 000 small Metadata frames at once", f"{len(asked)} bytes each", asked * 10_000, 10_000
        yield from self.answers()
        yield from self.batches()
        yield from self.large_bytes()

    def answers(self) -> Iterator[tuple[str, str, bytes, int]]:
        with client(self.bootstrap) as at:
            commit_for_groups(at, ["all-of-big"], "big", range(BIG_PARTITIONS))
        everything = f"{BIG_PARTITIONS + TOPICS} partitions"
        for name, form, message in (
            ("Metadata of all", everything, MetadataRequest(topics=None)),
            ("DescribeLogDirs of all", everything, DescribeLogDirsRequest(topics=None)),
            (
                "DescribeLogDirs with what the cleaner says",
                everything,
                DescribeLogDirsRequest(topics=None, ottla_cleaner_status=True),
            ),
            ("ListGroups of all", "2 000 groups", ListGroupsRequest()),
            ("ListTransactions of all", "1", ListTransactionsRequest()),
            (
                "OffsetFetch of all",
                f"{BIG_PARTITIONS} offsets, 20 times",
                OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="all-of-big", topics=None),) * 20),
            ),
        ):
            yield name, form, encoded(message), 1
        everywhere = tuple(
            DescribeConfigsResource(resource_type=2, resource_name=f"t{n:07}", configuration_keys=None)
            for n in range(TOPICS)
        )
        asked = DescribeConfigsRequest(resources=everywhere, include_synonyms=True, include_documentation=True)
        yield "DescribeConfigs with documentation, 50 times", f"{TOPICS} topics each", encoded(asked) * 50, 50
        with client(self.bootstrap) as at:
            create_topics(at, {"large": 1})
        with Sender(self.bootstrap) as sender:
            batch = bytes(build_batch([(0, int(time.time() * 1000), b"k", bytes(1_000_000), ())]))
            sender.ask(produce("large", {0: batch}) * 60, 60)
        wanted = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30),)
        fetch = FetchRequest(max_bytes=1 << 30, topics=(FetchTopic(topic="large", partitions=wanted),))
        yield "Fetch of 55 MB, four times", "60 batches of 1 MB", encoded(fetch, 12) * 4, 4

    def batches(self) -> Iterator[tuple[str, str, bytes, int]]:
        with client(self.bootstrap) as at:
            create_topics(at, {f"batches-{codec.name}": 1 for codec in CODECS} | {"hundred": 100})
        raw_bytes = (16 if self.quick else 120) << 20
        for codec in CODECS:
            topic, name = f"batches-{codec.name}", codec.name.lower()
            batch = blocks.frames_of_nothing(codec, 256 << 10)
            yield f"Produce of empty frames, {name}", "256 KiB", produce(topic, {0: batch}), 1
            batch = blocks.frames_of_nothing(codec, 1_000_000)
            yield f"Produce of many empty frames, {name}", "1 MB", produce(topic, {0: batch}), 1
            small_enough = raw_bytes if codec in (Codec.GZIP, Codec.ZSTD) else 12 << 20
            batch = blocks.much_that_unpacks(codec, small_enough)
            yield (
                f"Produce of one record that unpacks, {name}",
                f"{len(batch) / 1e6:.2f} MB, {small_enough >> 20} MiB unpacked",
                produce(topic, {0: batch}),
                1,
            )
            batch, count = blocks.fullest(codec, most=200_000 if self.quick else 2_000_000)
            yield (
                f"Produce of the fullest batch, {name}",
                f"{len(batch) / 1e6:.2f} MB, {count} records",
                produce(topic, {0: batch}),
                1,
            )
            for what, timestamp in (("a time", blocks.MADE_MS + 1), ("the largest time", -3)):
                one = (ListOffsetsPartition(partition_index=0, timestamp=timestamp),)
                asked = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=one),))
                yield f"ListOffsets by {what}, {name}", f"a batch of {count} records", encoded(asked, 7), 1
        batch, count = blocks.fullest(Codec.NONE, most=200_000)
        hundred = {number: batch for number in range(10 if self.quick else 90)}
        yield (
            "Produce of 90 fullest batches",
            f"{len(batch) / 1e6:.2f} MB, {count} records each",
            produce("hundred", hundred),
            1,
        )
        packed, count = blocks.fullest(Codec.ZSTD, at_most_bytes=10_000, most=20_000)
        hundred = {number: packed for number in range(100)}
        yield (
            "Produce of 100 small batches that unpack",
            f"{len(packed)} bytes, {count} records each",
            produce("hundred", hundred),
            1,
        )

    def large_bytes(self) -> Iterator[tuple[str, str, bytes, int]]:
        size = (10 if self.quick else 95) << 20
        join = JoinGroupRequest(
            group_id="large",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            group_instance_id="holds",
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=bytes(size)),),
        )
        yield "JoinGroup with large metadata", f"{size >> 20} MiB", encoded(join, 5), 1
        sync = SyncGroupRequest(
            group_id="large",
            generation_id=1,
            group_instance_id="holds",
            assignments=(SyncGroupRequestAssignment(member_id="holds", assignment=bytes(size)),),
        )
        yield "SyncGroup with a large assignment", f"{size >> 20} MiB", encoded(sync, 3), 1
        yield "Produce of too large a batch", f"{size >> 20} MiB", produce("large", {0: bytes(size)}), 1
        with client(self.bootstrap) as at:
            create_topics(at, {"huge": 1}, max_message_bytes=str(2 * size))
        huge = bytes(build_batch([(0, int(time.time() * 1000), b"k", bytes(size), ())]))
        yield "Produce of a batch of many megabytes", f"{size >> 20} MiB", produce("huge", {0: huge}), 1
        # As many names as fit into a group's metadata.
        names = 200_000 if self.quick else 900_000
        blob = struct.pack(">hi", 0, names) + b"".join(struct.pack(">h7s", 7, b"%07d" % n) for n in range(names))
        join = replace(
            join,
            group_id="named",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=blob + bytes(4)),),
        )
        yield "JoinGroup that names many topics", f"{names}", encoded(join, 5), 1
        for operation, item in ((SET, "a"), (SUBTRACT, "b")):
            config = AlterableConfig(
                name="metric.reporters", config_operation=operation, value=",".join([item] * 16_000)
            )
            cluster = AlterConfigsResource(resource_type=4, resource_name="", configs=(config,))
            changed = IncrementalAlterConfigsRequest(resources=(cluster,), validate_only=False)
            yield f"Operation {operation} on a long list of a config", "16 000 items", encoded(changed), 1
        for option, value in (
            ("cleanup.policy", f"compact{' ' * 32_000}x"),
            ("min.cleanable.dirty.ratio", f"{'1' * 32_000}x"),
        ):
            config = AlterableConfig(name=option, config_operation=SET, value=value)
            topic = AlterConfigsResource(resource_type=2, resource_name="t0000000", configs=(config,))
            changed = IncrementalAlterConfigsRequest(resources=(topic,), validate_only=True)
            yield f"A long value of {option}", "32 KB of white space or digits, refused", encoded(changed), 1
        regex = "|".join(f"t{number}.*x" for number in range(3_000))
        beat = ConsumerGroupHeartbeatRequest(
            group_id="regex",
            member_id="m",
            rebalance_timeout_ms=10_000,
            subscribed_topic_regex=regex,
            topic_partitions=(),
        )
        yield "ConsumerGroupHeartbeat with a large expression", f"{len(regex) >> 10} KiB", encoded(beat), 1


def run(figures: Figures, process: BrokerProcess, pinger: Pinger, world: World, *, quick: bool) -> None:
    specials = Specials(process, pinger, world, quick=quick)
    with Sender(process.bootstrap) as sender:
        for name, form, frames, answers in specials.frames():
            if figures.wants(name):
                figures.measure(name, form, partial(_asked, sender, pinger, frames, answers))
    for name, form, act in (
        ("200 connections with large Metadata", "2 000 names each", lambda: many_at_once(process, pinger, 200, 2_000)),
        ("2 000 connections that come and go", "", lambda: come_and_go(process, pinger, 200 if quick else 2_000)),
        ("4 000 parked fetches that an append wakes", "", lambda: parked(process, pinger, 200 if quick else 4_000)),
        (
            "A fetch session of many partitions",
            f"{SESSION_PARTITIONS}",
            lambda: session(process, pinger, world, quick=quick),
        ),
        ("A leader's SyncGroup for many members", "100 000", lambda: sync_for_many(process, pinger, quick=quick)),
    ):
        if figures.wants(name):
            figures.measure(name, form, act)


def _asked(sender: Sender, pinger: Pinger, frames: bytes, answers: int) -> Hold:
    with pinger.watch() as hold:
        sender.ask(frames, answers)
        time.sleep(AFTERWARDS_S)
    return hold


def _connections(stack: ExitStack, bootstrap: str, count: int) -> list[Sender]:
    return [stack.enter_context(Sender(bootstrap)) for _ in range(count)]


def many_at_once(process: BrokerProcess, pinger: Pinger, connections: int, names: int) -> Hold:
    frame = Shape(Form(APIS[3], 8, ("topics",)), Unknown()).frame(names)
    with ExitStack() as stack:
        senders = _connections(stack, process.bootstrap, connections)
        with pinger.watch() as hold:
            for sender in senders:
                sender.send(frame)
            for sender in senders:
                sender.receive()
    return hold


def come_and_go(process: BrokerProcess, pinger: Pinger, connections: int) -> Hold:
    with pinger.watch() as hold:
        with ExitStack() as stack:
            _connections(stack, process.bootstrap, connections)
        time.sleep(AFTERWARDS_S)
    return hold


def parked(process: BrokerProcess, pinger: Pinger, connections: int) -> Hold:
    wanted = (FetchPartition(partition=0, fetch_offset=60, partition_max_bytes=1 << 20),)
    with client(process.bootstrap) as at:
        asked = ListOffsetsRequest(
            replica_id=-1,
            topics=(
                ListOffsetsTopic(name="t0000000", partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),)),
            ),
        )
        end = at.ask(asked, 7).topics[0].partitions[0].offset
    wanted = (FetchPartition(partition=0, fetch_offset=end, partition_max_bytes=1 << 20),)
    topics = (FetchTopic(topic="t0000000", partitions=wanted),)
    fetch = encoded(FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=topics), 12)
    with ExitStack() as stack:
        senders = _connections(stack, process.bootstrap, connections)
        for sender in senders:
            sender.send(fetch)
        time.sleep(0.5 + connections / 1_000)  # all of them wait then
        with pinger.watch() as hold:
            with Sender(process.bootstrap) as producer:
                producer.ask(produce("t0000000", {0: small_batch()}))
            for sender in senders:
                sender.receive()
    return hold


def session(process: BrokerProcess, pinger: Pinger, world: World, *, quick: bool) -> Hold:
    """Create a session, fetch from it twice, and close it."""
    values = InSession(world)
    frame = Shape(Form(APIS[1], 12, ("topics", "partitions")), values).frame(20_000 if quick else SESSION_PARTITIONS)
    with Sender(process.bootstrap) as sender, pinger.watch() as hold:
        sender.send(frame)
        session_id = struct.unpack_from(">i", sender.receive(keep=15), 11)[0]
        for epoch in (1, 2):
            asked = FetchRequest(session_id=session_id, session_epoch=epoch)
            sender.ask(encoded(asked, 12))
        sender.ask(encoded(FetchRequest(session_id=session_id, session_epoch=-1), 12))
        time.sleep(AFTERWARDS_S)
    return hold


class InSession(Unknown):
    """A full fetch that wants a session."""

    def __init__(self, world: World) -> None:
        self._world = world

    def of(self, form: Any, cls: Any, field: Any, *, in_cell: bool) -> Any:
        return 0 if field.name == "session_epoch" else super().of(form, cls, field, in_cell=in_cell)


def sync_for_many(process: BrokerProcess, pinger: Pinger, *, quick: bool) -> Hold:
    """Send a leader's SyncGroup request with assignments for many members, none of which is in the group."""
    group_id = f"synced-{time.monotonic_ns()}"
    with client(process.bootstrap) as at:
        joined = at.ask(
            JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                group_instance_id="holds",
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(name="range", metadata=b"\0\0"),),
            ),
            5,
        )
        assignments = tuple(
            SyncGroupRequestAssignment(member_id=f"m{number}", assignment=bytes(100))
            for number in range(10_000 if quick else 100_000)
        )
        frame = encoded(
            SyncGroupRequest(
                group_id=group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id="holds",
                assignments=assignments,
            ),
            3,
        )
    with Sender(process.bootstrap) as sender:
        return _asked(sender, pinger, frame, 1)
