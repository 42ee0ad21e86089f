"""Applications of all shapes, each brought along by the first member of a group of its own."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from ottla.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
)

from .answers import Answer, HeartbeatResult
from .names import in_order
from .steps import JOIN, LEAVE, Beat, DeleteGroup, Look, Step
from .times import Times
from .topologies import COMPACTED, NOWHERE, TOPICS
from .world import MISSING_INTERNAL

SOURCES = (*TOPICS, *TOPICS, *TOPICS, NOWHERE)


class TopologyWorld:
    """Asks as `World` does."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self._rng, self._name = rng, name
        self.times = Times()
        self.is_new = False
        self._number = 0
        self._topology = Topology()
        self._made: set[str] = set()
        self._queue: deque[Step] = deque()

    @property
    def _group(self) -> str:
        return f"{self._name}-{self._number}"

    def next_step(self) -> Step:
        if not self._queue:
            self._number += 1
            self._topology, self._made = random_topology(self._rng, self._group), set()
            self._queue += [self._entering(self._topology), Look(self._group), Look(self._group)]
        return self._queue.popleft()

    def _entering(self, topology: Topology) -> Beat:
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "process_id": "p",
            "client_tags": (),
            "topology": topology,
        }
        return Beat(self._group, f"{self._group}-m", JOIN, says="nothing", fields=fields)

    def _staying(self) -> list[Step]:
        group, member = self._group, f"{self._group}-m"
        return [
            Beat(group, member),
            Look(group),
            self._entering(self._topology if self._rng.random() < 0.5 else random_topology(self._rng, group)),
            Beat(group, member, LEAVE, says="not a word"),
            DeleteGroup(group),
        ]

    def told(self, step: Step, answer: Answer, began_s: float, ended_s: float) -> list[str]:
        """Take over an answer; return the topics that the coordinator makes now."""
        if not isinstance(step, Beat) or not isinstance(answer, HeartbeatResult) or not answer.is_well:
            return []
        if step.is_join and not self._queue_has_leave:
            self.is_new = True
            self._queue.extend(self._staying())
        else:
            self.is_new = False
        if not answer.has_status(MISSING_INTERNAL):
            return []
        wanted = {
            topic.name
            for one in self._topology.subtopologies
            for topic in (*one.state_changelog_topics, *one.repartition_source_topics)
        }
        return sorted(wanted - self._made)

    @property
    def _queue_has_leave(self) -> bool:
        return any(isinstance(step, Beat) and step.is_leave for step in self._queue)

    def appeared(self, topics: dict[str, int]) -> None:
        self._made.update(topics)


def random_topology(rng: random.Random, group: str) -> Topology:
    names = in_order(f"{group}-", 4)
    counts = [rng.choice((0, 0, 0, 3, 4)) for _ in range(2)]
    between = [TopicInfo(name=name, partitions=count) for name, count in zip(names, counts, strict=False)]
    stores = [TopicInfo(name=name, topic_configs=COMPACTED) for name in names[2:]]
    ids = [str(at) for at in range(rng.choice((1, 2, 2, 3)))]
    if rng.random() < 0.03:
        ids[-1] = "0"
    return Topology(
        epoch=rng.choice((0, 0, 0, 1, 7)), subtopologies=tuple(_subtopology(rng, key, between, stores) for key in ids)
    )


def _subtopology(
    rng: random.Random,
    key: str,
    between: list[TopicInfo],
    stores: list[TopicInfo],
) -> Subtopology:
    sources = tuple(dict.fromkeys(rng.choices(SOURCES, k=rng.choice((0, 1, 1, 1, 2)))))
    reads = tuple(rng.sample(between, rng.choice((0, 0, 1, 1, 2))))
    if reads and rng.random() < 0.05:
        reads = (TopicInfo(name=reads[0].name, partitions=5), *reads[1:])
    writes = tuple(topic.name for topic in rng.sample(between, rng.choice((0, 1, 1, 2))))
    together = tuple(_together(rng, len(sources), len(reads)) for _ in range(rng.choice((0, 0, 1, 1, 2))))
    return Subtopology(
        subtopology_id=key,
        source_topics=sources,
        repartition_source_topics=reads,
        repartition_sink_topics=writes,
        state_changelog_topics=tuple(rng.sample(stores, rng.choice((0, 0, 1)))),
        copartition_groups=together,
    )


def _together(rng: random.Random, sources: int, reads: int) -> CopartitionGroup:
    return CopartitionGroup(
        source_topics=tuple(rng.sample(range(sources), rng.randint(0, sources))),
        repartition_source_topics=tuple(rng.sample(range(reads), rng.randint(0, reads))),
    )
