"""The transaction coordinator's word on a batch, asked of the first process; see `transactions.verification`.

Answer and append cannot be one turn, so a marker may come between. It takes away what `begin_verification` has noted, or the epoch is
another one by then: the coordinator is asked again until the note that stood at the question still stands at the append.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.paths import TopicPartition
from ..coordination.ground import Ground
from ..coordination.records import Producer
from ..transactions.verification import ASKED_AT_ONCE, NOT_NOW, Ability, UnverifiedError, translated
from .link import Link, LinkLostError


class AskedVerification:
    """As `transactions.verification.Verification`."""

    def __init__(
        self,
        link: Link,
        ground: Ground,
        transactional_id: str,
        producer: Producer,
        ability: Ability,
        sequences: Mapping[TopicPartition, int],
    ) -> None:
        self._link = link
        self._ground = ground
        self._transactional_id = transactional_id
        self._producer = producer
        self._ability = ability
        self._sequences = sequences
        self._unasked = iter(sequences)
        self._granted: dict[TopicPartition, object] = {}
        """What was noted of the question that was answered with yes."""

    async def check(self, topic_partition: TopicPartition) -> None:
        """Return in a turn of the event loop in which what the request has for this partition may be appended.

        Raises:
            UnverifiedError, KafkaError: As `Verification.check`.
        """
        adds = self._ability is Ability.ADDING
        if topic_partition not in self._sequences:
            return
        if not adds and not self._ground.config.current.transaction_partition_verification_enable:
            return
        while (note := self._begun(topic_partition)) is not None:
            if self._granted.get(topic_partition) is note:
                return
            asked = {topic_partition: note} | self._others()
            refused = await self._ask(list(asked), add=adds)
            self._granted |= {each: noted for each, noted in asked.items() if each not in refused}
            if (error := refused.get(topic_partition)) is not None:
                raise self._refused(topic_partition, error)

    def _others(self) -> dict[TopicPartition, object]:
        """Those that follow in the request are asked about together."""
        found = {}
        for each in islice(self._unasked, ASKED_AT_ONCE):
            try:
                note = self._begun(each)
            except KafkaError:
                continue  # It is told when its turn comes.
            if note is not None:
                found[each] = note
        return found

    async def _ask(self, partitions: list[TopicPartition], *, add: bool) -> Mapping[TopicPartition, KafkaError]:
        try:
            refused: Mapping[TopicPartition, KafkaError] = await self._link.call(
                "verify", self._transactional_id, tuple(self._producer), partitions, add
            )
        except LinkLostError as error:
            raise UnverifiedError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        except KafkaError as error:
            raise translated(error, self._ability) from error
        return refused

    def _begun(self, topic_partition: TopicPartition) -> object | None:
        """What is noted of the question; None if the coordinator need not be asked."""
        producers = self._ground.topics.partition(*topic_partition).log.producers
        try:
            is_asked = producers.begin_verification(
                *self._producer,
                self._sequences[topic_partition],
                bumps_epoch=self._ability is Ability.ADDING,
                elapsed_ms=self._ground.clock.elapsed_ms(),
            )
        except KafkaError as error:
            raise UnverifiedError(error.code, error.message) from error
        return producers.verification(self._producer.producer_id) if is_asked else None

    def _refused(self, topic_partition: TopicPartition, error: KafkaError) -> UnverifiedError:
        told = translated(error, self._ability)
        if told.code not in NOT_NOW:
            producers = self._ground.topics.partition(*topic_partition).log.producers
            producers.end_verification(self._producer.producer_id)
        return told


class AskedTransactions:
    """What Produce wants of the transaction coordinator, which is in the first process."""

    def __init__(self, link: Link, ground: Ground) -> None:
        self._link = link
        self._ground = ground

    def verification(
        self, transactional_id: str, producer: Producer, ability: Ability, sequences: Mapping[TopicPartition, int]
    ) -> AskedVerification:
        """As `TransactionService.verification`."""
        return AskedVerification(self._link, self._ground, transactional_id, producer, ability, sequences)
