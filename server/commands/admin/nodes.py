"""`ottla nodes`: stop and start single nodes of the process, and move leaders."""

from __future__ import annotations

import argparse
from typing import Any

from ..frame.options import number
from ..frame.parser import Command, Parser
from ..frame.printing import show
from .asking import Admin, call_command, fields_of, show_answer, show_rows, with_admin_options

_INT32_MAX = 2**31 - 1


def _print_all(nodes: list[dict[str, Any]]) -> None:
    show_rows([_row(node) for node in nodes])


def _row(node: dict[str, Any]) -> dict[str, Any]:
    return {
        "node": node["node_id"],
        "is_serving": node["is_alive"],
        "listeners": [each["advertised"] for each in node["listeners"]],
        "rack": node["rack"],
    }


def _move_leader(options: argparse.Namespace) -> None:
    topic, partition = options.partition
    answer = Admin(options).call(
        "POST /v1/topics/{topic}/partitions/{partition}/leader", topic=topic, partition=partition, node=options.node
    )
    show_answer(options, answer, _print_leader)


def _move_coordinator(options: argparse.Namespace) -> None:
    topic, partition = options.partition or (None, None)
    fields = fields_of(options) | {"topic": topic, "partition": partition}
    show_answer(options, Admin(options).call("POST /v1/coordinators", **fields), _print_leader)


def _print_leader(answer: dict[str, Any]) -> None:
    what = f"{answer['topic']}-{answer['partition']}"
    moved = "leads" if answer["was"] != answer["leader"] else "already leads"
    show(
        f"node {answer['leader']} {moved} {what}, leader epoch {answer['leader_epoch']} (before: node {answer['was']})"
    )


def partition_of(text: str) -> tuple[str, int]:
    """Parse TOPIC:PARTITION."""
    topic, _, index = text.rpartition(":")
    if not topic or not (index.isascii() and index.isdigit()) or int(index) > _INT32_MAX:
        raise argparse.ArgumentTypeError(f"expected TOPIC:PARTITION, found {text!r}")
    return topic, int(index)


def _node_options(parser: Parser) -> None:
    parser.add_argument("node_id", metavar="ID", type=number(0, _INT32_MAX))


def _to_option(parser: Parser) -> None:
    parser.add_argument(
        "--to",
        dest="node",
        metavar="ID",
        type=number(0, _INT32_MAX),
        required=True,
        help="id of the node to move to",
    )


def _leader_options(parser: Parser) -> None:
    parser.add_argument("partition", metavar="TOPIC:PARTITION", type=partition_of)
    _to_option(parser)


def _coordinator_options(parser: Parser) -> None:
    parser.add_argument("--group", metavar="ID", help="group whose coordinator moves")
    parser.add_argument(
        "--transactional-id", metavar="ID", help="transactional id whose coordinator moves (instead of --group)"
    )
    parser.add_argument(
        "--partition",
        metavar="TOPIC:PARTITION",
        type=partition_of,
        help="with --group of a share group: move the coordinator of this share partition",
    )
    _to_option(parser)


ACTIONS = (
    call_command("list", "list nodes and whether they are running", "GET /v1/nodes", _print_all, shown="nodes"),
    call_command(
        "stop",
        "stop a node: it hands over its leaderships and closes its listeners",
        "POST /v1/nodes/{node_id}/stop",
        lambda node: show(f"stopped node {node['node_id']}"),
        _node_options,
    ),
    call_command(
        "start",
        "start a stopped node again, on the same ports",
        "POST /v1/nodes/{node_id}/start",
        lambda node: show(f"started node {node['node_id']}"),
        _node_options,
    ),
    Command(
        "move-leader",
        "move the leader of a partition to another node",
        _move_leader,
        with_admin_options(_leader_options),
    ),
    Command(
        "move-coordinator",
        "move the coordinator of a group or transactional id to another node",
        _move_coordinator,
        with_admin_options(_coordinator_options),
    ),
)
