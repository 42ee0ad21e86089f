"""`ottla cases`: logs that have exposed bugs in many clients, as topics."""

from __future__ import annotations

from typing import Any

from ..frame.parser import Parser
from ..frame.printing import folded, show, terminal_width
from .asking import call_command, show_rows

_TOLD = ("looks_like", "reveals")


def _print_cases(found: list[dict[str, Any]]) -> None:
    width = terminal_width()
    for each in found:
        show([each["name"], *(line for name in _TOLD for line in folded(each[name], width, "  "))])
        show(f"  {thread}" for thread in each["threads"])


def _print_loaded(answer: dict[str, Any]) -> None:
    show(f"{answer['topic']} is {answer['case']}: offsets {answer['start_offset']} to {answer['end_offset']}")
    committed = {each["offset"] for each in answer["read_committed"]}
    show_rows([_row(each, committed) for each in answer["read_uncommitted"]])
    if answer["position"] < answer["end_offset"]:
        show(f"consumers stop at position {answer['position']}: no batch follows")
    if answer["group_id"] is not None:
        show(f"group {answer['group_id']} is at epoch {answer['group_epoch']}")


def _row(record: dict[str, Any], committed: set[int]) -> dict[str, Any]:
    value = "tombstone" if record["value"] is None else record["value"]
    told = "both levels" if record["offset"] in committed else "read_uncommitted"
    return {"offset": record["offset"], "key": record["key"], "value": value, "read_by": told}


def _load_options(parser: Parser) -> None:
    parser.add_argument("name", metavar="CASE", help="name of the case, as listed by `ottla cases list`")
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="topic to create (default: the name of the case)")


ACTIONS = (
    call_command(
        "list",
        "list the cases, with their contents and what they test",
        "GET /v1/cases",
        _print_cases,
        shown="cases",
    ),
    call_command(
        "load",
        "create a topic with the log of a hard case, and show what a correct client reads",
        "POST /v1/cases/{name}",
        _print_loaded,
        _load_options,
    ),
)
