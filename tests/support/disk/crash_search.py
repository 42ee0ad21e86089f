"""A search of all results of power loss in a scenario, and in the recovery after it; each different disk once.

    scenario   x x x x x x      power is lost before every operation: every disk that may be left then
    recovery     x x x x        of each of those, and power is lost again: more disks
    check                       the state of each recovered disk, with the facts as they were at the first loss

A fact is what the disk owes its user: data that was flushed must be there after the loss. Different disks recover to
few different states, and each of those is checked once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from support.disk.crash_files import CrashFiles
from support.disk.crash_nodes import is_of_part

State = TypeVar("State")
Facts = TypeVar("Facts", bound=Hashable)


@dataclass
class Counts:
    """The figures of a search."""

    after_one_loss: int = 0
    after_more: int = 0
    settled: int = 0
    failing: int = 0
    """Disks that recover to a wrong state."""
    failures: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def __add__(self, other: Counts) -> Counts:
        failures = Counter(self.failures) + Counter(other.failures)
        return Counts(
            self.after_one_loss + other.after_one_loss,
            self.after_more + other.after_more,
            self.settled + other.settled,
            self.failing + other.failing,
            defaultdict(int, failures),
        )

    def __str__(self) -> str:
        return (
            f"{self.after_one_loss} disks after one loss, {self.after_more} after more,"
            f" {self.settled} different states, {self.failing} wrong"
        )


@dataclass
class CrashSearch(Generic[State, Facts]):
    """A search, its parameters and its results.

    Attributes:
        recover: Opens a disk, as after a loss of power.
        key: Returns what distinguishes one recovered state from others, apart from its disk.
        check: Raises if a recovered state does not match the facts. May change the disk.
        ordered: The directory model; every disk of the ordered model is also one of the unordered model.
        losses: How often power is lost, once or twice: in the scenario, and in recovery.
        thinned_to: After a loss in the scenario, look at one in this number of disks.
        recover_thinned_to: Lose power in the recovery of one in this number of those disks.
        later_thinned_to: After a loss in recovery, look at one in this number of disks.
        wrong_max: Stop after this number of wrong disks: each is started as soon as it is found, in the midst of the scenario.
        part, parts: This search covers one part of all disks, by their digests.
    """

    recover: Callable[[CrashFiles], State]
    key: Callable[[State], Hashable]
    check: Callable[[State, Facts], None]
    ordered: bool = False
    losses: int = 2
    thinned_to: int = 1
    recover_thinned_to: int = 1
    later_thinned_to: int = 1
    wrong_max: int | None = None
    part: int = 0
    parts: int = 1
    counts: Counts = field(default_factory=Counts)
    _seen: dict[Facts, set[int]] = field(default_factory=lambda: defaultdict(set))
    _seen_later: dict[Facts, set[int]] = field(default_factory=lambda: defaultdict(set))
    _results: dict[Hashable, str | None] = field(default_factory=dict)

    def run(
        self, scenario: Callable[[CrashFiles], object], start: CrashFiles, facts: Callable[[bool], Facts]
    ) -> Counts:
        """Search all disks of `scenario`, which runs on a copy of `start`.

        Args:
            facts: Called before each operation of the scenario; returns what a disk of this moment owes. With True, returns
                what the disk owes if only the process dies: then everything that was written is there.
        """
        files = start.copy()
        found: list[tuple[CrashFiles, Facts]] = []

        def look() -> None:
            if self._is_enough:
                return
            known, if_killed = facts(False), facts(True)
            found.extend((disk, known) for disk in self._disks_of(files, self._seen[known]))
            if if_killed != known and (digest := files.digest()) not in self._seen[if_killed]:
                self._seen[if_killed].add(digest)
                if is_of_part(digest, self.part, self.parts):
                    found.append((files.copy(), if_killed))
            if self.wrong_max is not None:
                settle()

        def settle() -> None:
            while found and not self._is_enough:
                self._settle(*found.pop(0))

        files.before_step = look
        scenario(files)
        files.before_step = None
        look()
        settle()
        return self.counts

    @property
    def _is_enough(self) -> bool:
        return self.wrong_max is not None and self.counts.failing >= self.wrong_max

    def _disks_of(self, files: CrashFiles, seen: set[int]) -> Iterator[CrashFiles]:
        part = (self.part, self.parts)
        return files.after_crash(ordered=self.ordered, seen=seen, one_in=self.thinned_to, part=part)

    def _settle(self, disk: CrashFiles, known: Facts) -> None:
        """Recover a disk that the scenario has left, and also the disks that the recovery leaves if it loses power."""
        self.counts.after_one_loss += 1
        more: list[CrashFiles] = []

        def look() -> None:
            seen = self._seen_later[known]
            found = disk.after_crash(ordered=self.ordered, seen=seen, one_in=self.later_thinned_to)
            more.extend(each for each in found if each.digest() not in self._seen[known])

        is_searched = self.losses > 1 and disk.digest() // self.thinned_to % self.recover_thinned_to == 0
        self._recover(disk, known, look if is_searched else None)
        for each in more:
            if self._is_enough:
                return
            self.counts.after_more += 1
            self._recover(each, known, None)

    def _recover(self, disk: CrashFiles, known: Facts, look: Callable[[], None] | None) -> None:
        try:
            disk.before_step = look
            state = self.recover(disk)
            disk.before_step = None
            if look is not None:
                look()
            error = self._result(disk, state, known)
        except Exception as raised:  # noqa: BLE001 -- whatever goes wrong is what is looked for
            error = _error_text(raised)
        counts = self.counts
        if error is not None:
            counts.failing += 1
            counts.failures[error] += 1

    def _result(self, disk: CrashFiles, state: State, known: Facts) -> str | None:
        key = (known, disk.digest(), self.key(state))
        if key not in self._results:
            self.counts.settled += 1
            try:
                self.check(state, known)
            except Exception as error:  # noqa: BLE001
                self._results[key] = _error_text(error)
            else:
                self._results[key] = None
        return self._results[key]


def _error_text(error: Exception) -> str:
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    line = frame.tb_lineno if frame is not None else 0
    return f"{type(error).__name__}, line {line}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
