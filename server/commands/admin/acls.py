"""`ottla acls`: who may do what, listed, added, removed; and which entry decides."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from ..frame.errors import SAID_NO
from ..frame.parser import Command, Parser
from ..frame.printing import show
from .asking import Admin, call_command, fields_of, show_answer, with_admin_options

NOTES = """\
examples:
  ottla acls add "User:alice allow READ,WRITE topic:orders-*"      names that begin with orders-
  ottla acls add "User:* deny ALL topic:secret from 10.0.0.7"
  ottla acls remove "User:alice allow WRITE topic:orders-*"
  ottla acls why User:alice READ topic:orders-eu

An ACL is one line: PRINCIPAL allow|deny OPERATION[,OPERATION...] TYPE:NAME [literal] [from HOST]. A star at the end of NAME
makes a prefix of it, unless `literal` follows; a star alone stands for all names. The broker needs authorizer.class.name.
"""


def _list(options: argparse.Namespace) -> None:
    acls = Admin(options).call("GET /v1/acls", **fields_of(options))["acls"]
    nothing = "there are no such ACLs" if options.principal or options.resource else "there are no ACLs"
    show_answer(options, acls, lambda _: show([each["acl"] for each in acls] or nothing))


def _tell(word: str, nothing: str, done: dict[str, Any]) -> None:
    show([f"{word} {each}" for each in done[word]] or nothing)


def _why(options: argparse.Namespace) -> int | None:
    decision = Admin(options).call("GET /v1/acls/why", **fields_of(options))
    show_answer(options, decision, lambda _: show(decision["sentence"]))
    return None if decision["is_allowed"] else SAID_NO


def _list_options(parser: Parser) -> None:
    parser.add_argument("--principal", metavar="PRINCIPAL", help="only those of this one, as User:alice")
    parser.add_argument("--resource", metavar="TYPE:NAME", help="only those that speak of it, as topic:orders")


def _line_options(parser: Parser) -> None:
    parser.add_argument("acls", metavar="ACL", nargs="+", help='as "User:alice allow READ topic:orders*"')


def _why_options(parser: Parser) -> None:
    parser.add_argument("principal", metavar="PRINCIPAL", help="as User:alice")
    parser.add_argument("operation", metavar="OPERATION", help="as READ")
    parser.add_argument("resource", metavar="TYPE:NAME", help="as topic:orders, or cluster")
    parser.add_argument("--host", metavar="ADDRESS", help="the client's (default: 127.0.0.1)")


_tell_added = partial(_tell, "added", "they are there already")
_tell_removed = partial(_tell, "removed", "nothing was removed")

ACTIONS = (
    Command("list", "which there are", _list, with_admin_options(_list_options)),
    call_command("add", "add some", "POST /v1/acls", _tell_added, _line_options, NOTES),
    call_command("remove", "remove some, all of them or none", "DELETE /v1/acls", _tell_removed, _line_options),
    Command("why", "which one decides; exit code 1 if it is not allowed", _why, with_admin_options(_why_options)),
)
