"""One run of a broker on bound listeners, until its logs are closed.


Start, in an order that leaves nothing behind if a step fails: lock and load the data directories, load or create the catalog,
then accept. A stop ends accepting, waits for requests in progress (until a deadline), stops the cleaner, and closes the logs,
which marks the directories as cleanly closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from enum import Enum
from functools import partial

import trio

from ...storage.disk.files import Files
from ..faults.disk import DiskFiles
from ..faults.table import Faults
from ..handlers import Handlers
from ..handlers.dispatch import apply_faults, apply_quotas
from ..runtime.log_rate_limit import report_hidden
from ..runtime.nursery import open_plain_nursery
from .broker import Broker
from .node_run import STOP_DEADLINE_S


class End(Enum):
    """Ways in which a run ends."""

    STOP = "cleanly, and its ports are given up"
    PAUSE = "cleanly; the ports stay, and who connects waits for the next run"
    CRASH = "as by kill -9, but that the ports stay: connections are cut, nothing is flushed, no clean stop is marked"


class Ending:
    """The way in which the present run will end, which `run_broker` reads then."""

    def __init__(self) -> None:
        self.end = End.STOP


@asynccontextmanager
async def run_broker(broker: Broker) -> AsyncIterator[Ending]:
    """Open and serve while the block runs, on listeners that are bound; then end as the `Ending` says.

    Raises:
        See `Broker.open`; then only the listeners are left open.
    """
    ending = Ending()
    try:
        await trio.to_thread.run_sync(broker.open)
        async with _serving(broker, ending):
            yield ending
    finally:
        report_hidden(at_end=True)
        with trio.CancelScope(shield=True):
            await _run_to_end(broker.abandon if ending.end is End.CRASH else broker.close)


async def _run_to_end(work: Callable[[], None]) -> None:
    """Run work in a thread, or here if none can be started: the interpreter may be shutting down."""
    has_begun = False

    def begin() -> None:
        nonlocal has_begun
        has_begun = True
        work()

    try:
        await trio.to_thread.run_sync(begin)
    except RuntimeError:
        if has_begun:
            raise
        work()


@asynccontextmanager
async def _serving(broker: Broker, ending: Ending) -> AsyncIterator[None]:
    """Run tasks and connections, from the first to the last one."""
    services = broker.services
    async with open_plain_nursery() as nursery:
        broker.tasks.nursery = nursery
        broker.began_s = trio.current_time()
        await services.coordinators.load_existing()
        for each in (
            services.producer_ids,
            broker.shares,
            broker.background_jobs,
            broker.failed_dirs,
            broker.waits.deferrals,
            services.cleaning,
            broker.reassignments,
            services.moves,
            services.listener_keys,
            services.logins,
        ):
            nursery.start_soon(each.run)
        with (
            faults_in_force(broker.faults, broker.handlers, broker.files),
            broker.quotas.watched_by(partial(apply_quotas, broker.handlers)),
        ):
            for node in broker.nodes:
                broker.accept_on(node, node.listeners)
            try:
                yield
            finally:
                services.cluster.is_stopping = True
                services.cleaning.stop()
                end_faults_of_disks(broker.faults)
                if ending.end is not End.CRASH:
                    with trio.CancelScope(shield=True):
                        await _drain(broker, keeps_ports=ending.end is End.PAUSE)
                nursery.cancel_scope.cancel()


async def _drain(broker: Broker, *, keeps_ports: bool) -> None:
    """Wait for requests in progress, and take no new ones."""
    listeners = [listener for node in broker.nodes for listener in node.listeners]
    for listener in listeners:
        if keeps_ports:
            listener.pause_accepting()
        else:
            listener.close()
    broker.services.coordinators.close()
    broker.waits.wake_all()
    await broker.connections.drain(STOP_DEADLINE_S, listeners)


@contextmanager
def faults_in_force(faults: Faults, handlers: Handlers, files: Files) -> Iterator[None]:
    """Put declared faults into force, present and later ones: on requests from the first connection to the last one, on disks
    until the broker stops."""
    with ExitStack() as watched:
        watched.enter_context(faults.watched_by(partial(apply_faults, handlers)))
        if isinstance(files, DiskFiles):
            watched.enter_context(faults.watched_by(files.set_faults))
        yield


def end_faults_of_disks(faults: Faults) -> None:
    """Remove faults of disks before logs are closed: the close, and the next start, use a sound disk."""
    for fault in faults:
        if fault.declaration.disk is not None:
            fault.remove()
