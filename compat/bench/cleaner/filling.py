"""The logs of the bench as a client sends them: into a compacted topic of a broker that serves, over a bare socket."""

import time
from collections.abc import Iterable, Iterator

from ...support.brokers.process import BrokerProcess
from ...support.clients.raw import RawConnection, produce_body, produce_result
from ...support.clients.steps import create_topic, set_topic_configs
from .generate import batches_of
from .shapes import Shape

SEGMENT_BYTES = 16 << 20
NOT_THERE_YET = (3, 6)
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER: Apache Kafka's answers for a moment after a topic was made."""


def client_batches(shape: Shape, raw_bytes: int) -> Iterator[bytes]:
    """Yield the batches of such a log with base offset 0, as clients send them."""
    for batch, _, _ in batches_of(shape, raw_bytes, int(time.time() * 1000)):
        yield bytes(8) + batch[8:]


def fill_topic(broker: BrokerProcess, topic: str, batches: Iterable[bytes]) -> None:
    """Make a compacted topic with one partition, and produce one batch a request to it; then let the cleaner at it.

    Until then a ratio of 1.0 holds the cleaner back: no log is dirtier than that.
    """
    create_topic(
        broker.bootstrap,
        topic,
        cleanup_policy="compact",
        segment_bytes=str(SEGMENT_BYTES),
        min_cleanable_dirty_ratio="1.0",
    )
    with RawConnection("127.0.0.1", broker.port) as connection:
        for batch in batches:
            body = produce_body(topic, 0, batch)
            while (error_code := produce_result(connection.request(0, 3, body), topic)[0]) in NOT_THERE_YET:
                time.sleep(0.05)
            if error_code:
                raise RuntimeError(f"produce failed with error {error_code}")
    set_topic_configs(broker.bootstrap, topic, min_cleanable_dirty_ratio="0")
