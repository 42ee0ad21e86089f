"""The test bed of installs: a data directory with a plan and its result, and the processes that work there."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BATCHES = 24
KEYS = 5
NOW_MS = time.time_ns() // 1_000_000
"""The time of the plan: commands use the wall clock, and install no outdated plan."""
PATIENCE_S = 300
COUNTING = Path(__file__).with_name("counting")
Values = dict[bytes | None, bytes | None]


def key_of(number: int) -> str:
    """Return the key of the record at this offset. Part of the first group survives."""
    return f"k{number % KEYS}" if number else "first"


class Ground:
    """A data directory with a plan and its result, and a copy of both.

    Attributes:
        data: The data directory.
        beside: The staging folder.
        staging: The plan's own directory in it.
        values: The final values of a consumer of the topic `t`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.beside = directory / "data.ottla-pipeline"
        self.staging = self.beside
        self.values: Values = {}
        self._saved = directory / "saved"

    def prepare(self) -> Values:
        """Fill a broker's topic, stop it, plan and compact. Returns what a consumer ends with."""
        import ottla
        from ottla.pipeline.compaction.local import compact_locally
        from ottla.pipeline.compaction.plan import make_plan
        from ottla.pipeline.compaction.staging import save_plan
        from ottla.pipeline.stores.reading_files import ReadingFiles
        from ottla.pipeline.stores.store import Store
        from ottla.pipeline.stores.stored_log import open_log
        from ottla.storage.disk.os_files import OsFiles
        from ottla.storage.disk.paths import TopicPartition
        from support.broker.compacting import create_compacted, last_values
        from support.broker.conversation import produce
        from support.broker.raw_client import RawClient

        with ottla.Broker(str(self.data)) as broker:
            host, _, port = broker.bootstrap.rpartition(":")
            with RawClient(host, int(port)) as client:
                create_compacted(client, "t", min_cleanable_dirty_ratio=1, internal_segment_bytes=4_000)
                for number in range(BATCHES):
                    produce(client, "t", (key_of(number), f"{number}" * 500))
                self.values = last_values(client, "t")
        store = Store(str(self.data))
        config = store.config_of("t", {"internal.segment.bytes": "12000"})  # so that groups have several segments
        with open_log(store, TopicPartition("t", 0), now_ms=NOW_MS, config=config) as log:
            plan = make_plan(log, data_dir=str(self.data), checkpoint=None, now_ms=NOW_MS, secret=bytes(range(16)))
        save_plan(OsFiles(), plan)
        compact_locally(plan, source_files=ReadingFiles(), files=OsFiles())
        assert len(plan.groups) > 1
        self.staging = Path(plan.staging)
        self._saved.mkdir()
        shutil.copytree(self.data, self._saved / "data")
        shutil.copytree(self.beside, self._saved / "beside")
        return self.values

    def restore(self) -> None:
        """Restore the state after `prepare`."""
        for saved, there in (("data", self.data), ("beside", self.beside)):
            if there.is_symlink():
                there.unlink()
            elif there.exists():
                shutil.rmtree(there)
            shutil.copytree(self._saved / saved, there, symlinks=True)

    def plan(self) -> dict[str, Any]:
        """Return the contents of the plan."""
        found = json.loads((self.staging / "plan.json").read_text())
        assert isinstance(found, dict)
        return found

    def files(self) -> dict[str, bytes]:
        """Return the partition's segments."""
        return {
            path.name: path.read_bytes()
            for path in sorted((self.data / "t-0").glob("0*"))
            if not path.name.endswith(".snapshot")
        }

    def below(self) -> dict[str, bytes]:
        """Return the segments that the plan is about."""
        end = f"{self.plan()['upper_offset']:020}" if (self.staging / "plan.json").exists() else "9"
        return {name: data for name, data in self.files().items() if name < end and not name.endswith(".deleted")}

    def snapshot(self) -> dict[str, bytes | str]:
        """Return every file of data directory and staging that only an install changes; for links, their targets."""
        found: dict[str, bytes | str] = {}
        for path in [*(self.data / "t-0").rglob("*"), *self.beside.rglob("*")]:
            if path.is_symlink():
                found[str(path)] = os.readlink(path)
            elif path.is_file():
                found[str(path)] = path.read_bytes()
        return found

    def untouched(self) -> dict[str, bytes | str]:
        """Return `snapshot` without the hard links to the log's files."""
        return {name: data for name, data in self.snapshot().items() if "/originals/" not in name}


class Steps:
    """The steps that a counted process has taken; see `counting/sitecustomize`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def environment(self, at: int, number: int) -> dict[str, str]:
        """Return the environment of a process that gets signal `number` before step `at`; with -1 it only reports.

        Clears earlier reports.
        """
        self._path.unlink(missing_ok=True)
        return {
            "PYTHONPATH": str(COUNTING),
            "INSTALLS_AT": str(at),
            "INSTALLS_SIGNAL": str(number),
            "INSTALLS_STEPS": str(self._path),
        }

    def names(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables in the environment of the processes that are started inside."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Driver:
    """`ottla-spark` in a process of its own, without Spark."""

    def __init__(self, *arguments: str | Path) -> None:
        command = [sys.executable, "-m", "ottla.pipeline.cli", *map(str, arguments), "--master", "none", "--quiet"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait(self) -> tuple[int, str]:
        """Exit code and output."""
        output, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, output.strip()

    def wait_until_stopped(self) -> None:
        """Return when SIGSTOP has reached the process. RuntimeError if it ends before."""
        state = Path(f"/proc/{self.process.pid}/stat")
        while state.read_text().rpartition(")")[2].split()[0] != "T":
            if self.process.poll() is not None:
                raise RuntimeError(f"it has ended: {self.wait()}")
            time.sleep(0.02)

    def go_on(self) -> tuple[int, str]:
        """SIGCONT; then as `wait`."""
        self.process.send_signal(signal.SIGCONT)
        return self.wait()
