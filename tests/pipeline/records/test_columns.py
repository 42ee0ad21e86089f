"""Columns contain what `RecordBatch.records` yields for any batches; they refuse what it refuses."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from types import ModuleType
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.records import columns
from ottla.pipeline.records.arrow import gather
from ottla.pipeline.records.batch_window import BatchWindow, header_damage, window_of, without
from ottla.protocol.batch_builder import build_batch
from ottla.protocol.errors import CorruptRecordError
from ottla.protocol.records import ATTRIBUTES_POSITION, CRC_POSITION, Record, RecordBatch
from ottla.storage import kernel
from support.cleaner.kernels import INTERPRETED
from support.logs.batches import batch, broken
from support.sizes import size

SHORT = st.binary(max_size=12) | st.just(bytes(range(200)))
NULLABLE = st.none() | SHORT
HEADERS = st.lists(st.tuples(st.sampled_from(("a", "a", "ü", "")), NULLABLE), max_size=3).map(tuple)
RECORDS = st.lists(
    st.tuples(
        st.integers(1, 300),  # distance from the offset before
        st.integers(-(1 << 40), 1 << 40),
        NULLABLE,
        NULLABLE,
        HEADERS,
    ),
    max_size=9,
)


@st.composite
def logs(draw: st.DrawFn, batch_count_max: int = 6) -> bytearray:
    """Draw batches back to back, of all codecs and attributes, some emptied, with gaps."""
    data, offset = bytearray(), draw(st.integers(0, 1 << 40))
    for _ in range(draw(st.integers(1, batch_count_max))):
        found, base_offset = [], offset
        for distance, timestamp, key, value, headers in draw(RECORDS):
            found.append((offset, timestamp, key, value, headers))
            offset += distance
        made = build_batch(
            found,
            base_offset=base_offset,
            codec=draw(st.integers(0, 4)),
            last_offset_delta=offset - base_offset,
            log_append_time=draw(st.booleans()),
            producer_id=draw(st.sampled_from((-1, 7))),
            producer_epoch=0,
            base_sequence=draw(st.sampled_from((-1, 0, 2**31 - 3))),
            max_timestamp=draw(st.integers(0, 1 << 40)),
        )
        offset += 1
        data += made
    return data


def taken(data: Any, at: Any, lengths: Any) -> list[bytes | None]:
    return gather(data, at, lengths).to_pylist()  # type: ignore[no-any-return]


def decoded(window: BatchWindow) -> list[Record]:
    found: list[Record] = []
    for each in columns.decode(window):
        names = taken(each.data, each.headers.name_at, each.headers.name_length)
        values = taken(each.data, each.headers.value_at, each.headers.value_length)
        headers = iter(zip(names, values, strict=True))
        rows = zip(
            each.offset.tolist(),
            each.timestamp_ms.tolist(),
            taken(each.data, each.key_at, each.key_length),
            taken(each.data, each.value_at, each.value_length),
            each.headers.counts.tolist(),
            strict=True,
        )
        for offset, timestamp, key, value, count in rows:
            own = tuple(((name or b"").decode(errors="replace"), value) for name, value in islice(headers, count))
            found.append(Record(offset, timestamp, key, value, own))
    return found


def expected(data: bytearray, window: BatchWindow) -> list[Record]:
    return [
        record._replace(sequence=-1)
        for start in window.starts.tolist()
        for record in RecordBatch(data, start).records()
    ]


@given(logs(), st.sampled_from((INTERPRETED, kernel)))
def test_columns_contain_the_records(data: bytearray, used: ModuleType) -> None:
    window = window_of(memoryview(data))
    assert window.ends[-1] == len(data)
    assert header_damage(window, -1) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "kernel", used)
        assert decoded(window) == expected(data, window)


def repaired(data: bytearray) -> bytearray:
    """Return the one batch with its CRC corrected: damage that only decoding finds."""
    data[CRC_POSITION : CRC_POSITION + 4] = crc32c(memoryview(data)[ATTRIBUTES_POSITION:]).to_bytes(4, "big")
    return data


@settings(max_examples=size(25, 300))
@given(logs(batch_count_max=1), st.data(), st.sampled_from((INTERPRETED, kernel)))
def test_batches_that_the_record_reader_refuses_are_refused(
    data: bytearray, draw: st.DataObject, used: ModuleType
) -> None:
    """Any bytes in place of a batch's own give the same records, or a refusal on both sides."""
    at = draw.draw(st.integers(57, len(data) - 1), label="at")
    data[at] = draw.draw(st.integers(0, 255), label="byte")
    window = window_of(memoryview(repaired(data)))
    damage = header_damage(window, -1) or columns.record_damage(window)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "kernel", used)
        if damage:
            assert damage[0].offset == RecordBatch(data).base_offset
            with pytest.raises(CorruptRecordError):
                decoded(window)
        else:
            assert decoded(window) == expected(data, window)


@given(logs(), st.data())
def test_every_flipped_byte_is_noticed(data: bytearray, draw: st.DataObject) -> None:
    """The flips are after the length, without the leader epoch, which no CRC covers."""
    window = window_of(memoryview(data))
    row = draw.draw(st.integers(0, len(window) - 1), label="batch")
    at = draw.draw(st.integers(int(window.starts[row]) + CRC_POSITION, int(window.ends[row]) - 1), label="at")
    flipped = window_of(memoryview(broken(data, at, flip=1 << draw.draw(st.integers(0, 7), label="bit"))))
    (damage,) = header_damage(flipped, -1)
    assert (damage.position, damage.offset) == (window.starts[row], window.base_offsets[row])
    assert "CRC-32C" in str(damage)
    assert without(flipped, [damage]).starts.tolist() == [*window.starts[:row], *window.starts[row + 1 :]]


@given(logs(), st.data())
def test_a_window_ends_before_a_cut_batch(data: bytearray, draw: st.DataObject) -> None:
    whole = window_of(memoryview(data))
    size_bytes = draw.draw(st.integers(0, len(data)), label="size")
    assert window_of(memoryview(data)[:size_bytes]).ends.tolist() == [end for end in whole.ends if end <= size_bytes]


def test_offsets_must_rise_from_batch_to_batch() -> None:
    data = batch(("a", "1"), base_offset=5) + batch(("b", "2"), base_offset=5) + batch(("c", "3"), base_offset=9)
    window = window_of(memoryview(data), file="5.log", position=1_000)
    (damage,) = header_damage(window, 4)
    assert str(damage) == f"5.log, byte {1_000 + window.starts[1]}, offset 5: expected a base offset above 5, found 5"
    assert [each.offset for each in header_damage(window, 5)] == [5, 5]


@pytest.mark.parametrize("codec", range(5))
def test_groups_are_bounded(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "GROUP_BYTES", 1_000)
    data = bytearray()
    for offset in range(0, 100, 5):
        data += batch(*[(str(n), "x" * 60) for n in range(5)], base_offset=offset, codec=codec)
    window = window_of(memoryview(data))
    groups = list(columns.decode(window))
    assert 5 < len(groups) < 20
    assert [offset for group in groups for offset in group.offset.tolist()] == list(range(100))
    assert [row for group in groups for row in group.batch.tolist()] == [n // 5 for n in range(100)]


def test_a_count_without_records_costs_nothing() -> None:
    data = batch(("a", "1"))
    data[57:61] = (2**31 - 1).to_bytes(4, "big")
    window = window_of(memoryview(repaired(data)))
    with pytest.raises(CorruptRecordError, match="more records"):
        list(columns.decode(window))
    (damage,) = columns.record_damage(window)
    assert damage.expected == "2147483647 records that can be read"


def test_the_columns_are_loaded_without_pandas() -> None:
    """Each Python process that Spark starts loads them, and pandas takes half a second."""
    code = "import sys, ottla.pipeline.records.arrow; print('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
