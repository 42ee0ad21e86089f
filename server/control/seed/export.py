"""A seed of what a broker has: topics and their configs, access control entries; no records."""

from __future__ import annotations

from typing import Any

from ...broker.broker import Broker
from ...runtime.turns import Turn


async def export(broker: Broker) -> dict[str, Any]:
    """What `seed_from` takes: each topic that is not the broker's own, with partitions, replicas and configs that are set; and
    each access control entry."""
    services, turn = broker.services, Turn()
    topics: dict[str, Any] = {}
    for topic in sorted(services.topics, key=lambda each: each.name):
        if turn.is_over():
            await turn.next()
        if topic.is_internal or services.topics.get(topic.name) is not topic:
            continue
        entry: dict[str, Any] = {
            "partitions": len(topic.partitions),
            "replication_factor": len(topic.partitions[0].replicas),
        }
        if configs := dict(services.cluster.topic_configs(topic.name)):
            entry["configs"] = configs
        topics[topic.name] = entry
    if services.authorizer is None or not len(services.authorizer.index):
        return {"topics": topics}
    return {"topics": topics, "acls": await turn.sorted(await turn.map(str, services.authorizer.index.all()))}
