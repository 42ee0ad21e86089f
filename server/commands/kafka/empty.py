"""`ottla empty`: delete all records of a topic of any Kafka, whether it is compacted or not."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import islice

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ....storage.topics.versions import STRATEGY
from ...client.key_offsets import KeyOffsets
from ...client.newest import note, versions_in
from ...client.nodes import check
from ...client.reading import LATEST
from ...client.values import NewRecord, Topic
from ..frame.errors import CommandError
from ..frame.options import bootstrap_option, json_option
from ..frame.parser import Command, Parser
from ..frame.printing import show_json, show_table
from .asking import TIMEOUT_MS, ClusterViews, connected, naming_rights, readable_configs

NOTES = """\
Deletes the records that the topic has when the command starts. Offsets continue, and records that arrive later stay. Consumers that
were behind get OFFSET_OUT_OF_RANGE, and continue where their auto.offset.reset says.

Kafka refuses this for a topic with cleanup.policy=compact. Then the command adds delete to the policy, with retention.ms=-1 and
retention.bytes=-1 so that nothing else is deleted, and restores the three options afterwards. It first prints the command that
restores them, in case that it is killed in between.

--tombstones needs no right to delete records or to alter options. It reads the topic and writes a tombstone for each live key. The
next clean pass deletes the older records, a pass delete.retention.ms later the tombstones. Records without a key stay. A key that
another producer writes at the same time may also be deleted. The command needs memory for all live keys of a partition. It refuses a
topic with ottla.compaction.strategy, where a tombstone may lose against a value.

examples:
  ottla empty orders
  ottla empty orders --tombstones
"""

POLICY = "cleanup.policy"
KEPT: Mapping[str, str] = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Options while the policy is put aside: retention deletes nothing."""
MAYBE_DONE = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR})
"""Errors after which the options may have changed all the same."""
KNOWN_AFTER_S = 10.0
"""Maximum time until all leaders know changed options, in seconds."""
ASK_EVERY_S = 0.05
TOMBSTONES_AT_ONCE = 1_000


def run(options: argparse.Namespace) -> None:
    """Empty the topic, and print what has become of each partition."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # options that were put aside are restored
    with connected(options) as cluster:
        topic = cluster.kafka.topic(options.topic)
        rows = _tombstones(cluster, topic) if options.tombstones else _delete(cluster, topic, options)
    if options.json:
        show_json({"topic": topic.name, "partitions": rows})
        return
    show_table([name.upper().replace("_", " ") for name in rows[0]], [list(row.values()) for row in rows])


def _delete(cluster: ClusterViews, topic: Topic, options: argparse.Namespace) -> list[dict[str, int]]:
    ends = cluster.offsets_at(topic.name, LATEST)
    if unled := [f"{topic.name}-{each.index}" for each in topic.partitions if each.index not in ends]:
        raise CommandError(f"{', '.join(unled)}: no leader, so nothing was deleted")
    try:
        starts = _delete_below(cluster, topic.name, ends)
    except KafkaError as error:
        if error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise CommandError(
                f"not authorized to delete records of topic {topic.name}: DELETE on the topic is needed; --tombstones"
                " needs READ and WRITE instead"
            ) from error
        if error.code != ErrorCode.POLICY_VIOLATION:
            raise
        with policy_aside(cluster, topic.name, options):
            starts = _delete_once_known(cluster, topic.name, ends)
    return [{"partition": partition, "log_start_offset": start} for partition, start in sorted(starts.items())]


def _delete_below(cluster: ClusterViews, topic: str, ends: Mapping[int, int]) -> dict[int, int]:
    """Move the log starts to these offsets, and return the log starts."""

    def attempt() -> dict[int, int]:
        led: dict[int, list[DeleteRecordsPartition]] = {}
        for partition in cluster.nodes.topic(topic).partitions:
            if partition.index in ends:
                wanted = DeleteRecordsPartition(partition_index=partition.index, offset=ends[partition.index])
                led.setdefault(partition.leader, []).append(wanted)
        found = {}
        for leader, partitions in led.items():
            request = DeleteRecordsRequest(
                topics=(DeleteRecordsTopic(name=topic, partitions=tuple(partitions)),), timeout_ms=TIMEOUT_MS
            )
            for row in cluster.nodes.ask(request, leader).topics[0].partitions:
                check(row.error_code, f"topic {topic!r}, partition {row.partition_index}")
                found[row.partition_index] = row.low_watermark
        return found

    return cluster.nodes.retrying(attempt)


def _delete_once_known(cluster: ClusterViews, topic: str, ends: Mapping[int, int]) -> dict[int, int]:
    """Delete as soon as the leaders know the changed policy, which nodes of Apache Kafka learn a little later."""
    until_s, pause = time.monotonic() + KNOWN_AFTER_S, threading.Event()
    while True:
        try:
            return _delete_below(cluster, topic, ends)
        except KafkaError as error:
            if error.code != ErrorCode.POLICY_VIOLATION or time.monotonic() > until_s:
                raise
        pause.wait(ASK_EVERY_S)


@contextmanager
def policy_aside(cluster: ClusterViews, topic: str, options: argparse.Namespace) -> Iterator[None]:
    """Allow deletions in a compacted topic while the block runs."""
    with _allowed(topic):
        found = {each.name: each for each in cluster.kafka.configs("topic", topic)}
    policy = found[POLICY].value or ""
    if "delete" in policy:
        # Another run has put the policy aside, and restores it: its options must not be taken for those of the topic.
        yield
        return
    aside = {POLICY: f"{policy},delete".lstrip(","), **KEPT}
    before = {name: None if found[name].is_default else found[name].value for name in aside}
    how = _restoring(topic, before, options)
    print(f"ottla: {POLICY} of {topic} is put aside; if this is killed, run: {how}", file=sys.stderr, flush=True)
    is_refused = False
    try:
        try:
            with _allowed(topic):
                cluster.kafka.set_configs("topic", topic, aside)
        except KafkaError as error:
            is_refused = error.code not in MAYBE_DONE
            raise
        except CommandError:
            is_refused = True
            raise
        yield
    finally:  # after a broken connection also: the options may have changed
        if not is_refused:
            try:
                cluster.kafka.set_configs("topic", topic, before)
            except (KafkaError, OSError) as error:
                raise CommandError(f"options of topic {topic} were not restored: {error}; run: {how}") from error


def _allowed(topic: str) -> AbstractContextManager[None]:
    return naming_rights(
        f"not authorized to put cleanup.policy of topic {topic} aside: DESCRIBE_CONFIGS and ALTER_CONFIGS on the topic"
        " are needed; --tombstones needs READ and WRITE instead"
    )


def _restoring(topic: str, before: Mapping[str, str | None], options: argparse.Namespace) -> str:
    """Return the shell commands that restore the options on the same brokers."""
    same = {"--bootstrap": options.bootstrap, "--command-config": options.command_config}
    where = "".join(f" {name} {shlex.quote(value)}" for name, value in same.items() if value)
    values = " ".join(f"{name}={shlex.quote(value)}" for name, value in before.items() if value is not None)
    unset = " ".join(name for name, value in before.items() if value is None)
    commands = [f"ottla configs alter topic:{topic} {values}{where}"] * bool(values)
    return " && ".join([*commands, *[f"ottla configs delete topic:{topic} {unset}{where}"] * bool(unset)])


def _tombstones(cluster: ClusterViews, topic: Topic) -> list[dict[str, int]]:
    if versions_in(readable_configs(cluster, topic.name)) is not None:
        raise CommandError(
            f"topic {topic.name} has {STRATEGY}: a tombstone removes only values with lower versions; run `ottla empty"
            f" {topic.name}` without --tombstones"
        )
    rows = []
    for partition in topic.partitions:
        newest, keyless = KeyOffsets(), 0
        for record in cluster.kafka.scan(topic.name, partition.index, isolation="read_committed"):
            keyless += record.key is None
            note(newest, record, record.timestamp_ms)
        keys = iter(newest)
        while some := [*islice(keys, TOMBSTONES_AT_ONCE)]:
            wanted = [NewRecord(None, key, partition=partition.index) for key in some]
            cluster.kafka.produce_all(topic.name, wanted)
        rows.append({"partition": partition.index, "tombstones": len(newest), "records_without_key": keyless})
    return rows


def add_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--tombstones", action="store_true", help="write a tombstone for each live key instead")
    bootstrap_option(parser)
    json_option(parser)


COMMAND = Command("empty", "delete all records of a topic", run, add_options, NOTES)
