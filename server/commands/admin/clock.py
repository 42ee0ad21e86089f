"""`ottla clock`: move, stop and start the broker's clock."""

from __future__ import annotations

from typing import Any

from ..frame.options import duration_ms
from ..frame.parser import Parser
from ..frame.printing import show
from ..frame.times import time_ms, time_text
from .asking import call_command

NOTES = """\
examples:
  ottla clock advance 25h
  ottla clock advance 8d
  ottla clock set 2026-12-31T23:59:00Z
"""


def _print_clock(answer: dict[str, Any]) -> None:
    now = time_text(answer["now_ms"], with_ms=True) or f"{answer['now_ms']} ms since 1970"
    show(f"{now} UTC{', frozen' if answer['is_frozen'] else ''}")
    if rolled := answer.get("rolled"):
        show(f"rolled: {', '.join(map(_partition, rolled))}")
    if answer.get("is_settled") is False:
        show("some of the work that became due is still in progress")


def _partition(found: Any) -> str:
    return f"{found['topic']}-{found['partition']}" if isinstance(found, dict) else str(found)


def _advance_options(parser: Parser) -> None:
    parser.add_argument("by_ms", metavar="TIME", type=duration_ms, help="duration to add, e.g. 25h, 8d, 90s, 250ms")


def _set_options(parser: Parser) -> None:
    parser.add_argument(
        "now_ms",
        metavar="WHEN",
        type=time_ms,
        help="new time, e.g. 2026-12-31T23:59:00Z, or @MS (milliseconds since 1970)",
    )


ACTIONS = (
    call_command("show", "show the broker's time", "GET /v1/clock", _print_clock),
    call_command(
        "advance",
        "move the clock forward; timers that become due fire, and old segments roll",
        "POST /v1/clock/advance",
        _print_clock,
        _advance_options,
        NOTES,
    ),
    call_command(
        "set",
        "set the clock; moving it back changes the wall time only, not timers",
        "PUT /v1/clock",
        _print_clock,
        _set_options,
        NOTES,
    ),
    call_command("freeze", "stop the clock and all timers", "POST /v1/clock/freeze", _print_clock),
    call_command("unfreeze", "let the clock run again", "POST /v1/clock/unfreeze", _print_clock),
)
