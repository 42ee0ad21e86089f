"""Settings of coordinators: Kafka's defaults, except for what a test changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.server.config.static_config import static_config
from ottla.server.groups.settings import GroupSettings
from ottla.server.transactions.settings import TransactionSettings

_STATIC = static_config(profile="kafka")
_CONFIG = _STATIC.node(_STATIC.node_ids[0])


def group_settings(**changes: Any) -> GroupSettings:
    """Return the settings of groups."""
    return replace(GroupSettings.from_config(_CONFIG), **changes)


def transaction_settings(**changes: Any) -> TransactionSettings:
    """Return the settings of transactions."""
    return replace(TransactionSettings.from_config(_CONFIG), **changes)
