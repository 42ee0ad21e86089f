"""`ottla status`: a running broker on one screen: addresses, clock, topics, pictures of their logs, groups, faults."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...storage.logs.record_counts import RecordCounts
from ...storage.pictures.legend import counts_sentence, parts_in
from ...storage.pictures.log_picture import LogPicture
from ...storage.pictures.text import Style, bar, key, pass_lines, state, style
from ..http.json_values import decoded
from ..runtime.errors import ControlError
from .admin.asking import Admin, duration_text, show_rows, with_admin_options
from .admin.faults import row_of
from .frame.errors import CommandError
from .frame.parser import Command, Parser
from .frame.printing import bounds_text, fitted, folded, places, show, show_json, terminal_width, visible, waited_for
from .frame.terminal import watch_option, watched
from .frame.times import time_text
from .kafka.topics_status import when

NOTES = """\
columns:
  RECORDS      records in the log, without transaction markers; A-B if it is only known to be from A to B
  LIVE KEYS    keys whose newest record has a value, of a compacted topic
  DIRTY        fraction of the bytes in closed segments that has not been cleaned, of the dirtiest partition
  ELIGIBLE     now, the time (UTC) from which it is eligible without further changes, or no: of the earliest partition
  WAITS FOR    what that partition is waiting for; `ottla explain TOPIC` explains it
  LAG          offsets that a group has not committed yet

Below the tables, the logs of compacted topics are drawn to scale by offset. With TOPIC: all of its partitions, their last pass,
and what they are waiting for.
"""

WITHOUT_TERMINAL = 100
"""Line width in columns without a terminal."""
BAR_PLACES_MIN, NAME_PLACES_MAX, STATE_PLACES_MAX = 8, 28, 34
LOGS_MIN, LOGS_MAX = 5, 24
"""Minimum and maximum number of drawn logs without a TOPIC; between them as many as the terminal has lines for."""


def run(options: argparse.Namespace) -> None:
    """Get everything in one call, and show it."""
    admin = Admin(options)
    watched(options, lambda: _once(admin, options))


def _once(admin: Admin, options: argparse.Namespace) -> None:
    width = terminal_width() or WITHOUT_TERMINAL
    found = admin.call("GET /v1/status", topic=options.topic, internal=options.all, bars_max=min(1_000, 2 * width))
    if options.json:
        show_json(found, indent=None if options.watch else 2)
        return
    pictures = {each["topic"]: [_picture(one) for one in each["partitions"]] for each in found["topics"]}
    lines = list(_headlines(found["broker"], found["clock"]))
    show(lines)
    if pictures:
        show("")
        show_rows([_topic(name, rows) for name, rows in pictures.items()])
    look = _style()
    used = len(lines) + len(pictures) + len(found["groups"]) + len(found["faults"]) + 8
    drawn = _logs(pictures, width, look, used) if options.topic is None else _one_topic(pictures, width, look)
    show(drawn, as_it_is=True)  # it contains colours
    if left_out := found["partitions_left_out"]:
        show(f"and {left_out} more partitions")
    if found["groups"]:
        show("")
        show_rows([_group(each) for each in found["groups"]])
    if found["faults"]:
        show("")
        show_rows([row_of(each) for each in found["faults"]])


def _picture(found: Mapping[str, Any]) -> LogPicture:
    try:
        return decoded(LogPicture, found)
    except ControlError as error:
        raise CommandError(f"the broker's version does not match this command: {error}") from error


def _style() -> Style:
    """Return the style of pictures.

    It has blocks if they can be displayed, and colours if the terminal supports them and the user wants them
    (https://no-color.org).
    """
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    sees = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    return style(is_unicode=is_unicode, has_colours=sees)


def _headlines(broker: dict[str, Any], clock: dict[str, Any]) -> Iterator[str]:
    up = duration_text(round(broker["serves_since_s"]) * 1000)
    yield f"Ottla {broker['version']}, profile {broker['profile']}, up {up}, cluster {broker['cluster_id']}"
    now = time_text(clock["now_ms"]) or f"{clock['now_ms']} ms since 1970"
    yield f"clock    {now} UTC{', frozen' if clock['is_frozen'] else ''}"
    yield f"clients  {broker['bootstrap']}"
    stopped = [str(node["node_id"]) for node in broker["nodes"] if not node["is_alive"]]
    if stopped:
        yield f"stopped  node {', '.join(stopped)}"
    for data_dir in broker["data_dirs"]:
        yield f"data     {data_dir['path']}{', OFFLINE' if data_dir['is_offline'] else ''}"


def _topic(name: str, partitions: Sequence[LogPicture]) -> dict[str, Any]:
    compacted = [each for each in partitions if each.is_compacted]
    first = min(compacted, key=_order, default=None)
    counts = RecordCounts.total(each.counts for each in partitions)
    return {
        "topic": name,
        "partitions": len(partitions),
        "records": bounds_text(counts.records_min, counts.records_max),
        "live_keys": bounds_text(counts.live_keys_min, counts.live_keys_max) if compacted else None,
        "policy": list(partitions[0].cleanup_policy),
        "dirty": f"{max(each.dirty_ratio for each in compacted):.2f}" if compacted else None,
        "eligible": when({"eligible": first.eligible, "eligible_at_ms": first.eligible_at_ms}) if first else None,
        "waits_for": waited_for(first.waits_for) if first else None,
    }


def _order(picture: LogPicture) -> tuple[bool, bool, int]:
    """Sort key that orders logs by the time from which they are eligible."""
    return not picture.eligible, picture.eligible_at_ms is None, picture.eligible_at_ms or 0


def _logs(pictures: Mapping[str, Sequence[LogPicture]], width: int, look: Style, used: int) -> Iterator[str]:
    """Yield a line for each compacted log: those with a pass first, then the dirtiest, up to the available lines."""
    found = [each for rows in pictures.values() for each in rows if each.is_compacted]
    if not found:
        return
    lines = shutil.get_terminal_size().lines if sys.stdout.isatty() else used + LOGS_MAX
    most = max(LOGS_MIN, min(LOGS_MAX, lines - used))
    shown = sorted(found, key=lambda each: (each.running is None, -each.dirty_ratio))[:most]
    yield ""
    yield from _lines(sorted(shown, key=lambda each: (each.topic, each.partition)), width, look)
    if len(found) > len(shown):
        yield f"and {len(found) - len(shown)} more: ottla status TOPIC"
    yield key(parts_in(*shown), look)


def _lines(pictures: Sequence[LogPicture], width: int, look: Style) -> Iterator[str]:
    names = [visible(each.name) for each in pictures]
    name_places = min(NAME_PLACES_MAX, max(map(places, names), default=0), max(4, width // 3))
    state_places = min(STATE_PLACES_MAX, max((len(state(each)) for each in pictures), default=0))
    room = width - name_places - state_places - 4
    for name, each in zip(names, pictures, strict=True):
        if room >= BAR_PLACES_MIN:
            yield f"{fitted(name, name_places)}  {bar(each, room, look)}  {fitted(state(each), state_places).rstrip()}"
        else:
            yield f"{fitted(name, min(width, places(name))).rstrip()}"
            yield bar(each, max(1, width), look)
            yield fitted(state(each), max(2, width)).rstrip()


def _one_topic(pictures: Mapping[str, Sequence[LogPicture]], width: int, look: Style) -> Iterator[str]:
    """Yield each partition with all details."""
    for rows in pictures.values():
        for each in rows:
            yield ""
            yield fitted(f"{visible(each.name)}: {state(each)}", width).rstrip()
            yield bar(each, max(1, width), look)
            yield from folded(
                visible(
                    f"offsets {each.log_start_offset} to {each.log_end_offset}, first dirty {each.first_dirty_offset},"
                    f" uncleanable from {each.first_uncleanable_offset}, last stable {each.last_stable_offset},"
                    f" high watermark {each.high_watermark}; {counts_sentence(each.counts, is_compacted=each.is_compacted)};"
                    f" {each.explanation}"
                ),
                width,
                "  ",
            )
            if each.last_pass is not None:
                yield "  the last pass:"
                yield from (f"  {line}" for line in pass_lines(each.last_pass, max(1, width - 2), look))
        yield ""
        yield key(parts_in(*rows), look)


def _group(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"group": found["group_id"], "type": found["kind"], "state": found["state"], "lag": found["lag"]}


def add_options(parser: Parser) -> None:
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="show only this topic, with all of its partitions")
    parser.add_argument("--all", action="store_true", help="include internal topics")
    watch_option(parser)


COMMAND = Command("status", "show a running broker on one screen", run, with_admin_options(add_options), NOTES)
