"""Settings of coordinators: Kafka's defaults, except for what a test changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.server.config.static_config import static_config
from ottla.server.groups.settings import GroupSettings
from ottla.server.transactions.settings import TransactionSettings

_STATIC = static_config(profile="kafka")
CONFIG = _STATIC.node(_STATIC.node_ids[0])


def group_settings(**changes: Any) -> GroupSettings:
    """Return the settings of groups. A change of `GroupSettings.defaults` has the name of the broker's option."""
    settings = GroupSettings.from_config(CONFIG)
    argument_of = {name: f"group_{name}".replace(".", "_") for name in settings.defaults}
    defaults = {name: changes.pop(argument_of[name], default) for name, default in settings.defaults.items()}
    return replace(settings, defaults=defaults, **changes)


def transaction_settings(**changes: Any) -> TransactionSettings:
    """Return the settings of transactions."""
    return replace(TransactionSettings.from_config(CONFIG), **changes)
