"""Waiting for a broker's cleaner, of either kind: both write the same checkpoint file."""

import time

from .process import BrokerProcess
from .segment_files import base_offset, cleaner_checkpoint, segments


def wait_until_cleaned(broker: BrokerProcess, *topics: str, timeout_s: float = 60) -> None:
    """Until the cleaner has gone up to the active segment of partition 0 of each topic, which must not be the first.

    Raises:
        TimeoutError: It did not.
    """
    deadline = time.monotonic() + timeout_s
    for topic in topics:
        while not _is_cleaned(broker, topic):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the cleaner did not come to the active segment of {topic}")
            time.sleep(0.2)


def _is_cleaned(broker: BrokerProcess, topic: str) -> bool:
    active = base_offset(segments(broker.partition_dir(topic))[-1])
    return (cleaner_checkpoint(broker.data, topic) or 0) >= active > 0
