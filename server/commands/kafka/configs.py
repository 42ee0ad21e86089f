"""`ottla configs`: describe and change options of topics, brokers and groups in a running broker."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import get_args

from ...client.configs import Kind
from ..frame.errors import CommandError, did_you_mean
from ..frame.options import bootstrap_option, json_option, name_and_value
from ..frame.parser import Command, Parser
from ..frame.printing import show, show_json, show_table
from .asking import connected

NOTES = """\
RESOURCE is topic:NAME, broker:ID, broker: (cluster-wide defaults) or group:ID (for Apache Kafka; Ottla has no group options).

examples:
  ottla configs describe topic:orders
  ottla configs describe topic:orders retention.ms
  ottla configs alter topic:orders retention.ms=1000 cleanup.policy=compact
  ottla configs delete topic:orders retention.ms              resets it to the default

`ottla describe-config NAME` describes an option.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)


def resource(text: str) -> tuple[Kind, str]:
    """Parse RESOURCE."""
    kind, colon, name = text.partition(":")
    for each in KINDS:
        if colon and kind == each and (not name or name.isdecimal() if kind == "broker" else name):
            return each, name
    hint = f"; did you mean topic:{text}?" if not colon and text not in KINDS else did_you_mean(kind, list(KINDS))
    raise argparse.ArgumentTypeError(f"expected topic:NAME, broker:ID, broker: or group:ID, found {text!r}{hint}")


def _describe(options: argparse.Namespace) -> None:
    kind, name = options.resource
    with connected(options) as cluster:
        found = cluster.kafka.configs(kind, name)
    for wanted in options.names:
        if wanted not in {each.name for each in found}:
            hint = did_you_mean(wanted, [each.name for each in found])
            raise CommandError(f"option {wanted} of {kind}:{name} not found{hint}")
    if options.names:
        found = [each for each in found if each.name in options.names]
    elif not options.all:
        found = [each for each in found if not each.is_default]
    rows = [
        {
            "name": each.name,
            "value": each.value,
            "is_default": each.is_default,
            "is_read_only": each.is_read_only,
            "is_sensitive": each.is_sensitive,
        }
        for each in found
    ]
    if options.json:
        show_json(rows)
    elif rows:
        show_table(("OPTION", "VALUE", ""), [[row["name"], _value_text(row), _remark(row)] for row in rows])
    else:
        show(f"{kind}:{name} has no options set; --all shows the defaults")


def _value_text(row: Mapping[str, object]) -> object:
    return "(hidden)" if row["value"] is None else row["value"]


def _remark(row: Mapping[str, object]) -> str:
    return ", ".join(text for name, text in (("is_default", "default"), ("is_read_only", "fixed")) if row[name])


def _alter(options: argparse.Namespace) -> None:
    kind, name = options.resource
    _change(
        options, dict(options.changes), f"{kind}:{name} has {', '.join(f'{n}={v}' for n, v in options.changes)} now"
    )


def _delete(options: argparse.Namespace) -> None:
    kind, name = options.resource
    _change(options, dict.fromkeys(options.names), f"{kind}:{name}: reset to default: {', '.join(options.names)}")


def _change(options: argparse.Namespace, changes: dict[str, str | None], done: str) -> None:
    kind, name = options.resource
    with connected(options) as cluster:
        cluster.kafka.set_configs(kind, name, changes)
    if options.json:
        show_json({"resource": f"{kind}:{name}", "changed": changes})
    else:
        show(done)


def _resource_option(parser: Parser) -> None:
    parser.add_argument(
        "resource", metavar="RESOURCE", type=resource, help="resource: topic:NAME, broker:ID, broker: or group:ID"
    )


def _describe_options(parser: Parser) -> None:
    _resource_option(parser)
    parser.add_argument("names", metavar="OPTION", nargs="*", help="option to show (default: all options that are set)")
    parser.add_argument("--all", action="store_true", help="include options that have their default value")
    _common(parser)


def _alter_options(parser: Parser) -> None:
    _resource_option(parser)
    parser.add_argument(
        "changes",
        metavar="NAME=VALUE",
        type=name_and_value,
        nargs="+",
        help="option to set; either all of them are set or none",
    )
    _common(parser)


def _delete_options(parser: Parser) -> None:
    _resource_option(parser)
    parser.add_argument(
        "names", metavar="OPTION", nargs="+", help="option to reset; either all of them are reset or none"
    )
    _common(parser)


def _common(parser: Parser) -> None:
    bootstrap_option(parser)
    json_option(parser)


ACTIONS = (
    Command("describe", "show the options of a topic, broker or group", _describe, _describe_options, NOTES),
    Command("alter", "set options", _alter, _alter_options, NOTES),
    Command("delete", "reset options to their defaults", _delete, _delete_options, NOTES),
)
