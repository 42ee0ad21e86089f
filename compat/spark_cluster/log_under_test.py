"""A data directory with a planned compaction, the expected result, and a consumer's expected view."""

import random
import shutil
import zlib
from collections.abc import Iterable
from pathlib import Path

from ottla.storage.disk.paths import TopicPartition

from ..support.brokers.ottla_process import OttlaProcess
from ..support.clients.steps import read_messages
from ..support.logs.batches import RECORDS_A_BATCH, make_batches
from ..support.logs.big_log import write_big_log
from .command import run_here

TP = TopicPartition("big", 0)
TOPIC = TP.topic
MAP_BYTES = 256 << 20
KEYS_PER = 300
"""Bytes of the log for each key: some three records."""
INDEXED = (".log", ".index", ".timeindex", ".txnindex")

Digests = dict[str, tuple[int, int, int]]
"""File name -> bytes, CRC-32, modification time in ms."""


class LogUnderTest:
    """A log under test: `data`, with its staging next to it. `prepare` sets `expected` and `values`."""

    def __init__(self, work: Path, *, size_bytes: int, segment_bytes: int) -> None:
        self.data = work / "data"
        self.beside = work / "data.ottla-pipeline"
        self._saved = work / "saved"
        self._sizes = (size_bytes, segment_bytes)
        self.plan_id = ""
        self.expected: Digests = {}
        self.values: dict[bytes, bytes] = {}

    def make(self) -> None:
        size_bytes, segment_bytes = self._sizes
        rng = random.Random(1)
        batches = make_batches(
            lambda _: rng.randrange(size_bytes // KEYS_PER),
            value_bytes=76,
            size_bytes=size_bytes,
            tombstones_in=20,
            lz4_in=10,
        )
        write_big_log(self.data, TP, batches, records_a_batch=RECORDS_A_BATCH, segment_bytes=segment_bytes)

    def save(self) -> None:
        """Save the state for `restore`. Hard links are enough: no process changes an existing file in place."""
        shutil.copytree(self.data, self._saved / "data")
        shutil.copytree(self.beside, self._saved / "beside")

    def restore(self) -> None:
        """Restore the log and the plan, with nothing staged."""
        for saved, there in (("data", self.data), ("beside", self.beside)):
            shutil.rmtree(there, ignore_errors=True)
            shutil.copytree(self._saved / saved, there)

    @property
    def staging(self) -> Path:
        return self.beside / self.plan_id

    @property
    def bases(self) -> list[str]:
        """The base offsets of the groups, from their results."""
        return sorted(name.removesuffix(".log") for name in self.expected if name.endswith(".log"))

    def staged(self) -> Digests:
        """Return the finished groups' files."""
        return digests(path for group in self.staging.glob("[0-9]" * 20) for path in group.iterdir())

    def installed(self) -> Digests:
        """Return the segments of the log but for the active one."""
        active = max(path.name for path in self.partition.glob("*.log")).removesuffix(".log")
        return digests(path for path in self.partition.iterdir() if not path.name.startswith(active))

    def untouched(self) -> bool:
        """Return whether the log is what it was before."""
        saved = {path.name: path.read_bytes() for path in (self._saved / "data" / str(TP)).iterdir()}
        return saved == {path.name: path.read_bytes() for path in self.partition.iterdir()}

    def parts(self) -> list[str]:
        """Return the files that attempts have left."""
        return sorted(path.name for path in self.beside.rglob("*.part"))

    @property
    def partition(self) -> Path:
        return self.data / str(TP)

    def cleaned_by_the_server(self, work: Path) -> Digests:
        """Return the result of the server's own pass over a copy, with the plan's clock and a map that does not fill."""
        from ottla.pipeline.compaction.staging import load_plan
        from ottla.pipeline.stores.store import Store
        from ottla.storage.cleaning.cleaner import Cleaner
        from ottla.storage.cleaning.dirtiness import measure
        from ottla.storage.disk.os_files import OsFiles
        from ottla.storage.logs.log_parts import LogPlace, ShutdownState
        from ottla.storage.logs.recovery import load_log

        plan = load_plan(OsFiles(), str(self.staging))
        shutil.copytree(self.data, work)
        store = Store(str(work))
        directory, now_ms = store.directory_of(TP), plan.now_ms
        log = load_log(
            LogPlace(OsFiles(), directory, TP), store.config_of(TOPIC), ShutdownState(is_clean=True), now_ms=now_ms
        )
        end, _ = Cleaner(dedupe_buffer_bytes=MAP_BYTES, load_factor=0.9, io_buffer_bytes=4 << 20).clean(
            measure(log, 0, now_ms).for_worker(),
            now_ms,
            secret=plan.secret,
            swap=lambda new, old: log.replace_segments(new, old, now_ms),
            checkpoint=lambda _: None,
        )
        assert end == plan.upper_offset, "the map became full"
        active = f"{end:020}"
        found = digests(path for path in Path(directory).iterdir() if not path.name.startswith(active))
        shutil.rmtree(work)
        return found

    def served(self) -> dict[bytes, bytes]:
        """Return the final values of a consumer of a server on the directory: the newest value of each key that has one."""
        values: dict[bytes, bytes] = {}
        with OttlaProcess(data=self.data, overrides={"log.cleaner.enable": "false"}) as broker:
            for message in read_messages(broker.bootstrap, [(TP.topic, TP.partition)]):
                key, value = message.key(), message.value()
                assert key is not None
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value
        return values

    def newest(self) -> dict[bytes, bytes]:
        """Return the newest value of each key by a plain walk over the batches on disk, without the pipeline's code."""
        from ottla.storage.disk.os_files import OsFiles
        from ottla.storage.segment.segment import LogSegment
        from ottla.storage.topics.config import LogConfig

        values: dict[bytes, bytes] = {}
        for path in sorted(self.partition.glob("*.log")):
            segment = LogSegment.open(OsFiles(), str(self.partition), int(path.stem), LogConfig(), 0)
            for _, batch in segment.batches():
                for record in batch.records():
                    assert record.key is not None
                    if record.value is None:
                        values.pop(record.key, None)
                    else:
                        values[record.key] = bytes(record.value)
            segment.log_file.close()
        return values

    def compact_here(self) -> Digests:
        done = run_here("compact", str(self.data), "--topic", TOPIC, "--quiet")
        assert done.code == 0, done.err
        return self.staged()


def digests(paths: Iterable[Path]) -> Digests:
    found: Digests = {}
    for path in paths:
        if path.suffix in INDEXED:
            data = path.read_bytes()
            found[path.name] = (len(data), zlib.crc32(data), path.stat().st_mtime_ns // 10**6)
    return found
