"""The newest values of a topic by each way to read them: the table, `consume --latest`, snapshots and Spark's `latest`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the extra ottla[spark]")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra ottla[spark]")

import ottla
from ottla.pipeline import latest
from ottla.pipeline.snapshot.snapshot import take_snapshot
from ottla.pipeline.stores.store import Store
from support.broker.conversation import address
from support.broker.raw_client import RawClient
from support.commands.command_runs import run_command
from support.sizes import size
from support.transactions.transactional_client import TransactionalClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = ["a", "b", "", "key-4", "k" * 50]
Newest = dict[tuple[int, bytes], tuple[int, bytes]]
"""Partition and key -> offset and value."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(tmp_path / "data", overrides={"log.cleaner.backoff.ms": 10**14}) as running:
        yield running


class History:
    """A random history of one topic: records and tombstones, transactions, rolls, passes."""

    def __init__(self, broker: ottla.Broker, client: RawClient, rng: random.Random) -> None:
        self._broker, self._rng = broker, rng
        self._producers = [TransactionalClient(client, name, version=2) for name in ("x", "y")]
        self._partitions: dict[TransactionalClient, int] = {}
        """Producers with an open transaction, and the partition of it."""

    def step(self) -> None:
        broker, rng = self._broker, self._rng
        action = rng.choice(["put", "put", "put", "transaction", "transaction", "roll", "compact"])
        if action == "put":
            broker.produce_all("t", [self._record() for _ in range(rng.randint(1, 4))])
        elif action == "roll":
            broker.roll("t")
        elif action == "compact":
            broker.compact("t", force=rng.random() < 0.7)
        else:
            producer = rng.choice(self._producers)
            if producer not in self._partitions:
                self._partitions[producer] = rng.randrange(2)
                producer.begin()
                producer.add("t", self._partitions[producer])
            pairs = [(each.key, each.value) for each in (self._record(), self._record())]
            producer.produce("t", *pairs, partition=self._partitions[producer])
            if rng.random() < 0.7:
                producer.end(commit=rng.random() < 0.6)
                del self._partitions[producer]

    def _record(self) -> ottla.NewRecord:
        rng = self._rng
        value = None if rng.random() < 0.25 else rng.choice(["", str(rng.randrange(1_000)), "v" * 300])
        number = rng.choice([None, *range(-2, 5)])
        return ottla.NewRecord(
            value,
            rng.choice(KEYS),
            () if number is None else {"v": number.to_bytes(8, signed=True)},
            partition=rng.randrange(2),
            timestamp_ms=1_000 + (number or 0),
        )


def in_table(broker: ottla.Broker) -> Newest:
    with broker.table("t") as table:
        return {(each.partition, each.key or b""): (each.offset, each.value or b"") for each in table.records()}


def consumed(broker: ottla.Broker) -> Newest:
    done = run_command("consume", "t", "--latest", "--json", "--bootstrap", broker.bootstrap)
    assert done.code == 0, done.err
    found = map(json.loads, done.out.splitlines())
    return {(each["partition"], each["key"].encode()): (each["offset"], each["value"].encode()) for each in found}


def in_snapshot(data_dir: str, out: str) -> Newest:
    take_snapshot(Store(data_dir), "t", out, now_ms=1_000, overwrite=True)
    rows = pq.read_table(out).to_pylist()
    return {(each["partition"], each["key"]): (each["offset"], each["value"]) for each in rows}


@pytest.mark.parametrize("strategy", ["offset", "timestamp", "header"])
@pytest.mark.parametrize("seed", range(size(1, 7)))
def test_table_consume_snapshot_and_latest_show_the_same(
    broker: ottla.Broker, spark: SparkSession, tmp_path: Path, seed: int, strategy: str
) -> None:
    configs = {"ottla.compaction.strategy": strategy, "ottla.compaction.strategy.header": "v"}
    broker.create_topic("t", 2, {"cleanup.policy": "compact", "delete.retention.ms": 0, **configs})
    data_dir = str(tmp_path / "data")
    with RawClient(*address(broker)) as client:
        history = History(broker, client, random.Random(seed))
        for _ in range(size(6, 12)):
            for _ in range(8):
                history.step()
            expected = in_table(broker)
            assert consumed(broker) == expected
            assert in_snapshot(data_dir, str(tmp_path / "out")) == expected
        rows = latest(spark, data_dir, topic="t").collect()
    assert {(row.partition, bytes(row.key)): (row.offset, bytes(row.value)) for row in rows} == expected
