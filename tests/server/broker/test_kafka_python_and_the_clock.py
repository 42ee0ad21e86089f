"""The effects of time on topics, as kafka-python sees them: the test moves the broker's clock and does not wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import PolicyViolationError

import ottla
from support.sizes import size

HOUR_MS = 3_600_000
PATIENCE_S = 60
P0 = TopicPartition("t", 0)


class Stock:
    """A stock producer, consumer and admin client of one broker."""

    def __init__(self, broker: ottla.Broker, data: Path) -> None:
        self.broker, self.data = broker, data
        self.producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=0)
        self.consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
        self.admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)

    def close(self) -> None:
        for client in (self.producer, self.consumer, self.admin):
            client.close()

    def create(self, **configs: object) -> None:
        topic_configs = {name.replace("_", "."): str(value) for name, value in configs.items()}
        self.admin.create_topics([NewTopic("t", 1, 1, topic_configs=topic_configs)])

    def write(self, count: int, value: bytes = b"v") -> None:
        done = [self.producer.send("t", key=b"k%d" % number, value=value) for number in range(count)]
        self.producer.flush()
        assert all(future.succeeded() for future in done)

    def start_offset(self) -> int:
        return int(self.consumer.beginning_offsets([P0])[P0])

    def end_offset(self) -> int:
        return int(self.consumer.end_offsets([P0])[P0])

    def directories(self) -> list[str]:
        return sorted(path.name for path in self.data.iterdir() if path.is_dir())


@pytest.fixture
def stock(tmp_path: Path) -> Iterator[Stock]:
    with ottla.Broker(str(tmp_path)) as broker:
        clients = Stock(broker, tmp_path)
        yield clients
        clients.close()


def comes_true(condition: Callable[[], bool]) -> bool:
    """Return whether the condition becomes true. Each check sends a request, and work that is due runs between the checks."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (holds := condition()) and time.monotonic() < deadline_s:
        pass
    return holds


def stays_untrue(condition: Callable[[], bool]) -> bool:
    """Return whether many checks find the condition false."""
    return not any(condition() for _ in range(size(50, 500)))


def test_records_older_than_retention_ms_are_deleted_and_offsets_continue(stock: Stock) -> None:
    stock.create(retention_ms=HOUR_MS)
    stock.write(10)
    stock.broker.advance_clock(HOUR_MS // 2)
    assert stock.start_offset() == 0
    stock.broker.advance_clock(HOUR_MS)
    assert comes_true(lambda: stock.start_offset() == 10)
    assert stock.end_offset() == 10
    stock.write(1)
    assert (stock.start_offset(), stock.end_offset()) == (10, 11)


def test_a_compacted_topic_keeps_old_records(stock: Stock) -> None:
    stock.create(retention_ms=HOUR_MS, cleanup_policy="compact")
    stock.write(10)
    stock.broker.advance_clock(10 * HOUR_MS)
    assert stays_untrue(lambda: stock.start_offset() > 0)


def test_a_topic_larger_than_retention_bytes_loses_its_oldest_segments(stock: Stock) -> None:
    stock.create(retention_bytes=2 << 20, segment_bytes=1 << 20)
    stock.write(600, b"v" * 10_000)
    stock.broker.advance_clock(HOUR_MS)
    assert comes_true(lambda: stock.start_offset() > 0)
    left = stock.end_offset() - stock.start_offset()
    # Retention deletes whole segments, and always leaves at least retention.bytes.
    assert 2 << 20 <= left * 10_000 <= 3 << 20


def test_a_deleted_topic_disappears_at_once_and_its_files_after_the_delay(stock: Stock) -> None:
    stock.create(file_delete_delay_ms=HOUR_MS)
    stock.write(3)
    stock.admin.delete_topics(["t"])
    assert "t" not in stock.admin.list_topics()
    (aside,) = stock.directories()
    assert aside.startswith("t-0.") and aside.endswith("-delete")
    stock.broker.advance_clock(HOUR_MS // 2)
    assert stays_untrue(lambda: stock.admin.list_topics() is None or stock.directories() == [])
    stock.broker.advance_clock(HOUR_MS)
    assert comes_true(lambda: stock.admin.list_topics() is not None and stock.directories() == [])


def test_deleted_records_are_hidden_at_once_and_their_segments_deleted_by_retention(stock: Stock) -> None:
    stock.create(segment_bytes=1 << 20)
    stock.write(300, b"v" * 10_000)
    segments = len(list((stock.data / "t-0").glob("*.log")))
    stock.admin.delete_records({P0: 250})
    assert stock.start_offset() == 250
    stock.broker.advance_clock(HOUR_MS)
    assert comes_true(lambda: stock.start_offset() == 250 and len(list((stock.data / "t-0").glob("*.log"))) < segments)
    stock.admin.delete_records({P0: -1})
    assert stock.start_offset() == stock.end_offset() == 300


def test_records_of_a_compacted_topic_cannot_be_deleted(stock: Stock) -> None:
    stock.create(cleanup_policy="compact")
    stock.write(3)
    with pytest.raises(PolicyViolationError):
        stock.admin.delete_records({P0: 1})
    assert stock.start_offset() == 0
