"""`ottla wait`: wait until consumers read, have consumed, or have joined."""

from __future__ import annotations

from typing import Any

from ..frame.options import duration_ms, number
from ..frame.parser import Parser
from ..frame.printing import show
from .asking import call_command

NOTES = """\
examples:
  ottla wait reading orders --group billing
  ottla wait consumed orders billing --timeout 30s
  ottla wait stable billing --members 2

The exit code is 1 after the timeout; the message says what was missing.
"""
_COUNT_MAX = 2**31 - 1


def _timeout(parser: Parser) -> None:
    parser.add_argument(
        "--timeout", dest="timeout_ms", type=duration_ms, metavar="TIME", help="time limit (default: 10s)"
    )


def _reading_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--group", metavar="GROUP", help="only members of this group count (default: any consumer)")
    parser.add_argument(
        "--partition",
        dest="partitions",
        type=number(0, _COUNT_MAX),
        action="append",
        metavar="N",
        help="partition to wait for; repeat for several (default: all)",
    )
    _timeout(parser)


def _consumed_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("group", metavar="GROUP")
    _timeout(parser)


def _stable_options(parser: Parser) -> None:
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument(
        "--members", type=number(1, _COUNT_MAX), metavar="N", help="number of members it must have (default: any)"
    )
    _timeout(parser)


def _print_readers(answer: dict[str, Any]) -> None:
    for each in answer["readers"]:
        show(f"{answer['topic']}-{each['partition']}: {each['client_id']} at {each['client_host']}")


def _print_consumed(answer: dict[str, Any]) -> None:
    show(f"{answer['group']} has consumed {answer['topic']}: {answer['partitions']} partitions")


def _print_members(answer: dict[str, Any]) -> None:
    for each in answer["members"]:
        assigned = ", ".join(each["assigned"] or ())
        show(f"{each['client_id']} at {each['client_host']}{': ' if assigned else ''}{assigned}")


ACTIONS = (
    call_command(
        "reading",
        "wait until a consumer reads each partition of a topic, so that it gets the next record",
        "GET /v1/topics/{topic}/reading",
        _print_readers,
        _reading_options,
        NOTES,
    ),
    call_command(
        "consumed",
        "wait until a group has committed all records of a topic",
        "GET /v1/topics/{topic}/consumed",
        _print_consumed,
        _consumed_options,
        NOTES,
    ),
    call_command(
        "stable",
        "wait until a group is stable: its members have joined, and have their partitions",
        "GET /v1/groups/{group}/stable",
        _print_members,
        _stable_options,
        NOTES,
    ),
)
