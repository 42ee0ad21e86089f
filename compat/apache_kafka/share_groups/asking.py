"""One broker that gets the steps."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_share_group_offsets as alter
from ottla.protocol.messages import delete_share_group_offsets as forgetting
from ottla.protocol.messages import describe_share_group_offsets as offsets
from ottla.protocol.messages import share_acknowledge as acknowledging
from ottla.protocol.messages import share_fetch as fetching
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.share_fetch import AcknowledgementBatch as AcknowledgementBatchMessage
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.server.client.connection import Client

from . import steps
from .logs import Logs
from .records import whole_batches
from .states import STATE_STEPS, ask_state, settled
from .steps import Place

TIMEOUT_S = 30.0
FULL_EPOCH, FINAL_EPOCH = 0, -1
GROUP_RESOURCE, SET, DELETE = 32, 0, 1
SETTLES_S = 0.15
"""The time until Apache Kafka learns of a changed config, or of a closed connection."""

_OF_BATCHES = {
    "The batch cannot be acknowledged. The batch is not in the acquired state.": "The offset cannot be acknowledged. "
    "The offset is not acquired.",
    "Member is not the owner of batch record": "Member is not the owner of offset",
}

Answer = tuple[Any, ...]
Row = tuple[Any, ...]


class Side:
    """One broker, with a connection for each member and another for all else."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._connect: Callable[[], Client] = partial(Client, host, int(port), timeout_s=TIMEOUT_S)
        self._others = self._connect()
        self._members: dict[str, Client] = {}
        self.logs = Logs(self._others)
        self.sessions: dict[tuple[str, str], int] = {}
        """Group and member -> the epoch that its session expects."""
        self.epochs: dict[tuple[str, str], int] = {}
        """Group and member -> the epoch in the answer to its last heartbeat."""
        self._how: dict[type[Any], Callable[[Any], Answer]] = {
            steps.Fetch: self._fetch,
            steps.Acknowledge: self._acknowledge,
            steps.Drop: self._drop,
            steps.Beat: self._beat,
            steps.Look: self._look,
            steps.Offsets: self._offsets,
            steps.AlterOffsets: self._alter,
            steps.DeleteOffsets: self._forget,
            steps.DeleteGroup: self._delete_group,
            steps.Config: self._config,
            steps.Produce: self.logs.produce,
            steps.EndTransaction: self.logs.end,
            steps.DeleteRecords: self.logs.delete_records,
        }

    def ask(self, step: steps.Step) -> Answer:
        if isinstance(step, STATE_STEPS):
            return ask_state(self._others, self.logs.id_of(step.place.topic), step)
        if isinstance(step, steps.Settled):
            return (settled(self._others, self.logs.id_of, step),)
        return self._how[type(step)](step)

    def wait_for_states(self, topic: str) -> None:
        """Wait until a share coordinator exists and has loaded."""
        step = steps.InitState("ready", Place(topic, 0), 0, 0)
        self.logs.coordinators({f"ready:{_uuid(self.logs.id_of(topic))}:0": 2})
        while self.ask(step)[0][2] != "NONE":
            time.sleep(SETTLES_S)

    def close(self) -> None:
        for client in (self._others, *self._members.values()):
            client.close()

    def forget_members(self) -> None:
        """Begin a new life: close the connections of the last one."""
        for member in list(self._members):
            self._members.pop(member).close()
        self.sessions.clear()
        self.epochs.clear()

    # Members

    def _of(self, member: str) -> Client:
        if member not in self._members:
            self._members[member] = self._connect()
        return self._members[member]

    def _epoch(self, step: steps.Fetch | steps.Acknowledge) -> int:
        return self.sessions.get((step.group, step.member), 0) + step.off if step.epoch is None else step.epoch

    def _advance(self, step: steps.Fetch | steps.Acknowledge, epoch: int, error: int) -> None:
        key = step.group, step.member
        if error == ErrorCode.NONE:
            if epoch == FINAL_EPOCH:
                self.sessions.pop(key, None)
            else:
                self.sessions[key] = epoch + 1
        elif error == ErrorCode.SHARE_SESSION_NOT_FOUND or (epoch == FULL_EPOCH and isinstance(step, steps.Fetch)):
            self.sessions.pop(key, None)

    def _fetch(self, step: steps.Fetch) -> Answer:
        """Code, message, lock time-out, whom else to ask; rows by place."""
        epoch = self._epoch(step)
        says = dict(step.says)
        rows: dict[str, list[fetching.FetchPartition]] = {}
        for place in dict.fromkeys((*step.places, *says)):
            batches = tuple(_batch(fetching.AcknowledgementBatch, one) for one in says.get(place, ()))
            row = fetching.FetchPartition(partition_index=place.partition, acknowledgement_batches=batches)
            rows.setdefault(place.topic, []).append(row)
        request = fetching.ShareFetchRequest(
            group_id=step.group,
            member_id=step.member,
            share_session_epoch=epoch,
            max_wait_ms=step.wait_ms,
            min_bytes=step.min_bytes,
            max_bytes=step.max_bytes,
            max_records=step.max_records,
            batch_size=step.batch_size,
            share_acquire_mode=step.mode,
            is_renew_ack=step.renews,
            topics=tuple(
                fetching.FetchTopic(topic_id=self.logs.id_of(topic), partitions=tuple(some))
                for topic, some in rows.items()
            ),
            forgotten_topics_data=tuple(
                fetching.ForgottenTopic(topic_id=self.logs.id_of(place.topic), partitions=(place.partition,))
                for place in step.forget
            ),
        )
        answer = self._of(step.member).ask(request, step.version)
        self._advance(step, epoch, answer.error_code)
        told: dict[Place, Row] = {}
        for topic in answer.responses:
            for row in topic.partitions:
                told[Place(self.logs.name_of(topic.topic_id), row.partition_index)] = (
                    _name(row.error_code),
                    row.error_message,
                    _name(row.acknowledge_error_code),
                    _words(row.acknowledge_error_message),
                    (row.current_leader.leader_id, row.current_leader.leader_epoch),
                    tuple((one.first_offset, one.last_offset, one.delivery_count) for one in row.acquired_records),
                    whole_batches(bytes(row.records or b"")),
                )
        return *_head(answer), told

    def _acknowledge(self, step: steps.Acknowledge) -> Answer:
        epoch = self._epoch(step)
        rows: dict[str, list[acknowledging.AcknowledgePartition]] = {}
        for place, says in step.says:
            batches = tuple(_batch(AcknowledgementBatchMessage, one) for one in says)
            row = acknowledging.AcknowledgePartition(partition_index=place.partition, acknowledgement_batches=batches)
            rows.setdefault(place.topic, []).append(row)
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=step.group,
            member_id=step.member,
            share_session_epoch=epoch,
            is_renew_ack=step.renews,
            topics=tuple(
                acknowledging.AcknowledgeTopic(topic_id=self.logs.id_of(topic), partitions=tuple(some))
                for topic, some in rows.items()
            ),
        )
        answer = self._of(step.member).ask(request, step.version)
        self._advance(step, epoch, answer.error_code)
        told = {
            Place(self.logs.name_of(topic.topic_id), row.partition_index): (
                _name(row.error_code),
                _words(row.error_message),
                (row.current_leader.leader_id, row.current_leader.leader_epoch),
            )
            for topic in answer.responses
            for row in topic.partitions
        }
        return *_head(answer), told

    def _drop(self, step: steps.Drop) -> Answer:
        client = self._members.pop(step.member, None)
        if client is not None:
            client.close()
            for key in [key for key in self.sessions if key[1] == step.member]:
                del self.sessions[key]
            time.sleep(SETTLES_S)
        return ()

    # Groups

    def _beat(self, step: steps.Beat) -> Answer:
        key = step.group, step.member
        epoch = self.epochs.get(key, 0) + step.off if step.epoch is None else step.epoch
        request = ShareGroupHeartbeatRequest(
            group_id=step.group,
            member_id=step.member,
            member_epoch=epoch,
            rack_id=step.rack,
            subscribed_topic_names=step.topics,
        )
        answer = self._others.ask(request)
        if answer.error_code == ErrorCode.NONE:
            self.epochs[key] = max(answer.member_epoch, 0)
        elif epoch >= 0:
            self.epochs.pop(key, None)
        return (
            _name(answer.error_code),
            answer.error_message,
            answer.member_id,
            answer.member_epoch,
            answer.heartbeat_interval_ms,
            # Apache Kafka assigns partitions to members at random (../DIFFERENCES.md), so a change of them is also random.
            answer.assignment is not None if epoch == 0 else None,
        )

    def _look(self, step: steps.Look) -> Answer:
        (found,) = self._others.ask(ShareGroupDescribeRequest(group_ids=(step.group,))).groups
        (classic,) = self._others.ask(DescribeGroupsRequest(groups=(step.group,)), 6).groups
        listed = self._others.ask(ListGroupsRequest(), 5).groups
        members = sorted(
            (
                one.member_id,
                one.rack_id,
                one.member_epoch,
                one.client_id,
                one.client_host,
                tuple(sorted(one.subscribed_topic_names)),
                _count(one.assignment) > 0,
            )
            for one in found.members
        )
        return (
            (_name(found.error_code), found.error_message, found.group_state, found.group_epoch),
            (found.assignment_epoch, found.assignor_name),
            members,
            (_name(classic.error_code), classic.error_message, classic.group_state, classic.protocol_type),
            [(one.protocol_type, one.group_state, one.group_type) for one in listed if one.group_id == step.group],
        )

    def _offsets(self, step: steps.Offsets) -> Answer:
        named = None
        if step.topics is not None:
            named = tuple(
                offsets.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)
                for name, indexes in step.topics
            )
        asked = offsets.DescribeShareGroupOffsetsRequestGroup(group_id=step.group, topics=named)
        request = offsets.DescribeShareGroupOffsetsRequest(groups=(asked,))
        (answer,) = self._others.ask(request, step.version).groups
        rows = sorted(
            (
                topic.topic_name,
                self.logs.name_of(topic.topic_id),
                row.partition_index,
                row.start_offset,
                row.leader_epoch,
                row.lag,
                _name(row.error_code),
                row.error_message,
            )
            for topic in answer.topics
            for row in topic.partitions
        )
        return _name(answer.error_code), answer.error_message, rows

    def _alter(self, step: steps.AlterOffsets) -> Answer:
        topics = tuple(
            alter.AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=tuple(
                    alter.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                    for index, offset in rows
                ),
            )
            for name, rows in step.rows
        )
        answer = self._others.ask(alter.AlterShareGroupOffsetsRequest(group_id=step.group, topics=topics))
        told = sorted(
            (topic.topic_name, row.partition_index, _name(row.error_code), row.error_message or "")
            for topic in answer.responses
            for row in topic.partitions
        )
        return _name(answer.error_code), answer.error_message, told

    def _forget(self, step: steps.DeleteOffsets) -> Answer:
        topics = tuple(forgetting.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in step.topics)
        answer = self._others.ask(forgetting.DeleteShareGroupOffsetsRequest(group_id=step.group, topics=topics))
        told = sorted((one.topic_name, _name(one.error_code), one.error_message or "") for one in answer.responses)
        return _name(answer.error_code), answer.error_message, told

    def _delete_group(self, step: steps.DeleteGroup) -> Answer:
        (answer,) = self._others.ask(DeleteGroupsRequest(groups_names=(step.group,)), 2).results
        return (_name(answer.error_code),)

    def _config(self, step: steps.Config) -> Answer:
        operation = DELETE if step.value is None else SET
        config = AlterableConfig(name=step.name, config_operation=operation, value=step.value)
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=step.group, configs=(config,))
        (answer,) = self._others.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
        time.sleep(SETTLES_S)
        return _name(answer.error_code), answer.error_message


def _count(assignment: Any) -> int:
    return sum(len(one.partitions) for one in assignment.topic_partitions)


def _words(message: str | None) -> str | None:
    """Apache Kafka speaks of a batch or of an offset, as it happens to remember them (../DIFFERENCES.md)."""
    return _OF_BATCHES.get(message, message) if message else message


def _uuid(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def _batch(message: type[Any], one: tuple[int, int, tuple[int, ...]]) -> Any:
    first, last, types = one
    return message(first_offset=first, last_offset=last, acknowledge_types=types)


def _head(answer: Any) -> Answer:
    nodes = tuple(sorted(one.node_id for one in answer.node_endpoints))
    return _name(answer.error_code), answer.error_message, answer.acquisition_lock_timeout_ms, nodes


def _name(code: int) -> str:
    return ErrorCode(code).name
