"""What a broker's data directories hold, as a whole: emptied, copied away, replaced. Blocks; for worker threads.

Nothing of it is done to a directory that a life has open, but for the staging of what is to come in.
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
"""Snapshots are their owner's: they are synced whether the broker's files are or not."""


class DirectoryContents:
    """The data directories of one broker.

    Args:
        node_id: Of its first node, whose they are.
    """

    def __init__(self, files: Files, data_dirs: Sequence[str], node_id: int) -> None:
        self._files = files
        self._data_dirs = unique(data_dirs)
        self._node_id = node_id

    def emptying(self, rng: random.Random) -> Callable[[], None]:
        """What empties them: all of it is done, or nothing, even if the process dies. OSError: The disk refused."""
        exchange = Exchange(self._files, self._data_dirs, rng)

        def empty() -> None:
            try:
                exchange.make()
                self._carry_out(exchange)
            finally:
                exchange.drop()

        return empty

    def check_place(self, path: str) -> str:
        """The whole path of a new snapshot in `path`. SnapshotError: It is taken, or in a data directory, or cannot be made."""
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
        """Copy them to `path`, as `snapshots.save`."""
        with holding(self._files, self._data_dirs):
            unique_id = rng.randbytes(16).hex()
            return snapshots.save(self._files, self._data_dirs, _OUTSIDE, path, unique_id, clock_ahead_ms)

    def read(self, path: str) -> Snapshot:
        """The snapshot in `path`. SnapshotError: It is none, not whole, or another broker's."""
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
        """What is in `snapshot`, beside what there is, for `put_in_place`.

        Raises:
            SnapshotError: It is not what it was when it was made.
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
        """Replace all that there is by what `exchange` has staged, or nothing. OSError: The disk refused."""
        try:
            self._carry_out(exchange)
        finally:
            exchange.drop()

    def _carry_out(self, exchange: Exchange) -> None:
        with holding(self._files, self._data_dirs):
            exchange.carry_out()


def _check_path(path: str) -> None:
    if not path or "\0" in path:
        raise SnapshotError(f"expected a directory path, found {path[:200]!r}")
