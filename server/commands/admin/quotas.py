"""`ottla quotas`: how much clients may use, and who waits at the moment because it was more."""

from __future__ import annotations

import argparse
import math
from typing import Any

from ..frame.command import Command
from ..frame.options import admin_options, json_option
from ..frame.parser import Parser
from ..frame.printing import show, show_json
from .asking import Admin, path
from .showing import show_rows

NOTES = """\
examples:
  ottla quotas set client-id=app producer_byte_rate=1048576 consumer_byte_rate=2097152
  ottla quotas set "user=<default>,client-id=<default>" request_percentage=50
  ottla quotas set ip=10.0.0.7 connection_creation_rate=5
  ottla quotas remove client-id=app producer_byte_rate

An entity is user=NAME, client-id=NAME, both with a comma between, or ip=ADDRESS; the name <default> is for all that have no quota of
their own. Of users and client ids: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate.
"""


def _list(options: argparse.Namespace) -> None:
    quotas = Admin(options).get(path("quotas"))["quotas"]
    if options.json:
        show_json(quotas)
    elif not quotas:
        show("there are no quotas")
    else:
        show_rows([_row(state["entity"], key, value) for state in quotas for key, value in state["quotas"].items()])


def _set(options: argparse.Namespace) -> None:
    quotas = dict(options.quota)
    _tell(options, Admin(options).put(path("quotas"), entity=options.entity, quotas=quotas))


def _remove(options: argparse.Namespace) -> None:
    _tell(options, Admin(options).delete(path("quotas"), entity=options.entity, key=options.key))


def _tell(options: argparse.Namespace, state: dict[str, Any]) -> None:
    if options.json:
        show_json(state)
    elif not state["quotas"]:
        show(f"{state['entity']} has no quotas")
    else:
        show_rows([_row(state["entity"], key, value) for key, value in state["quotas"].items()])


def _row(entity: str, key: str, value: float | None) -> dict[str, Any]:
    return {"entity": entity, "quota": key, "value": "no limit" if value is None else f"{value:.17g}"}


def _throttled(options: argparse.Namespace) -> None:
    throttled = Admin(options).get(path("quotas", "throttled"))["throttled"]
    if options.json:
        show_json(throttled)
    elif not throttled:
        show("nobody is throttled")
    else:
        for each in throttled:
            show(each["sentence"])


def quota(text: str) -> tuple[str, float]:
    """Reads KEY=NUMBER."""
    key, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not key or not equals or not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"expected KEY=NUMBER, as producer_byte_rate=1048576, found {text!r}")
    return key, number


def _set_options(parser: Parser) -> None:
    parser.add_argument("entity", metavar="ENTITY", help="as client-id=app")
    parser.add_argument("quota", metavar="KEY=NUMBER", nargs="+", type=quota, help="as producer_byte_rate=1048576")
    _common(parser)


def _remove_options(parser: Parser) -> None:
    parser.add_argument("entity", metavar="ENTITY", help="as client-id=app")
    parser.add_argument("key", metavar="KEY", nargs="*", help="as producer_byte_rate (default: all)")
    _common(parser)


def _common(parser: Parser) -> None:
    admin_options(parser)
    json_option(parser)


ACTIONS = (
    Command("list", "what is set", _list, _common),
    Command("set", "set some of one entity; the others stay", _set, _set_options, NOTES),
    Command("remove", "remove some, or all, of one entity", _remove, _remove_options),
    Command("throttled", "who waits at the moment, for how long, and why", _throttled, _common),
)
