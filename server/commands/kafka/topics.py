"""`ottla topics`: list, describe, create and delete topics of a running broker over the wire, and show their status."""

from __future__ import annotations

import argparse
import base64
from typing import Any

from ....storage.topics.versions import VersionSource
from ...client.kafka import Kafka
from ...client.key_offsets import KeyOffsets
from ...client.newest import note, versions_in
from ...client.reading import EARLIEST, LATEST
from ..frame.options import bootstrap_option, json_option, name_and_value, number
from ..frame.parser import Command, Parser
from ..frame.printing import show, show_json, show_table
from ..frame.terminal import watch_option, watched
from .asking import connected
from .directories import count_texts, directory_text, places_of

DESCRIBE_HEADER = (
    "PARTITION",
    "LEADER",
    "REPLICAS",
    "LOG START",
    "LOG END",
    "RECORDS",
    "LIVE KEYS",
    "DIRECTORY",
)
DESCRIBE_NOTES = """\
columns:
  RECORDS      records in the log, without transaction markers; A-B if Ottla only knows that it is from A to B
  LIVE KEYS    keys whose newest record has a value; --json also has the number of tombstones

Apache Kafka does not know these numbers. --scan reads the topic up to the last stable offset, and counts exactly what
consumers with read_committed get. It needs about 40 bytes of memory for each key of a partition, besides the key itself.
"""

STATUS_NOTES = """\
columns:
  PARTITION    topic and partition
  FIRST DIRTY  the first offset that no clean pass has covered
  BOUND        the offset at which a pass would end now: the base of the active segment, of a segment too young for
               min.compaction.lag.ms, or of a segment with an open transaction
  LOG END      the next offset to be written
  DIRTY        fraction of the bytes in closed segments that has not been cleaned
  ABOVE        fraction above which a pass starts (min.cleanable.dirty.ratio)
  PASSES       passes since the broker started
  REMOVED      records that the last pass removed
  ELIGIBLE     now, the time (UTC) from which it is eligible without further changes, or no

The reasons follow below the table, each with a suggested command; `ottla explain TOPIC` shows all commands. Then come the data
directories of the partitions, and the directories to which they are moving.

Without TOPIC, shows all topics with cleanup.policy compact. --json adds sizes in bytes, times in milliseconds since 1970, numbers
of records, and all counts of the last pass.
"""


def _list(options: argparse.Namespace) -> None:
    with connected(options) as cluster:
        topics = cluster.kafka.topics(internal=options.all)
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replicas": len(topic.partitions[0].replicas) if topic.partitions else 0,
            "id": _id_text(topic.topic_id),
        }
        for topic in topics
    ]
    if options.json:
        show_json(rows)
    else:
        show_table(("TOPIC", "PARTITIONS", "REPLICAS", "ID"), [list(row.values()) for row in rows])


def count(kafka: Kafka, topic: str, partition: int, versions: VersionSource | None = None) -> dict[str, int]:
    """Read a partition up to its last stable offset, and count what read_committed consumers get.

    Needs memory as `KeyOffsets`. Errors as of `Kafka.scan`.
    """
    newest = KeyOffsets(versions)
    records = tombstones = 0
    for record in kafka.scan(topic, partition, isolation="read_committed"):
        records += 1
        tombstones += record.value is None
        note(newest, record, record.timestamp_ms)
    numbers = {"records": records, "live_keys": len(newest), "tombstones": tombstones}
    return {f"{name}_{bound}": number for name, number in numbers.items() for bound in ("min", "max")}


def _describe(options: argparse.Namespace) -> None:
    with connected(options) as cluster:
        topic = cluster.kafka.topic(options.topic)
        starts, ends = cluster.offsets_at(options.topic, EARLIEST), cluster.offsets_at(options.topic, LATEST)
        found = cluster.kafka.configs("topic", topic.name)
        configs = {each.name: each.value for each in found if not each.is_default}
        places = places_of(cluster.nodes, topic)
        if options.scan:
            for index, place in places.items():
                places[index] = place._replace(counts=count(cluster.kafka, topic.name, index, versions_in(found)))
    partitions: list[dict[str, Any]] = [
        {
            "partition": partition.index,
            "leader": partition.leader,
            "replicas": list(partition.replicas),
            "log_start_offset": starts.get(partition.index),
            "log_end_offset": ends.get(partition.index),
            **places[partition.index]._asdict(),
        }
        for partition in topic.partitions
    ]
    if options.json:
        show_json(
            {"topic": topic.name, "id": _id_text(topic.topic_id), "config": configs, "partitions": partitions},
        )
        return
    show(f"{topic.name}  id {_id_text(topic.topic_id)}")
    show(f"  {name}={value}" for name, value in configs.items())
    rows = [
        [*list(row.values())[:-3], *count_texts(row["counts"]), directory_text(row["data_dir"], row["moving_to"])]
        for row in partitions
    ]
    show_table(DESCRIBE_HEADER, rows)


def _id_text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _create(options: argparse.Namespace) -> None:
    with connected(options) as cluster:
        cluster.kafka.create_topic(
            options.topic, options.partitions, dict(options.config), replicas=options.replication_factor
        )
        topic = cluster.kafka.topic(options.topic)
    if options.json:
        show_json({"topic": topic.name, "partitions": len(topic.partitions), "id": _id_text(topic.topic_id)})
    else:
        show(f"created {topic.name} with {len(topic.partitions)} partition(s)")


def _delete(options: argparse.Namespace) -> None:
    with connected(options) as cluster:
        there = [cluster.kafka.topic(name).name for name in options.topics]  # all of them exist, or none is deleted
        for name in dict.fromkeys(there):
            cluster.kafka.delete_topic(name)
            if not options.json:
                show(f"deleted {name}")
    if options.json:
        show_json({"deleted": there})


def _status(options: argparse.Namespace) -> None:
    from .topics_status import show_status

    def once() -> None:
        with connected(options) as cluster:
            show_status(cluster.nodes, options)

    watched(options, once)


def _list_options(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="include internal topics")
    _common(parser)


def _describe_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--scan", action="store_true", help="read all records to count them, on any Kafka")
    _common(parser)


def _create_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--partitions", type=number(1), metavar="N", help="number of partitions (default: num.partitions)"
    )
    parser.add_argument(
        "--replication-factor",
        type=number(1),
        metavar="N",
        help="number of replicas (default: default.replication.factor)",
    )
    parser.add_argument(
        "--config",
        type=name_and_value,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="topic option to set; repeatable",
    )
    _common(parser)


def _delete_options(parser: Parser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="+")
    _common(parser)


def _status_options(parser: Parser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="topic to show (default: all compacted topics)")
    parser.add_argument("--all", "--internal", action="store_true", help="include internal topics")
    watch_option(parser)
    _common(parser)


def _common(parser: Parser) -> None:
    bootstrap_option(parser)
    json_option(parser)


ACTIONS = (
    Command("list", "list topics with partitions and replicas", _list, _list_options),
    Command(
        "describe",
        "show the partitions of a topic with leader and offsets, and the options set",
        _describe,
        _describe_options,
        DESCRIBE_NOTES,
    ),
    Command("create", "create a topic", _create, _create_options),
    Command("delete", "delete topics", _delete, _delete_options),
    Command(
        "status",
        "show what the cleaner has done to each partition, and what it is waiting for",
        _status,
        _status_options,
        STATUS_NOTES,
    ),
)
