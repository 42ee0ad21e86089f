"""The life of a whole server: power loss and a kill before every file operation, and every operation refused.

Prints the number of disks on which a restart was tried. A restart must find what was answered before.
"""

import logging
import sys
from concurrent.futures import ProcessPoolExecutor

from support.disk.crash_search import Counts
from support.lives.server_crashes import DAYS, ERRNOS, MOVES, SHARES, Refusals, power_losses, refusals

from ..support.suite import NotRunError, Options, Suite, run_suite

PARTS = 8
"""The number of tasks that share the refusals."""
POWER_PARTS = 4
"""The number of tasks that share the disks after a power loss in a full run.

Each task finds them all, which is cheap compared with restarts.
"""
THINNED_TO = {"": 8, "moves: ": 512, "share states: ": 768}
"""One in this number of the disks that a power loss may leave is restarted; after a refusal, one in REFUSED_THINNED_TO."""
KILLED_THINNED_TO = {"": 1, "moves: ": 16, "share states: ": 16}
"""One in this number of the disks that a killed process leaves is restarted."""
REFUSED_THINNED_TO = 1024
RECOVERY_THINNED_TO = {"": (64, 8), "moves: ": (256, 64), "share states: ": (256, 64)}
"""(N, M): power is also lost in the restart of one in N of those disks, and one in M of the resulting disks is restarted."""
SCRIPTS = {"": DAYS, "moves: ": MOVES, "share states: ": SHARES}
REFUSED_ONE_IN = 4
"""A full run refuses every fourth file operation, each in a life of its own."""
QUICK = {"": 192, "moves: ": 8, "share states: ": 24}
"""The factor by which a quick run checks fewer disks after a power loss or a kill."""
QUICK_REFUSED_ONE_IN = {"": 768, "moves: ": 192, "share states: ": 192}


def lose_power(of: str, part: int, quick: bool) -> Counts:
    """Run one part of the power losses and kills."""
    logging.disable()
    less = QUICK[of] if quick else 1
    recover_thinned_to, later_thinned_to = RECOVERY_THINNED_TO[of]
    return power_losses(
        SCRIPTS[of],
        thinned_to=THINNED_TO[of] * less,
        killed_thinned_to=KILLED_THINNED_TO[of] * less,
        losses=1 if quick else 2,
        recover_thinned_to=recover_thinned_to,
        later_thinned_to=later_thinned_to,
        part=part,
        parts=1 if quick else POWER_PARTS,
    )


def refuse(of: str, name: str, for_good: bool, part: int, quick: bool) -> Refusals:
    """Run one part of the refusals."""
    logging.disable()
    step = QUICK_REFUSED_ONE_IN[of] if quick else PARTS * REFUSED_ONE_IN
    return refusals(ERRNOS[name], SCRIPTS[of], first=part, step=step, for_good=for_good, thinned_to=REFUSED_THINNED_TO)


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it runs one of its own on a disk in memory")
    kinds = [(of, name, for_good) for of in SCRIPTS for name in ERRNOS for for_good in (False, True)]
    parts = range(1 if options.quick else PARTS)
    power_parts = range(1 if options.quick else POWER_PARTS)
    with ProcessPoolExecutor() as processes:
        power = {of: [processes.submit(lose_power, of, part, options.quick) for part in power_parts] for of in SCRIPTS}
        refused = {kind: [processes.submit(refuse, *kind, part, options.quick) for part in parts] for kind in kinds}
        for (of, name, for_good), running in refused.items():
            ended = [each.result() for each in running]
            failures = {told: number for each in ended for told, number in each.failures.items()}
            lives, disks = sum(each.lives for each in ended), sum(each.disks for each in ended)
            told = f"{of}a {name} disk that refuses one operation{' and all after it' if for_good else ''}"
            suite.check(told, not failures and disks >= lives, f"{lives} lives, {disks} disks {failures or ''}")
        for of, running_power in power.items():
            counts = sum((each.result() for each in running_power), Counts())
            told = f"{counts} {dict(counts.failures) or ''}"
            suite.check(f"{of}power losses and kills", counts.failing == 0 and counts.settled > 0, told)


if __name__ == "__main__":
    sys.exit(run_suite("server_crashes", body, doc=__doc__))
