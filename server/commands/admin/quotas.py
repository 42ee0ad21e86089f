"""`ottla quotas`: list, set and remove quotas, and list throttled clients."""

from __future__ import annotations

import argparse
import math
from typing import Any

from ..frame.parser import Command, Parser
from ..frame.printing import show
from .asking import Admin, call_command, show_answer, show_rows, with_admin_options

NOTES = """\
examples:
  ottla quotas set client-id=app producer_byte_rate=1048576 consumer_byte_rate=2097152
  ottla quotas set "user=<default>,client-id=<default>" request_percentage=50
  ottla quotas set ip=10.0.0.7 connection_creation_rate=5
  ottla quotas remove client-id=app producer_byte_rate

An entity is user=NAME, client-id=NAME, user=NAME,client-id=NAME, or ip=ADDRESS. The name <default> applies to all entities
without a quota of their own. Quota keys for users and client ids: producer_byte_rate, consumer_byte_rate, request_percentage,
controller_mutation_rate; for IP addresses: connection_creation_rate.
"""


def _print_all(quotas: list[dict[str, Any]]) -> None:
    if quotas:
        show_rows([_row(state["entity"], key, value) for state in quotas for key, value in state["quotas"].items()])
    else:
        show("no quotas")


def _set(options: argparse.Namespace) -> None:
    state = Admin(options).call("PUT /v1/quotas", entity=options.entity, quotas=dict(options.quotas))
    show_answer(options, state, _print_state)


def _print_state(state: dict[str, Any]) -> None:
    if state["quotas"]:
        _print_all([state])
    else:
        show(f"{state['entity']} has no quotas")


def _row(entity: str, key: str, value: float | None) -> dict[str, Any]:
    return {"entity": entity, "quota": key, "value": "no limit" if value is None else f"{value:.17g}"}


def _print_throttled(throttled: list[dict[str, Any]]) -> None:
    show([each["sentence"] for each in throttled] or "no clients are throttled")


def quota(text: str) -> tuple[str, float]:
    """Parse KEY=NUMBER."""
    key, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not key or not equals or not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"expected KEY=NUMBER, e.g. producer_byte_rate=1048576, found {text!r}")
    return key, number


def _set_options(parser: Parser) -> None:
    parser.add_argument("entity", metavar="ENTITY", help="quota entity, e.g. client-id=app")
    parser.add_argument(
        "quotas", metavar="KEY=NUMBER", nargs="+", type=quota, help="quota to set, e.g. producer_byte_rate=1048576"
    )


def _remove_options(parser: Parser) -> None:
    parser.add_argument("entity", metavar="ENTITY", help="quota entity, e.g. client-id=app")
    parser.add_argument("key", metavar="KEY", nargs="*", help="quota to remove, e.g. producer_byte_rate (default: all)")


ACTIONS = (
    call_command("list", "list quotas", "GET /v1/quotas", _print_all, shown="quotas"),
    Command(
        "set", "set quotas of an entity; its other quotas do not change", _set, with_admin_options(_set_options), NOTES
    ),
    call_command(
        "remove", "remove some or all quotas of an entity", "DELETE /v1/quotas", _print_state, _remove_options
    ),
    call_command(
        "throttled",
        "list the clients that are throttled now, for how long, and why",
        "GET /v1/quotas/throttled",
        _print_throttled,
        shown="throttled",
    ),
)
