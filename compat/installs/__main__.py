"""Installs of what the pipeline has staged: power lost and processes killed before every file operation.

First a simulated disk: every disk that a loss of power may leave in four installs, and in the recovery after it, is opened
by the server's own loader, and the install is called again. Then real processes on real files: an install is killed
before each of its operations, `ottla serve` starts and must serve the newest value of every key, and the second install
must leave the very files that an undisturbed one leaves.
"""

import importlib.util
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ..support.suite import NotRunError, Options, Suite, run_suite
from .ground import PATIENCE_S, Ground, Values


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it starts one after each kill")
    if importlib.util.find_spec("numpy") is None:
        raise NotRunError("NumPy: pip install 'ottla[spark]'")
    power(suite, options.quick)
    directory = Path(tempfile.mkdtemp(prefix="ottla-installs-"))
    try:
        run(suite, Kills(directory), options.quick)
    finally:
        if options.keep:
            suite.note(f"kept: {directory}")
        else:
            shutil.rmtree(directory)


def power(suite: Suite, quick: bool) -> None:
    """Lose power wherever it can be lost."""
    from .power import search_all, without_a_sync

    with ProcessPoolExecutor() as processes:
        search_all(suite, processes, "offline", quick)
        if not quick:  # one disk of thousands is wrong
            told, wrong = processes.submit(without_a_sync).result()
            suite.check("without the sync of the links that it makes, disks are wrong", bool(wrong), told)


def run(suite: Suite, kills: "Kills", quick: bool) -> None:
    values = kills.prepare()
    code, operations = kills.install(-1)
    expected = kills.files()
    suite.check("an undisturbed install", code == 0 and kills.served() == values, f"{len(operations)} operations")
    numbers = [at for at, name in enumerate(operations) if name == "rename"][::6] if quick else range(len(operations))
    lost, ended, other = list[str](), list[str](), list[str]()
    for number in numbers:
        name = f"{operations[number]} {number}"
        kills.restore()
        code, _ = kills.install(number)
        if code != -signal.SIGKILL:
            ended.append(f"{name}: {code}")
        if kills.served() != values:
            lost.append(name)
        code, _ = kills.install(-1)
        if code != 0 or kills.files() != expected:
            other.append(name)
    count = len(numbers)
    suite.equal(f"{count} installs are killed", [], ended)
    suite.equal(f"the server starts after each of {count} kills and has lost nothing", [], lost)
    suite.equal(
        f"after each of {count} kills the install, called again, leaves what an undisturbed one leaves", [], other
    )
    kills.restore()
    suite.check("the tested directory is unchanged", kills.served() == values)


class Kills(Ground):
    """A ground, and installs and servers on it."""

    def install(self, number: int) -> tuple[int, list[str]]:
        """Exit code and operations of a process that installs, killed before operation `number`."""
        done = subprocess.run(
            [sys.executable, "-m", "compat.installs.killed", str(self.staging), str(number)],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.returncode, done.stdout.split()

    def served(self) -> Values:
        """Return the final values of a consumer of a server on the directory.

        The server's cleaner is off, as it would do the same work.
        """
        from support.broker.compacting import last_values
        from support.broker.raw_client import RawClient
        from support.broker.serve_process import ServeProcess

        off = ("--override", "log.cleaner.enable=false")
        with ServeProcess("--data", self.data, "--listener", "127.0.0.1:0", *off) as server:
            with RawClient(*server.addresses[0]) as client:
                values = last_values(client, "t")
            server.stop()
        return values


if __name__ == "__main__":
    sys.exit(run_suite("installs", body, doc=__doc__))
