"""Scenarios of transactions, the same for every client, read by librdkafka and inspected by kafka-python's admin client."""

import itertools
from collections.abc import Callable
from functools import partial

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import AbortTransactionSpec

from ..support.brokers.process import Broker
from ..support.clients.steps import admin, create_topic, read_partitions
from ..support.suite import Suite
from .members import eventually, name_of
from .producers import PRODUCERS, Place, Producer

numbers = itertools.count(1)
FENCED = ("_FENCED", "PRODUCER_FENCED", "ProducerFencedError", "ProducerFenced", "InvalidProducerEpochError")
TIMED_OUT = (*FENCED, "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "InvalidTxnState", "InvalidTxnStateError")
STALE = (
    "UNKNOWN_MEMBER_ID",
    "UnknownMemberIdError",
    "ILLEGAL_GENERATION",
    "IllegalGenerationError",
    "CommitFailedError",
)


class Scenario:
    """A topic, a transactional id and a group of its own, for one client."""

    def __init__(self, suite: Suite, broker: Broker, kind: type[Producer], what: str) -> None:
        self.suite, self.bootstrap, self.kind = suite, broker.bootstrap, kind
        self.what = f"{kind.client}, {what}"
        self.name = f"transactions-{kind.client}-{next(numbers)}"
        self.place: Place = (self.name, 0)
        create_topic(self.bootstrap, self.name, partitions=1)

    def producer(self, **options: int) -> Producer:
        return self.kind(self.bootstrap, self.name, **options)

    def plain(self, *values: bytes) -> None:
        """Produce records without transactions."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        for value in values:
            producer.produce(self.name, value, partition=0)
            producer.flush(30)

    def values(self, isolation: str = "read_committed", place: Place | None = None) -> list[bytes | None]:
        place = place or self.place
        return [record.value for record in read_partitions(self.bootstrap, [place], isolation=isolation)[place]]

    def committed(self) -> int | None:
        """Return the group's offset in partition 0."""
        client = admin(self.bootstrap)
        (answer,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.name)]).values()
        return next((each.offset for each in answer.result(30).topic_partitions if each.offset >= 0), None)

    def equal(self, what: str, expected: object, actual: object) -> None:
        self.suite.equal(f"{self.what}: {what}", expected, actual)

    def raises(self, what: str, names: tuple[str, ...], call: Callable[[], object]) -> None:
        self.suite.check(f"{self.what}: {what}", (name := error_of(call)) in names, name)


def error_of(call: Callable[[], object]) -> str:
    """Return the client's name of the error that `call` raises; empty if it raises none."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - clients raise what they like, the name is judged
        return name_of(error)
    return ""


def judge_transactions(suite: Suite, broker: Broker) -> None:
    for kind in PRODUCERS:
        for scenario, what in SCENARIOS:
            scenario(Scenario(suite, broker, kind, what))


def commit_and_abort(on: Scenario) -> None:
    producer = on.producer()
    for number, end in enumerate((producer.commit, producer.abort, producer.commit)):
        producer.begin()
        producer.send(on.place, b"%d-a" % number)
        producer.send(on.place, b"%d-b" % number)
        end()
    producer.close()
    on.equal("read_committed sees the committed ones", [b"0-a", b"0-b", b"2-a", b"2-b"], on.values())
    on.equal("read_uncommitted sees all", 6, len(on.values("read_uncommitted")))


def open_transaction_hides(on: Scenario) -> None:
    producer = on.producer()
    on.plain(b"before")
    producer.begin()
    producer.send(on.place, b"inside")
    on.plain(b"behind")
    on.equal("records after an open transaction are not seen", [b"before"], on.values())
    on.equal("read_uncommitted does", [b"before", b"inside", b"behind"], on.values("read_uncommitted"))
    producer.commit()
    producer.close()
    on.equal("all is seen in its order after the commit", [b"before", b"inside", b"behind"], on.values())


def fenced(on: Scenario) -> None:
    older = on.producer()
    older.begin()
    older.send(on.place, b"older")
    newer = on.producer()
    newer.begin()
    newer.send(on.place, b"newer")
    on.raises("the older one cannot commit", FENCED, older.commit)
    newer.commit()
    older.close()
    newer.close()
    on.equal("only the newer one's record is seen", [b"newer"], on.values())


def copied(on: Scenario) -> None:
    target = (f"{on.name}-copy", 0)
    create_topic(on.bootstrap, target[0])
    on.plain(*(b"%d" % number for number in range(5)))
    producer = on.producer()
    producer.begin()
    producer.copy(on.name, target, on.name, 3)
    producer.abort()
    on.equal("aborted: no offset", None, on.committed())
    on.equal("aborted: no record", [], on.values(place=target))
    producer.begin()
    producer.copy(on.name, target, on.name, 3)
    on.equal("not yet committed: no offset", None, on.committed())
    producer.commit()
    on.equal("committed: the offset", 3, on.committed())
    producer.begin()
    producer.copy(on.name, target, on.name, 2)
    producer.commit()
    producer.close()
    on.equal("every record once", [b"%d" % number for number in range(5)], on.values(place=target))
    on.equal("the offset behind them", 5, on.committed())


def stale_member(on: Scenario) -> None:
    if not on.kind.knows_members:
        return
    target = (f"{on.name}-copy", 0)
    create_topic(on.bootstrap, target[0])
    on.plain(b"one")
    producer = on.producer()
    producer.begin()
    on.raises(
        "its offsets are refused", STALE, partial(producer.copy, on.name, target, on.name, 1, member_is_stale=True)
    )
    producer.abort()
    producer.close()
    on.equal("nothing was committed", (None, []), (on.committed(), on.values(place=target)))


def timed_out(on: Scenario) -> None:
    producer = on.producer(timeout_ms=1_000)
    producer.begin()
    producer.send(on.place, b"too late")
    on.plain(b"behind")
    seen = eventually(lambda: on.values() == [b"behind"])
    on.suite.check(f"{on.what}: aborted by the broker", seen, on.values())
    on.raises("the producer cannot commit any more", TIMED_OUT, producer.commit)
    producer.close()


def aborted_by_an_admin(on: Scenario) -> None:
    producer = on.producer()
    producer.begin()
    producer.send(on.place, b"hanging")
    on.plain(b"behind")
    client = KafkaAdminClient(bootstrap_servers=on.bootstrap)
    partition = TopicPartition(*on.place)
    try:
        described = client.describe_transactions([on.name])[on.name]
        on.equal(
            "described: ongoing, in its partition",
            ("Ongoing", {partition}),
            (described.state.value, described.topic_partitions),
        )
        listed = [
            each.transactional_id
            for node in client.list_transactions(state_filters=["Ongoing"]).values()
            for each in node
        ]
        on.suite.check(f"{on.what}: listed as ongoing", on.name in listed, listed)
        (active,) = (
            each
            for each in client.describe_producers([partition])[partition].active_producers
            if each.current_transaction_start_offset >= 0
        )
        on.equal(
            "described: the producer",
            (described.producer_id, 0),
            (active.producer_id, active.current_transaction_start_offset),
        )
        client.abort_transaction(AbortTransactionSpec(partition, active.producer_id, active.producer_epoch))
    finally:
        client.close()
    on.equal("aborted", [b"behind"], on.values())
    producer.close()


SCENARIOS = (
    (commit_and_abort, "commit and abort"),
    (open_transaction_hides, "an open transaction"),
    (fenced, "fencing"),
    (copied, "consume, process, produce"),
    (stale_member, "a member that has left"),
    (timed_out, "time-out"),
    (aborted_by_an_admin, "admin"),
)
