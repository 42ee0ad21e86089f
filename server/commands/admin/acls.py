"""`ottla acls`: who may do what, listed, added, removed; and which entry decides."""

from __future__ import annotations

import argparse
from typing import Any

from ..frame.command import Command
from ..frame.errors import SAID_NO
from ..frame.options import admin_options, json_option
from ..frame.parser import Parser
from ..frame.printing import show, show_json
from .asking import Admin, path

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
    acls = Admin(options).get(path("acls"), principal=options.principal, resource=options.resource)["acls"]
    if options.json:
        show_json(acls)
    elif not acls:
        show("there are no such ACLs" if options.principal or options.resource else "there are no ACLs")
    else:
        _show_lines(each["acl"] for each in acls)


def _add(options: argparse.Namespace) -> None:
    done = Admin(options).post(path("acls"), acls=options.acl)
    _tell(options, done, "added", "they are there already")


def _remove(options: argparse.Namespace) -> None:
    done = Admin(options).delete(path("acls"), acls=options.acl)
    _tell(options, done, "removed", "nothing was removed")


def _tell(options: argparse.Namespace, done: dict[str, Any], word: str, nothing: str) -> None:
    if options.json:
        show_json(done)
    elif not done[word]:
        show(nothing)
    else:
        _show_lines(f"{word} {each}" for each in done[word])


def _why(options: argparse.Namespace) -> int | None:
    asked = {"principal": options.principal, "operation": options.operation, "resource": options.resource}
    decision = Admin(options).get(path("acls", "why"), **asked, host=options.host)
    if options.json:
        show_json(decision)
    else:
        show(decision["sentence"])
    return None if decision["is_allowed"] else SAID_NO


def _show_lines(lines: Any) -> None:
    for line in lines:
        show(line)


def _list_options(parser: Parser) -> None:
    parser.add_argument("--principal", metavar="PRINCIPAL", help="only those of this one, as User:alice")
    parser.add_argument("--resource", metavar="TYPE:NAME", help="only those that speak of it, as topic:orders")
    _common(parser)


def _line_options(parser: Parser) -> None:
    parser.add_argument("acl", metavar="ACL", nargs="+", help='as "User:alice allow READ topic:orders*"')
    _common(parser)


def _why_options(parser: Parser) -> None:
    parser.add_argument("principal", metavar="PRINCIPAL", help="as User:alice")
    parser.add_argument("operation", metavar="OPERATION", help="as READ")
    parser.add_argument("resource", metavar="TYPE:NAME", help="as topic:orders, or cluster")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="the client's (default: 127.0.0.1)")
    _common(parser)


def _common(parser: Parser) -> None:
    admin_options(parser)
    json_option(parser)


ACTIONS = (
    Command("list", "which there are", _list, _list_options),
    Command("add", "add some", _add, _line_options, NOTES),
    Command("remove", "remove some, all of them or none", _remove, _line_options),
    Command("why", "which one decides; exit code 1 if it is not allowed", _why, _why_options),
)
