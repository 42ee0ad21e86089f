"""Changes that AlterConfigs, IncrementalAlterConfigs and CreateTopics may make to configs of topics and brokers.

Functions of a BrokerConfig and of the texts before the change; they return the texts after it and store nothing. Errors
are Apache Kafka's: 40 INVALID_CONFIG for topics, 42 INVALID_REQUEST for brokers and for requests that contradict
themselves.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import NamedTuple

from ...protocol.codegen import MAX_STRING_BYTES
from ...protocol.errors import ErrorCode, KafkaError
from ...storage.topics.config import TOPIC_OPTIONS, ConfigError, LogConfig
from ...storage.topics.options import Option, OptionType, UpdateMode, format_value
from .broker_config import INTERNAL_TOPICS, BrokerConfig, ConfigSource, Texts
from .group_configs import check_group_configs
from .options.known_options import BROKER_OPTIONS, find_option
from .options.quota_options import PER_LISTENER as CONNECTION_LIMITS

_LISTENER_ONLY = ("ssl.keystore.", "ssl.truststore.", "ssl.key.")
"""Prefixes of key store and trust store options, which Kafka lets change for one listener only (`listener.name.NAME.…`)."""

CONFIGS_MAX = 400
"""Maximum number of configs of one resource. A broker accepts and keeps unknown names, and reads all of them with each
change.
"""

CONFIG_CHARS_MAX = 64 << 10
"""Maximum characters of one resource's configs, names and values together. All are read with each change, in some
milliseconds, and written with each change of the catalog.
"""

# An unknown name may have the maximum length of a string; the message must have room for more than the name.
_NAME_CHARS_IN_MESSAGE = 1024

_NAME_CHARS_LIKE = 100
"""Only this many leading characters of a name are compared with the known names; none of those is longer."""

_FIXED_HERE = ("listeners", "listener.security.protocol.map")
"""Options that Kafka changes at run time and Ottla does not."""


class ConfigOperation(IntEnum):
    """Operation of IncrementalAlterConfigs on one config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One requested change of one config."""

    name: str
    value: str | None
    operation: int = ConfigOperation.SET


def check_topic_configs(config: BrokerConfig, overrides: Texts, topic: str = "") -> LogConfig:
    """Return the configuration that a topic with these overrides would have.

    Args:
        topic: The name of the topic; internal ones take no option of Ottla's, as coordinators read their logs by offset.

    Raises:
        KafkaError: INVALID_CONFIG, naming value, option and bound.
    """
    for name, text in overrides.items():
        if topic in INTERNAL_TOPICS and name.startswith("ottla."):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid value {text} for configuration {name}: not allowed on the internal topic {topic}",
            )
        if name not in TOPIC_OPTIONS:
            from difflib import get_close_matches  # imported here to keep it out of the start

            close = get_close_matches(name[:_NAME_CHARS_LIKE], TOPIC_OPTIONS, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}{hint}")
    try:
        return LogConfig.from_texts(overrides, config.log_defaults)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def alter_topic(
    config: BrokerConfig, overrides: Texts, changes: Iterable[ConfigChange], topic: str = ""
) -> dict[str, str]:
    """Return the overrides of a topic after `changes`. AlterConfigs, which replaces all of them, starts from none.

    Args:
        topic: As of `check_topic_configs`.

    Raises:
        KafkaError: INVALID_CONFIG, or INVALID_REQUEST for changes that contradict themselves.
    """
    changed = _apply(overrides, changes, TOPIC_OPTIONS.get, config)
    check_topic_configs(config, changed, topic)
    return changed


def alter_group(config: BrokerConfig, texts: Texts, changes: Iterable[ConfigChange]) -> dict[str, str]:
    """Return the configs of a group after `changes`. AlterConfigs, which replaces all of them, starts from none.

    Raises:
        KafkaError: INVALID_CONFIG, or INVALID_REQUEST for changes that contradict themselves.
    """
    changed = _apply(texts, changes, lambda _: None, config)  # In Apache Kafka, none of these is a list.
    check_group_configs(config, changed)
    return changed


def alter_client_metrics(config: BrokerConfig, texts: Texts, changes: Iterable[ConfigChange]) -> dict[str, str]:
    """Return the configs of a client metrics subscription after `changes`, as `alter_group`. Their meaning is not checked."""
    return _apply(texts, changes, lambda _: None, config)  # None of these is one either.


def alter_broker(
    config: BrokerConfig, level: ConfigSource, texts: Texts, changes: Iterable[ConfigChange]
) -> dict[str, str]:
    """Return the dynamic configs of a node (`level` DYNAMIC_BROKER) or of all nodes (DYNAMIC_DEFAULT_BROKER) after `changes`.

    Args:
        config: The node's present configuration.
        level: Which of its two dynamic layers is changed.
        texts: What that layer contains before; empty if all of it is replaced (AlterConfigs).
        changes: The requested changes.

    Raises:
        KafkaError: INVALID_REQUEST: a value is refused, or the option cannot change at run time or on this level.
            INVALID_CONFIG: APPEND or SUBTRACT on an option that is not a list. POLICY_VIOLATION: more than CONFIGS_MAX or
            CONFIG_CHARS_MAX.
    """
    changed = _apply(texts, changes, find_option, config)
    for name in changed:
        _check_dynamic(name, level)
    try:
        new = with_layer(config, level, changed)
        _check_threads(config.log_cleaner_threads, new.log_cleaner_threads)
        _check_connections(changed, new)
        _check_tiers(config.log_defaults, new.log_defaults)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    return changed


def with_layer(config: BrokerConfig, level: ConfigSource, texts: Texts) -> BrokerConfig:
    """Return the configuration of a node once one of its two dynamic layers is `texts`. ConfigError: a value is refused."""
    cluster, node = (
        texts if level is each else config.texts_of(each)
        for each in (ConfigSource.DYNAMIC_DEFAULT_BROKER, ConfigSource.DYNAMIC_BROKER)
    )
    return config.with_dynamic(cluster, node)


def _check_dynamic(name: str, level: ConfigSource) -> None:
    """Raise if `name` may not change at run time on this level. An unknown name may."""
    option = find_option(name)
    if option is None:
        return
    if option.update is UpdateMode.READ_ONLY or name in _FIXED_HERE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{name}]")
    if name.startswith(_LISTENER_ONLY):
        reason = f"can only be changed per listener, as listener.name.NAME.{name}"
    elif option.update is UpdateMode.PER_BROKER and level is ConfigSource.DYNAMIC_DEFAULT_BROKER:
        reason = "cannot be changed for all brokers; name a broker ID"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"The config {name} {reason}")


def _check_connections(changed: Texts, new: BrokerConfig) -> None:
    """Raise ConfigError for a limit of 0.

    A start may allow no connections; a running broker may not, since no client could connect to raise the limit again.
    """
    for name in changed:
        if name.endswith(tuple(CONNECTION_LIMITS)) and find_option(name) is not None and new.value(name) == 0:
            raise ConfigError(
                f"Invalid value 0 for configuration {name}: must be at least 1 while the broker is running"
            )


def _check_tiers(present: LogConfig, wanted: LogConfig) -> None:
    """Raise if the defaults of tiered logs contradict each other. As in Apache Kafka, a start may set such values."""
    if present == wanted:
        return
    for unit in ("ms", "bytes"):
        retention, local, lag = (
            getattr(wanted, f"{what}_{unit}") for what in ("retention", "local_retention", "remote_copy_lag")
        )
        if retention > -1 and local == -1:
            rule = f"Value must not be -1 as log.retention.{unit} value is set as {retention}."
            raise BROKER_OPTIONS[f"log.local.retention.{unit}"].error(str(local), rule)
        if -1 < retention < local:
            rule = f"Value must not be more than log.retention.{unit} property value: {retention}"
            raise BROKER_OPTIONS[f"log.local.retention.{unit}"].error(str(local), rule)
        effective = retention if local == -2 else local
        if 0 <= effective < lag:
            rule = f"Value must not exceed log.local.retention.{unit} (effective value: {effective})"
            raise BROKER_OPTIONS[f"log.remote.copy.lag.{unit}"].error(str(lag), rule)


def _check_threads(present: int, wanted: int) -> None:
    """Raise if a number of threads more than doubles or less than halves in one step, as in Kafka."""
    if wanted != present and not max(1, present // 2) <= wanted <= present * 2:
        bound = f"must be between {max(1, present // 2)} and {present * 2}, half and double the current value"
        raise BROKER_OPTIONS["log.cleaner.threads"].error(str(wanted), bound)


def _apply(
    texts: Texts, changes: Iterable[ConfigChange], find: Callable[[str], Option | None], config: BrokerConfig
) -> dict[str, str]:
    changed = dict(texts)
    seen = set()
    for change in changes:
        name, value = change.name, change.value
        if name in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The config {name} is specified more than once")
        seen.add(name)
        if change.operation == ConfigOperation.DELETE:
            changed.pop(name, None)
        elif value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        elif change.operation == ConfigOperation.SET:
            changed[name] = value
        elif change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            changed[name] = _edited_list(find(name), change, changed.get(name), config)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation {change.operation} on the config {name}")
        if name in changed:
            _check_size(name, changed[name])
        if len(changed) > CONFIGS_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"too many configs for one resource (limit {CONFIGS_MAX})")
    chars = sum(map(len, changed)) + sum(map(len, changed.values()))
    if chars > CONFIG_CHARS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The configs of the resource are too large ({chars} characters, limit {CONFIG_CHARS_MAX}).",
        )
    return changed


def _check_size(name: str, value: str) -> None:
    """Raise if a value has grown beyond the longest string of a response: it could never be described again.

    KAFKA-18020, which counts UTF-16 units.
    """
    if 4 * len(value) > MAX_STRING_BYTES and (size_bytes := len(value.encode())) > MAX_STRING_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The value of the config {name[:_NAME_CHARS_IN_MESSAGE]} is too large ({size_bytes} bytes, limit"
            f" {MAX_STRING_BYTES}).",
        )


def _edited_list(option: Option | None, change: ConfigChange, present: str | None, config: BrokerConfig) -> str:
    """Return the list after APPEND (adds only items that are not in it yet) or SUBTRACT (removes those that are)."""
    if option is None or option.type is not OptionType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"APPEND and SUBTRACT require a list config; {change.name} is not a list"
        )
    items = _items(present) if present is not None else _items(_base(option, config))
    named = dict.fromkeys(_items(change.value or ""))
    if change.operation == ConfigOperation.APPEND:
        return ",".join(dict.fromkeys([*items, *named]))
    return ",".join(item for item in items if item not in named)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _base(option: Option, config: BrokerConfig) -> str:
    """Return the list that APPEND and SUBTRACT start from if this level sets none: static value or default, as in Kafka."""
    static = config.texts_of(ConfigSource.STATIC_BROKER)
    for name in (option.name, *(synonym.name for synonym in option.synonyms)):
        if name in static:
            return static[name]
    return format_value(option.default)
