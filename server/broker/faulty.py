"""Declared faults in a broker's life: requests meet them from the first connection to the last one, disks until it stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from ...storage.disk.files import Files
from ..faults.disk import DiskFiles
from ..faults.table import Faults
from ..handlers import Handlers
from ..handlers.dispatch import take_faults


@contextmanager
def faults_in_force(faults: Faults, handlers: Handlers, files: Files) -> Iterator[None]:
    """Have those act that are declared already, and those that will be."""
    with ExitStack() as watched:
        watched.enter_context(faults.watched_by(partial(take_faults, handlers)))
        if isinstance(files, DiskFiles):
            watched.enter_context(faults.watched_by(files.take_faults))
        yield


def end_faults_of_disks(faults: Faults) -> None:
    """Before logs are closed: that, and the next start, is on a sound disk."""
    for fault in faults:
        if fault.declaration.disk is not None:
            fault.remove()
