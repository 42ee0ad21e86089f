"""What DescribeConfigs shows of topics and brokers, and what AlterConfigs and CreateTopics may set on them.

Functions of a BrokerConfig and of the texts that are set; nothing is stored here. Errors are Apache Kafka's: 40
INVALID_CONFIG for topics, 42 INVALID_REQUEST for brokers and for requests that contradict themselves.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from ..protocol.errors import ErrorCode, KafkaError
from ..storage.config import TOPIC_OPTIONS, ConfigError, LogConfig
from ..storage.options import Option, OptionType, UpdateMode, format_value
from .config import BROKER_OPTIONS, BrokerConfig, ConfigSource, Texts, find_option

_LISTENER_ONLY = ("ssl.keystore.", "ssl.truststore.", "ssl.key.")
"""Starts of the names of keys and trust, which Kafka lets change for one listener only (`listener.name.NAME.…`)."""

_FIXED_HERE = ("listeners", "listener.security.protocol.map")
"""What Kafka changes at run time and Ottla does not."""


class ResourceType(IntEnum):
    """Kinds of resources that have configs, numbered as on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to one config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Synonym:
    """One place that a value comes from, or would come from."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config as it holds. `value` is None for none and for secrets; `type` as DescribeConfigs numbers it."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: int
    doc: str
    synonyms: tuple[Synonym, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One wished change of one config."""

    name: str
    value: str | None
    operation: int = Operation.SET


# Describing


def describe_topic(config: BrokerConfig, overrides: Texts, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The configs of a topic with these overrides: all that are not hidden, or those of `names` that exist."""
    entries = []
    for option in TOPIC_OPTIONS.values():
        if _is_wanted(option, overrides, names):
            text = format_value(getattr(config.log_defaults, option.attribute))
            synonyms = []
            if option.name in overrides:
                text = _normal(option, overrides[option.name])
                synonyms.append(Synonym(option.name, text, ConfigSource.TOPIC))
            if option.synonyms:
                synonyms += _broker_synonyms(config, BROKER_OPTIONS[option.synonyms[0].name])
            entries.append(_entry(option, text, synonyms, read_only=False))
    return entries


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The configs of a node: all that are not hidden, those that were set, or those of `names` that exist."""
    texts = {name: text for _, layer in reversed(config.layers) for name, text in layer.items()}
    entries = []
    for option in _set_and_known(texts):
        if _is_wanted(option, texts, names):
            value = config.value(option.name) if find_option(option.name) else texts[option.name]
            text = None if value is None or option.is_sensitive else format_value(value)
            entries.append(_entry(option, text, list(_broker_synonyms(config, option))))
    return entries


def describe_cluster_default(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The dynamic configs that hold for all nodes; nothing else."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    entries = []
    for name, text in sorted(config.texts_of(source).items()):
        if not names or name in names:
            option = find_option(name) or _unknown(name)
            shown = None if option.is_sensitive else text
            entries.append(_entry(option, shown, [Synonym(name, shown, source)]))
    return entries


def describe_group(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The configs of any group: nothing is set on single groups, so these are the broker's `group.…` options."""
    entries = []
    for name in _GROUP_CONFIGS:
        option = BROKER_OPTIONS[f"group.{name}"]
        synonyms = list(_broker_synonyms(config, option))
        entries.append(_entry(dataclasses.replace(option, name=name), synonyms[0].value, synonyms, read_only=False))
    for option in _GROUP_ONLY_CONFIGS:
        text = format_value(option.default)
        default = Synonym(option.name, text, ConfigSource.DEFAULT)
        entries.append(_entry(option, text, [default], read_only=False))
    return [entry for entry in entries if not names or entry.name in names]


def describe_client_metrics(names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The configs of any client metrics subscription: none can be made, so these are Kafka's defaults."""
    return [
        _entry(option, format_value(option.default), [], read_only=False)
        for option in _CLIENT_METRICS_CONFIGS
        if not names or option.name in names
    ]


_GROUP_CONFIGS = (
    "consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.assignment.interval.ms",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.session.timeout.ms",
    "streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas",
    "streams.session.timeout.ms",
)

_SHARE_GROUPS = "Share groups are not offered."

_GROUP_ONLY_CONFIGS = (
    Option("share.auto.offset.reset", OptionType.STRING, "latest", doc=_SHARE_GROUPS),
    Option("share.isolation.level", OptionType.STRING, "read_uncommitted", doc=_SHARE_GROUPS),
    Option("share.renew.acknowledge.enable", OptionType.BOOLEAN, True, doc=_SHARE_GROUPS),
)

_CLIENT_METRICS_CONFIGS = (
    Option("interval.ms", OptionType.INT, 300_000, doc="Time between two reports; metrics are not collected."),
    Option("match", OptionType.LIST, (), doc="Clients that report; metrics are not collected."),
    Option("metrics", OptionType.LIST, (), doc="Metrics to report; metrics are not collected."),
)


def _normal(option: Option, text: str) -> str:
    """How Kafka writes the value that `text` means; a stored text that this version does not take, as it is."""
    try:
        return format_value(option.parse(text))
    except ConfigError:
        return text


def _is_wanted(option: Option, texts: Texts, names: Collection[str] | None) -> bool:
    if names and option.name not in names:
        return False
    return not option.hidden or option.name in texts


def _set_and_known(texts: Texts) -> Iterator[Option]:
    yield from BROKER_OPTIONS.values()
    for name in texts:
        if name not in BROKER_OPTIONS:
            yield find_option(name) or _unknown(name)


def _unknown(name: str) -> Option:
    """A name that is no option of Kafka's: kept for plug-ins, hidden like a secret since nobody knows what it is."""
    return Option(name, OptionType.PASSWORD, None, update=UpdateMode.READ_ONLY, acts=False)


def _entry(option: Option, text: str | None, synonyms: list[Synonym], read_only: bool | None = None) -> ConfigEntry:
    return ConfigEntry(
        option.name,
        text,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        option.update is UpdateMode.READ_ONLY if read_only is None else read_only,
        option.is_sensitive,
        option.type if option.doc else 0,
        option.doc,
        tuple(synonyms),
    )


def _broker_synonyms(config: BrokerConfig, option: Option) -> Iterator[Synonym]:
    """Where a broker option's value may come from, the strongest first, from the option's own name on.

    Kafka looks through all sources for all names of one thing (log.retention.ms, .minutes, .hours), then leaves out
    what comes before the asked name: a weaker name alone does not show.
    """
    group = _SAME_THING.get(option.name, (option.name,))
    found = [
        Synonym(name, None if option.is_sensitive else texts[name], source)
        for source, texts in config.layers
        for name in group
        if name in texts
    ]
    for name in group:
        default = BROKER_OPTIONS[name].default if name in BROKER_OPTIONS else None
        if default is not None and name not in _REQUIRED_BY_KAFKA:
            found.append(Synonym(name, None if option.is_sensitive else format_value(default), ConfigSource.DEFAULT))
    while found and found[0].name != option.name:
        del found[0]
    yield from found


_REQUIRED_BY_KAFKA = ("controller.listener.names", "node.id", "process.roles")
"""Options that Kafka has no default for."""

_SAME_THING = {
    synonym.name: tuple(other.name for other in topic.synonyms)
    for topic in TOPIC_OPTIONS.values()
    if len(topic.synonyms) > 1
    for synonym in topic.synonyms
}


# Altering


def check_topic_configs(config: BrokerConfig, overrides: Texts) -> LogConfig:
    """What a topic with these overrides would run with.

    Raises:
        KafkaError: INVALID_CONFIG, naming value, option and bound.
    """
    for name in overrides:
        if name not in TOPIC_OPTIONS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    try:
        return LogConfig.from_texts(overrides, config.log_defaults)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def alter_topic(config: BrokerConfig, overrides: Texts, changes: Iterable[Change]) -> dict[str, str]:
    """The overrides of a topic after `changes`; AlterConfigs, which replaces all of them, starts from none.

    Raises:
        KafkaError: INVALID_CONFIG, or INVALID_REQUEST for changes that contradict themselves.
    """
    changed = _apply(overrides, changes, TOPIC_OPTIONS.get, config)
    check_topic_configs(config, changed)
    return changed


def alter_broker(config: BrokerConfig, level: ConfigSource, texts: Texts, changes: Iterable[Change]) -> dict[str, str]:
    """The dynamic configs of a node (`level` DYNAMIC_BROKER) or of all (DYNAMIC_DEFAULT_BROKER) after `changes`.

    Args:
        config: What the node runs with now.
        level: Which of its two dynamic layers is changed.
        texts: What that layer holds before; nothing, where all of it is replaced (AlterConfigs).
        changes: The wishes.

    Raises:
        KafkaError: INVALID_REQUEST: a value is refused, or the option cannot change at run time or on this level.
            INVALID_CONFIG: APPEND or SUBTRACT on what is no list.
    """
    changed = _apply(texts, changes, find_option, config)
    for name in changed:
        _check_dynamic(name, level)
    other = {level: changed}
    try:
        new = config.with_dynamic(
            other.get(ConfigSource.DYNAMIC_DEFAULT_BROKER, config.texts_of(ConfigSource.DYNAMIC_DEFAULT_BROKER)),
            other.get(ConfigSource.DYNAMIC_BROKER, config.texts_of(ConfigSource.DYNAMIC_BROKER)),
        )
        _check_threads(config.log_cleaner_threads, new.log_cleaner_threads)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    return changed


def _check_dynamic(name: str, level: ConfigSource) -> None:
    """Whether `name` may change at run time on this level; a name that nobody knows may."""
    option = find_option(name)
    if option is None:
        return
    if option.update is UpdateMode.READ_ONLY or name in _FIXED_HERE:
        reason = "cannot be changed while the broker runs"
    elif name.startswith(_LISTENER_ONLY):
        reason = f"can be changed for one listener only, as listener.name.NAME.{name}"
    elif option.update is UpdateMode.PER_BROKER and level is ConfigSource.DYNAMIC_DEFAULT_BROKER:
        reason = "cannot be changed for all brokers, a broker id must be named"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"The config {name} {reason}")


def _check_threads(present: int, wanted: int) -> None:
    """Kafka lets a number of threads at most double or halve in one step."""
    if wanted != present and not max(1, present // 2) <= wanted <= present * 2:
        bound = f"must be between {max(1, present // 2)} and {present * 2}, half and double the present value"
        raise BROKER_OPTIONS["log.cleaner.threads"].error(str(wanted), bound)


def _apply(
    texts: Texts, changes: Iterable[Change], find: Callable[[str], Option | None], config: BrokerConfig
) -> dict[str, str]:
    changed = dict(texts)
    seen = set()
    for change in changes:
        name, value = change.name, change.value
        if name in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The config {name} is named more than once")
        seen.add(name)
        if change.operation == Operation.DELETE:
            changed.pop(name, None)
        elif value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        elif change.operation == Operation.SET:
            changed[name] = value
        elif change.operation in (Operation.APPEND, Operation.SUBTRACT):
            changed[name] = _edited_list(find(name), change, changed.get(name), config)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation {change.operation} on the config {name}")
    return changed


def _edited_list(option: Option | None, change: Change, present: str | None, config: BrokerConfig) -> str:
    """The list after APPEND (only items that are not in it yet) or SUBTRACT (those that are)."""
    if option is None or option.type is not OptionType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"APPEND and SUBTRACT are for lists, and the config {change.name} is none"
        )
    items = _items(present) if present is not None else _items(_base(option, config))
    named = _items(change.value or "")
    if change.operation == Operation.APPEND:
        return ",".join(dict.fromkeys(items + named))
    return ",".join(item for item in items if item not in named)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _base(option: Option, config: BrokerConfig) -> str:
    """What APPEND and SUBTRACT start from where nothing is set on this level: static value or default, as in Kafka."""
    static = config.texts_of(ConfigSource.STATIC_BROKER)
    for name in (option.name, *(synonym.name for synonym in option.synonyms)):
        if name in static:
            return static[name]
    return format_value(option.default)
