"""Requests of the transaction APIs as plain tuples, and one broker that gets them.

Producer ids differ between brokers, so in steps and answers they are numbered in the order in which each broker first
returned them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.server.client.connection import Client

NOBODY = -1
STRANGER = 1 << 40
"""A producer id that no broker gave."""
GROUP = "g"
TRANSACTION_VERSION = "transaction.version"
PATIENCE_S = 3.0
PAUSE_S = 0.01

Place = tuple[str, int]
Answer = tuple[Any, ...]


class Producer(NamedTuple):
    """A numbered producer id, and an epoch."""

    number: int
    epoch: int


class Init(NamedTuple):
    transactional_id: str
    version: int
    timeout_ms: int
    present: Producer


class Add(NamedTuple):
    transactional_id: str
    version: int
    producer: Producer
    places: tuple[Place, ...]
    verify_only: bool


class AddOffsets(NamedTuple):
    transactional_id: str
    version: int
    producer: Producer


class End(NamedTuple):
    transactional_id: str
    version: int
    producer: Producer
    commit: bool


class Describe(NamedTuple):
    transactional_id: str


class List(NamedTuple):
    version: int
    states: tuple[str, ...]
    pattern: str | None


Step = Init | Add | AddOffsets | End | Describe | List


class Side:
    """One broker."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._client = Client(host, int(port))
        self._ids: list[int] = []
        self._how: dict[type[Any], Callable[[Any], Answer]] = {
            Init: self._init,
            Add: self._add,
            AddOffsets: self._add_offsets,
            End: self._end,
            Describe: self._describe,
            List: self._list,
        }

    def prepare(self, topics: tuple[str, ...], partitions: int, transactional_ids: tuple[str, ...]) -> None:
        """Make the topics, and wait until the coordinators are there."""
        wanted = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in topics]
        self._client.ask(CreateTopicsRequest(topics=tuple(wanted), timeout_ms=10_000))
        for key, key_type in [*((one, 1) for one in transactional_ids), (GROUP, 0)]:
            while self._client.ask(FindCoordinatorRequest(key=key, key_type=key_type), 3).error_code:
                time.sleep(PAUSE_S)
        for one in transactional_ids:
            self.ask_until(Describe(one), lambda answer: answer[0] == "TRANSACTIONAL_ID_NOT_FOUND")

    def raise_to(self, level: int) -> None:
        """Raise transaction.version, and wait until the broker reports it: Apache Kafka's controller has it earlier.

        Raises:
            TimeoutError: The broker does not report it within PATIENCE_S.
        """
        end_s = time.monotonic() + PATIENCE_S
        if self._level() < level:
            update = FeatureUpdateKey(feature=TRANSACTION_VERSION, max_version_level=level)
            answer = self._client.ask(UpdateFeaturesRequest(feature_updates=(update,)))
            assert answer.error_code == ErrorCode.NONE, answer
        while self._level() < level:
            if time.monotonic() > end_s:
                raise TimeoutError(f"{TRANSACTION_VERSION}: {self._level()}, not {level}, after {PATIENCE_S:.0f} s")
            time.sleep(PAUSE_S)

    def _level(self) -> int:
        """Return the level of transaction.version; a feature at level 0 is not listed."""
        listed = self._client.ask(
            ApiVersionsRequest(client_software_name="compat", client_software_version="1")
        ).finalized_features
        return next((each.max_version_level for each in listed if each.name == TRANSACTION_VERSION), 0)

    def ask(self, step: Step) -> Answer:
        return self._how[type(step)](step)

    def ask_until(self, step: Step, good: Callable[[Answer], bool]) -> Answer:
        """Repeat a request until the answer is good or a time-out passes: Apache Kafka writes markers after its answers."""
        end_s = time.monotonic() + PATIENCE_S
        while not good(answer := self.ask(step)) and time.monotonic() < end_s:
            time.sleep(PAUSE_S)
        return answer

    def _number(self, producer_id: int) -> int:
        if producer_id == NOBODY:
            return NOBODY
        if producer_id not in self._ids:
            self._ids.append(producer_id)
        return self._ids.index(producer_id)

    def _id(self, producer: Producer) -> int:
        if producer.number == NOBODY:
            return NOBODY
        return self._ids[producer.number] if producer.number < len(self._ids) else STRANGER

    def _init(self, step: Init) -> Answer:
        request = InitProducerIdRequest(
            transactional_id=step.transactional_id,
            transaction_timeout_ms=step.timeout_ms,
            producer_id=self._id(step.present),
            producer_epoch=step.present.epoch,
        )
        answer = self._client.ask(request, step.version)
        return _name(answer), Producer(self._number(answer.producer_id), answer.producer_epoch)

    def _end(self, step: End) -> Answer:
        request = EndTxnRequest(
            transactional_id=step.transactional_id,
            producer_id=self._id(step.producer),
            producer_epoch=step.producer.epoch,
            committed=step.commit,
        )
        answer = self._client.ask(request, step.version)
        return _name(answer), Producer(self._number(answer.producer_id), answer.producer_epoch)

    def _add(self, step: Add) -> Answer:
        topics = tuple(AddPartitionsToTxnTopic(name=name, partitions=(index,)) for name, index in step.places)
        producer_id, epoch = self._id(step.producer), step.producer.epoch
        if step.version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=step.transactional_id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
            found = self._client.ask(request, step.version).results_by_topic_v3_and_below
        else:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=step.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=step.verify_only,
                topics=topics,
            )
            answer = self._client.ask(AddPartitionsToTxnRequest(transactions=(transaction,)), step.version)
            found = answer.results_by_transaction[0].topic_results
        return tuple(
            sorted(
                (topic.name, row.partition_index, ErrorCode(row.partition_error_code).name)
                for topic in found
                for row in topic.results_by_partition
            )
        )

    def _add_offsets(self, step: AddOffsets) -> Answer:
        request = AddOffsetsToTxnRequest(
            transactional_id=step.transactional_id,
            producer_id=self._id(step.producer),
            producer_epoch=step.producer.epoch,
            group_id=GROUP,
        )
        return (_name(self._client.ask(request, step.version)),)

    def _describe(self, step: Describe) -> Answer:
        request = DescribeTransactionsRequest(transactional_ids=(step.transactional_id,))
        (found,) = self._client.ask(request).transaction_states
        number = self._number(found.producer_id) if found.error_code == 0 else found.producer_id
        places = sorted((topic.topic, index) for topic in found.topics for index in topic.partitions)
        return (
            _name(found),
            found.transaction_state,
            found.transaction_timeout_ms,
            Producer(number, found.producer_epoch),
            tuple(places),
            found.transaction_start_time_ms > 0,
        )

    def _list(self, step: List) -> Answer:
        request = ListTransactionsRequest(state_filters=step.states, transactional_id_pattern=step.pattern)
        answer = self._client.ask(request, step.version)
        rows = sorted(
            (one.transactional_id, self._number(one.producer_id), one.transaction_state)
            for one in answer.transaction_states
        )
        return _name(answer), tuple(sorted(answer.unknown_state_filters)), tuple(rows)


def _name(answer: Any) -> str:
    return ErrorCode(answer.error_code).name
