"""`ottla acls`: list, add and remove access control entries, and show which one decides."""

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
  ottla acls add "User:alice allow READ,WRITE topic:orders-*"      all topics with the prefix orders-
  ottla acls add "User:* deny ALL topic:secret from 10.0.0.7"
  ottla acls remove "User:alice allow WRITE topic:orders-*"
  ottla acls why User:alice READ topic:orders-eu

An ACL is one line: PRINCIPAL allow|deny OPERATION[,OPERATION...] TYPE:NAME [literal] [from HOST]. A trailing * makes NAME a
prefix, unless `literal` follows; a single * matches all names. The broker must have authorizer.class.name set.
"""


def _list(options: argparse.Namespace) -> None:
    acls = Admin(options).call("GET /v1/acls", **fields_of(options))["acls"]
    nothing = "no matching ACLs" if options.principal or options.resource else "no ACLs"
    show_answer(options, acls, lambda _: show([each["acl"] for each in acls] or nothing))


def _print_done(word: str, nothing: str, done: dict[str, Any]) -> None:
    show([f"{word} {each}" for each in done[word]] or nothing)


def _why(options: argparse.Namespace) -> int | None:
    decision = Admin(options).call("GET /v1/acls/why", **fields_of(options))
    show_answer(options, decision, lambda _: show(decision["sentence"]))
    return None if decision["is_allowed"] else SAID_NO


def _list_options(parser: Parser) -> None:
    parser.add_argument("--principal", metavar="PRINCIPAL", help="show only ACLs of this principal, e.g. User:alice")
    parser.add_argument("--resource", metavar="TYPE:NAME", help="show only ACLs for this resource, e.g. topic:orders")


def _line_options(parser: Parser) -> None:
    parser.add_argument("acls", metavar="ACL", nargs="+", help='ACL line, e.g. "User:alice allow READ topic:orders*"')


def _why_options(parser: Parser) -> None:
    parser.add_argument("principal", metavar="PRINCIPAL", help="principal of the client, e.g. User:alice")
    parser.add_argument("operation", metavar="OPERATION", help="operation to check, e.g. READ")
    parser.add_argument("resource", metavar="TYPE:NAME", help="resource to check, e.g. topic:orders, or cluster")
    parser.add_argument("--host", metavar="ADDRESS", help="IP address of the client (default: 127.0.0.1)")


_tell_added = partial(_print_done, "added", "nothing added: all of these ACLs exist already")
_tell_removed = partial(_print_done, "removed", "nothing removed: no matching ACLs")

ACTIONS = (
    Command("list", "list ACLs", _list, with_admin_options(_list_options)),
    call_command("add", "add ACLs", "POST /v1/acls", _tell_added, _line_options, NOTES),
    call_command(
        "remove", "remove ACLs (all of those given, or none)", "DELETE /v1/acls", _tell_removed, _line_options
    ),
    Command(
        "why",
        "show the ACL that decides whether an operation is allowed (exit code 1 if denied)",
        _why,
        with_admin_options(_why_options),
    ),
)
