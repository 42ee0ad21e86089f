"""`ottla compact`, `ottla roll`, `ottla retention`: do now what the broker does by itself later."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from ..frame.errors import CommandError, WrongCallError
from ..frame.options import duration_ms, number
from ..frame.parser import Command, Parser
from ..frame.printing import BECOMES, show, waited_for
from ..frame.terminal import Progress
from .asking import SENTENCE, Admin, call_command, show_answer, show_rows, with_admin_options

COMPACT_NOTES = """\
Without --force, the same rules apply as in Apache Kafka's cleaner. It skips the active segment, records protected by
min.compaction.lag.ms or open transactions, and partitions below min.cleanable.dirty.ratio. --roll rolls the active segment
first. With --force, everything that no open transaction protects is cleaned.

`ottla explain TOPIC` shows what a partition is waiting for.
"""

_PARTITION_MAX = 2**31 - 1


def _compact(options: argparse.Namespace) -> None:
    if options.wait:
        _wait(options)
        return
    if options.timeout is not None:
        raise WrongCallError("--timeout requires --wait; a pass has no time limit")
    if options.data and options.admin:
        raise WrongCallError("--data and --admin cannot be combined")
    admin = None if options.data else Admin(options)
    with Progress() as progress:
        progress.say(f"compacting {options.topic} …")
        if admin is None:
            answer = _compact_stopped(options)
        else:
            answer = admin.call(
                "POST /v1/topics/{topic}/compact",
                topic=options.topic,
                partitions=options.partitions,
                force=options.force,
                roll=options.roll,
            )
    show_answer(options, answer, _print_compacted)


def _print_compacted(answer: dict[str, Any]) -> None:
    show_rows(
        [
            {
                "partition": f"{answer['topic']}-{each['partition']}",
                "passes": each["passes"],
                "rolled": each["has_rolled"],
                "first dirty": each["first_dirty_offset"],
                "log end": each["log_end_offset"],
                # Without a pass no records were counted.
                "records": f"{each['records_read']}{BECOMES}{each['records_written']}" if each["passes"] else None,
                "removed": sum(each["records_removed"].values()) if each["passes"] else None,
                "segments": f"{each['segments_before']}{BECOMES}{each['segments_after']}",
                SENTENCE: _removed(each["records_removed"]) + _why(each),
            }
            for each in answer["partitions"]
        ]
    )


def _compact_stopped(options: argparse.Namespace) -> dict[str, Any]:
    from ...runtime.errors import ControlError
    from .stopped import compact_stopped

    try:
        done = compact_stopped(options.data, options.topic, options.partitions, force=options.force, roll=options.roll)
    except ControlError as error:
        raise CommandError(str(error)) from error
    return asdict(done)


def _wait(options: argparse.Namespace) -> None:
    if options.data:
        raise WrongCallError("--wait and --data cannot be combined: --wait needs a running broker")
    if options.force or options.roll or options.partitions:
        raise WrongCallError(
            "--wait starts no pass and covers the whole topic: not allowed with --force, --roll or --partition"
        )
    with Progress() as progress:
        progress.say(f"waiting until the cleaner has covered {options.topic} …")
        answer = Admin(options).call(
            "GET /v1/topics/{topic}/compacted", topic=options.topic, timeout_ms=options.timeout
        )
    show_answer(options, answer, _print_waited)


def _print_waited(answer: dict[str, Any]) -> None:
    show_rows(
        [
            {
                "partition": f"{answer['topic']}-{each['partition']}",
                "first dirty": each["first_dirty_offset"],
                "log end": each["log_end_offset"],
                SENTENCE: _why(each),
            }
            for each in answer["partitions"]
        ]
    )


def _removed(counts: dict[str, int]) -> str:
    """Format counts as `removed 5 superseded, 1 markers; `; empty if nothing was removed."""
    told = ", ".join(f"{count} {why}" for why, count in counts.items() if count)
    return f"removed {told}; " if told else ""


def _why(partition: dict[str, Any]) -> str:
    """Return what the cleaner waits for, and why; only the explanation if it waits for nothing."""
    what = waited_for(partition["waits_for"])
    return str(partition["explanation"]) if what is None else f"{what}: {partition['explanation']}"


def _print_rolled(answer: dict[str, Any]) -> None:
    for each in answer["partitions"]:
        show(f"{answer['topic']}-{each['partition']}: {_describe_rolled(each)}")


def _describe_rolled(each: dict[str, Any]) -> str:
    if each["has_rolled"]:
        return f"rolled, the active segment starts at {each['active_segment']}"
    return "nothing to roll: the active segment is empty"


def _print_retained(answer: dict[str, Any]) -> None:
    changed = [each for each in answer["partitions"] if each["segments_deleted"] or each["explanation"]]
    if not changed:
        show("nothing to delete")
        return
    show_rows(
        [
            {
                "partition": f"{each['topic']}-{each['partition']}",
                "log start": f"{each['log_start_offset_before']}{BECOMES}{each['log_start_offset']}",
                "segments": each["segments_deleted"],
                "bytes": each["bytes_deleted"],
                SENTENCE: each["explanation"],
            }
            for each in changed
        ]
    )


def _partition_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--partition",
        dest="partitions",
        type=number(0, _PARTITION_MAX),
        metavar="N",
        action="append",
        help="only this partition; repeatable",
    )


def _compact_options(parser: Parser) -> None:
    _partition_options(parser)
    parser.add_argument(
        "--force", action="store_true", help="ignore the dirty ratio and lags, and roll the active segment first"
    )
    parser.add_argument("--roll", action="store_true", help="roll the active segment first")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="clean in this data directory, in this process; no broker may be running on it",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="start no pass; wait until the cleaner's own passes have covered all segments that are closed now",
    )
    parser.add_argument(
        "--timeout",
        type=duration_ms,
        metavar="TIME",
        help="with --wait: time limit, e.g. 30s (default: 10s); exit code 1 when it expires",
    )


def _retention_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="topic to apply retention to (default: all topics)")


COMPACT = Command(
    "compact",
    "run the cleaner on a compacted topic now",
    _compact,
    with_admin_options(_compact_options),
    COMPACT_NOTES,
)
ROLL = call_command(
    "roll", "roll the active segments of a topic", "POST /v1/topics/{topic}/roll", _print_rolled, _partition_options
)
RETENTION = call_command("retention", "apply retention now", "POST /v1/retention", _print_retained, _retention_options)
