"""`ottla nodes`: the broker ids that the process plays, stopped and started one by one."""

from __future__ import annotations

import argparse
from typing import Any

from ..frame.command import Command
from ..frame.options import admin_options, json_option, number
from ..frame.parser import Parser
from ..frame.printing import show, show_json
from .asking import Admin, path
from .showing import show_rows

_INT32_MAX = 2**31 - 1


def _list(options: argparse.Namespace) -> None:
    nodes = Admin(options).get(path("nodes"))["nodes"]
    if options.json:
        show_json(nodes)
    else:
        show_rows([_row(node) for node in nodes])


def _row(node: dict[str, Any]) -> dict[str, Any]:
    return {
        "node": node["node_id"],
        "is_serving": node["is_alive"],
        "listeners": [each["advertised"] for each in node["listeners"]],
        "rack": node["rack"],
    }


def _stop(options: argparse.Namespace) -> None:
    _tell(options, Admin(options).post(path("nodes", options.node, "stop")), "stopped")


def _start(options: argparse.Namespace) -> None:
    _tell(options, Admin(options).post(path("nodes", options.node, "start")), "started")


def _move_leader(options: argparse.Namespace) -> None:
    topic, partition = options.partition
    _tell_leader(
        options, Admin(options).post(path("topics", topic, "partitions", partition, "leader"), node=options.to)
    )


def _move_coordinator(options: argparse.Namespace) -> None:
    topic, partition = options.partition or (None, None)
    answer = Admin(options).post(
        path("coordinators"),
        node=options.to,
        group=options.group,
        transactional_id=options.transactional_id,
        topic=topic,
        partition=partition,
    )
    _tell_leader(options, answer)


def _tell_leader(options: argparse.Namespace, answer: dict[str, Any]) -> None:
    if options.json:
        show_json(answer)
        return
    what = f"{answer['topic']}-{answer['partition']}"
    moved = "leads" if answer["was"] != answer["leader"] else "led it before: nothing to do;"
    show(
        f"node {answer['leader']} {moved} {what}, leader epoch {answer['leader_epoch']} (before: node {answer['was']})"
    )


def partition_of(text: str) -> tuple[str, int]:
    """Reads TOPIC:PARTITION."""
    topic, _, index = text.rpartition(":")
    if not topic or not (index.isascii() and index.isdigit()) or int(index) > _INT32_MAX:
        raise argparse.ArgumentTypeError(f"expected TOPIC:PARTITION, found {text!r}")
    return topic, int(index)


def _tell(options: argparse.Namespace, node: dict[str, Any], done: str) -> None:
    if options.json:
        show_json(node)
    else:
        show(f"{done} node {node['node_id']}")


def _common(parser: Parser) -> None:
    admin_options(parser)
    json_option(parser)


def _node_options(parser: Parser) -> None:
    parser.add_argument("node", metavar="ID", type=number(0, _INT32_MAX))
    _common(parser)


def _to_option(parser: Parser) -> None:
    parser.add_argument(
        "--to", metavar="ID", type=number(0, _INT32_MAX), required=True, help="the node that takes over"
    )


def _leader_options(parser: Parser) -> None:
    parser.add_argument("partition", metavar="TOPIC:PARTITION", type=partition_of)
    _to_option(parser)
    _common(parser)


def _coordinator_options(parser: Parser) -> None:
    parser.add_argument("--group", metavar="ID", help="the group that is to be coordinated elsewhere")
    parser.add_argument("--transactional-id", metavar="ID", help="or the transactional id")
    parser.add_argument(
        "--partition", metavar="TOPIC:PARTITION", type=partition_of, help="with a share group: this share partition"
    )
    _to_option(parser)
    _common(parser)


ACTIONS = (
    Command("list", "which there are, and which of them serve", _list, _common),
    Command("stop", "stop one: it hands over what it leads, and listens no more", _stop, _node_options),
    Command("start", "start a stopped one again, on the same ports", _start, _node_options),
    Command("move-leader", "have another one lead a partition", _move_leader, _leader_options),
    Command("move-coordinator", "have another one coordinate a group", _move_coordinator, _coordinator_options),
)
