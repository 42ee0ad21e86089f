"""`ottla advise`: what compaction costs a topic of any Kafka, and the settings that reach a goal."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .frame.errors import DONE, SAID_NO, CommandError, wrong_call
from .frame.options import bootstrap_of, bootstrap_option, duration_ms, json_option
from .frame.parser import Command, Parser
from .frame.printing import folded, show, show_json, show_table, terminal_width, visible, write_report
from .frame.terminal import Progress

if TYPE_CHECKING:
    from ...storage.advice.advising import Advice, Candidate, Costs
    from ...storage.advice.directories import FoundLog
    from ...storage.advice.simulating import CleanerSettings
    from ...storage.advice.summary import Summary
    from ...storage.advice.topic_advice import Measured, TopicAdvice
    from ...storage.disk.paths import TopicPartition
    from ...storage.topics.config import LogConfig

NOTES = """\
Measures the logs of the topic, and simulates the cleaner over the next 30 days, with the writes of the measured time again and
again. Writes nothing.

  --bootstrap  reads the topic of any Kafka broker; the options of the topic and of the cleaner are those of the brokers
  --data       reads the files of Ottla or Apache Kafka, in which a broker may run; options that only the configuration of the
               broker has are unknown, so they have their defaults

Without a goal, the costs of today's settings are shown. With goals, the settings that reach all of them with the least work of
the cleaner are shown next to today's. Sizes are those of one replica. Of a topic with many partitions, 32 are measured.

The age of an old value is the time from a newer write of its key to its removal. A segment ends by a write: in a topic without
writes, old values stay.

Exit code 0: the goals are reached, or none was given. 1: otherwise.

examples:
  ottla advise customers
  ottla advise customers --erase-within 24h --bootstrap kafka.example.org:9092
  ottla advise customers --data /var/lib/kafka/data --disk-below 50GB --cleaner-below 5MB
"""

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(rf"([0-9]{{1,15}}(?:\.[0-9]{{1,6}})?)({'|'.join(_UNITS)})", re.IGNORECASE)
_ATTEMPTS = 3
"""Number of times that a log is measured, if a broker replaces its segments each time."""
_NEEDED = "not authorized for topic {}: advice needs READ, DESCRIBE and DESCRIBE_CONFIGS on the topic"
_JSON_SEGMENTS_MAX = 1_000


def size_bytes(text: str) -> int:
    """Parse `50GB`, `1.5TB`, `500B`; a thousand bytes are a KB."""
    match = _SIZE.fullmatch(text.removesuffix("/s"))
    if match is None:
        raise argparse.ArgumentTypeError(
            f"expected a number followed by one of {', '.join(_UNITS)}, e.g. 50GB, found {text!r}"
        )
    return round(float(match[1]) * _UNITS[match[2].upper()])


class Source(NamedTuple):
    """A log that can be measured."""

    of: TopicPartition
    weight: int
    """Its size in bytes or offsets."""
    measure: Callable[[Callable[[str], None]], Summary]
    """Called with a function that says the progress."""


class Found(NamedTuple):
    """The logs of a topic."""

    sources: list[Source]
    config: LogConfig
    cleaner: CleanerSettings
    notes: list[str]
    """Sentences on what is assumed."""


def run(options: argparse.Namespace) -> int:
    """Measure, simulate, and print the result."""
    from ...storage.advice.advising import Goals
    from ...storage.advice.topic_advice import NothingToSimulateError, topic_advice

    if options.report:
        write_report(options.report, "")  # before the measurement, which may take long
    if options.data is None:
        from .kafka.asking import connected, naming_rights

        with connected(options) as cluster, naming_rights(_NEEDED.format(options.topic)):
            found = _served(options, cluster)
            measured = _measure(options.topic, found)
    elif options.bootstrap is not None:
        raise wrong_call("--data and --bootstrap cannot be combined")
    else:
        found = _stored(options)
        measured = _measure(options.topic, found)
    goals = Goals(options.erase_within, options.disk_below, options.bootstrap_below, options.cleaner_below)
    try:
        with Progress() as progress:
            found_advice = topic_advice(measured, goals, lambda number: progress.say(f"simulating settings {number} …"))
    except NothingToSimulateError as error:
        raise CommandError(str(error)) from error
    if options.report:
        _write_page(options.report, measured, found_advice)
    if options.json:
        show_json(_json(measured, found_advice, goals._asdict()))
    else:
        _show(measured, found_advice, has_goal=any(goal is not None for goal in goals))
    return DONE if found_advice.advice.advised is not None else SAID_NO


def _measure(topic: str, found: Found) -> Measured:
    """Measure the logs, or some of very many."""
    from ...storage.advice.topic_advice import chosen_logs, measured_topic

    if not found.config.is_compact:
        policy = ",".join(found.config.cleanup_policy)
        raise CommandError(f"topic {topic} is not compacted: cleanup.policy is {policy}, so the cleaner never reads it")
    weights = [source.weight for source in found.sources]
    with Progress() as progress:
        logs = [
            (source.of, source.measure(progress.say)) for source in (found.sources[at] for at in chosen_logs(weights))
        ]
    return measured_topic(topic, logs, weights, found.config, found.cleaner, found.notes)


def _served(options: argparse.Namespace, cluster: Any) -> Found:
    """Look up the topic at its brokers."""
    from .kafka.measure import look_up, measure

    topic = look_up(cluster, options.topic)

    def measured(log: Any, say: Callable[[str], None]) -> Summary:
        from ...storage.segment.batch_scan import UNREADABLE

        try:
            return measure(cluster.nodes, log, topic.config, say)
        except UNREADABLE as error:
            raise CommandError(f"{log.of} of {bootstrap_of(options)} cannot be read: {error.message}") from error

    sources = [Source(log.of, log.end - log.start, partial(measured, log)) for log in topic.logs]
    return Found(sources, topic.config, topic.cleaner, topic.notes)


def _stored(options: argparse.Namespace) -> Found:
    """Look up the topic in data directories."""
    from ...storage.advice.directories import find_topic
    from ...storage.advice.simulating import CleanerSettings
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
    sources = [Source(log.of, log.size_bytes, partial(_measure_files, log, config)) for log in found.logs]
    assumed = "The directories have no options of the topic: Kafka's defaults with cleanup.policy=compact are assumed."
    return Found(sources, config, CleanerSettings(), [assumed] if found.config is None else [])


def _measure_files(log: FoundLog, config: LogConfig, say: Callable[[str], None]) -> Summary:
    from ...storage.advice.measuring import LogMeasuring
    from ...storage.disk.os_files import ReadOnlyFiles
    from ...storage.segment.batch_scan import UNREADABLE
    from ...storage.steps import to_the_end

    say(f"reading {log.of} …")
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
        except FileNotFoundError as error:
            if not os.path.isdir(log.directory):
                raise CommandError(f"{log.directory} was deleted or moved; run the command again") from error
        except UNREADABLE as error:
            raise CommandError(f"{log.directory} cannot be read: {error.message}") from error
        except OSError as error:
            raise CommandError(f"{log.directory} cannot be read: {error.strerror or error}") from error
    raise CommandError(
        f"{log.directory}: a broker has replaced segments during each of {_ATTEMPTS} measurements; run the command again"
    )


def _rows() -> tuple[tuple[str, str, Callable[[Any], str | None]], ...]:
    from ...storage.advice.notes import size_text, time_text

    return (
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


def _columns(advice: Advice) -> list[tuple[str, Costs]]:
    columns = [("TODAY", advice.today.costs)]
    if advice.nearest is not advice.today:
        columns.append(("ADVISED" if advice.advised else "NEAREST", advice.nearest.costs))
    return columns


def _header(measured: Measured) -> str:
    from ...storage.advice.notes import size_text

    return (
        f"{measured.topic}: {measured.partitions} partitions, {size_text(measured.total('size_bytes'))},"
        f" {measured.total('records'):.0f} records, {measured.total('keys'):.0f} keys,"
        f" {measured.total('live_keys'):.0f} with a value"
    )


def _commands(measured: Measured, found: TopicAdvice) -> list[str]:
    settings = found.settings
    if not settings:
        return []
    kafkas = f"kafka-configs.sh --alter --entity-type topics --entity-name {measured.topic} --add-config"
    return [f"ottla configs alter topic:{measured.topic} {' '.join(settings)}", f"{kafkas} {','.join(settings)}"]


def _write_page(path: str, measured: Measured, found: TopicAdvice) -> None:
    from ...storage.advice.advice_page import page

    columns = _columns(found.advice)
    rows = [(str(label), [str(each or "-") for each in cells]) for label, *cells in _table(columns)]
    text = page(measured.topic, _header(measured), found.notes, columns, rows, found.misses, _commands(measured, found))
    write_report(path, text)


def _show(measured: Measured, found: TopicAdvice, *, has_goal: bool) -> None:
    show(visible(_header(measured)))
    for sentence in found.notes:
        show(folded(visible(sentence), terminal_width(), ""))
    columns = _columns(found.advice)
    show_table(["COSTS", *(name for name, _ in columns)], _table(columns))
    if not has_goal:
        return
    for sentence in found.misses:
        show(folded(f"Not reached: {sentence}.", terminal_width(), ""))
    if found.advice.advised is None:
        show("No settings that were tried reach all goals; the nearest are shown.")
    elif not found.advice.nearest.changes:
        show("Today's settings reach the goals with the least work of the cleaner.")
    for line in _commands(measured, found):
        show(line)


def _table(columns: list[tuple[str, Costs]]) -> list[list[object]]:
    return [_row(label, name, form, columns) for label, name, form in _rows()]


def _row(label: str, name: str, form: Any, columns: list[tuple[str, Costs]]) -> list[object]:
    values = [getattr(costs, name) for _, costs in columns]
    return [label, *(None if value is None else form(value) for value in values)]


def _json(measured: Measured, found: TopicAdvice, goals: dict[str, int | None]) -> dict[str, Any]:
    logs = []
    for of, summary in measured.logs:
        facts = asdict(summary)
        facts["segments"] = facts["segments"][-_JSON_SEGMENTS_MAX:]
        logs.append({"partition": of.partition, "keys": summary.keys, **facts})
    return {
        "topic": measured.topic,
        "partitions": measured.partitions,
        "cleaner": asdict(measured.cleaner),
        "goals": goals,
        "is_reached": found.advice.advised is not None,
        "today": _candidate_json(found.advice.today),
        "nearest": _candidate_json(found.advice.nearest),
        "misses": found.misses,
        "notes": found.notes,
        "logs": logs,
    }


def _candidate_json(candidate: Candidate) -> dict[str, Any]:
    return {"changes": dict(candidate.changes), "costs": asdict(candidate.costs)}


def add_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    bootstrap_option(parser)
    parser.add_argument(
        "--data", metavar="DIR", help="data directories to read instead of a broker; separate several by commas"
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
    parser.add_argument("--report", metavar="FILE", help="write the result as an HTML page with curves of the size")
    json_option(parser)


COMMAND = Command(
    "advise", "show what compaction costs a topic, and the settings that reach a goal", run, add_options, NOTES
)
