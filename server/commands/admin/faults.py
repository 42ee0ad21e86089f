"""`ottla faults`: declare, list, wait for and remove faults."""

from __future__ import annotations

import argparse
from typing import Any

from ..frame.errors import SAID_NO
from ..frame.options import duration_ms, number
from ..frame.parser import Command, Parser
from ..frame.printing import show
from .asking import NULL, Admin, call_command, duration_text, fields_of, show_answer, show_rows, with_admin_options

NOTES = """\
examples:
  ottla faults add --api Produce --error NOT_LEADER_OR_FOLLOWER --count 3
  ottla faults add --api Fetch --topic orders --delay 2s --count all
  ottla faults add --api Produce --disconnect after --client shop        the records are written, but the response is lost
  ottla faults add --api Fetch --error NOT_LEADER_OR_FOLLOWER --skip 2   the third fetch fails
  ottla faults add --api Fetch --corrupt-batch
  ottla faults add --disk full

A fault selects requests by --api, --topic, --partition, --group, --transactional-id, --client, --node and --api-version: a
request must match all of those given. Its effect is one of --error, --disconnect, --drop-response and --corrupt-batch, each
with an optional --delay, or --delay alone. A fault with --disk affects the disk instead of requests.
"""

_ID_MAX = 2**63 - 1
_COUNT_MAX = 2**31 - 1
_REQUEST_OPTIONS = ("api", "topic", "partition", "group", "transactional_id", "client_id", "node", "version")
_ACTIONS = ("error", "after", "delay_ms", "disconnect", "drop_response", "corrupt_batch", "disk", "data_dir", "skip")


def _add(options: argparse.Namespace) -> None:
    declared = fields_of(options)
    if options.count == ALL:
        declared["count"] = NULL
    state = Admin(options).call("POST /v1/faults", **declared)
    show_answer(options, state, lambda _: show(f"fault {state['fault_id']}: {_text(state['declaration'])}"))


ALL = -1


def count(text: str) -> int:
    """Parse a number of requests, or `all`."""
    return ALL if text == "all" else number(1, _COUNT_MAX)(text)


def _print_all(faults: list[dict[str, Any]]) -> None:
    if faults:
        show_rows([row_of(each) for each in faults])
    else:
        show("no faults")


def row_of(state: dict[str, Any]) -> dict[str, Any]:
    """Return a fault as a row of a table."""
    is_for_all = state["left"] is None or state["declaration"]["disk"] is not None
    left = "removed or used up" if not state["is_active"] else "all" if is_for_all else state["left"]
    return {"fault": state["fault_id"], "hits": state["hits"], "left": left, "what": _text(state["declaration"])}


def _text(declaration: dict[str, Any]) -> str:
    """Format a declaration: `Produce of topic orders: error NOT_LEADER_OR_FOLLOWER`."""
    told = {name: value for name, value in declaration.items() if value not in (None, False, 0)}
    told |= {"partition": declaration["partition"]} if declaration.get("partition") is not None else {}
    told |= {"node": declaration["node"]} if declaration.get("node") is not None else {}
    if "disk" in told:
        what = f"disk {told['disk']}" + (f" at {told['data_dir']}" if "data_dir" in told else "")
        return what + (f", {duration_text(told['delay_ms'])} each" if "delay_ms" in told else "")
    about = [f"{name.replace('_', ' ')} {told[name]}" for name in _REQUEST_OPTIONS[1:] if name in told]
    does = [_action(name, told[name]) for name in _ACTIONS if name in told and name not in ("after", "skip")]
    done = ", ".join(does) + (", after executing the request" if "after" in told else "")
    skipped = f", after skipping {told['skip']}" if "skip" in told else ""
    return f"{' of '.join([told.get('api', 'every request'), *([', '.join(about)] if about else [])])}: {done}{skipped}"


def _action(name: str, value: Any) -> str:
    if name == "delay_ms":
        return f"delay {duration_text(value)}"
    return name.replace("_", " ") if value is True else f"{name} {value}"


def _wait(options: argparse.Namespace) -> int | None:
    state = Admin(options).call("GET /v1/faults/{fault_id}/wait", **fields_of(options))
    show_answer(options, state, _print_one)
    return None if state["hits"] >= options.hits else SAID_NO


def _print_one(state: dict[str, Any]) -> None:
    show_rows([row_of(state)])


def _add_options(parser: Parser) -> None:
    parser.add_argument("--api", metavar="NAME", help="match only requests of this API, e.g. Produce")
    parser.add_argument("--topic", metavar="NAME", help="match only requests for this topic")
    parser.add_argument(
        "--partition", type=number(0, _COUNT_MAX), metavar="N", help="match only this partition of the topic"
    )
    parser.add_argument("--group", metavar="ID", help="match only requests for this group")
    parser.add_argument("--transactional-id", metavar="ID", help="match only requests for this transactional id")
    parser.add_argument("--client", dest="client_id", metavar="ID", help="match only clients with this client.id")
    parser.add_argument("--node", type=number(0, _COUNT_MAX), metavar="ID", help="match only requests to this node")
    parser.add_argument(
        "--api-version", dest="version", type=number(0, 100), metavar="N", help="match only this version of the API"
    )
    parser.add_argument("--error", metavar="NAME", help="respond with this error, e.g. NOT_LEADER_OR_FOLLOWER")
    parser.add_argument(
        "--after", action="store_true", help="with --error: execute the request before responding with the error"
    )
    parser.add_argument(
        "--delay",
        dest="delay_ms",
        type=duration_ms,
        metavar="TIME",
        help="delay for each request, or with --disk slow for each sync and each read from disk, e.g. 2s",
    )
    parser.add_argument(
        "--disconnect",
        choices=("before", "after"),
        help="close the connection before or after executing the request, without a response",
    )
    parser.add_argument("--drop-response", action="store_true", help="execute the request, but never respond")
    parser.add_argument(
        "--corrupt-batch",
        action="store_true",
        help="corrupt a byte of the first batch of each partition that a Fetch returns",
    )
    parser.add_argument("--disk", choices=("full", "slow", "failed"), help="disk fault instead of a request fault")
    parser.add_argument("--data-dir", metavar="DIR", help="with --disk: affected data directory (one of log.dirs)")
    parser.add_argument("--count", type=count, metavar="N", help="number of requests to affect, or `all` (default: 1)")
    parser.add_argument(
        "--skip",
        type=number(0, _COUNT_MAX),
        metavar="N",
        help="number of matching requests to let through first (default: 0)",
    )


def _fault_options(parser: Parser) -> None:
    parser.add_argument(
        "fault_id",
        metavar="FAULT",
        type=number(1, _ID_MAX),
        help="number of the fault, as listed by `ottla faults list`",
    )


def _wait_options(parser: Parser) -> None:
    parser.add_argument(
        "--hits", type=number(1, _COUNT_MAX), default=1, metavar="N", help="number of hits to wait for (default: 1)"
    )
    parser.add_argument(
        "--timeout", dest="timeout_ms", type=duration_ms, metavar="TIME", help="time limit, e.g. 30s (default: 10s)"
    )
    _fault_options(parser)


ACTIONS = (
    call_command("list", "list faults and their hits", "GET /v1/faults", _print_all, shown="faults"),
    Command("add", "add a fault", _add, with_admin_options(_add_options), NOTES),
    call_command("show", "show a fault and its hits", "GET /v1/faults/{fault_id}", _print_one, _fault_options),
    Command(
        "wait",
        "wait until a fault has hit a request (exit code 1 on timeout)",
        _wait,
        with_admin_options(_wait_options),
    ),
    call_command(
        "remove",
        "remove a fault; requests that it delays continue",
        "DELETE /v1/faults/{fault_id}",
        _print_one,
        _fault_options,
    ),
    call_command("clear", "remove all faults", "DELETE /v1/faults", lambda done: show(f"removed {done['removed']}")),
)
