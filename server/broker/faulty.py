"""Declared faults in a broker's life: requests meet them from the first connection to the last one, disks until it stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ..faults.disk import DiskFiles
from ..handlers.dispatch import take_faults

if TYPE_CHECKING:
    from .broker import Broker


@contextmanager
def faults_in_force(broker: Broker) -> Iterator[None]:
    """Have those act that are declared already, and those that will be."""
    with ExitStack() as watched:
        watched.enter_context(broker.faults.watched_by(partial(take_faults, broker.handlers)))
        if isinstance(broker.files, DiskFiles):
            watched.enter_context(broker.faults.watched_by(broker.files.take_faults))
        yield


def end_faults_of_disks(broker: Broker) -> None:
    """Before logs are closed: that, and the next start, is on a sound disk."""
    for fault in broker.faults:
        if fault.declaration.disk is not None:
            fault.remove()
