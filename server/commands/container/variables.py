"""Options from the environment of a container: `OTTLA_*` for options of `ottla serve`, `KAFKA_*` as in Kafka's images.

`KAFKA_LOG_RETENTION_MS` and the like are read as everywhere (`frame/environment`). This module has the rest: what only
the scripts of those images do.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence

from ..frame.environment import BITNAMI_PREFIX, is_service_link
from ..frame.errors import did_you_mean, wrong_call
from ..frame.options import ADMIN_TOKEN, BOOTSTRAP, COMMAND_CONFIG, REGISTRY_USER
from ..frame.parser import takes_value

PREFIX = "OTTLA_"
OF_COMMANDS = frozenset({ADMIN_TOKEN, BOOTSTRAP, COMMAND_CONFIG, REGISTRY_USER})
"""Variables that are known, but are not options of `serve`."""

YES, NO = frozenset({"true", "1", "yes"}), frozenset({"", "false", "0", "no"})

SECRETS_DIR = "/etc/kafka/secrets"
FILES = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "KAFKA_SSL_KEYSTORE_LOCATION",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "KAFKA_SSL_TRUSTSTORE_LOCATION",
}
"""Variables that name a file in SECRETS_DIR, and the variable that gets its path."""
CONTENTS = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "KAFKA_SSL_KEYSTORE_PASSWORD",
    "KAFKA_SSL_KEY_CREDENTIALS": "KAFKA_SSL_KEY_PASSWORD",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "KAFKA_SSL_TRUSTSTORE_PASSWORD",
}
"""Variables that name a file in SECRETS_DIR, and the variable that gets its content."""

_ROLES, _VOTERS = "KAFKA_PROCESS_ROLES", "KAFKA_CONTROLLER_QUORUM_VOTERS"
_ADDRESSES = ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS")


def serve_words(
    options: Mapping[str, argparse.Action], words: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return words for the options that variables name and `words` does not, and warnings.

    `OTTLA_ADMIN_TOKEN_FILE` names --admin-token-file, for instance. A variable that names no option gets a warning.

    For a repeatable option each line of a value is one value. CommandError for a switch that is neither on nor off.
    """
    given = {word.partition("=")[0] for word in words}
    found, warnings = [], []
    for variable in sorted(variable for variable in environment if variable.startswith(PREFIX)):
        if variable in OF_COMMANDS or is_service_link(variable, environment[variable], PREFIX):
            continue
        name = f"--{variable.removeprefix(PREFIX).lower().replace('_', '-')}"
        action = options.get(name)
        if action is None:
            hint = did_you_mean(variable, [_variable(each) for each in options])
            warnings.append(f"environment variable {variable}: option {name} not found, ignored{hint}")
        elif name not in given:
            found += _words(variable, name, action, environment[variable])
    return found, warnings


def _variable(option: str) -> str:
    return PREFIX + option.strip("-").replace("-", "_").upper()


def _words(variable: str, name: str, action: argparse.Action, text: str) -> list[str]:
    if takes_value(action):
        return [f"{name}={value}" for value in text.splitlines() if value.strip()]
    if text.lower() not in YES | NO:
        raise wrong_call(f"{variable} must be true or false, found {text!r}")
    return [name] if text.lower() in YES else []


def broker_variables(environment: Mapping[str, str], secrets: str = SECRETS_DIR) -> dict[str, str]:
    """Return the environment with the changes that the scripts of Kafka's images make.

    Raises:
        CommandError: WRONG_CALL. The variables describe a cluster of several containers, or name a secret that cannot be read.
    """
    environment = _with_plain_prefix(environment)
    roles = [each.strip() for each in (environment.get(_ROLES) or "broker").split(",")]
    if "broker" not in roles:
        raise wrong_call(
            f"{_ROLES}={environment[_ROLES]}: separate controllers are not supported; remove this container"
        )
    voters = [each for each in environment.get(_VOTERS, "").split(",") if each.strip()]
    if len(voters) > 1:
        raise wrong_call(
            f"{_VOTERS}: a cluster of several containers is not supported ({len(voters)} controllers);"
            " run several brokers in one container with --nodes (OTTLA_NODES)"
        )
    found = {name: value for name, value in environment.items() if name not in FILES | CONTENTS}
    for name in _ADDRESSES:
        # testcontainers-dotnet ends the list with a comma; an empty item needs no error.
        if (text := ",".join(filter(None, found.pop(name, "").split(",")))) != "":
            found[name] = text
    for name, target in (FILES | CONTENTS).items():
        if environment.get(name):
            path = os.path.join(secrets, environment[name])
            found[target] = path if name in FILES else _secret(name, path)
    return found


def _with_plain_prefix(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the variables that this module reads under the names of Apache Kafka's image."""
    found = dict(environment)
    for name in (_ROLES, _VOTERS, *_ADDRESSES):
        value = found.pop(BITNAMI_PREFIX + name.removeprefix("KAFKA_"), None)
        if value is not None:
            found.setdefault(name, value)
    return found


def _secret(variable: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise wrong_call(f"{variable}: cannot read {path}: {getattr(error, 'strerror', 'not UTF-8')}") from error
