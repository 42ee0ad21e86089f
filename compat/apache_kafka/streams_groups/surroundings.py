"""The topics and group configs that groups depend on.

Each is changed, and the change awaited until the coordinator knows of it.

At Apache Kafka that takes a moment, and only an answer of the coordinator shows it. So this module uses groups of its own, in
the one partition that holds all groups. For a topic, an application that reads it alone has a task for each partition. For
configs, a group's heartbeat interval is changed last.
"""

from __future__ import annotations

import time
from itertools import count

from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from ottla.server.client.connection import Client

from .answers import Answer, code_name
from .steps import JOIN, Configure, Topic

PAUSE_S, PATIENCE_S = 0.01, 60.0
APPEARS_S = 20.0
GROUP_RESOURCE, SET, DELETE = 32, 0, 1
HEARTBEAT_INTERVAL = "streams.heartbeat.interval.ms"
LEAST_INTERVAL_MS, INTERVALS = 5_000, 9_000


class Surroundings:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._count = count()
        self._partitions: dict[str, int] = {}

    def prepare(self, topics: dict[str, int]) -> None:
        """Wait for the coordinator, and make topics."""
        while self._client.ask(FindCoordinatorRequest(key="g", key_type=0), 3).error_code:
            time.sleep(PAUSE_S)
        while code_name(self._probe("ready", "ready").error_code) != "NONE":
            time.sleep(PAUSE_S)
        for name, partitions in topics.items():
            self.topic(Topic(name, partitions))

    # Topics

    def topic(self, step: Topic) -> Answer:
        """Give the topic this number of partitions, and wait until the coordinator knows of it."""
        before = self._partitions.get(step.name, 0)
        if not step.partitions:
            deleted = self._client.ask(DeleteTopicsRequest(topic_names=(step.name,), timeout_ms=10_000), 5)
            answer = deleted.responses[0].error_code
        elif before:
            more = CreatePartitionsTopic(name=step.name, count=step.partitions, assignments=None)
            expanded = self._client.ask(CreatePartitionsRequest(topics=(more,), timeout_ms=10_000), 3)
            answer = expanded.results[0].error_code
        else:
            new = CreatableTopic(name=step.name, num_partitions=step.partitions, replication_factor=1)
            answer = self._client.ask(CreateTopicsRequest(topics=(new,), timeout_ms=10_000)).topics[0].error_code
        if code_name(answer) == "NONE":
            self._partitions[step.name] = step.partitions
            self._wait(step.name, step.partitions)
        return (code_name(answer),)

    def appears(self, name: str) -> int:
        """Wait until the coordinator has created a topic, and return its number of partitions. TimeoutError if it does not."""
        wanted = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
        end_s = time.monotonic() + APPEARS_S
        while (row := self._client.ask(wanted).topics[0]).error_code:
            _check_patience(end_s, f"topic {name} does not appear")
        partitions = self._partitions[name] = len(row.partitions)
        self._wait(name, partitions)
        return partitions

    def _wait(self, name: str, partitions: int) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while self._known(name) != partitions:
            _check_patience(end_s, f"the coordinator does not hear that {name} has {partitions} partitions")

    def _known(self, name: str) -> int:
        """Return the number of partitions that the coordinator knows; 0 if the topic is missing."""
        rows = self._probe(f"reads-{name}", name).active_tasks or ()
        return sum(len(one.partitions) for one in rows)

    def _probe(self, group: str, topic: str) -> StreamsGroupHeartbeatResponse:
        request = StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id="probe",
            member_epoch=JOIN,
            rebalance_timeout_ms=60_000,
            topology=Topology(subtopologies=(Subtopology(subtopology_id="0", source_topics=(topic,)),)),
            process_id="probe",
            active_tasks=(),
            standby_tasks=(),
            warmup_tasks=(),
        )
        answer: StreamsGroupHeartbeatResponse = self._client.ask(request)
        return answer

    # Configs

    def configure(self, step: Configure) -> Answer:
        answer = self._alter(step.group, step.name, step.value)
        if answer[0] == "NONE":
            interval_ms = LEAST_INTERVAL_MS + next(self._count) % INTERVALS
            other = f"{step.group}-configs"
            self._alter(other, HEARTBEAT_INTERVAL, str(interval_ms))
            end_s = time.monotonic() + PATIENCE_S
            while self._probe(other, "ready").heartbeat_interval_ms != interval_ms:
                _check_patience(end_s, "the coordinator does not hear of a changed config")
        return answer

    def _alter(self, group: str, name: str, value: str | None) -> Answer:
        config = AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=(config,))
        (answer,) = self._client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
        return code_name(answer.error_code), answer.error_message


def _check_patience(end_s: float, words: str) -> None:
    if time.monotonic() > end_s:
        raise TimeoutError(words)
    time.sleep(PAUSE_S)
