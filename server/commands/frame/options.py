"""Options that many commands have, and parsers of values."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress

from .parser import Parser

BOOTSTRAP = "OTTLA_BOOTSTRAP"
COMMAND_CONFIG = "OTTLA_COMMAND_CONFIG"
ADMIN = "OTTLA_ADMIN"
ADMIN_TOKEN = "OTTLA_ADMIN_TOKEN"
REGISTRY_USER = "OTTLA_REGISTRY_USER"
"""Variable with USER:PASSWORD, as for `ottla-spark apply --registry`."""
DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_ADMIN = "localhost:9099"

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(rf"([0-9]+(?:\.[0-9]+)?)({'|'.join(_UNITS_MS)})?")
_DURATION_MS_MAX = 2**53
"""Maximum duration: a few hundred thousand years."""


def bootstrap_option(parser: Parser) -> None:
    """Add the options of commands that speak Kafka's protocol."""
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help=f"broker address; separate several by commas (default: ${BOOTSTRAP}, else {DEFAULT_BOOTSTRAP})",
    )
    command_config_option(parser)


def command_config_option(parser: Parser) -> None:
    """Add the option of client properties, for commands that speak Kafka's protocol."""
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="file with client properties as for Apache Kafka's tools, e.g. security.protocol, ssl.truststore.location"
        f" (default: ${COMMAND_CONFIG}, else PLAINTEXT)",
    )


def bootstrap_of(options: argparse.Namespace) -> str:
    """Return the broker addresses of a command."""
    return options.bootstrap or os.environ.get(BOOTSTRAP) or DEFAULT_BOOTSTRAP


def admin_options(parser: Parser) -> None:
    """Add the options of commands that call the admin listener."""
    parser.add_argument(
        "--admin",
        metavar="[HOST:]PORT",
        help=f"address of the broker's admin listener (default: ${ADMIN}, else {DEFAULT_ADMIN})",
    )
    parser.add_argument(
        "--admin-token-file",
        metavar="FILE",
        help=f"file with the bearer token, if the listener requires one (default: the token in ${ADMIN_TOKEN})",
    )


def admin_of(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> str:
    """Return the admin address of a command."""
    return options.admin or environment.get(ADMIN) or DEFAULT_ADMIN


def json_option(parser: Parser, what: str = "print the result as JSON") -> None:
    """Add the option of JSON output for programs."""
    parser.add_argument("--json", action="store_true", help=what)


def number(low: int, high: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers from `low` to `high`, both inclusive."""
    bound = f"from {low} on" if high is None else f"from {low} to {high}"

    def parse(text: str) -> int:
        with suppress(ValueError):
            if low <= (found := int(text)) and (high is None or found <= high):
                return found
        raise argparse.ArgumentTypeError(f"expected a number {bound}, found {text!r}")

    return parse


def name_and_value(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE; the value may be empty."""
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text!r}")
    return name.strip(), value


def duration_ms(text: str) -> int:
    """Parse `25h`, `8d`, `1.5s`, `250ms`. The only number without a unit is 0, since the unit of any other would be unclear."""
    match = _DURATION.fullmatch(text)
    if match is None or (match[2] is None and float(match[1])):
        raise argparse.ArgumentTypeError(
            f"expected a number followed by one of {', '.join(_UNITS_MS)}, e.g. 25h, found {text!r}"
        )
    found = round(float(match[1]) * _UNITS_MS[match[2] or "ms"])
    if found > _DURATION_MS_MAX:
        raise argparse.ArgumentTypeError(f"expected at most {_DURATION_MS_MAX} ms, found {text!r}")
    return found
