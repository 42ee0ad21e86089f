"""What an open log is made of: where it lies, what is there, and what its last stop said of it."""

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
    """Where one partition's files are."""

    files: Files
    directory: str
    topic_partition: TopicPartition
    topic_id: bytes | None = None
    """As its directory tells; None if that says nothing."""
    health: Health = field(default_factory=Health)
    """Shared by the logs of a data directory."""


class LastStop(NamedTuple):
    """What checkpoints, and the mark of a clean stop, say of a log that is to be opened; of a new one nothing."""

    is_clean: bool = False
    """The directory was closed properly, and nothing has touched it since."""
    recovery_point: int = 0
    """From the checkpoint: everything below is known to be on disk."""
    log_start_offset: int = 0
    """From the checkpoint; the first segment's base if that is higher."""
    stopped: StoppedLog = StoppedLog()
    """What its files were like then, if that is known."""


class LogContents(NamedTuple):
    """What the files hold, found out by `recovery`, or by who only reads."""

    segments: Sequence[LogSegment]
    """At least one; the last is the active one."""
    producers: ProducerStates
    leader_epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    """Everything below it survives a power loss, the indexes of whole segments below it included."""
    is_on_disk: bool = True
    """Whether there is a directory with a log file; see `DurableLog.make`."""
