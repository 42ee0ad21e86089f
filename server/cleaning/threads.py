"""Cleaner threads of a broker: their settings, and the state of each."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import trio

# The cleaner itself is imported when the first log needs it: most short-lived brokers never clean.
if TYPE_CHECKING:
    from ...storage.cleaning.cleaner import Cleaner, CleanStats
    from ..config.live_config import LiveConfig

log = logging.getLogger("ottla.cleaner")

# Apache Kafka's map is one array of the JVM.
THREAD_DEDUPE_BYTES_MAX = 2**31 - 1


class CleanerSettings(NamedTuple):
    """Settings of the cleaner threads; a change of any of them restarts the threads."""

    threads: int
    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int
    message_max_bytes: int
    backoff_ms: int
    keeps_range_end: bool
    """The emulated release's rule; see `Cleaner`."""

    @classmethod
    def from_config(cls, live_config: LiveConfig) -> CleanerSettings:
        config, release = live_config.current, live_config.release
        return cls(
            config.log_cleaner_threads,
            config.log_cleaner_dedupe_buffer_size,
            config.log_cleaner_io_buffer_load_factor,
            config.log_cleaner_io_buffer_size,
            config.message_max_bytes,
            config.log_cleaner_backoff_ms,
            release is not None and release.keeps_range_end,
        )


@dataclass(slots=True)
class CleanerThread:
    """State of one cleaner thread."""

    cleaner: Cleaner | None = None
    """None until its first log."""
    last_stats: CleanStats | None = None
    """Figures of its last completed pass."""
    rests_until_ms: int | None = None
    """When it will look for work again, in elapsed time; None while it is working."""
    rest: trio.CancelScope = field(default_factory=trio.CancelScope)
    """Cancel scope around its back-off."""
    is_dead: bool = False
    """Whether it ended because its settings leave too little memory. Nothing else ends a thread: an error in a pass
    affects only its log, an error in a round only that round. Changed settings start a new thread.
    """

    def make_ready(self, settings: CleanerSettings) -> Cleaner | None:
        """Return its cleaner, with its share of the memory; None if that is too little for any pass, and the thread is dead."""
        try:
            self.cleaner = self.cleaner or new_cleaner(settings)
        except ValueError as error:
            log.error("a cleaner thread has ended until the cleaner's options change: %s", error)
            self.is_dead = True
        return self.cleaner


def new_cleaner(settings: CleanerSettings) -> Cleaner:
    """Return a cleaner with one thread's share of the memory. ValueError if that is too little for any pass."""
    from ...storage.cleaning.cleaner import IO_BUFFER_BYTES_MIN, Cleaner

    dedupe_bytes = settings.dedupe_buffer_bytes // settings.threads
    if dedupe_bytes > THREAD_DEDUPE_BYTES_MAX:
        log.warning("a cleaner thread uses at most 2 GiB of log.cleaner.dedupe.buffer.size; the rest is not used")
    return Cleaner(
        dedupe_buffer_bytes=min(dedupe_bytes, THREAD_DEDUPE_BYTES_MAX),
        load_factor=settings.load_factor,
        io_buffer_bytes=max(IO_BUFFER_BYTES_MIN, settings.io_buffer_bytes // settings.threads),
        keeps_range_end=settings.keeps_range_end,
    )
