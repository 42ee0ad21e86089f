"""Configs of single groups: `consumer.…` (KIP-848), `share.…` (KIP-932) and `streams.…` (KIP-1071).

The module has their table, their checks against the broker's bounds, and their values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.topics.options import Check, ConfigError, Option, OptionType, Value, at_least, one_of
from .broker_config import BrokerConfig, Texts
from .options.group_options import LATEST, STICKY, has_twice, is_reset
from .options.known_options import BROKER_OPTIONS

ASSIGNOR = "streams.assignor.name"
COPIES = "errors.deadletterqueue.copy.record.enable"
DEAD_LETTERS = "errors.deadletterqueue.topic.name"
RACK_TAGS = "streams.rack.aware.assignment.tags"

OF_THE_BROKER = {
    name: f"group.{name}"
    for name in (
        "consumer.assignment.interval.ms",
        "consumer.assignor.offload.enable",
        "consumer.heartbeat.interval.ms",
        "consumer.session.timeout.ms",
        "share.assignment.interval.ms",
        "share.assignor.offload.enable",
        "share.delivery.count.limit",
        "share.heartbeat.interval.ms",
        "share.partition.max.record.locks",
        "share.record.lock.duration.ms",
        "share.session.timeout.ms",
        "streams.acceptable.recovery.lag",
        "streams.assignment.interval.ms",
        "streams.assignor.offload.enable",
        "streams.heartbeat.interval.ms",
        "streams.initial.rebalance.delay.ms",
        "streams.num.standby.replicas",
        "streams.num.warmup.replicas",
        RACK_TAGS,
        "streams.session.timeout.ms",
        "streams.task.offset.interval.ms",
    )
}
"""Group configs whose type and default are those of a broker option, by name -> that option."""

_CHECKS = {
    "share.delivery.count.limit": at_least(2),
    "share.partition.max.record.locks": at_least(100),
    "share.record.lock.duration.ms": at_least(1000),
}
"""Checks of group configs whose broker option also has a highest value: that of the config is another option of the broker."""

DEFAULT_FROM = {**OF_THE_BROKER, ASSIGNOR: "group.streams.assignors"}
"""Group configs whose default is the value of a broker option, by name -> that option."""

GROUP_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        *(
            BROKER_OPTIONS[broker]._replace(name=name, check=_CHECKS.get(name, BROKER_OPTIONS[broker].check))
            for name, broker in OF_THE_BROKER.items()
        ),
        Option(
            COPIES,
            OptionType.BOOLEAN,
            False,
            doc="Whether a dead letter of a share group has the key and the value of its record.",
        ),
        Option(
            DEAD_LETTERS,
            OptionType.STRING,
            "",
            doc="Topic for the dead letters of a share group, which are written for records that members rejected, or that"
            " were delivered too often; empty: none.",
        ),
        Option(
            "share.auto.offset.reset",
            OptionType.STRING,
            LATEST,
            Check("must be earliest, latest or by_duration:PnDTnHnMn.nS", is_reset),
            "Where a share group starts in a topic that it has not read before.",
        ),
        Option(
            "share.isolation.level",
            OptionType.STRING,
            "read_uncommitted",
            one_of("read_committed", "read_uncommitted"),
            "Whether a share group receives records of open and aborted transactions.",
        ),
        Option(
            "share.renew.acknowledge.enable",
            OptionType.BOOLEAN,
            True,
            doc="Whether members of a share group may extend the acquisition lock of a record.",
        ),
        Option(ASSIGNOR, OptionType.STRING, STICKY, doc="Assignor of tasks to the members of a streams group."),
    )
}
"""Every group config of Apache Kafka 4.4.0, by name."""

_KINDS = ("consumer.", "share.", "streams.")
_HEARTBEAT, _SESSION = "heartbeat.interval.ms", "session.timeout.ms"

_CHARS_LIKE = 100


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Configs of one group; the broker's values apply to configs that are not set."""

    texts: Texts
    values: Mapping[str, Value] = field(default_factory=dict)


def check_group_configs(config: BrokerConfig, texts: Texts) -> GroupConfig:
    """Check the configs of a group, and return them parsed.

    Raises:
        KafkaError: INVALID_CONFIG, naming value, option and bound.
    """
    values: dict[str, Value] = {}
    for name, text in texts.items():
        if name not in GROUP_OPTIONS:
            from difflib import get_close_matches  # imported here to keep it out of the start

            close = get_close_matches(name[:_CHARS_LIKE], GROUP_OPTIONS, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}{hint}")
        if name == RACK_TAGS and has_twice(text):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must not contain duplicate tag keys.")
        try:
            value = GROUP_OPTIONS[name].parse(text)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        rule = _broken(config, name, value)
        if rule:
            raise KafkaError(ErrorCode.INVALID_CONFIG, rule)
        values[name] = value
    for kind in _KINDS:
        if any(name.startswith(kind) for name in values):
            heartbeat, session = (
                values.get(kind + name, config.value(f"group.{kind}{name}")) for name in (_HEARTBEAT, _SESSION)
            )
            assert isinstance(heartbeat, int) and isinstance(session, int)
            if heartbeat >= session:
                message = f"{kind}{_SESSION} must be greater than {kind}{_HEARTBEAT}: {session} and {heartbeat}"
                raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    return GroupConfig(dict(texts), values)


_RANGES = (
    *(f"{kind}{what}" for kind in _KINDS for what in (_HEARTBEAT, _SESSION, "assignment.interval.ms")),
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
)
_MINIMA = ("streams.task.offset.interval.ms",)
_MAXIMA = ("streams.num.standby.replicas", "streams.num.warmup.replicas")
"""Group configs that broker options `group.….min.…` and `group.….max.…`, or one of these, bound."""


def _broken(config: BrokerConfig, name: str, value: Value) -> str | None:
    """Return the rule that a value breaks, in Apache Kafka's words."""
    if name == ASSIGNOR and value not in config.group_streams_assignors:
        registered = ", ".join(config.group_streams_assignors)
        shown = str(value)[:_CHARS_LIKE]
        return f"{name} '{shown}' is not a registered task assignor. Registered assignors are: [{registered}]."
    if name == DEAD_LETTERS and str(value).startswith("__"):
        return f"{name}: DLQ topic name must not start with '__'"
    least = _bound(config, name, "min") if name in _RANGES + _MINIMA else None
    most = _bound(config, name, "max") if name in _RANGES + _MAXIMA else None
    if not isinstance(value, int) or ((least is None or least <= value) and (most is None or value <= most)):
        return None
    if least is None:
        return f"{name} must be less than or equal to {most}"
    if most is None:
        return f"{name} must be greater than or equal to {least}"
    return f"{name} must be in the range {least} to {most} inclusive."


def _bound(config: BrokerConfig, name: str, which: str) -> int:
    """Return the value of the broker option that is the lowest (`min`) or highest (`max`) value of a group config."""
    kind, _, rest = name.partition(".")
    value = config.value(f"group.{kind}.{which}.{rest.removeprefix('num.')}")
    assert isinstance(value, int)
    return value
