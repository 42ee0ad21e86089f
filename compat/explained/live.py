"""Random histories of topics in a running broker whose clock only moves when the suite moves it.

After some steps the broker is asked why a partition is not cleaned. If only time is missing, the suite moves the clock to a
millisecond before the reported moment, and then by one more: the cleaner must take the log then, and not before. Otherwise the
suite carries out one of the remedies as written. Then the partition must be eligible, or the forced pass must do what its dry
run reported.
"""

from __future__ import annotations

import random
from collections import Counter

import ottla
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.server.cleaning.advice import Remedy
from ottla.server.services.explaining import PartitionExplanation
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient
from support.transactions.transactional_client import TransactionalClient

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
NEVER_MS = 10**14
TIME_OUTS_EVERY_MS = 10_000
"""`transaction.abort.timed.out.transaction.cleanup.interval.ms`: after one check the next is this much later."""
OVERRIDES = {
    "log.cleaner.backoff.ms": 1,  # it looks whenever its clock is moved
    "log.retention.check.interval.ms": NEVER_MS,
    "log.initial.task.delay.ms": NEVER_MS,
}


class LiveHistories:
    """All histories in one broker, one topic each."""

    def __init__(self) -> None:
        self.met: Counter[str] = Counter()
        self.broker = ottla.Broker(overrides=OVERRIDES).start()
        self.broker.clock.freeze()
        self.client = RawClient(*address(self.broker))

    def close(self) -> None:
        self.client.close()
        self.broker.stop()

    def run(self, name: str) -> None:
        """Run a history. Raises AssertionError if an explanation is wrong."""
        _History(self, random.Random(name), f"t-{name.replace(' ', '-')}").run()


class _History:
    def __init__(self, all_of_them: LiveHistories, rng: random.Random, topic: str) -> None:
        self._met, self._broker, self._client = all_of_them.met, all_of_them.broker, all_of_them.client
        self._rng, self._topic = rng, topic
        self._producers: list[TransactionalClient] = []

    def run(self) -> None:
        rng = self._rng
        create_topic(
            self._client,
            self._topic,
            cleanup_policy=rng.choice(("compact", "compact", "compact", "delete")),
            internal_segment_bytes=rng.choice((1_000, 1_000_000)),
            segment_ms=rng.choice((24, 7 * 24)) * HOUR_MS,
            min_compaction_lag_ms=rng.choice((0, 0, HOUR_MS, 30 * HOUR_MS)),
            max_compaction_lag_ms=rng.choice((NEVER_MS, 50 * HOUR_MS)),
            min_cleanable_dirty_ratio=rng.choice((0.1, 0.5, 1.0)),
            delete_retention_ms=rng.choice((0, HOUR_MS)),
        )
        for _ in range(rng.randint(1, 4)):
            for _ in range(rng.randint(1, 8)):
                rng.choice((self._write, self._write, self._write, self._transact, self._wait))()
            self._ask()
        for producer in self._producers:
            producer.try_to_end(commit=rng.random() < 0.5)
        self._broker.delete_topic(self._topic)

    def _write(self, timestamp: int | None = None) -> None:
        value = self._rng.choice(("v" * 300, "v", None))
        at_ms = self._broker.clock.now_ms() if timestamp is None else timestamp
        produce(self._client, self._topic, (self._rng.choice("abc"), value), timestamp=at_ms)

    def _transact(self) -> None:
        if self._producers:
            self._producers.pop().try_to_end(commit=self._rng.random() < 0.5)  # it may have taken too long by now
            return
        producer = TransactionalClient(self._client, f"of {self._topic}", version=2, timeout_ms=10 * 60_000)
        producer.begin()
        producer.send(self._topic, ("a", "in a transaction"), timestamp=self._broker.clock.now_ms())
        self._producers.append(producer)

    def _wait(self) -> None:
        self._move(self._rng.choice((60_000, HOUR_MS)))

    def _move(self, by_ms: int) -> None:
        moved = self._broker.clock.advance(milliseconds=by_ms)
        assert moved.is_settled
        if by_ms > 9 * 60_000:
            self._producers.clear()  # they are fenced by now, or soon

    def _explained(self) -> PartitionExplanation:
        (found,) = self._broker.explain(self._topic).partitions
        return found

    def _ask(self) -> None:
        found = self._explained()
        self._met[f"waits for {found.waits_for or 'nothing'}"] += 1
        if found.eligible:
            self._must_be_cleaned()
        elif found.eligible_at_ms is not None and self._only_time_comes(found, found.eligible_at_ms):
            self._move_to(found.eligible_at_ms, found)
        elif found.remedies:
            self._try(found, self._rng.choice(found.remedies))

    def _only_time_comes(self, found: PartitionExplanation, until_ms: int) -> bool:
        """Return whether no segment rolls by the move itself before."""
        if until_ms > self._broker.clock.now_ms() + YEAR_MS:
            return False  # a thousand of them would leave the calendar
        return found.rolls_when_advanced_ms is None or found.rolls_when_advanced_ms > until_ms

    def _move_to(self, at_ms: int, found: PartitionExplanation) -> None:
        passes, now_ms = found.cleaner.passes, self._broker.clock.now_ms()
        before_ms = at_ms - (TIME_OUTS_EVERY_MS + 1 if found.transactions else 1)
        if before_ms > now_ms:
            self._move(before_ms - now_ms)
            before = self._explained()
            assert not before.eligible and before.cleaner.passes == passes, ("too early", found, before)
        self._move(at_ms - self._broker.clock.now_ms())
        then = self._explained()
        assert then.eligible or then.cleaner.passes > passes, ("not at the moment that was told", found, then)
        self._met["eligible when it was told"] += 1
        self._met["with an open transaction"] += bool(found.transactions)

    def _must_be_cleaned(self) -> None:
        """Check that a pass takes an eligible log, as in Kafka, and does what its dry run reported."""
        told = self._broker.dry_run(self._topic).partitions[0].would_pass
        (done,) = self._broker.compact(self._topic).partitions
        assert done.passes == 1, (told, done)
        assert told.stats.removed == done.records_removed, (told, done)
        assert (told.stats.bytes_written, told.end_offset) == (done.bytes_written, done.first_dirty_offset), (
            told,
            done,
        )
        self._met["a pass as its dry run"] += 1

    def _try(self, found: PartitionExplanation, remedy: Remedy) -> None:
        self._met[f"tried: {', '.join(remedy.moves)}"] += 1
        if remedy.moves in (("wait",), ("advance_clock",)):
            if remedy.eligible_at_ms is not None and remedy.eligible_at_ms < self._broker.clock.now_ms() + YEAR_MS:
                passes = found.cleaner.passes
                self._move(remedy.eligible_at_ms - self._broker.clock.now_ms())
                then = self._explained()
                assert then.eligible or then.cleaner.passes > passes, (remedy, found, then)
            return
        if remedy.moves == ("force",):
            told = self._broker.dry_run(self._topic, force=True).partitions[0].would_pass
            (done,) = self._broker.compact(self._topic, force=True).partitions
            assert told.stats.removed == done.records_removed, (told, done)
            return
        if remedy.moves == ("next_record",):
            assert found.rolls_from_ms is not None
            at_ms = max(found.rolls_from_ms, self._broker.clock.now_ms())
            if at_ms > self._broker.clock.now_ms() + HOUR_MS:  # message.timestamp.after.max.ms
                return
            self._write(at_ms)
        for command in remedy.commands:
            self._carry_out(command)
        then = self._explained()
        if remedy.eligible_at_ms is None:
            assert then.eligible, (remedy, found, then)
        elif not then.eligible:
            assert then.eligible_at_ms is not None and then.eligible_at_ms <= remedy.eligible_at_ms, (
                remedy,
                found,
                then,
            )

    def _carry_out(self, command: str) -> None:
        """Carry out a reported command by its effect."""
        words = command.split()
        if words[:2] == ["ottla", "roll"]:
            self._broker.roll(words[2])
        elif words[:3] == ["ottla", "configs", "alter"]:
            changes = dict(word.split("=", 1) for word in words[4:])
            self._broker.set_configs("topic", words[3].removeprefix("topic:"), changes)
        elif words[0] == "kafka-transactions.sh":
            self._abort(int(words[-1]))
            self._producers.clear()
        else:
            raise AssertionError(f"what is {command}?")

    def _abort(self, start_offset: int) -> None:
        request = DescribeProducersRequest(topics=(TopicRequest(name=self._topic, partition_indexes=(0,)),))
        (row,) = self._client.ask(request).topics[0].partitions
        (producer,) = [each for each in row.active_producers if each.current_txn_start_offset == start_offset]
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=(WritableTxnMarkerTopic(name=self._topic, partition_indexes=(0,)),),
            coordinator_epoch=max(0, producer.coordinator_epoch),
        )
        (written,) = self._client.ask(WriteTxnMarkersRequest(markers=(marker,))).markers
        assert written.topics[0].partitions[0].error_code == 0
