"""`ottla erase`: erase keys from a compacted topic of any Kafka, and report all that is left of them."""

from __future__ import annotations

import argparse
import base64
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import accumulate, repeat
from operator import mul
from typing import TYPE_CHECKING

from ...storage.erasure.key_lines import ENCODINGS
from ...storage.erasure.places import KeyReport, Place, Verdict, Why, key_bytes
from ...storage.topics.versions import BY_OFFSET, STRATEGY
from ..client.values import NewRecord, Topic, partition_of
from .admin.asking import Admin
from .frame.errors import DONE, SAID_NO, WRONG_CALL, CommandError, wrong_call
from .frame.options import ADMIN, admin_options, bootstrap_of, bootstrap_option, duration_ms, json_option
from .frame.parser import Command, Parser
from .frame.printing import folded, show, show_json, terminal_width, visible, write_report
from .frame.terminal import Progress
from .frame.times import time_text
from .kafka.asking import ClusterViews, connected, naming_rights
from .kafka.given_keys import given_keys
from .kafka.read_keys import read_keys

if TYPE_CHECKING:
    from ...storage.topics.config import LogConfig

NOTES = """\
Writes a tombstone for each key that the topic has, in each partition that has it. Offsets and all other keys stay. Then:

  on Ottla          the broker rolls the segments and runs a clean pass, which also removes the tombstones of these keys at
                    once, without regard to delete.retention.ms. The command waits until the replaced files are removed
                    (file.delete.delay.ms), and the broker searches all its data directories.
  on another Kafka  the brokers clean when they choose to. The command reads the topic, or searches the data directory that
                    --data names. Run it again with --prove until nothing is left.

--prove writes nothing, and only reports. Without a broker it needs --data. A place in the report is a file that still has a
record of a key, with the reason, and with the time at which the record goes.

Exit code 0: no value of the keys was found, and everything could be searched. 1: otherwise, or an error of the broker.

examples:
  ottla erase customers 17
  ottla erase customers --keys-from keys.txt --report proof.html
  ottla erase customers 17 --prove --data /var/lib/ottla,/backup/monday
  ottla erase customers 00ff --key-encoding hex --bootstrap kafka.example.org:9092
"""

TOMBSTONES_AT_ONCE = 1_000
ATTEMPTS = 3
"""Number of passes: another one is needed if a key was written again, or the cleaner has covered the tombstones by itself."""
WAIT_MS = 120_000
SEARCHED_AGAIN_S = 0.1
"""Pause of a search after files have changed under it, in seconds."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
"""Pauses between two readings of a topic."""
TICK_S = 1.0
"""Interval at which a broker of Ottla removes files that are due."""
_POLICY = "cleanup.policy"
_NEEDED = "not authorized for topic {}: erasing needs READ, WRITE and DESCRIBE_CONFIGS on the topic, --prove only READ"
_BY_THEMSELVES = frozenset({Why.DELETED_FILE, Why.DELETED_PARTITION, Why.CLEANED_FILE, Why.SWAP_FILE})
"""Reasons that end without another action."""
_IN_NO_LOG = _BY_THEMSELVES | {Why.FUTURE_PARTITION, Why.STRAY_PARTITION, Why.NEXT_CONTENT, Why.STAGED, Why.SNAPSHOT}

Prove = Callable[[], KeyReport]
Wanted = dict[int, set[bytes]]
"""Keys by partition."""


def run(options: argparse.Namespace) -> int:
    """Erase the keys, or only search for them; print the report."""
    keys = given_keys(options)
    if options.prove and options.timeout is not None:
        raise wrong_call("--prove and --timeout cannot be combined: --prove does not wait")
    if options.report:
        write_report(options.report, "")  # before the erasure
    erasure = _Erasure(options, keys)
    if options.prove and options.data:
        report = erasure.search_here(None, _now_ms())
    else:
        try:
            with connected(options) as cluster, naming_rights(_NEEDED.format(options.topic)):
                report = erasure.run(cluster)
        except CommandError as error:
            if not erasure.tombstones:
                raise
            raise CommandError(
                f"{error}; tombstones written: {erasure.tombstones}; run the command again to continue",
                error.exit_code,
            ) from error
    if options.report:
        from ...storage.erasure.report_page import page

        write_report(options.report, page(report))
    if options.json:
        show_json(
            {
                "tombstones_written": erasure.tombstones,
                "values_before": erasure.values_before,
                "report": report.to_json(),
            }
        )
    else:
        _show(report, erasure)
    return DONE if report.verdict in (Verdict.GONE, Verdict.TOMBSTONES) else SAID_NO


class _Erasure:
    """One call of the command."""

    def __init__(self, options: argparse.Namespace, keys: frozenset[bytes]) -> None:
        self.tombstones = 0
        """Number of tombstones that were written."""
        self.values_before: int | None = None
        """Number of values before the erasure; None if there is none."""
        self.note = ""
        """Sentence for people on what to do next."""
        self._options = options
        self._keys = keys

    def run(self, cluster: ClusterViews) -> KeyReport:
        """Erase the keys, unless only a proof is wanted; return the last report."""
        options = self._options
        topic = cluster.kafka.topic(options.topic)
        admin, why_none = _admin(options, cluster)
        self.note = "" if options.data else why_none
        with Progress() as progress:
            prove = partial(self._prove, cluster, topic, admin, progress)
            if options.prove:
                return prove()
            _check(cluster, topic)
            report = prove()
            self.values_before = report.values_found
            wanted = _wanted(report, len(topic.partitions))
            for _ in range(ATTEMPTS):
                if not wanted:
                    break
                self._write(cluster, topic, wanted, progress)
                if admin is not None:
                    progress.say(f"cleaning {topic.name} …")
                    admin.call(
                        "POST /v1/topics/{topic}/erase-keys",
                        topic=topic.name,
                        partitions=sorted(wanted),
                        **_fields(self._keys),
                    )
                report = prove()
                wanted = _again(report, is_cleaned=admin is not None)
            return self._waited(report, prove, progress, admin)

    def _prove(self, cluster: ClusterViews, topic: Topic, admin: Admin | None, progress: Progress) -> KeyReport:
        progress.say(f"searching {topic.name} …")
        if self._options.data:
            from ...storage.topics.config import LogConfig

            now_ms = _now_ms() if admin is None else int(admin.call("GET /v1/clock")["now_ms"])
            found = {each.name: each.value for each in cluster.kafka.configs("topic", topic.name)}
            config, _ = LogConfig.from_stored({name: text for name, text in found.items() if text is not None})
            ends = cluster.kafka.offsets(topic.name)
            return self.search_here(config, now_ms, [partition for partition, each in ends.items() if each.end])
        if admin is not None:
            answer = admin.call("POST /v1/topics/{topic}/find-keys", topic=topic.name, **_fields(self._keys))
            try:
                return KeyReport.from_json(answer)
            except (ValueError, KeyError, TypeError) as error:
                raise CommandError(f"{admin.address}: unknown form of report: {error!r}") from error
        return read_keys(cluster, topic, self._keys, _now_ms(), bootstrap_of(self._options), progress.say)

    def search_here(self, config: LogConfig | None, now_ms: int, partitions: list[int] | None = None) -> KeyReport:
        """Search the directories of --data in this process; the arguments are those of `Search`."""
        from ...storage.disk.os_files import ReadOnlyFiles
        from ...storage.erasure.search import Search
        from ...storage.steps import to_the_end

        pause = partial(threading.Event().wait, SEARCHED_AGAIN_S)
        sources = [os.path.realpath(each.strip()) for each in self._options.data.split(",")]
        search = Search(
            ReadOnlyFiles(),
            sources,
            self._options.topic,
            self._keys,
            now_ms,
            config=config,
            partitions=partitions,
            pause=pause,
        )
        return to_the_end(search.steps())

    def _write(self, cluster: ClusterViews, topic: Topic, wanted: Wanted, progress: Progress) -> None:
        records = [
            NewRecord(None, key, partition=partition)
            for partition, keys in sorted(wanted.items())
            for key in sorted(keys)
        ]
        for begin in range(0, len(records), TOMBSTONES_AT_ONCE):
            progress.say(f"tombstones written: {self.tombstones}")
            self.tombstones += len(cluster.kafka.produce_all(topic.name, records[begin : begin + TOMBSTONES_AT_ONCE]))

    def _waited(self, report: KeyReport, prove: Prove, progress: Progress, admin: Admin | None) -> KeyReport:
        """Return the report once no value is left, or waiting is of no use, or the time is over."""
        timeout_ms = self._options.timeout
        if timeout_ms is None:
            timeout_ms = 0 if admin is None else WAIT_MS
        until_s, waiting = time.monotonic() + timeout_ms / 1_000, threading.Event()
        pauses_s = repeat(TICK_S) if admin is not None else accumulate(repeat(2.0), mul, initial=FIRST_PAUSE_S)
        is_first = True
        while report.verdict is Verdict.HELD and (left_s := until_s - time.monotonic()) > 0:
            pause_s = min(next(pauses_s), LONGEST_PAUSE_S)
            if admin is not None:
                held = [each for each in report.places if each.values]
                if any(each.why not in _BY_THEMSELVES for each in held):
                    break
                if admin.call("GET /v1/clock")["is_frozen"]:
                    self.note = (
                        "The broker's clock is frozen: run `ottla clock advance 1m`, and this command with --prove."
                    )
                    break
                if is_first:
                    due_ms = max((each.at_the_latest_ms or 0 for each in held), default=0)
                    pause_s += max(0.0, (due_ms - report.now_ms) / 1_000)
            is_first = False
            progress.say(f"waiting until {report.values_found} values are removed …")
            waiting.wait(min(pause_s, left_s))
            report = prove()
        return report


def _wanted(report: KeyReport, partitions: int) -> Wanted:
    """Return the keys that need a tombstone: those that a log has, in each of its partitions."""
    wanted: Wanted = {}
    for each in report.places:
        if each.why not in _IN_NO_LOG:
            wanted.setdefault(each.partition, set()).add(_key(each))
    if not report.are_all_listed:
        for total in report.keys:
            if total.values or total.tombstones:
                key = key_bytes(total.key, total.key_encoding)
                wanted.setdefault(partition_of(key, partitions), set()).add(key)
    return wanted


def _again(report: KeyReport, *, is_cleaned: bool) -> Wanted:
    """Return the keys that need another tombstone, since they were written again, or their tombstones are clean already."""
    reasons = {Why.LIVE}
    if is_cleaned:
        reasons |= {Why.TOMBSTONE_RETENTION, Why.SUPERSEDED_IN_CLEAN_PART}
    wanted: Wanted = {}
    for each in report.places:
        if each.why in reasons:
            wanted.setdefault(each.partition, set()).add(_key(each))
    return wanted


def _key(place: Place) -> bytes:
    return key_bytes(place.key, place.key_encoding)


def _fields(keys: Collection[bytes]) -> Mapping[str, object]:
    return {"keys": [base64.b64encode(key).decode() for key in sorted(keys)], "encoding": "base64"}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _admin(options: argparse.Namespace, cluster: ClusterViews) -> tuple[Admin | None, str]:
    """Return the admin listener of the broker, or None and why it is not used.

    A listener at the default address may be that of another broker: then it does not count.

    Raises:
        CommandError: The listener was named, and does not answer, or is that of another cluster.
    """
    admin, is_named = Admin(options), bool(options.admin or os.environ.get(ADMIN))
    try:
        found = admin.call("GET /v1/broker")["cluster_id"]
        if found != (wanted := cluster.nodes.metadata([]).cluster_id):
            raise wrong_call(
                f"{admin.address} is the admin listener of cluster {found}, but {bootstrap_of(options)} belongs to cluster"
                f" {wanted}"
            )
    except CommandError as error:
        if is_named:
            raise
        why = f"{error}" if error.exit_code != WRONG_CALL else f"no admin listener of this cluster at {admin.address}"
        return None, f"Only the topic was read: {why}. To search files, use --data DIR."
    return admin, ""


def _check(cluster: ClusterViews, topic: Topic) -> None:
    """Refuse a topic in which tombstones remove nothing, or not all."""
    if topic.is_internal:
        raise CommandError(f"topic {topic.name} is internal: its keys are those of the brokers")
    configs = {each.name: each.value or "" for each in cluster.kafka.configs("topic", topic.name)}
    policy = configs.get(_POLICY, "")
    if "compact" not in policy.split(","):
        raise CommandError(
            f"topic {topic.name} is not compacted: {_POLICY} is {policy}, so tombstones remove nothing; --prove shows where the"
            " keys are, and when retention deletes them"
        )
    if (strategy := configs.get(STRATEGY, BY_OFFSET)) != BY_OFFSET:
        raise CommandError(
            f"topic {topic.name} has {STRATEGY}={strategy}: a tombstone removes only values with lower versions; write one with"
            f" the highest version of its key, then run `ottla compact {topic.name} --force`; --prove shows what is left"
        )


# Output


def _show(report: KeyReport, erasure: _Erasure) -> None:
    from ...storage.erasure.report_page import VERDICTS

    show(f"{report.topic}: {VERDICTS[report.verdict]}")
    before = "" if erasure.values_before is None else f" Values before: {erasure.values_before}."
    show(
        f"Values found: {report.values_found}. Tombstones found: {report.tombstones_found}. Tombstones written:"
        f" {erasure.tombstones}.{before}"
    )
    show(
        f"Records searched: {report.records_searched}, in {report.files_searched} file{'s'[: report.files_searched != 1]} of"
        f" {', '.join(report.sources)}."
    )
    for each in report.places:  # paths are complete, so a table would be too wide
        show(visible(each.path))
        show(folded(visible(_found(each)), terminal_width(), "  "))
    for why, explanation in dict.fromkeys((each.why.value, each.explanation) for each in report.places):
        show(folded(visible(f"{why}: {explanation}"), terminal_width(), ""))
    for unread in report.unread:
        show(folded(visible(f"not searched: {unread.path}: {unread.problem}"), terminal_width(), ""))
    if not report.are_all_listed:
        show("The list is not complete.")
    if erasure.note:
        show(folded(visible(erasure.note), terminal_width(), ""))


def _found(place: Place) -> str:
    """Return one line about a place; the path is not in it."""
    key = place.key if place.key_encoding == "text" else f"{place.key} (base64)"
    offsets = "-".join(map(str, sorted({place.first_offset, place.last_offset})))
    gone = "" if place.at_the_latest_ms is None else f", gone by {time_text(place.at_the_latest_ms)}"
    return (
        f"{place.why.value}: key {key}, values {place.values}, tombstones {place.tombstones}, offsets {offsets}{gone}"
    )


def add_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("keys", metavar="KEY", nargs="*", help="key to erase; repeatable")
    parser.add_argument("--keys-from", metavar="FILE", help="file with a key in each line, - for standard input")
    parser.add_argument(
        "--key-encoding", choices=ENCODINGS, default="text", help="encoding of the keys (default: text)"
    )
    parser.add_argument("--prove", action="store_true", help="write nothing; only report where the keys still are")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="search these data directories and snapshots in this process; separate several by commas",
    )
    parser.add_argument("--report", metavar="FILE", help="write the report as an HTML page")
    parser.add_argument(
        "--timeout",
        type=duration_ms,
        metavar="TIME",
        help="time to wait until no value is left (default: 2m on Ottla, 0 on another Kafka)",
    )
    bootstrap_option(parser)
    admin_options(parser)
    json_option(parser)


COMMAND = Command("erase", "erase keys from a compacted topic, and prove it", run, add_options, NOTES)
