"""Disks that are full, slow or failed because a fault says so."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.server.broker.supervisor import RunEndedError
from ottla.server.faults.disk import DiskFiles
from ottla.server.runtime.errors import ControlError
from ottla.storage.disk.os_files import OsFile, OsFiles
from support.broker.conversation import address, create_topic, fetch, list_offset, produce, records_of
from support.broker.raw_client import RawClient

AN_HOUR = timedelta(hours=1)
LATEST = -1


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(tmp_path) as broker, connected(broker) as client:
        create_topic(client, "t")
        produce(client, "t", ("k", "before"))
        yield broker


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[RawClient]:
    with connected(broker) as client:
        yield client


def connected(broker: ottla.Broker) -> RawClient:
    return RawClient(*address(broker), timeout_s=60)


def values(client: RawClient) -> list[bytes | None]:
    return [value for _, _, value in records_of(fetch(client, "t", 0))]


def test_a_full_disk_refuses_writes_and_allows_reads(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault(disk="full")
    refused = produce(client, "t", ("k", "refused"))
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert refused.error_message == "t-0: [Errno 28] No space left on device"
    assert create_topic(client, "new").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert values(client) == [b"before"]
    assert fault.hits >= 2
    fault.remove()
    assert produce(client, "t", ("k", "after")).base_offset == 1
    assert create_topic(client, "new").error_code == 0
    assert values(client) == [b"before", b"after"]


def test_a_batch_of_megabytes_is_refused(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "large", max_message_bytes=8 << 20)
    with broker.fault(disk="full"):
        assert produce(client, "large", ("k", "v" * (3 << 20))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert list_offset(client, "large", LATEST) == (0, 0)
    assert produce(client, "large", ("k", "v" * (3 << 20))).base_offset == 0


def test_failure_of_the_last_disk_stops_the_broker_until_the_restart(broker: ottla.Broker, client: RawClient) -> None:
    supervisor = broker._supervisor

    async def until_listeners_are_closed() -> None:
        while any(node.listeners[0].is_listening for node in supervisor.nodes):
            await supervisor._changed.wait()

    fault = broker.fault(disk="failed")
    with suppress(ConnectionError):  # the broker may have no time for the answer
        assert produce(client, "t", ("k", "refused")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    broker.run(until_listeners_are_closed)
    with pytest.raises(RunEndedError, match=r"^the broker is down: all data directories have failed: .*: \[Errno 5\]"):
        broker.move_leader("t", 0, 0)
    with pytest.raises(OSError):
        connected(broker)
    assert not fault.is_active
    broker.restart()
    with connected(broker) as again:
        assert produce(again, "t", ("k", "after")).base_offset == 1
        assert values(again) == [b"before", b"after"]


def test_an_unreadable_response_ends_its_connection(broker: ottla.Broker, client: RawClient) -> None:
    broker.fault(disk="failed")
    with pytest.raises(ConnectionError):
        fetch(client, "t", 0)


def test_disk_faults_end_with_the_run(broker: ottla.Broker) -> None:
    of_disk = broker.fault(disk="full")
    of_requests = broker.fault("Produce", error="NOT_LEADER_OR_FOLLOWER", skip=5)
    broker.restart()
    assert [fault.fault_id for fault in broker.faults()] == [of_requests.id]
    assert not of_disk.is_active


def test_a_fault_may_fill_only_one_disk(tmp_path: Path) -> None:
    dirs = [str(tmp_path / name) for name in ("a", "b")]
    with ottla.Broker(overrides={"log.dirs": ",".join(dirs)}) as broker, connected(broker) as client:
        create_topic(client, "t", 2)
        of = {
            partition: Path(broker.inner.services.logs.data_dir_of(log.topic_partition)).name
            for partition in (0, 1)
            for log in [broker.inner.services.topics.partition("t", partition).log]
        }
        assert sorted(of.values()) == ["a", "b"]
        broker.fault(disk="full", data_dir=dirs[0])
        found = {
            of[partition]: produce(client, "t", ("k", "v"), partition=partition).error_code for partition in (0, 1)
        }
        assert found == {"a": ErrorCode.KAFKA_STORAGE_ERROR, "b": 0}
        with pytest.raises(ControlError, match=r"^data directory '/c' not found; data directories: .*/a, .*/b$"):
            broker.fault(disk="full", data_dir="/c")


def test_only_operations_on_a_slow_disk_wait_longer(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "flushed", flush_messages=1)
    fault = broker.fault(disk="slow", delay=AN_HOUR)
    with ThreadPoolExecutor(1) as thread, connected(broker) as other:
        waiting = thread.submit(produce, other, "flushed", ("k", "v"))
        fault.wait()
        assert produce(client, "t", ("k", "v")).base_offset == 1, "the page cache takes it"
        assert not waiting.done()
        fault.remove()
        assert waiting.result().base_offset == 0


def test_data_of_a_slow_disk_are_not_in_memory(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault(disk="slow", delay=AN_HOUR)
    with ThreadPoolExecutor(1) as thread, connected(broker) as other:
        waiting = thread.submit(values, other)
        fault.wait()
        assert produce(client, "t", ("k", "after")).error_code == 0
        fault.remove()
        assert waiting.result()[0] == b"before"


def test_data_read_from_a_slow_disk_are_then_in_memory(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault(disk="slow", delay=0.001)
    assert values(client) == [b"before"]
    fault.wait()
    assert values(client) == [b"before"]


def test_a_stop_does_not_wait_for_a_slow_disk(broker: ottla.Broker) -> None:
    with connected(broker) as client:
        create_topic(client, "flushed", flush_messages=1)
        broker.fault(disk="slow", delay=AN_HOUR)
        broker.restart()
    with connected(broker) as again:
        assert produce(again, "flushed", ("k", "v")).error_code == 0


def test_files_of_a_healthy_disk_are_not_wrapped(broker: ottla.Broker) -> None:
    files = broker.inner.files
    assert isinstance(files, DiskFiles)
    (disk,) = files._disks.values()
    assert set(vars(disk.file_class)) <= {"__slots__", "__module__", "__doc__"}
    for trouble in ("full", "failed"):
        with broker.fault(disk=trouble):
            assert disk.file_class.append is not OsFile.append
        assert disk.file_class.append is OsFile.append
        assert set(vars(disk.file_class)) <= {"__slots__", "__module__", "__doc__"}


def test_custom_files_get_no_faults(tmp_path: Path) -> None:
    class Own(OsFiles):
        pass

    from ottla.server.faults.disk import with_faults

    own = Own()
    assert with_faults(own, [str(tmp_path)]) is own
