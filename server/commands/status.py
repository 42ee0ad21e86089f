"""`ottla status`: a running broker on one screen: where it is, its clock, topics, groups, faults."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Any

from .admin.asking import Admin, path
from .admin.faults import row_of
from .admin.showing import duration_text, show_rows
from .frame.command import Command
from .frame.options import admin_options, command_config_option, json_option
from .frame.parser import Parser
from .frame.printing import show, show_json
from .frame.times import time_text
from .frame.watching import watch_option, watched
from .kafka.asking import Cluster, connected
from .kafka.topics_status import statuses, when

NOTES = """\
columns:
  RECORDS      offsets between the start and the end of the logs, gaps and all
  DIRTY        of the partition with most: part of the closed segments' bytes that has not been cleaned
  ELIGIBLE     now, or from what time (UTC) on if nothing but time passes, or no: of the partition that is first
  WAITS FOR    of that partition; `ottla explain TOPIC` has the sentences
  LAG          offsets that a group has not committed
"""


def run(options: argparse.Namespace) -> None:
    """Ask for everything, and show it."""
    admin = Admin(options)
    watched(options, lambda: _once(admin, options))


def _once(admin: Admin, options: argparse.Namespace) -> None:
    broker = admin.get(path("broker"))
    clock = admin.get(path("clock"))
    faults = admin.get(path("faults"))["faults"]
    with _asking(admin, broker, options) as cluster:
        topics = statuses(cluster.nodes, internal=options.all)
        groups = list(_groups(cluster))
    if options.json:
        show_json(
            {"broker": broker, "clock": clock, "topics": topics, "groups": groups, "faults": faults},
            indent=None if options.watch else 2,
        )
        return
    show(_headlines(broker, clock))
    if topics:
        show("")
        show_rows([_topic(name, list(rows)) for name, rows in groupby(topics, key=lambda row: row["topic"])])
    if groups:
        show("")
        show_rows(groups)
    if faults:
        show("")
        show_rows([row_of(each) for each in faults])


def _asking(admin: Admin, broker: dict[str, Any], options: argparse.Namespace) -> AbstractContextManager[Cluster]:
    return connected(argparse.Namespace(bootstrap=_bootstrap(admin, broker), command_config=options.command_config))


def _bootstrap(admin: Admin, broker: dict[str, Any]) -> str:
    """Where the broker's clients find it, as seen from here: on its own machine where it listens, else what they are told."""
    if admin.is_on_this_machine:
        return str(broker["bootstrap"])
    return ",".join(node["listeners"][0]["advertised"] for node in broker["nodes"] if node["is_alive"])


def _headlines(broker: dict[str, Any], clock: dict[str, Any]) -> Iterator[str]:
    up = duration_text(round(broker["serves_since_s"]) * 1000)
    yield f"Ottla {broker['version']}, profile {broker['profile']}, up {up}, cluster {broker['cluster_id']}"
    now = time_text(clock["now_ms"]) or f"{clock['now_ms']} ms since 1970"
    yield f"clock    {now} UTC{', standing still' if clock['is_frozen'] else ''}"
    yield f"clients  {broker['bootstrap']}"
    stopped = [str(node["node_id"]) for node in broker["nodes"] if not node["is_alive"]]
    if stopped:
        yield f"stopped  node {', '.join(stopped)}"
    for data_dir in broker["data_dirs"]:
        yield f"data     {data_dir['path']}{', OFFLINE' if data_dir['is_offline'] else ''}"


def _topic(name: str, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    compacted = [each for each in partitions if "compact" in each["cleanup_policy"]]
    first = min(compacted, key=_order, default=None)
    return {
        "topic": name,
        "partitions": len(partitions),
        "records": sum(each["log_end_offset"] - each["log_start_offset"] for each in partitions),
        "policy": partitions[0]["cleanup_policy"],
        "dirty": f"{max(each['dirty_ratio'] for each in compacted):.2f}" if compacted else None,
        "eligible": when(first) if first else None,
        "waits_for": (first["waits_for"] or "nothing") if first else None,
    }


def _order(status: dict[str, Any]) -> tuple[bool, bool, int]:
    """What is eligible first, comes first."""
    at_ms = status["eligible_at_ms"]
    return not status["eligible"], at_ms is None, at_ms or 0


def _groups(cluster: Cluster) -> Iterator[dict[str, Any]]:
    ends: dict[str, dict[int, int]] = {}
    for group in cluster.kafka.groups():
        lag = 0
        for (topic, index), committed in group.offsets.items():
            if topic not in ends:
                ends[topic] = cluster.ends(topic)
            lag += max(0, ends[topic].get(index, committed) - committed)
        yield {"group": group.group_id, "type": group.type, "state": group.state, "lag": lag}


def add_options(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="the broker's own topics, too")
    watch_option(parser)
    admin_options(parser)
    command_config_option(parser)
    json_option(parser)


COMMAND = Command("status", "a running broker on one screen", run, add_options, NOTES)
