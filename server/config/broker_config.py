"""The configuration values of one node.

A `BrokerConfig` is the static values (`StaticConfig`) under the dynamic ones that clients set. It is immutable; after a
change the server replaces it with a new one. Values are typed attributes (`config.num_partitions`) for the options of
`options.broker_options`, `config.value(name)` for any other.
"""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from ...storage.topics.config import SEGMENT_BYTES_MIN, TOPIC_OPTIONS, LogConfig
from ...storage.topics.options import Value, format_value
from .listeners import OVER_SASL, ListenerConfig, parse_protocol_map, resolve_listeners
from .options.broker_options import ACTED_ON, BrokerOptions
from .options.known_options import LISTENER_PREFIX, find_option
from .options.quota_options import PER_LISTENER as QUOTAS_PER_LISTENER
from .options.quota_options import ListenerLimits
from .options.security_options import Authorization, authorization_of
from .rules import check_rules

if TYPE_CHECKING:
    from .sasl.mechanisms import SaslConfig

Texts = Mapping[str, str]

NO_TEXTS: Texts = MappingProxyType({})

INTERNAL_TOPICS = {
    "__consumer_offsets": "offsets.topic",
    "__share_group_state": "share.coordinator.state.topic",
    "__transaction_state": "transaction.state.log",
}
"""Prefixes of the options that each internal topic is created with, by topic name."""


class ConfigSource(IntEnum):
    """Source of a value, numbered as in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class BrokerConfig(BrokerOptions):
    """The configuration of one node."""

    layers: tuple[tuple[ConfigSource, Texts], ...] = field(default=(), repr=False)
    """The texts that were set, by source, the strongest source first."""
    log_defaults: LogConfig = field(default_factory=LogConfig)
    """The configuration of a topic without overrides."""
    listener_configs: tuple[ListenerConfig, ...] = ()
    sasl: Mapping[str, SaslConfig] = field(default_factory=dict)
    """SASL configuration by listener name, for the listeners with SASL."""
    own_connection_limits: Mapping[str, ListenerLimits] = field(default_factory=dict)
    """Connection limits by listener name, for the listeners that have limits of their own."""

    def __init__(self, **values: object) -> None:
        """Set fields by name; fields that are not named get their defaults.

        The `__init__` that dataclass generates would take a fiftieth of a start to make.

        Raises:
            TypeError: No such field.
        """
        for each in dataclasses.fields(self):
            if each.name in values:
                value = values.pop(each.name)
            elif each.default_factory is not dataclasses.MISSING:
                value = each.default_factory()
            else:
                value = each.default
            object.__setattr__(self, each.name, value)
        if values:
            raise TypeError(f"BrokerConfig has no {', '.join(values)}")

    @classmethod
    def from_texts(
        cls, static: Texts = NO_TEXTS, *, cluster_dynamic: Texts = NO_TEXTS, node_dynamic: Texts = NO_TEXTS
    ) -> BrokerConfig:
        """Make a configuration from texts. Unknown names are kept and have no effect.

        Raises:
            ConfigError: A value is refused, alone or against others; names value, option and bound.
        """
        layers = (
            (ConfigSource.DYNAMIC_BROKER, dict(node_dynamic)),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, dict(cluster_dynamic)),
            (ConfigSource.STATIC_BROKER, dict(static)),
        )
        # A weaker layer's value takes effect when the stronger one is deleted, so each is checked.
        set_values = [
            {name: option.parse(text) for name, text in texts.items() if (option := find_option(name)) is not None}
            for _, texts in layers
        ]
        values = {name: value for layer in reversed(set_values) for name, value in layer.items()}
        fields = {ACTED_ON[name].attribute: value for name, value in values.items() if name in ACTED_ON}
        config = cls(layers=layers, log_defaults=_log_defaults(values), **fields)
        _ = config.authorization
        check_rules(config)
        listeners = config._resolve_listeners()
        secured = (each.name for each in listeners if each.security_protocol in OVER_SASL)
        found = {
            "listener_configs": listeners,
            "sasl": {name: config._sasl_of(name) for name in secured},
            "own_connection_limits": config._own_connection_limits(),
        }
        for name, value in found.items():  # no caller has it yet, and a copy takes as long as all values that are read
            object.__setattr__(config, name, value)
        return config

    def sasl_at(self, listener: str) -> SaslConfig:
        """Return the SASL configuration of a listener; it may be that of a controller without a broker.

        ConfigError as `sasl_of`.
        """
        found = self.sasl.get(listener)
        return self._sasl_of(listener) if found is None else found

    def _sasl_of(self, listener: str) -> SaslConfig:
        from .sasl.mechanisms import sasl_of  # a broker without SASL does not need it

        return sasl_of(listener, self.listener_value, self._is_set_for)

    def value(self, name: str) -> Value:
        """Return the value of any broker option. KeyError for a name that Kafka does not have."""
        option = find_option(name)
        if option is None:
            raise KeyError(name)
        for _, texts in self.layers:
            if name in texts:
                return option.parse(texts[name])
        return option.default

    def listener_value(self, listener: str, name: str, mechanism: str = "") -> Value:
        """Return the value of a broker option for one listener, optionally for one SASL mechanism there.

        The first of `listener.name.LISTENER.MECHANISM.NAME`, `listener.name.LISTENER.NAME` and NAME that is set wins,
        else NAME's default. KeyError for a name that Kafka does not have.
        """
        prefix = f"{LISTENER_PREFIX}{listener.lower()}."
        names = [f"{prefix}{mechanism.lower()}.{name}"] if mechanism else []
        for candidate in (*names, prefix + name):
            if any(candidate in texts for _, texts in self.layers):
                return self.value(candidate)
        return self.value(name)

    def _is_set_for(self, listener: str, name: str) -> bool:
        names = {name, f"{LISTENER_PREFIX}{listener.lower()}.{name}"}
        return any(not names.isdisjoint(texts) for _, texts in self.layers)

    def is_set(self, name: str) -> bool:
        """Return whether the option of exactly this name is set in any layer."""
        return any(name in texts for _, texts in self.layers)

    def topic_config(self, overrides: Texts) -> LogConfig:
        """Return the configuration of a topic with these overrides.

        They were checked when they were set; an override that this version refuses is ignored.
        """
        return LogConfig.from_stored(overrides, self.log_defaults)[0]

    def with_dynamic(self, cluster: Texts, node: Texts) -> BrokerConfig:
        """Return the same static values under other dynamic ones. ConfigError as for `from_texts`."""
        return BrokerConfig.from_texts(
            self.texts_of(ConfigSource.STATIC_BROKER), cluster_dynamic=cluster, node_dynamic=node
        )

    def texts_of(self, source: ConfigSource) -> Texts:
        """Return the texts that one source has set."""
        return dict(self.layers).get(source, NO_TEXTS)

    def internal_topic(self, name: str) -> tuple[int, int, dict[str, str]]:
        """Return partitions, replication factor and config overrides of an internal topic. KeyError for any other topic."""
        prefix = INTERNAL_TOPICS[name]
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
        if name == "__share_group_state":
            configs |= {"cleanup.policy": "delete", "retention.ms": "-1"}
            configs["min.insync.replicas"] = format_value(self.value(f"{prefix}.min.isr"))
        if name == "__transaction_state":
            configs["compression.type"] = "uncompressed"
            configs["min.insync.replicas"] = format_value(self.value(f"{prefix}.min.isr"))
            configs["unclean.leader.election.enable"] = "false"
        return partitions, factor, configs

    @property
    def authorization(self) -> Authorization | None:
        """The authorizer's settings, from the static options alone; None without an authorizer."""
        return authorization_of(self.authorizer_class_name, self.texts_of(ConfigSource.STATIC_BROKER))

    @property
    def data_dirs(self) -> tuple[str, ...]:
        return self.log_dir if self.log_dirs is None else self.log_dirs

    @property
    def cordoned_dirs(self) -> frozenset[str]:
        """The data directories that receive no new partitions."""
        data_dirs = [each.rstrip("/") or "/" for each in self.data_dirs]
        named = {each.rstrip("/") or "/" for each in self.cordoned_log_dirs}
        return frozenset(data_dirs) if "*" in named else frozenset(named.intersection(data_dirs))

    @property
    def has_uncordoned_dirs(self) -> bool:
        """Whether any data directory receives new partitions."""
        return not self.cordoned_log_dirs or len(self.cordoned_dirs) < len(
            {each.rstrip("/") for each in self.data_dirs}
        )

    @property
    def listen_backlog(self) -> int:
        """How many connections may wait to be accepted. Unless `socket.listen.backlog.size` is set, the system's maximum.

        Beyond it a client gets no answer, and tries again after a second. A thousand connections in a row take 20 ms if
        the queue has room for them, and 20 s with a queue of 50.
        """
        size = self.socket_listen_backlog_size
        return size if self.is_set("socket.listen.backlog.size") else max(size, socket.SOMAXCONN)

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
        """The inter-broker listener, if there are other listeners.

        Broker-wide limits on connections do not apply to it, only its own.
        """
        if len(self.listener_configs) < 2:
            return None
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    def connection_limits(self, listener: str) -> ListenerLimits:
        """Return the connection limits of one listener."""
        own = self.own_connection_limits.get(listener)
        return own or ListenerLimits(self.max_connections, self.max_connection_creation_rate)

    def _own_connection_limits(self) -> dict[str, ListenerLimits]:
        names = {
            name.removeprefix(LISTENER_PREFIX).partition(".")[0]
            for _, texts in self.layers
            for name in texts
            if name.startswith(LISTENER_PREFIX) and name.endswith(tuple(QUOTAS_PER_LISTENER))
        }
        limits = {}
        for listener in names:
            most, rate = (
                self.listener_value(listener, name) for name in ("max.connections", "max.connection.creation.rate")
            )
            assert isinstance(most, int) and isinstance(rate, int)
            limits[listener.upper()] = ListenerLimits(most, rate)
        return limits

    def _resolve_listeners(self) -> tuple[ListenerConfig, ...]:
        name = "listener.security.protocol.map"
        protocols = parse_protocol_map(self.listener_security_protocol_map) if self.is_set(name) else None
        return resolve_listeners(
            self.listeners, self.advertised_listeners, protocols, self.controller_listener_names, self.node_id
        )


def _log_defaults(values: Mapping[str, Value]) -> LogConfig:
    """Return the topic defaults: for each topic option the first of its broker options that has a value."""
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
