"""Waiting for a broker's cleaner, of either kind: both write the same checkpoint file."""

import itertools
import time

from ..logs.segment_files import base_offset, cleaner_checkpoint, segments
from .process import BrokerProcess


def wait_until_cleaned(broker: BrokerProcess, *topics: str, partitions: int = 1, timeout_s: float = 60) -> None:
    """Wait until the cleaner has reached the active segment of each partition of each topic, which must not be the first.

    Raises:
        TimeoutError: It did not.
    """
    deadline = time.monotonic() + timeout_s
    for topic, partition in itertools.product(topics, range(partitions)):
        while not _is_cleaned(broker, topic, partition):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the cleaner did not come to the active segment of {topic}-{partition}")
            time.sleep(0.2)


def _is_cleaned(broker: BrokerProcess, topic: str, partition: int) -> bool:
    active = base_offset(segments(broker.partition_dir(topic, partition))[-1])
    return (cleaner_checkpoint(broker.data, topic, partition) or 0) >= active > 0
