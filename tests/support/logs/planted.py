"""Data directories with planted keys: random histories, and an independent search of all bytes on the disk."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator

import cramjam

from ottla.protocol.compression import Codec
from ottla.storage.cleaning.dirtiness import measure
from ottla.storage.data_dirs import snapshots
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import MetaProperties, OffsetCheckpoint, write_meta_properties
from ottla.storage.disk.files import Files
from ottla.storage.disk.paths import TopicPartition
from support.disk.crash_files import CrashFiles
from support.logs.batches import ABORT, COMMIT
from support.logs.make_log import append, append_marker, clean, make_log, remove_deleted

TP = TopicPartition("t", 0)
DATA = "/data"
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
STARTS_MS = 1_000


class Planted:
    """A data directory with one log, in which a random history plants keys.

    Each key and each value is a number of random bytes that occurs nowhere else, so that a search of bytes finds nothing by chance.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.files = CrashFiles()
        self.now_ms = STARTS_MS
        self.keys = [rng.randbytes(20) for _ in range(rng.randint(1, 4))]
        self.secrets: dict[bytes, bytes] = {}
        """Value -> its key."""
        self.sources = [DATA]
        self.clean_below = 0
        self._open: dict[int, int] = {}
        """Producer ID -> sequence number of an open transaction."""
        self._producers = 0
        self.files.make_dir(DATA)
        write_meta_properties(self.files, DATA, MetaProperties(cluster_id="c", node_id=1, directory_id=None))
        lag_ms = rng.choice([0, 0, 6_000])
        self.log = make_log(self.files, tp=TP, data_dir=DATA, min_compaction_lag_ms=lag_ms, delete_retention_ms=3_000)

    def run(self, count: int) -> None:
        """Do random things, `count` of them."""
        for _ in range(count):
            self.now_ms += self.rng.randint(0, 1_500)
            action = self.rng.choices(
                [
                    self._write,
                    self._begin,
                    self._end,
                    self._roll,
                    self._clean,
                    self._leave,
                    self._snapshot,
                    self._start,
                ],
                [10, 1, 4, 4, 3, 1, 0.5, 0.7],
            )[0]
            action()

    def write_checkpoints(self) -> None:
        """Write what a broker of this directory would have written."""
        OffsetCheckpoint(self.files, paths.join(DATA, paths.CLEANER_CHECKPOINT)).write({TP: self.clean_below})
        OffsetCheckpoint(self.files, paths.join(DATA, paths.LOG_START_CHECKPOINT)).write(
            {TP: self.log.log_start_offset}
        )

    def clean(self) -> bool:
        """Run one pass of the cleaner over what it may cover now, due or not; return whether anything is dirty."""
        found = measure(self.log, max(self.clean_below, self.log.log_start_offset), self.now_ms)
        if found.cleanable_bytes:
            self.clean_below, _ = clean(self.log, found.first_dirty_offset, now_ms=self.now_ms)
        return found.cleanable_bytes > 0

    def _pairs(self) -> list[tuple[bytes, bytes | None]]:
        pairs: list[tuple[bytes, bytes | None]] = []
        for _ in range(self.rng.randint(1, 5)):
            if self.rng.random() < 0.4:
                pairs.append((b"other-%d" % self.rng.randint(0, 3), self.rng.randbytes(30)))
                continue
            key = self.rng.choice(self.keys)
            if self.rng.random() < 0.25:
                pairs.append((key, None))
            else:
                secret = self.rng.randbytes(20)
                self.secrets[secret] = key
                pairs.append((key, secret))
        return pairs

    def _write(self) -> None:
        append(self.log, *self._pairs(), timestamp=self.now_ms, now_ms=self.now_ms, codec=self.rng.choice(CODECS))

    def _begin(self) -> None:
        self._producers += 1
        self._open[self._producers] = 0
        self._write_in(self._producers)

    def _write_in(self, producer_id: int) -> None:
        pairs = self._pairs()
        append(
            self.log,
            *pairs,
            timestamp=self.now_ms,
            now_ms=self.now_ms,
            codec=self.rng.choice(CODECS),
            producer_id=producer_id,
            base_sequence=self._open[producer_id],
            transactional=True,
        )
        self._open[producer_id] += len(pairs)

    def _end(self) -> None:
        if self._open:
            producer_id = self.rng.choice(list(self._open))
            if self.rng.random() < 0.2:
                self._write_in(producer_id)
            else:
                del self._open[producer_id]
                append_marker(self.log, self.rng.choice([ABORT, COMMIT]), producer_id, timestamp=self.now_ms)

    def _roll(self) -> None:
        self.log.roll(self.now_ms)

    def _clean(self) -> None:
        self.clean()
        if self.rng.random() < 0.5:
            remove_deleted(self.log, 1 << 40)

    def _leave(self) -> None:
        """Leave a file of an interrupted pass or swap, or a directory that no broker serves."""
        sealed = [each.base_offset for each in self.log.segments.non_active()]
        kind = self.rng.choice([paths.CLEANED, paths.SWAP, "delete", "future", "stray"])
        if not sealed:
            return
        source = paths.log_path(self.log.directory, self.rng.choice(sealed))
        if kind in (paths.CLEANED, paths.SWAP):
            self._copy(source, source + kind)
            return
        directory = paths.join(DATA, f"t-0.{self.rng.randbytes(16).hex()}-{kind}")
        self.files.make_dir(directory)
        self._copy(source, paths.join(directory, source.rpartition("/")[2]))

    def _snapshot(self) -> None:
        if len(self.sources) < 2:
            self.log.flush(self.now_ms)
            path = f"/backup/{len(self.sources)}"
            snapshots.save(self.files, [DATA], self.files, path, self.rng.randbytes(16).hex(), 0)
            self.sources.append(path)

    def _start(self) -> None:
        """Move the log start, as DeleteRecords does."""
        self.log.flush(self.now_ms)
        if self.log.log_start_offset < self.log.last_stable_offset and self.rng.random() < 0.5:
            self.log.advance_log_start(self.rng.randint(self.log.log_start_offset, self.log.last_stable_offset))

    def _copy(self, source: str, target: str) -> None:
        opened = self.files.open(source)
        copy = self.files.open(target, create=True, truncate=True)
        copy.append(opened.read_at(0, opened.size()))
        copy.close()
        opened.close()


def bytes_on_disk(files: Files, directories: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield each file below these directories, and its bytes; of a log file the bytes of its unpacked batches."""
    for path in directories:
        for name in files.list(path):
            found = paths.join(path, name)
            if files.is_dir(found):
                yield from bytes_on_disk(files, [found])
                continue
            file = files.open(found)
            data = file.read_at(0, file.size())
            file.close()
            yield found, unpacked(data) if ".log" in name else data


def unpacked(data: bytes) -> bytes:
    """Return the payloads of all data batches, one after the other; shares no code with the product."""
    found, at = bytearray(), 0
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12])
        if end > len(data):  # a write that a kill has cut off
            return bytes(found + data[at:])
        attributes, payload = int.from_bytes(data[at + 21 : at + 23]), data[at + 61 : end]
        if not attributes & 0x20 and payload:
            found += _UNPACK[attributes & 7](payload)
        at = end
    return bytes(found)


def _snappy(data: bytes) -> bytes:
    if not data.startswith(b"\x82SNAPPY\0"):
        return bytes(cramjam.snappy.decompress_raw(data))
    found, at = b"", 16
    while at < len(data):
        size = int.from_bytes(data[at : at + 4])
        found += bytes(cramjam.snappy.decompress_raw(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return found


_UNPACK: dict[int, Callable[[bytes], bytes]] = {
    0: lambda data: data,
    1: lambda data: zlib.decompress(data, 31),
    2: _snappy,
    3: lambda data: bytes(cramjam.lz4.decompress(data)),
    4: lambda data: bytes(cramjam.zstd.decompress(data)),
}


def occurrences(planted: Planted) -> tuple[Counter[tuple[str, bytes]], Counter[tuple[str, bytes]]]:
    """Count how often each key, and each of its values, occurs in each file: (path, key) -> number of keys, of values."""
    keys: Counter[tuple[str, bytes]] = Counter()
    values: Counter[tuple[str, bytes]] = Counter()
    for path, data in bytes_on_disk(planted.files, planted.sources):
        for key in planted.keys:
            if count := data.count(key):
                keys[path, key] = count
        for secret, key in planted.secrets.items():
            if count := data.count(secret):
                values[path, key] += count
    return keys, values
