"""The broker's configuration: where values come from, which of them hold, and what the broker reads.

`StaticConfig` is what a start is told: override beats flag beats file beats profile beats default. `BrokerConfig` is
what one node runs with: the static values under the dynamic ones that clients set. It is immutable; after a change the
server puts a new one in its place. Values are typed attributes (`config.num_partitions`) for the options of
`broker_options.py`, `config.value(name)` for any other.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ...storage.topics.catalog_file import CLUSTER_DEFAULT
from ...storage.topics.config import SEGMENT_BYTES_MIN, TOPIC_OPTIONS, ConfigError, LogConfig
from ...storage.topics.options import Option, Value, format_value
from .authorization import CLASS_NAME, HANDED_ON, Authorization, authorization_of
from .broker_options import ACTED_ON, BrokerOptions, topic_default_options
from .emulation import release_of
from .features import check_levels, feature_warnings, levels_of
from .known_options import known_options
from .listeners import (
    OVER_SASL,
    ListenerConfig,
    controller_listener,
    parse_endpoint,
    parse_protocol_map,
    resolve_listeners,
)
from .properties import Properties
from .quota_options import PER_LISTENER as QUOTAS_PER_LISTENER
from .quota_options import ConnectionLimits
from .rules import broken_rules
from .sasl.mechanisms import SaslConfig, sasl_of
from .sasl.users import User
from .security_options import PER_LISTENER as SECURITY_PER_LISTENER

BROKER_OPTIONS: dict[str, Option] = dict(
    sorted((ACTED_ON | {option.name: option for option in topic_default_options()} | known_options()).items())
)
"""Every broker option of Apache Kafka 4.3.1, by name."""

Texts = Mapping[str, str]

NO_TEXTS: Texts = MappingProxyType({})

PER_NODE = frozenset({"advertised.listeners", "broker.rack", "listener.security.protocol.map", "listeners"})
"""Options that nodes of one process may have different values of; everything else is shared with the first node."""

_ADDRESSES = ("listeners", "advertised.listeners")
_LISTENER_PREFIX = "listener.name."

PER_LISTENER = SECURITY_PER_LISTENER | QUOTAS_PER_LISTENER
"""Options that one listener may have another value of."""

PROFILES: dict[str, dict[str, str]] = {
    "kafka": {},
    "dev": {
        # Nobody else's business: on loopback, and that is what clients are told.
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        # A compacted topic is clean a moment after its segment closed, not 15 s later.
        "log.cleaner.backoff.ms": "100",
        # Deleted topics and segments give their disk space back while one still looks.
        "log.segment.delete.delay.ms": "1000",
        # Retention shows its effect within a second.
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "100",
        # A first consumer gets its partitions at once.
        "group.initial.rebalance.delay.ms": "0",
        # Tests may give a crashed member up quickly.
        "group.min.session.timeout.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        # Members of consumer groups learn of changes by their heartbeats.
        "group.consumer.min.heartbeat.interval.ms": "10",
        "group.consumer.heartbeat.interval.ms": "500",
        # 50 directories for the offsets of a few groups slow down the first start.
        "offsets.topic.num.partitions": "5",
    },
}
"""Values under the file's and the flags'. `kafka` is Apache Kafka's defaults, `dev` is for development and tests."""


class ConfigSource(IntEnum):
    """Where a value comes from, numbered as DescribeConfigs sends it."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(BrokerOptions):
    """The configuration of one node."""

    layers: tuple[tuple[ConfigSource, Texts], ...] = field(default=(), repr=False)
    """The texts that were set, by source, the strongest source first."""
    log_defaults: LogConfig = field(default_factory=LogConfig)
    """What a topic without overrides runs with."""
    listener_configs: tuple[ListenerConfig, ...] = ()
    sasl: Mapping[str, SaslConfig] = field(default_factory=dict)
    """How clients log in, by the names of those listeners where they do."""
    own_connection_limits: Mapping[str, ConnectionLimits] = field(default_factory=dict)
    """Of listeners that have limits of their own."""

    @classmethod
    def from_texts(
        cls, static: Texts = NO_TEXTS, *, cluster_dynamic: Texts = NO_TEXTS, node_dynamic: Texts = NO_TEXTS
    ) -> "BrokerConfig":
        """The configuration that these texts make; names that nobody knows are kept and mean nothing.

        Raises:
            ConfigError: A value is refused, alone or against others; names value, option and bound.
        """
        layers = (
            (ConfigSource.DYNAMIC_BROKER, dict(node_dynamic)),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, dict(cluster_dynamic)),
            (ConfigSource.STATIC_BROKER, dict(static)),
        )
        # Values of weaker layers count again when a stronger one is taken away, so each is checked.
        set_values = [
            {name: option.parse(text) for name, text in texts.items() if (option := find_option(name)) is not None}
            for _, texts in layers
        ]
        values = {name: value for layer in reversed(set_values) for name, value in layer.items()}
        fields = {ACTED_ON[name].attribute: value for name, value in values.items() if name in ACTED_ON}
        config = cls(layers=layers, log_defaults=_log_defaults(values), **fields)  # type: ignore[arg-type]
        config._check()
        listeners = config._resolve_listeners()
        secured = (each.name for each in listeners if each.security_protocol in OVER_SASL)
        return dataclasses.replace(
            config,
            listener_configs=listeners,
            sasl={name: sasl_of(name, config.listener_value, config._is_set_for) for name in secured},
            own_connection_limits=config._own_connection_limits(),
        )

    def sasl_at(self, listener: str) -> SaslConfig:
        """How clients log in at a listener, which may be that of a controller that is no node. ConfigError as `sasl_of`."""
        found = self.sasl.get(listener)
        return sasl_of(listener, self.listener_value, self._is_set_for) if found is None else found

    def value(self, name: str) -> Value:
        """The value of any broker option. KeyError for a name that Kafka does not have."""
        option = find_option(name)
        if option is None:
            raise KeyError(name)
        for _, texts in self.layers:
            if name in texts:
                return option.parse(texts[name])
        return option.default

    def listener_value(self, listener: str, name: str, mechanism: str = "") -> Value:
        """The value of a broker option for one listener, and there for one SASL mechanism.

        Of `listener.name.LISTENER.MECHANISM.NAME`, `listener.name.LISTENER.NAME` and NAME the first that is set holds,
        else NAME's default. KeyError for a name that Kafka does not have.
        """
        prefix = f"{_LISTENER_PREFIX}{listener.lower()}."
        names = [f"{prefix}{mechanism.lower()}.{name}"] if mechanism else []
        for candidate in (*names, prefix + name):
            if any(candidate in texts for _, texts in self.layers):
                return self.value(candidate)
        return self.value(name)

    def _is_set_for(self, listener: str, name: str) -> bool:
        names = {name, f"{_LISTENER_PREFIX}{listener.lower()}.{name}"}
        return any(not names.isdisjoint(texts) for _, texts in self.layers)

    def is_set(self, name: str) -> bool:
        """Whether anybody has given the option of just this name a value."""
        return any(name in texts for _, texts in self.layers)

    def topic_config(self, overrides: Texts) -> LogConfig:
        """What a topic with these overrides runs with. They have been checked when they were set; if this version
        does not take one, it does not count."""
        return LogConfig.from_stored(overrides, self.log_defaults)[0]

    def with_dynamic(self, cluster: Texts, node: Texts) -> "BrokerConfig":
        """The same static values under other dynamic ones. ConfigError as for `from_texts`."""
        return BrokerConfig.from_texts(
            self.texts_of(ConfigSource.STATIC_BROKER), cluster_dynamic=cluster, node_dynamic=node
        )

    def texts_of(self, source: ConfigSource) -> Texts:
        """What one source has set."""
        return dict(self.layers).get(source, NO_TEXTS)

    def internal_topic(self, name: str) -> tuple[int, int, dict[str, str]]:
        """Partitions, replication factor and config overrides of one of the broker's own topics. KeyError if none."""
        prefix = {"__consumer_offsets": "offsets.topic", "__transaction_state": "transaction.state.log"}[name]
        partitions, factor, segment_bytes = (
            self.value(f"{prefix}.{what}") for what in ("num.partitions", "replication.factor", "segment.bytes")
        )
        assert isinstance(partitions, int) and isinstance(factor, int) and isinstance(segment_bytes, int)
        is_small = segment_bytes < SEGMENT_BYTES_MIN
        configs = {
            "cleanup.policy": "compact",
            "internal.segment.bytes" if is_small else "segment.bytes": str(segment_bytes),
            "compression.type": "producer",
        }
        if name == "__transaction_state":
            configs["compression.type"] = "uncompressed"
            configs["min.insync.replicas"] = format_value(self.value(f"{prefix}.min.isr"))
            configs["unclean.leader.election.enable"] = "false"
        return partitions, factor, configs

    @property
    def authorization(self) -> Authorization | None:
        """What the authorizer is told; None: there is none. From the static options alone."""
        return authorization_of(self.authorizer_class_name, self.texts_of(ConfigSource.STATIC_BROKER))

    @property
    def data_dirs(self) -> tuple[str, ...]:
        return self.log_dir if self.log_dirs is None else self.log_dirs

    @property
    def cordoned_dirs(self) -> frozenset[str]:
        """The data directories that get no new partitions."""
        data_dirs = [each.rstrip("/") or "/" for each in self.data_dirs]
        named = {each.rstrip("/") or "/" for each in self.cordoned_log_dirs}
        return frozenset(data_dirs) if "*" in named else frozenset(named.intersection(data_dirs))

    @property
    def has_uncordoned_dirs(self) -> bool:
        """Whether there is a data directory that gets new partitions."""
        return not self.cordoned_log_dirs or len(self.cordoned_dirs) < len(
            {each.rstrip("/") for each in self.data_dirs}
        )

    @property
    def log_flush_scheduler_interval_ms(self) -> int:
        interval_ms = self.value("log.flush.scheduler.interval.ms")
        assert isinstance(interval_ms, int)
        return interval_ms

    @property
    def message_max_bytes(self) -> int:
        return self.log_defaults.max_message_bytes

    @property
    def min_insync_replicas(self) -> int:
        return self.log_defaults.min_insync_replicas

    @property
    def max_connections_by_host(self) -> dict[str, int]:
        """Exceptions from `max_connections_per_ip`, by host as written."""
        entries = (entry.strip().rpartition(":") for entry in self.max_connections_per_ip_overrides.split(",") if entry)
        return {host: int(limit) for host, _, limit in entries}

    @property
    def protected_listener(self) -> str | None:
        """The listener for brokers, if there are others: limits on connections keep nobody from it but its own."""
        if len(self.listener_configs) < 2:
            return None
        return (self.inter_broker_listener_name or str(self.value("security.inter.broker.protocol"))).upper()

    def connection_limits(self, listener: str) -> ConnectionLimits:
        """Those of one listener."""
        own = self.own_connection_limits.get(listener)
        return own or ConnectionLimits(self.max_connections, self.max_connection_creation_rate)

    def _own_connection_limits(self) -> dict[str, ConnectionLimits]:
        names = {
            name.removeprefix(_LISTENER_PREFIX).partition(".")[0]
            for _, texts in self.layers
            for name in texts
            if name.startswith(_LISTENER_PREFIX) and name.endswith(tuple(QUOTAS_PER_LISTENER))
        }
        limits = {}
        for listener in names:
            most, rate = (
                self.listener_value(listener, name) for name in ("max.connections", "max.connection.creation.rate")
            )
            assert isinstance(most, int) and isinstance(rate, int)
            limits[listener.upper()] = ConnectionLimits(most, rate)
        return limits

    def _check(self) -> None:
        """The rules between options."""
        if not self.data_dirs or "" in self.data_dirs:
            raise BROKER_OPTIONS["log.dirs"].error("", "must name at least one directory")
        if "*" not in self.cordoned_log_dirs and len(self.cordoned_dirs) < len(self.cordoned_log_dirs):
            raise BROKER_OPTIONS["cordoned.log.dirs"].error(
                ",".join(self.cordoned_log_dirs), f"each must be one of log.dirs={','.join(self.data_dirs)}, or *"
            )
        if "broker" not in self.process_roles:
            raise BROKER_OPTIONS["process.roles"].error(",".join(self.process_roles), "must name broker")
        if self.broker_id not in (-1, self.node_id):
            raise BROKER_OPTIONS["broker.id"].error(str(self.broker_id), f"must be node.id={self.node_id}")
        if 0 < self.queued_max_request_bytes < self.socket_request_max_bytes:
            raise BROKER_OPTIONS["queued.max.request.bytes"].error(
                str(self.queued_max_request_bytes),
                f"must be -1 or at least socket.request.max.bytes={self.socket_request_max_bytes}",
            )
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise BROKER_OPTIONS["group.min.session.timeout.ms"].error(
                str(self.group_min_session_timeout_ms),
                f"must not exceed group.max.session.timeout.ms={self.group_max_session_timeout_ms}",
            )
        _ = self.authorization
        if not self.max_connections_per_ip and not self.max_connections_per_ip_overrides:
            raise BROKER_OPTIONS["max.connections.per.ip"].error(
                "0", "must be at least 1 unless max.connections.per.ip.overrides is set"
            )
        for name, rule in broken_rules(self):
            raise BROKER_OPTIONS[name].error(format_value(self.value(name)), rule)
        if self.log_cleaner_threads < 1:  # Kafka takes 0, and then divides by it.
            raise BROKER_OPTIONS["log.cleaner.threads"].error(str(self.log_cleaner_threads), "must be at least 1")
        if self.log_cleaner_dedupe_buffer_size // self.log_cleaner_threads <= 1 << 20:
            raise BROKER_OPTIONS["log.cleaner.dedupe.buffer.size"].error(
                str(self.log_cleaner_dedupe_buffer_size),
                f"must be more than {1 << 20} for each of log.cleaner.threads={self.log_cleaner_threads}",
            )
        lag_min, lag_max = self.log_defaults.min_compaction_lag_ms, self.log_defaults.max_compaction_lag_ms
        if lag_min > lag_max:
            raise BROKER_OPTIONS["log.cleaner.min.compaction.lag.ms"].error(
                str(lag_min), f"must not exceed log.cleaner.max.compaction.lag.ms={lag_max}"
            )

    def _resolve_listeners(self) -> tuple[ListenerConfig, ...]:
        name = "listener.security.protocol.map"
        protocols = parse_protocol_map(self.listener_security_protocol_map) if self.is_set(name) else None
        return resolve_listeners(
            self.listeners, self.advertised_listeners, protocols, self.controller_listener_names, self.node_id
        )


def find_option(name: str) -> Option | None:
    """The broker option of this name; `listener.name.NAME.OPTION` is OPTION for one listener. None if unknown."""
    found = BROKER_OPTIONS.get(name)
    if found is None and name.startswith(_LISTENER_PREFIX):
        return _of_one_listener(name)
    return found


# A broker may have a thousand of them, each of which is looked up again and again with every change.
@lru_cache(maxsize=1_024)
def _of_one_listener(name: str) -> Option | None:
    _, _, base = name.removeprefix(_LISTENER_PREFIX).partition(".")
    for candidate in (base, base.partition(".")[2]):  # some are prefixed with a SASL mechanism as well
        if candidate in BROKER_OPTIONS:
            option = BROKER_OPTIONS[candidate]
            return dataclasses.replace(option, name=name, acts=option.acts and candidate in PER_LISTENER)
    return None


def usable(texts: Texts) -> tuple[dict[str, str], list[str]]:
    """Those dynamic configs from disk that this version takes, and a line on each whose value it refuses."""
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


def resolve(static: "StaticConfig", dynamic: Mapping[str, Texts], node_id: int) -> tuple[BrokerConfig, list[str]]:
    """What a node runs with under the dynamic configs from disk, and a line on each of them that does not count.

    Where they are at odds with each other or with the static ones, which may be others than when the dynamic ones were set,
    none of them counts.

    Args:
        dynamic: By node id as a decimal, and those of all nodes under CLUSTER_DEFAULT.
    """
    cluster, problems = usable(dynamic.get(CLUSTER_DEFAULT, NO_TEXTS))
    own, own_problems = usable(dynamic.get(str(node_id), NO_TEXTS))
    problems = problems + own_problems
    try:
        return static.node(node_id, cluster_dynamic=cluster, node_dynamic=own), problems
    except ConfigError as error:
        return static.node(node_id), [*problems, f"stored broker configs of node {node_id} ignored: {error}"]


def _log_defaults(values: Mapping[str, Value]) -> LogConfig:
    """Topic defaults: for each topic option the first of its broker options that has a value."""
    defaults: dict[str, Value] = {}
    for topic in TOPIC_OPTIONS.values():
        for synonym in topic.synonyms:
            value = values.get(synonym.name)
            if value is not None:
                if synonym.factor > 1:
                    assert isinstance(value, int)
                    value = value * synonym.factor if value >= 0 else -1
                defaults[topic.name] = value
                break
    return LogConfig.from_values(defaults)


@dataclass(frozen=True, slots=True)
class StaticConfig:
    """What a start is told, before any dynamic config."""

    node_ids: tuple[int, ...]
    texts: Mapping[int, Texts] = field(repr=False)
    """The static values of each node."""
    cluster_id: str | None
    features: Mapping[str, int]
    warnings: tuple[str, ...]
    """One line for each option that was set and means nothing here."""
    emulate: str | None = None
    """The release of Apache Kafka that the broker plays (`emulation.RELEASES`); None: the newest that Ottla has."""
    profile: str = "kafka"
    controllers: tuple[ListenerConfig, ...] = ()
    """Listeners of controllers that are no nodes; the first node has them."""
    telemetry: str | Callable[[Any], object] | None = None
    """Who gets the metrics that clients push: a directory for reports, or a function (`telemetry.receivers`); None: nobody."""
    users: tuple[User, ...] = ()
    """Those that the start was told of in short; `config.sasl.users` has the options that they need."""

    def with_users(self, users: Iterable[User]) -> "StaticConfig":
        """The same with users. ConfigError where no listener takes logins: nobody could be one of them."""
        told = tuple(users)
        if told and not any(self.node(node_id).sasl for node_id in self.node_ids):
            raise ConfigError("users are given, but no listener takes logins: use one of SASL_PLAINTEXT or SASL_SSL")
        return dataclasses.replace(self, users=told)

    def node(self, node_id: int, *, cluster_dynamic: Texts = NO_TEXTS, node_dynamic: Texts = NO_TEXTS) -> BrokerConfig:
        """The configuration of one node. ConfigError as for `BrokerConfig.from_texts`."""
        return BrokerConfig.from_texts(self.texts[node_id], cluster_dynamic=cluster_dynamic, node_dynamic=node_dynamic)


def static_config(
    *,
    profile: str = "kafka",
    file: Properties | None = None,
    flags: Texts = NO_TEXTS,
    overrides: Texts = NO_TEXTS,
    nodes: int | None = None,
    emulate: str | None = None,
) -> StaticConfig:
    """Put the sources of a start together.

    Args:
        profile: A name from PROFILES.
        file: What a server.properties file says.
        flags: Options that command-line flags stand for.
        overrides: Options given by name, the strongest.
        nodes: Number of nodes; without it the file's, else 1.
        emulate: A release of Apache Kafka to play, as `2.8`; see `emulation`.

    Raises:
        ConfigError: Any value is refused for any node.
    """
    if profile not in PROFILES:
        raise ConfigError(f"Invalid value {profile} for --profile: must be one of: {', '.join(PROFILES)}")
    file = file or Properties()
    count = nodes if nodes is not None else file.nodes if file.nodes is not None else 1
    if not 1 <= count <= 1000:
        raise ConfigError(f"Invalid value {count} for --nodes: must be between 1 and 1000")
    base = PROFILES[profile] | file.values
    strongest = dict(flags) | dict(overrides)
    first = BrokerConfig.from_texts(_own_id(base | strongest)).node_id
    node_ids = tuple(range(first, first + count))
    controllers = file.controllers.keys() - set(node_ids)
    # What Apache Kafka's controllers decide by (num.partitions, topic defaults) holds where the file sets nothing else.
    decided = [file.node_values.get(each, {}) for each in sorted(controllers)]
    base = (
        PROFILES[profile]
        | {name: t for own in decided for name, t in own.items() if name not in PER_NODE}
        | file.values
    )
    shared = base | file.node_values.get(first, {}) | strongest
    texts = {}
    for node_id in node_ids:
        given = shared
        if node_id != first:
            own = {name: text for name, text in file.node_values.get(node_id, {}).items() if name in PER_NODE}
            given = {name: text for name, text in shared.items() if name not in _ADDRESSES}
            given |= own if "listeners" in own else _free_ports(shared) | own
        texts[node_id] = given | {"node.id": str(node_id), "broker.id": str(node_id)}
    warnings = (*_warnings(shared, file.node_values, node_ids, controllers), *feature_warnings(file.features))
    release = None if emulate is None else release_of(emulate)
    if release is not None:
        check_levels(file.features, release)
    features = {} if file.metadata_version is None else levels_of(file.metadata_version)
    static = StaticConfig(
        node_ids,
        texts,
        file.cluster_id,
        features | file.features,
        warnings,
        None if release is None else release.name,
        profile,
        _controllers(file, BrokerConfig.from_texts(texts[first])),
    )
    for node_id in node_ids:
        static.node(node_id)
    for controller in static.controllers:
        if controller.security_protocol in OVER_SASL:
            static.node(first).sasl_at(controller.name)
    return static


def _controllers(file: Properties, config: BrokerConfig) -> tuple[ListenerConfig, ...]:
    """What the file's comment lines say of controllers, if its listeners do not name one."""
    if any(each.controller_id is not None for each in config.listener_configs):
        return ()
    name = file.controller_listener or next(iter(config.controller_listener_names), "CONTROLLER")
    protocols = parse_protocol_map(config.listener_security_protocol_map)
    if name.upper() not in protocols:
        protocols = {}
    return tuple(
        controller_listener(each, name, address, protocols)
        for each, address in sorted(file.controllers.items())
        if address
    )


def _own_id(texts: Texts) -> Texts:
    """`broker.id` is the older name of `node.id`: it holds where only it is given."""
    if "broker.id" in texts and "node.id" not in texts:
        return {**texts, "node.id": texts["broker.id"]}
    return texts


def _free_ports(texts: Texts) -> dict[str, str]:
    """The listeners of a further node: those of the first, on free ports."""
    changed = {}
    for name in _ADDRESSES:
        if name in texts or name == "listeners":
            items = BROKER_OPTIONS[name].parse(texts[name]) if name in texts else BROKER_OPTIONS[name].default
            assert isinstance(items, tuple)
            endpoints = [parse_endpoint(name, item) for item in items]
            changed[name] = ",".join(
                f"{end.name}://{f'[{end.host}]' if ':' in end.host else end.host}:0" for end in endpoints
            )
    return changed


def warnings_of(texts: Texts) -> Iterable[str]:
    """One line for each option that is set and means nothing here."""
    for name in texts:
        option = find_option(name)
        if name in HANDED_ON:
            if not texts.get(CLASS_NAME):
                yield f"{name}: counts only at a start with {CLASS_NAME}, ignored"
        elif option is None:
            yield f"{name}: unknown option, ignored"
        elif not option.acts:
            yield f"{name}: known to Kafka, not acted on by Ottla{_reason(option)}"


def _reason(option: Option) -> str:
    """Why it means nothing, where its declaration says that."""
    _, means_nothing, reason = option.doc.partition("Means nothing here")
    return reason.removesuffix(".") if means_nothing else ""


def _warnings(
    shared: Texts, node_values: Mapping[int, Texts], node_ids: Iterable[int], controllers: Iterable[int]
) -> Iterable[str]:
    yield from warnings_of(shared)
    for node_id, texts in node_values.items():
        for name in texts:
            if node_id not in node_ids:
                if node_id not in controllers:
                    yield f"node.{node_id}.{name}: there is no node {node_id}, ignored"
            elif name not in PER_NODE and texts[name] != shared.get(name):
                yield f"node.{node_id}.{name}: all nodes share the value of node {min(node_ids)}, ignored"
