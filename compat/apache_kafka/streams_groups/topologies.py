"""The applications of the members."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ottla.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TopicInfo,
    Topology,
)

from .names import in_order

TOPICS = {"alpha": 4, "beta": 4, "gamma": 6, "delta": 3}
"""The existing topics and their numbers of partitions."""
NOWHERE = "omega"
COMPACTED = (KeyValue(key="cleanup.policy", value="compact"),)


def own_topic(group: str) -> str:
    """Return the name of a source that is created and deleted during the group's life."""
    return f"{group}-in"


@cache
def _internal_names(group: str) -> list[str]:
    """Apache Kafka names those that are missing, and the first that is wrong, in the order of hash maps; Ottla in that of names."""
    return in_order(f"{group}-", 4)


def internal_topics(topology: Topology) -> list[str]:
    """Return the topics that the coordinator creates for the topology."""
    return [
        topic.name
        for one in topology.subtopologies
        for topic in (*one.state_changelog_topics, *one.repartition_source_topics)
    ]


def _plain(_group: str) -> Topology:
    return Topology(subtopologies=(_alone("0", "alpha"),))


def _late(_group: str) -> Topology:
    return Topology(epoch=3, subtopologies=(_alone("0", "alpha"), _alone("2", "gamma")))


def _counted(group: str) -> Topology:
    """Return a repartition topic between two subtopologies, the second of which joins and keeps something."""
    between = TopicInfo(name=_internal_names(group)[0])
    return Topology(
        subtopologies=(
            Subtopology(subtopology_id="0", source_topics=("alpha",), repartition_sink_topics=(between.name,)),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=(between,),
                source_topics=("beta",),
                state_changelog_topics=(_store(group, 1),),
                copartition_groups=(CopartitionGroup(source_topics=(0,), repartition_source_topics=(0,)),),
            ),
        )
    )


def _stores(group: str) -> Topology:
    """Three subtopologies, two of which keep something."""
    return Topology(
        subtopologies=(
            _alone("0", "alpha", _store(group, 1)),
            _alone("1", "gamma", _store(group, 2), _store(group, 3)),
            _alone("2", "delta"),
        )
    )


def _fixed(group: str) -> Topology:
    """Return a topology with a repartition topic of a fixed number of partitions."""
    between = TopicInfo(name=_internal_names(group)[0], partitions=5, replication_factor=1)
    return Topology(
        subtopologies=(
            Subtopology(subtopology_id="0", source_topics=("delta",), repartition_sink_topics=(between.name,)),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=(between,),
                state_changelog_topics=(_store(group, 1),),
            ),
        )
    )


def _own(group: str) -> Topology:
    return Topology(subtopologies=(_alone("0", own_topic(group), _store(group, 1)), _alone("1", "delta")))


def _own_joined(group: str) -> Topology:
    return Topology(
        subtopologies=(
            Subtopology(
                subtopology_id="0",
                source_topics=("alpha", own_topic(group)),
                state_changelog_topics=(_store(group, 1),),
                copartition_groups=(CopartitionGroup(source_topics=(0, 1)),),
            ),
        )
    )


def _lacking(_group: str) -> Topology:
    return Topology(subtopologies=(_alone("0", "alpha", sources=(NOWHERE,)),))


def _unlike(_group: str) -> Topology:
    joined = CopartitionGroup(source_topics=(0, 1))
    one = Subtopology(subtopology_id="0", source_topics=("alpha", "delta"), copartition_groups=(joined,))
    return Topology(subtopologies=(one,))


def _unfed(group: str) -> Topology:
    between = TopicInfo(name=_internal_names(group)[0])
    one = Subtopology(subtopology_id="0", source_topics=("alpha",), repartition_source_topics=(between,))
    return Topology(subtopologies=(one,))


def _loop(group: str) -> Topology:
    between = TopicInfo(name=_internal_names(group)[0])
    one = Subtopology(subtopology_id="0", repartition_source_topics=(between,), repartition_sink_topics=(between.name,))
    return Topology(subtopologies=(one,))


def _alone(key: str, source: str, *stores: TopicInfo, sources: tuple[str, ...] = ()) -> Subtopology:
    return Subtopology(subtopology_id=key, source_topics=(source, *sources), state_changelog_topics=stores)


def _store(group: str, at: int) -> TopicInfo:
    return TopicInfo(name=_internal_names(group)[at], topic_configs=COMPACTED)


TOPOLOGIES: dict[str, Callable[[str], Topology]] = {
    "plain": _plain,
    "late": _late,
    "counted": _counted,
    "stores": _stores,
    "fixed": _fixed,
    "own": _own,
    "own joined": _own_joined,
    "lacking": _lacking,
    "unlike": _unlike,
    "unfed": _unfed,
    "loop": _loop,
}
"""Name -> the function that returns a group's topology."""
