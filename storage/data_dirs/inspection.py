"""Inspection of a broker's data directories, before anything in them changes: their owner, and whether all are present.

    meta.properties     in each: cluster.id, node.id and directory.id as Apache Kafka has them, and `ottla.catalog`: the
                        directory.id of the one that contains the catalog
    ottla.json          in one of them: the catalog; it lists all of them by directory.id

So if a directory is not mounted, the catalog shows that it is missing, and if that of the catalog is not mounted, the others
show it. A directory without meta.properties has no owner. It is accepted when all others are present, and refused if it may be
the mount point of a missing one, as in Apache Kafka. To add a directory, the user names it; to give one up, the user removes
its line from the catalog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ..disk import paths
from ..disk.checkpoints import CorruptCheckpointError, MetaProperties, read_meta_properties, uuid_text
from ..disk.files import Files
from ..disk.health import DataDirectoryError
from ..disk.paths import MovingDir, SegmentFile, TopicPartition
from ..topics.catalog import Catalog

_NOT_FROM_STRANGERS = frozenset({*paths.OWN_FILES, paths.LOCK_FILE, paths.NEXT_CONTENT, paths.NEXT_CONTENT_IN})

NAMED_MAX = 3
"""Largest number of missing partitions that a message names."""


class FoundDirectory(NamedTuple):
    """A data directory as found."""

    path: str
    identity: MetaProperties | None
    """Identity from `meta.properties`; None if the directory has no owner, or does not exist."""
    catalog: Catalog | None
    partitions: tuple[tuple[TopicPartition, str], ...]
    """Folders with the name of a partition, with their paths; Apache Kafka's metadata log does not count."""
    has_metadata_log: bool
    strays: tuple[tuple[TopicPartition, str], ...] = ()
    """Folders of partitions that were put aside (`…-stray`), with their paths. A long topic name is cut off."""


def unique(data_dirs: Iterable[str]) -> list[str]:
    """Return each directory once; a slash at the end does not count."""
    return list(dict.fromkeys(path.rstrip("/") or "/" for path in data_dirs))


def inspect_dirs(files: Files, data_dirs: Iterable[str]) -> list[FoundDirectory]:
    """Read the content of these directories. Changes nothing and takes no lock.

    Raises:
        DataDirectoryError: A directory cannot be read, or its `meta.properties` is invalid, or its catalog is damaged or of a
            newer version.
    """
    found = []
    for path in unique(data_dirs):
        try:
            found.append(_inspect_dir(files, path))
        except OSError as error:
            raise DataDirectoryError.from_error(path, error) from error
    return found


def _inspect_dir(files: Files, path: str) -> FoundDirectory:
    if not files.exists(path):
        return FoundDirectory(path, None, None, (), has_metadata_log=False)
    files.check_data_dir(path)
    identity, catalog = read_meta_properties(files, path), Catalog.load(files, path)
    partitions, strays = [], []
    for name in files.list(path):
        found, directory = paths.parse_partition_dir(name), paths.join(path, name)
        if found is not None or name in _NOT_FROM_STRANGERS:
            files.check_entry(directory)
        if isinstance(found, MovingDir):
            if found.role == "stray":
                strays.append((found.topic_partition, directory))
        elif found is not None and found.topic != paths.CLUSTER_METADATA_TOPIC and files.is_dir(directory):
            partitions.append((found, directory))
    metadata_log = paths.join(path, paths.partition_dir_name(paths.CLUSTER_METADATA_TOPIC, 0))
    return FoundDirectory(
        path,
        identity,
        catalog,
        tuple(partitions),
        has_metadata_log=files.is_dir(metadata_log)
        and any(name.endswith((paths.LOG, ".checkpoint")) for name in files.list(metadata_log)),
        strays=tuple(strays),
    )


def holds_log(files: Files, directory: str) -> bool:
    """Whether a folder with the name of a partition contains a log: it has a segment, or a topic ID."""
    for name in files.list(directory):
        segment = paths.parse_segment_name(name)
        if name == paths.PARTITION_METADATA or (isinstance(segment, SegmentFile) and segment.kind == paths.LOG):
            return True
    return False


def home_of(found: Sequence[FoundDirectory]) -> FoundDirectory:
    """Return the directory that contains the catalog, or will contain it."""
    return next((each for each in found if each.catalog is not None), found[0])


def check(files: Files, found: Sequence[FoundDirectory], node_id: int, failed: Collection[str] = ()) -> None:
    """Refuse directories that do not all belong to one broker, or are not all of its directories.

    Args:
        failed: Paths of directories that are known to be missing.

    Raises:
        DataDirectoryError: One line with the directory and what to do.
        OSError: The disk refused.
    """
    check_owners([(each.path, each.identity) for each in found], node_id)
    homes = [(each, each.catalog) for each in found if each.catalog is not None]
    if len(homes) > 1:
        first, second = (each.path for each, _ in homes[:2])
        raise DataDirectoryError(f"{paths.CATALOG_FILE} is in both {first} and {second}: remove the wrong one")
    if homes:
        _check_with_catalog(files, found, *homes[0], failed)
    else:
        _check_without_catalog(files, found)


def check_owners(identities: Sequence[tuple[str, MetaProperties | None]], node_id: int) -> None:
    """Refuse directories of another node, of two clusters, or with the same ID.

    Raises:
        DataDirectoryError: One line with the directory.
    """
    owned = [(path, identity) for path, identity in identities if identity is not None]
    ids: dict[bytes, str] = {}
    for path, identity in owned:
        if identity.node_id != node_id:
            raise DataDirectoryError(
                f"data directory {path} belongs to node {identity.node_id}, but node.id is {node_id}"
            )
        first_path, first = owned[0]
        if identity.cluster_id != first.cluster_id:
            raise DataDirectoryError(
                f"data directory {path} belongs to cluster {identity.cluster_id}, {first_path} to {first.cluster_id}"
            )
        if identity.directory_id is not None:
            other = ids.setdefault(identity.directory_id, path)
            if other != path:
                raise DataDirectoryError(
                    f"data directories {other} and {path} have the same directory.id"
                    f" {uuid_text(identity.directory_id)}: one is a copy of the other, or both paths lead to the same"
                    " directory"
                )


def _check_with_catalog(
    files: Files, found: Sequence[FoundDirectory], home: FoundDirectory, in_home: Catalog, failed: Collection[str]
) -> None:
    catalog = in_home.state
    for each in found:
        if each.identity is not None and each.identity.cluster_id != catalog.cluster_id:
            raise DataDirectoryError(
                f"data directory {each.path} belongs to cluster {each.identity.cluster_id}, but {paths.CATALOG_FILE} to"
                f" cluster {catalog.cluster_id}"
            )
    present = {uuid_text(each.identity.directory_id) for each in found if each.identity and each.identity.directory_id}
    missing = [
        entry for entry in (catalog.directories or {}).items() if entry[0] not in present and entry[1] not in failed
    ]
    if home.identity is None:
        # The home gets its identity last, so the first start was interrupted. Directories without one may be any of the list.
        if len(missing) <= sum(each.identity is None for each in found):
            return
        missing = [entry for entry in missing if entry[1] != home.path]
    if unknown := [path for path in failed if path not in (catalog.directories or {}).values()]:
        raise DataDirectoryError(f"data directory {unknown[0]}: its disk has failed, and its content is unknown")
    if missing:
        _name_all(files, [each.path for each in found], home.path, missing)
        which = ", ".join(f"{path} (directory.id {text})" for text, path in missing)
        raise DataDirectoryError(
            f"{paths.CATALOG_FILE} lists a data directory that is not in log.dirs: {which}: is it mounted? To abandon"
            f' its data, remove it from "directories" in {paths.join(home.path, paths.CATALOG_FILE)}'
        )
    if catalog.directories is None:
        # The number of directories is not known. But the partitions of a topic must have been somewhere.
        here = {topic_partition for each in found for topic_partition, _ in each.partitions}
        lost = [
            str(wanted)
            for entry in catalog.topics.values()
            for index in range(len(entry.partitions))
            if (wanted := TopicPartition(entry.name, index)) not in here
        ]
        if lost:
            raise DataDirectoryError(
                f"{paths.join(home.path, paths.CATALOG_FILE)} does not list the data directories yet, and none of"
                f" log.dirs contains {_some(lost)}: is a directory not mounted, or missing from log.dirs? To abandon"
                ' its data, add the line "directories": {}, to that file'
            )


def _name_all(files: Files, named: Sequence[str], home: str, missing: Iterable[tuple[str, str]]) -> None:
    """Refuse a start that names only some of the directories, with the value of `log.dirs` that names all.

    Returns if one of the others is not next to the catalog's directory. The paths in the catalog are not used: in a copy of
    the directories they lead to the originals.

    Args:
        named: Paths of the directories that the start names.
        home: Path of the directory with the catalog.
        missing: The directory.id and the path of the others, from the catalog.

    Raises:
        DataDirectoryError: One line.
    """
    folder = home[: home.rfind("/") + 1]
    beside = [(directory_id, folder + path.rpartition("/")[2]) for directory_id, path in missing]
    if all(_id_of(files, path) == directory_id for directory_id, path in beside):
        every = list(dict.fromkeys([home, *sorted([*named, *(path for _, path in beside)])]))
        unnamed = [path for path in every if path not in named]
        raise DataDirectoryError(
            f"data directory {named[0]} is one of {len(every)}, but log.dirs does not contain {', '.join(unnamed)};"
            f" start with log.dirs={','.join(every)}"
        )


def _id_of(files: Files, path: str) -> str | None:
    """Return the directory.id of a directory; None if it is not a data directory, or cannot be read."""
    with suppress(OSError, CorruptCheckpointError):
        identity = read_meta_properties(files, path)
        if identity is not None and identity.directory_id is not None:
            return uuid_text(identity.directory_id)
    return None


def check_assigned(found: Sequence[FoundDirectory], assigned: Mapping[TopicPartition, bytes]) -> None:
    """Refuse a start if Apache Kafka's controller has logs in a directory that is missing.

    Args:
        assigned: For each log of this broker, the directory.id of its directory.

    Raises:
        DataDirectoryError: One line with the directory.id.
    """
    present = {each.identity.directory_id for each in found if each.identity is not None}
    here = {topic_partition for each in found for topic_partition, _ in each.partitions}
    missing = {tp: where for tp, where in assigned.items() if where not in present and tp not in here}
    if None not in present and missing:  # A directory without an ID may be the missing one.
        where = next(iter(missing.values()))
        raise DataDirectoryError(
            f"data directory with directory.id {uuid_text(where)} not found, which contains"
            f" {_some([str(tp) for tp, its in missing.items() if its == where])} according to Apache Kafka: is it"
            " mounted, and in log.dirs? To abandon its data, use an empty directory with that directory.id in its"
            f" {paths.META_PROPERTIES}"
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED_MAX]) + (", ..." if len(names) > NAMED_MAX else "")


def _check_without_catalog(files: Files, found: Sequence[FoundDirectory]) -> None:
    owned = [(each.path, each.identity) for each in found if each.identity is not None]
    if not owned:
        return
    for path, identity in owned:
        if identity.catalog_id is not None:
            if identity.catalog_id in {other.directory_id for _, other in owned}:
                raise DataDirectoryError(f"data directory {path}: {paths.CATALOG_FILE} not found. {_ADVICE}")
            _name_home(files, [each.path for each in found], path, uuid_text(identity.catalog_id))
            raise DataDirectoryError(
                f"data directory {path} requires the {paths.CATALOG_FILE} in the directory with directory.id"
                f" {uuid_text(identity.catalog_id)}: is it mounted, and in log.dirs? {_ADVICE}"
            )
    metadata_logs = [each for each in found if each.has_metadata_log]
    if len(metadata_logs) > 1:
        raise DataDirectoryError(
            f"Apache Kafka's metadata log is in both {metadata_logs[0].path} and {metadata_logs[1].path}"
        )
    if not metadata_logs and not any(holds_log(files, directory) for each in found for _, directory in each.partitions):
        return
    nobodys = next((each for each in found if each.identity is None), None)
    first_path, first = owned[0]
    if nobodys is not None:
        raise DataDirectoryError(
            f"data directory {nobodys.path} has no {paths.META_PROPERTIES}, but {first_path} belongs to cluster"
            f" {first.cluster_id}: is it mounted? To add an empty directory, start once without it"
        )
    if not metadata_logs:
        raise DataDirectoryError(
            f"data directory {first_path} has neither {paths.CATALOG_FILE} nor Apache Kafka's metadata log, which"
            f" contain the topic configs: is another directory missing from log.dirs? {_ADVICE}"
        )


def _name_home(files: Files, named: Sequence[str], path: str, catalog_id: str) -> None:
    """Refuse `DATA-node-ID` without `DATA`, which has its catalog. Returns for other paths, or if `DATA` does not exist.

    With `--workers` an earlier Ottla gave each node its own process and such a data directory.

    Raises:
        DataDirectoryError: One line, as for `_name_all`.
    """
    home, _, node_id = path.rpartition("-node-")
    if not (home and node_id.isdecimal()) or _id_of(files, home) != catalog_id:
        return
    if (catalog := Catalog.load(files, home)) is None:
        return
    present = {_id_of(files, each) for each in (home, *named)}
    missing = [entry for entry in (catalog.state.directories or {}).items() if entry[0] not in present]
    _name_all(files, named, home, missing)


_ADVICE = (
    f"To create topics from the partition directories alone, with default configs, remove every {paths.META_PROPERTIES}"
)
