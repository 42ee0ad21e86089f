"""The owners of each partition over time, from the consumers' callbacks."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass
class Span:
    """One consumer's ownership of one partition. Times are Unix seconds; `end_s` is infinite until it ends.

    `ended_by` is `revoked`, `lost` (the consumer learned late that it owns nothing), `killed` or empty.
    """

    partition: int
    who: str
    generation: int
    start_s: float
    end_s: float = float("inf")
    ended_by: str = ""


class Ownership:
    """All spans of a run.

    Args:
        events: The file that the workers append to.
        kills: (time, name of the worker); the names of its consumers have it as a prefix.
    """

    def __init__(self, events: Path, kills: list[tuple[float, str]], end_s: float) -> None:
        self.kills, self.end_s = kills, end_s
        self.spans: list[Span] = []
        current: dict[tuple[str, int], Span] = {}
        told = [json.loads(line) for line in events.read_text().splitlines() if line.endswith("}")]
        for event in sorted(told, key=lambda event: float(event["at"])):
            for partition in event["partitions"]:
                if event["event"] == "assigned":
                    span = Span(partition, event["who"], event["generation"], event["at"])
                    current[event["who"], partition] = span
                    self.spans.append(span)
                elif (ended := current.pop((event["who"], partition), None)) is not None:
                    ended.end_s, ended.ended_by = event["at"], event["event"]
        for at_s, worker in kills:
            for span in self.spans:
                if span.who.startswith(f"{worker}-") and span.end_s > at_s:
                    span.end_s, span.ended_by = at_s, "killed"

    def owned_twice_in_a_generation(self) -> list[tuple[Span, Span]]:
        first: dict[tuple[int, int], Span] = {}
        return [
            (other, span)
            for span in self.spans
            if (other := first.setdefault((span.generation, span.partition), span)).who != span.who
        ]

    def owned_twice_at_once(self) -> list[tuple[Span, Span]]:
        """Return pairs of overlapping spans, except those that ended by being lost: their owner learned of it late."""
        found = []
        for spans in self._by_partition():
            known = [span for span in spans if span.ended_by != "lost"]
            found += [(one, other) for one, other in pairwise(known) if other.start_s < one.end_s]
        return found

    def gaps(self, partition_count: int, begin_s: float) -> list[tuple[float, float, int]]:
        """Return (start, end, partition) of every time between `begin_s` and the end in which a partition had no owner."""
        gaps = []
        by_partition = {spans[0].partition: spans for spans in self._by_partition()}
        for partition in range(partition_count):
            free_s = begin_s
            for span in by_partition.get(partition, []):
                if span.start_s > free_s:
                    gaps.append((free_s, span.start_s, partition))
                free_s = max(free_s, span.end_s)
            if free_s < self.end_s:
                gaps.append((free_s, self.end_s, partition))
        return gaps

    def unexcused(self, gap: tuple[float, float, int]) -> float:
        """Return the seconds of a gap since the last kill before its end, or the whole gap."""
        start_s, end_s, _ = gap
        return end_s - max([start_s, *(at_s for at_s, _ in self.kills if at_s <= end_s)])

    def _by_partition(self) -> list[list[Span]]:
        found: dict[int, list[Span]] = {}
        for span in sorted(self.spans, key=lambda span: span.start_s):
            found.setdefault(span.partition, []).append(span)
        return list(found.values())
