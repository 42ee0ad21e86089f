"""Clients with quotas, and how long one broker has them wait."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_client_quotas import EntityData
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.server.client.connection import Client
from ottla.server.client.security import PLAIN, Security

RECORD_BYTES = 10_000
"""A produce request has so much in its one record, and some bytes more."""


def batch() -> bytes:
    return bytes(build_batch([(0, int(time.time() * 1000), b"k", b"v" * RECORD_BYTES, ())]))


BATCH_BYTES = len(batch())


@dataclass
class Seen:
    """Throttle times in answers, in ms, and the duration of each request, in ms, as the connection was mute before it."""

    told: list[int] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    other: list[Any] = field(default_factory=list)
    """Other parts of the answers that must be equal."""


class Throttling:
    """One broker, with a topic whose id is known."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._address = self._plain = host, int(port)
        self._security = PLAIN
        with self.admin() as client:
            request = CreateTopicsRequest(
                topics=(CreatableTopic(name="t", num_partitions=1, replication_factor=1),), timeout_ms=60_000
            )
            self.topic_id = client.ask(request).topics[0].topic_id
            deadline_s = time.monotonic() + 20
            while self._end_offset(client) is None:
                if time.monotonic() > deadline_s:
                    raise TimeoutError("the topic does not come up")
                time.sleep(0.05)

    def reach(self, port: int, security: Security) -> None:
        """Use this listener for all produces and fetches from now on."""
        self._address, self._security = (self._plain[0], port), security

    def admin(self) -> Client:
        """Return an admin client on the plain listener."""
        return Client(*self._plain, client_id="admin", timeout_s=60)

    def client(self, client_id: str | None) -> Client:
        return Client(*self._address, client_id=client_id, timeout_s=60, security=self._security)

    def _end_offset(self, client: Client) -> int | None:
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=(ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),)),),
        )
        (partition,) = client.ask(request, 5).topics[0].partitions
        return partition.offset if partition.error_code == 0 else None

    def set(self, client_id: str, **quotas: float | None) -> None:
        """Set quotas of a client id; None removes one.

        Returns when they apply: Apache Kafka's brokers learn of them a moment later.
        """
        entry = EntryData(
            entity=(EntityData(entity_type="client-id", entity_name=client_id),),
            ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()),
        )
        with self.admin() as client:
            (row,) = client.ask(AlterClientQuotasRequest(entries=(entry,))).entries
            assert row.error_code == 0, row
        time.sleep(0.5)

    def produced(self, client_id: str | None, requests: int, *, version: int = 12, acks: int = -1) -> Seen:
        """Send `requests` produces, one after the other."""
        data = batch()
        partition = PartitionProduceData(index=0, records=data)
        topic = TopicProduceData(name="t", topic_id=self.topic_id, partition_data=(partition,))
        request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=(topic,))
        return self._asked(client_id, [request] * requests, version)

    def fetched(self, client_id: str, requests: int, batches: int, *, version: int = 12) -> Seen:
        """Send `requests` fetches from the start.

        Limits are whole batches, as Apache Kafka sends part of one that a limit cuts.
        """
        max_bytes = batches * BATCH_BYTES
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            session_epoch=-1,
            topics=(FetchTopic(topic="t", topic_id=self.topic_id, partitions=(partition,)),),
        )
        return self._asked(client_id, [request] * requests, version)

    def mutated(self, client_id: str, numbers: list[int], *, version: int, start: int = 0) -> Seen:
        """Create topics with these numbers of partitions."""
        requests = [
            CreateTopicsRequest(
                topics=(CreatableTopic(name=f"{client_id}-{start + at}", num_partitions=count, replication_factor=1),),
                timeout_ms=60_000,
            )
            for at, count in enumerate(numbers)
        ]
        return self._asked(client_id, requests, version)

    def deleted(self, client_id: str, names: list[str], *, version: int) -> Seen:
        return self._asked(
            client_id,
            [
                DeleteTopicsRequest(topic_names=(name,), timeout_ms=60_000)
                if version < 6
                else DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=60_000)
                for name in names
            ],
            version,
        )

    def _asked(self, client_id: str | None, requests: list[Any], version: int) -> Seen:
        seen = Seen()
        with self.client(client_id) as client:
            for request in requests:
                start_s = time.monotonic()
                answer = client.ask(request, version)
                seen.took.append((time.monotonic() - start_s) * 1000)
                seen.told.append(answer.throttle_time_ms)
                seen.other.append(_other(answer))
        return seen


def _other(answer: Any) -> Any:
    match type(answer).__name__:
        case "FetchResponse":
            sizes = [len(data.records or b"") for topic in answer.responses for data in topic.partitions]
            return answer.error_code, answer.session_id, bool(sum(sizes)), len(sizes)
        case "CreateTopicsResponse":
            return [(topic.error_code, topic.error_message) for topic in answer.topics]
        case "DeleteTopicsResponse":
            return [(topic.error_code, topic.error_message) for topic in answer.responses]
    return None
