"""Every disk that a power loss may leave in the life of a compacted partition, in moves between data directories, and recovery.

Prints for each life the number of different disks, and of the different states that they recover to. Then it removes one sync
after the other from the storage floor and counts the disks that show it: a search that finds nothing wrong must be able to find
something.

Between the two, passes, splits and installs fail: at every file operation, in every way. They are retried in the same process
before the power is lost.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import FrameType

from support.disk.crash_search import Counts
from support.lives.crash_lives import LIVES
from support.lives.failing_passes import FAILING
from support.lives.moved_life import MOVES

from ..support.suite import NotRunError, Options, Suite, run_suite

STORAGE = f"{Path(__file__).parents[2] / 'storage'}/"
ALL = LIVES | MOVES
RECOVERY_THINNED_TO = {
    "a move to another data directory": (64, 64),
    "a move, and every append flushed": (64, 64),
    "a pass while somebody appends": (64, 64),
    "a second pass on top": (8, 16),
    "two passes, as the map is small": (16, 32),
    "segments that become empty": (2, 4),
    "a group whose last segments lose everything": (8, 32),
    "retention": (32, 64),
    "a start, an abort, a roll": (4, 4),
    "a split at start": (16, 16),
    "a split where no batch fits": (1, 1),
}
"""Life -> (N, M): power is lost in the recovery of one disk in N, and one in M of the resulting disks is opened."""
QUICK_THINNED_TO = 96
FAILURES_THINNED_TO = 16
"""One disk in this number is checked if directory operations come in any order."""
SITES_THINNED_TO = 16
SITES_RECOVERED = ("a second pass on top", "a split at start", "a split where no batch fits")
"""The lives in whose recovery power is lost while one of its syncs does nothing."""


def site_of_sync() -> str:
    """Return the line of the storage layer that requests the next sync, with its caller."""
    frame: FrameType | None = sys._getframe(1)
    found: list[str] = []
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(STORAGE):
            module = Path(path).stem
            if not found:
                found.append(f"{module}.{frame.f_code.co_name}:{frame.f_lineno}")
            elif module not in ("segment", "segment_indexes", "index_file", "checkpoints", "flush"):
                found.append(f"{module}.{frame.f_code.co_name}")
                break
        frame = frame.f_back
    return " for ".join(found)


def search(name: str, quick: bool) -> Counts:
    """Check all disks of one life."""
    if quick:
        return ALL[name].search(losses=1, thinned_to=QUICK_THINNED_TO).counts
    recover_thinned_to, later_thinned_to = RECOVERY_THINNED_TO[name]
    return ALL[name].search(losses=2, recover_thinned_to=recover_thinned_to, later_thinned_to=later_thinned_to).counts


def search_failures(name: str, ordered: bool, quick: bool) -> tuple[int, int, Counts]:
    """Check all failures in one life."""
    thinned_to = 1 if ordered else FAILURES_THINNED_TO
    return FAILING[name].search(ordered=ordered, one_in=QUICK_THINNED_TO if quick else 1, thinned_to=thinned_to)


def sites_of(name: str) -> set[str]:
    """Return the syncs that a life and the starts after a loss ask for."""
    found: set[str] = set()

    def note(_: str) -> bool:
        found.add(site_of_sync())
        return False

    ALL[name].search(losses=1, thinned_to=50, skipped=note)
    return found - {""}  # a life's own


def is_of_recovery(site: str) -> bool:
    return site.startswith(("swap.finish", "recovery.")) or " for recovery." in site


def without(site: str, name: str) -> Counts:
    """Check the disks of one life without one sync; if the sync is part of recovery, power is lost in recovery as well."""
    return (
        ALL[name]
        .search(
            losses=2 if is_of_recovery(site) else 1,
            thinned_to=SITES_THINNED_TO,
            recover_thinned_to=32,
            later_thinned_to=SITES_THINNED_TO,
            skipped=lambda _: site_of_sync() == site,
        )
        .counts
    )


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it judges the storage floor itself")
    with ProcessPoolExecutor() as processes:
        searches = {name: processes.submit(search, name, options.quick) for name in ALL}
        total = 0
        for name, running in searches.items():
            counts = running.result()
            total += counts.after_one_loss + counts.after_more
            suite.check(name, counts.failing == 0 and counts.settled > 0, f"{counts} {dict(counts.failures) or ''}")
        failing = {
            (name, ordered): processes.submit(search_failures, name, ordered, options.quick)
            for ordered in ([True] if options.quick else [True, False])
            for name in FAILING
        }
        for (name, ordered), running_failures in failing.items():
            failures, moments, counts = running_failures.result()
            total += counts.after_one_loss
            told = f"{failures} failures, {moments} different moments, {counts} {dict(counts.failures) or ''}"
            order = "in order" if ordered else "in any order"
            suite.check(f"{name}, {order}", counts.failing == 0 and counts.settled > 0, told)
        suite.note(f"{total} different disks in all")
        if options.quick:
            return
        found = dict(zip(ALL, processes.map(sites_of, ALL), strict=True))
        mutants = {
            (site, name): processes.submit(without, site, name)
            for site in sorted(set().union(*found.values()))
            for name in ALL
            if site in found[name] and (name in SITES_RECOVERED or not is_of_recovery(site))
        }
        for site in sorted({site for site, _ in mutants}):
            wrong = {
                name: disks
                for (each, name), running in mutants.items()
                if each == site and (disks := running.result().failing)
            }
            told = f"{sum(wrong.values())} disks are wrong without the sync in {site}"
            if ".prepare_swap" in site or ".change_suffix" in site:
                suite.check(told, bool(wrong), wrong)
            else:
                suite.note(f"{told}: {wrong or ''}")


if __name__ == "__main__":
    sys.exit(run_suite("crashes", body, doc=__doc__))
