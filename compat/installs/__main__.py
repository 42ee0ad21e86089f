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

BATCHES = 24
KEYS = 5
NOW_MS = 10**12
PATIENCE_S = 300
Values = dict[bytes | None, bytes | None]


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
    from support.install_lives import INSTALLS

    jobs = [(name, with_server) for name in INSTALLS for with_server in (True, False)]
    with ProcessPoolExecutor() as processes:
        for (name, with_server), (told, wrong) in zip(
            jobs, processes.map(search, *zip(*jobs, strict=True), [quick] * len(jobs)), strict=True
        ):
            then = "a server starts" if with_server else "it is called again"
            suite.check(f"power lost in an install {name}; then {then}", not wrong, told)
        told, wrong = processes.submit(without_a_sync).result()
        suite.check("without the sync of the links that it makes, disks are wrong", bool(wrong), told)


def search(name: str, with_server: bool, quick: bool) -> tuple[str, int]:
    """What was found, and how many disks are wrong."""
    from support import crash_files
    from support.install_lives import INSTALLS, search

    # Of more operations that are not synced, any two may be missing; so many in all ways.
    crash_files.CHANGES_MAX = 6 if quick else 8
    thinned = (
        {"losses": 1, "thinned_to": 24} if quick else {"losses": 2, "recover_thinned_to": 32, "later_thinned_to": 32}
    )
    counts = search(INSTALLS[name](), with_server=with_server, **thinned)
    return f"{counts} {dict(counts.failures) or ''}", counts.failing


def without_a_sync() -> tuple[str, int]:
    """As `search`, of a link_into whose sync does nothing."""
    from support import crash_files
    from support.install_lives import search, staged

    crash_files.CHANGES_MAX = 8
    life = staged()
    life.files.skipped = lambda _: is_in("link_into")
    counts = search(life, with_server=True, losses=1)
    return str(counts), counts.failing


def is_in(name: str) -> bool:
    """Whether a function of this name is being called."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == name:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def run(suite: Suite, kills: "Kills", quick: bool) -> None:
    values = kills.prepare()
    code, operations = kills.install(-1)
    expected = kills.files()
    suite.check("an undisturbed install", code == 0 and kills.served() == values, f"{len(operations)} operations")
    numbers = [at for at, name in enumerate(operations) if name == "rename"][::3] if quick else range(len(operations))
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
    suite.check("what it was tried on is what it was", kills.served() == values)


class Kills:
    """A data directory with a plan and its result beside it, and a copy of both."""

    def __init__(self, directory: Path) -> None:
        self._data = directory / "data"
        self._beside = directory / "data.ottla-pipeline"
        self._saved = directory / "saved"
        self._staging = self._beside

    def prepare(self) -> Values:
        """Fill a broker's topic, stop it, plan and compact. Returns what a consumer ends with."""
        import ottla
        from ottla.pipeline.local import compact_locally
        from ottla.pipeline.plan import make_plan
        from ottla.pipeline.staging import save_plan
        from ottla.pipeline.store import ReadingFiles, Store
        from ottla.storage.files import OsFiles
        from ottla.storage.paths import TopicPartition
        from support.compacting import create_compacted, last_values
        from support.conversation import produce
        from support.raw_client import RawClient

        with ottla.Broker(str(self._data)) as broker:
            host, _, port = broker.bootstrap.rpartition(":")
            with RawClient(host, int(port)) as client:
                create_compacted(client, "t", min_cleanable_dirty_ratio=1, internal_segment_bytes=4_000)
                for number in range(BATCHES):
                    produce(client, "t", (f"k{number % KEYS}", f"{number}" * 500))
                values = last_values(client, "t")
        with Store(str(self._data)).open_log(TopicPartition("t", 0), now_ms=NOW_MS) as log:
            plan = make_plan(log, data_dir=str(self._data), checkpoint=None, now_ms=NOW_MS, secret=bytes(range(16)))
        save_plan(OsFiles(), plan)
        compact_locally(plan, source_files=ReadingFiles(), files=OsFiles())
        assert len(plan.groups) > 1
        self._staging = Path(plan.staging)
        self._saved.mkdir()
        shutil.copytree(self._data, self._saved / "data")
        shutil.copytree(self._beside, self._saved / "beside")
        return values

    def restore(self) -> None:
        """All as it was after `prepare`."""
        for saved, there in (("data", self._data), ("beside", self._beside)):
            shutil.rmtree(there)
            shutil.copytree(self._saved / saved, there)

    def install(self, number: int) -> tuple[int, list[str]]:
        """Exit code and operations of a process that installs, killed before operation `number`."""
        done = subprocess.run(
            [sys.executable, "-m", "compat.installs.killed", str(self._staging), str(number)],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.returncode, done.stdout.split()

    def served(self) -> Values:
        """What a consumer of a server on the directory ends with; its cleaner is off, for it would do the same."""
        from support.compacting import last_values
        from support.raw_client import RawClient
        from support.serve_process import ServeProcess

        off = ("--override", "log.cleaner.enable=false")
        with ServeProcess("--data", self._data, "--listener", "127.0.0.1:0", *off) as server:
            with RawClient(*server.addresses[0]) as client:
                values = last_values(client, "t")
            server.stop()
        return values

    def files(self) -> dict[str, bytes]:
        """The partition's segments."""
        return {
            path.name: path.read_bytes()
            for path in sorted((self._data / "t-0").glob("0*"))
            if not path.name.endswith(".snapshot")
        }


if __name__ == "__main__":
    sys.exit(run_suite("installs", body, doc=__doc__))
