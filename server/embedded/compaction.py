"""Compaction, rolls and retention of an embedded broker, on demand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .running import Running

if TYPE_CHECKING:
    from ..control.compaction import Compacted, Compaction
    from ..control.segments import Retained, Rolled


class Compacting(Running):
    """Methods of `ottla.Broker`. Each raises `ControlError`, with one line, where it is refused."""

    def compact(
        self, topic: str, partitions: Iterable[int] | None = None, *, force: bool = False, roll: bool = False
    ) -> Compaction:
        """Clean a compacted topic now, and return what was done to each partition.

        As Kafka would, that is as the next round of the cleaner: neither the active segment, nor records younger than
        `min.compaction.lag.ms`, nor what open transactions have not decided, and only if `min.cleanable.dirty.ratio` has it
        that it is worth it. Where nothing was cleaned, `explanation` says why.

        Args:
            partitions: Numbers; all of the topic if not given.
            force: Roll the active segment, and clean whatever ratio and lags say; never what open transactions have not decided.
            roll: Roll the active segment first, then as Kafka would.
        """
        from ..control.compaction import compact

        return self._ask(compact, topic, partitions, force=force, roll=roll)

    def wait_until_compacted(
        self, topic: str, timeout_s: float = 10.0, partitions: Iterable[int] | None = None
    ) -> Compacted:
        """Return when the cleaner's passes have covered all that lies in closed segments now; starts nothing.

        Args:
            timeout_s: Of real time. When it is over, the error says what the cleaner waits for.
        """
        from ..control.compaction import wait_until_compacted

        return self._ask(wait_until_compacted, topic, timeout_s, partitions)

    def roll(self, topic: str, partitions: Iterable[int] | None = None) -> Rolled:
        """Close the active segment of each partition that has records, and begin a new one."""
        from ..control.segments import roll

        return self._ask(roll, topic, partitions)

    def apply_retention(self, topic: str | None = None) -> Retained:
        """Delete now what retention lets go, of one topic or of all."""
        from ..control.segments import apply_retention

        return self._ask(apply_retention, topic)
