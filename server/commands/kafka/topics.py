"""`ottla topics`: list, describe, create and delete topics of a running broker, over the wire, and their status."""

from __future__ import annotations

import argparse
import base64

from ....protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ....protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ....protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ....protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ....protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from ...client.connection import Client
from ..frame.command import Command
from ..frame.errors import RefusedError
from ..frame.options import bootstrap_option, json_option, name_and_value, number
from ..frame.parser import Parser
from ..frame.printing import show, show_json, show_table
from .asking import TIMEOUT_MS, check, connected

TOPIC_RESOURCE = 2
TOPIC_SOURCE = 1
EARLIEST, LATEST = -2, -1


STATUS_NOTES = """\
columns:
  PARTITION    topic and partition
  FIRST DIRTY  the first offset that no clean pass has covered
  BOUND        the first offset that a pass must leave alone now: the base of the active segment, of one too young for
               min.compaction.lag.ms, or of one with an undecided transaction
  LOG END      the next offset to be written
  DIRTY        part of the closed segments' bytes that has not been cleaned
  ABOVE        the part above which a pass is worth it (min.cleanable.dirty.ratio)
  PASSES       passes over it since the broker started, and how many records they removed the last time
  ELIGIBLE     now, or at what time (UTC) if nothing but time passes, or no
  WAITING FOR  what is missing: a word, and the sentence

Without TOPIC, all topics with cleanup.policy compact. With --json everything that the broker knows: sizes in bytes, times
in ms since 1970, the whole of the last pass.
"""


def _list(options: argparse.Namespace) -> None:
    with connected(options) as client:
        topics = sorted(client.ask(MetadataRequest(topics=None)).topics, key=lambda topic: topic.name)
    if not options.all:
        topics = [topic for topic in topics if not topic.is_internal]
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replicas": len(topic.partitions[0].replica_nodes) if topic.partitions else 0,
            "id": _id_text(topic.topic_id),
        }
        for topic in topics
    ]
    if options.json:
        show_json(rows)
    else:
        show_table(("TOPIC", "PARTITIONS", "REPLICAS", "ID"), [list(row.values()) for row in rows])


def _describe(options: argparse.Namespace) -> None:
    with connected(options) as client:
        topic = _metadata(client, options.topic)
        starts, ends = _offsets(client, topic, EARLIEST), _offsets(client, topic, LATEST)
        overrides = _overrides(client, options.topic)
    partitions = [
        {
            "partition": partition.partition_index,
            "leader": partition.leader_id,
            "replicas": list(partition.replica_nodes),
            "log_start_offset": starts.get(partition.partition_index),
            "log_end_offset": ends.get(partition.partition_index),
        }
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    ]
    if options.json:
        described = {"topic": topic.name, "id": _id_text(topic.topic_id), "config": dict(overrides)}
        show_json(described | {"partitions": partitions})
        return
    show(f"{topic.name}  id {_id_text(topic.topic_id)}")
    show(f"  {name}={value}" for name, value in overrides)
    rows = [
        [
            row["partition"],
            row["leader"],
            ",".join(map(str, row["replicas"])),
            _or_unknown(row["log_start_offset"]),
            _or_unknown(row["log_end_offset"]),
        ]
        for row in partitions
    ]
    show_table(("PARTITION", "LEADER", "REPLICAS", "LOG START", "LOG END"), rows)


def _or_unknown(offset: int | None) -> str:
    """An offset that the leader did not tell is unknown."""
    return "?" if offset is None else str(offset)


def _id_text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _create(options: argparse.Namespace) -> None:
    wanted = CreatableTopic(
        name=options.topic,
        num_partitions=-1 if options.partitions is None else options.partitions,
        replication_factor=-1 if options.replication_factor is None else options.replication_factor,
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in options.config),
    )
    with connected(options) as client:
        (done,) = client.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=TIMEOUT_MS)).topics
    check(done.error_code, done.error_message)
    if options.json:
        show_json({"topic": options.topic, "partitions": done.num_partitions, "id": _id_text(done.topic_id)})
    else:
        show(f"created {options.topic} with {done.num_partitions} partition(s)")


def _delete(options: argparse.Namespace) -> None:
    with connected(options) as client:
        states = tuple(DeleteTopicState(name=name) for name in options.topics)
        answer = client.ask(DeleteTopicsRequest(topics=states, topic_names=(), timeout_ms=TIMEOUT_MS))
    refused = [row for row in answer.responses if row.error_code]
    deleted = [row.name for row in answer.responses if not row.error_code]
    if options.json:
        show_json({"deleted": deleted})
    else:
        show(f"deleted {name}" for name in deleted)
    for row in refused:
        check(row.error_code, f"{row.name}: {row.error_message}" if row.error_message else row.name)


def _status(options: argparse.Namespace) -> None:
    from .topics_status import NoStatusError, show_status

    with connected(options) as client:
        try:
            show_status(client, options)
        except NoStatusError as error:
            raise RefusedError(str(error)) from error


def _metadata(client: Client, name: str) -> MetadataResponseTopic:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    (topic,) = client.ask(request).topics
    check(topic.error_code, f"there is no topic {name}")
    return topic  # type: ignore[no-any-return]


def _offsets(client: Client, topic: MetadataResponseTopic, timestamp: int) -> dict[int, int]:
    """Offsets of the partitions that the node we talk to leads."""
    wanted = tuple(
        ListOffsetsPartition(partition_index=partition.partition_index, timestamp=timestamp)
        for partition in topic.partitions
    )
    request = ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsTopic(name=topic.name or "", partitions=wanted),), timeout_ms=TIMEOUT_MS
    )
    (answer,) = client.ask(request).topics
    return {found.partition_index: found.offset for found in answer.partitions if not found.error_code}


def _overrides(client: Client, name: str) -> list[tuple[str, str]]:
    resource = DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
    (found,) = client.ask(DescribeConfigsRequest(resources=(resource,))).results
    check(found.error_code, found.error_message)
    return [(entry.name, entry.value) for entry in found.configs if entry.config_source == TOPIC_SOURCE]


def _list_options(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="the broker's own topics, too")
    _common(parser)


def _topic_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    _common(parser)


def _create_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--partitions", type=number(1), metavar="N", help="default: num.partitions")
    parser.add_argument("--replication-factor", type=number(1), metavar="N", help="default: default.replication.factor")
    parser.add_argument(
        "--config",
        type=name_and_value,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a topic option; repeatable",
    )
    _common(parser)


def _delete_options(parser: Parser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="+")
    _common(parser)


def _status_options(parser: Parser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="*")
    _common(parser)


def _common(parser: Parser) -> None:
    bootstrap_option(parser)
    json_option(parser)


ACTIONS = (
    Command("list", "names, partitions and replicas", _list, _list_options),
    Command("describe", "partitions with leader and offsets, and the options set", _describe, _topic_options),
    Command("create", "create a topic", _create, _create_options),
    Command("delete", "delete topics", _delete, _delete_options),
    Command(
        "status",
        "what the cleaner has done to each partition, and what it waits for",
        _status,
        _status_options,
        STATUS_NOTES,
    ),
)
