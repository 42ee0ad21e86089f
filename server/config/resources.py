"""DescribeConfigs of topics, brokers and other resources: values, their sources, their synonyms.

Functions of a BrokerConfig and of the texts that are set. What may be set is in `changes`.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum

from ...storage.topics.config import TOPIC_OPTIONS, ConfigError
from ...storage.topics.options import Option, OptionType, UpdateMode, format_value
from .broker_config import NO_TEXTS, BrokerConfig, ConfigSource, Texts
from .group_configs import DEFAULT_FROM, GROUP_OPTIONS
from .options.known_options import BROKER_OPTIONS, find_option
from .options.quota_options import DYNAMIC_ONLY


class ConfigResourceType(IntEnum):
    """Kinds of resources that have configs, numbered as on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ValueSource:
    """One source of a value: the present one, or one that would apply without stronger sources."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config as DescribeConfigs shows it.

    `value` is None for none and for secrets; `type` has DescribeConfigs's numbers.
    """

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: int
    doc: str
    synonyms: tuple[ValueSource, ...]


def describe_topic(config: BrokerConfig, overrides: Texts, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Return the configs of a topic with these overrides: all that are not hidden, or those of `names` that exist."""
    entries = []
    for option in TOPIC_OPTIONS.values():
        if _is_wanted(option, overrides, names):
            text = format_value(getattr(config.log_defaults, option.attribute))
            synonyms = []
            if option.name in overrides:
                text = _normal(option, overrides[option.name])
                synonyms.append(ValueSource(option.name, text, ConfigSource.TOPIC))
            if option.synonyms:
                synonyms += _broker_synonyms(config, BROKER_OPTIONS[option.synonyms[0].name])
            entries.append(_entry(option, text, synonyms, read_only=False))
    return entries


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Return the configs of a node: all that are not hidden, those that were set, or those of `names` that exist."""
    texts = {name: text for _, layer in reversed(config.layers) for name, text in layer.items()}
    entries = []
    for option in _set_and_known(texts):
        if _is_wanted(option, texts, names):
            value = config.value(option.name) if find_option(option.name) else texts[option.name]
            text = None if value is None or option.is_sensitive else format_value(value)
            entries.append(_entry(option, text, list(_broker_synonyms(config, option))))
    return entries


def describe_cluster_default(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Return the dynamic configs that apply to all nodes; nothing else."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    entries = []
    for name, text in sorted(config.texts_of(source).items()):
        if not names or name in names:
            option = find_option(name) or _unknown(name)
            shown = None if option.is_sensitive else text
            entries.append(_entry(option, shown, [ValueSource(name, shown, source)]))
    return entries


def describe_group(
    config: BrokerConfig, texts: Texts = NO_TEXTS, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Return the configs of a group with these texts set; the defaults of the others are the broker's `group.…` options."""
    entries = []
    for name, option in GROUP_OPTIONS.items():
        of_broker = DEFAULT_FROM.get(name, "")
        if not (_is_wanted(option, texts, names) or (config.is_set(of_broker) and (not names or name in names))):
            continue
        synonyms = (
            list(_broker_synonyms(config, BROKER_OPTIONS[of_broker]))
            if of_broker
            else [ValueSource(name, format_value(option.default), ConfigSource.DEFAULT)]
        )
        if name in texts:
            synonyms.insert(0, ValueSource(name, _normal(option, texts[name]), ConfigSource.GROUP))
        entries.append(_entry(option, synonyms[0].value, synonyms, read_only=False))
    return entries


def describe_client_metrics(texts: Texts = NO_TEXTS, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Return the configs of a client metrics subscription with these texts set."""
    entries = []
    for name, option in CLIENT_METRICS_OPTIONS.items():
        if names and name not in names:
            continue
        text = _normal(option, texts[name]) if name in texts else format_value(option.default)
        synonyms = [ValueSource(name, text, ConfigSource.CLIENT_METRICS)] if name in texts else []
        entries.append(_entry(option, text, synonyms, read_only=False))
    return entries


CLIENT_METRICS_OPTIONS = {
    option.name: option
    for option in (
        Option("interval.ms", OptionType.INT, 300_000, doc="Interval between two reports of a client."),
        Option(
            "match", OptionType.LIST, (), doc="Clients that send reports, as client_id=REGEX; all clients by default."
        ),
        Option("metrics", OptionType.LIST, (), doc="Prefixes of the metric names to report; * for all."),
    )
}
"""The configs of client metrics subscriptions (KIP-714), by name."""


def _normal(option: Option, text: str) -> str:
    """Return a value in Kafka's notation. A stored text that this version refuses is returned unchanged."""
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
    """Return the option of a name that Kafka does not have.

    It is kept for plug-ins, and hidden like a secret, since it may be one.
    """
    return Option(name, OptionType.PASSWORD, None, update=UpdateMode.READ_ONLY, acts=False)


def _entry(option: Option, text: str | None, synonyms: list[ValueSource], read_only: bool | None = None) -> ConfigEntry:
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


def _broker_synonyms(config: BrokerConfig, option: Option) -> Iterator[ValueSource]:
    """Return where a broker option's value may come from, the strongest first, from the option's own name on.

    Kafka looks through all sources for all names of one setting (log.retention.ms, .minutes, .hours), then leaves out
    those before the requested name: a weaker name alone does not show.
    """
    group = _SAME_THING.get(option.name, (option.name,))
    found = [
        ValueSource(name, None if option.is_sensitive else texts[name], source)
        for source, texts in config.layers
        for name in group
        if name in texts
    ]
    for name in group:
        default = BROKER_OPTIONS[name].default if name in BROKER_OPTIONS else None
        if default is not None and name not in _WITHOUT_A_DEFAULT:
            found.append(
                ValueSource(name, None if option.is_sensitive else format_value(default), ConfigSource.DEFAULT)
            )
    while found and found[0].name != option.name:
        del found[0]
    yield from found


_WITHOUT_A_DEFAULT = DYNAMIC_ONLY | {"controller.listener.names", "node.id", "process.roles"}
"""Options that Kafka shows without a default: the dynamic-only ones, and those that must be set."""

_SAME_THING = {
    synonym.name: tuple(other.name for other in topic.synonyms)
    for topic in TOPIC_OPTIONS.values()
    if len(topic.synonyms) > 1
    for synonym in topic.synonyms
}
