"""The work of share group members at one broker, and the expected state at the next broker that opens its directory."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer

from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

from ...support.brokers.process import BrokerProcess
from ...support.clients.share_member import (
    ACCEPT,
    NOT_YET,
    PAUSE_S,
    REJECT,
    RELEASE,
    ShareMember,
    checked,
    client_of,
    configure,
)
from ...support.clients.steps import read_partitions

TOPIC, PARTITIONS = "jobs", 2
MAIN, MOVED, STILL, GONE = "main", "moved", "still", "gone"
"""The groups: used at each broker; moved to another offset at each; unused since the first broker; deleted at once."""
GAP, KEEP = 0, -1
CHOICES = {ACCEPT: 35, RELEASE: 20, REJECT: 8, KEEP: 37}
"""The fate of an acquired record -> its weight. A kept record is still acquired when the broker ends."""
PIECE = 15
"""Offsets that one acknowledgement covers at most."""
Held = dict[int, dict[int, int]]
"""Partition -> offset -> how often it was delivered, this time included."""


@dataclass
class Ledger:
    """The records that members have finished.

    Attributes:
        done: (group, partition) -> offsets that were accepted or rejected.
        visible: Partition -> offsets that have a record visible to read_committed consumers.
    """

    done: dict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    visible: dict[int, set[int]] = field(default_factory=dict)


def write(bootstrap: str, life: int) -> None:
    """Produce to both partitions, with a committed and an aborted transaction: gaps, and records that no member gets."""
    refused: list[str] = []

    def judge(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(f"{message.topic()}-{message.partition()}: {error}")

    def send(count: int, **options: str) -> Producer:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.num.messages": 20, **options})
        if options:
            producer.init_transactions(60)
            producer.begin_transaction()
        for number in range(count):
            value = f"{life}-{number}".encode()
            producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=judge)
        assert producer.flush(60) == 0 and not refused, refused[:3]
        return producer

    send(120)
    send(20, **{"transactional.id": "t-committed"}).commit_transaction(60)
    send(20, **{"transactional.id": "t-aborted"}).abort_transaction(60)


def see(bootstrap: str, ledger: Ledger) -> None:
    """Note the offsets that have a record, as a consumer finds them."""
    found = read_partitions(bootstrap, [(TOPIC, one) for one in range(PARTITIONS)], isolation="read_committed")
    ledger.visible = {partition: {record.offset for record in read} for (_, partition), read in found.items()}


def member(broker: BrokerProcess, group: str, *, before: ShareMember | None = None) -> ShareMember:
    """Return a member with both partitions; it continues with the id and epoch of the member `before` it."""
    one = ShareMember(broker.bootstrap, group, TOPIC)
    configure(one.client, group, "earliest")
    configure(one.client, group, "read_committed", "share.isolation.level")
    if before is not None:
        one.name, one.epoch = before.name, before.epoch
        _come_back(one)
    one.join(PARTITIONS)
    return one


def _come_back(one: ShareMember) -> None:
    """Send a full heartbeat, whose answer has the full assignment in any epoch."""
    request = ShareGroupHeartbeatRequest(
        group_id=one.group, member_id=one.name, member_epoch=one.epoch, subscribed_topic_names=(TOPIC,)
    )
    while (answer := one.client.ask(request, 1)).error_code in NOT_YET:
        time.sleep(PAUSE_S)
    one.epoch = checked(answer).member_epoch
    (own,) = answer.assignment.topic_partitions
    one.topic_id, one.partitions = own.topic_id, frozenset(own.partitions)


def take_all(one: ShareMember, held: Held) -> None:
    """Acquire until no more records arrive, and add them to the held ones."""
    quiet = 0
    one.beat()
    while quiet < 3:
        found, _ = one.fetch({}, 1000, max_wait_ms=300)
        quiet = 0 if found else quiet + 1
        for each in found:
            held.setdefault(each.partition, {}).update(dict.fromkeys(range(each.first, each.last + 1), each.deliveries))


def work(one: ShareMember, held: Held, ledger: Ledger, rng: random.Random, rounds: int) -> None:
    """Acknowledge some of the records, in many small pieces, and acquire the released ones again."""
    for _ in range(rounds):
        for partition, counts in held.items():
            for piece in _pieces(sorted(counts)):
                _acknowledge(one, partition, piece, counts, ledger, rng)
        take_all(one, held)


def _pieces(offsets: list[int]) -> list[list[int]]:
    """Group neighbouring offsets, at most PIECE in a group."""
    found: list[list[int]] = []
    for offset in offsets:
        if found and found[-1][-1] == offset - 1 and len(found[-1]) < PIECE:
            found[-1].append(offset)
        else:
            found.append([offset])
    return found


def _acknowledge(
    one: ShareMember, partition: int, piece: list[int], counts: dict[int, int], ledger: Ledger, rng: random.Random
) -> None:
    chosen = {
        offset: rng.choices([*CHOICES], [*CHOICES.values()])[0] if offset in ledger.visible[partition] else GAP
        for offset in piece
    }
    said = [offset for offset in piece if chosen[offset] != KEEP]
    if not said:
        return
    refused = one.acknowledge({partition: [(each[0], each[-1], [chosen[o] for o in each]) for each in _pieces(said)]})
    assert not refused, refused
    for offset in said:
        del counts[offset]
        if chosen[offset] in (ACCEPT, REJECT):
            ledger.done[one.group, partition].add(offset)


def move(bootstrap: str, group: str, start: int) -> None:
    """Let an empty group begin at another offset of both partitions."""
    rows = tuple(
        AlterShareGroupOffsetsRequestPartition(partition_index=one, start_offset=start) for one in range(PARTITIONS)
    )
    topic = AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=rows)
    with client_of(bootstrap) as client:
        answer = client.ask(AlterShareGroupOffsetsRequest(group_id=group, topics=(topic,)))
    refused = [row for each in answer.responses for row in each.partitions if row.error_code]
    assert answer.error_code == 0 and not refused, answer


def delete(bootstrap: str, group: str) -> None:
    with client_of(bootstrap) as client:
        (answer,) = client.ask(DeleteGroupsRequest(groups_names=(group,))).results
    assert answer.error_code == 0, answer
