"""Pauses of partitions whose clean pass failed for lack of disk space or memory, which may pass without anybody's help."""

from __future__ import annotations

from typing import NamedTuple

from ..disk.paths import TopicPartition

PAUSE_MS_MIN = 15_000
"""Pause after the first failure, as long as the default of `log.cleaner.backoff.ms`; each further failure doubles it."""
PAUSE_MS_MAX = 600_000


class Retry(NamedTuple):
    """A partition that is tried again."""

    reason: str
    """Why its last pass failed."""
    at_ms: int
    """Time of the next try, in ms since 1970 by the broker's clock."""
    pause_ms: int


class Retries:
    """The partitions that wait for their next try. On the thread that owns the logs."""

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, Retry] = {}

    def put_off(self, tp: TopicPartition, reason: str, now_ms: int) -> Retry:
        """Note a failed pass, and return when the partition is tried again."""
        last = self._waiting.get(tp)
        pause_ms = PAUSE_MS_MIN if last is None else min(2 * last.pause_ms, PAUSE_MS_MAX)
        self._waiting[tp] = found = Retry(reason, now_ms + pause_ms, pause_ms)
        return found

    def waiting(self, tp: TopicPartition, now_ms: int) -> Retry | None:
        """Return the pause of a partition; None if it has none, or if it is over. A clock that was set back ends it."""
        found = self._waiting.get(tp)
        return found if found is not None and 0 < found.at_ms - now_ms <= found.pause_ms else None

    def end(self, tp: TopicPartition) -> None:
        """Forget the failures of a partition: a pass has succeeded, or it was deleted."""
        self._waiting.pop(tp, None)
