"""A seed of what a broker has: topics and their configs, access control entries, quotas; no records."""

from __future__ import annotations

from math import isfinite, isnan
from typing import Any

from ...broker.broker import Broker
from ...runtime.time_slices import TimeSlice
from ..quotas import list_quotas
from .fields import NOT_FINITE


async def export(broker: Broker) -> dict[str, Any]:
    """What `seed_from` takes: each topic that is not the broker's own, with partitions, replicas and configs that are set; and
    each access control entry and quota."""
    services, time_slice = broker.services, TimeSlice()
    topics: dict[str, Any] = {}
    async for topic in time_slice.each(sorted(services.topics, key=lambda each: each.name)):
        if topic.is_internal or services.topics.get(topic.name) is not topic:
            continue
        entry: dict[str, Any] = {
            "partitions": len(topic.partitions),
            "replication_factor": len(topic.partitions[0].replicas),
        }
        if configs := dict(services.cluster.topic_configs(topic.name)):
            entry["configs"] = configs
        topics[topic.name] = entry
    exported: dict[str, Any] = {"topics": topics}
    if services.authorizer is not None and len(services.authorizer.index):
        exported["acls"] = await time_slice.sorted(await time_slice.map(str, services.authorizer.index.all()))
    if quotas := (await list_quotas(broker)).quotas:
        exported["quotas"] = {
            state.entity: {
                key: value if isfinite(value) else NOT_FINITE[isnan(value)] for key, value in state.quotas.items()
            }
            for state in quotas
        }
    return exported
