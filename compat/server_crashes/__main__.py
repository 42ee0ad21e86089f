"""A life of the whole server: power lost and the process killed before every file operation, and every one refused.

Prints how many disks a restart was tried on. What it finds must be what was answered before.
"""

import logging
import sys
from concurrent.futures import ProcessPoolExecutor

from support.lives.server_crashes import DAYS, ERRNOS, MOVES, Refusals, power_losses, refusals

from ..support.suite import NotRunError, Options, Suite, run_suite

PARTS = 8
"""The refusals are dealt out to so many tasks."""
THINNED_TO = 8
"""Of the disks that a power loss may leave, one in so many is started on; after a refusal, one in REFUSED_THINNED_TO."""
REFUSED_THINNED_TO = 1024
RECOVERY_THINNED_TO = 64
"""Power is lost in the restart, too, on one disk in so many of those."""
SCRIPTS = {"": DAYS, "moves: ": MOVES}
QUICK = {"": 48, "moves: ": 240}
"""How much less a quick run does; there are more disks in a life of moves, and more logs on each."""


def lose_power(of: str, quick: bool) -> str:
    """All power losses and kills; what was wrong, if anything was."""
    logging.disable()
    less = QUICK[of] if quick else 1
    counts = power_losses(
        SCRIPTS[of],
        thinned_to=THINNED_TO * less,
        killed_thinned_to=less,
        losses=1 if quick else 2,
        recover_thinned_to=RECOVERY_THINNED_TO,
    )
    return f"{counts} {dict(counts.failures) or ''}"


def refuse(of: str, name: str, for_good: bool, part: int, quick: bool) -> Refusals:
    """One part of the refusals."""
    logging.disable()
    step = PARTS * (QUICK[of] if quick else 1)
    return refusals(ERRNOS[name], SCRIPTS[of], first=part, step=step, for_good=for_good, thinned_to=REFUSED_THINNED_TO)


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it runs one of its own on a disk in memory")
    kinds = [(of, name, for_good) for of in SCRIPTS for name in ERRNOS for for_good in (False, True)]
    with ProcessPoolExecutor() as processes:
        # Those of moves take minutes however few disks are tried, for a life is long; `make test` has some of them.
        power = {of: processes.submit(lose_power, of, options.quick) for of in SCRIPTS if not (options.quick and of)}
        refused = {
            kind: [processes.submit(refuse, *kind, part, options.quick) for part in range(PARTS)] for kind in kinds
        }
        for (of, name, for_good), running in refused.items():
            parts = [each.result() for each in running]
            failures = {told: number for each in parts for told, number in each.failures.items()}
            lives, disks = sum(each.lives for each in parts), sum(each.disks for each in parts)
            told = f"{of}a {name} disk that refuses one operation{' and all after it' if for_good else ''}"
            suite.check(told, not failures and disks >= lives, f"{lives} lives, {disks} disks {failures or ''}")
        for of, one in power.items():
            found = one.result()
            suite.check(f"{of}power losses and kills", " 0 wrong " in found, found)


if __name__ == "__main__":
    sys.exit(run_suite("server_crashes", body, doc=__doc__))
