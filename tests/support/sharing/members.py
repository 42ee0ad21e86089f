"""Members of a share group over a raw connection, each with its session."""

from __future__ import annotations

from typing import Any

from ottla.protocol.messages import initialize_share_group_state as initialize
from ottla.protocol.messages import share_acknowledge as acknowledging
from ottla.protocol.messages import share_fetch as fetching
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.share_fetch import AcknowledgementBatch
from ottla.server.sharing.share_records import SharePartitionKey
from support.broker.conversation import records_of
from support.broker.raw_client import RawClient

Says = dict[int, list[tuple[int, int, list[int]]]]
"""First offset, last offset and types, by partition."""


def initialize_share(
    client: RawClient, group: str, topic_id: bytes, partitions: int = 1, start_offset: int = 0, state_epoch: int = 0
) -> None:
    """Initialize a state for each partition, as the group coordinator does when a member subscribes."""
    key = SharePartitionKey(group, topic_id, 0).text
    client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=(key,)))
    rows = tuple(
        initialize.PartitionData(partition=each, state_epoch=state_epoch, start_offset=start_offset)
        for each in range(partitions)
    )
    topic = initialize.InitializeStateData(topic_id=topic_id, partitions=rows)
    answer = client.ask(initialize.InitializeShareGroupStateRequest(group_id=group, topics=(topic,)))
    assert [row.error_code for row in answer.results[0].partitions] == [0] * partitions


class Member:
    def __init__(self, client: RawClient, topic_id: bytes, name: str = "m", group: str = "g", version: int = 2) -> None:
        self.client, self.topic_id, self.name, self.group, self.version = client, topic_id, name, group, version
        self.epoch = 0

    def request(
        self, *partitions: int, says: Says | None = None, forgotten: tuple[int, ...] = (), **options: Any
    ) -> fetching.ShareFetchRequest:
        options = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "max_wait_ms": 100,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
        } | options
        said = says or {}
        rows = tuple(
            fetching.FetchPartition(
                partition_index=each,
                acknowledgement_batches=tuple(
                    fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=tuple(types))
                    for first, last, types in said.get(each, ())
                ),
            )
            for each in dict.fromkeys((*partitions, *said))
        )
        gone = (fetching.ForgottenTopic(topic_id=self.topic_id, partitions=forgotten),) if forgotten else ()
        topics = (fetching.FetchTopic(topic_id=self.topic_id, partitions=rows),) if rows else ()
        given: dict[str, Any] = options
        return fetching.ShareFetchRequest(topics=topics, forgotten_topics_data=gone, **given)

    def ask(self, *partitions: int, **options: Any) -> Any:
        """Return the answer to a fetch; the session continues with it unless it was refused."""
        answer = self.client.ask(self.request(*partitions, **options), self.version)
        if answer.error_code == 0:
            self.epoch += 1
        return answer

    def fetch(self, *partitions: int, **options: Any) -> dict[int, Any]:
        """Return the rows of the answer, by partition."""
        answer = self.ask(*partitions, **options)
        assert answer.error_code == 0, answer
        return {row.partition_index: row for topic in answer.responses for row in topic.partitions}

    def got(self, *partitions: int, **options: Any) -> list[tuple[int, int, int]]:
        """Return first offset, last offset and delivery count of the acquired records of partition 0."""
        rows = self.fetch(*partitions, **options)
        return acquired(rows[0]) if 0 in rows else []

    def acknowledge(self, says: Says, **options: Any) -> Any:
        """Return the answer to ShareAcknowledge."""
        rows = tuple(
            acknowledging.AcknowledgePartition(
                partition_index=each,
                acknowledgement_batches=tuple(
                    AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=tuple(types))
                    for first, last, types in batches
                ),
            )
            for each, batches in says.items()
        )
        topics = (acknowledging.AcknowledgeTopic(topic_id=self.topic_id, partitions=rows),)
        given: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
        } | options
        answer = self.client.ask(acknowledging.ShareAcknowledgeRequest(topics=topics, **given), self.version)
        if answer.error_code == 0:
            self.epoch += 1
        return answer

    def said(self, says: Says, **options: Any) -> dict[int, int]:
        """Acknowledge records; return the errors, by partition."""
        answer = self.acknowledge(says, **options)
        assert answer.error_code == 0, answer
        return {row.partition_index: row.error_code for topic in answer.responses for row in topic.partitions}


def acquired(row: Any) -> list[tuple[int, int, int]]:
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in row.acquired_records]


def offsets_of(row: Any) -> list[int]:
    """Return the offsets of the records in a row."""
    return [offset for offset, _, _ in records_of(row)]
