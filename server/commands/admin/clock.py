"""`ottla clock`: the broker's time, moved, stopped and started."""

from __future__ import annotations

import argparse
from typing import Any

from ..frame.command import Command
from ..frame.options import admin_options, duration_ms, json_option
from ..frame.parser import Parser
from ..frame.printing import show, show_json
from ..frame.times import time_ms, time_text
from .asking import Admin, path

NOTES = """\
examples:
  ottla clock advance 25h
  ottla clock advance 8d
  ottla clock set 2026-12-31T23:59:00Z
"""


def _show(options: argparse.Namespace) -> None:
    _tell(options, Admin(options).get(path("clock")))


def _advance(options: argparse.Namespace) -> None:
    _tell(options, Admin(options).post(path("clock", "advance"), by_ms=options.by))


def _set(options: argparse.Namespace) -> None:
    _tell(options, Admin(options).put(path("clock"), now_ms=options.to))


def _freeze(options: argparse.Namespace) -> None:
    _tell(options, Admin(options).post(path("clock", "freeze")))


def _unfreeze(options: argparse.Namespace) -> None:
    _tell(options, Admin(options).post(path("clock", "unfreeze")))


def _tell(options: argparse.Namespace, answer: dict[str, Any]) -> None:
    if options.json:
        show_json(answer)
        return
    now = time_text(answer["now_ms"], with_ms=True) or f"{answer['now_ms']} ms since 1970"
    show(f"{now} UTC{', standing still' if answer['is_frozen'] else ''}")
    if rolled := answer.get("rolled"):
        show(f"rolled: {', '.join(map(_partition, rolled))}")
    if answer.get("is_settled") is False:
        show("some of what has become due is still under way")


def _partition(found: Any) -> str:
    return f"{found['topic']}-{found['partition']}" if isinstance(found, dict) else str(found)


def _advance_options(parser: Parser) -> None:
    parser.add_argument("by", metavar="TIME", type=duration_ms, help="as 25h, 8d, 90s, 250ms")
    _common(parser)


def _set_options(parser: Parser) -> None:
    parser.add_argument("to", metavar="WHEN", type=time_ms, help="as 2026-12-31T23:59:00Z, or @ and ms since 1970")
    _common(parser)


def _common(parser: Parser) -> None:
    admin_options(parser)
    json_option(parser)


ACTIONS = (
    Command("show", "what it says", _show, _common),
    Command(
        "advance",
        "let time pass: what is due by then is done, and old segments roll",
        _advance,
        _advance_options,
        NOTES,
    ),
    Command("set", "set it; back, the wall time alone", _set, _set_options, NOTES),
    Command("freeze", "let it stand still, and all that waits with it", _freeze, _common),
    Command("unfreeze", "let it go on", _unfreeze, _common),
)
