"""Crashes of a server's disk in a test: power lost, process killed, an operation refused.

life       x x x x x x x   before every file operation: the disks that a power loss may leave, and the one that a
                           killed process leaves; or the operation is refused and the server continues
restart                    on each of those: what is found must be what was answered
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from support.broker.in_process_broker import run_in_order
from support.disk.crash_files import CrashFiles
from support.disk.crash_search import Counts, CrashSearch
from support.disk.crash_subsets import CHANGES_MAX
from support.lives import moving_life, server_life, share_life
from support.lives.server_life import Ledger, Owed

FLUSHED = {"log_flush_interval_messages": "1"}
"""Every append is durable before it is answered."""
LOST_AT_MOST = 2
"""Limit when many directory operations are unsynced."""


@dataclass(frozen=True)
class Script:
    """A history of the server, and the check of what a restart finds."""

    live: Callable[[CrashFiles, Ledger], Awaitable[None]]
    restart_and_look: Callable[[CrashFiles], Any]
    check: Callable[[Any, Owed], None]


DAYS = Script(
    lambda files, ledger: server_life.live(files, ledger, **FLUSHED),
    lambda files: server_life.restart_and_look(files, **FLUSHED),
    server_life.check,
)
"""Two days with all kinds of changes, in one data directory."""
MOVES = Script(moving_life.live, moving_life.restart_and_look, moving_life.check)
"""Two days of moves between two data directories, and of a reassignment."""
SHARES = Script(share_life.live, share_life.restart_and_look, share_life.check)
"""Three days of states of share partitions."""


@dataclass
class _Search(CrashSearch[Any, tuple[int, bool]]):
    """A search that loses power before one operation in `moments_thinned_to`."""

    moments_thinned_to: int = 1
    moments: int = 0

    def _disks_of(self, files: CrashFiles, seen: set[int]) -> Iterator[CrashFiles]:
        self.moments += 1
        if self.moments % self.moments_thinned_to == 0:
            yield from super()._disks_of(files, seen)


def power_losses(
    script: Script = DAYS,
    *,
    thinned_to: int = 1,
    moments_thinned_to: int = 1,
    killed_thinned_to: int = 1,
    losses: int = 1,
    recover_thinned_to: int = 1,
    later_thinned_to: int = 1,
    part: int = 0,
    parts: int = 1,
) -> Counts:
    """Lose power before each operation of the history, and kill the process there.

    Args:
        thinned_to: Start on one in this number of the disks that a power loss may leave.
        moments_thinned_to: Lose power before one in this number of operations.
        killed_thinned_to: Kill the process before one in this number of operations.
        losses, recover_thinned_to, later_thinned_to, part, parts: See `CrashSearch`.
    """
    ledger = Ledger()
    versions: list[Owed] = []
    start = CrashFiles()
    start.lost_at_most = LOST_AT_MOST
    looks = 0

    def owed(if_killed: bool) -> tuple[int, bool]:
        nonlocal looks
        if not versions or versions[-1] is not ledger.owed:
            versions.append(ledger.owed)
        looks += if_killed
        return len(versions) - 1, if_killed and looks % killed_thinned_to == 0

    def check_version(found: Any, known: tuple[int, bool]) -> None:
        script.check(found, versions[known[0]])

    search = _Search(
        recover=script.restart_and_look,
        key=lambda found: repr(found),
        check=check_version,
        losses=losses,
        thinned_to=thinned_to,
        moments_thinned_to=moments_thinned_to,
        recover_thinned_to=recover_thinned_to,
        later_thinned_to=later_thinned_to,
        part=part,
        parts=parts,
    )

    def life(files: CrashFiles) -> None:
        run_in_order(partial(script.live, files, ledger))

    return search.run(life, start, owed)


@dataclass
class Refusals:
    """The results of refused operations."""

    lives: int = 0
    disks: int = 0
    answered: Counter[int] = field(default_factory=Counter)
    failures: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.lives} lives, {self.disks} disks after them, {len(self.failures)} kinds of failure"


@cache
def operations_of(script: Script) -> tuple[tuple[str, str], ...]:
    """Return the file operations of an undisturbed history: name and path."""
    files = CrashFiles()
    run_in_order(partial(script.live, files, Ledger()))
    return tuple(files.operations)


def refusals(
    code: int,
    script: Script = DAYS,
    *,
    first: int = 0,
    step: int = 1,
    for_good: bool = False,
    thinned_to: int = 1,
    changes_max: int = CHANGES_MAX,
) -> Refusals:
    """Refuse one operation of the history after the other, and continue.

    Afterwards the server is stopped cleanly, killed, or loses power; each time the restart must find what was answered.

    Args:
        code: The errno.
        first, step: Which operations: every `step`-th, from this one on.
        for_good: From that operation on, the disk refuses everything.
        thinned_to: Start on one in this number of the disks that a power loss may leave.
        changes_max: See `CrashFiles`.
    """
    refused = Refusals()
    for number in range(first, len(operations_of(script)), step):
        refused.lives += 1
        files, ledger = CrashFiles(), Ledger()
        files.lost_at_most, files.changes_max = LOST_AT_MOST, changes_max
        left = [number]

        def refuse(operation: str, path: str, _: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1 or (for_good and left[0] < 0):
                raise OSError(code, f"{operation} refused", path)

        files.refuse = refuse
        _life_with(script, files, ledger)
        files.refuse = None
        refused.answered[ledger.told] += 1
        for disk in _disks(files, thinned_to):
            refused.disks += 1
            try:
                script.check(script.restart_and_look(disk), ledger.owed)
            except Exception as error:  # noqa: BLE001 -- whatever goes wrong is what is looked for
                told = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                refused.failures.setdefault(told, number)
    return refused


def _life_with(script: Script, files: CrashFiles, ledger: Ledger) -> CrashFiles:
    """Run a history, whose starts the disk may make impossible."""
    try:
        run_in_order(partial(script.live, files, ledger))
    except Exception as error:
        if not files.refuse:
            raise
        assert "refused" in str(error) or isinstance(error, OSError), error
    return files


def _disks(files: CrashFiles, thinned_to: int) -> Iterator[CrashFiles]:
    yield files.copy()
    yield from files.after_crash(ordered=False, one_in=thinned_to, seen={files.digest()})


ERRNOS = {"full": errno.ENOSPC, "broken": errno.EIO}
