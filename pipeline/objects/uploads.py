"""Uploads to stores: whole objects, which get their names once they are complete.

Each object is first written to a local disk, so that an interrupted upload is repeated from its beginning. It counts as
complete once the store reports its full length. Objects cannot be renamed and are never overwritten: each name is used once.
Files of dead task attempts are deleted with the rest of their folder.
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
"""Slowest speed that does not count as a dead connection."""
_HAS_DIRECTORIES = ("local", "hdfs")
"""File systems that need directories. In others a directory is an object that no reader needs."""


@contextmanager
def written_beside() -> Iterator[str]:
    """Yield the path of an empty file on this machine, which is deleted afterwards."""
    descriptor, path = tempfile.mkstemp(prefix="ottla-", suffix=".part")
    os.close(descriptor)
    try:
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.remove(path)


def upload(objects: ObjectFiles, path: str, address: str) -> None:
    """Upload a file to an address. Raises UsageError or PipelineError as `patiently`; an incomplete object may be left."""
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
            # Perhaps only the last response was lost. A name is used once, so a complete object is this one.
            if filesystem.get_file_info(target).size != size_bytes:
                raise
            return
        found = filesystem.get_file_info(target)
        if found.size != size_bytes:
            raise OSError(f"sent {size_bytes} bytes, found {found.size} stored")

    patiently(once, address, answer_s=ANSWER_S + size_bytes / SLOWEST_BYTES_PER_S)


def put(objects: ObjectFiles, address: str, data: bytes) -> None:
    """Upload a small object. Errors as of `upload`."""
    with written_beside() as path:
        with open(open_file(path, os.O_WRONLY), "wb") as file:
            file.write(data)
        upload(objects, path, address)


def remove(objects: ObjectFiles, addresses: Iterable[str]) -> None:
    """Delete objects, and ignore errors: a remaining object only costs space."""
    for address in addresses:
        with suppress(FileNotFoundError, PipelineError):
            patiently(lambda: _remove_one(objects, address), address)  # noqa: B023 - called at once


def _remove_one(objects: ObjectFiles, address: str) -> None:
    filesystem, path = objects.filesystem(address)
    filesystem.delete_file(path)
