"""`ottla dump-log`: what is in the files of a data directory, checked on the way; Ottla's and Apache Kafka's alike.

    ottla dump-log --print-data orders-0/00000000000000000000.log
    ottla dump-log orders-0/*.index recovery-point-offset-checkpoint

Only reads. A file that cannot be what its name says gives a line with PROBLEM and exit code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import struct
import sys
from collections.abc import Callable, Iterator

from ...protocol.errors import CorruptRecordError
from ...protocol.records import HEADER_BYTES, Record, RecordBatch
from ...storage.disk import paths
from ...storage.disk.checkpoints import (
    CorruptCheckpointError,
    OffsetCheckpoint,
    read_entries,
    read_meta_properties,
    read_partition_metadata,
    uuid_text,
)
from ...storage.disk.files import DamagedFileError, File, Files
from ...storage.disk.health import DataDirectoryError
from ...storage.disk.os_files import ReadOnlyFiles
from ...storage.produce.producer_snapshots import decode as decode_snapshot
from ...storage.segment.batch_scan import RECOVERY_CHUNK_BYTES, UNREADABLE, batch_walk, computed_crc
from ...storage.segment.index import AbortedTxn
from ...storage.topics.catalog_file import decode
from ..partitions.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from .dump_records import (
    batch_line,
    control_record,
    group_record,
    plain_record,
    share_state_record,
    size,
    transaction_record,
)
from .frame.errors import DONE, SAID_NO
from .frame.options import json_option
from .frame.parser import Command, Parser
from .frame.printing import show, show_json

RECORD_LINES: dict[str | None, Callable[[Record], str]] = {
    OFFSETS_TOPIC: group_record,
    SHARE_STATE_TOPIC: share_state_record,
    TRANSACTIONS_TOPIC: transaction_record,
}
"""How records of a topic are told; those of others as they are."""

WHOLE_BATCH_BYTES_MAX = 128 << 20
"""Larger batches are checked without being read whole; their records are not shown."""

FILE_BYTES_MAX = 256 << 20
"""Other files than logs are read whole, up to this size."""

PROBLEM = "PROBLEM"

_OFFSET_CHECKPOINTS = (
    paths.RECOVERY_POINT_CHECKPOINT,
    paths.LOG_START_CHECKPOINT,
    paths.REPLICATION_CHECKPOINT,
    paths.CLEANER_CHECKPOINT,
)
_METADATA_SNAPSHOT = re.compile(r"[0-9]{20}-[0-9]{10}\.checkpoint(\.part|\.deleted)?|bootstrap\.checkpoint")
_ABORTED_TXN = struct.Struct(">hqqqq")


def add_options(parser: Parser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="file to show; its name determines its type")
    parser.add_argument("--deep", action="store_true", help="show every record, not only batches")
    parser.add_argument("--print-data", action="store_true", help="show keys, values and headers (implies --deep)")
    json_option(parser, "print one JSON object per file, one per line")


def run(options: argparse.Namespace) -> int:
    """Dump every file that the command line names; 1 if one could not be read or has a problem."""
    dump = Dump(ReadOnlyFiles(), deep=options.deep or options.print_data, print_data=options.print_data)
    code = DONE
    for path in options.files:
        told: list[str] = []
        tell = told.append if options.json else show
        try:
            problem = False
            for line in dump.lines(path):
                tell(line)
                problem |= line.startswith(PROBLEM)
            code = SAID_NO if problem else code
        except OSError as error:
            print(f"ottla: {path}: {error.strerror or error}", file=sys.stderr)
            code = SAID_NO
            continue
        if options.json:
            show_json(
                {"file": path, "lines": [line.strip() for line in told[1:]], "is_whole": not problem}, indent=None
            )
    return code


class Dump:
    """Turns files into lines of text."""

    def __init__(self, files: Files, *, deep: bool = False, print_data: bool = False) -> None:
        self._files = files
        self._deep = deep
        self._print_data = print_data

    def lines(self, path: str) -> Iterator[str]:
        """The content of one file, a line for each thing in it. OSError if it cannot be read."""
        if not self._files.exists(path):
            raise FileNotFoundError(2, "no such file", path)
        yield f"{path}:"
        try:
            for line in self._content(path):
                yield f"  {line}"
        except UNREADABLE as error:
            yield f"{PROBLEM} {error.message}"
        except (DamagedFileError, CorruptCheckpointError, DataDirectoryError) as error:
            yield f"{PROBLEM} {error}"

    def _content(self, path: str) -> Iterator[str]:
        name = os.path.basename(path)
        segment_file = paths.parse_segment_name(name)
        if segment_file is not None:
            show = {
                paths.LOG: self._log,
                paths.INDEX: self._offset_index,
                paths.TIME_INDEX: self._time_index,
                paths.TXN_INDEX: self._txn_index,
                paths.SNAPSHOT: self._snapshot,
            }[segment_file.kind]
            yield from show(path, segment_file.base_offset)
        elif _METADATA_SNAPSHOT.fullmatch(name):
            yield from self._log(path, 0)
        else:
            yield from self._text(path, name)

    # Logs

    def _log(self, path: str, base_offset: int) -> Iterator[str]:
        describe = RECORD_LINES.get(_topic_of(path), plain_record)
        file = self._files.open(path)
        try:
            last_offset = base_offset - 1
            for position, batch in batch_walk(
                file, 0, path, chunk_bytes=RECOVERY_CHUNK_BYTES, whole_bytes_max=WHOLE_BATCH_BYTES_MAX
            ):
                yield batch_line(position, batch)
                crc = computed_crc(file, position, batch)
                if crc != batch.crc:
                    raise DamagedFileError(
                        f"position {position}: CRC mismatch: computed {crc:08x}, batch header has {batch.crc:08x}"
                    )
                if batch.base_offset <= last_offset:
                    raise DamagedFileError(
                        f"position {position}: offset {batch.base_offset} comes after offset {last_offset}"
                    )
                last_offset = batch.last_offset
                if self._deep and batch.is_whole:
                    yield from self._records(batch, describe)
        finally:
            file.close()

    def _records(self, batch: RecordBatch, describe: Callable[[Record], str]) -> Iterator[str]:
        for record in batch.records():
            line = f"  offset {record.offset}  timestamp {record.timestamp}"
            if batch.is_control:
                yield f"{line}  {control_record(record)}"
                continue
            line += f"  key {size(record.key)}  value {size(record.value)}"
            if batch.has_producer and batch.base_sequence >= 0:
                line += f"  sequence {record.sequence}"
            if record.headers:
                line += f"  headers {len(record.headers)}"
            yield f"{line}  {describe(record)}" if self._print_data else line

    # Indexes and snapshots

    def _offset_index(self, path: str, base_offset: int) -> Iterator[str]:
        log = self._log_beside(path) if self._deep else None
        try:
            previous = (-1, -1)
            for entry in self._entries(path, ">ii"):
                relative, position = entry
                yield f"offset {base_offset + relative}  position {position}"
                if not (relative > previous[0] and position >= previous[1]):
                    raise DamagedFileError(f"offset {base_offset + relative}: entries are out of order")
                if log is not None:
                    _check_entry(log, base_offset + relative, position)
                previous = (relative, position)
        finally:
            if log is not None:
                log.close()

    def _time_index(self, path: str, base_offset: int) -> Iterator[str]:
        previous = (-1, -1)
        for timestamp, relative in self._entries(path, ">qi"):
            yield f"timestamp {timestamp}  offset {base_offset + relative}"
            if not (timestamp >= previous[0] and relative >= previous[1]):
                raise DamagedFileError(f"offset {base_offset + relative}: entries are out of order")
            previous = (timestamp, relative)

    def _txn_index(self, path: str, base_offset: int) -> Iterator[str]:
        data = self._read(path)
        for version, *fields in _ABORTED_TXN.iter_unpack(_whole_entries(data, _ABORTED_TXN.size)):
            if version != 0:
                raise DamagedFileError(f"unknown entry version {version}")
            txn = AbortedTxn(*fields)
            yield (
                f"producer {txn.producer_id}  aborted {txn.first_offset}..{txn.last_offset}"
                f"  last stable offset {txn.last_stable_offset}"
            )

    def _entries(self, path: str, layout: str) -> Iterator[tuple[int, ...]]:
        """The entries of a sparse index; zeros at the end are what Kafka reserves while it runs."""
        entry = struct.Struct(layout)
        data = self._read(path)
        used_bytes = len(data.rstrip(b"\0"))
        used_bytes += -used_bytes % entry.size
        yield from entry.iter_unpack(_whole_entries(data[:used_bytes], entry.size))

    def _log_beside(self, path: str) -> File | None:
        log = re.sub(r"\.index(?=$|\.)", paths.LOG, path)
        return self._files.open(log) if self._files.exists(log) else None

    def _snapshot(self, path: str, base_offset: int) -> Iterator[str]:
        for state in decode_snapshot(self._read(path)):
            line = f"producer {state.producer_id} epoch {state.producer_epoch}"
            if state.batches:
                newest = state.batches[-1]
                line += f"  last sequence {newest.last_sequence}  offsets {newest.base_offset}..{newest.last_offset}"
            line += f"  timestamp {state.last_timestamp}"
            if state.coordinator_epoch >= 0:
                line += f"  coordinator epoch {state.coordinator_epoch}"
            if state.current_txn_first_offset is not None:
                line += f"  open transaction from {state.current_txn_first_offset}"
            yield line

    # Text files

    def _text(self, path: str, name: str) -> Iterator[str]:
        directory = paths.parent(path)
        if name in _OFFSET_CHECKPOINTS:
            offsets = OffsetCheckpoint(self._files, path).read()
            yield from (f"{topic_partition}  offset {offset}" for topic_partition, offset in offsets.items())
        elif name == paths.LEADER_EPOCH_CHECKPOINT:
            for _, (epoch, offset) in read_entries(self._files, path, 2):
                yield f"epoch {epoch}  from offset {offset}"
        elif name == paths.PARTITION_METADATA:
            topic_id = read_partition_metadata(self._files, directory)
            yield f"topic id {uuid_text(topic_id) if topic_id else 'missing'}"
        elif name == paths.META_PROPERTIES:
            identity = read_meta_properties(self._files, directory)
            if identity is not None:
                yield f"cluster {identity.cluster_id}  node {identity.node_id}"
        elif name == paths.CATALOG_FILE:
            yield from self._catalog(path)
        else:
            raise DamagedFileError("unknown file type: expected the name of a log, index, snapshot or checkpoint file")

    def _catalog(self, path: str) -> Iterator[str]:
        from ..config.options.known_options import is_secret  # Most dumps are of logs.

        state = decode(self._read(path), path)
        yield f"cluster {state.cluster_id}  next producer id {state.next_producer_id}"
        for topic in state.topics.values():
            configs = "".join(f"  {name}={text}" for name, text in topic.configs.items())
            yield f"topic {topic.name}  id {uuid_text(topic.topic_id)}  partitions {len(topic.partitions)}{configs}"
        for node, overrides in state.broker_configs.items():
            who = f"node {node}" if node else "all nodes"
            yield from (f"{who}  {name}={'[hidden]' if is_secret(name) else text}" for name, text in overrides.items())

    def _read(self, path: str) -> bytes:
        size_bytes = self._files.size(path)
        if size_bytes > FILE_BYTES_MAX:
            raise DamagedFileError(f"file too large ({size_bytes} bytes, limit {FILE_BYTES_MAX})")
        file = self._files.open(path)
        try:
            return file.read_at(0, size_bytes)
        finally:
            file.close()


def _whole_entries(data: bytes, entry_bytes: int) -> bytes:
    if len(data) % entry_bytes:
        raise DamagedFileError(f"truncated: {len(data)} bytes is not a multiple of the entry size {entry_bytes}")
    return data


def _check_entry(log: File, offset: int, position: int) -> None:
    """An index entry points at the beginning of a batch that ends at the offset or before which it lies."""
    try:
        batch = RecordBatch(log.read_at(position, HEADER_BYTES))
    except CorruptRecordError as error:
        raise DamagedFileError(f"offset {offset}: no batch starts at position {position}: {error.message}") from error
    if batch.base_offset > offset:
        raise DamagedFileError(
            f"offset {offset}: the batch at position {position} starts at a later offset, {batch.base_offset}"
        )


def _topic_of(path: str) -> str | None:
    """The topic whose directory the file lies in, as far as the directory's name tells."""
    directory = paths.parse_partition_dir(os.path.basename(os.path.dirname(os.path.abspath(path))))
    return directory.topic if isinstance(directory, paths.TopicPartition) else None


COMMAND = Command("dump-log", "show the contents of log, index, snapshot and checkpoint files", run, add_options)
