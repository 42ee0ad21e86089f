"""Claim of data directories: writes their identities and the catalog.

Each step leaves directories that `inspection.check` accepts, so a start that is interrupted here needs no manual repair.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from ..disk.checkpoints import MetaProperties, uuid_text
from ..disk.health import DataDirectoryError
from .data_dir import DataDir


def cluster_of(data_dirs: Sequence[DataDir]) -> str | None:
    """Return the ID of the cluster that the directories belong to; None if all are new."""
    return next((each.identity.cluster_id for each in data_dirs if each.identity), None)


def claim(
    data_dirs: Sequence[DataDir],
    home: DataDir,
    cluster_id: str,
    write_catalog: Callable[[Mapping[str, str]], None],
    *,
    node_id: int,
    rng: random.Random,
) -> None:
    """Write into each data directory its identity and which directory has the catalog. Writes only what is missing.

    Args:
        home: The directory of the catalog, one of `data_dirs`.
        write_catalog: Writes the catalog, with this list of all directories: directory.id to path.
        rng: Random numbers for the IDs of new directories.

    Raises:
        DataDirectoryError: The disk refused, or the directories belong to another cluster.
    """
    if cluster_of(data_dirs) not in (None, cluster_id):
        raise DataDirectoryError(
            f"data directory {data_dirs[0].path} belongs to cluster {cluster_of(data_dirs)}, not to {cluster_id}"
        )
    named = {each: _identity(each, cluster_id, node_id, rng) for each in data_dirs}
    ids = {each: identity.directory_id for each, identity in named.items() if identity.directory_id is not None}
    try:
        if home.identity is not None:
            # The list must not name a directory that has not stored its own ID.
            for each, identity in named.items():
                each.claim(identity)
        # A catalog directory without an identity shows that a first start was interrupted. So it gets its identity last.
        text = {each: each.path.encode(errors="backslashreplace").decode() for each in data_dirs}
        write_catalog({uuid_text(ids[each]): text[each] for each in data_dirs})
        for each in sorted(data_dirs, key=lambda each: each is home):
            each.claim(named[each]._replace(catalog_id=ids[home]))
    except OSError as error:
        paths = ", ".join(each.path for each in data_dirs)
        raise DataDirectoryError(f"data directories {paths}: {error}") from error


def _identity(data_dir: DataDir, cluster_id: str, node_id: int, rng: random.Random) -> MetaProperties:
    found = data_dir.identity
    if found is None:
        return MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=_new_id(rng))
    return found if found.directory_id is not None else found._replace(directory_id=_new_id(rng))


def _new_id(rng: random.Random) -> bytes:
    # IDs whose text starts with a dash cause trouble on command lines; Kafka draws again also.
    while (drawn := rng.randbytes(16))[0] >> 2 == 62:
        pass
    return drawn
