"""Settings of the plugin, from the command line, an ini file, or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import pytest

from .options import SETTINGS, Setting

RESETS = ("never", "module", "test")
SWITCHES = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True)
class Settings:
    """Values of the settings; None for those not given."""

    external: str | None
    reset: str
    nodes: int | None
    profile: str | None
    emulate: str | None
    tls: bool | None
    options: dict[str, str]
    """Broker options by name."""

    def broker_arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `ottla.Broker`: those given, completed by the settings."""
        settings = {"nodes": self.nodes, "profile": self.profile, "emulate": self.emulate, "tls": self.tls}
        arguments = {name: value for name, value in settings.items() if value is not None} | dict(given)
        overrides = given.get("overrides") or {}
        if self.options and isinstance(overrides, Mapping):  # `ottla.Broker` refuses any other type
            arguments["overrides"] = {**self.options, **overrides}
        return arguments


def read(config: pytest.Config, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings of a run. Raises pytest.UsageError, in one line."""
    given = {setting.name: _setting_value(setting, config, environment) for setting in SETTINGS}
    pairs = [pair.partition("=") for pair in given["option"] or ()]
    for name, equals, value in pairs:
        if not name or not equals:
            raise pytest.UsageError(f"kafka_option: invalid option {name + equals + value!r}; expected NAME=VALUE")
    return Settings(
        external=given["external"] or None,
        reset=reset(given["reset"] or "never"),
        nodes=_number("kafka_nodes", given["nodes"]),
        profile=given["profile"] or None,
        emulate=given["emulate"] or None,
        tls=_switch("kafka_tls", given["tls"]),
        options={name: value for name, _, value in pairs},
    )


def reset(when: str) -> str:
    """Check a value of `reset`, one of RESETS. Raises pytest.UsageError for anything else."""
    if when not in RESETS:
        close = get_close_matches(str(when), RESETS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise pytest.UsageError(f"kafka_reset: invalid value {when!r}; must be one of: {', '.join(RESETS)}{hint}")
    return when


def _setting_value(setting: Setting, config: pytest.Config, environment: Mapping[str, str]) -> Any:
    for value in (config.getoption(setting.flag), config.getini(setting.ini)):
        if value:
            return value
    value = environment.get(setting.variable)
    return value.split() if value and setting.is_list else value


def _switch(name: str, text: str | None) -> bool | None:
    if not text:
        return None
    found = SWITCHES.get(text.strip().lower())
    if found is None:
        raise pytest.UsageError(f"{name}: invalid value {text!r}; must be one of: {', '.join(SWITCHES)}")
    return found


def _number(name: str, text: str | None) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise pytest.UsageError(f"{name}: invalid value {text!r}; must be a positive integer")
    return int(text)
