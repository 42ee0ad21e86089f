"""`ottla compact`, `ottla roll`, `ottla retention`: what the broker does by itself in time, now."""

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
Without --force as Apache Kafka's cleaner would: the active segment stays, so does what min.compaction.lag.ms and open
transactions protect, and a partition below min.cleanable.dirty.ratio is left alone. --roll ends the active segment first. With
--force all that no open transaction protects is cleaned.

`ottla explain TOPIC` says what a partition waits for.
"""

_PARTITION_MAX = 2**31 - 1


def _compact(options: argparse.Namespace) -> None:
    if options.wait:
        _wait(options)
        return
    if options.timeout is not None:
        raise WrongCallError("--timeout goes with --wait; a pass takes as long as it takes")
    if options.data and options.admin:
        raise WrongCallError("--data and --admin: expected one of them")
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
    show_answer(options, answer, _tell)


def _tell(answer: dict[str, Any]) -> None:
    show_rows(
        [
            {
                "partition": f"{answer['topic']}-{each['partition']}",
                "passes": each["passes"],
                "rolled": each["has_rolled"],
                "clean below": each["first_dirty_offset"],
                "log end": each["log_end_offset"],
                # Without a pass nobody has counted.
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
        raise WrongCallError("--wait asks a broker: expected no --data")
    if options.force or options.roll or options.partitions:
        raise WrongCallError(
            "--wait starts nothing, and is for the whole topic: expected no --force, --roll, --partition"
        )
    with Progress() as progress:
        progress.say(f"waiting for the cleaner to have covered {options.topic} …")
        answer = Admin(options).call(
            "GET /v1/topics/{topic}/compacted", topic=options.topic, timeout_ms=options.timeout
        )
    show_answer(options, answer, _tell_waited)


def _tell_waited(answer: dict[str, Any]) -> None:
    show_rows(
        [
            {
                "partition": f"{answer['topic']}-{each['partition']}",
                "clean below": each["first_dirty_offset"],
                "log end": each["log_end_offset"],
                SENTENCE: _why(each),
            }
            for each in answer["partitions"]
        ]
    )


def _removed(counts: dict[str, int]) -> str:
    """`removed 5 superseded, 1 markers; `, or nothing."""
    told = ", ".join(f"{count} {why}" for why, count in counts.items() if count)
    return f"removed {told}; " if told else ""


def _why(partition: dict[str, Any]) -> str:
    """What the cleaner waits for, and why; without the word where it waits for nothing."""
    what = waited_for(partition["waits_for"])
    return str(partition["explanation"]) if what is None else f"{what}: {partition['explanation']}"


def _tell_rolled(answer: dict[str, Any]) -> None:
    for each in answer["partitions"]:
        show(f"{answer['topic']}-{each['partition']}: {_what_rolled(each)}")


def _what_rolled(each: dict[str, Any]) -> str:
    if each["has_rolled"]:
        return f"rolled, the active segment begins at {each['active_segment']}"
    return "nothing to roll: the active segment is empty"


def _tell_retained(answer: dict[str, Any]) -> None:
    changed = [each for each in answer["partitions"] if each["segments_deleted"] or each["explanation"]]
    if not changed:
        show("nothing was to go")
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
        help="only this one; repeatable",
    )


def _compact_options(parser: Parser) -> None:
    _partition_options(parser)
    parser.add_argument("--force", action="store_true", help="whatever ratio and lags say; rolls, too")
    parser.add_argument("--roll", action="store_true", help="end the active segment first")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="a data directory in which no broker runs: it is done here, and no broker is asked",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="start nothing: wait until the cleaner's own passes have covered what lies in closed segments now",
    )
    parser.add_argument(
        "--timeout", type=duration_ms, metavar="TIME", help="of --wait, as 30s; then exit code 1 (default: 10s)"
    )


def _retention_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="default: all")


COMPACT = Command(
    "compact",
    "clean partitions of a compacted topic now",
    _compact,
    with_admin_options(_compact_options),
    COMPACT_NOTES,
)
ROLL = call_command(
    "roll", "end the active segments of a topic", "POST /v1/topics/{topic}/roll", _tell_rolled, _partition_options
)
RETENTION = call_command(
    "retention", "delete now what retention lets go", "POST /v1/retention", _tell_retained, _retention_options
)
