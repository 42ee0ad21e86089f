"""Data directories that fail while the broker serves: failures are logged, and without any directory the broker ends.

Apache Kafka's broker also ends with its last directory. It ends at once if the one with the controller's metadata fails. Here
work without changes of the catalog continues for `log.dir.failure.timeout.ms`; in Apache Kafka this is the time for which a
broker may fail to report a failed directory to the controller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

import trio

from ...storage.data_dirs.manager import LogManager
from ..config.live_config import LiveConfig
from ..faults.table import Faults
from ..runtime.clock import Clock

log = logging.getLogger("ottla.disks")


class FailedDirs:
    """Watcher of one broker's directories. On Trio's thread.

    Args:
        home: The directory of the catalog.
        faults: The declared faults, which may be the reason for a failure.
    """

    def __init__(self, logs: LogManager, home: str, live_config: LiveConfig, clock: Clock, faults: Faults) -> None:
        self._logs = logs
        self._home = home
        self._live_config = live_config
        self._clock = clock
        self._faults = faults
        self._declared: set[str] = set()
        """Directories that a declared fault has failed; the fault may have been removed since."""
        self._known = dict(logs.failures)
        """Failures that are logged already, first by the start."""
        self._changed = trio.Event()
        self.reason: str | None = None
        """Reason why the broker has to end, in one line; None while it serves."""
        self.is_declared = False
        """Whether a declared fault is the reason."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when the broker has to end."""

    async def run(self) -> None:
        """Watch until cancelled, or until the broker has to end."""
        token = trio.lowlevel.current_trio_token()

        def tell() -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(self._look, idempotent=True)

        self._logs.watch(tell)
        end_ms: int | None = None
        while True:
            changed = self._changed
            failures = self._logs.failures
            self._notify(failures)
            if len(failures) == len(self._logs.data_dirs):
                return self._end(f"all data directories have failed: {_listed(failures)}", failures)
            if self._home not in failures:
                await changed.wait()
                continue
            elapsed_ms = self._clock.elapsed_ms()
            if end_ms is None:
                timeout_ms = self._live_config.current.log_dir_failure_timeout_ms
                end_ms = elapsed_ms + timeout_ms
                log.error("%s contains the catalog: the broker stops in %d ms", self._home, timeout_ms)
            if elapsed_ms >= end_ms:
                return self._end(f"the data directory of the catalog has failed: {_listed(failures)}", {self._home})
            await self._clock.sleep_until_or(end_ms, changed)

    def _look(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _notify(self, failures: dict[str, str]) -> None:
        declared = [fault.declaration for fault in self._faults.active()]
        for path, reason in failures.items():
            if path not in self._known:
                count = len(self._logs.logs_in(path))
                if any(each.disk == "failed" and each.data_dir in (None, path) for each in declared):
                    self._declared.add(path)
                log.error("data directory %s has failed: %s: %d partitions are offline", path, reason, count)
        self._known = failures

    def _end(self, reason: str, failed: Iterable[str]) -> None:
        self.reason = reason
        self.is_declared = not self._declared.isdisjoint(failed)
        self.on_end()


def _listed(failures: dict[str, str]) -> str:
    return "; ".join(f"{path}: {reason}" for path, reason in failures.items())
