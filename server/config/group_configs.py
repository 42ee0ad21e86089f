"""Configs of single groups (KIP-848's `consumer.…`, KIP-932's `share.…`, KIP-1071's
`streams.…`): what may be set, within which of the broker's bounds, and what
it means.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.topics.options import Check, ConfigError, Option, OptionType, Value, one_of
from .broker_config import BrokerConfig, Texts
from .options.group_options import LATEST, is_reset
from .options.known_options import BROKER_OPTIONS

_OF_THE_BROKER = (
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
"""Which the broker has a default for, under `group.`."""

GROUP_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        *(BROKER_OPTIONS[f"group.{name}"]._replace(name=name) for name in _OF_THE_BROKER),
        Option(
            "share.auto.offset.reset",
            OptionType.STRING,
            LATEST,
            Check("must be earliest, latest or by_duration:PnDTnHnMn.nS", is_reset),
            "Where a share group starts in a partition that it has not read before.",
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
    )
}
"""Every group config of Apache Kafka 4.3.1, by name."""

_KINDS = ("consumer.", "share.", "streams.")
_HEARTBEAT, _SESSION = "heartbeat.interval.ms", "session.timeout.ms"

_CHARS_LIKE = 100


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """What is set of one group; where it is not named, the broker's value holds."""

    texts: Texts
    values: Mapping[str, Value] = field(default_factory=dict)


def check_group_configs(config: BrokerConfig, texts: Texts) -> GroupConfig:
    """What a group with these configs runs with.

    Raises:
        KafkaError: INVALID_CONFIG, naming value, option and bound.
    """
    values: dict[str, Value] = {}
    for name, text in texts.items():
        if name not in GROUP_OPTIONS:
            from difflib import get_close_matches  # No start shall wait for it.

            close = get_close_matches(name[:_CHARS_LIKE], GROUP_OPTIONS, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}{hint}")
        try:
            value = GROUP_OPTIONS[name].parse(text)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        if name in _OF_THE_BROKER:
            assert isinstance(value, int)
            _check_bounds(config, name, value)
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


_BOUNDS = {
    "streams.initial.rebalance.delay.ms": (None, None),
    "streams.num.standby.replicas": (None, "group.streams.max.standby.replicas"),
}
"""The broker's options for the lowest and the highest value, where they are not called after the config or there are none."""


def _check_bounds(config: BrokerConfig, name: str, value: int) -> None:
    kind, _, rest = name.partition(".")
    lowest, highest = _BOUNDS.get(name, (f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"))
    if lowest is not None and value < (least := _number(config, lowest)):
        told = f"{name} must be greater than or equal to {lowest}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{told}: {value} is less than {least}")
    if highest is not None and value > (most := _number(config, highest)):
        told = f"{name} must be less than or equal to {highest}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{told}: {value} is more than {most}")


def _number(config: BrokerConfig, name: str) -> int:
    value = config.value(name)
    assert isinstance(value, int)
    return value
