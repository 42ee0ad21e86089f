"""Dependencies of every coordinator: topics, logs and appends, the options, the clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from ...storage.data_dirs.manager import LogManager
from ..cluster.nodes import Node
from ..config.live_config import LiveConfig
from ..partitions.appends import Appends
from ..partitions.topics import Topic, Topics
from ..runtime.clock import Clock


class CoordinatorDeps(NamedTuple):
    """Dependencies of the coordinators of one broker."""

    clock: Clock
    config: LiveConfig
    nodes: Sequence[Node]
    topics: Topics
    logs: LogManager
    appends: Appends
    ensure_topic: Callable[[str], Awaitable[Topic]]
    """Return the internal topic of this name, and create it if it does not exist. Raises KafkaError."""
    create_topic: Callable[[str, Mapping[str, str]], Awaitable[Topic]]
    """Create a topic with these options, and the broker's numbers of partitions and replicas. Raises KafkaError."""
