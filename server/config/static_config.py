"""Static configuration of a start, from all its sources and for all its nodes.

Precedence: override, flag, file, profile, default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...storage.topics.config import TOPIC_OPTIONS, ConfigError
from ...storage.topics.options import Option
from .broker_config import NO_TEXTS, BrokerConfig, ConfigSource, Texts
from .emulation import release_of
from .features import check_levels, feature_warnings, levels_of
from .listeners import OVER_SASL, ListenerConfig, controller_listener, parse_endpoint, parse_protocol_map
from .options.known_options import BROKER_OPTIONS, PER_LISTENER, find_option
from .options.security_options import CLASS_NAME, HANDED_ON
from .properties import Properties

if TYPE_CHECKING:
    from .sasl.users import User

NODES_MAX = 1000
"""Maximum number of nodes of one process."""
PER_NODE = frozenset({"advertised.listeners", "broker.rack", "listener.security.protocol.map", "listeners"})
"""Options whose values may differ between nodes of one process; all others are shared with the first node."""

_ADDRESSES = ("listeners", "advertised.listeners")

PROFILES: dict[str, dict[str, str]] = {
    "kafka": {},
    "dev": {
        # Reachable from this machine alone: both loopback addresses, under the advertised name.
        "listeners": "PLAINTEXT://localhost:9092",
        # A compacted topic is clean a moment after its segment was closed, not 15 s later.
        "log.cleaner.backoff.ms": "100",
        # Deleted topics and segments free their disk space while the developer still watches.
        "log.segment.delete.delay.ms": "1000",
        # Retention shows its effect within a second.
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "100",
        # A first consumer gets its partitions soon, and fifty that start at once meet in one rebalance.
        "group.initial.rebalance.delay.ms": "100",
        # Tests may give a crashed member up quickly.
        "group.min.session.timeout.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        # Members of consumer groups learn of changes by their heartbeats.
        "group.consumer.min.heartbeat.interval.ms": "10",
        "group.consumer.heartbeat.interval.ms": "500",
        # A second member need not wait a second for its part.
        "group.consumer.assignment.interval.ms": "100",
        "group.share.min.session.timeout.ms": "100",
        "group.share.min.heartbeat.interval.ms": "10",
        "group.share.heartbeat.interval.ms": "500",
        "group.share.assignment.interval.ms": "100",
        # The same for streams groups.
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.min.session.timeout.ms": "100",
        "group.streams.min.heartbeat.interval.ms": "10",
        "group.streams.heartbeat.interval.ms": "500",
        "group.streams.assignment.interval.ms": "100",
        # Members learn of a rebalance at once, not by their next heartbeat, three seconds later.
        "ottla.hold.heartbeats": "true",
        # 50 directories for the offsets of a few groups slow down the first start.
        "offsets.topic.num.partitions": "5",
    },
}
"""Values under the file's and the flags'. `kafka` is Apache Kafka's defaults, `dev` is for development and tests."""


def default_listener(profile: str, protocol: str) -> str:
    """Return the default listener of a profile, with another security protocol."""
    default = BROKER_OPTIONS["listeners"].default
    assert isinstance(default, tuple)
    return f"{protocol}://{PROFILES[profile].get('listeners', default[0]).partition('://')[2]}"


@dataclass(frozen=True, slots=True)
class StaticConfig:
    """Static configuration of a start, without dynamic configs."""

    node_ids: tuple[int, ...]
    configs: Mapping[int, BrokerConfig] = field(repr=False)
    """Static values by node ID."""
    cluster_id: str | None
    features: Mapping[str, int]
    warnings: tuple[str, ...]
    """One line for each option that was set and has no effect here."""
    emulate: str | None = None
    """The release of Apache Kafka that the broker emulates (`emulation.RELEASES`); None: the newest."""
    profile: str = "kafka"
    controllers: tuple[ListenerConfig, ...] = ()
    """Listeners of controllers that are not nodes; the first node has them."""
    telemetry: str | Callable[[Any], object] | None = None
    """Receiver of the metrics that clients push: a directory for reports, or a function (`telemetry.receivers`); None
    drops them.
    """
    users: tuple[User, ...] = ()
    """Users in the short form of the start; `config.sasl.users` has the options that they need."""

    def with_users(self, users: Iterable[User]) -> StaticConfig:
        """Return the same configuration with users. ConfigError without a SASL listener, since they could not log in."""
        told = tuple(users)
        if told and not any(self.node(node_id).sasl for node_id in self.node_ids):
            raise ConfigError("users require a SASL listener: use SASL_PLAINTEXT or SASL_SSL")
        return dataclasses.replace(self, users=told)

    def node(self, node_id: int, *, cluster_dynamic: Texts = NO_TEXTS, node_dynamic: Texts = NO_TEXTS) -> BrokerConfig:
        """Return the configuration of one node, or of a controller that is not a node: it has the first node's values.

        ConfigError as for `BrokerConfig.from_texts`; never for a node without dynamic options.
        """
        config = self.configs.get(node_id)
        if config is None:
            texts = self.configs[self.node_ids[0]].texts_of(ConfigSource.STATIC_BROKER)
            config = BrokerConfig.from_texts({**texts, **_ids(node_id)})
        if cluster_dynamic or node_dynamic:
            config = config.with_dynamic(cluster_dynamic, node_dynamic)
        return config


def static_config(
    *,
    profile: str = "kafka",
    file: Properties | None = None,
    flags: Texts = NO_TEXTS,
    overrides: Texts = NO_TEXTS,
    nodes: int | None = None,
    emulate: str | None = None,
) -> StaticConfig:
    """Merge the sources of a start.

    Args:
        profile: A name from PROFILES.
        file: The contents of a server.properties file.
        flags: Options that command-line flags stand for.
        overrides: Options given by name, the strongest.
        nodes: Number of nodes; without it the file's, else 1.
        emulate: A release of Apache Kafka to emulate, e.g. `2.8`; see `emulation`.

    Raises:
        ConfigError: A value is refused for a node.
    """
    if profile not in PROFILES:
        raise ConfigError(f"Invalid value {profile} for --profile: must be one of: {', '.join(PROFILES)}")
    file = file or Properties()
    count = nodes if nodes is not None else file.nodes if file.nodes is not None else 1
    if not 1 <= count <= NODES_MAX:
        raise ConfigError(f"Invalid value {count} for --nodes: must be between 1 and {NODES_MAX}")
    base = PROFILES[profile] | file.values
    strongest = dict(flags) | dict(overrides)
    named = base | strongest
    ids: dict[str, str] = {name: named[name] for name in ("node.id", "broker.id") if name in named}
    first = _first_id(ids)
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
        texts[node_id] = given | _ids(node_id)
    warnings = (*_warnings(shared, file.node_values, node_ids, controllers), *feature_warnings(file.features))
    release = None if emulate is None else release_of(emulate)
    if release is not None:
        check_levels(file.features, release)
    features = {} if file.metadata_version is None else levels_of(file.metadata_version)
    configs = {node_id: BrokerConfig.from_texts(own) for node_id, own in texts.items()}
    static = StaticConfig(
        node_ids,
        configs,
        file.cluster_id,
        features | file.features,
        warnings,
        None if release is None else release.name,
        profile,
        _controllers(file, configs[first]),
    )
    for controller in static.controllers:
        if controller.security_protocol in OVER_SASL:
            configs[first].sasl_at(controller.name)
    return static


def _ids(node_id: int) -> dict[str, str]:
    return {"node.id": str(node_id), "broker.id": str(node_id)}


def _controllers(file: Properties, config: BrokerConfig) -> tuple[ListenerConfig, ...]:
    """Return the controllers of the file's comment lines, unless its listeners name one."""
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


def _first_id(ids: Texts) -> int:
    """Return the first node's ID.

    `broker.id` is the older name of `node.id` and applies if only it is given. ConfigError if both differ, or one is
    refused.
    """
    if "broker.id" in ids:
        return BrokerConfig.from_texts({"node.id": ids["broker.id"], **ids}).node_id
    option = BROKER_OPTIONS["node.id"]
    value = option.parse(ids["node.id"]) if ids else option.default
    assert isinstance(value, int)
    return value


def _free_ports(texts: Texts) -> dict[str, str]:
    """Return the listeners of a further node: those of the first, on free ports."""
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


def _warnings(
    shared: Texts, node_values: Mapping[int, Texts], node_ids: Iterable[int], controllers: Iterable[int]
) -> Iterable[str]:
    yield from warnings_of(shared, names_the_nearest=True)
    for node_id, texts in node_values.items():
        for name in texts:
            if node_id not in node_ids:
                if node_id not in controllers:
                    yield f"node.{node_id}.{name}: node {node_id} not found, ignored"
            elif name not in PER_NODE and texts[name] != shared.get(name):
                yield f"node.{node_id}.{name}: all nodes share the value of node {min(node_ids)}; ignored"


_CHARS_SHOWN = 249
"""Limit on an unknown option's name in messages, as for topics; the name may have the maximum length of a string."""

_LIKE = 0.8
"""Similarity from which on an unknown name counts as a misspelling: other products have keys of their own in the same file."""


def warnings_of(texts: Mapping[str, str], *, names_the_nearest: bool = False) -> Iterator[str]:
    """Return one line for each option that is set and has no effect here.

    Args:
        names_the_nearest: Also suggest a known name for an unknown one; takes a millisecond each.
    """
    for name in texts:
        option, shown = find_option(name), name[:_CHARS_SHOWN]
        if name in HANDED_ON:
            if not texts.get(CLASS_NAME):
                yield f"{shown}: has no effect without {CLASS_NAME} at startup, ignored"
        elif option is None:
            near = _nearest(shown) if names_the_nearest else []
            yield f"{shown}: unknown option, ignored" + "".join(f"; did you mean {one}?" for one in near)
        elif not option.acts:
            yield f"{shown}: known to Kafka, but has no effect in Ottla{_reason(option)}"


def _nearest(name: str) -> list[str]:
    from difflib import get_close_matches  # imported here to keep it out of the start

    if name in TOPIC_OPTIONS:
        return [option.name for option in TOPIC_OPTIONS[name].synonyms[:1]]
    return get_close_matches(name, BROKER_OPTIONS, 1, _LIKE)


_OF_EACH_NODE = PER_LISTENER | {
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
}
"""Options whose values may differ between nodes of one process while they run."""


def shared_warnings(texts: Mapping[str, str], node_id: int, first: int) -> Iterator[str]:
    """Return one line for each option that takes effect only on the node `first`, but is set for another node alone."""
    for name in texts:
        option = BROKER_OPTIONS.get(name)
        if node_id != first and option is not None and option.acts and name not in _OF_EACH_NODE:
            yield f"node.{node_id}.{name}: stored and shown, but all nodes share the value of node {first}"


def _reason(option: Option) -> str:
    """Return why the option has no effect, if its declaration says so."""
    _, prefix, reason = option.doc.partition("No effect in Ottla")
    return reason.removesuffix(".") if prefix else ""
