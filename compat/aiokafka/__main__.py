"""aiokafka at work: produce in every codec, read, groups, idempotence, offsets by time, admin.

aiokafka asks in old request versions (ApiVersions 0, Produce 7, Fetch 11, JoinGroup 5 …) that the other clients no
longer use, so it judges a different part of the broker.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

from ..support.brokers.any_broker import any_broker
from ..support.clients.steps import CODECS
from ..support.suite import Options, Suite, run_suite

BROKER = {"num.partitions": "2", "group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
RECORDS = 500


def body(suite: Suite, options: Options) -> None:
    with any_broker(options, BROKER) as broker:
        for part in PARTS:
            asyncio.run(run_part(suite, part, broker.bootstrap))


async def run_part(suite: Suite, part: Callable[[Suite, str], Awaitable[None]], bootstrap: str) -> None:
    what = (part.__doc__ or part.__name__).splitlines()[0]
    try:
        await asyncio.wait_for(part(suite, bootstrap), 60)
    except Exception as error:  # noqa: BLE001 - one part's failure must not hide the others' results
        suite.check(what, False, f"{type(error).__name__}: {error}")


async def codecs_survive(suite: Suite, bootstrap: str) -> None:
    """Records, keys, headers and timestamps are read as they were sent, in every codec."""
    for codec in CODECS:
        topic = f"codec-{codec}"
        sent = [(b"key-%d" % n, b"value-%d " % n * 20, 1_700_000_000_000 + n) for n in range(RECORDS)]
        compression = None if codec == "none" else codec
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=5) as producer:
            futures = [
                await producer.send(topic, value, key, 0, time_ms, headers=[("h", b"%d" % n)])
                for n, (key, value, time_ms) in enumerate(sent)
            ]
            offsets = [(await future).offset for future in futures]
        suite.equal(f"{codec}: offsets are given in order", list(range(RECORDS)), offsets)
        got = await read(bootstrap, topic, RECORDS)
        seen = [(record.key, record.value, record.timestamp) for record in got]
        suite.equal(f"{codec}: keys, values and timestamps", sent, seen)
        suite.equal(f"{codec}: headers", [(("h", b"%d" % n),) for n in range(RECORDS)], [r.headers for r in got])


async def read(bootstrap: str, topic: str, count: int) -> list[Any]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        records: list[Any] = []
        while len(records) < count:
            records += [r for batch in (await consumer.getmany(timeout_ms=1000)).values() for r in batch]
        return records
    finally:
        await consumer.stop()


async def idempotent_producer(suite: Suite, bootstrap: str) -> None:
    """An idempotent producer writes each record once."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        for n in range(50):
            await producer.send_and_wait("idempotent", b"%d" % n, partition=0)
    values = [record.value for record in await read(bootstrap, "idempotent", 50)]
    suite.equal("idempotent: each record once, in order", [b"%d" % n for n in range(50)], values)


async def acks_zero(suite: Suite, bootstrap: str) -> None:
    """Records sent with acks=0 arrive."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks=0) as producer:
        for n in range(50):
            await producer.send("acks-zero", b"%d" % n, partition=0)
        await producer.flush()
    suite.equal("acks=0: all arrived", 50, len(await read(bootstrap, "acks-zero", 50)))


async def too_large(suite: Suite, bootstrap: str) -> None:
    """The broker refuses a record above max.message.bytes, and the connection stays usable."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, max_request_size=3_000_000) as producer:
        try:
            await producer.send_and_wait("large", bytes(2_000_000), partition=0)
            refused = "accepted"
        except MessageSizeTooLargeError as error:
            refused = type(error).__name__
        after = await producer.send_and_wait("large", b"small", partition=0)
    suite.equal("too large: refused with its own error", "MessageSizeTooLargeError", refused)
    suite.equal("too large: the next record gets offset 0", 0, after.offset)


async def groups(suite: Suite, bootstrap: str) -> None:
    """Two members share four partitions; when one leaves, the other continues at the committed offsets."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic("shared", 4, 1)])
    first, second = [
        AIOKafkaConsumer(
            "shared",
            bootstrap_servers=bootstrap,
            group_id="sharers",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=3000,
            heartbeat_interval_ms=300,
        )
        for _ in range(2)
    ]
    await first.start()
    await second.start()
    seen: list[bytes] = []

    async def poll_both_until(done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not done() and time.monotonic() < deadline:
            for consumer in (first, second):
                batches = await consumer.getmany(timeout_ms=100)
                seen.extend(record.value for records in batches.values() for record in records)

    await poll_both_until(lambda: len(first.assignment()) == 2 and len(second.assignment()) == 2)
    suite.equal("groups: two partitions each", (2, 2), (len(first.assignment()), len(second.assignment())))
    suite.equal("groups: no partition twice", set(), first.assignment() & second.assignment())
    await fill(bootstrap, "shared", 4, 25)
    await poll_both_until(lambda: len(seen) >= 100)
    suite.equal("groups: all records were seen once", (100, 100), (len(seen), len(set(seen))))
    await first.commit()
    await second.commit()
    await second.stop()
    seen.clear()
    await fill(bootstrap, "shared", 4, 5, start=100)
    deadline = time.monotonic() + 30
    # Records read between the fill and the rebalance are delivered again after it: they were not committed.
    while len(set(seen)) < 20 and time.monotonic() < deadline:
        batches = await first.getmany(timeout_ms=200)
        seen.extend(record.value for records in batches.values() for record in records)
    suite.equal("groups: the one left has all four partitions", 4, len(first.assignment()))
    behind = {b"%d-%d" % (partition, n) for partition in range(4) for n in range(100, 105)}
    suite.equal("groups: and continues after the commit", behind, set(seen))
    await first.stop()


async def fill(bootstrap: str, topic: str, partitions: int, each: int, start: int = 0) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for partition in range(partitions):
            for n in range(each):
                await producer.send_and_wait(topic, b"%d-%d" % (partition, start + n), partition=partition)


async def offsets(suite: Suite, bootstrap: str) -> None:
    """Offsets by time, first and last offsets, seeking, and the committed offsets of a second consumer."""
    partition = TopicPartition("by-time", 0)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for n in range(10):
            await producer.send_and_wait("by-time", b"%d" % n, partition=0, timestamp_ms=1_700_000_000_000 + 1000 * n)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id="by-time", enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([partition])
        found = (await consumer.offsets_for_times({partition: 1_700_000_004_500}))[partition]
        suite.equal("offsets: first record at or after a time", (5, 1_700_000_005_000), (found.offset, found.timestamp))
        late = (await consumer.offsets_for_times({partition: 1_800_000_000_000}))[partition]
        suite.equal("offsets: none after the last", None, late)
        suite.equal("offsets: beginning", {partition: 0}, await consumer.beginning_offsets([partition]))
        suite.equal("offsets: end", {partition: 10}, await consumer.end_offsets([partition]))
        consumer.seek(partition, 7)
        suite.equal("offsets: seek", b"7", (await asyncio.wait_for(consumer.getone(), 10)).value)
        await consumer.commit({partition: (8, "note")})
        suite.equal("offsets: committed", 8, await consumer.committed(partition))
    finally:
        await consumer.stop()


class Admin:
    """AIOKafkaAdminClient as a context manager."""

    def __init__(self, bootstrap: str) -> None:
        self.client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)

    async def __aenter__(self) -> AIOKafkaAdminClient:
        await self.client.start()
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()


async def administration(suite: Suite, bootstrap: str) -> None:
    """Topics, partitions, configs, groups through the admin client."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic("made", 3, 1, topic_configs={"cleanup.policy": "compact"})])
        suite.check("admin: the topic is listed", "made" in await admin.list_topics())
        again = await admin.create_topics([NewTopic("made", 3, 1)])
        suite.equal("admin: twice is an error", TopicAlreadyExistsError.errno, again.topic_errors[0][1])
        (described,) = await admin.describe_topics(["made"])
        suite.equal("admin: three partitions", 3, len(described["partitions"]))
        await admin.create_partitions({"made": NewPartitions(5)})
        (described,) = await admin.describe_topics(["made"])
        suite.equal("admin: five after create_partitions", 5, len(described["partitions"]))
        resource = ConfigResource(ConfigResourceType.TOPIC, "made", {"cleanup.policy": None})
        (answer,) = await admin.describe_configs([resource])
        suite.equal("admin: cleanup.policy", "compact", answer.resources[0][4][0][1])
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "made", {"retention.ms": "1000"})])
        resource = ConfigResource(ConfigResourceType.TOPIC, "made", {"retention.ms": None})
        (answer,) = await admin.describe_configs([resource])
        suite.equal("admin: retention.ms altered", "1000", answer.resources[0][4][0][1])
        groups = [name for name, *_ in await admin.list_consumer_groups()]
        suite.check("admin: the group is listed", "sharers" in groups, groups)
        found = await admin.list_consumer_group_offsets("by-time")
        suite.equal("admin: its offset", 8, found[TopicPartition("by-time", 0)].offset)
        await admin.delete_topics(["made"])
        suite.check("admin: the topic is deleted", "made" not in await admin.list_topics())
        gone = await admin.delete_topics(["made"])
        suite.equal("admin: twice is an error", UnknownTopicOrPartitionError.errno, gone.topic_error_codes[0][1])


PARTS = (codecs_survive, idempotent_producer, acks_zero, too_large, groups, offsets, administration)

if __name__ == "__main__":
    sys.exit(run_suite("aiokafka", body, doc=__doc__))
