"""What the nodes and topics run with at this moment: the static options of the start, and over them what clients have set."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...storage.topics.catalog import Catalog
from ...storage.topics.config import LogConfig
from .broker_config import BrokerConfig, StaticConfig, resolve
from .emulation import Release, release_of
from .features import Feature, finalized


class LiveConfig:
    """Read by everybody; `cluster.config_changes` writes what it is made of into the catalog, and has it read anew.

    Until `open` it is what the start was told.
    """

    def __init__(self, static: StaticConfig) -> None:
        self.static = static
        self.current: BrokerConfig = static.node(static.node_ids[0])
        """What the first node runs with; what all nodes share is read from here."""
        self.release: Release | None = None if static.emulate is None else release_of(static.emulate)
        """The release of Apache Kafka that is emulated."""
        self.features: Mapping[str, Feature] = {}
        """The finalized features, from `open` on."""
        self.features_epoch = 0
        """Higher after each start and each change of `features`: clients believe the highest that they have seen."""
        self.watchers: list[Callable[[], None]] = []
        """Called once `current` is another one."""
        self._catalog: Catalog

    def open(self, catalog: Catalog) -> list[str]:
        """Take over what clients have set before; returns a line on each of it that does not count."""
        self._catalog = catalog
        self.features = finalized(self.static.features, catalog.features, self.release)
        problems = [line for node_id in self.static.node_ids for line in self._resolve(node_id)[1]]
        self.read_anew()
        return list(dict.fromkeys(problems))

    def of(self, node_id: int) -> BrokerConfig:
        """What the node with this id runs with; see `resolve`."""
        return self._resolve(node_id)[0]

    def topic(self, name: str) -> LogConfig:
        """The values that the logs of topic `name` run with."""
        entry = self._catalog.topics.get(name)
        return self.current.topic_config(entry.configs if entry else {})

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Features, all of them known, have other levels from now on."""
        self.features = {
            name: feature._replace(level=levels.get(name, feature.level)) for name, feature in self.features.items()
        }
        self.features_epoch += 1

    def feature_level(self, name: str) -> int:
        """The finalized level of a feature that we support; 0 is none. KeyError for any other."""
        return self.features[name].level

    def read_anew(self) -> None:
        """The dynamic options in the catalog have changed."""
        self.current = self.of(self.static.node_ids[0])
        for watcher in self.watchers:
            watcher()

    def _resolve(self, node_id: int) -> tuple[BrokerConfig, list[str]]:
        return resolve(self.static, self._catalog.state.broker_configs, node_id)
