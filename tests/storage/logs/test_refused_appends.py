"""Refused appends leave the batch unchanged: the same bytes may be checked, and appended, again.

An append patches the batch's header in place before it knows whether the log has room, the producer its order, and the disk no
error. Here each of these refuses it once, and then accepts it: the log is then as if nothing had been refused.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, TypeAlias

import pytest

from ottla.protocol.compression import Codec
from ottla.protocol.errors import KafkaError
from ottla.storage.disk import paths
from ottla.storage.logs import log as log_module
from ottla.storage.logs.log import Log
from ottla.storage.produce.record_checks import CheckedBatch, LargeBatchError
from ottla.storage.segment.segment_indexes import SegmentIndexes
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch
from support.logs.make_log import all_batches, append, make_log
from support.noted import each_case

NOW_MS = 5_000
TOPICS: dict[str, dict[str, Any]] = {
    "times of producers": {},
    "its own times": {"message_timestamp_type": "LogAppendTime"},
    "a codec": {"compression_type": "gzip"},
    "a codec and its own times": {"compression_type": "lz4", "message_timestamp_type": "LogAppendTime"},
}
BATCHES: dict[str, dict[str, Any]] = {
    "plain": {},
    "of a producer": {"producer_id": 7, "base_sequence": 0},
    "packed": {"codec": Codec.ZSTD},
}
Given: TypeAlias = Callable[[Log, memoryview], memoryview | CheckedBatch]
GIVEN: dict[str, Given] = {
    "as sent": lambda _, view: view,
    "checked": lambda log, view: log.check(view, now_ms=NOW_MS),
}


def opened(topic: str, *, rolls: bool = False) -> Log:
    log = make_log(**TOPICS[topic], flush_messages=1 << 60)
    append(log, ("before", "it"), now_ms=1_000)
    if rolls:
        log.config = replace(log.config, segment_ms=1)
    return log


def written(log: Log) -> list[bytes]:
    return [bytes(each.view) for each in all_batches(log)]


def as_sent(kind: str) -> memoryview:
    return memoryview(batch(("k", "v" * 300), ("l", "w" * 300), timestamp=4_000, **BATCHES[kind]))


def nothing_refuses(topic: str, kind: str, *, rolls: bool = False) -> list[bytes]:
    log = opened(topic, rolls=rolls)
    log.append(as_sent(kind), now_ms=NOW_MS, leader_epoch=3)
    return written(log)


def check_refused(
    log: Log, view: memoryview, given: Given, error: type[BaseException], *, at_once: bool
) -> memoryview | CheckedBatch:
    """Check that a refused append leaves all bytes unchanged; return the argument of the append."""
    before = bytes(view)
    handed_in = given(log, view)
    packed = bytes(handed_in.batch.view) if isinstance(handed_in, CheckedBatch) else b""
    with pytest.raises(error):
        log.append(handed_in, now_ms=NOW_MS - 1, leader_epoch=2, at_once=at_once)
    assert bytes(view) == before
    if isinstance(handed_in, CheckedBatch):
        assert bytes(handed_in.batch.view) == packed
    return handed_in


# Refused for another reason than the disk


@contextmanager
def larger_than_a_segment(log: Log, patch: pytest.MonkeyPatch) -> Iterator[type[BaseException]]:
    before, log.config = log.config, replace(log.config, segment_bytes=14)
    yield KafkaError
    log.config = before


@contextmanager
def without_offsets(log: Log, patch: pytest.MonkeyPatch) -> Iterator[type[BaseException]]:
    end, log.log_end_offset = log.log_end_offset, paths.OFFSET_MAX - 1
    yield KafkaError
    log.log_end_offset = end


@contextmanager
def without_memory_for_the_index(log: Log, patch: pytest.MonkeyPatch) -> Iterator[type[BaseException]]:
    def fail(*_: object) -> None:
        raise MemoryError

    with patch.context() as patched:
        patched.setattr(SegmentIndexes, "note", fail)
        yield MemoryError


@contextmanager
def cancelled_at_the_epochs(log: Log, patch: pytest.MonkeyPatch) -> Iterator[type[BaseException]]:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with patch.context() as patched:
        patched.setattr(type(log.leader_epochs), "assign", fail)
        yield KeyboardInterrupt


OTHERS = [larger_than_a_segment, without_offsets, without_memory_for_the_index, cancelled_at_the_epochs]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("refusing", OTHERS)
def test_an_append_refused_once_succeeds_on_retry(
    refusing: Any, topic: str, kind: str, given: str, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, view = opened(topic), as_sent(kind)
    handed_in = GIVEN[given](log, view)
    with refusing(log, monkeypatch) as error:
        check_refused(log, view, lambda *_: handed_in, error, at_once=at_once)
    log.append(handed_in, now_ms=NOW_MS, leader_epoch=3, at_once=at_once)
    assert written(log) == nothing_refuses(topic, kind)


def test_an_append_refused_for_its_sequence_changes_nothing() -> None:
    log = opened("its own times")
    log.append(memoryview(batch(("a", "1"), producer_id=7, base_sequence=0)), now_ms=NOW_MS)
    view = memoryview(batch(("c", "3"), producer_id=7, base_sequence=2))
    check_refused(log, view, GIVEN["as sent"], KafkaError, at_once=True)
    log.append(memoryview(batch(("b", "2"), producer_id=7, base_sequence=1)), now_ms=NOW_MS)
    log.append(view, now_ms=NOW_MS)


# Refused by the disk, at each operation of the append


@each_case("rolls", [False, True])
@each_case("given", GIVEN)
@each_case("kind", BATCHES)
@each_case("topic", TOPICS)
def test_an_append_refused_by_the_disk_succeeds_on_retry(topic: str, kind: str, given: str, rolls: bool) -> None:
    for refused in count():
        log, view = opened(topic, rolls=rolls), as_sent(kind)
        files = log.files
        assert isinstance(files, CrashFiles)
        left = count(-refused)

        def refuse(operation: str, at: str, _: int, left: Iterator[int] = left) -> None:
            if next(left) == 0:
                raise OSError(errno.ENOSPC, "no room", at)

        files.refuse = refuse
        handed_in = GIVEN[given](log, view)
        before = bytes(view)
        try:
            log.append(handed_in, now_ms=NOW_MS - 1, leader_epoch=2)
        except KafkaError:
            assert bytes(view) == before
        else:
            assert refused >= (3 if rolls else 1)
            break
        log.append(handed_in, now_ms=NOW_MS, leader_epoch=3)
        assert written(log) == nothing_refuses(topic, kind, rolls=rolls)


# Large batches, which another thread writes


@pytest.mark.parametrize("changes", [0, 1, 2])
@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("topic", TOPICS)
def test_options_may_change_while_a_large_batch_is_written(
    topic: str, kind: str, changes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "AT_ONCE_WRITTEN_BYTES", 50)
    log, view = opened(topic), as_sent(kind)
    handed_in: memoryview | CheckedBatch = view
    for written_times in range(changes + 1):
        with pytest.raises(LargeBatchError) as raised:
            log.append(handed_in, now_ms=NOW_MS, leader_epoch=3, at_once=True)
        assert bytes(view) == bytes(as_sent(kind))
        assert raised.value.begun is not None
        handed_in, ahead = raised.value.begun
        ahead.write()
        if written_times < changes:
            log.config = replace(log.config, retention_ms=1 + written_times)
    log.append(handed_in, now_ms=NOW_MS, leader_epoch=3, at_once=True)
    assert written(log) == nothing_refuses(topic, kind)
