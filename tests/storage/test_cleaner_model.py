"""Random histories through the real cleaner and through the model: every batch must come out the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.protocol.records import RecordBatch
from ottla.storage.dirtiness import measure
from ottla.storage.producers import read_marker
from support import cleaner_model
from support.batches import ABORT, COMMIT
from support.cleaner_model import ModelBatch, ModelLog, ModelRecord
from support.make_log import all_batches, append, append_marker, clean, make_log, reopen

KEYS = [b"a", b"b", b"c", b"d", b"e", b"", b"k" * 60, b"l" * 60]
RETENTION_MS = 1_000


def as_model(found: RecordBatch) -> ModelBatch:
    """A real batch, read as a client reads it."""
    marker = None
    if found.is_control:
        # An emptied marker does not say any more which kind it was, and nobody asks.
        marker = record.kind if (record := read_marker(found)) is not None else -1
    return ModelBatch(
        base=found.base_offset,
        last=found.last_offset,
        records=()
        if found.record_count == 0
        else tuple(
            ModelRecord(
                record.offset,
                b"marker" if found.is_control else record.key,
                b"coordinator" if found.is_control else record.value,
                record.timestamp,
            )
            for record in found.records()
        ),
        base_timestamp=found.base_timestamp,
        max_timestamp=found.max_timestamp,
        producer_id=found.producer_id,
        epoch=found.producer_epoch,
        transactional=found.is_transactional,
        marker=marker,
        horizon=found.delete_horizon_ms,
    )


def comparable(batch: ModelBatch) -> ModelBatch:
    if batch.is_control and not batch.records:
        return replace(batch, marker=-1)
    return batch


@dataclass
class Pair:
    """The same log twice, driven side by side."""

    transactions: bool

    def __post_init__(self) -> None:
        self.log = make_log(segment_bytes=1 << 20, delete_retention_ms=RETENTION_MS, index_interval_bytes=100)
        self.model = ModelLog()
        self.first_dirty = 0
        self.now_ms = 10_000
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}

    def write(
        self,
        pairs: list[tuple[bytes, bytes | None]],
        producer_id: int,
        transactional: bool,
        codec: int,
        delays_ms: list[int],
    ) -> None:
        fields: dict[str, Any] = {}
        timestamps = [self.now_ms - delays_ms[index % len(delays_ms)] for index in range(len(pairs))]
        if producer_id < 0:
            transactional = False
        else:
            # A producer writes inside a transaction or not; while one is open, only inside.
            transactional = self.transactions and (transactional or producer_id in self.model.open_txns)
            sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = sequence + len(pairs)
            epoch = self.epochs.setdefault(producer_id, 0)
            fields = {
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "base_sequence": sequence,
                "transactional": transactional,
            }
        append(self.log, *pairs, now_ms=self.now_ms, timestamp=timestamps, codec=codec, **fields)
        self.model.append(
            pairs,
            timestamps=timestamps,
            producer_id=producer_id,
            epoch=self.epochs.get(producer_id, 0),
            transactional=transactional,
        )

    def end_txn(self, producer_id: int, kind: int, new_epoch: bool) -> None:
        if producer_id in self.model.open_txns:
            # From EndTxn 5 on every marker carries the epoch after the data's.
            epoch = self.epochs[producer_id] = self.epochs.get(producer_id, 0) + new_epoch
            if new_epoch:
                self.sequences[producer_id] = 0
            append_marker(self.log, kind, producer_id, producer_epoch=epoch, timestamp=self.now_ms)
            self.model.end_txn(producer_id, kind, epoch=epoch, timestamp=self.now_ms)

    def wait(self, delay_ms: int) -> None:
        self.now_ms += delay_ms

    def roll(self) -> None:
        self.log.roll(self.now_ms)
        self.model.roll()

    def restart(self, clean_stop: bool) -> None:
        self.log = reopen(self.log, clean=clean_stop, now_ms=self.now_ms)
        if not clean_stop:
            open_txns = dict(self.model.open_txns)
            self.model.reload()
            assert self.model.open_txns == open_txns, "a pass must not open or end a transaction"

    def clean(self, max_entries: int | None, io_buffer_bytes: int) -> None:
        to_clean = measure(self.log, self.first_dirty, self.now_ms)
        if to_clean.cleanable_bytes == 0:
            return
        ends = to_clean.segments[-1].base_offset
        end, stats = clean(
            self.log, self.first_dirty, now_ms=self.now_ms, max_entries=max_entries, io_buffer_bytes=io_buffer_bytes
        )
        limit = cleaner_model.NO_LIMIT if max_entries is None else max_entries
        assert end == self.model.clean(self.first_dirty, now=self.now_ms, retention=RETENTION_MS, limit=limit)
        assert end > self.first_dirty or ends < self.first_dirty, "a pass must get on"
        assert stats.records_written == stats.records_read - stats.removed.total
        self.first_dirty = end
        self.model.merge(segment.base_offset for segment in self.log.segments)

    def compare(self) -> None:
        assert [as_model(found) for found in all_batches(self.log)] == [comparable(each) for each in self.model.batches]
        assert all(found.is_crc_valid() for found in all_batches(self.log))
        assert [
            (txn.producer_id, txn.first_offset, txn.last_offset)
            for segment in self.log.segments
            for txn in segment.txn_index.entries()
        ] == self.model.aborted
        assert self.log.log_end_offset == self.model.log_end


Step = tuple[Any, ...]
"""The name of one of Pair's methods, and its arguments."""

keyed = st.tuples(st.sampled_from(KEYS), st.sampled_from([b"1", b"", b"v" * 200, None]))
writes = st.tuples(
    st.just("write"),
    st.lists(keyed, min_size=1, max_size=5),
    st.sampled_from([-1, -1, 1, 2]),
    st.booleans(),
    st.sampled_from([0, 0, 1, 2, 3, 4]),
    st.lists(st.integers(0, 200), min_size=1, max_size=5),
)
rolls = st.tuples(st.just("roll"))
waits = st.tuples(st.just("wait"), st.sampled_from([1, RETENTION_MS // 2, RETENTION_MS]))
restarts = st.tuples(st.just("restart"), st.booleans())
passes = st.tuples(st.just("clean"), st.sampled_from([None, None, 2, 3, 4]), st.sampled_from([1, 300, 1 << 19]))
markers = st.tuples(st.just("marker"), st.sampled_from([1, 2]), st.sampled_from([ABORT, COMMIT]), st.booleans())
histories = st.lists(st.one_of(writes, writes, writes, rolls, rolls, waits, restarts, passes, passes), max_size=25)
transactional_histories = st.lists(
    st.one_of(writes, writes, writes, markers, markers, rolls, rolls, waits, restarts, passes, passes), max_size=25
)


def run(history: list[Step], *, transactions: bool) -> Pair:
    both = Pair(transactions)
    steps: dict[str, Callable[..., None]] = {
        "write": both.write,
        "marker": both.end_txn,
        "roll": both.roll,
        "restart": both.restart,
        "clean": both.clean,
        "wait": both.wait,
    }
    for name, *arguments in history:
        before = both.model.committed_values()
        steps[name](*arguments)
        if name in ("clean", "restart"):
            both.compare()
            after = both.model.committed_values()
            live = {key: value for key, value in before.items() if value is not None}
            assert live == {key: value for key, value in after.items() if value is not None}
    both.compare()
    return both


@given(histories)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_plain_histories_come_out_as_the_model_says(history: list[Step]) -> None:
    run(history, transactions=False)


@given(transactional_histories)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_transactional_histories_come_out_as_the_model_says(history: list[Step]) -> None:
    run(history, transactions=True)
