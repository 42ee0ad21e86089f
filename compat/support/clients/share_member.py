"""A member of a share group (KIP-932) over one connection, for details that client libraries hide.

These are the exact time of an answer, the acquired records, renewals, and members that disconnect without leaving.
"""

import time
import uuid
from typing import Any, NamedTuple

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages import incremental_alter_configs as altering
from ottla.protocol.messages import share_acknowledge as acknowledging
from ottla.protocol.messages import share_fetch as fetching
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.share_fetch import AcknowledgementBatch
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.server.client.connection import Client

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
LEAVES = -1
NOT_YET = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
GROUP_RESOURCE = 32
PAUSE_S = 0.1

Said = dict[int, list[tuple[int, int, list[int]]]]
"""Partition -> first and last offset, and the types they are acknowledged with: one for all, or one each."""


class Acquired(NamedTuple):
    """A range of records that are the member's until their lock times out."""

    partition: int
    first: int
    last: int
    deliveries: int
    """The number of deliveries, this one included."""


def client_of(bootstrap: str, timeout_s: float = 60) -> Client:
    host, _, port = bootstrap.rpartition(":")
    return Client(host, int(port), timeout_s=timeout_s)


def configure(client: Client, group: str, value: str | None, name: str = "share.auto.offset.reset") -> None:
    """Set a config of the group; None resets it. Raises KafkaError."""
    operation = 1 if value is None else 0
    config = altering.AlterableConfig(name=name, config_operation=operation, value=value)
    resource = altering.AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=(config,))
    answer = client.ask(altering.IncrementalAlterConfigsRequest(resources=(resource,)), 1)
    checked(answer.responses[0])


def checked(answer: Any) -> Any:
    """Return the answer, if it has no error. Raises KafkaError."""
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), getattr(answer, "error_message", None) or "")
    return answer


class ShareMember:
    """A member of a share group that reads one topic.

    A request that is refused as a whole raises KafkaError. Then the member must be closed, and a new one made.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, timeout_s: float = 60) -> None:
        self.client = client_of(bootstrap, timeout_s)
        self.group, self.topic, self.name = group, topic, str(uuid.uuid4())
        self.epoch, self.session, self.topic_id = 0, 0, b""
        self.partitions: frozenset[int] = frozenset()
        """The partitions that the member is assigned."""
        self._of_session: frozenset[int] = frozenset()

    def join(self, least: int = 1, timeout_s: float = 60) -> None:
        """Wait until the member has at least `least` partitions. Raises TimeoutError."""
        deadline_s = time.monotonic() + timeout_s
        while len(self.partitions) < least:
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"{len(self.partitions)} of {least} partitions of {self.topic} within {timeout_s:.0f} s"
                )
            try:
                self.beat()
            except KafkaError as error:
                if error.code not in NOT_YET:
                    raise
                # Apache Kafka creates the offsets topic only after a client has looked for a coordinator.
                self.client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=(self.group,)), 4)
            time.sleep(PAUSE_S)

    def beat(self, epoch: int | None = None) -> None:
        """Join, be alive, or leave; and learn what it is to fetch."""
        answer = checked(
            self.client.ask(
                ShareGroupHeartbeatRequest(
                    group_id=self.group,
                    member_id=self.name,
                    member_epoch=self.epoch if epoch is None else epoch,
                    subscribed_topic_names=(self.topic,) if self.epoch == 0 else None,
                ),
                1,
            )
        )
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.partitions = frozenset()
            for own in answer.assignment.topic_partitions:
                self.topic_id, self.partitions = own.topic_id, frozenset(own.partitions)

    def fetch(
        self, said: Said, max_records: int, *, is_limit: bool = False, max_wait_ms: int = 500
    ) -> tuple[list[Acquired], dict[int, int]]:
        """Send acknowledgements, and acquire more records; batches are whole unless `max_records` is a limit.

        Returns:
            The acquired records, and the errors of the acknowledgements by partition.
        """
        wanted = {*said, *(self.partitions - self._of_session)}
        gone = self._of_session - self.partitions
        rows = tuple(
            fetching.FetchPartition(
                partition_index=number,
                acknowledgement_batches=tuple(
                    fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=tuple(types))
                    for first, last, types in said.get(number, ())
                ),
            )
            for number in sorted(wanted)
        )
        forgotten = fetching.ForgottenTopic(topic_id=self.topic_id, partitions=tuple(sorted(gone)))
        answer = checked(
            self.client.ask(
                fetching.ShareFetchRequest(
                    group_id=self.group,
                    member_id=self.name,
                    share_session_epoch=self.session,
                    max_wait_ms=max_wait_ms,
                    min_bytes=1,
                    max_bytes=50 << 20,
                    max_records=max_records,
                    batch_size=max_records,
                    share_acquire_mode=1 if is_limit else 0,
                    topics=(fetching.FetchTopic(topic_id=self.topic_id, partitions=rows),) if rows else (),
                    forgotten_topics_data=(forgotten,) if gone else (),
                ),
                2,
            )
        )
        self.session += 1
        self._of_session = self.partitions
        found: list[Acquired] = []
        refused: dict[int, int] = {}
        for row in (row for topic in answer.responses for row in topic.partitions):
            number = row.partition_index
            if row.error_code:
                raise KafkaError(ErrorCode(row.error_code), row.error_message or f"partition {number}")
            if row.acknowledge_error_code:
                refused[number] = row.acknowledge_error_code
            found += [
                Acquired(number, of.first_offset, of.last_offset, of.delivery_count) for of in row.acquired_records
            ]
        return found, refused

    def acknowledge(self, said: Said, *, is_renewal: bool = False) -> dict[int, int]:
        """Acknowledge without a fetch. Returns the errors by partition: the broker has refused all of such a partition."""
        rows = tuple(
            acknowledging.AcknowledgePartition(
                partition_index=number,
                acknowledgement_batches=tuple(
                    AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=tuple(types))
                    for first, last, types in batches
                ),
            )
            for number, batches in said.items()
        )
        topic = acknowledging.AcknowledgeTopic(topic_id=self.topic_id, partitions=rows)
        answer = checked(
            self.client.ask(
                acknowledging.ShareAcknowledgeRequest(
                    group_id=self.group,
                    member_id=self.name,
                    share_session_epoch=self.session,
                    is_renew_ack=is_renewal,
                    topics=(topic,),
                ),
                2,
            )
        )
        self.session += 1
        return {
            row.partition_index: row.error_code
            for each in answer.responses
            for row in each.partitions
            if row.error_code
        }

    def leave(self) -> None:
        """Leave the group, and close."""
        try:
            self.beat(LEAVES)
        finally:
            self.close()

    def close(self) -> None:
        """Close without leaving: the member's records are released when the broker sees the closed connection."""
        self.client.close()
