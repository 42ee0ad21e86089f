"""The two requests that are measured, as frames, and where in their answers the error code stands."""

import random
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...support.brokers.process import BrokerProcess
from ...support.clients.one_batch import one_record_batch
from ...support.clients.raw import RawConnection, frame, produce_body, produce_result
from ...support.clients.steps import create_topic

WRITTEN, READ = "written", "read"
PRODUCE, FETCH = (0, 7), (1, 4)
NOT_THERE_YET = (3, 6)
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER: of a topic that was made a moment ago."""
READ_BYTES = 4_000
FRAME_BYTES = struct.calcsize(">ii")
"""Before the body of an answer: its size and correlation id."""


@dataclass(frozen=True)
class Asked:
    frame: bytes
    error_at: int
    """The byte of an answer at which its error code stands, size included."""


def prepare(broker: BrokerProcess, make_topic: Callable[[str], None] | None = None) -> dict[str, Asked]:
    """Make the topics, by `make_topic` where a broker has no CreateTopics, and what is read of them; the requests, by what
    they are called."""
    for topic in (WRITTEN, READ):
        if make_topic is None:
            create_topic(broker.bootstrap, topic)
        else:
            make_topic(topic)
    written = one_record_batch(random.Random(1).randbytes(100))
    with RawConnection("127.0.0.1", broker.port) as connection:
        for topic, records in ((WRITTEN, written), (READ, one_record_batch(random.Random(2).randbytes(READ_BYTES)))):
            filling = produce_body(topic, 0, records)
            while (error_code := produce_result(connection.request(*PRODUCE, filling), topic)[0]) in NOT_THERE_YET:
                time.sleep(0.05)
            if error_code:
                raise RuntimeError(f"preparing ended with error {error_code}")
    rows_bytes = struct.calcsize(">iiih")  # how many topics, how many partitions, the partition, the length of the name
    return {
        "produce 100 B": Asked(
            frame(*PRODUCE, 1, produce_body(WRITTEN, 0, written)), FRAME_BYTES + rows_bytes + len(WRITTEN)
        ),
        "fetch 4 KB": Asked(frame(*FETCH, 1, fetch_body()), FRAME_BYTES + 4 + rows_bytes + len(READ)),
    }


def fetch_body() -> bytes:
    """Of Fetch 4, from the beginning of the only partition."""
    name = READ.encode()
    return (
        struct.pack(">iiiib", -1, 500, 1, 1 << 20, 0)
        + struct.pack(f">ih{len(name)}s", 1, len(name), name)
        + struct.pack(">iiqi", 1, 0, 0, READ_BYTES)
    )
