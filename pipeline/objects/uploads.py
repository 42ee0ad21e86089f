"""Writing to stores: whole objects, which have their names once all of them is there.

What goes up was written on a disk of the machine first, so an upload that breaks off is made again from its beginning; it is
believed once the store says how long the object is. Nothing can be renamed there, and nothing is written over: a name is used once.
What an attempt of a task that died has left goes with the rest of its folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from ...storage.disk.own_files import open_file
from ..errors import PipelineError
from .failures import ANSWER_S, patiently
from .object_files import ObjectFiles

PIECE_BYTES = 8 << 20
SLOWEST_BYTES_PER_S = 1 << 20
"""A link that takes less is taken for dead."""
_HAS_DIRECTORIES = ("local", "hdfs")
"""Elsewhere a directory that is made is an object, and nobody needs it."""


@contextmanager
def written_beside() -> Iterator[str]:
    """The path of an empty file on this machine, which is gone afterwards."""
    descriptor, path = tempfile.mkstemp(prefix="ottla-", suffix=".part")
    os.close(descriptor)
    try:
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.remove(path)


def upload(objects: ObjectFiles, path: str, address: str) -> None:
    """Give the bytes of a file an address. UsageError, ServiceFailedError: as `patiently`; an object may be there, and not whole."""
    size_bytes = os.path.getsize(path)

    def once() -> None:
        filesystem, target = objects.filesystem(address)
        if filesystem.type_name in _HAS_DIRECTORIES:
            filesystem.create_dir(target.rpartition("/")[0], recursive=True)
        try:
            with open(path, "rb") as source:
                stream = filesystem.open_output_stream(target)
                while piece := source.read(PIECE_BYTES):
                    stream.write(piece)
                stream.close()
        except OSError:
            # It may be the last answer alone that was lost. A name is used once: what is there whole is this.
            if filesystem.get_file_info(target).size != size_bytes:
                raise
            return
        found = filesystem.get_file_info(target)
        if found.size != size_bytes:
            raise OSError(f"{size_bytes} bytes were sent, {found.size} are there")

    patiently(once, address, answer_s=ANSWER_S + size_bytes / SLOWEST_BYTES_PER_S)


def put(objects: ObjectFiles, address: str, data: bytes) -> None:
    """A small object. Errors as of `upload`."""
    with written_beside() as path:
        with open(open_file(path, os.O_WRONLY), "wb") as file:
            file.write(data)
        upload(objects, path, address)


def remove(objects: ObjectFiles, addresses: Iterable[str]) -> None:
    """Take objects away, as far as that is possible: what stays costs space, and nothing else."""
    for address in addresses:
        with suppress(FileNotFoundError, PipelineError):
            patiently(lambda: _remove_one(objects, address), address)  # noqa: B023 - called at once


def _remove_one(objects: ObjectFiles, address: str) -> None:
    filesystem, path = objects.filesystem(address)
    filesystem.delete_file(path)
