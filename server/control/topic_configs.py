"""Options of one topic: values, sources and bounds; and changes, as by AlterConfigs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...protocol.errors import KafkaError
from ...storage.topics.config import TOPIC_OPTIONS
from ...storage.topics.options import OptionType, format_value
from ..broker.broker import Broker
from ..config.broker_config import ConfigSource
from ..config.changes import ConfigChange, ConfigOperation, alter_topic
from ..config.resources import ConfigEntry
from ..config.resources import describe_topic as describe_options
from ..runtime.errors import ControlError, Kind, did_you_mean, refusal
from .operation import Name, operation
from .partitions import topic_named


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Effective value of one option of a topic."""

    name: str
    value: str | None
    source: str
    """`topic`: set for the topic; `all brokers`, `broker`, `file`: set by the broker option; `default`."""
    default: str | None
    """Effective value if it is not set for the topic."""
    type: str
    """Type as named by Apache Kafka: boolean, string, int, short, long, double, list."""
    bound: str | None
    """Valid values; null: all of the type."""
    doc: str


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """All options of a topic, by name."""

    topic: str
    configs: tuple[TopicConfig, ...]


_SOURCES = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers",
    ConfigSource.DYNAMIC_BROKER: "broker",
    ConfigSource.STATIC_BROKER: "file",
    ConfigSource.DEFAULT: "default",
}


@operation("GET", "/v1/topics/{topic}/configs", statuses=(404,))
def topic_configs(broker: Broker, topic: Name) -> TopicConfigs:
    """List every option of a topic: value, source, type, bounds.

    Raises:
        ControlError: NOT_FOUND: topic not found.
    """
    topic_named(broker.services.topics, topic)
    services = broker.services
    overrides = services.cluster.topic_configs(topic)
    entries = describe_options(services.config.current, overrides)
    return TopicConfigs(topic, tuple(_config(entry) for entry in sorted(entries, key=lambda entry: entry.name)))


@operation("POST", "/v1/topics/{topic}/configs", statuses=(404, 500))
async def alter_topic_configs(broker: Broker, topic: Name, configs: Mapping[str, str | None]) -> TopicConfigs:
    """Set or reset options of a topic.

    They take effect with the next append or pass.

    Args:
        configs: Values by option name, as strings; null resets an option to the broker's default.

    Raises:
        ControlError: NOT_FOUND: topic not found; INVALID: an option or value is invalid; FAILED: the disk failed. Nothing has
            changed.
    """
    changes = [
        ConfigChange(name, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
        for name, value in configs.items()
    ]
    for name in configs:
        if name not in TOPIC_OPTIONS:
            hint = did_you_mean(name, TOPIC_OPTIONS)
            raise ControlError(Kind.INVALID, f"configs: topic option {name[:100]!r} not found{hint}")
    services = broker.services
    async with services.cluster.change_lock:
        there = topic_named(broker.services.topics, topic)
        present = services.cluster.topic_configs(topic)
        try:
            wished = alter_topic(services.config.current, present, changes, topic)
            if wished != present:
                await services.config_changes.alter_topics({there: wished})
        except KafkaError as error:
            raise refusal(error) from error
    return topic_configs(broker, topic)


def _config(entry: ConfigEntry) -> TopicConfig:
    option = TOPIC_OPTIONS[entry.name]
    below = [each for each in entry.synonyms if each.source is not ConfigSource.TOPIC]
    return TopicConfig(
        name=entry.name,
        value=entry.value,
        source=_SOURCES[entry.source],
        default=below[0].value if below else format_value(option.default),
        type=OptionType(option.type).name.lower(),
        bound=None if option.check is None else option.check.bound,
        doc=option.doc,
    )
