"""Heartbeats that are wrong by themselves."""

from __future__ import annotations

import random
from typing import Any

from ottla.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

from .steps import JOIN, Beat
from .topologies import TOPOLOGIES

SOME = (TaskIds(subtopology_id="0", partitions=(0,)),)


def wrong_beat(rng: random.Random, group: str, member: str, brings: str) -> Beat:
    """Return an invalid heartbeat for a group whose members have this topology."""
    topology = TOPOLOGIES[brings](group)
    says_nothing: tuple[dict[str, Any], ...] = (
        {"instance_id": "i"},
        {"instance_id": ""},
        {"rack_id": ""},
        {"task_offsets": ()},
        {"task_offsets": (TaskOffset(subtopology_id="0", offset=7),)},
        {"task_end_offsets": ()},
        {"topology": topology},
        {"active_tasks": (), "standby_tasks": None},
        {"active_tasks": (), "standby_tasks": (), "warmup_tasks": SOME},
        {"warmup_tasks": ()},
    )
    joins: tuple[dict[str, Any], ...] = (
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"active_tasks": SOME},
        {"standby_tasks": None},
        {"topology": Topology(epoch=-1, subtopologies=topology.subtopologies)},
        {"topology": Topology(subtopologies=(Subtopology(subtopology_id="0", source_topic_regex=("a.*",)),))},
        {"topology": Topology(subtopologies=(Subtopology(subtopology_id="0", source_topics=("__consumer_offsets",)),))},
        {"topology": Topology(subtopologies=(Subtopology(subtopology_id="0", source_topics=("no good",)),))},
        {"topology": Topology(subtopologies=(_with_sized_changelog(),))},
        {"topology": Topology(epoch=9, subtopologies=topology.subtopologies)},
        {"client_tags": (KeyValue(key="zone", value="x"),), "topology": None},
    )
    match rng.randrange(4):
        case 0:
            return Beat(group, "", 1, says="not a word")
        case 1:
            return Beat(group, member, rng.choice((-2, -3, -2_000_000_000)), says="not a word")
        case 2:
            return Beat(group, member, says="not a word", fields=rng.choice(says_nothing))
    fields = {"rebalance_timeout_ms": 60_000} | rng.choice(joins)
    return Beat(group, member, JOIN, says="nothing", fields=fields, brings=brings)


def _with_sized_changelog() -> Subtopology:
    topic = TopicInfo(name="sized", partitions=3)
    return Subtopology(subtopology_id="0", source_topics=("alpha",), state_changelog_topics=(topic,))
