"""What AlterConfigs and IncrementalAlterConfigs do to groups, client metrics subscriptions and the broker's loggers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ..config.changes import ConfigChange, ConfigOperation, alter_client_metrics, alter_group
from ..runtime.loggers import LEVELS, ROOT
from ..services.context import Context

Configs = Mapping[str, str]


GROUPS_MAX = 10_000
GROUP_ID_CHARS_MAX = 4 << 20
"""Of groups that have configs, and of all their ids together: the catalog is written whole at each change."""


def changed_group(
    ctx: Context, name: str, changes: Sequence[ConfigChange], others: Collection[str], *, replace: bool
) -> tuple[Configs, Configs]:
    """What is set of a group, and what is to be; `others` are being set with it.

    Raises:
        KafkaError: INVALID_REQUEST, INVALID_CONFIG, POLICY_VIOLATION.
    """
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    config = ctx.services.config
    present = config.group_texts(name)
    changed = alter_group(config.current, {} if replace else present, changes)
    if changed and not present:
        if len(config.groups) + len(others) >= GROUPS_MAX:
            told = f"too many groups with configs (limit {GROUPS_MAX})"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, told)
        if (chars := len(name) + sum(map(len, config.groups)) + sum(map(len, others))) > GROUP_ID_CHARS_MAX:
            told = f"IDs of groups with configs are too long ({chars} characters together, limit {GROUP_ID_CHARS_MAX})"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, told)
    return present, changed


def changed_client_metrics(
    ctx: Context, name: str, changes: Sequence[ConfigChange], others: Collection[str], *, replace: bool
) -> tuple[Configs, Configs]:
    """What is set of a client metrics subscription, and what is to be; `others` are being set with it. Raises as `changed_group`."""
    from ..telemetry.subscriptions import SUBSCRIPTIONS_MAX, subscription_of  # Few brokers ever have one.

    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    config = ctx.services.config
    present = config.client_metrics(name)
    changed = alter_client_metrics(config.current, {} if replace else present, changes)
    if changed and not present and len({*config.client_metrics_names(), *others}) >= SUBSCRIPTIONS_MAX:
        told = f"too many client metrics subscriptions (limit {SUBSCRIPTIONS_MAX})"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, told)
    subscription_of(changed)
    return present, changed


def alter_loggers(ctx: Context, name: str, changes: Sequence[ConfigChange], *, validate_only: bool) -> None:
    """Set the levels of loggers, all of them or none; `name` is the node's id.

    Raises:
        KafkaError: INVALID_REQUEST, INVALID_CONFIG.
    """
    if not (name.isascii() and name.isdigit()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if name != str(ctx.server_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {ctx.server_id}, but received {name}"
        )
    loggers = ctx.services.loggers
    seen = set()
    for change in changes:
        if change.name in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The config {change.name} is specified more than once")
        seen.add(change.name)
        _check_logger(change, is_there=loggers.has(change.name))
    if not validate_only:
        for change in changes:
            loggers.set(change.name, change.value if change.operation == ConfigOperation.SET else None)


def _check_logger(change: ConfigChange, *, is_there: bool) -> None:
    name = change.name
    if change.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        known = [each.name for each in ConfigOperation if each == change.operation]
        told = f"{known[0] if known else change.operation} operation is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, told)
    if change.operation == ConfigOperation.SET and change.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
    if not is_there:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if change.operation == ConfigOperation.SET and change.value not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {change.value} as it is not a supported log level. Valid log levels"
            f" are {', '.join(sorted(LEVELS))}",
        )
    if change.operation == ConfigOperation.DELETE and name == ROOT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
