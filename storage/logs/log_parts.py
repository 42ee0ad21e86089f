"""Parts of an open log: its place, its contents, and what is known of its last stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..disk.files import Files
from ..disk.health import Health
from ..disk.paths import TopicPartition
from ..produce.producers import ProducerStates
from ..segment.leader_epochs import LeaderEpochs
from ..segment.segment import LogSegment
from .stopped_log import StoppedLog


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Place of one partition's files."""

    files: Files
    directory: str
    topic_partition: TopicPartition
    topic_id: bytes | None = None
    """Topic ID as in the directory's `partition.metadata`; None if it has none."""
    health: Health = field(default_factory=Health)
    """Health of the data directory, shared by its logs."""


class ShutdownState(NamedTuple):
    """Checkpoints, and the mark of a clean stop, for a log that will be opened; the defaults are those of a new log."""

    is_clean: bool = False
    """Whether the directory was closed properly, and nothing has touched it since."""
    recovery_point: int = 0
    """Offset from the checkpoint: everything below is known to be on disk."""
    log_start_offset: int = 0
    """Offset from the checkpoint; the first segment's base if that is higher."""
    stopped: StoppedLog = StoppedLog()
    """Sizes and CRCs of its files at the stop, if known."""


class LogContents(NamedTuple):
    """Contents of a log's files, as found by `recovery` or by a tool that only reads."""

    segments: Sequence[LogSegment]
    """Segments, at least one; the last is the active one."""
    producers: ProducerStates
    leader_epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    """Everything below it survives a power loss, the indexes of whole segments below it included."""
    is_on_disk: bool = True
    """Whether the log has a directory with a log file; see `DurableLog.make`."""
