"""Small batches accepted in one call: the general path accepts the same ones, with the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ottla.protocol.batch_builder import write_crc
from ottla.protocol.errors import KafkaError
from ottla.protocol.records import HEADER_BYTES, NO_TIMESTAMP, RecordBatch
from ottla.storage import kernel as compiled
from ottla.storage.produce import record_checks, validation
from ottla.storage.produce.validation import admit, assign, check_batch
from ottla.storage.topics.config import LogConfig
from support.cleaner.kernels import both, needs_compiled
from support.logs.batches import Pair, batch

NOW_MS = 1_700_000_000_000
NEXT_OFFSET, LEADER_EPOCH = 2**40 + 5, 2**31 - 2
RECORDED = json.loads((Path(__file__).parents[1] / "data" / "bad_batches.json").read_text())
Taken = tuple[bytes, tuple[int, int, int]]
"""The bytes to be written, and (last offset delta, max timestamp, producer id)."""


@contextmanager
def taking_with(kernel: ModuleType) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_checks, "kernel", kernel)
        patch.setattr(kernel, "COMPILED", True)  # every record is checked, however slowly
        patch.setattr(validation, "_admit", kernel.admit)
        yield


def taken_at_once(data: bytes, config: LogConfig, now_ms: int = NOW_MS) -> Taken | None:
    view = memoryview(bytearray(data))
    found = admit(view, config, NEXT_OFFSET, now_ms, LEADER_EPOCH)
    assert found is not None or view == data, "what is not taken is left as it was"
    return None if found is None else (bytes(view), found)


def taken_the_long_way(data: bytes, config: LogConfig, now_ms: int = NOW_MS) -> Taken | None:
    try:
        checked = check_batch(bytearray(data), topic_partition="t-0", config=config, now_ms=now_ms)
    except KafkaError:
        return None
    valid = assign(checked, next_offset=NEXT_OFFSET, now_ms=now_ms, leader_epoch=LEADER_EPOCH)
    assert valid.log_append_time_ms == NO_TIMESTAMP or config.message_timestamp_type == record_checks.LOG_APPEND_TIME
    (given,) = valid.batches
    return bytes(valid.records), (given.last_offset_delta, given.max_timestamp, given.producer_id)


def produced(*pairs: Pair, **options: Any) -> bytes:
    return bytes(batch(*pairs, **({"timestamp": NOW_MS} | options)))


PLAIN = {
    "one record": produced(("k", "v" * 100)),
    "many": produced(*[("k", "v")] * 1_000),
    "of several times": produced(("a", "1"), ("b", "2"), ("c", "3"), timestamp=[NOW_MS, NOW_MS - 9, NOW_MS - 5]),
    "without times": produced(("a", "1"), timestamp=NO_TIMESTAMP),
    "a tombstone": produced(("a", None)),
    "of a producer": produced(("a", "1"), producer_id=2**40, producer_epoch=3, base_sequence=7),
    "of a transaction": produced(("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
}
FOR_THE_LONG_WAY: dict[str, tuple[bytes, dict[str, Any]]] = {
    "compressed": (produced(("k", "v" * 100), codec=1), {}),
    "to be compressed": (PLAIN["one record"], {"compression_type": "gzip"}),
    "to be stamped": (PLAIN["one record"], {"message_timestamp_type": "LogAppendTime"}),
    "large": (produced(("k", "v" * (32 << 10))), {}),
    "too large": (PLAIN["one record"], {"max_message_bytes": 100}),
    "with something behind it": (PLAIN["one record"] + b"\0", {}),
    "cut off": (PLAIN["one record"][:-1], {}),
    "nothing": (b"", {}),
    "a header": (PLAIN["one record"][:HEADER_BYTES], {}),
}


@both
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("compression_type", ["producer", "uncompressed"])
def test_common_batches_of_clients_take_the_fast_path(name: str, compression_type: str, kernel: ModuleType) -> None:
    config = LogConfig(compression_type=compression_type)
    with taking_with(kernel):
        found = taken_at_once(PLAIN[name], config)
        assert found is not None and found == taken_the_long_way(PLAIN[name], config)
    written = RecordBatch(found[0])
    assert (written.base_offset, written.partition_leader_epoch) == (NEXT_OFFSET, LEADER_EPOCH)
    assert written.is_crc_valid() and found[0][16:] == PLAIN[name][16:]


@both
@pytest.mark.parametrize("name", FOR_THE_LONG_WAY)
def test_batches_that_need_inspection_or_change_do_not_take_the_fast_path(name: str, kernel: ModuleType) -> None:
    data, options = FOR_THE_LONG_WAY[name]
    with taking_with(kernel):
        assert taken_at_once(data, LogConfig(**options)) is None


@needs_compiled
def test_a_read_only_batch_takes_the_general_path() -> None:
    view = memoryview(PLAIN["one record"])
    assert admit(view, LogConfig(), 0, NOW_MS, 0) is None


@both
@pytest.mark.parametrize("name", RECORDED["batches"])
def test_the_fast_path_accepts_no_invalid_batch(name: str, kernel: ModuleType) -> None:
    row = RECORDED["batches"][name]
    config = LogConfig.from_texts(RECORDED["topics"][row["topic"]])
    data, now_ms = bytes.fromhex(row["batch"]), RECORDED["now_ms"]
    with taking_with(kernel):
        found = taken_at_once(data, config, now_ms)
        assert found is None or found == taken_the_long_way(data, config, now_ms)


@both
@pytest.mark.parametrize("is_compact", [False, True])
def test_both_paths_agree_on_any_flipped_bit(is_compact: bool, kernel: ModuleType) -> None:
    """The flip is tested with a CRC that matches it, and with one that does not."""
    config = LogConfig(cleanup_policy=("compact",) if is_compact else ("delete",))
    count = 0
    with taking_with(kernel):
        for name in ("of several times", "of a producer"):
            data = PLAIN[name]
            for at in range(len(data)):
                for bit in range(8):
                    for is_meant in (False, True):
                        changed = bytearray(data)
                        changed[at] ^= 1 << bit
                        if is_meant:
                            write_crc(memoryview(changed))
                        found = taken_at_once(bytes(changed), config)
                        count += found is not None
                        assert found is None or found == taken_the_long_way(bytes(changed), config)
    assert count > 100


@both
@pytest.mark.parametrize("off_ms", [-1, 0, 1])
def test_timestamp_bounds_are_equal_to_the_millisecond(off_ms: int, kernel: ModuleType) -> None:
    config = LogConfig(message_timestamp_before_max_ms=1_000, message_timestamp_after_max_ms=2_000)
    with taking_with(kernel):
        for bound_ms, is_taken in ((NOW_MS - 1_000, off_ms >= 0), (NOW_MS + 2_000, off_ms <= 0)):
            data = produced(("k", "v"), timestamp=bound_ms + off_ms)
            found = taken_at_once(data, config)
            assert found == taken_the_long_way(data, config)
            assert (found is not None) == is_taken


def test_without_the_compiled_kernel_every_batch_takes_the_general_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "_admit", None)
    assert taken_at_once(PLAIN["one record"], LogConfig()) is None


@needs_compiled
def test_small_batches_take_the_fast_path_where_it_exists() -> None:
    assert validation._admit is compiled.admit
    assert taken_at_once(PLAIN["one record"], LogConfig()) is not None
