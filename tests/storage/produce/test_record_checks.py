"""Checks of every record of a produced batch, by the compiled or interpreted kernel; and batches that take long."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol import compression
from ottla.protocol.batch_builder import build_batch, set_timestamp_type_in_place
from ottla.protocol.compression import Codec, compress
from ottla.protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ottla.protocol.records import HEADER_BYTES, RecordBatch
from ottla.storage import kernel as installed
from ottla.storage.kernel import Found
from ottla.storage.produce.record_checks import (
    AT_ONCE_BYTES,
    AT_ONCE_FRAMES,
    AT_ONCE_RECORDS,
    FRAMES_MAX,
    CheckedBatch,
    InvalidRecordError,
    LargeBatchError,
)
from ottla.storage.produce.validation import check_batch
from ottla.storage.topics.config import LogConfig
from support.cleaner.kernels import INTERPRETED, both
from support.logs.batches import batch, contents, resealed
from support.logs.make_log import make_log
from support.sizes import size

NOW_MS = 1_700_000_000_000
EVER = (-(1 << 63), (1 << 63) - 1)


@pytest.fixture(autouse=True, scope="module")
def every_record_is_looked_at() -> Iterator[None]:
    """Check every record even if the kernel is not compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(installed, "COMPILED", True)
        yield


def walk(
    kernel: ModuleType,
    block: bytes,
    count: int,
    *,
    base_timestamp: int = 0,
    bounds: tuple[int, int] = EVER,
    wants_keys: bool = False,
    at: int = 0,
    number: int = 0,
    frees_the_gil: bool = False,
) -> tuple[int, int, int, int]:
    found: tuple[int, int, int, int] = kernel.check_records(
        block, at, number, count, base_timestamp, *bounds, wants_keys, -1, frees_the_gil
    )
    return found


def block_of(*rows: tuple[int, int, bytes | None, bytes | None]) -> bytes:
    """Return the bytes of records (offset, timestamp, key, value), with base timestamp 0."""
    made = build_batch([(*row, [("h", b"v")]) for row in rows], base_offset=0, base_timestamp=0)
    return bytes(made[HEADER_BYTES:])


# --- the walk ---------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("frees_the_gil", [False, True])
def test_a_sound_block_is_scanned_to_its_end_for_its_max_timestamp(kernel: ModuleType, frees_the_gil: bool) -> None:
    block = block_of((0, 7, b"a", b"1"), (1, 300, None, b"2"), (2, -5, b"", None))
    assert walk(kernel, block, 3, frees_the_gil=frees_the_gil) == (Found.SOUND, len(block), 3, 300)
    assert walk(kernel, b"", 0) == (Found.SOUND, 0, 0, -1)


@both
def test_a_walk_stops_at_each_refused_record_and_continues_after_it(kernel: ModuleType) -> None:
    rows = [(0, 7, None, b"1"), (1, 8, b"b", b"2"), (2, 99, b"c", b"3"), (3, 99, None, b"4")]
    block = block_of(*rows)
    ends = [len(block_of(*rows[: n + 1])) for n in range(4)]
    rules: dict[str, Any] = {"bounds": (0, 50), "wants_keys": True}

    assert walk(kernel, block, 4, **rules) == (Found.KEYLESS, ends[0], 1, -1)
    assert walk(kernel, block, 4, at=ends[0], number=1, **rules) == (Found.UNTIMELY, ends[2], 3, 99)
    assert walk(kernel, block, 4, at=ends[2], number=3, **rules) == (Found.KEYLESS, ends[3], 4, -1)
    assert walk(kernel, block, 4, at=ends[3], number=4, **rules) == (Found.SOUND, ends[3], 4, -1)


@both
def test_a_missing_timestamp_is_valid_and_bounds_are_inclusive(kernel: ModuleType) -> None:
    block = block_of((0, -1, b"a", b""), (1, 10, b"a", b""), (2, 20, b"a", b""))
    assert walk(kernel, block, 3, bounds=(10, 20))[0] == Found.SOUND
    assert walk(kernel, block, 3, bounds=(11, 20))[0] == Found.UNTIMELY
    assert walk(kernel, block, 3, bounds=(10, 19))[0] == Found.UNTIMELY


@both
def test_timestamps_wrap_at_64_bits_as_in_java(kernel: ModuleType) -> None:
    assert walk(kernel, block_of((0, 5, b"a", b"")), 1, base_timestamp=EVER[1])[3] == -1
    assert walk(kernel, block_of((0, 5, b"a", b"")), 1, base_timestamp=EVER[1], bounds=(0, EVER[1])) == (
        Found.UNTIMELY,
        len(block_of((0, 5, b"a", b""))),
        1,
        EVER[0] + 4,
    )


@both
def test_records_outside_the_block_are_not_read(kernel: ModuleType) -> None:
    for at in (-1, 1):
        with pytest.raises(IndexError):
            walk(kernel, b"", 1, at=at)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 2**40),
        st.none() | st.binary(max_size=5),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    max_size=5,
)


@settings(max_examples=size(40, 400), deadline=None)
@given(
    rows=ROWS,
    count_is_off_by=st.sampled_from([0, 0, 0, -1, 1, 2**31]),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    cut=st.sampled_from([0, 0, 0, 1, 7]),
    rules=st.fixed_dictionaries(
        {
            "base_timestamp": st.sampled_from([0, NOW_MS, EVER[1]]),
            "bounds": st.sampled_from([EVER, (0, 2**39)]),
            "wants_keys": st.booleans(),
        }
    ),
)
def test_both_kernels_agree_on_any_bytes_and_find_only_real_damage(
    rows: Any, count_is_off_by: int, changes: Any, cut: int, rules: dict[str, Any]
) -> None:
    made = build_batch([(at, *row) for at, row in enumerate(rows)], base_offset=0, base_timestamp=0)
    for at, byte in changes:
        if len(made) > HEADER_BYTES:
            made[HEADER_BYTES + at % (len(made) - HEADER_BYTES)] = byte
    block = bytes(made[HEADER_BYTES : len(made) - cut])
    count = max(len(rows) + count_is_off_by, 0)

    assert walk(INTERPRETED, block, count, **rules) == walk(installed, block, count, **rules)

    verdict = walk(installed, block, count)[0]
    made[HEADER_BYTES:] = block
    made[57:61] = min(count, 2**31 - 1).to_bytes(4, "big")
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    records = None
    with suppress(CorruptRecordError):
        records = list(RecordBatch(made).records())
    assert (records is None) == (verdict in (Found.DAMAGED, Found.LEFT_OVER)) or verdict == Found.MISNUMBERED
    if records is not None:
        assert (verdict == Found.MISNUMBERED) == ([r.offset for r in records] != list(range(count)))


# --- batches that take long -------------------------------------------------------------------------------------

FEW = batch(("k", "v"), timestamp=NOW_MS)
MANY = batch(*[("k", "v")] * (AT_ONCE_RECORDS + 1), timestamp=NOW_MS)
SWELLING = [batch(("k", "v" * 300_000), timestamp=NOW_MS, codec=codec) for codec in range(1, 5)]
LARGE = batch(("k", "v" * 200_000), timestamp=NOW_MS)
KEYLESS = batch(*[(None, "v")] * 200, timestamp=NOW_MS)


def check(data: bytearray, *, at_once: bool, **config: Any) -> CheckedBatch:
    config = {"cleanup_policy": ("compact",)} | config
    return check_batch(data, topic_partition="t-0", config=LogConfig(**config), now_ms=NOW_MS, at_once=at_once)


@pytest.mark.parametrize("data", [MANY, *SWELLING], ids=["many records", "gzip", "snappy", "lz4", "zstd"])
def test_expensive_checks_are_left_to_another_thread(data: bytearray) -> None:
    before = bytes(data)
    with pytest.raises(LargeBatchError, check=lambda error: error.begun is None):
        check(data, at_once=True)
    assert data == before
    assert check(data, at_once=False).max_timestamp == NOW_MS


EMPTY_FRAMES = {codec: compress(codec, b"") for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD)} | {
    Codec.SNAPPY: (1).to_bytes(4, "big") + b"\0"
}


def with_empty_frames(codec: Codec, count: int) -> bytearray:
    """Return a batch of one small record, compressed with `count` superfluous empty frames."""
    return resealed(batch(("k", "v"), timestamp=NOW_MS, codec=codec) + EMPTY_FRAMES[codec] * count)


@pytest.mark.parametrize("codec", EMPTY_FRAMES)
def test_a_batch_of_many_tiny_frames_is_left_to_another_thread(codec: Codec) -> None:
    data = with_empty_frames(codec, AT_ONCE_FRAMES)
    with pytest.raises(LargeBatchError, check=lambda error: error.begun is None):
        check(data, at_once=True)
    assert check(data, at_once=False).max_timestamp == NOW_MS
    assert check(with_empty_frames(codec, AT_ONCE_FRAMES - 1), at_once=True).max_timestamp == NOW_MS


def test_a_batch_of_excessively_many_frames_is_refused() -> None:
    data = with_empty_frames(Codec.SNAPPY, FRAMES_MAX)
    with pytest.raises(KafkaError, match=f"more than {FRAMES_MAX} compressed frames") as refused:
        check(data, at_once=False, max_message_bytes=len(data))
    assert refused.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_with_expensive_bytes_is_left_to_another_thread(codec: Codec) -> None:
    size_bytes = AT_ONCE_BYTES[codec] + 1
    data = batch(("k", random.Random(1).randbytes(size_bytes)), timestamp=NOW_MS, codec=codec)
    with pytest.raises(LargeBatchError, check=lambda error: error.begun is None):
        check(data, at_once=True, max_message_bytes=len(data))
    assert check(data, at_once=False, max_message_bytes=len(data)).max_timestamp == NOW_MS


@pytest.mark.parametrize("codec", Codec)
def test_a_false_count_costs_no_more_than_the_existing_records(codec: Codec) -> None:
    count = 2**31 - 1
    data = resealed(batch(("k", "v"), timestamp=NOW_MS, codec=codec, last_offset_delta=count - 1), count=count)
    with pytest.raises(LargeBatchError, check=lambda error: error.begun is None):
        check(data, at_once=True)
    with pytest.raises(KafkaError, match="record 1 ") as refused:
        check(data, at_once=False)
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_recompression_is_left_to_another_thread() -> None:
    config: dict[str, Any] = {"compression_type": "zstd"}
    with pytest.raises(LargeBatchError, check=lambda error: error.begun is None):
        check(LARGE, at_once=True, **config)
    assert check(LARGE, at_once=False, **config).batch.codec == 4
    assert check(FEW, at_once=True, **config).batch.codec == 4


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_the_library_of_a_codec_is_loaded_in_another_thread(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = batch(("k", "v"), timestamp=NOW_MS, codec=codec)
    recompressed = batch(("k", "v"), timestamp=NOW_MS), {"compression_type": codec.name.lower()}
    for data, config in ((packed, {}), recompressed):
        monkeypatch.delitem(compression._LOADED, codec)
        with pytest.raises(LargeBatchError, check=lambda error: error.begun is None):
            check(data, at_once=True, **config)
        assert check(data, at_once=False, **config).batch.codec == codec
        assert check(data, at_once=True, **config).batch.codec == codec


def test_a_producer_stamped_batch_of_refused_records_is_left_to_another_thread() -> None:
    data = batch(*[("k", "v")] * 1_000, timestamp=NOW_MS)
    set_timestamp_type_in_place(memoryview(data), log_append_time=True, max_timestamp=NOW_MS)
    config: dict[str, Any] = {"message_timestamp_type": "LogAppendTime"}
    with pytest.raises(LargeBatchError, check=lambda error: error.begun is None):
        check(data, at_once=True, **config)
    with pytest.raises(InvalidRecordError) as refused:
        check(data, at_once=False, **config)
    assert len(refused.value.record_errors) == 1_000


def test_a_batch_with_many_refused_records_is_left_to_another_thread() -> None:
    with pytest.raises(LargeBatchError, check=lambda error: error.begun is None):
        check(KEYLESS, at_once=True)
    with pytest.raises(KafkaError) as refused:
        check(KEYLESS, at_once=False)
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_a_merely_large_batch_is_checked_at_once() -> None:
    assert check(LARGE, at_once=True).max_timestamp == NOW_MS


def test_a_checked_batch_is_appended_unchanged() -> None:
    log = make_log()
    checked = log.check(memoryview(bytearray(MANY)), now_ms=NOW_MS)
    log.append(memoryview(bytearray(FEW)), now_ms=NOW_MS)
    assert log.append(checked, now_ms=NOW_MS, at_once=True).base_offset == 1
    assert log.log_end_offset == 1 + AT_ONCE_RECORDS + 1


def test_a_config_changed_after_the_check_applies_to_the_append() -> None:
    log = make_log(cleanup_policy=("delete",))
    sent = batch((None, "v"), timestamp=NOW_MS)
    checked = log.check(memoryview(sent), now_ms=NOW_MS)
    log.config = replace(log.config, cleanup_policy=("compact",))
    with pytest.raises(KafkaError) as refused:
        log.append(checked, now_ms=NOW_MS)
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_a_batch_is_stamped_with_the_time_of_its_append() -> None:
    log = make_log(message_timestamp_type="LogAppendTime")
    sent = bytearray(FEW)
    checked = log.check(memoryview(sent), now_ms=NOW_MS)
    assert log.append(checked, now_ms=NOW_MS + 5).log_append_time_ms == NOW_MS + 5
    assert contents(sent) == [(0, b"k", b"v")]
    assert RecordBatch(sent).max_timestamp == NOW_MS + 5
