"""Changes of topic and broker options: they are written to the catalog, and applied to the objects that use them.

The caller has checked the new options (`config.changes`) under `Cluster.change_lock`, and still holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..cleaning.cleaning import Cleaning
from ..config.live_config import CLIENT_METRICS, ELIGIBLE_REPLICAS, GROUP_CONFIGS, LiveConfig
from ..partitions.topics import Topic
from ..runtime.time_slices import TimeSlice
from .cluster import Cluster


class ConfigChanges:
    """Changes of one broker's options."""

    def __init__(self, cluster: Cluster, live_config: LiveConfig, cleaning: Cleaning) -> None:
        self._cluster = cluster
        self._live_config = live_config
        self._cleaning = cleaning
        self.on_client_metrics: list[Callable[[], None]] = []
        """Functions to call after a change of client metrics subscriptions."""

    async def alter_topics(self, wished: Mapping[Topic, Mapping[str, str]]) -> set[Topic]:
        """Replace the overrides of topics; they take effect at the next append, retention run or clean pass.

        Returns the topics that have been deleted, and perhaps created again, since the check.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; nothing has changed.
        """
        cluster = self._cluster
        present = {topic: configs for topic, configs in wished.items() if cluster.topics.get(topic.name) is topic}
        texts = {topic.name: configs for topic, configs in present.items()}
        if texts:
            await cluster.write(cluster.catalog.set_topic_configs, texts)
        await self._reconfigure_logs(present)
        self._cluster.reconsider()
        return wished.keys() - present.keys()

    async def alter_broker(self, node: str, configs: Mapping[str, str]) -> None:
        """Replace the dynamic configs of node id `node` or of the cluster default (""); they take effect at once.

        Raises:
            KafkaError: as `alter_topics`.
        """
        await self._cluster.write(self._cluster.catalog.set_broker_configs, {node: configs})
        await self._brokers_altered()

    async def alter_groups(self, wished: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the configs of groups, by group id; they take effect at once, session time-outs at the next heartbeat.

        Raises:
            KafkaError: as `alter_topics`.
        """
        entries = {group_id: configs or None for group_id, configs in wished.items()}
        await self._cluster.write(self._cluster.catalog.put_entries, GROUP_CONFIGS, entries)
        self._live_config.configure_groups(wished)

    async def alter_client_metrics(self, wished: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the configs of client metrics subscriptions, by name; a subscription without configs is deleted.

        Raises:
            KafkaError: as `alter_topics`.
        """
        entries = {name: configs or None for name, configs in wished.items()}
        await self._cluster.write(self._cluster.catalog.put_entries, CLIENT_METRICS, entries)
        for told in self.on_client_metrics:
            told()

    async def finalize_features(self, levels: Mapping[str, int]) -> None:
        """Set other finalized levels of features; they take effect at once.

        Raises:
            KafkaError: as `alter_topics`.
        """
        configs = self._live_config.unsettled() if levels.get(ELIGIBLE_REPLICAS) else {}
        await self._cluster.write(self._cluster.catalog.set_features, levels, configs)
        self._live_config.finalize(levels)
        if configs:
            await self._brokers_altered()

    async def _brokers_altered(self) -> None:
        self._live_config.reload()
        self._cleaning.reconfigure()
        await self._reconfigure_logs(list(self._cluster.topics))
        self._cluster.reconsider()

    async def _reconfigure_logs(self, topics: Iterable[Topic]) -> None:
        """Apply the present options to the logs; topics that are created during that have them already."""
        time_slice = TimeSlice()
        async for topic in time_slice.each(topics):
            config = self._live_config.topic(topic.name)
            async for partition in time_slice.each(topic.partitions):
                if self._cluster.topics.get(topic.name) is not topic:
                    break  # the topic was deleted
                self._cleaning.log_reconfigured(partition.log, config)
