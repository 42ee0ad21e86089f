"""`ottla topics`: list, describe, create and delete topics of a running broker, over the wire, and their status."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Callable

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ...protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ...protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ...protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ...protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from ..client.connection import Client

TIMEOUT_MS = 30_000
TOPIC_RESOURCE = 2
TOPIC_SOURCE = 1
EARLIEST, LATEST = -2, -1


class RefusedError(Exception):
    """The broker said no; the message is what is shown."""


def run(options: argparse.Namespace) -> int:
    """Carry out one action; returns the exit code: 0 done, 1 refused, 2 no broker."""
    host, _, port = options.bootstrap.rpartition(":")
    if not host or not port.isdigit():
        print(f"ottla: Invalid value {options.bootstrap} for --bootstrap: must be HOST:PORT", file=sys.stderr)
        return 2
    try:
        with Client(host.strip("[]"), int(port)) as client:
            ACTIONS[options.action](client, options)
    except RefusedError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    except (OSError, ProtocolError) as error:
        print(f"ottla: no broker answers at {options.bootstrap}: {error}", file=sys.stderr)
        return 2
    return 0


def _list(client: Client, _options: argparse.Namespace) -> None:
    for topic in sorted(client.ask(MetadataRequest(topics=None)).topics, key=lambda topic: topic.name):
        replicas = len(topic.partitions[0].replica_nodes) if topic.partitions else 0
        print(f"{topic.name}\tpartitions={len(topic.partitions)}\treplicas={replicas}")


def _describe(client: Client, options: argparse.Namespace) -> None:
    topic = _metadata(client, options.topic)
    # Asked before the first line is written: the topic may go meanwhile.
    starts, ends = _offsets(client, topic, EARLIEST), _offsets(client, topic, LATEST)
    print(f"{topic.name}\tid={base64.urlsafe_b64encode(topic.topic_id).decode().rstrip('=')}")
    for name, value in _overrides(client, options.topic):
        print(f"  {name}={value}")
    for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index):
        index = partition.partition_index
        replicas = ",".join(map(str, partition.replica_nodes))
        print(
            f"  partition {index}\tleader={partition.leader_id}\treplicas={replicas}"
            f"\tlog start offset={starts.get(index, '?')}\tlog end offset={ends.get(index, '?')}"
        )


def _create(client: Client, options: argparse.Namespace) -> None:
    configs = []
    for text in options.config:
        name, separator, value = text.partition("=")
        if not separator:
            raise RefusedError(f"Invalid value {text} for --config: must be NAME=VALUE")
        configs.append(CreatableTopicConfig(name=name, value=value))
    wanted = CreatableTopic(
        name=options.topic,
        num_partitions=options.partitions,
        replication_factor=options.replication_factor,
        assignments=(),
        configs=tuple(configs),
    )
    (done,) = client.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=TIMEOUT_MS)).topics
    _check(done.error_code, done.error_message)
    print(f"created {options.topic} with {done.num_partitions} partition(s)")


def _delete(client: Client, options: argparse.Namespace) -> None:
    wanted = DeleteTopicState(name=options.topic)
    (done,) = client.ask(DeleteTopicsRequest(topics=(wanted,), topic_names=(), timeout_ms=TIMEOUT_MS)).responses
    _check(done.error_code, done.error_message)
    print(f"deleted {options.topic}")


def _status(client: Client, options: argparse.Namespace) -> None:
    from .topics_status import NoStatusError, show

    try:
        show(client, options)
    except NoStatusError as error:
        raise RefusedError(str(error)) from error


ACTIONS: dict[str, Callable[[Client, argparse.Namespace], None]] = {
    "list": _list,
    "describe": _describe,
    "create": _create,
    "delete": _delete,
    "status": _status,
}


def _metadata(client: Client, name: str) -> MetadataResponseTopic:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    (topic,) = client.ask(request).topics
    _check(topic.error_code, f"there is no topic {name}")
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
    _check(found.error_code, found.error_message)
    return [(entry.name, entry.value) for entry in found.configs if entry.config_source == TOPIC_SOURCE]


def _check(code: int, message: str | None) -> None:
    if code:
        raise RefusedError(f"{ErrorCode(code).name}: {message}" if message else ErrorCode(code).name)
