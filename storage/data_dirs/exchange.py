"""Atomic exchange of the content of all data directories of a broker, whatever happens during it.

    ottla-0.<id>-delete/    in each directory: the new content, being filled (empty for a reset); a start removes it
    .ottla-next/            in the first directory: with this rename the exchange is decided, and the next process that
        exchange            opens the directories finishes it. The file has <id>, which links all directories; then, in
                            each of them, the first one last:
      1  all of the old content into one directory that a start removes, and the other directories' .ottla-next/ in place
      2  .ottla-next/ becomes .ottla-next-in/: from now on everything next to it is new
      3  all of it moves out of .ottla-next-in/, which becomes one that a start removes

Only the broker's content is exchanged: its own files, and directories that contain logs. Directories that were put aside for
the user to examine, and other files, stay. Apache Kafka refuses a directory with an unfinished exchange.

The caller holds the lock of each directory.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress

from ..disk import paths
from ..disk.checkpoints import read_text, write_atomically
from ..disk.files import Files
from ..disk.paths import TopicPartition
from .inspection import holds_log

_NAME = "ottla"


def own_entries(files: Files, data_dir: str) -> list[str]:
    """List the names of the broker's entries in this directory, except its lock. OSError: The disk refused."""
    found = []
    for name in files.list(data_dir):
        path = paths.join(data_dir, name)
        is_partition = isinstance(paths.parse_partition_dir(name), TopicPartition)
        if (is_partition and files.is_dir(path) and holds_log(files, path)) or (
            name in paths.OWN_FILES and not files.is_dir(path)
        ):
            found.append(name)
    return found


class Exchange:
    """One exchange. The caller fills the directories in `staged`, and then calls `apply` or `drop`.

    Args:
        rng: Random numbers for the ID.
    """

    def __init__(self, files: Files, data_dirs: Sequence[str], rng: random.Random) -> None:
        self._files = files
        self._data_dirs = list(data_dirs)
        self._id = rng.randbytes(16).hex()
        self._is_decided = False
        self.staged = [_staged(each, self._id) for each in self._data_dirs]
        """A directory for the new content of each data directory; the caller writes and syncs its content."""

    def make(self) -> None:
        """Make the directories in `staged`. OSError: The disk refused; the caller must still call `drop`."""
        for each in self.staged:
            self._files.make_dir(each)

    def drop(self) -> None:
        """Remove the staged content, unless the exchange is decided; the next start removes the rest."""
        for each in () if self._is_decided else self.staged:
            with suppress(OSError):
                self._files.remove_dir(each)

    def apply(self) -> None:
        """Replace the whole content by the staged content.

        Raises:
            OSError: The disk refused. Before the decision nothing has changed; after it, the next call of `finish` continues.
        """
        files, first = self._files, self._data_dirs[0]
        for each in self._data_dirs:
            own_entries(files, each)  # an error here now would later keep the exchange from finishing
            files.sync_dir(each)
        write_atomically(files, paths.join(self.staged[0], paths.EXCHANGE_FILE), self._id)
        files.rename(self.staged[0], paths.join(first, paths.NEXT_CONTENT))
        self._is_decided = True
        files.sync_dir(first)
        finish(files, self._data_dirs)


def is_unfinished(files: Files, data_dirs: Sequence[str]) -> bool:
    """Whether an exchange of these directories was decided and is not finished. OSError: The disk refused."""
    return _leader(files, data_dirs) is not None


def finish(files: Files, data_dirs: Sequence[str]) -> None:
    """Finish an exchange that was decided, if any.

    Raises:
        OSError: The disk refused; the call may be repeated.
    """
    leader = _leader(files, data_dirs)
    if leader is None:
        return
    exchange_id = _id_of(files, leader)
    for each in data_dirs:
        staged = _staged(each, exchange_id)
        if each != leader and files.exists(staged):
            files.rename(staged, paths.join(each, paths.NEXT_CONTENT))
            files.sync_dir(each)
    for each in [*(each for each in data_dirs if each != leader), leader]:
        _finish_one(files, each, exchange_id)


def _finish_one(files: Files, data_dir: str, exchange_id: str) -> None:
    following, incoming = (paths.join(data_dir, name) for name in (paths.NEXT_CONTENT, paths.NEXT_CONTENT_IN))
    if files.exists(following):
        aside = paths.join(data_dir, paths.deleted_dir_name(f"{_NAME}-old", 0, exchange_id))
        files.make_dir(aside)
        for name in own_entries(files, data_dir):
            files.rename(paths.join(data_dir, name), paths.join(aside, name))
        files.sync_dir(aside)
        files.sync_dir(data_dir)
        files.rename(following, incoming)
        files.sync_dir(data_dir)
    if files.exists(incoming):
        for name in files.list(incoming):
            if name not in (paths.EXCHANGE_FILE, paths.EXCHANGE_FILE + paths.TEMPORARY):
                files.rename(paths.join(incoming, name), paths.join(data_dir, name))
        files.sync_dir(incoming)
        files.sync_dir(data_dir)
        files.rename(incoming, paths.join(data_dir, paths.deleted_dir_name(f"{_NAME}-emptied", 0, exchange_id)))
        files.sync_dir(data_dir)


def _leader(files: Files, data_dirs: Sequence[str]) -> str | None:
    """Find the directory with the exchange file, which counts for all."""
    for each in data_dirs:
        for name in (paths.NEXT_CONTENT, paths.NEXT_CONTENT_IN):
            if files.exists(paths.join(paths.join(each, name), paths.EXCHANGE_FILE)):
                return each
    return None


def _id_of(files: Files, leader: str) -> str:
    for name in (paths.NEXT_CONTENT, paths.NEXT_CONTENT_IN):
        text = read_text(files, paths.join(paths.join(leader, name), paths.EXCHANGE_FILE))
        if text:
            return text
    raise AssertionError("unreachable: a leader has an exchange file")


def _staged(data_dir: str, exchange_id: str) -> str:
    return paths.join(data_dir, paths.deleted_dir_name(_NAME, 0, exchange_id))
