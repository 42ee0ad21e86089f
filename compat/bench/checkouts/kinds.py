"""The requests that are measured, as the frames that both sides get, made once."""

import itertools
import time
from collections.abc import Iterator
from typing import Any

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.connection import encode_request, parse_response
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.server.client.connection import api_of

from ...support.clients.raw import RawConnection

TOPICS = tuple(f"topic-{number:03}" for number in range(100))
WRITTEN, READ = "written", "read"
READ_BYTES = 4_000

VERSIONS = {"Metadata": 12, "ApiVersions": 3, "Produce": 9, "Fetch": 12, "CreateTopics": 7}
"""Flexible ones that have topics by name, so that a frame fits both sides."""


def kinds() -> dict[str, bytes]:
    """Return the frame of each kind of request, by name."""
    return {
        "ApiVersions": frame(ApiVersionsRequest(client_software_name="compat", client_software_version="1")),
        "Metadata of 1 topic": frame(metadata(TOPICS[:1])),
        "Metadata of 100 topics": frame(metadata(TOPICS)),
        "produce 1 record of 100 B": frame(produce(WRITTEN, batch(1, 100))),
        "produce 100 records of 100 B": frame(produce(WRITTEN, batch(100, 100))),
        "fetch 4 KB": frame(fetch()),
    }


def prepare(connection: RawConnection) -> None:
    """Create the topics, and the records to read."""
    made = tuple(CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in (*TOPICS, WRITTEN, READ))
    answer = ask(connection, CreateTopicsRequest(topics=made, timeout_ms=30_000))
    errors = {topic.error_code for topic in answer.topics}
    (topic,) = ask(connection, produce(READ, batch(1, READ_BYTES))).responses
    errors |= {partition.error_code for partition in topic.partition_responses}
    if errors != {0}:
        raise RuntimeError(f"preparing ended with errors {errors}")


def ask(connection: RawConnection, message: Any) -> Any:
    connection.socket.sendall(frame(message))
    api = api_of(message)
    return parse_response(api, VERSIONS[api.name], connection.read_frame())[1]


def repeat(connection: RawConnection, request: bytes, times: int) -> None:
    """Send the request `times` times, one after the other, and ignore the answers."""
    for _ in range(times):
        connection.socket.sendall(request)
        connection.read_frame()


def frame(message: Any) -> bytes:
    api = api_of(message)
    return encode_request(api, VERSIONS[api.name], 1, "compat", message)


def metadata(names: tuple[str, ...]) -> MetadataRequest:
    topics = tuple(MetadataRequestTopic(name=name) for name in names)
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def produce(topic: str, records: bytearray) -> ProduceRequest:
    partitions = (PartitionProduceData(index=0, records=records),)
    return ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=(TopicProduceData(name=topic, partition_data=partitions),)
    )


def fetch() -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=READ_BYTES)
    topics = (FetchTopic(topic=READ, partitions=(partition,)),)
    return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=topics)


def batch(records: int, value_bytes: int) -> bytearray:
    timestamps: Iterator[int] = itertools.count(
        time.time_ns() // 10**6
    )  # older records would be deleted during the run
    value = bytes(range(100)) * (value_bytes // 100)
    return build_batch([(number, next(timestamps), b"key-%05d" % number, value, ()) for number in range(records)])
