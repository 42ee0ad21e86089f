"""Segments in the layouts of remote storage managers (KIP-405), under the names that they have in a data directory.

    localtiered+file:///dir      LocalTieredStorage, of Apache Kafka's own tests
        <topic>-<partition>-<topic id>/<base offset>-<segment id>.log .index .timeindex .txnindex
    aiven+s3://bucket/prefix     Aiven's tiered-storage-for-apache-kafka
        <topic>-<topic id>/<partition>/<base offset>-<segment id>.log .indexes .rsm-manifest

Aiven's manifest is written last, so a segment without one does not count. It has the position of each index in `.indexes`, and
whether the segment's chunks are compressed or encrypted. Such segments are rejected: only the broker has the keys, and a
compressed chunk has another format than Kafka's. Objects of other managers, or with a custom `object.key`, cannot be read.

A repeated upload leaves two copies of a segment. The longer one counts: only `__remote_log_metadata` has the broker's choice,
and their common part is equal. Segments of two leaders may overlap. All transactions in them were decided before the upload,
so the indexes list the aborted ones, and nothing has to be replayed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ...storage.disk import paths
from ...storage.disk.paths import TopicPartition
from ..errors import UsageError
from .ranges import ObjectStatus

AT_ONCE = 16
"""Number of manifests that are fetched at a time, as they are small and many."""
MANIFEST = ".rsm-manifest"
INDEXES = ".indexes"
_UUID = r"[A-Za-z0-9_-]{22}"
_SEGMENT = re.compile(rf"(([0-9]{{1,20}})-{_UUID})(\.[a-z-]+)")
_LOCAL_DIR = re.compile(rf"(.+)-([0-9]+)-({_UUID})")
_AIVEN_DIR = re.compile(rf"(.+)-({_UUID})")
_LAYOUT = re.compile(r"(localtiered|aiven)\+")
_PIECES = {paths.INDEX: "offset", paths.TIME_INDEX: "timestamp", paths.TXN_INDEX: "transaction"}


class FoundObject(NamedTuple):
    """A named object, a piece of one, or a directory."""

    status: ObjectStatus | None
    """Status of the whole object; None for a directory."""
    address: str
    """Address of the object."""
    start: int = 0
    size_bytes: int | None = None
    """Size of the piece that begins at `start`; None is the rest of the object."""


Listing = Mapping[str, FoundObject]
List = Callable[[str], Listing]
"""List an address without a layout. Raises FileNotFoundError."""
Read = Callable[[FoundObject], bytes]


def layout_of(address: str) -> str | None:
    found = _LAYOUT.match(address)
    return None if found is None else found[1]


def without_layout(address: str) -> str:
    return _LAYOUT.sub("", address, count=1)


def listing(address: str, layout: str, listed: List, read: Read) -> Listing:
    """List a directory in this layout, by the names of a data directory: partitions, or the files of one.

    Raises:
        FileNotFoundError: It does not exist.
        UsageError: Segments are compressed or encrypted, or two topics have the same name.
    """
    root, _, name = address.rpartition("/")
    own = paths.parse_partition_dir(name)
    if isinstance(own, TopicPartition) and not root.endswith(":/"):
        try:
            place = dict(_partitions(root, layout, listed, own.topic)).get(own)
        except FileNotFoundError:
            place = None
        if place is not None:
            return _files(place, layout, listed, read)
    names = [paths.partition_dir_name(*tp) for tp, _ in _partitions(address, layout, listed, None)]
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise UsageError(
            f"{address}: expected one topic of each name, found two with {twice}: one was recreated; move the other elsewhere"
        )
    return {each: FoundObject(None, f"{address}/{each}") for each in names}


def _partitions(root: str, layout: str, listed: List, topic: str | None) -> Iterator[tuple[TopicPartition, str]]:
    """Yield the partitions below an address, of one topic or all, with their addresses."""
    plain = without_layout(root)
    for name, found in listed(plain).items():
        if found.status is not None:
            continue
        if layout == "localtiered":
            if (parts := _LOCAL_DIR.fullmatch(name)) is not None and topic in (None, parts[1]):
                yield TopicPartition(parts[1], int(parts[2])), f"{plain}/{name}"
        elif (parts := _AIVEN_DIR.fullmatch(name)) is not None and topic in (None, parts[1]):
            for number, below in listed(f"{plain}/{name}").items():
                if below.status is None and number.isdecimal():
                    yield TopicPartition(parts[1], int(number)), f"{plain}/{name}/{number}"


def _files(place: str, layout: str, listed: List, read: Read) -> Listing:
    stems: dict[str, dict[str, FoundObject]] = {}
    for name, found in listed(place).items():
        if found.status is not None and (parts := _SEGMENT.fullmatch(name)) is not None:
            stems.setdefault(parts[1], {})[parts[3]] = found
    needed = (paths.LOG, MANIFEST) if layout == "aiven" else (paths.LOG,)
    whole = {stem: kinds for stem, kinds in stems.items() if all(kind in kinds for kind in needed)}
    by_base: dict[int, dict[str, FoundObject]] = {}
    for _, kinds in sorted(whole.items(), key=lambda each: _log_bytes(each[1])):  # of two copies the longer one is kept
        by_base[_base(kinds)] = kinds
    if layout == "aiven":
        with ThreadPoolExecutor(AT_ONCE, "manifests") as pool:
            manifests = dict(zip(by_base, pool.map(lambda kinds: _pieces(kinds, read), by_base.values()), strict=True))
    found_names: dict[str, FoundObject] = {}
    for base, kinds in sorted(by_base.items()):
        own = {kind: found for kind, found in kinds.items() if kind in paths.SEGMENT_KINDS}
        own |= manifests[base] if layout == "aiven" else {}
        found_names |= {paths.segment_file_name(base, kind): found for kind, found in own.items()}
    return found_names


def _base(kinds: Mapping[str, FoundObject]) -> int:
    return int(kinds[paths.LOG].address.rpartition("/")[2].partition("-")[0])


def _log_bytes(kinds: Mapping[str, FoundObject]) -> int:
    status = kinds[paths.LOG].status
    return 0 if status is None else status.st_size


def _pieces(kinds: Mapping[str, FoundObject], read: Read) -> dict[str, FoundObject]:
    """Return the indexes of a segment, from its manifest. Raises UsageError if its bytes are not in Kafka's format."""
    manifest = kinds[MANIFEST]
    try:
        fields = json.loads(read(manifest))
        how = [
            word
            for word, is_so in (("compressed", fields["compression"]), ("encrypted", fields.get("encryption")))
            if is_so
        ]
        if how:
            raise UsageError(f"{kinds[paths.LOG].address}: expected plain chunks, found {' and '.join(how)} ones")
        places = fields.get("segmentIndexes") or {}
        pieces = {
            kind: (int(at["position"]), int(at["size"])) for kind, name in _PIECES.items() if (at := places.get(name))
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{manifest.address}: expected the manifest of a segment, found {error!r}") from error
    indexes = kinds.get(INDEXES)
    if indexes is None or indexes.status is None:
        return {}
    of = indexes.status
    return {
        kind: FoundObject(of, indexes.address, position, size_bytes)
        for kind, (position, size_bytes) in pieces.items()
        if size_bytes
    }
