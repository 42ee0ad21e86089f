"""A log compared with a list of records, through appends, rolls, reads, swaps, truncations, clean stops and kills."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.protocol.records import Record, RecordBatch, batches
from ottla.storage.disk import paths
from ottla.storage.segment.segment import LogSegment
from ottla.storage.steps import to_the_end
from support.disk.crash_files import CrashFiles
from support.logs.batches import ABORT, COMMIT, batch
from support.logs.make_log import append_marker, delete_old_segments, flush_sealed, make_log, remove_deleted
from support.sizes import size

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.one_of(st.none(), st.sampled_from(["", "v", "long" * 20]))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3)
TIMESTAMPS = st.integers(0, 50)
PRODUCERS = st.sampled_from([7, 8])
PLACES = st.floats(0, 1)
"""A position in the log, as a fraction of its offsets."""


class LogModel(RuleBasedStateMachine):
    """The state machine; `records` are the readable ones by offset, without markers."""

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[int, tuple[int, bytes, bytes | None]] = {}
        self.end = 0
        self.start = 0
        self.now_ms = 0
        self.sequences: dict[int, int] = {}
        self.last_sent: dict[int, tuple[bytes, int, int]] = {}
        self.open_txns: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []

    @initialize(
        segment_bytes=st.sampled_from([400, 1000, 1 << 20]), index_interval_bytes=st.sampled_from([0, 100, 4096])
    )
    def create(self, segment_bytes: int, index_interval_bytes: int) -> None:
        self.options: dict[str, Any] = {"segment_bytes": segment_bytes, "index_interval_bytes": index_interval_bytes}
        self.log = make_log(CrashFiles(), **self.options)

    # Growing

    @rule(pairs=PAIRS, timestamp=TIMESTAMPS, codec=st.sampled_from([0, 0, 1, 4]))
    def append(self, pairs: list[tuple[str, str | None]], timestamp: int, codec: int) -> None:
        self.check_append(batch(*pairs, timestamp=timestamp, codec=codec))

    @rule(pairs=PAIRS, timestamp=TIMESTAMPS, producer=PRODUCERS, transactional=st.booleans())
    def append_as_producer(
        self, pairs: list[tuple[str, str | None]], timestamp: int, producer: int, transactional: bool
    ) -> None:
        transactional = transactional or producer in self.open_txns
        made = batch(
            *pairs,
            timestamp=timestamp,
            producer_id=producer,
            base_sequence=self.sequences.get(producer, 0),
            transactional=transactional,
        )
        sent = bytes(made)
        base = self.check_append(made)
        self.sequences[producer] = self.sequences.get(producer, 0) + len(pairs)
        self.last_sent[producer] = (sent, base, self.end - 1)
        if transactional:
            self.open_txns.setdefault(producer, base)

    def check_append(self, made: bytearray) -> int:
        parsed = RecordBatch(made)
        sent = [(record.timestamp, record.key or b"", record.value) for record in parsed.records()]
        base = self.end
        info = self.log.append(memoryview(made), now_ms=self.now_ms)
        assert (info.base_offset, info.last_offset) == (base, base + len(sent) - 1)
        assert not info.duplicate and info.log_start_offset == self.start
        self.records.update(enumerate(sent, base))
        self.end = base + len(sent)
        return base

    @precondition(lambda self: self.last_sent)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        producer = data.draw(st.sampled_from(sorted(self.last_sent)))
        sent, base, last = self.last_sent[producer]
        info = self.log.append(memoryview(bytearray(sent)), now_ms=self.now_ms)
        assert info.duplicate and (info.base_offset, info.last_offset) == (base, last)

    @precondition(lambda self: self.open_txns)
    @rule(data=st.data(), kind=st.sampled_from([ABORT, COMMIT]))
    def end_transaction(self, data: st.DataObject, kind: int) -> None:
        producer = data.draw(st.sampled_from(sorted(self.open_txns)))
        at = append_marker(self.log, kind, producer, timestamp=self.now_ms)
        assert at == self.end
        first = self.open_txns.pop(producer)
        if kind == ABORT:
            self.aborted.append((producer, first, at))
        self.end += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule()
    def flush(self) -> None:
        self.log.flush(self.now_ms)
        assert self.log.recovery_point == self.end

    @rule()
    def flush_rolled(self) -> None:
        flush_sealed(self.log, self.now_ms)
        assert self.log.recovery_point >= self.log.segments.active.base_offset

    # Shrinking

    @rule(place=PLACES)
    def advance_log_start(self, place: float) -> None:
        offset = round(place * self.end)
        self.log.advance_log_start(offset)
        self.start = max(self.start, offset)

    @rule()
    def retain(self) -> None:
        delete_old_segments(self.log, self.now_ms, self.now_ms)
        assert self.log.log_start_offset == self.start

    @precondition(lambda self: len(self.log.segments) > 2)
    @rule(data=st.data())
    def swap(self, data: st.DataObject) -> None:
        """Replace a few segments with one that has some of their batches, as the cleaner does."""
        sealed = self.log.segments.non_active()
        first = data.draw(st.integers(0, len(sealed) - 1))
        old = sealed[first : first + data.draw(st.integers(1, 3))]
        new = LogSegment.create(
            self.log.files, self.log.directory, old[0].base_offset, self.log.config, self.now_ms, paths.CLEANED
        )
        aborted = {txn.last_offset: txn for segment in old for txn in segment.txn_index.entries()}
        for found in (each for segment in old for each in batches(segment.log_file.read_at(0, segment.size_bytes))):
            last = found.last_offset
            # Batches of producers stay: the cleaner's rules about them are not this test's subject.
            if found.has_producer or data.draw(st.booleans()):
                new.append(
                    found.view, last_offset=last, max_timestamp_ms=found.max_timestamp, max_timestamp_offset=last
                )
                if last in aborted:
                    new.txn_index.append(aborted[last])
            else:
                for offset in range(found.base_offset, last + 1):
                    self.records.pop(offset, None)
        new.on_roll()
        self.log.replace_segments([new], old, self.now_ms)

    @rule(by_ms=st.sampled_from([1, 60_000]))
    def wait(self, by_ms: int) -> None:
        self.now_ms += by_ms
        remove_deleted(self.log, self.now_ms)

    # Stopping

    @rule()
    def stop_and_start(self) -> None:
        self.log.close(self.now_ms)
        self.start_again(clean=True)

    @rule()
    def kill_and_start(self) -> None:
        self.start_again(clean=False)

    def start_again(self, *, clean: bool) -> None:
        assert isinstance(self.log.files, CrashFiles)
        recovery_point = self.log.recovery_point
        self.log = make_log(
            self.log.files.copy(),
            clean_shutdown=clean,
            recovery_point=recovery_point,
            log_start_offset=self.start,
            now_ms=self.now_ms,
            **self.options,
        )
        assert self.log.recovery_point == (self.end if clean else recovery_point)
        # Below the log start a start may forget producers (a clean one, with the snapshots) or remember them (a scan of
        # the whole segment); and the scan may begin in the midst of a transaction that lies across it.
        known = {state.producer_id: state for state in self.log.producers}
        for producer, (_, _, last) in list(self.last_sent.items()):
            if producer not in known or known[producer].last_data_offset != last:
                assert last < self.start
                del self.last_sent[producer]
        still_open = {
            producer: state.current_txn_first_offset
            for producer, state in known.items()
            if state.current_txn_first_offset is not None
        }
        for producer in self.open_txns.keys() | still_open.keys():
            first, found = self.open_txns.get(producer), still_open.get(producer)
            assert first == found or min(at for at in (first, found) if at is not None) < self.start
        self.open_txns = still_open
        self.sequences = {producer: state.last_sequence + 1 for producer, state in known.items()}

    # Looking

    def walk(self, offset: int) -> list[Record]:
        """Return every record from `offset` on, read as a consumer does."""
        found: list[Record] = []
        offset = max(offset, self.log.log_start_offset)
        while data := self.log.read(offset, max_bytes=200, up_to=self.log.high_watermark).read():
            for each in batches(data):
                assert each.last_offset >= offset, "a batch that ends below what was asked for"
                offset = each.next_offset
                found += [] if each.is_control else each.records()
        return found

    @rule(place=PLACES)
    def read_from(self, place: float) -> None:
        offset = max(self.start, round(place * self.end))
        expected = [at for at in sorted(self.records) if at >= offset]
        assert [record.offset for record in self.walk(offset) if record.offset >= offset] == expected

    @rule(timestamp=TIMESTAMPS)
    def search_by_time(self, timestamp: int) -> None:
        found = to_the_end(self.log.search_timestamp(timestamp))
        late = [at for at, record in sorted(self.records.items()) if at >= self.start and record[0] >= timestamp]
        if found is not None and found.offset in self.records:
            assert found.offset == late[0]
            assert found.timestamp == self.records[found.offset][0]

    @invariant()
    def the_log_matches_the_model(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        unstable = min(self.open_txns.values(), default=self.end)
        assert self.log.last_stable_offset == max(unstable, self.start)
        found = {record.offset: (record.timestamp, record.key, record.value) for record in self.walk(0)}
        assert {offset: record for offset, record in found.items() if offset >= self.start} == {
            offset: record for offset, record in self.records.items() if offset >= self.start
        }
        first = self.log.segments.first.base_offset
        told = {(txn.producer_id, txn.last_offset) for txn in self.log.aborted_transactions(0, self.end)}
        assert told <= {(producer, at) for producer, _, at in self.aborted if at >= first}
        assert told >= {(producer, at) for producer, begin, at in self.aborted if begin >= self.start}

    @invariant()
    def segments_are_consecutive(self) -> None:
        if not hasattr(self, "log"):
            return
        end = -1
        for segment in self.log.segments:
            assert segment.base_offset >= end
            end = segment.next_offset()


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(max_examples=size(10, 40), stateful_step_count=25, deadline=None)
