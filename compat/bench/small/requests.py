"""The measured requests, as frames, and the position of the error code in their answers."""

import random
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ottla.protocol.apis import APIS
from ottla.protocol.connection import encode_request, parse_response
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.wire import ZERO_UUID

from ...support.brokers.process import BrokerProcess
from ...support.clients.one_batch import one_record_batch
from ...support.clients.raw import RawConnection, frame, produce_body, produce_result
from ...support.clients.steps import create_topic
from ..checkouts.kinds import batch

WRITTEN, READ, READ_IN_BATCHES = "written", "read", "read-in-batches"
PRODUCE, FETCH, METADATA = (0, 7), (1, 4), (3, 12)
NOT_THERE_YET = (3, 6)
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER: of a topic that was made a moment ago."""
READ_BYTES, LARGE_BYTES = 4_000, 900_000
BATCHES = 20
LATER_BATCHES = 1_000
"""The number of batches after the read ones, so that the broker does not remember the read ones as the newest."""
VERSIONS = (4, 11, 12, 13, 14, 15, 16, 17, 18)
"""Versions of the fetches over many batches."""
SESSIONS_SINCE, FLEXIBLE_SINCE, TOPIC_IDS_SINCE = 7, 12, 13
SOME_SESSION = 0x5E551045
RECORD_OVERHEAD_BYTES = 70
"""The approximate size of a batch with one record, without its value."""
FRAME_BYTES = struct.calcsize(">ii")
"""The size of an answer's header: its size and correlation id."""


@dataclass(frozen=True)
class InSession:
    """The request of a fetch session that follows its first one."""

    frame: bytes
    session_at: int
    """The position of the session's id in the frame; its epoch follows."""


@dataclass(frozen=True)
class Asked:
    frame: bytes
    error_at: int
    """The position of the error code in an answer, its size field included."""
    in_session: InSession | None = None


def prepare(
    broker: BrokerProcess, make_topic: Callable[[str], None] | None = None, *, is_large: bool = False
) -> dict[str, Asked]:
    """Create the topics and the records to read; return the requests by name.

    Args:
        make_topic: Creates topics on a broker that has no CreateTopics.
        is_large: Whether the batches have LARGE_BYTES.
    """
    for topic in (WRITTEN, READ):
        if make_topic is None:
            create_topic(broker.bootstrap, topic)
        else:
            make_topic(topic)
    if is_large:
        written = read = bytes(batch(LARGE_BYTES // 1_000, 1_000))
    else:
        written, read = (one_record_batch(random.Random(size).randbytes(size)) for size in (100, READ_BYTES))
    with RawConnection("127.0.0.1", broker.port) as connection:
        for topic, records in ((WRITTEN, written), (READ, read)):
            filling = produce_body(topic, 0, records)
            while (error_code := produce_result(connection.request(*PRODUCE, filling), topic)[0]) in NOT_THERE_YET:
                time.sleep(0.05)
            if error_code:
                raise RuntimeError(f"preparing ended with error {error_code}")
    rows_bytes = struct.calcsize(">iiih")  # how many topics, how many partitions, the partition, the length of the name
    return {
        "produce 900 KB" if is_large else "produce 100 B": Asked(
            frame(*PRODUCE, 1, produce_body(WRITTEN, 0, written)), FRAME_BYTES + rows_bytes + len(WRITTEN)
        ),
        "fetch 900 KB" if is_large else "fetch 4 KB": Asked(
            frame(*FETCH, 1, fetch_body(LARGE_BYTES if is_large else READ_BYTES)),
            FRAME_BYTES + 4 + rows_bytes + len(READ),
        ),
    }


def fetch_body(limit_bytes: int) -> bytes:
    """Return the body of a Fetch 4, from the start of the only partition."""
    name = READ.encode()
    return (
        struct.pack(">iiiib", -1, 500, 1, 1 << 20, 0)
        + struct.pack(f">ih{len(name)}s", 1, len(name), name)
        + struct.pack(">iiqi", 1, 0, 0, limit_bytes)
    )


def prepare_fetches(broker: BrokerProcess, versions: Sequence[int]) -> dict[str, Asked]:
    """Prepare fetches of 4 KB, BATCHES batches in an older part of the log, by version; from 7 on also in a session."""
    create_topic(broker.bootstrap, READ_IN_BATCHES)
    value = random.Random(3).randbytes(READ_BYTES // BATCHES - RECORD_OVERHEAD_BYTES)
    one = one_record_batch(value)
    with RawConnection("127.0.0.1", broker.port) as connection:
        for _ in range(BATCHES + LATER_BATCHES):
            error_code = NOT_THERE_YET[0]
            while error_code in NOT_THERE_YET:
                error_code = produce_result(
                    connection.request(*PRODUCE, produce_body(READ_IN_BATCHES, 0, one)), READ_IN_BATCHES
                )[0]
            if error_code:
                raise RuntimeError(f"preparing ended with error {error_code}")
        topic_id = topic_id_of(connection, READ_IN_BATCHES)
        asks: dict[str, Asked] = {}
        for version in versions:
            for has_session in (False, True) if version >= SESSIONS_SINCE else (False,):
                asked = fetch_of_batches(version, topic_id, has_session=has_session)
                check_batches(connection, version, asked.frame)
                asks[f"fetch of {BATCHES} batches, v{version}{', session' if has_session else ''}"] = asked
    return asks


def fetch_of_batches(version: int, topic_id: bytes, *, has_session: bool) -> Asked:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=READ_BYTES)
    topic_name, named_id = ("", topic_id) if version >= TOPIC_IDS_SINCE else (READ_IN_BATCHES, ZERO_UUID)
    topic = FetchTopic(partitions=(partition,), topic=topic_name, topic_id=named_id)
    request = partial(FetchRequest, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20)
    first = encode_fetch(version, request(session_epoch=0 if has_session else -1, topics=(topic,)))
    if version < SESSIONS_SINCE:
        rows_bytes = struct.calcsize(">iiih") + len(READ_IN_BATCHES)
        return Asked(first, FRAME_BYTES + 4 + rows_bytes)
    error_at = FRAME_BYTES + (version >= FLEXIBLE_SINCE) + 4
    if not has_session:
        return Asked(first, error_at)
    following = encode_fetch(version, request(session_id=SOME_SESSION, session_epoch=1))
    return Asked(first, error_at, InSession(following, following.index(struct.pack(">i", SOME_SESSION))))


def encode_fetch(version: int, body: FetchRequest) -> bytes:
    return encode_request(APIS[FETCH[0]], version, 1, "compat", body)


def check_batches(connection: RawConnection, version: int, frame: bytes) -> None:
    """Check that the answer has the batches."""
    connection.socket.sendall(frame)
    _, answer = parse_response(APIS[FETCH[0]], version, connection.read_frame())
    records = answer.responses[0].partitions[0].records
    if not READ_BYTES * 3 // 4 < len(records) <= READ_BYTES:
        raise RuntimeError(f"Fetch {version} of {READ_BYTES} bytes was given {len(records)}")


def topic_id_of(connection: RawConnection, topic: str) -> bytes:
    api, version = APIS[METADATA[0]], METADATA[1]
    body = MetadataRequest(topics=(MetadataRequestTopic(name=topic),))
    connection.socket.sendall(encode_request(api, version, 1, "compat", body))
    topic_id: bytes = parse_response(api, version, connection.read_frame())[1].topics[0].topic_id
    return topic_id
