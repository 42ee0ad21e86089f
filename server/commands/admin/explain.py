"""`ottla explain`: why a topic is compacted or not, with remedies; the history of a key; a dry run of a pass."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from ..frame.errors import wrong_call
from ..frame.options import number
from ..frame.parser import Command, Parser
from ..frame.printing import folded, show, terminal_width, visible
from ..frame.times import time_text
from .asking import SENTENCE, Admin, duration_text, show_answer, show_rows, with_admin_options

NOTES = """\
examples:
  ottla explain orders                    for each partition: whether and when it can be cleaned, and how to get there
  ottla explain orders --key 17           for each record of the key: which offset supersedes it, when it is removed
  ottla explain orders --dry-run          what a pass would remove now, and why
"""

COMMANDS = 3
"""Indentation depth of commands."""
_PARTITION_MAX = 2**31 - 1
_RECORDS_MAX = 100_000
_GOES = {
    "superseded": "the next pass removes it",
    "tombstones": "the next pass removes it: its delete horizon has passed",
    "aged": "the next pass removes it: it is older than ottla.key.retention.ms",
    "aborted": "the next pass removes it: its transaction was aborted",
}
_STAYS = {
    "newest": "kept: newest record of its key",
    "bound": "kept: a pass ends before it",
    "superseded_beyond_bound": "kept: a pass ends before the record that supersedes it",
    "superseded_in_clean_part": "kept: the record that supersedes it is in the clean part, which a pass does not scan for keys",
    "delete_horizon": "removed by the first pass at or after {horizon}",
    "supersedes_now": "kept: the next pass may remove later records for it, and the pass after that removes it",
    "no_horizon_yet": "the next pass sets its delete horizon ({retention} later); the first pass after that removes it",
}


def run(options: argparse.Namespace) -> None:
    """Run the command: call the listener, and print the response."""
    if options.key is not None and options.dry_run:
        raise wrong_call("--key and --dry-run cannot be combined")
    for name in ("force", "limit"):
        if getattr(options, name) and options.key is None and not options.dry_run:
            raise wrong_call(f"--{name} requires --dry-run" + (" or --key" if name == "limit" else ""))
    if options.key is not None:
        _key(options)
    elif options.dry_run:
        _dry_run(options)
    else:
        _explain(options)


def _explain(options: argparse.Namespace) -> None:
    answer = Admin(options).call("GET /v1/topics/{topic}/explain", topic=options.topic, partition=options.partition)
    show_answer(options, answer, _print_explained)


def _print_explained(answer: dict[str, Any]) -> None:
    width = terminal_width()
    for partition in answer["partitions"]:
        for depth, line in _lines(partition):
            # Commands are meant to be copied, so they are not folded.
            show(folded(visible(line), None if depth == COMMANDS else width, depth * "  "))


def _lines(partition: dict[str, Any]) -> Iterator[tuple[int, str]]:
    state = "eligible now" if partition["eligible"] else f"not eligible ({partition['waits_for']})"
    yield 0, f"{partition['topic']}-{partition['partition']}: {state}: {partition['sentence']}"
    found = partition["cleaner"]["eligibility"]
    line = (
        f"first dirty offset {found['first_dirty_offset']}, a pass would end at {found['upper_offset']}, log end"
        f" {found['log_end_offset']}; dirty ratio {found['dirty_ratio']:.3f}, must be above"
        f" {found['min_cleanable_dirty_ratio']:g}; passes so far: {partition['cleaner']['passes']}"
    )
    yield 1, line
    for remedy in partition["remedies"]:
        yield 1, f"- {remedy['sentence']}"
        for command in remedy["commands"]:
            yield COMMANDS, command


def _key(options: argparse.Namespace) -> None:
    answer = Admin(options).call(
        "GET /v1/topics/{topic}/explain-key",
        topic=options.topic,
        key=options.key,
        encoding=options.key_encoding,
        partition=options.partition,
        records_max=options.limit,
    )
    show_answer(options, answer, _print_key)


def _print_key(answer: dict[str, Any]) -> None:
    found = answer["history"]
    count, shown = found["record_count"], len(found["records"])
    show(
        f"{answer['topic']}-{answer['partition']}: {count} record{'s'[: count != 1]} of this key; a pass now would cover offsets"
        f" {found['first_dirty_offset']} to {found['upper_offset']}"
    )
    if count > shown:
        show(f"the newest {shown}:")
    rows = [
        {
            "offset": each["offset"],
            "time": "-" if each["timestamp_ms"] < 0 else time_text(each["timestamp_ms"], with_ms=True),
            "value": "tombstone" if each["value_bytes"] is None else f"{each['value_bytes']} bytes",
            "segment": each["segment_base_offset"],
            "part": "clean" if each["is_in_clean_part"] else "dirty",
            "transaction": None if each["transaction"] == "none" else each["transaction"],
            "superseded_by": each["superseded_by"],
            SENTENCE: _then(each, found),
        }
        for each in found["records"]
    ]
    if rows:
        show_rows(rows)


def _then(record: dict[str, Any], history: dict[str, Any]) -> str:
    if record["goes"] is not None:
        return _GOES.get(record["goes"], f"the next pass removes it: {record['goes']}")
    horizon = record["delete_horizon_ms"]
    return _STAYS.get(record["stays"], str(record["stays"])).format(
        horizon=None if horizon is None else time_text(horizon),
        retention=duration_text(history["delete_retention_ms"]),
    )


def _dry_run(options: argparse.Namespace) -> None:
    answer = Admin(options).call(
        "GET /v1/topics/{topic}/dry-run",
        topic=options.topic,
        partition=options.partition,
        force=options.force,
        records_max=options.limit,
    )
    show_answer(options, answer, _print_dry_run)


def _print_dry_run(answer: dict[str, Any]) -> None:
    for partition in answer["partitions"]:
        found = partition["would_pass"]
        stats = found["stats"]
        gone = ", ".join(f"{count} {why}" for why, count in stats["removed"].items() if count)
        show(
            f"{answer['topic']}-{partition['partition']}: a pass from offset {found['first_dirty_offset']} to"
            f" {found['upper_offset']} would keep {stats['records_written']} of {stats['records_read']} records,"
            f" {stats['bytes_written']} of {stats['bytes_read']} bytes ({gone or 'nothing'} removed),"
            f" {stats['segments_before']} segments become {stats['segments_after']}"
        )
        show(f"  offset {each['offset']}: {each['reason']}" for each in found["removals"])
        if not found["are_all_listed"]:
            show(f"  and {sum(stats['removed'].values()) - len(found['removals'])} more (raise --limit)")


def add_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--partition", type=number(0, _PARTITION_MAX), metavar="N", help="only this partition")
    parser.add_argument("--key", metavar="KEY", help="show the history of this key")
    parser.add_argument(
        "--key-encoding", choices=("text", "hex", "base64"), default="text", help="encoding of --key (default: text)"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what a pass would remove; writes nothing")
    parser.add_argument("--force", action="store_true", help="with --dry-run: simulate `ottla compact --force`")
    parser.add_argument(
        "--limit",
        type=number(1, _RECORDS_MAX),
        metavar="N",
        help="with --dry-run or --key: maximum number of records to show",
    )


COMMAND = Command(
    "explain",
    "show why a topic is or is not compacted, and how to get it compacted",
    run,
    with_admin_options(add_options),
    NOTES,
)
