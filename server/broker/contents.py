"""Whole contents of a broker's data directories: emptied, copied, replaced. Blocks; for worker threads.

No directory that a run has open is changed, except for the staging of new content.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence

from ...storage.data_dirs import snapshots
from ...storage.data_dirs.data_dir import holding
from ...storage.data_dirs.exchange import Exchange
from ...storage.data_dirs.inspection import unique
from ...storage.data_dirs.snapshots import Snapshot, SnapshotError
from ...storage.disk.files import Files
from ...storage.disk.os_files import OsFiles

_OUTSIDE = OsFiles()
"""Files of snapshots. They belong to the user: they are synced whether the broker's files are or not."""


class DirectoryContents:
    """The data directories of one broker.

    Args:
        node_id: Id of the first node, which owns them.
    """

    def __init__(self, files: Files, data_dirs: Sequence[str], node_id: int) -> None:
        self._files = files
        self._data_dirs = unique(data_dirs)
        self._node_id = node_id

    def emptying(self, rng: random.Random) -> Callable[[], None]:
        """Return a function that empties the directories: completely or not at all, even if the process dies. It raises OSError
        if the disk refuses."""
        exchange = Exchange(self._files, self._data_dirs, rng)

        def empty() -> None:
            try:
                exchange.make()
                self._run_exchange(exchange)
            finally:
                exchange.drop()

        return empty

    def check_place(self, path: str) -> str:
        """Return the absolute path of a new snapshot in `path`. Raises SnapshotError if it exists, is in a data directory, or
        cannot be created."""
        _check_path(path)
        try:
            found = os.path.realpath(path)
            snapshots.check_place(_OUTSIDE, found, [os.path.realpath(each) for each in self._data_dirs])
        except OSError as error:
            raise SnapshotError(f"cannot write a snapshot to {path[:200]}: {error.strerror}") from error
        above = os.path.dirname(found)
        while not os.path.exists(above):
            above = os.path.dirname(above)
        if not os.path.isdir(above):
            raise SnapshotError(f"cannot write a snapshot to {path[:200]}: {above[:200]} is not a directory")
        if not os.access(above, os.W_OK | os.X_OK):
            raise SnapshotError(f"cannot write a snapshot to {path[:200]}: {above[:200]} is not writable")
        return found

    def save(self, path: str, rng: random.Random, clock_ahead_ms: int) -> Snapshot:
        """Copy the directories to `path`, as `snapshots.save` does."""
        with holding(self._files, self._data_dirs):
            unique_id = rng.randbytes(16).hex()
            return snapshots.save(self._files, self._data_dirs, _OUTSIDE, path, unique_id, clock_ahead_ms)

    def read(self, path: str) -> Snapshot:
        """Read the snapshot in `path`. Raises SnapshotError if it is not a snapshot, not complete, or another broker's."""
        _check_path(path)
        try:
            found = snapshots.read(_OUTSIDE, os.path.abspath(path))
        except OSError as error:
            raise SnapshotError(f"cannot read {path[:200]}: {error.strerror}") from error
        if found.node_id != self._node_id:
            raise SnapshotError(f"{found.path} is a snapshot of node {found.node_id}, but node.id is {self._node_id}")
        if len(found.directories) != len(self._data_dirs):
            raise SnapshotError(
                f"{found.path} is a snapshot of {len(found.directories)} data directories, but log.dirs has {len(self._data_dirs)}"
            )
        return found

    def staged(self, snapshot: Snapshot, rng: random.Random) -> Exchange:
        """Copy the content of `snapshot` next to the present content, for `put_in_place`.

        Raises:
            SnapshotError: The snapshot has changed since it was made.
            OSError: A disk refused.
        """
        exchange = Exchange(self._files, self._data_dirs, rng)
        try:
            exchange.make()
            snapshots.copy_out(_OUTSIDE, snapshot, self._files, exchange.staged)
        except BaseException:
            exchange.drop()
            raise
        return exchange

    def put_in_place(self, exchange: Exchange) -> None:
        """Replace the whole content by what `exchange` has staged, or nothing. Raises OSError if the disk refuses."""
        try:
            self._run_exchange(exchange)
        finally:
            exchange.drop()

    def _run_exchange(self, exchange: Exchange) -> None:
        with holding(self._files, self._data_dirs):
            exchange.apply()


def _check_path(path: str) -> None:
    if not path or "\0" in path:
        raise SnapshotError(f"expected a directory path, found {path[:200]!r}")
