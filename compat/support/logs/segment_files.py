"""Reads segment, index and checkpoint files by the published formats, without any of Ottla's code.

batch header (61 bytes): base offset 8, length 4, leader epoch 4, magic 1, crc 4, attributes 2, last offset delta 4,
                         base timestamp 8, max timestamp 8, producer id 8, epoch 2, base sequence 4, records 4
.index entry      (8):   relative offset 4, position 4
.timeindex entry (12):   timestamp 8, relative offset 4
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEADER = struct.Struct(">qiibIhiqqqhii")
LOG_OVERHEAD_BYTES = 12


@dataclass(frozen=True, slots=True)
class BatchHeader:
    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    attributes: int
    max_timestamp: int
    record_count: int

    @property
    def codec(self) -> int:
        return self.attributes & 7

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & 32)


def batch_headers(log_file: Path) -> Iterator[BatchHeader]:
    """Yield the headers of a segment's whole batches, up to a torn tail."""
    data = log_file.read_bytes()
    position = 0
    while position + HEADER.size <= len(data):
        base, length, _, _, _, attributes, last_delta, _, max_timestamp, _, _, _, count = HEADER.unpack_from(
            data, position
        )
        size = LOG_OVERHEAD_BYTES + length
        if length <= 0 or position + size > len(data):
            return
        yield BatchHeader(position, size, base, base + last_delta, attributes, max_timestamp, count)
        position += size


def segments(partition_dir: Path) -> list[Path]:
    """Return the `.log` files in offset order; the last one is the active segment."""
    return sorted(partition_dir.glob("*.log"))


def base_offset(segment: Path) -> int:
    return int(segment.name.split(".", 1)[0])


def read_checkpoint(path: Path) -> dict[tuple[str, int], int]:
    """Return an offset checkpoint file: version 0, entry count, then `topic partition offset` lines. Missing file: empty."""
    if not path.exists():
        return {}
    entries = {}
    for line in path.read_text().splitlines()[2:]:
        topic, partition, offset = line.rsplit(" ", 2)
        entries[topic, int(partition)] = int(offset)
    return entries


def cleaner_checkpoint(data_dir: Path, topic: str, partition: int = 0) -> int | None:
    """Return first dirty offset as the cleaner last wrote it down."""
    return read_checkpoint(data_dir / "cleaner-offset-checkpoint").get((topic, partition))


def index_faults(partition_dir: Path) -> list[str]:
    """Return the wrong entries of `.index` and `.timeindex`, compared with the `.log`; empty if all are correct.

    An offset entry must name a batch's start and an offset in this batch, ascending. A time entry must be
    ascending, and no batch up to its offset may be newer than its time.
    """
    faults = []
    for log_file in segments(partition_dir):
        base = base_offset(log_file)
        headers = list(batch_headers(log_file))
        by_position = {header.position: header for header in headers}
        previous = (-1, -1)
        for relative, position in entries(log_file.with_suffix(".index"), ">ii"):
            header = by_position.get(position)
            if header is None or not header.base_offset <= base + relative <= header.last_offset:
                faults.append(f"{log_file.stem}.index: entry {base + relative} at {position} fits no batch")
            if (relative, position) <= previous:
                faults.append(f"{log_file.stem}.index: entries do not ascend at {relative}")
            previous = (relative, position)
        faults += _time_faults(log_file.stem, base, headers, entries(log_file.with_suffix(".timeindex"), ">qi"))
    return faults


def _time_faults(name: str, base: int, headers: list[BatchHeader], times: list[tuple[int, ...]]) -> list[str]:
    faults = []
    newest, at = -1, 0
    previous = (-1, -1)
    for timestamp, relative in times:
        while at < len(headers) and headers[at].last_offset <= base + relative:
            newest = max(newest, headers[at].max_timestamp)
            at += 1
        if newest > timestamp:
            faults.append(f"{name}.timeindex: up to offset {base + relative} there is {newest} > {timestamp}")
        if (timestamp, relative) <= previous:
            faults.append(f"{name}.timeindex: entries do not ascend at {timestamp}")
        previous = (timestamp, relative)
    return faults


def entries(path: Path, layout: str) -> list[tuple[int, ...]]:
    """Return the entries of an index file, without the zeros that a preallocated file ends with."""
    if not path.exists():
        return []
    data = path.read_bytes()
    size = struct.calcsize(layout)
    found = [struct.unpack_from(layout, data, at) for at in range(0, len(data) - size + 1, size)]
    while found and not any(found[-1]):
        found.pop()
    return found


def work_files(partition_dir: Path) -> list[str]:
    """Return names of files that a clean pass or its swap has not finished with."""
    return [path.name for path in partition_dir.iterdir() if path.suffix in (".cleaned", ".swap")]
