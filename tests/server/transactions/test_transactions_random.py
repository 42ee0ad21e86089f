"""Random histories of transactions: producers, zombies, restarts, power losses, partitions that come and go.

They are checked against the log, and against the answers to producers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.coordination.records import Producer
from ottla.server.transactions import completer
from ottla.storage.disk.paths import TopicPartition
from support.broker.steppable_wall import WALL_STEPS_MS
from support.groups.settings import transaction_settings
from support.sizes import size
from support.transactions.transaction_checks import check_written
from support.transactions.transactions import Power, PowerLossError, Transactions

IDS = ["x", "y", "z"]
PARTITIONS = [TopicPartition("t", number) for number in range(4)]
DOOMED = TopicPartition("doomed", 0)
STEPS = 120

EXPECTED_CODES = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
}

GIVES_UP = EXPECTED_CODES - {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE}


class Ended(NamedTuple):
    """A transaction whose end was answered to a producer."""

    producer: Producer
    partitions: frozenset[TopicPartition]
    commit: bool


class Client:
    """One producer program, which may have been replaced without knowing."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.producer: Producer | None = None
        self.added: set[TopicPartition] = set()
        self.ending: bool | None = None
        """Whether to commit, once it has sent EndTxn: it repeats the request until it is answered."""

    def restart(self, producer: Producer | None) -> None:
        self.producer, self.ending = producer, None
        self.added.clear()


class Life:
    def __init__(self, seed: int, version: int) -> None:
        self.rng = random.Random(seed)
        self.version = version
        settings = transaction_settings(
            transactional_id_expiration_ms=300_000, transaction_remove_expired_transaction_cleanup_interval_ms=60_000
        )
        self.transactions = Transactions(version=version, settings=settings)
        self.clients = [Client(transactional_id) for transactional_id in (*IDS, "x")]
        self.ended: list[Ended] = []
        self.given: list[Producer] = []
        """Producers that began without an earlier id."""

    def run(self) -> None:
        self.let_in_between()
        for _ in range(STEPS):
            if self.rng.random() < 0.3:
                self.heal()
            client = self.rng.choice(self.clients)
            (step,) = self.rng.choices([self.act, self.wait, self.trouble], (80, 12, 8))
            try:
                self.attempt(step, client)
            except PowerLossError:
                self.restart()
        self.calm_down()

    def attempt(self, step: Callable[[Client], None], client: Client) -> None:
        try:
            step(client)
        except KafkaError as error:
            assert error.code in EXPECTED_CODES, error
            if error.code in GIVES_UP and self.rng.random() < 0.7:
                client.restart(None)

    def let_in_between(self) -> None:
        """Let producers send requests at random between the pieces of due work."""
        self.transactions.is_over = lambda: self.rng.random() < 0.5
        self.transactions.between = self.act_in_between

    def act_in_between(self) -> None:
        if self.rng.random() < 0.3:
            self.attempt(self.act, self.rng.choice(self.clients))

    def act(self, client: Client) -> None:
        if client.producer is None or self.rng.random() < 0.04:
            self.init(client)
        elif client.ending is not None or (client.added and self.rng.random() < 0.6):
            self.end(client, client.producer)
        else:
            self.add(client, client.producer)

    def restart(self) -> None:
        self.transactions = Transactions(version=self.version, after=self.transactions, power=Power())
        self.let_in_between()

    def init(self, client: Client) -> None:
        expected = client.producer if self.rng.random() < 0.3 else None
        producer = self.transactions.init(client.transactional_id, expected=expected)
        client.restart(producer)
        if expected is None:
            self.given.append(producer)

    def add(self, client: Client, producer: Producer) -> None:
        partitions = self.rng.sample([*PARTITIONS, DOOMED], self.rng.randint(1, 3))
        self.transactions.add(client.transactional_id, producer, *partitions)
        client.added.update(partitions)

    def end(self, client: Client, producer: Producer) -> None:
        if client.ending is None:
            client.ending = self.rng.random() < 0.6
        ended = Ended(producer, frozenset(client.added), client.ending)
        client.restart(self.transactions.end(client.transactional_id, producer, commit=ended.commit))
        self.ended.append(ended)

    def wait(self, _: Client) -> None:
        self.transactions.advance(self.rng.choice([1, 500, 5_000, 20_000, 90_000]))

    def heal(self) -> None:
        self.transactions.store.failure = None
        self.transactions.markers.refusing = set()

    def trouble(self, _: Client) -> None:
        transactions = self.transactions
        match self.rng.randrange(6):
            case 0:
                transactions.markers.refusing = set(self.rng.sample(PARTITIONS, self.rng.randint(1, 3)))
            case 1:
                transactions.markers.deleted.add(DOOMED)
            case 2:
                transactions.store.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
            case 3:
                self.restart()
            case 4:
                transactions.set_wall(self.rng.choice([*WALL_STEPS_MS.values()]))
            case _:
                transactions.store.power = transactions.markers.power = Power(self.rng.randint(0, 4))

    def calm_down(self) -> None:
        """Let everything work again; open transactions time out."""
        self.restart()
        self.heal()
        self.transactions.between = lambda: None
        self.transactions.advance(90_000)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("block", range(size(1, 4)))
def test_random_histories_complete_their_transactions(
    version: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise no transaction here has enough partitions for markers in pieces.
    monkeypatch.setattr(completer, "MARKERS_A_PIECE", 1)
    told = 0
    for seed in range(block * 25, block * 25 + size(4, 25)):
        life = Life(seed, version)
        life.run()
        told += len(life.ended)
        transactions = life.transactions
        assert not any(shard.open for shard in transactions.coordinator.shards)
        check_written(transactions, IDS)
        check_answered(life)
    assert told > size(50, 200), "lives in which hardly anything happens show nothing"


def check_answered(life: Life) -> None:
    """Check that every answered end has happened, and that no two producers got the same id and epoch."""
    written = life.transactions.markers.written
    for ended in life.ended:
        epoch = ended.producer.producer_epoch + (1 if life.version == 2 else 0)
        for partition in ended.partitions - {DOOMED}:
            decisions = {
                marker.commit
                for where, marker in written
                if where == partition
                and (marker.producer_id, marker.producer_epoch) == (ended.producer.producer_id, epoch)
            }
            if life.version == 2:
                assert decisions == {ended.commit}
            else:
                assert ended.commit in decisions
    assert len(set(life.given)) == len(life.given)
