"""Advice on a topic's compaction settings: what today's cost, and those that reach a goal."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import trio

from ...storage.advice.advising import Costs, Goals
from ...storage.advice.directories import FoundLog, FoundTopic, find_topic
from ...storage.advice.measuring import LogMeasuring
from ...storage.advice.simulating import CLEANED_BYTES_PER_S, CleanerSettings
from ...storage.advice.summary import Summary
from ...storage.advice.topic_advice import (
    Measured,
    NothingToSimulateError,
    TopicAdvice,
    chosen_logs,
    measured_topic,
    topic_advice,
)
from ...storage.disk.health import DataDirectoryError
from ...storage.segment.batch_scan import UNREADABLE
from ...storage.topics.config import LogConfig
from ..broker.broker import Broker
from ..runtime.errors import ControlError, Kind
from ..runtime.threads import Worker, in_worker, search
from .operation import Range, TopicName, operation
from .partitions import logs_of

ATTEMPTS = 3
"""Number of times that a log is measured, if passes replace its segments each time."""
_Bound = Annotated[int, Range(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedSettings:
    """Options, and what they cost."""

    changes: dict[str, str]
    """Options that differ from today's."""
    costs: Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceState:
    """Costs of compaction for a topic, predicted for 30 days."""

    topic: str
    partitions: int
    is_reached: bool
    """Whether the nearest settings reach all goals."""
    today: AdvisedSettings
    nearest: AdvisedSettings
    """The settings that reach the goals with the least work of the cleaner; else those that come nearest."""
    misses: tuple[str, ...]
    """A sentence for each goal that is not reached."""
    notes: tuple[str, ...]
    """Sentences to read before the numbers."""

    @classmethod
    def from_advice(cls, measured: Measured, found: TopicAdvice) -> AdviceState:
        today, nearest = (
            AdvisedSettings(changes=dict(each.changes), costs=each.costs)
            for each in (found.advice.today, found.advice.nearest)
        )
        return cls(
            topic=measured.topic,
            partitions=measured.partitions,
            is_reached=found.advice.advised is not None,
            today=today,
            nearest=nearest,
            misses=tuple(found.misses),
            notes=tuple(found.notes),
        )


@operation("GET", "/v1/topics/{topic}/advice", statuses=(404, 409, 500), only_waits=True)
async def advice(
    broker: Broker,
    topic: TopicName,
    *,
    erase_within_ms: _Bound | None = None,
    disk_below_bytes: _Bound | None = None,
    bootstrap_below_bytes: _Bound | None = None,
    cleaner_below_bytes_per_s: _Bound | None = None,
) -> AdviceState:
    """Show what compaction costs a topic, and the settings that reach a goal, as `ottla advise` does.

    Each call reads the topic, or 32 of its partitions, and then simulates for some seconds. It changes nothing.

    Args:
        erase_within_ms: Longest time that a superseded value can be read.
        disk_below_bytes: Largest size of the logs.
        bootstrap_below_bytes: Mean size that a new reader has to read.
        cleaner_below_bytes_per_s: Bytes a second that the cleaner reads and writes.

    Raises:
        ControlError: NOT_FOUND: topic not found; CONFLICT: the topic is not compacted, has no record with a timestamp, or changed
            during each of the measurements; FAILED: a log cannot be read.
    """
    config = logs_of(broker, topic)[0].config
    if not config.is_compact:
        policy = ",".join(config.cleanup_policy)
        raise ControlError(Kind.CONFLICT, f"topic {topic} is not compacted: cleanup.policy is {policy or 'empty'}")
    goals = Goals(erase_within_ms, disk_below_bytes, bootstrap_below_bytes, cleaner_below_bytes_per_s)
    try:
        measured = await _measure(broker, topic, config)
        found = await in_worker(partial(_advise, measured), goals, Worker.ADVICE)
    except NothingToSimulateError as error:
        raise ControlError(Kind.CONFLICT, str(error)) from error
    except (DataDirectoryError, OSError) as error:
        raise ControlError(Kind.FAILED, f"topic {topic} cannot be read: {error}") from error
    return AdviceState.from_advice(measured, found)


def _advise(measured: Measured, goals: Goals) -> TopicAdvice:
    # Ends the thread's work soon after the client has disconnected.
    return topic_advice(measured, goals, lambda number: trio.from_thread.check_cancelled())


async def _measure(broker: Broker, topic: str, config: LogConfig) -> Measured:
    current = broker.config.current
    found = await in_worker(partial(_find, broker, topic), None, Worker.ADVICE)
    weights = [log.size_bytes for log in found.logs]
    logs = [(found.logs[at].of, await _summary(broker, found.logs[at], config)) for at in chosen_logs(weights)]
    cleaner = CleanerSettings(
        threads=current.log_cleaner_threads,
        dedupe_buffer_bytes=current.log_cleaner_dedupe_buffer_size,
        load_factor=current.log_cleaner_io_buffer_load_factor,
        bytes_per_s=min(CLEANED_BYTES_PER_S, max(1.0, current.log_cleaner_io_max_bytes_per_second)),
        backoff_ms=max(1, current.log_cleaner_backoff_ms),
    )
    return measured_topic(topic, logs, weights, config, cleaner)


def _find(broker: Broker, topic: str, _: None) -> FoundTopic:
    return find_topic(broker.files, broker.config.current.data_dirs, topic)


async def _summary(broker: Broker, log: FoundLog, config: LogConfig) -> Summary:
    for _ in range(ATTEMPTS):
        measuring = LogMeasuring(
            broker.files,
            log.directory,
            config,
            clean_below=log.clean_below,
            log_start_offset=log.log_start_offset,
            now_ms=broker.clock.now_ms(),
            secret=os.urandom(16),
        )
        try:
            return await search(os.path.dirname(log.directory), measuring.steps())
        except FileNotFoundError:
            continue
        except UNREADABLE as error:
            raise ControlError(Kind.FAILED, f"{log.of} cannot be read: {error.message}") from error
    raise ControlError(Kind.CONFLICT, f"{log.of} has changed during each of {ATTEMPTS} measurements; retry")
