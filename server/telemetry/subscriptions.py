"""Subscriptions of client metrics: which clients shall send which metrics, and how often. Their texts are in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.topics.options import ConfigError
from ..config.broker_config import Texts
from ..config.resources import CLIENT_METRICS_OPTIONS
from ..runtime.expressions import Expression

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
DEFAULT_INTERVAL_MS = 300_000
ALL_METRICS = "*"

PATTERNS_MAX = 20
"""Of one subscription. Each is matched with every client that comes."""

METRICS_MAX = 100
"""Of one subscription. A client is asked for those of all that mean it, in one answer."""

SUBSCRIPTIONS_MAX = 100
"""All are looked at for every client that comes."""

MATCHED_BY = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What a client may be chosen by."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One of them. A client is meant when each expression matches the whole of what it says of itself."""

    interval_ms: int
    metrics: tuple[str, ...]
    match: Mapping[str, Expression]

    def means(self, client: Mapping[str, str | None]) -> bool:
        """Whether a client is meant of whom this is known, by the names of MATCHED_BY."""
        return all(_matches(expression, client.get(name)) for name, expression in self.match.items())


def subscription_of(texts: Texts) -> Subscription:
    """What these configs mean.

    Raises:
        KafkaError: INVALID_CONFIG, INVALID_REQUEST for an unknown name and an interval out of bounds, as Apache Kafka has it.
    """
    for name in texts:
        if name not in CLIENT_METRICS_OPTIONS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
    try:
        values = {name: CLIENT_METRICS_OPTIONS[name].parse(text) for name, text in texts.items()}
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    interval_ms = values.get("interval.ms", DEFAULT_INTERVAL_MS)
    assert isinstance(interval_ms, int)
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, interval must be between {INTERVAL_MS_MIN} and"
            f" {INTERVAL_MS_MAX} (1 hour)",
        )
    metrics, patterns = values.get("metrics", ()), values.get("match", ())
    assert isinstance(metrics, tuple) and isinstance(patterns, tuple)
    if len(patterns) > PATTERNS_MAX:
        told = f"Invalid value for match: too many patterns ({len(patterns)}, limit {PATTERNS_MAX})"
        raise KafkaError(ErrorCode.INVALID_CONFIG, told)
    if len(metrics) > METRICS_MAX:
        told = f"Invalid value for metrics: too many names ({len(metrics)}, limit {METRICS_MAX})"
        raise KafkaError(ErrorCode.INVALID_CONFIG, told)
    return Subscription(interval_ms, tuple(dict.fromkeys(metrics)), dict(_pattern(text) for text in patterns if text))


def _pattern(text: str) -> tuple[str, Expression]:
    name, equals, pattern = text.partition("=")
    name = name.strip()
    if not equals or not pattern or "=" in pattern or name not in MATCHED_BY:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Illegal client matching pattern: {text}; expected NAME=REGEX, with one of {', '.join(MATCHED_BY)}",
        )
    try:
        return name, Expression(pattern.strip())
    except KafkaError as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {text}: {error.message}"
        ) from error


def _matches(expression: Expression, text: str | None) -> bool:
    try:
        return text is not None and expression.matches(text)
    except KafkaError:
        return False  # too large for a text of this length
