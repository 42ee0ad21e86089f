"""`ottla advise`: what compaction costs a topic of any Kafka, and the settings that reach a goal, from its data directory."""

from __future__ import annotations

import argparse
import os
import re
import time
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .frame.errors import DONE, SAID_NO, CommandError
from .frame.options import duration_ms, json_option
from .frame.parser import Command, Parser
from .frame.printing import folded, show, show_json, show_table, terminal_width, visible
from .frame.terminal import Progress

if TYPE_CHECKING:
    from ...storage.advice.advising import Advice, Costs
    from ...storage.advice.directories import FoundLog
    from ...storage.advice.summary import Summary
    from ...storage.topics.config import LogConfig

NOTES = """\
Reads the logs of the topic in data directories of Ottla or Apache Kafka, and writes nothing. A broker may run in them. The logs
are measured, and the cleaner is simulated over the next 30 days, with the writes of the measured time again and again.

Without a goal the costs of today's settings are shown. With goals, the settings that reach all of them with the least work of
the cleaner are shown beside today's. Sizes are those of one replica of the partitions in these directories.

A time is the one from a newer write of the key to the removal of the older value. A segment ends by a write: in a topic without
writes, old values stay.

Exit code 0: the goals are reached, or none was given. 1: otherwise.

examples:
  ottla advise customers --data /var/lib/ottla
  ottla advise customers --data /var/lib/kafka/data --erase-within 24h --cleaner-below 5MB
"""

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(rf"([0-9]{{1,15}}(?:\.[0-9]{{1,6}})?)({'|'.join(_UNITS)})", re.IGNORECASE)
_ATTEMPTS = 3
"""Number of times that a log is measured, if a broker replaces its segments each time."""
_JSON_SEGMENTS_MAX = 1_000


def size_bytes(text: str) -> int:
    """Parse `50GB`, `1.5TB`, `500B`; a thousand bytes are a KB."""
    match = _SIZE.fullmatch(text.removesuffix("/s"))
    if match is None:
        raise argparse.ArgumentTypeError(
            f"expected a number followed by one of {', '.join(_UNITS)}, e.g. 50GB, found {text!r}"
        )
    return round(float(match[1]) * _UNITS[match[2].upper()])


def size_text(size: float) -> str:
    """Format a size with three digits."""
    for unit, factor in reversed(_UNITS.items()):
        if size >= factor:
            return f"{size / factor:.3g} {unit}" if size < 1_000 * factor else f"{size / factor:.0f} {unit}"
    return f"{size:.0f} B"


def time_text(lasted_ms: int | None) -> str | None:
    """Format a duration in its largest whole unit."""
    if lasted_ms is None:
        return None
    for unit, factor in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if lasted_ms >= 2 * factor:
            return f"{lasted_ms / factor:.1f} {unit}"
    return f"{lasted_ms} ms"


def run(options: argparse.Namespace) -> int:
    """Measure, simulate, and print the result."""
    from ...storage.advice.advising import Goals, advise
    from ...storage.advice.simulating import CleanerSettings

    logs, config, is_assumed = _find(options)
    summaries = []
    with Progress() as progress:
        for log in logs:
            progress.say(f"measuring {log.of} …")
            summaries.append((log, _measure(log, config)))
    sentences = _about(summaries, config, is_assumed=is_assumed)
    usable = [summary for _, summary in summaries if summary.buckets]
    if not usable:
        raise CommandError(f"topic {options.topic} cannot be simulated: no record with a timestamp was found")
    goals = Goals(options.erase_within, options.disk_below, options.bootstrap_below, options.cleaner_below)
    cleaner = CleanerSettings()
    with Progress() as progress:
        advice = advise(
            usable,
            config,
            cleaner,
            goals,
            on_candidate=lambda number: progress.say(f"simulating settings {number + 1} …"),
        )
    if options.json:
        show_json(_json(options.topic, summaries, advice, sentences, goals._asdict()))
    else:
        _show(options.topic, summaries, advice, sentences, has_goal=any(goal is not None for goal in goals))
    return DONE if advice.advised is not None else SAID_NO


def _find(options: argparse.Namespace) -> tuple[list[FoundLog], LogConfig, bool]:
    """Return the logs of the topic, its options, and whether those are assumed."""
    from ...storage.advice.directories import find_topic
    from ...storage.disk.health import DataDirectoryError
    from ...storage.disk.os_files import ReadOnlyFiles
    from ...storage.topics.config import COMPACT, LogConfig

    directories = [each.strip() for each in options.data.split(",") if each.strip()]
    try:
        found = find_topic(ReadOnlyFiles(), directories, options.topic)
    except DataDirectoryError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename or options.data}: {error.strerror or error}") from error
    if not found.logs:
        raise CommandError(f"topic {options.topic}: no log found in {options.data}")
    config = found.config or LogConfig(cleanup_policy=(COMPACT,))
    if not config.is_compact:
        policy = ",".join(config.cleanup_policy)
        raise CommandError(
            f"topic {options.topic} is not compacted: cleanup.policy is {policy}, so the cleaner never reads it"
        )
    return found.logs, config, found.config is None


def _measure(log: FoundLog, config: LogConfig) -> Summary:
    from ...storage.advice.measuring import LogMeasuring
    from ...storage.disk.os_files import ReadOnlyFiles
    from ...storage.segment.batch_scan import UNREADABLE
    from ...storage.steps import to_the_end

    problem = ""
    for _ in range(_ATTEMPTS):
        measuring = LogMeasuring(
            ReadOnlyFiles(),
            log.directory,
            config,
            clean_below=log.clean_below,
            log_start_offset=log.log_start_offset,
            now_ms=time.time_ns() // 1_000_000,
            secret=os.urandom(16),
        )
        try:
            return to_the_end(measuring.steps())
        except FileNotFoundError:
            problem = f"a broker has replaced segments during each of {_ATTEMPTS} measurements; run the command again"
        except UNREADABLE as error:
            raise CommandError(f"{log.directory} cannot be read: {error.message}") from error
        except OSError as error:
            raise CommandError(f"{log.directory} cannot be read: {error.strerror or error}") from error
    raise CommandError(f"{log.directory}: {problem}")


def _about(summaries: list[tuple[FoundLog, Summary]], config: LogConfig, *, is_assumed: bool) -> list[str]:
    """Return sentences on what the logs have that a prediction does not know, or that the user should know."""
    found = [summary for _, summary in summaries]
    sentences = []
    if is_assumed:
        sentences.append(
            "The directories have no options of the topic: Kafka's defaults with cleanup.policy=compact are assumed."
        )
    if empty := [str(log.of) for log, summary in summaries if not summary.records]:
        sentences.append(f"Without records, and left out: {', '.join(empty[:10])}.")
    if records := sum(each.future_records for each in found):
        sentences.append(
            f"{records} records have a timestamp more than a day ahead. A pass takes their segments as young, and retention as new."
        )
    if records := sum(each.untimed_records for each in found):
        sentences.append(f"{records} records have no timestamp, and are left out of the writes by time.")
    if jumps := sum(each.backward_jumps for each in found):
        sentences.append(
            f"{jumps} segments begin more than an hour before the latest timestamp so far: the producers' clocks jump, or old"
            " records were written later. Predicted times are less certain."
        )
    if opened := [transaction for each in found for transaction in each.open_transactions]:
        oldest = min(opened, key=lambda each: each.first_timestamp_ms)
        sentences.append(
            f"{len(opened)} transactions are open, the oldest of producer {oldest.producer_id} from offset"
            f" {oldest.first_offset} on: no pass goes beyond it. The simulation ignores it."
        )
    if keyless := sum(each.keyless_records for each in found):
        sentences.append(f"{keyless} records have no key: the next pass removes them.")
    if unread := sum(each.unread_bytes for each in found):
        sentences.append(f"{unread} bytes at the end of a log are not a whole batch: an append in progress, or damage.")
    if silent := _longest_silence_ms(found):
        sentences.append(
            f"Up to {time_text(silent)} passed without a write. A segment ends by a write, so old values of the active segment"
            " stay that long."
        )
    return sentences


def _longest_silence_ms(found: list[Summary]) -> int:
    """Return the longest time without a write in a log, if it is a day or more; else 0."""
    longest_ms = 0
    for each in found:
        for before, bucket in pairwise(each.buckets):
            if bucket.writes <= bucket.records:  # otherwise a clean pass has removed what was written between them
                longest_ms = max(longest_ms, bucket.begin_ms - before.begin_ms - each.bucket_ms)
    return longest_ms if longest_ms >= 86_400_000 else 0


_ROWS = (
    ("size, largest", "peak_bytes", size_text),
    ("size, mean (a new reader)", "mean_bytes", size_text),
    ("size, least", "least_bytes", size_text),
    ("cleaner, a second", "cleaner_bytes_per_s", size_text),
    ("cleaner thread, hours a day", "thread_hours_per_day", "{:.2f}".format),
    ("passes a day", "passes_per_day", "{:.1f}".format),
    ("old value, half of them", "superseded_p50_ms", time_text),
    ("old value, 99 of 100", "superseded_p99_ms", time_text),
    ("old value, longest", "superseded_longest_ms", time_text),
    ("tombstone, longest", "tombstone_longest_ms", time_text),
)


def _show(
    topic: str, summaries: list[tuple[FoundLog, Summary]], advice: Advice, sentences: list[str], *, has_goal: bool
) -> None:
    found = [summary for _, summary in summaries]
    keys, records = sum(each.keys for each in found), sum(each.records for each in found)
    show(
        f"{topic}: {len(found)} partitions, {size_text(sum(each.size_bytes for each in found))}, {records} records, {keys} keys,"
        f" {sum(each.live_keys for each in found)} with a value"
    )
    for sentence in sentences:
        show(folded(visible(sentence), terminal_width(), ""))
    columns = [("TODAY", advice.today.costs)]
    if advice.nearest is not advice.today:
        columns.append(("ADVISED" if advice.advised else "NEAREST", advice.nearest.costs))
    show_table(
        ["COSTS", *(name for name, _ in columns)], [_row(label, name, form, columns) for label, name, form in _ROWS]
    )
    if not has_goal:
        return
    for sentence in advice.nearest.misses:
        show(folded(f"Not reached: {sentence}.", terminal_width(), ""))
    if advice.advised is None:
        show("No settings that were tried reach all goals; the nearest are shown.")
    if not advice.nearest.changes:
        if advice.advised is not None:
            show("Today's settings reach the goals with the least work of the cleaner.")
        return
    settings = [f"{name}={value}" for name, value in advice.nearest.changes.items()]
    show(f"ottla configs alter topic:{topic} {' '.join(settings)}")
    show(f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {','.join(settings)}")


def _row(label: str, name: str, form: Any, columns: list[tuple[str, Costs]]) -> list[object]:
    values = [getattr(costs, name) for _, costs in columns]
    return [label, *(None if value is None else form(value) for value in values)]


def _json(
    topic: str,
    summaries: list[tuple[FoundLog, Summary]],
    advice: Advice,
    sentences: list[str],
    goals: dict[str, int | None],
) -> dict[str, Any]:
    logs = []
    for log, summary in summaries:
        facts = asdict(summary)
        facts["segments"] = facts["segments"][-_JSON_SEGMENTS_MAX:]
        logs.append({"partition": log.of.partition, "directory": log.directory, "keys": summary.keys, **facts})
    return {
        "topic": topic,
        "goals": goals,
        "is_reached": advice.advised is not None,
        "today": _candidate_json(advice.today),
        "nearest": _candidate_json(advice.nearest),
        "notes": sentences,
        "logs": logs,
    }


def _candidate_json(candidate: Any) -> dict[str, Any]:
    return {"changes": dict(candidate.changes), "costs": asdict(candidate.costs), "misses": list(candidate.misses)}


def add_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--data", metavar="DIR", required=True, help="data directories of the broker; separate several by commas"
    )
    parser.add_argument(
        "--erase-within",
        type=duration_ms,
        metavar="TIME",
        help="longest time that a superseded value can be read, e.g. 24h",
    )
    parser.add_argument("--disk-below", type=size_bytes, metavar="SIZE", help="largest size of the logs, e.g. 50GB")
    parser.add_argument(
        "--bootstrap-below", type=size_bytes, metavar="SIZE", help="mean size that a new reader has to read, e.g. 10GB"
    )
    parser.add_argument(
        "--cleaner-below",
        type=size_bytes,
        metavar="SIZE",
        help="bytes a second that the cleaner reads and writes, e.g. 5MB",
    )
    json_option(parser)


COMMAND = Command(
    "advise", "show what compaction costs a topic, and the settings that reach a goal", run, add_options, NOTES
)
