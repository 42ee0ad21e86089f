"""A broker's background work on demand: run the job, or ask the broker until a condition holds. Nothing sleeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import trio

import ottla
from ottla.server.broker.broker import Broker

TRIES = 20_000


def retain(broker: ottla.Broker) -> None:
    """Run retention on every log, compacted or not, as the broker does at its interval."""

    async def once() -> None:
        await broker.inner.background_jobs.retain()
        await broker.inner.services.cleaning.delete_from_compacted_logs()
        # Deletions that the broker's own jobs were busy with.
        manager = broker.inner.services.cleaning.manager
        for _ in range(TRIES):
            if not any(manager.is_busy(each) for each in broker.inner.services.logs.logs):
                break
            await trio.to_thread.run_sync(bool)

    broker.run(once)


def eventually(broker: ottla.Broker, holds: Callable[[], bool]) -> bool:
    """Return whether `holds` becomes true while the broker continues its work."""
    tick = broker.inner.background_jobs.tick
    return any(holds() or broker.run(tick) for _ in range(TRIES)) or holds()


def have_on_disk(broker: Broker) -> None:
    """Create the files of all logs of a broker, as the broker does within a second or two; runs in the calling thread."""
    for log in broker.services.logs.logs.values():
        log.make()


def files(directory: Path, pattern: str = "*.log*") -> list[str]:
    """Return the names of the segments' log files, including those that wait for removal."""
    return sorted(path.name for path in directory.glob(pattern))


def segment_names(offsets: Iterable[int]) -> list[str]:
    return [f"{offset:020}.log" for offset in offsets]
