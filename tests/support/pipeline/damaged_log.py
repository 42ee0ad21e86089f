"""A small compacted log with all kinds of records, a copy from before compaction, and a table of damage to apply to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ottla.pipeline.stores.store import Store
from ottla.pipeline.verify.audit_scope import scope_against, scope_alone
from ottla.pipeline.verify.findings import VerifyReport
from ottla.pipeline.verify.verify import verify
from ottla.protocol.records import RecordBatch
from ottla.protocol.records import batches as batches_of
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.logs.log import Log
from support.disk.crash_files import CrashFiles
from support.logs.make_log import TP, Producer, append, clean, make_log
from support.pipeline.planted_damage import (
    Change,
    changed,
    garbage,
    gone,
    header,
    recoded,
    records,
    twice,
    value,
    without,
)

CONFIG = {"cleanup.policy": "compact"}
NOW_MS = 50_000
AFTER, BEFORE = "/data", "/before"
LZ4 = 3


def written_log(files: CrashFiles) -> Log:
    """Write three sealed segments with all kinds of records, and an active one.

    0   a b z | c d (lz4, with headers) | p of producer 7        compacted: z | d | p
    6   x, ABORT | y, COMMIT | a, c deleted | q deleted                    (empty), ABORT | y, COMMIT | a, c deleted | q deleted
    13  b f | k of producer 7 | h                                          all of it
    17  g
    """
    log = make_log(files, index_interval_bytes=0, segment_bytes=100_000, delete_retention_ms=86_400_000)
    plain = Producer(log, 7)
    append(log, ("a", "1"), ("b", "1"), ("z", "1"), timestamp=[1_000, 3_000, 2_000])
    append(log, ("c", "1"), ("d", "1"), headers=(("h", b"1"), ("h", None)), codec=LZ4)
    plain.write("p")
    log.roll(1_000)
    aborting, committing = Producer(log, 8, transactional=True), Producer(log, 9, transactional=True)
    aborting.write("x")
    aborting.abort()
    committing.write("y")
    committing.commit()
    append(log, ("a", "2"), ("c", None))
    append(log, ("q", None))
    log.roll(1_000)
    append(log, ("b", "2"), ("f", "1"), timestamp=[4_000, 9_000])
    plain.write("k")
    append(log, ("h", "1"), partition_leader_epoch=0)
    log.roll(1_000)
    append(log, ("g", "1"))
    return log


class Disk:
    """The log, compacted, and a copy from before, with methods that damage the compacted log."""

    def __init__(self) -> None:
        self.files = CrashFiles()
        log = written_log(self.files)
        log.flush(1_000)
        for path, data in list(self.files.snapshot().items()):
            if path.startswith(AFTER + "/"):
                self.write(path.replace(AFTER, BEFORE, 1), data)
        log.config = replace(log.config, segment_bytes=300)  # so that the log has several groups
        end, _ = clean(log, now_ms=20_000)
        log.close(20_000)
        checkpoint = OffsetCheckpoint(self.files, f"{AFTER}/{paths.CLEANER_CHECKPOINT}")
        checkpoint.write({TP: end})

    def write(self, path: str, data: bytes) -> None:
        self.files.make_dir(path.rpartition("/")[0])
        file = self.files.open(path, create=True, truncate=True)
        file.append(data)
        file.close()
        self.files.set_mtime_ms(path, NOW_MS)

    def path(self, base_offset: int, kind: str = paths.LOG) -> str:
        return paths.segment_path(f"{AFTER}/{TP}", base_offset, kind)

    def read(self, path: str) -> bytes:
        return self.files.snapshot()[path]

    def segment_of(self, offset: int) -> int:
        names = [paths.parse_segment_name(name) for name in self.files.list(f"{AFTER}/{TP}")]
        bases = [name.base_offset for name in names if name and name.kind == paths.LOG and not name.suffix]
        return max(base for base in bases if base <= offset)

    def change(self, offset: int, change: Change) -> None:
        """Put other batches in place of the one that holds `offset`."""
        path = self.path(self.segment_of(offset))
        data = changed(self.read(path), offset, change)
        # The indexes are built again: the damage is in the log alone.
        for kind in (paths.INDEX, paths.TIME_INDEX):
            self.files.remove(self.path(self.segment_of(offset), kind))
        self.write(path, data)

    def edit(self, path: str, change: Callable[[bytearray], None]) -> None:
        data = bytearray(self.read(path))
        change(data)
        self.write(path, bytes(data))

    def verify(self) -> tuple[VerifyReport, VerifyReport]:
        """Verify the log alone, and against the copy."""
        store = Store(AFTER, self.files)
        alone = scope_alone(store, TP, NOW_MS, CONFIG)
        against = scope_against(store, Store(BEFORE, self.files), TP, NOW_MS, CONFIG)
        return verify([alone], self.files), verify([against], self.files)


def from_before(offset: int) -> Callable[[Disk], None]:
    """Return a change that brings back the whole original batch."""

    def plant(disk: Disk) -> None:
        for path, data in disk.files.snapshot().items():
            if path.startswith(BEFORE) and path.endswith(".log"):
                for each in batches_of(data):
                    if each.base_offset <= offset <= each.last_offset:
                        original = bytes(each.view)
        target = disk.path(disk.segment_of(offset))
        kept = [
            bytes(each.view)
            for each in batches_of(disk.read(target))
            if not each.base_offset <= offset <= each.last_offset
        ]
        kept = sorted([*kept, original], key=lambda data: RecordBatch(data).base_offset)
        for kind in (paths.INDEX, paths.TIME_INDEX):
            disk.files.remove(disk.path(disk.segment_of(offset), kind))
        disk.write(target, b"".join(kept))

    return plant


def at(offset: int, change: Change) -> Callable[[Disk], None]:
    return lambda disk: disk.change(offset, change)


def bytes_at(base_offset: int, kind: str, place: int, value: bytes) -> Callable[[Disk], None]:
    def change(data: bytearray) -> None:
        data[place : place + len(value) if place >= 0 else len(data) + place + len(value)] = value

    return lambda disk: disk.edit(disk.path(base_offset, kind), change)


def cut(base_offset: int) -> Callable[[Disk], None]:
    return lambda disk: disk.edit(disk.path(base_offset), lambda data: data.__delitem__(slice(-5, None)))


def remove(base_offset: int, kind: str = paths.LOG) -> Callable[[Disk], None]:
    return lambda disk: disk.files.remove(disk.path(base_offset, kind))


class Case(NamedTuple):
    what: str
    plant: Callable[[Disk], None]
    rule: str
    offset: int
    alone: bool = True
    """Whether the damage is visible without the copy."""
    key: bytes | None = None


CASES = (
    # Bytes that are not a log.
    Case("a flipped bit", bytes_at(13, paths.LOG, 75, b"\xff"), "a batch has the CRC", 13),
    Case("a segment cut short", cut(13), "a segment is whole batches", 16),
    Case("another record format", bytes_at(13, paths.LOG, 16, b"\1"), "a segment is whole batches", 13),
    Case("a length that cannot be", bytes_at(13, paths.LOG, 8, b"\0\0\0\1"), "a segment is whole batches", 13),
    Case("a batch that is there twice", at(13, twice), "offsets rise", 13),
    Case("a batch of another segment", at(13, header(base_offset=2)), "offsets rise", 2),
    Case("offsets of the next segment", at(16, header(last_offset_delta=4)), "a segment has its own offsets", 16),
    Case("records that are not there", at(13, header(record_count=9)), "records can be read", 13),
    Case("garbage under a right CRC", at(13, garbage), "records can be read", 13),
    Case("an unknown codec", at(13, header(attributes=7)), "attributes are known", 13),
    # Batch fields.
    Case("a batch without an epoch", at(5, header(producer_epoch=-1)), "a batch of a producer has its epoch", 5),
    Case("an epoch without a producer", at(13, header(producer_epoch=3)), "a batch without a producer", 13),
    Case("a leader epoch that falls", at(13, header(partition_leader_epoch=9)), "leader epochs never fall", 15),
    Case("a wrong max timestamp", at(13, header(max_timestamp=8_000)), "a batch's max timestamp", 13),
    Case("more records than offsets", at(13, header(last_offset_delta=0)), "records can be read", 13),
    # Indexes.
    Case("an offset index that points elsewhere", bytes_at(13, paths.INDEX, -1, b"\x51"), "offset index entries", 16),
    Case("a time index that is late", bytes_at(13, paths.TIME_INDEX, -5, b"\xff"), "time index entries", 14),
    Case("a transaction index of another producer", bytes_at(6, paths.TXN_INDEX, 9, b"\3"), "the transaction index", 7),
    # The promises of compaction that the log itself shows.
    Case("a superseded value left", from_before(13 - 12), "a superseded record is gone", 0, key=b"a"),
    Case("data of an aborted transaction left", from_before(6), "data of aborted transactions", 6, key=b"x"),
    Case("a transaction without its marker", at(9, gone), "data of a transaction has its marker", 8),
    # Damage that only the copy from before shows.
    Case("a newest value lost", at(14, without(14)), "a key's newest record", 14, False, b"f"),
    Case("a batch lost", at(5, gone), "a key's newest record", 5, False, b"p"),
    Case("a segment lost", remove(13), "a key's newest record", 13, False, b"b"),
    Case("committed data lost", at(8, gone), "a key's newest record", 8, False, b"y"),
    Case("a tombstone lost within its horizon", at(12, gone), "a key's newest record", 12, False, b"q"),
    Case("another value", at(16, records(value(b"9"))), "a record keeps its value", 16, False, b"h"),
    Case(
        "another key",
        at(16, records(lambda record: record._replace(key=b"H"))),
        "a record keeps its key",
        16,
        False,
        b"H",
    ),
    Case(
        "other headers",
        at(4, records(lambda record: record._replace(headers=(("h", b"1"),)))),
        "a record keeps its headers",
        4,
        False,
        b"d",
    ),
    Case(
        "another timestamp",
        at(16, records(lambda record: record._replace(timestamp=7))),
        "a record keeps its timestamp",
        16,
        False,
        b"h",
    ),
    Case(
        "another offset",
        at(4, records(lambda record: record._replace(offset=3))),
        "a key's newest record",
        4,
        False,
        b"d",
    ),
    Case("another producer", at(5, header(producer_id=6)), "a batch keeps its producer id", 5, False),
    Case("another producer epoch", at(5, header(producer_epoch=6)), "a batch keeps its producer epoch", 5, False),
    Case("another sequence", at(5, header(base_sequence=6)), "a batch keeps its base sequence", 5, False),
    Case("another last offset", at(10, header(last_offset_delta=0)), "records can be read", 10),
    Case("another codec", at(4, recoded), "a batch keeps its attributes", 3, False),
    Case("another timestamp type", at(16, header(attributes=8)), "a batch keeps its attributes", 16, False),
    Case("a COMMIT marker lost beside its data", at(9, gone), "markers within their horizon", 9),
    Case("an ABORT marker lost within its horizon", at(7, gone), "the transaction index", 7),
)


def found_as_expected(case: Case) -> list[str]:
    """Apply the damage and verify; return every difference from the case."""
    disk = Disk()
    case.plant(disk)
    alone, against = disk.verify()
    wrong = [] if alone.passed != case.alone else [f"alone it {'passes' if alone.passed else 'fails'}"]
    for report in (against, alone) if case.alone and not case.rule.startswith("markers") else (against,):
        findings = [each for each in report.partitions[0].findings if each.rule.startswith(case.rule)]
        if not findings or (findings[0].offset, findings[0].key) != (case.offset, case.key):
            wrong.append(f"{report.mode}: {findings[:1] or report.partitions[0].findings[:3]}")
    return wrong
