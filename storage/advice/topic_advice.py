"""Advice for a topic of several logs, from their measurement to the sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..disk.paths import TopicPartition
from ..topics.config import LogConfig
from .advising import Advice, Goals, advise, spread
from .notes import load_notes, miss_text, notes
from .simulating import CleanerSettings
from .summary import Summary

LOGS_MAX = 32
"""Logs that are measured: the largest, and others of all sizes."""


class NothingToSimulateError(ValueError):
    """The topic has no records with a timestamp."""


class Measured(NamedTuple):
    """The measured logs of a topic."""

    topic: str
    logs: list[tuple[TopicPartition, Summary]]
    partitions: int
    config: LogConfig
    cleaner: CleanerSettings
    scale: float
    """The size of all logs, as a multiple of that of the measured ones."""
    notes: list[str]

    def total(self, name: str) -> float:
        """Return the sum of a field over all logs."""
        return float(self.scale * sum(getattr(summary, name) for _, summary in self.logs))


class TopicAdvice(NamedTuple):
    """An advice, and its sentences."""

    advice: Advice
    notes: list[str]
    """Sentences that a user should read before the numbers."""
    misses: list[str]
    """Goals that the nearest settings do not reach, and why."""

    @property
    def settings(self) -> list[str]:
        """The options to set, as NAME=VALUE."""
        return [f"{name}={value}" for name, value in self.advice.nearest.changes.items()]


def chosen_logs(weights: Sequence[int]) -> list[int]:
    """Return the indexes of the logs to measure, by their sizes."""
    return sorted(spread(weights, LOGS_MAX))


def measured_topic(
    topic: str,
    logs: list[tuple[TopicPartition, Summary]],
    weights: Sequence[int],
    config: LogConfig,
    cleaner: CleanerSettings,
    notes_before: Sequence[str] = (),
) -> Measured:
    """Put the measured logs of a topic together.

    Args:
        weights: Sizes of all logs; those of `chosen_logs` were measured.
    """
    sentences, chosen = [*notes_before], chosen_logs(weights)
    if len(chosen) < len(weights):
        sentences.append(
            f"{len(chosen)} of {len(weights)} partitions were measured, of all sizes. The numbers are estimates for all of them."
        )
    if empty := [str(of) for of, summary in logs if not summary.records]:
        sentences.append(f"Without records, and left out: {', '.join(empty[:10])}{', …' if len(empty) > 10 else ''}.")
    scale = sum(weights) / max(1, sum(weights[at] for at in chosen))
    return Measured(topic, logs, len(weights), config, cleaner, max(1.0, scale), sentences)


def topic_advice(
    measured: Measured, goals: Goals, on_candidate: Callable[[int], None] = lambda number: None
) -> TopicAdvice:
    """Simulate settings for the topic.

    Args:
        on_candidate: Called with the number of each simulation before it begins.

    Raises:
        NothingToSimulateError: No log has a record with a timestamp.
    """
    summaries = [summary for _, summary in measured.logs]
    usable = [summary for summary in summaries if summary.buckets]
    if not usable:
        why = "no record with a timestamp was found" if measured.total("records") else "it has no records"
        raise NothingToSimulateError(f"topic {measured.topic} cannot be simulated: {why}")
    advice = advise(usable, measured.config, measured.cleaner, goals, scale=measured.scale, on_candidate=on_candidate)
    sentences = [
        *measured.notes,
        *notes(summaries, measured.config),
        *load_notes(advice.nearest.costs, measured.cleaner),
    ]
    misses = [miss_text(miss, advice.nearest, usable, measured.scale) for miss in advice.nearest.misses]
    return TopicAdvice(advice, sentences, misses)
