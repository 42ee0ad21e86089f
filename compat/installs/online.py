"""Installs through a running server, in real processes: `python -m compat.installs.online`.

A broker serves, one client writes and another reads all the time, and `ottla-spark install --admin` works on a topic.
Server or driver are killed before each of their steps, the server starts again, and the install is called again. Then all
concurrent events: truncations, deletions, other drivers, cleaners, bad addresses, bad requests, bad files.
"""

import importlib.util
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ottla.pipeline.errors import PipelineError

from ..support.suite import NotRunError, Options, Suite, run_suite
from . import meanwhile, refusals
from .ground import NOW_MS, PATIENCE_S, Driver, Ground, Steps, environment
from .power import search_all
from .served import Served
from .traffic import Traffic, values_of


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it starts and kills its own")
    if sys.platform != "linux":
        raise NotRunError("Linux: it looks at descriptors in /proc")
    for module in ("numpy", "pyarrow"):
        if importlib.util.find_spec(module) is None:
            raise NotRunError(f"{module}: pip install 'ottla[spark]'")
    with ProcessPoolExecutor(WORKERS) as processes:
        shares = 1 if options.quick else SHARES
        running = [
            processes.submit(job, work, options.quick, options.keep, share, shares)
            for work in JOBS
            for share in range(shares if work in DIVIDED else 1)
        ]
        for each in running:
            for what, holds, detail in each.result():
                suite.check(what, holds, detail)
        search_all(suite, processes, "online", options.quick)


class Rows(Suite):
    """The checks of another process."""

    def __init__(self) -> None:
        super().__init__("installs.online")
        self.rows: list[tuple[str, bool, str]] = []

    def check(self, what: str, holds: bool, detail: object = "") -> bool:
        self.rows.append((what, holds, str(detail)))
        return holds

    def skip(self, what: str, reason: str) -> None:
        self.rows.append((f"{what} (not looked at: {reason})", True, ""))


def job(work: str, quick: bool, keep: bool, share: int, shares: int) -> list[tuple[str, bool, str]]:
    """Run one of `JOBS` on a data directory of its own, with one in `shares` of its steps; in a process of its own."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-installs-"))
    rows, ground = Rows(), Ground(directory)
    try:
        ground.prepare()
        JOBS[work](rows, ground, quick, share, shares)
    finally:
        if not keep:
            shutil.rmtree(directory)
    return rows.rows


def kill_servers(suite: Suite, ground: Ground, quick: bool, share: int, shares: int) -> None:
    """Kill the server before each step that it takes, until there is none any more."""
    steps = Steps(ground.directory / "server.steps")
    ground.restore()
    with Served(ground) as server:
        with environment(steps.environment(-1, 0)):
            server.start()
        code, text = Driver("install", ground.data, "--admin", server.admin).wait()
        server.wait_until_tidy()
        names, expected = steps.names(), ground.below()
    suite.check("an undisturbed install through a server", code == 0, f"{text}; {len(names)} steps of the server")
    numbers = [len(names) // 2] if quick else range(share, len(names), shares)
    killed, wrong, records = 0, list[str](), 0
    for number in numbers:
        ground.restore()
        with Served(ground) as server:
            with environment(steps.environment(number, signal.SIGKILL)):
                server.start()
            traffic = Traffic(server.bootstrap)
            first = install_here(ground, server)
            is_killed = server.is_dead(first is None)
            killed += is_killed
            server.kill()
            server.start()
            found = [] if first is None or first.exit_code in (1, 6) else [f"another refusal: {first}"]
            if not is_killed and (taken := len(steps.names())) > number:
                found.append(f"not killed, and it took {taken} steps")
            if (again := install_here(ground, server)) is not None:
                found.append(f"again: {again}")
            found += traffic.finish()
            records += traffic.count
            found += judged(ground, server, traffic, expected)
            wrong += [f"{number} {(steps.names() or ['?'])[-1]}: {each}" for each in found]
    told = f"{killed} kills, {len(numbers)} runs, {records} records written meanwhile"
    # Its last steps, syncs of the directory, are fewer where it has other work: a run that has none left is not killed.
    suite.check(
        "the server is killed before steps of an install; it is called again", killed > len(numbers) * 3 // 4, told
    )
    suite.equal(f"nothing is lost in {len(numbers)} runs, and each leaves what an undisturbed one leaves", [], wrong)


def install_here(ground: Ground, server: Served) -> PipelineError | None:
    """Install from this process; return the error if the install did not finish."""
    from ottla.pipeline.compaction.staging import load_plan
    from ottla.pipeline.install.install_online import install_online
    from ottla.storage.disk.os_files import OsFiles

    try:
        install_online(load_plan(OsFiles(), str(ground.staging)), server.admin, OsFiles(), now_ms=NOW_MS)
    except PipelineError as error:
        return error
    return None


def judged(ground: Ground, server: Served, traffic: Traffic, expected: dict[str, bytes]) -> list[str]:
    """Return what is wrong after an install has ended."""
    found = []
    if values_of(server.bootstrap) != traffic.newest(ground.values):
        found.append("newest values are lost")
    server.wait_until_tidy()
    if (there := ground.below()) != expected:
        names = [name for name in {*there, *expected} if there.get(name) != expected.get(name)]
        found.append(f"other files: {sorted(names)[:5]}")
    if not (ground.staging / "installed").exists():
        found.append("it is not complete")
    return found


def kill_drivers(suite: Suite, ground: Ground, quick: bool, share: int, shares: int) -> None:
    """Kill the driver before each step; every other time the server starts again, else the lease runs out."""
    steps = Steps(ground.directory / "driver.steps")
    ground.restore()
    with Served(ground) as server:
        server.start()
        with environment(steps.environment(-1, 0)):
            code, text = Driver("install", ground.data, "--admin", server.admin).wait()
        server.wait_until_tidy()
        names, expected = steps.names(), ground.below()
        suite.check("an undisturbed driver", code == 0, f"{text}; {len(names)} steps of the driver")
    calls = [number for number, name in enumerate(names) if name.startswith("ask") or name == "hear"]
    numbers = calls[len(calls) // 2 :: len(calls)] if quick else range(share, len(names), shares)
    wrong, records = list[str](), 0
    for number in numbers:
        ground.restore()
        with Served(ground) as server:
            server.start()
            traffic = Traffic(server.bootstrap)
            with environment(steps.environment(number, signal.SIGKILL)):
                code, text = Driver("install", ground.data, "--admin", server.admin).wait()
            found = [] if code == -signal.SIGKILL else [f"it was not killed: {code} {text}"]
            # A stop by which the server knows, and one by which it does not.
            server.restart(kill=number % 2 == 0)
            code, text = Driver("install", ground.data, "--admin", server.admin).wait()
            # Before its last sync it had marked the plan as installed.
            if code != 0 and not (number == len(names) - 1 and "found none" in text):
                found.append(f"again: {code} {text}")
            found += traffic.finish()
            records += traffic.count
            found += judged(ground, server, traffic, expected)
            wrong += [f"{number} {names[number]}: {each}" for each in found]
    suite.equal(
        f"the driver is killed before {len(numbers)} steps, the server starts again, the install is called again:"
        f" nothing is lost ({records} records written during it)",
        [],
        wrong,
    )
    if share == 0 and not quick:
        die_with_a_lease(suite, ground, expected)


SHORT_LEASE = """
import sys
from ottla.pipeline.install.install_online import install_online
from ottla.pipeline.compaction.staging import load_plan
from ottla.storage.disk.os_files import OsFiles
install_online(load_plan(OsFiles(), sys.argv[1]), sys.argv[2], OsFiles(), now_ms=1, lease_ms=20_000)
"""


def die_with_a_lease(suite: Suite, ground: Ground, expected: dict[str, bytes]) -> None:
    """Check that the server stays up, and that the next caller waits until the lease has expired, and no longer."""
    steps = Steps(ground.directory / "driver.steps")
    ground.restore()
    with Served(ground) as server:
        server.start()
        traffic = Traffic(server.bootstrap)
        with environment(steps.environment(9, signal.SIGKILL)):
            died = subprocess.run(
                [sys.executable, "-c", SHORT_LEASE, ground.staging, server.admin], check=False, timeout=PATIENCE_S
            )
        code, text = Driver("install", ground.data, "--admin", server.admin).wait()
        suite.check(
            "a driver dies; its lease still keeps another one off",
            (died.returncode, code) == (-signal.SIGKILL, 2) and "t-0 is already leased until" in text,
            text,
        )
        while server.status()["lease_expires_ms"] is not None:
            time.sleep(0.1)
        code, text = Driver("install", ground.data, "--admin", server.admin).wait()
        suite.check("until it has run out: then the install continues", code == 0, text)
        suite.equal("and nothing is lost", [], traffic.finish() + judged(ground, server, traffic, expected))


DIVIDED = {"servers": kill_servers, "drivers": kill_drivers}
JOBS: Mapping[str, Callable[[Suite, Ground, bool, int, int], None]] = {
    **DIVIDED,
    "meanwhile": lambda suite, ground, quick, *_: meanwhile.run(suite, ground, quick),
    "refusals": lambda suite, ground, quick, *_: refusals.run(suite, ground, quick),
}
SHARES = 2
WORKERS = 4
"""More workers than processors, as they mostly wait for each other's processes."""

if __name__ == "__main__":
    sys.exit(run_suite("installs.online", body, doc=__doc__))
