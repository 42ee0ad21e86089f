"""Present configuration of nodes and topics: the static options of the start under those that clients have set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.topics.catalog import Catalog
from ...storage.topics.catalog_file import CLUSTER_DEFAULT
from ...storage.topics.config import ConfigError, LogConfig
from .broker_config import NO_TEXTS, BrokerConfig, ConfigSource, Texts
from .emulation import Release, release_of
from .features import Feature, finalized
from .group_configs import GroupConfig, check_group_configs
from .options.known_options import find_option
from .static_config import StaticConfig

GROUP_CONFIGS, CLIENT_METRICS = "group_configs", "client_metrics"
"""Sections of the catalog: texts by option, by group ID and by subscription name."""


class LiveConfig:
    """The present options of nodes, groups and subscriptions.

    `cluster.config_changes` writes changes into the catalog and calls `reload`.

    Until `open` it is the static configuration of the start.
    """

    def __init__(self, static: StaticConfig) -> None:
        self.static = static
        self.current: BrokerConfig = static.node(static.node_ids[0])
        """The configuration of the first node; options that all nodes share are read from here."""
        self.release: Release | None = None if static.emulate is None else release_of(static.emulate)
        """The release of Apache Kafka that is emulated."""
        self.features: Mapping[str, Feature] = {}
        """The finalized features, from `open` on."""
        self.features_epoch = 0
        """Epoch of `features`, higher after each start and each change: clients trust the highest that they have seen."""
        self.groups: dict[str, GroupConfig] = {}
        """Configs of single groups, by group ID; readers look them up each time."""
        self.watchers: list[Callable[[], None]] = []
        """Called after each change of the options of any node."""
        self.feature_watchers: list[Callable[[], None]] = []
        """Called after each change of `features`."""
        self.changes = 0
        """Number of changes. A caller that caches something made from a node's options stores this number with it."""
        self._catalog: Catalog
        self._resolved: tuple[object, dict[int, tuple[BrokerConfig, list[str]]]] = (None, {})
        """The dynamic options in the catalog, and the configuration that they give each node that was asked for."""

    def open(self, catalog: Catalog) -> list[str]:
        """Load the configs that clients have set before; return a line for each one that is ignored."""
        self._catalog = catalog
        self.features = features_of(self.static, catalog.features)
        problems = [line for node_id in self.static.node_ids for line in self._resolve(node_id)[1]]
        self.reload()
        for group_id, facts in catalog.entries(GROUP_CONFIGS).items():
            texts = {name: str(text) for name, text in facts.items()}
            try:
                self.groups[group_id] = check_group_configs(self.current, texts)
            except KafkaError as error:
                problems.append(f"stored configs of group {group_id} ignored: {error.message}")
        return list(dict.fromkeys(problems))

    def settle(self) -> list[str]:
        """Bring the stored options in line with the finalized features, and return a line for each ignored option.

        Ignored options may be stored ones, or those of the start.

        Blocks; for the start.

        Raises:
            OSError: The disk refused; nothing has changed.
        """
        if not self.has_eligible_replicas:
            return []
        start, before = self._first_static(), self._catalog.state.broker_configs
        changed = settled_min_isr(before, start.min_insync_replicas)
        if changed:
            self._catalog.set_broker_configs(changed)
            self.reload()
        told, kept = start.min_insync_replicas, self.current.min_insync_replicas
        lost = [
            f"stored {MIN_INSYNC_REPLICAS}={before[node][MIN_INSYNC_REPLICAS]} of node {node} was removed"
            for node in changed
            if node != CLUSTER_DEFAULT
        ]
        if told != kept and start.is_set(MIN_INSYNC_REPLICAS):
            lost.append(f"{MIN_INSYNC_REPLICAS}={told} from startup has no effect")
        why = (
            f"{ELIGIBLE_REPLICAS} is on, so the value comes from the dynamic cluster-wide default, {kept}; change it"
            " there (kafka-configs --broker-defaults)"
        )
        return [f"{line}: {why}" for line in lost]

    @property
    def has_eligible_replicas(self) -> bool:
        """Whether eligible leader replicas are on; if so, `min.insync.replicas` is a dynamic option of all nodes together."""
        return self.feature_level(ELIGIBLE_REPLICAS) > 0

    def unsettled(self) -> dict[str, dict[str, str]]:
        """Return the dynamic options that must change because of `has_eligible_replicas`; see `settled_min_isr`."""
        return settled_min_isr(self._catalog.state.broker_configs, self._first_static().min_insync_replicas)

    def _first_static(self) -> BrokerConfig:
        return self.static.node(self.static.node_ids[0])

    def node_config(self, node_id: int) -> BrokerConfig:
        """Return the configuration of the node with this ID; see `resolve`."""
        return self._resolve(node_id)[0]

    def topic(self, name: str) -> LogConfig:
        """Return the configuration of the logs of topic `name`."""
        entry = self._catalog.topics.get(name)
        return self.current.topic_config(entry.configs if entry else {})

    def configure_groups(self, configs: Mapping[str, Texts]) -> None:
        """Replace the configs of these groups by others, already checked; an empty mapping leaves a group none of its own."""
        for group_id, texts in configs.items():
            if texts:
                self.groups[group_id] = check_group_configs(self.current, texts)
            else:
                self.groups.pop(group_id, None)

    def group_texts(self, group_id: str) -> Texts:
        """Return the stored configs of a group.

        They include those that the start refused: a client that changes them must see them.
        """
        return {key: str(text) for key, text in self._catalog.entries(GROUP_CONFIGS).get(group_id, {}).items()}

    def client_metrics(self, name: str) -> Texts:
        """Return the configs of the client metrics subscription of this name; empty if it does not exist."""
        return {key: str(text) for key, text in self._catalog.entries(CLIENT_METRICS).get(name, {}).items()}

    def client_metrics_names(self) -> list[str]:
        """Return the names of all client metrics subscriptions, sorted."""
        return sorted(self._catalog.entries(CLIENT_METRICS))

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Set the levels of features, all of them known."""
        self.features = {
            name: feature._replace(level=levels.get(name, feature.level)) for name, feature in self.features.items()
        }
        self.features_epoch += 1
        for watcher in self.feature_watchers:
            watcher()

    def feature_level(self, name: str) -> int:
        """Return the finalized level of a feature that we support; 0 is none. KeyError for any other."""
        return self.features[name].level

    def reload(self) -> None:
        """Read the dynamic options in the catalog again, after a change."""
        self.current = self.node_config(self.static.node_ids[0])
        self.changes += 1
        for watcher in self.watchers:
            watcher()

    def _resolve(self, node_id: int) -> tuple[BrokerConfig, list[str]]:
        dynamic = self._catalog.state.broker_configs
        of, found = self._resolved
        if of is not dynamic:  # a change replaces the object
            found = {}
            self._resolved = dynamic, found
        if node_id not in found:
            found[node_id] = resolve(self.static, dynamic, node_id)
        return found[node_id]


def features_of(static: StaticConfig, stored: Mapping[str, int]) -> Mapping[str, Feature]:
    """Return the finalized features of a start, given the levels in the catalog."""
    release = None if static.emulate is None else release_of(static.emulate)
    unstable = static.node(static.node_ids[0]).unstable_feature_versions_enable
    return finalized(static.features, stored, release, unstable=unstable)


def first_broker_configs(static: StaticConfig, stored: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """Return what `LiveConfig.settle` would set in a catalog with these levels and without dynamic options.

    A new catalog contains it from the start, so that it is written only once.
    """
    if features_of(static, stored)[ELIGIBLE_REPLICAS].level == 0:
        return {}
    return settled_min_isr({}, static.node(static.node_ids[0]).min_insync_replicas)


def usable(texts: Texts) -> tuple[dict[str, str], list[str]]:
    """Return the dynamic configs from disk that this version accepts, and a line for each whose value it refuses."""
    taken = {}
    problems = []
    for name, text in texts.items():
        option = find_option(name)
        try:
            if option is not None:
                option.parse(text)
            taken[name] = text
        except ConfigError as error:
            problems.append(f"stored broker config ignored: {error}")
    return taken, problems


def resolve(static: StaticConfig, dynamic: Mapping[str, Texts], node_id: int) -> tuple[BrokerConfig, list[str]]:
    """Return the configuration of a node with the dynamic configs from disk, and a line for each of those that is ignored.

    If they contradict each other or the static options, which may have changed since the dynamic ones were set, all of
    them are ignored.

    Args:
        dynamic: By node ID as a decimal, and those of all nodes under CLUSTER_DEFAULT.
    """
    cluster, problems = usable(dynamic.get(CLUSTER_DEFAULT, NO_TEXTS))
    own, own_problems = usable(dynamic.get(str(node_id), NO_TEXTS))
    problems = problems + own_problems
    try:
        return static.node(node_id, cluster_dynamic=cluster, node_dynamic=own), problems
    except ConfigError as error:
        return static.node(node_id), [*problems, f"stored broker configs of node {node_id} ignored: {error}"]


ELIGIBLE_REPLICAS = "eligible.leader.replicas.version"

MIN_INSYNC_REPLICAS = "min.insync.replicas"


def settled_min_isr(dynamic: Mapping[str, Texts], static_value: int) -> dict[str, dict[str, str]]:
    """Return the dynamic options that must change while eligible leader replicas (KIP-966) are on.

    They are by node ID as a decimal, or CLUSTER_DEFAULT.

    Then `min.insync.replicas` is one value for all nodes. Apache Kafka keeps the option as a dynamic default of all
    nodes, made from the static value at the moment that the feature is turned on. From then on the static value has no
    effect, no node has a value of its own, and the default can be changed but not deleted.
    """
    changed = {
        node: {name: text for name, text in texts.items() if name != MIN_INSYNC_REPLICAS}
        for node, texts in dynamic.items()
        if node != CLUSTER_DEFAULT and MIN_INSYNC_REPLICAS in texts
    }
    default = dynamic.get(CLUSTER_DEFAULT, NO_TEXTS)
    if MIN_INSYNC_REPLICAS not in default:
        changed[CLUSTER_DEFAULT] = {**default, MIN_INSYNC_REPLICAS: str(static_value)}
    return changed


def check_min_isr(level: ConfigSource, named: Collection[str], changed: Texts) -> None:
    """Raise if a change of one dynamic layer is not allowed while eligible leader replicas are on.

    Args:
        level: DYNAMIC_BROKER or DYNAMIC_DEFAULT_BROKER.
        named: The options that the request names.
        changed: What the layer would contain.

    Raises:
        KafkaError: INVALID_CONFIG, with Apache Kafka's message.
    """
    refusal = None
    if level is ConfigSource.DYNAMIC_BROKER and MIN_INSYNC_REPLICAS in named:
        refusal = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
    elif level is ConfigSource.DYNAMIC_DEFAULT_BROKER and MIN_INSYNC_REPLICAS not in changed:
        refusal = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
    if refusal is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, refusal)
