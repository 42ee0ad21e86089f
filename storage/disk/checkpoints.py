"""Small text files: offset checkpoints, partition IDs, the data directory's identity, the mark of a clean stop.

An offset checkpoint, one file per data directory (Apache Kafka's format):

    0                       version
    2                       number of lines that follow
    orders 0 4711           topic, partition, offset
    orders 1 0

`write_atomically` replaces a file as a whole, so a reader finds the old text or the new one, never a mixture.
An invalid file raises CorruptCheckpointError. It is an OSError, because its data directory is treated like one whose disk has
failed. Only at a start may a caller treat it otherwise.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from . import paths
from .files import Files, SyncError
from .paths import TopicPartition

CHECKPOINT_BYTES_MAX = 256 << 20
"""Larger checkpoint files are refused unread: a million partitions need less than a tenth of this."""

_VERSION = "0"
_META_PROPERTIES_VERSION = 1
CATALOG_PROPERTY = "ottla.catalog"
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_UUID_TEXT = re.compile(r"[A-Za-z0-9_-]{22}")
_ZERO_ID = bytes(16)


class CorruptCheckpointError(OSError):
    """A text file of the broker is invalid. The message has the file and the line."""

    def __init__(self, path: str, line: int, what: str) -> None:
        super().__init__(f"{path}, line {line}: {what}")


def write_atomically(files: Files, path: str, content: str | bytes) -> None:
    """Replace the content of a file; a power loss at any moment leaves the old or the new content.

    Writes `<path>.tmp`, syncs it, renames it over `path`, syncs the directory. Costs two disk syncs.

    Raises:
        OSError: The disk refused; `path` has its old content, or the new one if only the last sync failed (SyncError).
            The call may be repeated.
    """
    put_in_place(files, write_beside(files, path, content), path)


def write_beside(files: Files, path: str, *content: str | bytes) -> str:
    """Write `content` into a new file next to `path`, and sync it; returns its path. OSError: `path` is unchanged.

    The first half of `write_atomically`.
    """
    temporary = path + paths.TEMPORARY
    files.remove(temporary)  # If a sync of the file ever failed, no later one is reliable.
    file = files.open(temporary, create=True, truncate=True)
    try:
        for piece in content:
            file.append(piece.encode() if isinstance(piece, str) else piece)
        file.sync()
    except SyncError as error:
        # Nothing relies on these bytes, and a retry makes a new file. So this is an ordinary error with its number.
        raise OSError(error.errno, error.strerror, temporary) from error
    finally:
        file.close()
    return temporary


def put_in_place(files: Files, temporary: str, path: str) -> None:
    """Rename `temporary` to `path`, and sync the directory: the second half of `write_atomically`.

    OSError: `path` may have either content, now and after a power loss.
    """
    files.rename(temporary, path)
    files.sync_dir(paths.parent(path))


def read_text(files: Files, path: str) -> str:
    """Return the file's text; empty if the file is missing.

    Raises:
        CorruptCheckpointError: Larger than CHECKPOINT_BYTES_MAX, or not UTF-8.
    """
    if not files.exists(path):
        return ""
    file = files.open(path)
    try:
        if file.size() > CHECKPOINT_BYTES_MAX:
            raise CorruptCheckpointError(path, 1, f"too large ({file.size()} bytes, limit {CHECKPOINT_BYTES_MAX})")
        return file.read_at(0, file.size()).decode()
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(path, error.object.count(b"\n", 0, error.start) + 1, "not valid UTF-8") from None
    finally:
        file.close()


def write_entries(files: Files, path: str, entries: Iterable[str]) -> str:
    """Write a checkpoint of these lines, as `write_atomically`. Returns its text."""
    lines = list(entries)
    text = "\n".join((_VERSION, str(len(lines)), *lines)) + "\n"
    write_atomically(files, path, text)
    return text


def read_entries(files: Files, path: str, field_count: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the entries of a checkpoint, as (line number, fields). A missing or empty file has none.

    Raises:
        CorruptCheckpointError: Unknown version, a line without `field_count` fields, or a wrong number of lines.
    """
    return _entries(path, read_text(files, path), field_count)


def _entries(path: str, text: str, field_count: int) -> Iterator[tuple[int, list[str]]]:
    lines = text.splitlines()
    if not lines:
        return
    if lines[0].strip() != _VERSION:
        raise CorruptCheckpointError(path, 1, f"unknown version {lines[0]!r}")
    if len(lines) < 2:
        raise CorruptCheckpointError(path, 2, "the number of entries is missing")
    count = number(path, 2, lines[1].strip())
    if count != len(lines) - 2:
        raise CorruptCheckpointError(path, 2, f"expected {count} entries, found {len(lines) - 2}")
    for line, entry in enumerate(lines[2:], start=3):
        fields = entry.split()
        if len(fields) != field_count:
            raise CorruptCheckpointError(path, line, f"expected {field_count} fields: {entry!r}")
        yield line, fields


def number(path: str, line: int, text: str) -> int:
    """Parse a decimal integer in a field of a checkpoint. CorruptCheckpointError: it is not one."""
    if not _NUMBER.fullmatch(text):
        raise CorruptCheckpointError(path, line, f"not a number: {text!r}")
    return int(text)


class OffsetCheckpoint:
    """One offset per partition, in a file of a data directory: recovery points, log starts, cleaner positions."""

    def __init__(self, files: Files, path: str) -> None:
        """Make an object for the file, which need not exist. Each read or write accesses the file."""
        self.path = path
        self._files = files

    def read(self) -> dict[TopicPartition, int]:
        """Read the offsets; empty if the file is missing or empty.

        Raises:
            CorruptCheckpointError: See `read_entries`; also a number out of range.
        """
        return self.parse(self.read_text())

    def read_text(self) -> str:
        """Return the file's text, which a caller may compare before it calls `parse`. Errors as for `read_text` above."""
        return read_text(self._files, self.path)

    def parse(self, text: str) -> dict[TopicPartition, int]:
        """Parse `text` of the file, in 2 µs an entry. Errors as for `read`."""
        offsets = {}
        for line, (topic, partition_text, offset_text) in _entries(self.path, text, 3):
            partition, offset = number(self.path, line, partition_text), number(self.path, line, offset_text)
            if not (0 <= partition <= paths.PARTITION_MAX and 0 <= offset <= paths.OFFSET_MAX):
                raise CorruptCheckpointError(self.path, line, f"out of range: {topic} {partition} {offset}")
            offsets[TopicPartition(topic, partition)] = offset
        return offsets

    def write(self, offsets: Mapping[TopicPartition, int]) -> str:
        """Replace the file's content, as `write_atomically`. Returns the new text, which `parse` turns into `offsets`."""
        return write_entries(self._files, self.path, (f"{tp.topic} {tp.partition} {at}" for tp, at in offsets.items()))


def uuid_text(uuid: bytes) -> str:
    """Return Kafka's text of a 16-byte ID: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of an ID's text. ValueError: the text is invalid."""
    if not _UUID_TEXT.fullmatch(text):
        raise ValueError(f"not 22 characters of URL-safe base64: {text!r}")
    return base64.urlsafe_b64decode(text + "==")


def write_partition_metadata(files: Files, directory: str, topic_id: bytes) -> None:
    """Write a partition's topic ID into its directory, as `write_atomically`."""
    text = f"version: 0\ntopic_id: {uuid_text(topic_id)}"
    write_atomically(files, paths.join(directory, paths.PARTITION_METADATA), text)


def read_partition_metadata(files: Files, directory: str) -> bytes | None:
    """Read the topic ID of a partition directory; None if it has no `partition.metadata`.

    Raises:
        CorruptCheckpointError: Another version, no ID, or the all-zero ID, which no topic has.
    """
    path = paths.join(directory, paths.PARTITION_METADATA)
    lines = read_text(files, path).splitlines()
    if not lines:
        return None
    if lines[0].split() != ["version:", "0"]:
        raise CorruptCheckpointError(path, 1, f"unknown version: {lines[0]!r}")
    fields = lines[1].split() if len(lines) > 1 else []
    if len(fields) != 2 or fields[0] != "topic_id:":
        raise CorruptCheckpointError(path, 2, "expected topic_id")
    try:
        topic_id = parse_uuid(fields[1])
    except ValueError as error:
        raise CorruptCheckpointError(path, 2, str(error)) from None
    if topic_id == _ZERO_ID:
        raise CorruptCheckpointError(path, 2, "the topic ID is all zeros")
    return topic_id


class MetaProperties(NamedTuple):
    """Identity of a data directory: its cluster, node and ID."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None
    """16 bytes; None in a directory that a Kafka older than 3.7 wrote."""
    catalog_id: bytes | None = None
    """Directory ID of the data directory with Ottla's catalog; None if only Apache Kafka has used this one."""


def write_meta_properties(files: Files, data_dir: str, properties: MetaProperties) -> None:
    """Write `meta.properties` of version 1, as `write_atomically`."""
    lines = [
        f"version={_META_PROPERTIES_VERSION}",
        f"cluster.id={properties.cluster_id}",
        f"node.id={properties.node_id}",
    ]
    if properties.directory_id is not None:
        lines.append(f"directory.id={uuid_text(properties.directory_id)}")
    if properties.catalog_id is not None:
        lines.append(f"{CATALOG_PROPERTY}={uuid_text(properties.catalog_id)}")  # Apache Kafka ignores it.
    write_atomically(files, paths.join(data_dir, paths.META_PROPERTIES), "\n".join(lines) + "\n")


def read_meta_properties(files: Files, data_dir: str) -> MetaProperties | None:
    """Read the identity of a data directory; None if it has none yet. Unknown names are ignored.

    Raises:
        CorruptCheckpointError: Another version, or a value missing or malformed.
    """
    path = paths.join(data_dir, paths.META_PROPERTIES)
    values: dict[str, tuple[int, str]] = {}
    for line, text in enumerate(read_text(files, path).splitlines(), start=1):
        text = text.strip()
        if text and not text.startswith(("#", "!")):
            name, _, value = text.partition("=")
            # Java's writer puts a backslash before characters that separate names from values.
            values[name.strip()] = (line, re.sub(r"\\(.)", r"\1", value.strip()))
    if not files.exists(path):
        return None
    if "broker.id" in values and "node.id" not in values:
        raise CorruptCheckpointError(
            path,
            values["broker.id"][0],
            f"broker.id={values['broker.id'][1]}: directory of a broker in ZooKeeper mode, which is not supported; its"
            " topics and configs are in ZooKeeper. To keep them, migrate the cluster to KRaft with Apache Kafka 3.9. To"
            " create topics from the partition directories alone, with default configs, remove every"
            f" {paths.META_PROPERTIES}",
        )
    missing = [name for name in ("version", "cluster.id", "node.id") if name not in values]
    if missing:
        raise CorruptCheckpointError(path, 1, f"{missing[0]} is missing")
    version_line, version = values["version"]
    if version != str(_META_PROPERTIES_VERSION):
        raise CorruptCheckpointError(path, version_line, f"unknown version {version!r}")
    directory_id, catalog_id = (_uuid(path, *values.get(name, (0, ""))) for name in ("directory.id", CATALOG_PROPERTY))
    return MetaProperties(
        cluster_id=values["cluster.id"][1],
        node_id=number(path, *values["node.id"]),
        directory_id=directory_id,
        catalog_id=catalog_id,
    )


def _uuid(path: str, line: int, text: str) -> bytes | None:
    try:
        return parse_uuid(text) if text else None
    except ValueError as error:
        raise CorruptCheckpointError(path, line, str(error)) from None
